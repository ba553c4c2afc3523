"""Configurations of servers for the cases that need them: as shipped, with more enabled, with users."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aiorocketmq.config import Credentials

LOG_FILE = 2 << 20
"""Bytes of one file of a short log."""
ADMINISTRATOR = Credentials("conformance", "conformance-secret")
"""The first user of a server with authentication; it is deleted with the run."""
_AUTH = "org.apache.rocketmq.auth"
_LOCAL = {
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
# A proxy queries its broker for users and permissions.
_PROXIED = {
    "authenticationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider",
    "authorizationMetadataProvider": "org.apache.rocketmq.proxy.auth.ProxyAuthorizationMetadataProvider",
}
_ASKS = {
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "initAuthenticationUser": json.dumps(
        {"username": ADMINISTRATOR.access_key, "password": ADMINISTRATOR.secret_key}
    ),
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": ADMINISTRATOR.access_key, "secretKey": ADMINISTRATOR.secret_key}
    ),
}

_SHORT_LOG = {
    "mappedFileSizeCommitLog": str(LOG_FILE),
    "mappedFileSizeConsumeQueue": "20000",
    "fileReservedTime": "0",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration of a server; its lines override those of every server of the suite."""

    name: str
    serves: frozenset[str] = frozenset()
    """Its capabilities in addition to those of a server as shipped."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """Lines of broker.conf."""
    proxy: Mapping[str, object] = field(default_factory=dict)
    """Entries of the proxy's JSON."""
    administrator: Credentials | None = None
    """The user that creates topics and groups if the server has authentication."""


AS_SHIPPED = Setup("as shipped")


@dataclass(frozen=True, slots=True)
class Setups:
    """The configurations of servers of one version and mode."""

    switched_on: Setup
    """With what is disabled as shipped: mixed topics, recall, and behind a separate proxy lite topics."""
    restarted: Setup
    """The same, for a server that is restarted while others keep running."""
    users: Setup
    """A server with authentication and authorization."""
    closed: Setup
    """A server on which only administrators create topics and groups."""
    trimmed: Setup
    """A server with a short log, of which it deletes all but the newest files on request."""

    @property
    def serves(self) -> frozenset[str]:
        """All capabilities in addition to those of a server as shipped."""
        own = (self.switched_on, self.restarted, self.users, self.closed, self.trimmed)
        return frozenset().union(*(setup.serves for setup in own))

    def of(self, needs: Collection[str]) -> Setup:
        """Return the configuration for a case with these needs."""
        if "auth" in needs:
            return self.users
        if "closed" in needs:
            return self.closed
        if "@trim" in needs:
            return self.trimmed
        if "@restart" in needs or "@process" in needs:
            return self.restarted
        return self.switched_on if self.switched_on.serves.intersection(needs) else AS_SHIPPED


def setups(version: str, mode: str) -> Setups:
    """Return the configurations of Apache RocketMQ `version` in `mode` (`local` or `cluster`)."""
    number = tuple(map(int, version.split(".")))
    serves, broker = {"type.mixed"}, {"enableMixedMessageType": "true"}
    if number >= (5, 3):
        serves.add("recall")
        broker["recallMessageEnable"] = "true"
    if number >= (5, 5) and mode == "cluster":
        serves.add("type.lite")
        broker |= {"enableLmq": "true", "enableMultiDispatch": "true"}
    users = Setup("with users")
    if number >= (5, 3):
        switches = {"authenticationEnabled": True, "authorizationEnabled": True}
        lines = {name: str(on).lower() for name, on in switches.items()}
        users = Setup(
            "with users",
            frozenset({"auth", "@acl"}),
            {**lines, **_ASKS, **_LOCAL, "recallMessageEnable": "true"},
            # Without the hook a separate proxy does not sign its requests to the broker, and does not start.
            {**switches, **_ASKS, **_PROXIED, "enableAclRpcHookForClusterMode": True},
            ADMINISTRATOR,
        )
    switched_on = Setup("switched on", frozenset(serves), broker)
    restarted = Setup("restarted", frozenset(serves | {"@restart", "@process"}), broker)
    closes = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}
    closed = Setup("closed", frozenset({"closed"}), closes)
    # An hour of deletion that is not reached during a run: cases request deletions.
    hour = (datetime.now().astimezone() + timedelta(hours=12)).hour
    trimmed = Setup("trimmed", frozenset({"@trim"}), {**_SHORT_LOG, "deleteWhen": f"{hour:02}"})
    return Setups(switched_on, restarted, users, closed, trimmed)
