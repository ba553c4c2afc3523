"""How a server is configured for the cases that need it so: as shipped, with more switched on, with users."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aiorocketmq.config import Credentials

LOG_FILE = 2 << 20
"""Bytes of one file of a short log."""
ADMINISTRATOR = Credentials("conformance", "conformance-secret")
"""The first user of a server that asks who calls; it lives as long as its run."""
_AUTH = "org.apache.rocketmq.auth"
_LOCAL = {
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}
# A proxy asks its broker for users and rights.
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
    """One configuration of a server; the lines are laid over those of every server of the suite."""

    name: str
    serves: frozenset[str] = frozenset()
    """Capabilities that it has beyond those of a server as shipped."""
    broker: Mapping[str, str] = field(default_factory=dict)
    """Lines of broker.conf."""
    proxy: Mapping[str, object] = field(default_factory=dict)
    """Entries of the proxy's JSON."""
    administrator: Credentials | None = None
    """Who may prepare topics and groups where the server asks who calls."""


AS_SHIPPED = Setup("as shipped")


@dataclass(frozen=True, slots=True)
class Setups:
    """The configurations that servers of one version and mode are given."""

    switched_on: Setup
    """What servers are shipped without: mixed topics, recall, and behind a separate proxy lite topics."""
    restarted: Setup
    """The same, for a server that is restarted while others go on."""
    users: Setup
    """A server that asks who calls and what they may do."""
    closed: Setup
    """A server on which administrators alone make topics and groups."""
    trimmed: Setup
    """A server with a short log, of which it deletes all but the newest files when it is asked to."""

    @property
    def serves(self) -> frozenset[str]:
        """What any of them has beyond a server as shipped."""
        own = (self.switched_on, self.restarted, self.users, self.closed, self.trimmed)
        return frozenset().union(*(setup.serves for setup in own))

    def of(self, needs: Collection[str]) -> Setup:
        """The configuration for a case with these needs."""
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
    """What Apache RocketMQ `version` can be configured for in `mode` (`local` or `cluster`)."""
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
        told = {name: str(on).lower() for name, on in switches.items()}
        users = Setup(
            "with users",
            frozenset({"auth", "@acl"}),
            {**told, **_ASKS, **_LOCAL},
            # Without the hook a separate proxy signs nothing that it asks of its broker, and does not even start.
            {**switches, **_ASKS, **_PROXIED, "enableAclRpcHookForClusterMode": True},
            ADMINISTRATOR,
        )
    switched_on = Setup("switched on", frozenset(serves), broker)
    restarted = Setup("restarted", frozenset(serves | {"@restart", "@process"}), broker)
    closes = {"autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false"}
    closed = Setup("closed", frozenset({"closed"}), closes)
    # An hour of deletion that does not come while cases run: they ask for it.
    hour = (datetime.now().astimezone() + timedelta(hours=12)).hour
    trimmed = Setup("trimmed", frozenset({"@trim"}), {**_SHORT_LOG, "deleteWhen": f"{hour:02}"})
    return Setups(switched_on, restarted, users, closed, trimmed)
