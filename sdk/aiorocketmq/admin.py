"""Preparing and looking at topics and consumer groups, over the classic protocol of name servers and brokers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import Literal, Self

from aiorocketmq._core.endpoint import Address, parse_addresses
from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.attributes import lite_attributes
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.connection import CONNECT_TIMEOUT
from aiorocketmq._remoting.name_servers import NameServers, unreadable
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.routes import (
    READABLE,
    WRITABLE,
    parse_members,
    parse_names,
)
from aiorocketmq._remoting.users import rights_body, subject, user_body
from aiorocketmq.config import Credentials
from aiorocketmq.errors import Closed, NotFound, TopicNotFound, Unreachable

__all__ = ["Admin", "ExponentialBackoff", "GroupMember", "QueueRange", "TopicRoute", "TopicType"]

_SCHEME = re.compile(r"(namesrv|broker)://(.+)", re.DOTALL)
_LOOK_EVERY = 0.02
DEFAULT_TOPIC = "TBW102"
"""The template topic that creation requests must name."""


class TopicType(Enum):
    """What kind of messages a topic takes; 5.x servers check it, 4.x servers do not know it."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"
    PRIORITY = "PRIORITY"
    LITE = "LITE"


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Seconds before each redelivery that begin with `initial` and grow by `multiplier` up to `maximum`."""

    initial: float
    maximum: float
    multiplier: int = 2
    """Servers keep it as a whole number."""

    def __post_init__(self) -> None:
        if not 0 < self.initial <= self.maximum or self.multiplier < 1:
            raise ValueError(
                f"{self!r} does not grow: take 0 < initial <= maximum and a multiplier of at least 1"
            )


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The queues that a topic has on one broker: numbers 0 to `readable - 1`, of which `writable` take messages."""

    broker: str
    address: str
    """`host:port` of the broker's master; empty while it is away."""
    readable: int
    writable: int


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic lives."""

    topic: str
    queues: tuple[QueueRange, ...]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer that a broker knows in a group."""

    client_id: str
    address: str
    """Where it is connected from: for a gRPC client as its proxy tells it."""
    language: str
    broker: str
    """`host:port` of the broker that knows it."""


class Admin:
    """Creates, finds and deletes topics and consumer groups; use it inside `async with`.

    `endpoint` is `"namesrv://host:port"` (several with `;`: the first that answers is used), or
    `"broker://host:port"` for the masters themselves, which then cannot be asked for routes. Every call ends within
    `timeout` seconds on each server that it asks. `credentials` sign every request, for servers that ask who calls.
    Entering raises Unreachable when no server answers.
    """

    def __init__(
        self, endpoint: str, *, timeout: float = 5.0, credentials: Credentials | None = None
    ) -> None:
        matched = _SCHEME.fullmatch(endpoint.strip())
        if matched is None:
            raise ValueError(
                f"endpoint {endpoint!r} must be 'namesrv://host:port' or 'broker://host:port'; "
                "a proxy's gRPC port has no administration"
            )
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._through_namesrv = matched[1] == "namesrv"
        self._addresses = parse_addresses(matched[2])
        self._timeout = timeout
        self._credentials = credentials
        self._pool: Pool | None = None

    async def __aenter__(self) -> Self:
        self._pool = Pool(credentials=self._given, connect_timeout=min(self._timeout, CONNECT_TIMEOUT))
        try:
            if self._through_namesrv:
                await self._masters()
            else:
                for address in self._addresses:
                    await self._pool.connect(address)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def create_topic(
        self,
        topic: str,
        *,
        type: TopicType = TopicType.NORMAL,  # noqa: A002  the protocol's own word
        queues: int = 8,
        readable: bool = True,
        writable: bool = True,
    ) -> None:
        """Create `topic` with `queues` queues on every master, or change it to this; return when it can be routed.

        Proxies may go on answering "unknown" for up to 20 s to who asked for the topic before it existed. Raises
        ValueError for a malformed name, Refused when a server says no. Request 17, remoting-protocol.md 6.18.
        """
        check_topic(topic)
        if queues < 1:
            raise ValueError(f"queues must be at least 1, not {queues!r}")
        fields = {
            "topic": topic,
            "defaultTopic": DEFAULT_TOPIC,
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": str(READABLE * readable + WRITABLE * writable),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": f"+message.type={type.value}",
        }
        await self._on_masters(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, topic=topic)
        # A topic that nobody may read or write is not routed at all.
        if self._through_namesrv and (readable or writable):
            await self._routed(topic)

    async def delete_topic(self, topic: str) -> None:
        """Delete `topic` with its messages from every master and name server; one that does not exist is no error.

        Requests 215 and 216.
        """
        check_topic(topic)
        await self._on_masters(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, topic=topic)
        if self._through_namesrv:
            for address in self._addresses:
                await self._call(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic}, topic=topic)

    async def create_group(
        self,
        group: str,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] | ExponentialBackoff | None = None,
        consume_enabled: bool = True,
        lite_topic: str = "",
        lite_quota: int = 0,
        lite_exclusive: bool = False,
    ) -> None:
        """Create the consumer group `group` on every master, or replace all of its settings by these.

        `max_attempts` (at least 1) counts the first delivery. `backoff` are the seconds before each redelivery, the
        last repeating; 5.x servers know it, and without it they use their own list. A group that is not
        `consume_enabled` is refused every message. `lite_topic` binds the group to the lite topics of that topic
        (5.5 and later), of which one client may subscribe to `lite_quota` (0: the server's own limit), and where
        `lite_exclusive` each has one subscriber at a time. Request 200.
        """
        check_group(group)
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts!r}")
        settings: dict[str, object] = {
            "groupName": group,
            "consumeMessageOrderly": ordered,
            "retryMaxTimes": max_attempts - 1,
            "consumeEnable": consume_enabled,
        }
        if backoff is not None:
            settings["groupRetryPolicy"] = _retry_policy(backoff)
        if lite_topic:
            settings["attributes"] = lite_attributes(lite_topic, lite_quota, lite_exclusive)
        body = json.dumps(settings).encode()
        await self._on_masters(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body, group=group)

    async def delete_group(self, group: str) -> None:
        """Delete the consumer group `group` with its progress from every master; one unknown is no error.

        Servers that create groups by themselves make it anew as soon as a consumer asks. Request 207.
        """
        check_group(group)
        fields = {"groupName": group, "cleanOffset": "true"}
        await self._on_masters(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields, group=group)

    async def create_user(self, user: str, secret: str, *, super_user: bool = False) -> None:
        """Create `user` on every master; only a `super_user` may do everything. Raises Refused when it exists.

        Needs `credentials` of a super user, and a server from 5.3 on that authenticates. Request 3001.
        """
        body = user_body(user, secret, super_user=super_user)
        await self._on_masters(RequestCode.AUTH_CREATE_USER, {"username": user}, body)

    async def delete_user(self, user: str) -> None:
        """Delete `user` with its rights from every master; servers may go on knowing it until their caches are over.

        Request 3003.
        """
        await self._on_masters(RequestCode.AUTH_DELETE_USER, {"username": user})

    async def permit(
        self,
        user: str,
        *,
        publish: Sequence[str] = (),
        subscribe: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        """Allow `user` to send to topics, to receive from topics, and to use groups; `*` stands for all.

        To receive takes the right to the topic and to the group. Request 3006.
        """
        if not (publish or subscribe or groups):
            raise ValueError("permit needs at least one topic or group")
        body = rights_body(user, publish=publish, subscribe=subscribe, groups=groups)
        await self._on_masters(RequestCode.AUTH_CREATE_ACL, {"subject": subject(user)}, body)

    async def reset_offset(
        self, group: str, topic: str, *, to: datetime | Literal["beginning", "end"]
    ) -> None:
        """Move `group` in every queue of `topic` to the first message stored at or after a time, or to an end.

        Servers from 5.2 on move it at once, also with members online, whose messages in hand come back beside. Raises
        ValueError for a time without zone, Refused for an unknown group or topic. Request 222.
        """
        check_group(group)
        check_topic(topic)
        if isinstance(to, datetime):
            if to.tzinfo is None:
                raise ValueError(f"the time {to} to reset to has no time zone; give it one, for example UTC")
            # A millisecond before 1970 would be the number that stands for the end.
            moment = max(int(to.timestamp() * 1000), 0)
        else:
            moment = {"beginning": 0, "end": -1}[to]
        fields = {"group": group, "topic": topic, "timestamp": str(moment), "isForce": "true"}
        await self._on_masters(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, topic=topic, group=group)

    async def route(self, topic: str) -> TopicRoute:
        """Where `topic` lives, as the name server sees it; raises TopicNotFound. Request 105."""
        check_topic(topic)
        route = await self._name_servers.route(topic)
        masters = {broker.name: broker.master for broker in route.brokers}
        return TopicRoute(
            topic,
            tuple(
                QueueRange(
                    broker=queues.broker,
                    address=str(masters.get(queues.broker) or ""),
                    readable=queues.readable if queues.permission & READABLE else 0,
                    writable=queues.writable if queues.permission & WRITABLE else 0,
                )
                for queues in route.queues
            ),
        )

    async def topics(self) -> tuple[str, ...]:
        """Names of all topics, the servers' own included, sorted. Request 206."""
        name_servers = self._name_servers
        answer = await name_servers.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
        try:
            return parse_names(answer.body, "topicList")
        except ValueError as error:
            unreadable(name_servers, "a list of topics", error)

    async def groups(self) -> tuple[str, ...]:
        """Names of the consumer groups that any master has settings for, the servers' own included. Request 201."""
        answers = await self._on_masters(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})
        try:
            found = [parse_names(answer.body, "subscriptionGroupTable") for answer in answers]
        except ValueError as error:
            unreadable(self._names(), "a list of groups", error)
        return tuple(sorted(set().union(*found)))

    async def members(self, group: str) -> tuple[GroupMember, ...]:
        """The consumers that each master knows in `group`; empty where nobody is there. Request 203.

        Consumers behind a proxy in cluster mode are known to that proxy only (live-broker-remoting.md 9)."""
        check_group(group)
        found: list[GroupMember] = []
        for address in await self._masters():
            try:
                answer = await self._call(
                    address, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}, group=group
                )
            except NotFound:
                continue  # nobody is there
            try:
                members = parse_members(answer.body)
            except ValueError as error:
                unreadable(self._names(), "a list of consumers", error)
            found += [GroupMember(*member, broker=str(address)) for member in members]
        return tuple(found)

    async def _routed(self, topic: str) -> None:
        """Wait until the name server knows `topic`: 1 to 34 ms on a real server (live-broker-remoting.md 2)."""
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:
                        await self.route(topic)
                    except TopicNotFound:
                        await asyncio.sleep(_LOOK_EVERY)
                    else:
                        return
        except TimeoutError as error:
            raise Unreachable(
                f"topic {topic!r} was created, but no route to it appeared within {self._timeout:g} s",
                may_have_taken_effect=True,
                timed_out=True,
                topic=topic,
            ) from error

    async def _masters(self) -> tuple[Address, ...]:
        if not self._through_namesrv:
            return self._addresses
        brokers = await self._name_servers.brokers()
        masters = tuple(broker.master for broker in brokers if broker.master is not None)
        if not masters:
            raise Unreachable(
                f"the name server at {self._names()} knows no broker; is one running and registered with it?",
                endpoint=self._names(),
            )
        return masters

    async def _on_masters(
        self,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        topic: str | None = None,
        group: str | None = None,
    ) -> list[Frame]:
        return [
            await self._call(address, code, fields, body, topic=topic, group=group)
            for address in await self._masters()
        ]

    async def _call(
        self,
        address: Address,
        code: RequestCode,
        fields: Mapping[str, str],
        body: bytes = b"",
        *,
        topic: str | None = None,
        group: str | None = None,
    ) -> Frame:
        return await self._open.call(
            address, code, fields, body, timeout=self._timeout, topic=topic, group=group
        )

    @property
    def _open(self) -> Pool:
        if self._pool is None:
            raise Closed("this Admin is not open; use it inside its `async with`")
        return self._pool

    @property
    def _name_servers(self) -> NameServers:
        if not self._through_namesrv:
            raise ValueError("this is asked of a name server: give Admin 'namesrv://host:port'")
        return NameServers(self._open, self._addresses, timeout=self._timeout)

    async def _given(self) -> Credentials | None:
        return self._credentials

    def _names(self) -> str:
        return ";".join(map(str, self._addresses))


def _retry_policy(backoff: Sequence[float] | ExponentialBackoff) -> dict[str, object]:
    if isinstance(backoff, ExponentialBackoff):
        bounds = {"initial": round(backoff.initial * 1000), "max": round(backoff.maximum * 1000)}
        return {
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {**bounds, "multiplier": backoff.multiplier},
        }
    if not backoff or any(step < 0 for step in backoff):
        raise ValueError("backoff must hold at least one number of seconds, none of them negative")
    return {
        "type": "CUSTOMIZED",
        "customizedRetryPolicy": {"next": [round(step * 1000) for step in backoff]},
    }
