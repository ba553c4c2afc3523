"""Hooks: application code around every send and every handler call, and a stream of events of a client.

    class Timing(Hook):
        async def send(self, message, call):
            started = monotonic()
            try:
                return await call(message)
            finally:
                observe(monotonic() - started)

    Producer(rocketmq, hooks=[Timing()])           # the first hook is the outermost

`send` and `handle` wrap the work and may change the message, the result or the error. `observe` only watches: it gets
one frozen event for each step, on the event loop, at the moment it happens. A client without hooks emits no events.
Events are for reading; constructing them is not part of the API.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from aiorocketmq._core.transactions import Resolution
from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from aiorocketmq.subscription import Sql, Tags

__all__ = [
    "AckEvent",
    "AssignEvent",
    "ChangeEvent",
    "ChangeReason",
    "ClientEvent",
    "ClientIdentity",
    "CommitEvent",
    "DeliverEvent",
    "Event",
    "ForwardEvent",
    "Grain",
    "HandleCall",
    "HandleEvent",
    "Hook",
    "LiteChange",
    "LiteSyncEvent",
    "LockEvent",
    "Phase",
    "RecallEvent",
    "ReceiveEvent",
    "Role",
    "SeekEvent",
    "SendCall",
    "SendEvent",
    "SettingsEvent",
    "SettleEvent",
    "TransactionCheckEvent",
    "TransactionEndEvent",
    "around_handle",
    "around_send",
]


class Role(Enum):
    """Which kind of client it is."""

    PRODUCER = "producer"
    PUSH = "push"
    SIMPLE = "simple"
    PULL = "pull"


class Phase(Enum):
    """The phase of an operation: it begins with INVOKE and ends with exactly one of OK, FAIL and INFO."""

    INVOKE = "invoke"
    """It begins."""
    OK = "ok"
    """It has succeeded."""
    FAIL = "fail"
    """It was refused: it had no effect."""
    INFO = "info"
    """Its outcome is unknown: no answer, or cancelled."""
    SINGLE = "single"
    """The event has no duration."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The client that an event belongs to."""

    client_id: str
    role: Role
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have in common."""

    client: ClientIdentity
    phase: Phase = Phase.SINGLE
    operation: str | None = None
    """Joins the invoke of an operation with its completion; unique within the client."""
    error: RocketMQError | None = None
    """The failure (FAIL), or why the outcome is unknown (INFO)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEvent(Event):
    """One attempt to send one message; a retry is an operation of its own with the same message id."""

    message: Message
    message_id: str
    attempt: int = 1
    due_us: int | None = None
    """Delivery time of a delayed message: microseconds since 1970."""
    is_half: bool = False
    """Whether it is the half message of a transaction, which is invisible until its commit."""
    receipt: SendReceipt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallEvent(Event):
    """A delayed message is recalled."""

    topic: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEndEvent(Event):
    """A transaction is committed or rolled back; one that is left undecided has no such event."""

    topic: str
    message_id: str
    transaction_id: str
    resolution: Resolution
    from_check: bool = False
    """Whether it answers a check of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCheckEvent(Event):
    """A server checks how a transaction ended."""

    message: ReceivedMessage
    transaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveEvent(Event):
    """One poll (receive or pull); `count` is the number of messages in its answer."""

    queue: MessageQueue
    """A queue id of -1 stands for all queues of the broker."""
    max_messages: int
    invisible: float | None = None
    auto_renew: bool = False
    attempt_id: str | None = None
    count: int = 0
    filter: Tags | Sql | None = None
    """The filter of the poll."""
    readable: tuple[MessageQueue, ...] = ()
    """All readable queues of the topic, by its route; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverEvent(Event):
    """One message of a poll's answer, before any handler sees it; `operation` is the poll's."""

    message: ReceivedMessage
    handle: str
    """The receipt handle that it arrived with, the permanent name of this delivery."""
    position: int
    """Its index in the answer, from 0."""
    invisible: float | None = None
    """Seconds of its lease; None if it has none."""
    auto_renew: bool = False
    attempt_id: str | None = None
    filter: Tags | Sql | None = None
    """The filter of the poll."""
    server_deliver_us: int | None = None
    """The server's clock when it answered, microseconds since 1970."""
    attempt: int | None = None
    """`message.attempt` at that moment, which grows with each local retry of an ordered group; None: unchanged
    since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleEvent(Event):
    """A handler starts (INVOKE), returns (OK), or raises (FAIL)."""

    message: ReceivedMessage
    raised: BaseException | None = None
    attempt: int | None = None
    """`message.attempt` at that moment, which grows with each local retry of an ordered group; None: unchanged
    since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleEvent(Event):
    """What the events about one message's lease have in common."""

    message: ReceivedMessage
    delivery: str
    """The receipt handle that the delivery arrived with."""
    handle: str
    """The handle that was used; after a successful change the new one."""
    attempt: int | None = None
    """`message.attempt` at that moment, as for handlers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckEvent(SettleEvent):
    """One message is acknowledged; a call that acknowledges many emits one event for each."""


class ChangeReason(Enum):
    """Why a lease is changed."""

    RETRY = "retry"
    """Released, to be redelivered after the given time."""
    SUSPEND = "suspend"
    """The same, and the redelivery is not to count as an attempt: a handler of lite topics asked for it later."""
    EXTEND = "extend"
    """The lease is renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent(SettleEvent):
    """The end of a lease is moved to `invisible` seconds from now."""

    invisible: float
    reason: ChangeReason
    previous_handle: str | None = None
    """On success the handle that was replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardEvent(SettleEvent):
    """This client moves a message to the dead-letter topic."""


class Grain(Enum):
    """What the members of a consumer group share."""

    MESSAGE = "message"
    """Messages: several members may read a queue, and each message is leased by one of them."""
    QUEUE = "queue"
    """Queues: each is read by one member, which commits its offset."""
    BROADCAST = "broadcast"
    """Nothing: each member reads all queues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignEvent(Event):
    """The queues that the consumer reads from now on."""

    queues: tuple[MessageQueue, ...]
    generation: int
    """Counts the assignments of this consumer, from 1."""
    revoked: tuple[MessageQueue, ...] = ()
    """The queues that it stops reading."""
    grain: Grain = Grain.QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent(Event):
    """An ordered consumer of whole queues locks a queue, or renews its lock; one member of a group holds it at a time.

    The broker grants the lock (OK), or refuses it because another member holds it (FAIL)."""

    queue: MessageQueue
    is_release: bool = False
    """Whether the lock is released instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEvent(Event):
    """A consumer of whole queues commits `offset`, which is that of the next message to consume."""

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekEvent(Event):
    """A consumer of whole queues continues at `offset`: by a seek, or because the server has no other."""

    queue: MessageQueue
    offset: int
    instead_of: int | None = None
    """The offset that the server did not have; None for a seek."""


class LiteChange(Enum):
    """How a subscription to lite topics changes."""

    ADD = "add"
    """These are added to it."""
    REMOVE = "remove"
    """These are removed from it."""
    ALL = "all"
    """It consists of exactly these."""
    TAKEN = "taken"
    """The server has revoked these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteSyncEvent(Event):
    """A consumer sends its subscription to lite topics to the servers, or the server revokes one of them.

    The whole list is sent at the start and then periodically; an event without names is emitted without a call."""

    topic: str
    """The parent topic."""
    change: LiteChange
    lite_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsEvent(Event):
    """The server's settings of the group, in force from here on."""

    ordered: bool
    max_attempts: int | None
    steps: tuple[float, ...] = ()
    """Seconds between attempts; the last one repeats. Empty if the server sends a formula or nothing."""
    order_grain: str | None = None
    """What an ordered group locks, `message_group` or `queue`; None if unknown, since servers do not declare it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvent(Event):
    """The client starts (INVOKE), is usable (OK) or could not start (FAIL); with `running` false, it has stopped."""

    running: bool
    properties: Mapping[str, str] | None = None


SendCall: TypeAlias = Callable[[Message], Awaitable[SendReceipt]]
HandleCall: TypeAlias = Callable[[ReceivedMessage], Awaitable[None]]


class Hook:
    """Base class of hooks, which passes everything through; override what you need.

    One hook may serve many clients of one event loop. `send` and `handle` run in the task that makes the call."""

    async def send(self, message: Message, call: SendCall) -> SendReceipt:
        """Wrap one send with all of its retries; `await call(message)` performs it and returns the receipt.

        It may pass another message, call several times, or not at all. Exceptions propagate to the caller of `send`; if
        that is cancelled, so is this coroutine."""
        return await call(message)

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        """Wrap one call of a handler; `await call(message)` performs it.

        An exception counts as the handler's: the message is redelivered, unless it is RetryLater or DeadLetter, which
        mean what they mean in a handler. A handler's timeout and the consumer's stop cancel this coroutine."""
        await call(message)

    def observe(self, event: Event) -> None:
        """Receive one event. Called on the event loop, so it must not block; exceptions are logged and ignored."""

    def metrics(self, client_id: str) -> bytes | None:
        """Return the metrics of one client as an OTLP `ExportMetricsServiceRequest`, None if there are none.

        Called at once and then every minute while the server's settings enable metrics; the client sends them to the
        server. Exceptions are logged and ignored."""
        return None


def around_send(hooks: tuple[Hook, ...], call: SendCall) -> SendCall:
    """Return `call` inside all hooks that wrap sends, the first one outermost; `call` itself if there are none."""
    for hook in reversed(hooks):
        if type(hook).send is not Hook.send:
            call = _bind_send(hook, call)
    return call


def around_handle(hooks: tuple[Hook, ...], call: HandleCall) -> HandleCall:
    """Return `call` inside all hooks that wrap handlers, the first one outermost; `call` itself if there are none."""
    for hook in reversed(hooks):
        if type(hook).handle is not Hook.handle:
            call = _bind_handle(hook, call)
    return call


def metric_sources(hooks: tuple[Hook, ...]) -> tuple[Callable[[str], bytes | None], ...]:
    """Return the `metrics` methods of the hooks that override it."""
    return tuple(hook.metrics for hook in hooks if type(hook).metrics is not Hook.metrics)


def _bind_send(hook: Hook, call: SendCall) -> SendCall:
    async def send(message: Message) -> SendReceipt:
        return await hook.send(message, call)

    return send


def _bind_handle(hook: Hook, call: HandleCall) -> HandleCall:
    async def handle(message: ReceivedMessage) -> None:
        await hook.handle(message, call)

    return handle
