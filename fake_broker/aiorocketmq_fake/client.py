"""`FakeBrokerClient`: controls a fake broker in another process with the methods of `FakeBroker`."""

from __future__ import annotations

import hmac
from collections.abc import Generator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TypeVar, Unpack

from aiorocketmq.wire.grpcio_settings import grpcio_settings

with grpcio_settings():
    import grpc
    from grpc import aio

from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.choices import DiskStage
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import GroupConfig, TopicConfig
from aiorocketmq_fake.core.values.snapshots import OrderSnapshot, RetentionSnapshot, Totals
from aiorocketmq_fake.edge.control_conversion import fill, read
from aiorocketmq_fake.edge.control_server import BROKER_HEADER, CODE_HEADER
from aiorocketmq_fake.edge.control_wire import messages as ctl
from aiorocketmq_fake.edge.control_wire.methods import METHODS
from aiorocketmq_fake.edge.endpoint import join, split
from aiorocketmq_fake.edge.faults import FaultRule, FaultScript
from aiorocketmq_fake.edge.telemetry import ClientReply
from aiorocketmq_fake.options import GroupOptions, TopicOptions, group_config, topic_config
from aiorocketmq_fake.views import Client, DeliveredMessage, Group, Lease, Message, Progress, Topic

__all__ = ["FakeBrokerClient", "RemoteClock", "RemoteFault", "RemoteFaults"]

V = TypeVar("V")

# Moving a clock through years of deadlines takes long; all other calls return at once.
MOVING = 600.0


def signed(user: User) -> tuple[tuple[str, str], ...]:
    """Return the headers of a call that a user signs now."""
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    signature = hmac.digest(user.secret.encode(), moment.encode(), "sha1").hex()
    credential = f"Credential={user.access_key}, SignedHeaders=x-mq-date-time"
    return (
        ("x-mq-date-time", moment),
        ("authorization", f"MQv2-HMAC-SHA1 {credential}, Signature={signature}"),
        *((("x-mq-session-token", user.session_token),) if user.session_token else ()),
    )


class FakeBrokerClient:
    """Client of a running fake broker, at the control endpoint that `aiorocketmq fake serve` prints.

    `async with FakeBrokerClient("127.0.0.1:8082") as broker:`. Every call raises ConnectionError if no answer arrives
    within `timeout` seconds, Refusal if the broker refuses, ValueError for an invalid value.
    """

    def __init__(
        self, control: str, *, timeout: float = 10.0, broker: str | None = None, user: User | None = None
    ) -> None:
        """Prepare a connection; in a cluster `broker` names the one to control, such as `broker-b`.

        Without a name, topics, groups, offsets, inspection, stops and starts are about all of them, and faults and
        streams about the first. If the broker has users, `user` is the administrator who signs calls.
        """
        self._target = join(*split(control))
        self._timeout = timeout
        self._broker = broker
        self._user = user
        self._channel: aio.Channel | None = None
        self.clock = RemoteClock(self)
        """The broker's clock."""
        self.faults = RemoteFaults(self)
        """Its faults: `async with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS"): ...`."""

    async def __aenter__(self) -> FakeBrokerClient:
        """Connect, and check that a fake broker answers."""
        self._channel = aio.insecure_channel(self._target)
        try:
            await self.describe()
        except BaseException:
            await self._channel.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection; the broker keeps running."""
        if self._channel is not None:
            await self._channel.close()

    async def call(self, name: str, request: Any, *, timeout: float | None = None) -> Any:
        """Make one call of the control service. Any: each has its own message classes."""
        if self._channel is None:
            raise RuntimeError("FakeBrokerClient is not connected: use it inside `async with`.")
        method = METHODS[name]
        stub: Any = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            return await stub(request, timeout=timeout or self._timeout, metadata=self._metadata())
        except aio.AioRpcError as error:
            raise self._translate(error) from error

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        named = ((BROKER_HEADER, self._broker),) if self._broker is not None else ()
        return (*named, *(signed(self._user) if self._user is not None else ()))

    async def describe(self) -> ctl.Description:
        """Return version, profile, endpoint and clock of the broker."""
        description: ctl.Description = await self.call("Describe", ctl.Empty())
        return description

    async def restart(self) -> None:
        """Stop and start the broker on the same port; stored data is kept."""
        await self.call("Restart", ctl.Empty())

    async def stop(self) -> None:
        """Stop the broker gracefully; stored data is kept."""
        await self.call("Stop", ctl.Empty())

    async def start(self) -> None:
        """Start a broker that was stopped or has crashed, on the same port."""
        await self.call("Start", ctl.Empty())

    async def crash(self) -> None:
        """Close the broker's port at once, in the middle of calls."""
        await self.call("Crash", ctl.Empty())

    async def pause(self) -> None:
        """Pause the broker, as `Node.pause`, until `resume`."""
        await self.call("Pause", ctl.Empty())

    async def resume(self) -> None:
        """End a pause."""
        await self.call("Resume", ctl.Empty())

    async def partition(self) -> None:
        """Cut the broker off from all its clients, as `Node.partition`, until `heal`."""
        await self.call("Partition", ctl.Empty())

    async def heal(self) -> None:
        """End a partition."""
        await self.call("Heal", ctl.Empty())

    async def brokers(self) -> tuple[ctl.BrokerState, ...]:
        """Return name, endpoint and state of each broker of the cluster."""
        return tuple((await self.call("ListBrokers", ctl.Empty())).items)

    async def create_topic(
        self, name: str, *, exist_ok: bool = False, **options: Unpack[TopicOptions]
    ) -> None:
        """Create a topic, as `FakeBroker.create_topic`."""
        await self.call("CreateTopic", _topic(topic_config(name, **options), exist_ok))

    async def update_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Replace a topic's settings, as `FakeBroker.update_topic`."""
        await self.call("UpdateTopic", _topic(topic_config(name, **options)))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages."""
        await self.call("DeleteTopic", ctl.Name(name=name))

    async def topics(self) -> tuple[Topic, ...]:
        """Return all topics by name."""
        return _all(Topic, await self.call("ListTopics", ctl.Empty()))

    async def lite_topics(self, topic: str) -> dict[str, int]:
        """Return the lite topics below a parent, by name, with the number of messages in each."""
        listed: ctl.LiteTopics = await self.call("ListLiteTopics", ctl.Name(name=topic))
        return {one.name: one.messages for one in listed.items}

    async def create_group(
        self, name: str, *, exist_ok: bool = False, **options: Unpack[GroupOptions]
    ) -> None:
        """Create a consumer group, as `FakeBroker.create_group`."""
        await self.call("CreateGroup", _group(group_config(name, **options), exist_ok))

    async def update_group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Replace a group's settings, as `FakeBroker.update_group`."""
        await self.call("UpdateGroup", _group(group_config(name, **options)))

    async def delete_group(self, name: str) -> None:
        """Delete a consumer group."""
        await self.call("DeleteGroup", ctl.Name(name=name))

    async def groups(self) -> tuple[Group, ...]:
        """Return all consumer groups by name."""
        return _all(Group, await self.call("ListGroups", ctl.Empty()))

    async def reset_offset(
        self, group: str, topic: str, *, to: Literal["beginning", "end"] | datetime
    ) -> tuple[int, ...]:
        """Reset a group's offsets in every queue of a topic; return the new offsets by queue."""
        moment = to.timestamp() if isinstance(to, datetime) else 0.0
        place = "time" if isinstance(to, datetime) else to
        answer = await self.call("ResetOffset", ctl.Reset(group=group, topic=topic, to=place, time=moment))
        return tuple(answer.items)

    async def set_retention(
        self, *, retention: float | None = None, disk_used: float | None = None
    ) -> RetentionSnapshot:
        """Set how long messages are kept and how full the disk is, as `FakeBroker.set_retention`."""
        request = ctl.Retention(retention=retention, disk_used=disk_used)
        answer: ctl.Retention = await self.call("SetRetention", request)
        return RetentionSnapshot(answer.retention, answer.disk_used, DiskStage[answer.stage])

    async def delete_expired(self) -> int:
        """Delete expired messages, at any hour; return how many copies were deleted."""
        answer: ctl.Count = await self.call("DeleteExpired", ctl.Empty())
        return answer.count

    async def put_user(self, user: User) -> None:
        """Add a user, or replace the one with that access key; from the first one on every call must be signed."""
        request = ctl.User()
        fill(request, user)
        await self.call("PutUser", request)

    async def remove_user(self, access_key: str) -> None:
        """Remove a user at once; calls stay checked."""
        await self.call("RemoveUser", ctl.Name(name=access_key))

    async def users(self) -> tuple[User, ...]:
        """Return all users by access key, without their secrets."""
        return _all(User, await self.call("ListUsers", ctl.Empty()))

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Limit the calls per second of an RPC, as `FakeBroker.limit_rate`; None lifts the limit."""
        await self.call("LimitRate", ctl.Rate(rpc=rpc, per_second=per_second))

    async def rates(self) -> dict[str, float]:
        """Return the limits in calls per second, by RPC."""
        listed: ctl.Rates = await self.call("ListRates", ctl.Empty())
        return {rate.rpc: rate.per_second for rate in listed.items}

    async def cut_streams(self, client_id: str | None = None, *, status: str = "UNAVAILABLE") -> int:
        """Break the open telemetry streams of one client, or of all; return how many."""
        answer: ctl.Count = await self.call("CutStreams", ctl.Cut(client_id=client_id, status=status))
        return answer.count

    async def deliveries(
        self, topic: str | None = None, *, group: str | None = None
    ) -> tuple[DeliveredMessage, ...]:
        """Return past deliveries, oldest first."""
        return _all(DeliveredMessage, await self.call("ListDeliveries", ctl.Which(topic=topic, group=group)))

    async def dead_letters(self, group: str) -> tuple[Message, ...]:
        """Return the dead letters of a group, oldest first."""
        return _all(Message, await self.call("ListDeadLetters", ctl.Name(name=group)))

    async def messages(self, topic: str) -> tuple[Message, ...]:
        """Return the stored messages of a topic, by queue and offset."""
        return _all(Message, await self.call("ListMessages", ctl.Name(name=topic)))

    async def clients(self) -> tuple[Client, ...]:
        """Return all clients with stored settings, by id."""
        return _all(Client, await self.call("ListClients", ctl.Empty()))

    async def leases(self, group: str | None = None) -> tuple[Lease, ...]:
        """Return the messages in flight."""
        return _all(Lease, await self.call("ListLeases", ctl.Which(group=group)))

    async def progress(self, group: str | None = None) -> tuple[Progress, ...]:
        """Return the progress of groups, by group, topic and queue."""
        return _all(Progress, await self.call("ListProgress", ctl.Which(group=group)))

    async def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """Return what blocks ordered groups."""
        return _all(OrderSnapshot, await self.call("ListOrderRecords", ctl.Which(group=group)))

    async def totals(self) -> Totals:
        """Count what the broker holds."""
        return read(Totals, await self.call("CountAll", ctl.Empty()))

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> ClientReply | None:
        """Ask a consumer to consume a stored message on trial; None if no reply came within 5 s (R2.11)."""
        return await self._command(client_id, "verify_message", topic, message_id)

    async def print_stack_trace(self, client_id: str) -> ClientReply | None:
        """Ask a client for its stack traces; None if no reply came within 5 s (R2.11)."""
        return await self._command(client_id, "print_stack_trace")

    async def reconnect_endpoints(self, client_id: str) -> None:
        """Ask a client to reconnect; it does not reply."""
        await self._command(client_id, "reconnect_endpoints")

    async def _command(
        self, client_id: str, command: str, topic: str = "", message_id: str = ""
    ) -> ClientReply | None:
        request = ctl.ClientCommand(client_id=client_id, command=command, topic=topic, message_id=message_id)
        replies = _all(ClientReply, await self.call("CommandClient", request))
        return replies[0] if replies else None

    def _translate(self, error: aio.AioRpcError) -> Exception:
        text = error.details() or ""
        match error.code():
            case grpc.StatusCode.INVALID_ARGUMENT:
                return ValueError(text)
            case grpc.StatusCode.FAILED_PRECONDITION:
                code = next((v for k, v in error.trailing_metadata() or () if k == CODE_HEADER), "50001")
                return Refusal(Code(int(code)), text)
            case _:
                return ConnectionError(
                    f"no fake broker answers at {self._target} ({error.code().name}: {text}): "
                    "give the control endpoint that `aiorocketmq fake serve` prints."
                )


class RemoteClock:
    """The clock of a broker in another process."""

    def __init__(self, client: FakeBrokerClient) -> None:
        self._client = client

    async def now(self) -> float:
        """Return the broker's present in Unix seconds."""
        return (await self._read()).now

    async def utc(self) -> datetime:
        """Return the broker's present as an aware datetime."""
        return datetime.fromtimestamp(await self.now(), UTC)

    async def next_deadline(self) -> float | None:
        """Return the next deadline in Unix seconds; None without one."""
        instant = await self._read()
        return instant.next_deadline if instant.HasField("next_deadline") else None

    async def parked(self) -> int:
        """Return the number of parked receives and pulls."""
        return (await self._read()).parked

    async def advance(
        self,
        *,
        seconds: float = 0.0,
        minutes: float = 0.0,
        hours: float = 0.0,
        patience: float = 0.0,
        forget_clients: bool = False,
    ) -> None:
        """Move a manual clock, as `BrokerClock.advance`; ValueError if it is real."""
        step = ctl.Advance(
            seconds=seconds + 60 * minutes + 3600 * hours, patience=patience, forget_clients=forget_clients
        )
        await self._client.call("AdvanceClock", step, timeout=MOVING)

    async def jump(self, seconds: float) -> None:
        """Set the clock forward or back, as `BrokerClock.jump`."""
        await self._client.call("JumpClock", ctl.Advance(seconds=seconds))

    async def _read(self) -> ctl.Instant:
        instant: ctl.Instant = await self._client.call("ReadClock", ctl.Empty())
        return instant


class RemoteFault:
    """A fault rule of a broker in another process: `await` activates it, `async with` removes it at the end of the
    block."""

    def __init__(self, client: FakeBrokerClient, rule: FaultRule) -> None:
        self.rule = rule
        """What it does to which calls."""
        self.number = 0
        """The rule's number in the broker; 0 before it is active."""
        self._client = client

    def __await__(self) -> Generator[Any, None, RemoteFault]:
        return self._add().__await__()

    async def __aenter__(self) -> RemoteFault:
        return await self._add()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.remove()

    async def remove(self) -> None:
        """Remove the rule; a second call does nothing."""
        await self._client.faults.remove(self.number)

    async def _add(self) -> RemoteFault:
        request = ctl.FaultRule()
        fill(request, self.rule)
        self.number = (await self._client.call("AddFault", request)).number
        return self


class RemoteFaults(FaultScript[RemoteFault]):
    """The fault rules of a broker in another process."""

    def __init__(self, client: FakeBrokerClient) -> None:
        self._client = client

    def add(self, rule: FaultRule) -> RemoteFault:
        """Prepare a rule; awaiting or entering it activates it."""
        return RemoteFault(self._client, rule)

    async def remove(self, number: int) -> None:
        """Remove a rule by its number; an unknown number is ignored."""
        await self._client.call("RemoveFault", ctl.FaultNumber(number=number))

    async def clear(self) -> None:
        """Remove every rule."""
        await self._client.call("ClearFaults", ctl.Empty())

    async def at_work(self) -> tuple[tuple[int, FaultRule, int], ...]:
        """Return number, rule and hits of every active rule, the oldest first."""
        listed: ctl.Faults = await self._client.call("ListFaults", ctl.Empty())
        return tuple((fault.number, read(FaultRule, fault.rule), fault.hits) for fault in listed.items)


def _all(kind: type[V], listed: Any) -> tuple[V, ...]:
    """Read the `items` of a list message. Any: every list message has its own class."""
    return tuple(read(kind, item) for item in listed.items)


def _topic(config: TopicConfig, exist_ok: bool = False) -> ctl.Topic:
    return ctl.Topic(
        name=config.name,
        type=config.type.name,
        read_queues=config.read_queues,
        write_queues=config.write_queues,
        permission=config.permission.name,
        lite_expiration=config.lite_expiration,
        lite_limit=config.lite_limit,
        exist_ok=exist_ok,
    )


def _group(config: GroupConfig, exist_ok: bool = False) -> ctl.Group:
    policy = config.retry_policy
    if policy is not None and not policy.steps:
        raise ValueError(f"backoff must be a sequence of seconds over the control service, got {policy!r}")
    return ctl.Group(
        name=config.name,
        ordered=config.ordered,
        max_attempts=config.max_attempts,
        backoff=policy.steps if policy is not None else (),
        consume_enabled=config.consume_enabled,
        lite_topic=config.lite_bind_topic,
        lite_quota=config.lite_quota,
        lite_exclusive=config.lite_exclusive,
        exist_ok=exist_ok,
    )
