"""Operations on, and inspection of, a broker or a whole cluster, for tests and the control service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import chain
from typing import Literal, TypeVar, Unpack

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import Need, Right, Signature, User
from aiorocketmq_fake.core.values.codes import OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.snapshots import OrderSnapshot, RetentionSnapshot, Totals
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.telemetry import ClientReply, Telemetry
from aiorocketmq_fake.options import GroupOptions, TopicOptions, group_config, topic_config
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

__all__ = ["Operations"]

R = TypeVar("R")

# R2.11: a command to a client that has no reply after this is forgotten.
REPLY = 5.0


class Operations:
    """Operations on the brokers that this object stands for.

    Inspection is a plain call, from any thread; changes are awaited on the broker's event loop.
    """

    _drivers: Sequence[Driver]
    """Those of the brokers, in the order of their names."""
    _telemetry: Telemetry
    """That of the first broker."""

    # Topics and groups

    async def create_topic(
        self, name: str, *, exist_ok: bool = False, **options: Unpack[TopicOptions]
    ) -> None:
        """Create a topic; Refusal if it exists, or with `exist_ok` no change at all.

        Options: `type` (NORMAL, FIFO, DELAY, TRANSACTION, MIXED, PRIORITY or LITE), `queues` (4), or `read_queues` and
        `write_queues`, `permission` (READ_WRITE, READ, WRITE or NONE). For the lite topics below a LITE one:
        `lite_expiration`, the seconds after their last message after which they expire (None: never), and
        `lite_limit`, how many there may be (0: no limit).
        """
        if not (exist_ok and name in {topic.config.name for topic in self._first.topics()}):
            await self._do(Broker.create_topic, topic_config(name, **options))

    async def update_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Replace a topic's settings; its messages stay. Refusal if it does not exist."""
        await self._do(Broker.update_topic, topic_config(name, **options))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages. Refusal if it does not exist."""
        await self._do(Broker.delete_topic, name)

    async def create_group(
        self, name: str, *, exist_ok: bool = False, **options: Unpack[GroupOptions]
    ) -> None:
        """Create a consumer group; Refusal if it exists, or with `exist_ok` no change at all.

        Options: `ordered`, `max_attempts` (17), `backoff` (its own retry intervals in seconds, the last one repeating,
        or a `RetryPolicy` with exponential growth), `consume_enabled` (if False, the group receives nothing).
        `lite_topic` binds the group to the lite topics of that parent: a client may subscribe to `lite_quota` of them
        (0: the server's default), with `lite_exclusive` one client to each.
        """
        if not (exist_ok and name in {group.config.name for group in self._first.groups()}):
            await self._do(Broker.create_group, group_config(name, **options))

    async def update_group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Replace a group's settings. Refusal if it does not exist."""
        await self._do(Broker.update_group, group_config(name, **options))

    async def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retries; its dead letters stay. Refusal if it does not exist."""
        await self._do(Broker.delete_group, name)

    async def reset_offset(
        self, group: str, topic: str, *, to: Literal["beginning", "end"] | datetime
    ) -> tuple[int, ...]:
        """Reset a group's offsets in every queue of a topic (R10.6); return the new offsets by broker and queue."""
        if isinstance(to, datetime):
            policy, timestamp = OffsetPolicy.TIMESTAMP, to.timestamp()
        else:
            policy, timestamp = OffsetPolicy[to.upper()], None
        offsets = await self._do(Broker.reset_offset, group, topic, policy, timestamp=timestamp)
        return tuple(chain.from_iterable(offsets))

    # Retention

    async def set_retention(
        self, *, retention: float | None = None, disk_used: float | None = None
    ) -> RetentionSnapshot:
        """Set how many seconds messages are kept, and how full the disk is (0 to 1); return what is in force.

        None leaves a value as it is. Above 0.75 expired messages are deleted at any hour, above 0.85 the oldest tenth
        of the log every 10 s, above 0.90 sends are refused, too. In a cluster this is about the first broker.
        """
        self._drivers[0].run(self._first.set_retention, retention=retention, disk_used=disk_used)
        return self._first.retention()

    async def delete_expired(self) -> int:
        """Delete the messages that have expired, at whatever hour; return how many copies were deleted (R11.5)."""
        return self._drivers[0].run(self._first.delete_expired)

    # Users

    async def put_user(self, user: User) -> None:
        """Add a user, or replace the one with that access key; from the first one on every call must be signed."""
        await self._do(Broker.put_user, user)

    async def remove_user(self, access_key: str) -> None:
        """Remove a user at once; calls stay checked. Refusal if there is none."""
        await self._do(Broker.remove_user, access_key)

    def check_administrator(self, signature: Signature) -> None:
        """Raise Refusal with UNAUTHORIZED unless a user with all rights signed; without users, all calls pass."""
        core = self._first
        if core.access.is_checked:
            try:
                core.access.check(signature, [Need(Right.ADMINISTER, core.cluster)])
            except Refusal as refused:
                raise Refusal(refused.code, f"Access denied: {refused.message}") from refused

    def users(self) -> tuple[User, ...]:
        """Return all users by access key."""
        return self._read(self._first.access.users)

    # Rates

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Limit an RPC to so many calls per second, 0 for none; others are refused as by a busy server.

        None lifts the limit. The token bucket holds one second's calls. Time is the broker's.
        """
        await self._do(Broker.limit_rate, rpc, per_second)

    def rates(self) -> Mapping[str, float]:
        """Return the limits in calls per second, by RPC; others are not limited."""
        return self._read(lambda: dict(self._first.throttle.rates))

    # Inspection

    def deliveries(
        self, topic: str | None = None, *, group: str | None = None
    ) -> tuple[DeliveredMessage, ...]:
        """Return past deliveries, oldest first."""
        every = self._all(lambda core: core.deliveries(topic, group))
        return tuple(map(DeliveredMessage.of, sorted(every, key=lambda event: event.at)))

    def dead_letters(self, group: str) -> tuple[Message, ...]:
        """Return the dead letters of a group, broker by broker, oldest first."""
        return tuple(map(Message.of, self._all(lambda core: core.dead_letters(group))))

    def messages(self, topic: str) -> tuple[Message, ...]:
        """Return the stored messages of a topic, by broker, queue and offset."""
        return tuple(map(Message.of, self._all(lambda core: core.messages(topic))))

    def half_messages(self, topic: str | None = None) -> tuple[HalfMessage, ...]:
        """Return the messages of open transactions, by broker, topic and transaction id."""
        return tuple(map(HalfMessage.of, self._all(lambda core: core.half_messages(topic))))

    def lite_topics(self, topic: str) -> dict[str, int]:
        """Return the lite topics below a parent, by name, with the number of messages in each."""
        counts: Counter[str] = Counter()
        for name, count in self._all(lambda core: tuple(core.lite_topics(topic).items())):
            counts[name] += count
        return dict(sorted(counts.items()))

    def topics(self) -> tuple[Topic, ...]:
        """Return all topics by name, including those of retries and dead letters; offsets are the first broker's."""
        return tuple(map(Topic.of, self._read(self._first.topics)))

    def groups(self) -> tuple[Group, ...]:
        """Return all consumer groups by name, each with its clients at any broker."""
        members: dict[str, set[str]] = {}
        for group in self._all(lambda core: core.groups()):
            members.setdefault(group.config.name, set()).update(group.client_ids)
        return tuple(
            Group.of(replace(group, client_ids=tuple(sorted(members[group.config.name]))))
            for group in self._read(self._first.groups)
        )

    def clients(self) -> tuple[Client, ...]:
        """Return all clients with stored settings, by id; of several brokers that have them, the first one's."""
        by_id: dict[str, Client] = {}
        for snapshot in self._all(lambda core: core.clients()):
            by_id.setdefault(snapshot.client_id, Client.of(snapshot))
        return tuple(by_id[client_id] for client_id in sorted(by_id))

    def leases(self, group: str | None = None) -> tuple[Lease, ...]:
        """Return the messages in flight, broker by broker."""
        return tuple(self._all(lambda core: core.leases(group)))

    def progress(self, group: str | None = None) -> tuple[Progress, ...]:
        """Return the progress of groups, by broker, group, topic and queue."""
        return tuple(self._all(lambda core: core.offsets(group)))

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """Return what blocks ordered groups, broker by broker."""
        return tuple(self._all(lambda core: core.order_records(group)))

    def totals(self) -> Totals:
        """Count what the brokers hold together."""
        every = self._all(lambda core: (core.totals(),))
        names = [field.name for field in fields(Totals) if field.name != "by_topic"]
        by_topic: Counter[str] = Counter()
        for totals in every:
            by_topic.update(totals.by_topic)
        sums = {name: sum(getattr(totals, name) for totals in every) for name in names}
        return Totals(**sums, by_topic=dict(by_topic))

    # Commands to clients, by the first broker

    def cut_streams(self, client_id: str | None = None, *, status: str = "UNAVAILABLE") -> int:
        """Break the open telemetry streams of one client, or of all, with a gRPC status; return how many."""
        return self._telemetry.cut(client_id, status)

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> ClientReply | None:
        """Ask a consumer to consume a stored message on trial; None if no reply came within 5 s (R2.11)."""
        for message in self._first.messages(topic):
            if message.content.message_id == message_id:
                return await self._ask_client(Broker.verify_message, client_id, message)
        raise ValueError(
            f"message {message_id!r} is not in topic {topic!r}; broker.messages({topic!r}) lists its messages"
        )

    async def print_stack_trace(self, client_id: str) -> ClientReply | None:
        """Ask a client for its stack traces; None if no reply came within 5 s (R2.11)."""
        return await self._ask_client(Broker.print_stack_trace, client_id)

    async def reconnect_endpoints(self, client_id: str) -> None:
        """Ask a client to reconnect; it does not reply."""
        self._drivers[0].run(self._first.reconnect_endpoints, client_id)

    @property
    def _first(self) -> Broker:
        return self._drivers[0].core

    async def _ask_client(self, command: Callable[..., str], *arguments: object) -> ClientReply | None:
        nonce = self._drivers[0].run(getattr(self._first, command.__name__), *arguments)
        return await self._telemetry.reply(nonce, REPLY)

    async def _do(self, command: Callable[..., R], *arguments: object, **keywords: object) -> list[R]:
        """Run a command on every broker; return the results once they are durable."""
        results = []
        self._drivers[0].check_loop()
        for driver in self._drivers:
            # By name: a core may be of a subclass.
            results.append(driver.run(getattr(driver.core, command.__name__), *arguments, **keywords))
            await driver.durable()
        return results

    def _all(self, inspect: Callable[[Broker], Sequence[R]]) -> list[R]:
        """Return what all cores hold, in the order of their names."""
        return self._read(lambda: [each for driver in self._drivers for each in inspect(driver.core)])

    def _read(self, inspect: Callable[[], R]) -> R:
        return self._drivers[0].read(inspect)
