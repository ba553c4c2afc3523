"""Hooks: code of yours around every send and every handler call, and a view of every fact of a client.

    class Timing(Hook):
        async def send(self, message, call):
            started = monotonic()
            try:
                return await call(message)
            finally:
                observe(monotonic() - started)

    Producer(rocketmq, hooks=[Timing()])           # the first hook is the outermost

`send` and `handle` wrap the work and may change the message, the result or the error. `observe` only watches:
it gets one frozen event per fact, on the event loop, at the moment it happens. A client without hooks makes
no events at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from aiorocketmq._aio.frozen import fact
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
    """Where in its life an operation is."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    """The server refused it: it had no effect."""
    INFO = "info"
    """Nobody knows whether it had an effect."""
    SINGLE = "single"
    """The fact has no duration."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Whose event it is."""

    client_id: str
    role: Role
    group: str | None = None


@fact
class Event:
    """What all events tell."""

    client: ClientIdentity
    phase: Phase = Phase.SINGLE
    operation: str | None = None
    """Joins the invoke of an operation with its completion; unique within the client."""
    error: RocketMQError | None = None
    """Why it failed, or why nobody knows."""


@fact
class SendEvent(Event):
    """One try to send one message; a retry is an operation of its own with the same message id."""

    message: Message
    message_id: str
    attempt: int = 1
    due_us: int | None = None
    """When consumers may see it, for delayed messages: microseconds since 1970."""
    is_half: bool = False
    """Whether it is the half message of a transaction, which nobody sees before its commit."""
    receipt: SendReceipt | None = None


@fact
class RecallEvent(Event):
    """A delayed message is taken back."""

    topic: str
    message_id: str | None = None


@fact
class TransactionEndEvent(Event):
    """A transaction is committed or rolled back; one that is left unknown has no such event."""

    topic: str
    message_id: str
    transaction_id: str
    resolution: Resolution
    from_check: bool = False
    """Whether the server had asked."""


@fact
class TransactionCheckEvent(Event):
    """A server asks what became of a transaction."""

    message: ReceivedMessage
    transaction_id: str


@fact
class ReceiveEvent(Event):
    """One poll; `count` is what it brought."""

    queue: MessageQueue
    """A queue id of -1 stands for all queues of the broker."""
    max_messages: int
    invisible: float | None = None
    auto_renew: bool = False
    attempt_id: str | None = None
    count: int = 0
    filter: Tags | Sql | None = None
    """What the poll asks for."""
    readable: tuple[MessageQueue, ...] = ()
    """All queues of the topic that can be read, as its route names them; empty where that is not known."""


@fact
class DeliverEvent(Event):
    """One message of a poll's answer, before any handler sees it; `operation` is the poll's."""

    message: ReceivedMessage
    handle: str
    """The receipt handle it came with, which names this delivery for good."""
    position: int
    invisible: float | None = None
    auto_renew: bool = False
    attempt_id: str | None = None
    filter: Tags | Sql | None = None
    """What the poll asked for."""
    server_deliver_us: int | None = None
    """The server's clock when it answered, microseconds since 1970."""
    attempt: int | None = None
    """What `message.attempt` was then: it is counted on with each local run of an ordered group. None: as it is."""


@fact
class HandleEvent(Event):
    """A handler starts (invoke) or has ended (ok, or fail with what it raised)."""

    message: ReceivedMessage
    raised: BaseException | None = None
    attempt: int | None = None
    """What `message.attempt` was then: it is counted on with each local run of an ordered group. None: as it is."""


@fact
class SettleEvent(Event):
    """What the events about one message's lease share."""

    message: ReceivedMessage
    delivery: str
    """The receipt handle that the delivery came with."""
    handle: str
    """The handle that was used; after a successful change the new one."""
    attempt: int | None = None
    """What `message.attempt` was then, as for handlers."""


@fact
class AckEvent(SettleEvent):
    """One message is acknowledged; many in one call are one event each."""


class ChangeReason(Enum):
    """Why a lease is changed."""

    RETRY = "retry"
    """Given back, to come again after the time given."""
    EXTEND = "extend"
    """Kept for longer."""


@fact
class ChangeEvent(SettleEvent):
    """The end of a lease is moved to `invisible` seconds from now."""

    invisible: float
    reason: ChangeReason
    previous_handle: str | None = None
    """On success the handle that was replaced."""


@fact
class ForwardEvent(SettleEvent):
    """A message is moved to the dead letters by this client."""


class Grain(Enum):
    """What the members of a consumer group share."""

    MESSAGE = "message"
    """Messages: several members may read a queue, and each message is leased by one of them."""
    QUEUE = "queue"
    """Queues: each is read by one member, which commits how far it has come."""
    BROADCAST = "broadcast"
    """Nothing: each member reads all queues for itself."""


@fact
class AssignEvent(Event):
    """The queues that the consumer reads from now on."""

    queues: tuple[MessageQueue, ...]
    generation: int
    """Counts the assignments of this consumer, from 1."""
    revoked: tuple[MessageQueue, ...] = ()
    """Those that it has read until now, and reads no more."""
    grain: Grain = Grain.QUEUE


@fact
class LockEvent(Event):
    """A consumer that reads in order takes or keeps the lock of a queue, which one member of its group has at a time.

    An operation: the broker is asked, and grants the lock (ok), or refuses it (fail), as another member has it."""

    queue: MessageQueue
    is_release: bool = False
    """Whether it is released instead."""


@fact
class CommitEvent(Event):
    """The progress in a queue of a consumer that reads whole queues is written: `offset` is the next one to consume."""

    queue: MessageQueue
    offset: int


@fact
class SeekEvent(Event):
    """A consumer of whole queues goes on reading one at `offset`: on purpose, or as the server has no other."""

    queue: MessageQueue
    offset: int
    instead_of: int | None = None
    """The offset that the server did not have; None for a seek on purpose."""


class LiteChange(Enum):
    """What is told of lite topics."""

    ADD = "add"
    """These are wanted, too."""
    REMOVE = "remove"
    """These are wanted no more."""
    ALL = "all"
    """These are wanted, and no others."""
    TAKEN = "taken"
    """The server says that it has taken these away."""


@fact
class LiteSyncEvent(Event):
    """A consumer tells the servers which lite topics it wants, or hears of one that it has lost.

    The whole list is told at the start, and again and again; one without names is a fact that no server is told."""

    topic: str
    """The parent topic."""
    change: LiteChange
    lite_topics: tuple[str, ...]


@fact
class SettingsEvent(Event):
    """The server's settings for the group, in force from here on."""

    ordered: bool
    max_attempts: int | None
    steps: tuple[float, ...] = ()
    """Seconds between attempts; the last one repeats. Empty where the server sends a formula or nothing."""
    order_grain: str | None = None
    """What an ordered group locks, `message_group` or `queue`, where that is known: servers do not tell."""


@fact
class ClientEvent(Event):
    """The client has started (invoke: it begins to; ok: usable; fail), or has stopped."""

    running: bool
    properties: Mapping[str, str] | None = None


SendCall: TypeAlias = Callable[[Message], Awaitable[SendReceipt]]
HandleCall: TypeAlias = Callable[[ReceivedMessage], Awaitable[None]]


class Hook:
    """The base of hooks: everything passes through; override what you need.

    `send` and `handle` run inside the caller's task: what they raise, the caller sees. What `observe` raises
    is logged and goes no further, since a fact cannot be undone."""

    async def send(self, message: Message, call: SendCall) -> SendReceipt:
        """Wrap one send, its retries included; `await call(message)` performs it."""
        return await call(message)

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        """Wrap one call of a push consumer's handler; `await call(message)` performs it."""
        await call(message)

    def observe(self, event: Event) -> None:
        """Watch one fact; called on the event loop, so it must be quick and must not block."""

    def metrics(self, client_id: str) -> bytes | None:
        """The metrics of one client as an OTLP `ExportMetricsServiceRequest`, None where there are none to tell.

        Asked at once and then every minute while the server's settings want metrics; the client sends them there."""
        return None


def around_send(hooks: tuple[Hook, ...], call: SendCall) -> SendCall:
    """`call` inside all hooks that wrap sends, the first one outermost; `call` itself where there are
    none."""
    for hook in reversed(hooks):
        if type(hook).send is not Hook.send:
            call = _bind_send(hook, call)
    return call


def around_handle(hooks: tuple[Hook, ...], call: HandleCall) -> HandleCall:
    """`call` inside all hooks that wrap handlers, the first one outermost; `call` itself where there are
    none."""
    for hook in reversed(hooks):
        if type(hook).handle is not Hook.handle:
            call = _bind_handle(hook, call)
    return call


def metric_sources(hooks: tuple[Hook, ...]) -> tuple[Callable[[str], bytes | None], ...]:
    """The `metrics` methods of those hooks that have one of their own."""
    return tuple(hook.metrics for hook in hooks if type(hook).metrics is not Hook.metrics)


def _bind_send(hook: Hook, call: SendCall) -> SendCall:
    async def send(message: Message) -> SendReceipt:
        return await hook.send(message, call)

    return send


def _bind_handle(hook: Hook, call: HandleCall) -> HandleCall:
    async def handle(message: ReceivedMessage) -> None:
        await hook.handle(message, call)

    return handle
