"""One broker with its port: what can be done to it and seen of it, by a test or by the control service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import Need, Right, Signature, User
from aiorocketmq_fake.core.values.codes import OffsetPolicy, Permission, Refusal, TopicType
from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy, TopicConfig
from aiorocketmq_fake.core.values.snapshots import KeepingSnapshot, OrderSnapshot, Totals
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.broker_clock import BrokerClock
from aiorocketmq_fake.edge.clock import Clock
from aiorocketmq_fake.edge.data_plane import messaging_service
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.endpoint import join
from aiorocketmq_fake.edge.events import Events
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.grpc_server import GrpcServer
from aiorocketmq_fake.edge.neighbours import Neighbour, Neighbours
from aiorocketmq_fake.edge.remoting.server import RemotingServer
from aiorocketmq_fake.edge.remoting.service import Service
from aiorocketmq_fake.edge.telemetry import ClientReply, Telemetry
from aiorocketmq_fake.edge.tls import ServerTls
from aiorocketmq_fake.views import (
    Client,
    DeliveredMessage,
    Group,
    HalfMessage,
    Lease,
    Message,
    Progress,
    Topic,
)

if TYPE_CHECKING:
    from aiorocketmq_fake.edge.storage.journal import Journal

__all__ = ["Node"]

R = TypeVar("R")

# How long an ordinary stop waits, in real seconds, for calls to end.
STOPPING = 1.0
# A name server drops a broker that it has not heard of for so many seconds.
UNNOTICED = 120.0
# R2.11: an order to a client that has no reply after this is forgotten.
REPLY = 5.0


class Partition(AbstractContextManager[None]):
    """A broker that is cut off or stands still, until the block is left."""

    def __init__(self, heal: Callable[[], None]) -> None:
        self._heal = heal

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heal()


class Node:
    """A core behind a port. Inspection and faults are plain calls; what changes the broker is awaited."""

    def __init__(
        self,
        core: Broker,
        clock: Clock,
        address: Address,
        tls: ServerTls | None,
        journal: Journal | None = None,
        leader: Node | None = None,
        seed: int = 0,
        remoting: Address | None = None,
    ) -> None:
        """Make a broker; with `leader` one that belongs to that one's cluster, and shares its clock.

        With `remoting` it speaks the classic protocol there."""
        self.name = core.name
        """Its name in routes and receipt handles."""
        self.profile = core.profile
        """How this broker behaves where documents and servers differ."""
        self.faults = Faults(seed)
        """Scripted faults: `with broker.faults.drop_reply("AckMessage", times=1): ...`."""
        self.events = Events()
        """Everything that happens, as it happens."""
        self.tls = tls
        """The certificate of its ports; None for plain ones."""
        self._core = core
        self._address = address
        self._driver = Driver(core, clock, self.events, journal)
        self._telemetry = Telemetry(self._driver, self.faults, address)
        self.clock: BrokerClock = BrokerClock() if leader is None else leader.clock
        """What time it is for the broker; a manual clock is moved here."""
        self.clock.tell(self._driver, self._telemetry)
        self._neighbours: Neighbours = Neighbours() if leader is None else leader._neighbours
        self._neighbours.join(Neighbour(self._driver, address, self._is_listed, remoting))
        self._gone_at: float | None = None
        self.rebooted: Callable[[], object] = lambda: None
        """Called when it starts again."""
        self._service = messaging_service(
            self._driver, self.faults, self._telemetry, address, self._neighbours
        )
        self._server = GrpcServer((self._service,), tls)
        self._remoting_address = remoting
        self._remoting: RemotingServer | None = None
        if remoting is not None:
            service = Service(self._driver, self.faults, remoting, self._neighbours)
            self._remoting = RemotingServer(self._driver, service, tls)

    # Where it is

    @property
    def endpoint(self) -> str:
        """`host:port` for clients; the port stays the same over `restart`."""
        return self._address.endpoint

    @property
    def remoting_endpoint(self) -> str | None:
        """`host:port` of the classic protocol, where clients connect with `namesrv://host:port`; None without one.

        The port is a name server and a broker in one, and stays the same over `restart`."""
        return self._remoting_address.endpoint if self._remoting_address is not None else None

    @property
    def is_running(self) -> bool:
        """Whether the port accepts calls."""
        return self._server.is_open

    @asynccontextmanager
    async def another_proxy(self) -> AsyncIterator[str]:
        """Serve this broker on a second port, as a second proxy does, until the block is left; yields `host:port`.

        Routes go on naming the first one, and what clients have said to one is known to both."""
        server = GrpcServer((self._service,), self.tls)
        port = await server.open(self._address.host, 0)
        try:
            yield join(self._address.host, port)
        finally:
            await server.close()

    # Stopping and starting again

    async def start(self) -> None:
        """Listen (again, on the same port) with all that was stored; clients must say who they are anew (R12.7)."""
        if self.is_running:
            return
        self._address.port = await self._server.open(self._address.host, self._address.port)
        self._core.port = self._address.port
        if self._remoting is not None and self._remoting_address is not None:
            there = self._remoting_address
            try:
                there.port = await self._remoting.open(there.host, there.port)
            except OSError:
                await self._server.close()
                raise
        self._gone_at = None
        self.rebooted()
        self._driver.reach(self._driver.clock.now())

    async def stop(self) -> None:
        """Close the port as a server does that is told to end: calls are finished, waiting ones answered empty,
        telemetry streams ended. What does not end within a second is broken off. What is stored is kept."""
        if self.is_running:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._server.close(STOPPING))
                if self._remoting is not None:
                    tasks.create_task(self._remoting.close(STOPPING))
                # Once the port takes no new calls, nobody comes back for another poll or stream.
                await asyncio.sleep(0)
                self._driver.end_polls()
                self._telemetry.cut(text="the fake broker is stopped")
        self._forget()

    async def crash(self) -> None:
        """Close the port at once, in the middle of whatever goes on. What is stored is kept."""
        if self.is_running:
            self._gone_at = self.clock.now()
        await self._server.close()
        if self._remoting is not None:
            await self._remoting.close()
        self._forget()

    async def restart(self) -> None:
        """Stop and start again: same port, stored state kept, settings and streams of clients lost (R12.7)."""
        await self.stop()
        await self.start()

    # Cutting it off

    @property
    def is_partitioned(self) -> bool:
        """Whether it is cut off from all its clients."""
        return self._driver.gate.is_shut

    def partition(self) -> Partition:
        """Cut the broker off from all its clients: calls and frames wait on both sides, and nobody is told.

        Routes go on naming it, and its clock goes on. `heal()` ends that, as does leaving `with broker.partition():`.
        What has not given up until then goes through, as the network repeats what was lost. Pings of a connection
        are answered all the while.
        """
        self._driver.gate.shut()
        return Partition(self.heal)

    def heal(self) -> None:
        """End a partition; without one, nothing happens."""
        self._driver.gate.open()

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return self._driver.frozen

    def pause(self) -> Partition:
        """Let the broker stand still like a process that was sent SIGSTOP: cut off, and nothing becomes due.

        `resume()` ends that, as does leaving `with broker.pause():`; what became due meanwhile happens then, once.
        """
        self._driver.frozen = True
        self.partition()
        return Partition(self.resume)

    def resume(self) -> None:
        """End a pause; without one, nothing happens."""
        if self._driver.frozen:
            try:
                self._driver.leap(self.clock.now())
            finally:
                self.heal()

    # Topics and groups

    async def create_topic(
        self,
        name: str,
        *,
        type: str = "NORMAL",  # noqa: A002  # the protocol's word
        queues: int = 4,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str = "READ_WRITE",
        lite_expiration: float | None = None,
        lite_limit: int = 0,
    ) -> None:
        """Create a topic of type NORMAL, FIFO, DELAY, TRANSACTION, MIXED, PRIORITY or LITE. Refusal where it exists.

        Lite topics below a LITE one end `lite_expiration` seconds after their last message, None: never; there are at
        most `lite_limit` of them, 0: as many as come.
        """
        lite = (lite_expiration, lite_limit)
        config = _topic(name, type, read_queues, write_queues, queues, permission, lite)
        await self._do(self._core.create_topic, config)

    async def update_topic(
        self,
        name: str,
        *,
        type: str = "NORMAL",  # noqa: A002  # the protocol's word
        queues: int = 4,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str = "READ_WRITE",
        lite_expiration: float | None = None,
        lite_limit: int = 0,
    ) -> None:
        """Replace a topic's settings; messages stay. Refusal where it does not exist."""
        lite = (lite_expiration, lite_limit)
        config = _topic(name, type, read_queues, write_queues, queues, permission, lite)
        await self._do(self._core.update_topic, config)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages. Refusal where it does not exist."""
        await self._do(self._core.delete_topic, name)

    async def create_group(
        self,
        name: str,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] | RetryPolicy = (),
        consume_enabled: bool = True,
        lite_topic: str = "",
        lite_quota: int = 0,
        lite_exclusive: bool = False,
    ) -> None:
        """Create a consumer group; Refusal where it exists.

        `backoff` are its own retry intervals in seconds, the last one repeating, or a `RetryPolicy` that grows
        exponentially. A group that is not `consume_enabled` gets nothing. `lite_topic` binds the group to the lite
        topics of that parent: a client may subscribe to `lite_quota` of them (0: as many as the server's default),
        `lite_exclusive` to each of them alone.
        """
        lite = (lite_topic, lite_quota, lite_exclusive)
        config = _group(name, ordered, max_attempts, backoff, consume_enabled, lite)
        await self._do(self._core.create_group, config)

    async def update_group(
        self,
        name: str,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] | RetryPolicy = (),
        consume_enabled: bool = True,
        lite_topic: str = "",
        lite_quota: int = 0,
        lite_exclusive: bool = False,
    ) -> None:
        """Replace a group's settings. Refusal where it does not exist."""
        lite = (lite_topic, lite_quota, lite_exclusive)
        config = _group(name, ordered, max_attempts, backoff, consume_enabled, lite)
        await self._do(self._core.update_group, config)

    async def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retries; its dead letters stay. Refusal where it does not exist."""
        await self._do(self._core.delete_group, name)

    async def reset_offset(
        self, group: str, topic: str, *, to: Literal["beginning", "end"] | datetime
    ) -> tuple[int, ...]:
        """Move a group in every queue of a topic (R10.6); returns the new offsets by queue."""
        if isinstance(to, datetime):
            policy, timestamp = OffsetPolicy.TIMESTAMP, to.timestamp()
        else:
            policy, timestamp = OffsetPolicy[to.upper()], None
        return await self._do(self._core.reset_offset, group, topic, policy, timestamp=timestamp)

    # Retention

    async def keep(
        self, *, retention: float | None = None, disk_used: float | None = None
    ) -> KeepingSnapshot:
        """Set how many seconds messages are kept, and how full the disk is (0 to 1); returns what is in force (11).

        None leaves a value as it is. Above 0.75 expired messages go at any hour, above 0.85 the oldest tenth of the
        log goes every 10 s, above 0.90 sends are refused, too.
        """
        self._driver.run(self._core.keep, retention=retention, disk_used=disk_used)
        return self._core.keeping()

    async def clean(self) -> int:
        """Delete the messages that have expired, whatever the hour; returns how many copies went (R11.5)."""
        return self._driver.run(self._core.clean)

    # Users

    async def put_user(self, user: User) -> None:
        """Add a user, or replace the one of that access key; from the first one on every call must be signed (14)."""
        await self._do(self._core.put_user, user)

    async def remove_user(self, access_key: str) -> None:
        """Remove a user at once; calls stay checked. Refusal where there is none."""
        await self._do(self._core.remove_user, access_key)

    def check_administrator(self, signature: Signature) -> None:
        """Refuse with UNAUTHORIZED what is not signed by a user with all rights; without users, nobody is asked."""
        if self._core.access.is_checked:
            try:
                self._core.access.check(signature, [Need(Right.ADMINISTER, self._core.cluster)])
            except Refusal as refused:
                raise Refusal(refused.code, f"Access denied: {refused.message}") from refused

    def users(self) -> tuple[User, ...]:
        """Return all users by access key."""
        return self._core.access.users()

    # Rates

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Let at most so many calls of an RPC through, 0 none; more are refused as by a busy server (13.1).

        None lifts the limit. A bucket of one second's calls may be emptied at once. Time is the broker's.
        """
        await self._do(self._core.limit_rate, rpc, per_second)

    def rates(self) -> Mapping[str, float]:
        """Return the calls per second that are let through, by RPC; others are not limited."""
        return self._core.throttle.rates

    # What is in it

    def deliveries(
        self, topic: str | None = None, *, group: str | None = None
    ) -> tuple[DeliveredMessage, ...]:
        """Return what was handed out so far, oldest first."""
        return tuple(DeliveredMessage.of(delivery) for delivery in self._core.deliveries(topic, group))

    def dead_letters(self, group: str) -> tuple[Message, ...]:
        """Return what the group has given up, oldest first."""
        return tuple(Message.of(message) for message in self._core.dead_letters(group))

    def messages(self, topic: str) -> tuple[Message, ...]:
        """Return what is stored in a topic, by queue and offset."""
        return tuple(Message.of(message) for message in self._core.messages(topic))

    def half_messages(self, topic: str | None = None) -> tuple[HalfMessage, ...]:
        """Return the messages whose transactions are open, by topic and transaction id."""
        return tuple(HalfMessage.of(half) for half in self._core.half_messages(topic))

    def lite_topics(self, topic: str) -> dict[str, int]:
        """Return the lite topics below a parent, by name, with the number of messages in each."""
        return self._core.lite_topics(topic)

    def topics(self) -> tuple[Topic, ...]:
        """Return all topics by name, those of retries and dead letters too."""
        return tuple(Topic.of(snapshot) for snapshot in self._core.topics())

    def groups(self) -> tuple[Group, ...]:
        """Return all consumer groups by name."""
        return tuple(Group.of(snapshot) for snapshot in self._core.groups())

    def clients(self) -> tuple[Client, ...]:
        """Return all clients whose settings are stored, by id."""
        return tuple(Client.of(snapshot) for snapshot in self._core.clients())

    def leases(self, group: str | None = None) -> tuple[Lease, ...]:
        """Return the messages that are in the hands of consumers."""
        return tuple(Lease.of(snapshot) for snapshot in self._core.leases(group))

    def progress(self, group: str | None = None) -> tuple[Progress, ...]:
        """Return how far groups have come, by group, topic and queue."""
        return tuple(Progress.of(snapshot) for snapshot in self._core.offsets(group))

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """Return what ordered groups wait for."""
        return self._core.order_records(group)

    def totals(self) -> Totals:
        """Count what the broker holds."""
        return self._core.totals()

    # What it does to clients

    def cut_streams(self, client_id: str | None = None, *, status: str = "UNAVAILABLE") -> int:
        """Break the open telemetry streams of one client, or of all, with a gRPC status; returns how many."""
        return self._telemetry.cut(client_id, status)

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> ClientReply | None:
        """Ask a consumer to consume a stored message on trial; None where no reply came within 5 s (R2.11)."""
        for message in self._core.messages(topic):
            if message.content.message_id == message_id:
                nonce = self._driver.run(self._core.verify_message, client_id, message)
                return await self._telemetry.reply(nonce, REPLY)
        raise ValueError(
            f"topic {topic!r} holds no message {message_id!r}: look at broker.messages({topic!r})."
        )

    async def print_stack_trace(self, client_id: str) -> ClientReply | None:
        """Ask a client for its stack traces; None where no reply came within 5 s (R2.11)."""
        nonce = self._driver.run(self._core.print_stack_trace, client_id)
        return await self._telemetry.reply(nonce, REPLY)

    async def reconnect_endpoints(self, client_id: str) -> None:
        """Ask a client to connect anew (2.3); it does not reply."""
        self._driver.run(self._core.reconnect_endpoints, client_id)

    async def _do(self, command: Callable[..., R], *arguments: object, **keywords: object) -> R:
        """Run a command of the core, and return when its effect will outlive this process."""
        result = self._driver.run(command, *arguments, **keywords)
        await self._driver.durable()
        return result

    def _is_listed(self) -> bool:
        """Tell whether routes name it: not once it was stopped, but for a while after a crash."""
        if self._gone_at is not None:
            return self.clock.now() < self._gone_at + UNNOTICED
        return self.is_running

    def _forget(self) -> None:
        """Lose what lived in the proxy alone (R12.7)."""
        self._driver.run(self._core.restart)
        self._driver.parked.forget()
        self._driver.stop()


def _topic(
    name: str,
    kind: str,
    read_queues: int | None,
    write_queues: int | None,
    queues: int,
    permission: str,
    lite: tuple[float | None, int],
) -> TopicConfig:
    if kind not in TopicType.__members__:
        raise ValueError(f"no topic type is called {kind!r}: use one of {', '.join(TopicType.__members__)}.")
    if permission not in Permission.__members__:
        raise ValueError(
            f"no permission is called {permission!r}: use one of {', '.join(Permission.__members__)}."
        )
    return TopicConfig(
        name=name,
        type=TopicType[kind],
        read_queues=queues if read_queues is None else read_queues,
        write_queues=queues if write_queues is None else write_queues,
        permission=Permission[permission],
        lite_expiration=lite[0],
        lite_limit=lite[1],
    )


def _group(
    name: str,
    ordered: bool,
    max_attempts: int,
    backoff: Sequence[float] | RetryPolicy,
    consume_enabled: bool,
    lite: tuple[str, int, bool],
) -> GroupConfig:
    policy = backoff if isinstance(backoff, RetryPolicy) else RetryPolicy(steps=tuple(backoff))
    return GroupConfig(
        name=name,
        ordered=ordered,
        max_attempts=max_attempts,
        retry_policy=policy if policy != RetryPolicy() else None,
        consume_enabled=consume_enabled,
        lite_bind_topic=lite[0],
        lite_quota=lite[1],
        lite_exclusive=lite[2],
    )
