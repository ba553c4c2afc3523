"""`FakeBroker`: a RocketMQ broker on a real port of this process, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.codes import OffsetPolicy, Permission, TopicType
from aiorocketmq_fake.core.model import (
    GroupConfig,
    OrderSnapshot,
    RetryPolicy,
    TopicConfig,
    Totals,
)
from aiorocketmq_fake.core.profile import PROFILES, Profile
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.broker_clock import BrokerClock
from aiorocketmq_fake.edge.clock import ManualClock, RealClock
from aiorocketmq_fake.edge.data_plane import messaging_service
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.endpoint import split
from aiorocketmq_fake.edge.events import Events
from aiorocketmq_fake.edge.faults import Faults
from aiorocketmq_fake.edge.grpc_server import GrpcServer
from aiorocketmq_fake.edge.telemetry import ClientReply, Telemetry
from aiorocketmq_fake.edge.tls import ServerTls
from aiorocketmq_fake.views import Client, DeliveredMessage, Group, Lease, Message, Progress, Topic

if TYPE_CHECKING:
    from aiorocketmq_fake.edge.recorder import Recorder

__all__ = ["FakeBroker"]

# How long an ordinary stop waits, in real seconds, for answers that are being written.
STOPPING = 1.0
# R2.11: an order to a client that has no reply after this is forgotten.
REPLY = 5.0


class FakeBroker:
    """A whole broker, fresh and empty, that real clients of any language can use.

    `async with FakeBroker() as broker:` listens on `broker.endpoint` until the block ends. It needs asyncio: its port
    lives on the event loop that entered the block. Inspection and faults are plain calls; what changes the broker is
    awaited, as it is with a broker elsewhere (`FakeBrokerClient`).
    """

    def __init__(
        self,
        *,
        profile: str | Profile = "documented",
        clock: Literal["real", "manual"] = "real",
        start: datetime | None = None,
        listen: str = "127.0.0.1:0",
        control: str | None = None,
        tls: ServerTls | None = None,
        record: Path | str | None = None,
        seed: int = 0,
        core: Callable[..., Broker] = Broker,
    ) -> None:
        """Prepare a broker; ValueError for a value that cannot be.

        `profile` chooses the behaviour by name or value; `clock="manual"` makes time stand still but for
        `clock.advance`, from `start` on (an aware datetime; by default the present). `listen` is HOST:PORT, port 0
        picks a free one; `control` opens the control service as well. `record` names a folder for a recording.
        `seed` decides every choice left to chance. `core` makes the core: a subclass of `Broker` can break a promise on
        purpose.
        """
        if isinstance(profile, str) and profile not in PROFILES:
            raise ValueError(f"no profile is called {profile!r}: use one of {', '.join(sorted(PROFILES))}.")
        if clock not in ("real", "manual"):
            raise ValueError(f"no clock is called {clock!r}: use 'real' or 'manual'.")
        if start is not None and (clock == "real" or start.tzinfo is None):
            raise ValueError("start is for a manual clock and needs a time zone: give an aware datetime.")
        self.profile = profile if isinstance(profile, Profile) else PROFILES[profile]
        """How this broker behaves where documents and servers differ."""
        self.faults = Faults()
        """Scripted faults: `with broker.faults.drop_reply("AckMessage", times=1): ...`."""
        self.events = Events()
        """Everything that happens, as it happens."""
        self.tls = tls
        """The certificate of its port; None for a plain one."""
        self._address = Address(*split(listen))
        self._control_address = Address(*split(control)) if control is not None else None
        moment = ManualClock(start.timestamp() if start else None) if clock == "manual" else RealClock()
        self._core = core(
            self.profile,
            now=moment.now(),
            rng=random.Random(seed),
            host=self._address.reachable_host,
            port=self._address.port,
        )
        self._driver = Driver(self._core, moment, self.events)
        self._telemetry = Telemetry(self._driver, self.faults, self._address)
        self.clock = BrokerClock(self._driver, self._telemetry)
        """What time it is for the broker; a manual clock is moved here."""
        self._server = GrpcServer(
            (messaging_service(self._driver, self.faults, self._telemetry, self._address),), tls
        )
        self._record = record
        self._recorder: Recorder | None = None
        self._resources = ExitStack()
        self._control: GrpcServer | None = None

    async def __aenter__(self) -> FakeBroker:
        """Listen. OSError where the port cannot be had; nothing is left open then."""
        with ExitStack() as resources:
            if self._record is not None:
                resources.enter_context(self._recording(self._record))
            await self.start()
            try:
                if self._control_address is not None:
                    await self._open_control(self._control_address)
            except BaseException:
                await self.crash()
                raise
            self._resources = resources.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every call and close the port; nothing of the broker is left afterwards."""
        try:
            if self._control is not None:
                await self._control.close()
            await self.crash()
        finally:
            self.events.end()
            self._resources.close()

    # Where it is

    @property
    def endpoint(self) -> str:
        """`host:port` for clients; the port stays the same over `restart`."""
        return self._address.endpoint

    @property
    def control_endpoint(self) -> str | None:
        """`host:port` of the control service, None where it was not asked for."""
        return self._control_address.endpoint if self._control_address else None

    @property
    def is_running(self) -> bool:
        """Whether the port accepts calls."""
        return self._server.is_open

    # Stopping and starting again

    async def start(self) -> None:
        """Listen (again, on the same port) with all that was stored; clients must say who they are anew (R12.7)."""
        if self.is_running:
            return
        self._address.port = await self._server.open(self._address.host, self._address.port)
        self._core.port = self._address.port
        self._driver.reach(self._driver.clock.now())
        if self._recorder is not None:
            self._recorder.rebooted()

    async def stop(self) -> None:
        """Let answers in progress out, then close the port. What is stored is kept; a second time does nothing."""
        await self._driver.quiet.wait(STOPPING)
        await self.crash()

    async def crash(self) -> None:
        """Close the port at once, in the middle of whatever goes on. What is stored is kept."""
        if self.is_running:
            await self._server.close()
            self._driver.run(self._core.restart)
        self._driver.stop()

    async def restart(self) -> None:
        """Stop and start again: same port, stored state kept, settings and streams of clients lost (R12.7)."""
        await self.stop()
        await self.start()

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
    ) -> None:
        """Create a topic of type NORMAL, FIFO, DELAY, TRANSACTION, MIXED, PRIORITY or LITE. Refusal where it exists."""
        config = _topic(name, type, read_queues, write_queues, queues, permission)
        self._driver.run(self._core.create_topic, config)

    async def update_topic(
        self,
        name: str,
        *,
        type: str = "NORMAL",  # noqa: A002  # the protocol's word
        queues: int = 4,
        read_queues: int | None = None,
        write_queues: int | None = None,
        permission: str = "READ_WRITE",
    ) -> None:
        """Replace a topic's settings; messages stay. Refusal where it does not exist."""
        config = _topic(name, type, read_queues, write_queues, queues, permission)
        self._driver.run(self._core.update_topic, config)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages. Refusal where it does not exist."""
        self._driver.run(self._core.delete_topic, name)

    async def create_group(
        self, name: str, *, ordered: bool = False, max_attempts: int = 17, backoff: Sequence[float] = ()
    ) -> None:
        """Create a consumer group; `backoff` are its own retry intervals in seconds. Refusal where it exists."""
        self._driver.run(self._core.create_group, _group(name, ordered, max_attempts, backoff))

    async def update_group(
        self, name: str, *, ordered: bool = False, max_attempts: int = 17, backoff: Sequence[float] = ()
    ) -> None:
        """Replace a group's settings. Refusal where it does not exist."""
        self._driver.run(self._core.update_group, _group(name, ordered, max_attempts, backoff))

    async def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retries; its dead letters stay. Refusal where it does not exist."""
        self._driver.run(self._core.delete_group, name)

    async def reset_offset(
        self, group: str, topic: str, *, to: Literal["beginning", "end"] | datetime
    ) -> tuple[int, ...]:
        """Move a group in every queue of a topic (R10.6); returns the new offsets by queue."""
        if isinstance(to, datetime):
            policy, timestamp = OffsetPolicy.TIMESTAMP, to.timestamp()
        else:
            policy, timestamp = OffsetPolicy[to.upper()], None
        return self._driver.run(self._core.reset_offset, group, topic, policy, timestamp=timestamp)

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

    async def _open_control(self, address: Address) -> None:
        from aiorocketmq_fake.edge.control_server import control_service

        self._control = GrpcServer((control_service(self),))
        address.port = await self._control.open(address.host, address.port)

    @contextmanager
    def _recording(self, folder: Path | str) -> Iterator[None]:
        from aiorocketmq_fake.edge.recorder import Recorder

        clock = self.clock.now if self.clock.is_manual else None
        with Recorder(folder, clock=clock) as self._recorder, self.events.listen(self._recorder.record):
            yield


def _topic(
    name: str, kind: str, read_queues: int | None, write_queues: int | None, queues: int, permission: str
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
    )


def _group(name: str, ordered: bool, max_attempts: int, backoff: Sequence[float]) -> GroupConfig:
    return GroupConfig(
        name=name,
        ordered=ordered,
        max_attempts=max_attempts,
        retry_policy=RetryPolicy(steps=tuple(backoff)) if backoff else None,
    )
