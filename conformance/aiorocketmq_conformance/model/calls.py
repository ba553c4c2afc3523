"""Histories as the model reads them: every call with its request, its response and the interval that it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

OK = "OK"
UNKNOWN = ""
"""The code of a call without a response: it may or may not have taken effect."""


class Instant(NamedTuple):
    """A point of a history: seconds, and the number of the step, which orders what one clock tick contains."""

    at: float
    step: int


START = Instant(0.0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have in common; whoever records one sets its interval."""

    begun: Instant = START
    ended: Instant = START
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroup(Event):
    """What happens to a group."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InTopic(OfGroup):
    """What a group does in a topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated(Event):
    """A topic was created, or got more queues."""

    topic: str
    type: str
    queues: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreated(OfGroup):
    """A consumer group was created, or got another limit of attempts."""

    ordered: bool
    max_attempts: int
    steps: tuple[float, ...] = ()
    """Its own retry intervals; empty for the server's."""
    is_anew: bool = False
    """It was deleted before, with its progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a message consists of."""

    id: str
    topic: str
    body: str
    encoding: str = "IDENTITY"
    tag: str | None = None
    keys: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    message_group: str = ""
    """Or its lite topic, which has the same order."""
    priority: int | None = None
    born_ms: int = 0
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages a consumer selects; equal to another one with the same text."""

    text: str
    """As it is sent; of lite topics their names."""
    selects: Callable[[Content], bool] = field(compare=False)
    is_sql: bool = False
    is_lite: bool = False


EVERYTHING = Filter("*", lambda content: True)


def differences(sent: Content, came: Content, *more: str) -> Iterator[tuple[str, object, object]]:
    """Yield name and values of what differs, but is the same in every delivery and check, as are `more`."""
    for name in ("body", "encoding", "tag", "keys", "properties", "born_ms", *more):
        if (was := getattr(sent, name)) != (now := getattr(came, name)):
            yield name, was, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message of a send."""

    content: Content
    type: str = "NORMAL"
    deliver_at: float | None = None
    recovery: float | None = None
    """Its own time before the first check of its transaction."""
    is_legal: bool = True
    """Whether the documents allow it, apart from its topic."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One entry of the response to a send."""

    code: str
    offset: int = -1
    transaction: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Event):
    """One send of one or more messages."""

    messages: tuple[Outgoing, ...]
    code: str
    receipts: tuple[Receipt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One message of the response to a receive."""

    content: Content
    attempt: int
    handle: str
    queue: int
    offset: int
    stored: float
    """The store time, seconds of the history."""
    due: float | None
    """The delivery time, seconds of the history."""
    at: Instant
    """When it arrived."""
    after: Instant
    """The server sent it after this point: everything that had ended by then surely came first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive(InTopic):
    """One receive; `ended` is the end of its stream."""

    filter: Filter = EVERYTHING
    batch: int = 32
    invisible: float = 30.0
    poll: float = 5.0
    auto_renew: bool = False
    code: str = OK
    deliveries: tuple[Delivered, ...] = ()
    is_cut: bool = False
    """The stream broke, or the server was restarted: the response proves nothing about other messages."""
    repeats: bool = False
    """Another receive, begun before this one ended, has the same attempt id: an ordered group may get what that one
    has leased."""
    has_died: bool = False
    """The server died without a response: it may have leased messages that nobody got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(InTopic):
    """One acknowledgement of one or more messages."""

    entries: tuple[tuple[str, str], ...]
    """Message id and receipt handle."""
    code: str
    codes: tuple[str, ...] = ()
    echoed: tuple[tuple[str, str], ...] | None = None
    """Message ids and handles of the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(InTopic):
    """One change of an invisible duration."""

    message: str
    handle: str
    seconds: float
    suspend: bool = False
    code: str
    new_handle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(InTopic):
    """A client moves a message to the dead letters."""

    message: str
    handle: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(Event):
    """The end of a transaction."""

    topic: str
    message: str
    transaction: str
    decision: str
    """`commit`, `rollback` or `unspecified`."""
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Event):
    """A server asked a producer how a transaction ended; both instants are its arrival."""

    content: Content
    transaction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Event):
    """A recall of a delayed message."""

    topic: str
    message: str
    """The message whose handle was sent."""
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(OfGroup):
    """A consumer sent its settings, and got those of its group."""

    ordered: bool
    max_attempts: int
    steps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Event):
    """A query for the route of a topic."""

    topic: str
    code: str
    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(InTopic):
    """A query for the queues that a consumer may receive from."""

    code: str
    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(InTopic):
    """An administrator moved a group to the beginning of a topic, to its end, or to a time."""

    to_end: bool
    at: float | None = None
    """To what was stored then or later, seconds of the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfQueue(InTopic):
    """What a group does in a queue."""

    queue: int

    @property
    def place(self) -> tuple[str, str, int]:
        """Group, topic and queue."""
        return self.group, self.topic, self.queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(OfQueue):
    """One pull of a queue, which leases nothing."""

    offset: int
    batch: int
    poll: float
    filter: Filter
    code: str
    deliveries: tuple[Delivered, ...]
    next_offset: int
    commit: int | None = None
    """The offset that it commits for the group."""
    late: float = 0.0
    """Its server looks at polls that wait so often only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(OfQueue):
    """A group commits an offset of a queue."""

    commit: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(OfQueue):
    """A query for the offset that a group has committed."""

    offset: int | None
    """None if the server has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends(Event):
    """A query for the first offset of a queue, and for the one after its last."""

    topic: str
    queue: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(OfGroup):
    """A heartbeat of a member of a group that shares queues out by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left(OfGroup):
    """Such a member leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members(OfGroup):
    """A query for the members of such a group."""

    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed(OfGroup):
    """A member is told that the members of such a group have changed; both instants are the arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(InTopic):
    """A member asks for the locks of queues, and holds those that are granted."""

    asked: tuple[int, ...]
    granted: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlock(InTopic):
    """A member gives locks of queues back."""

    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim(Event):
    """Messages older than an age were deleted."""

    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Event):
    """The server was restarted gracefully."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Event):
    """The server was paused, as SIGSTOP does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone(Event):
    """A client terminated, or crashed: it sends nothing from then on."""

    crashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag(InTopic):
    """An administrator's view of a group: messages not yet received, and messages in flight."""

    waiting: int
    in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(InTopic):
    """A group polled a topic until nothing arrived, after every lease and delay had ended."""


Occurrence: TypeAlias = (
    TopicCreated | GroupCreated | Send | Receive | Ack | Change | Forward | EndTransaction | Check | Recall | Settings
    | Route | Assignment | Reset | Pull | Commit | Committed | Ends | Joined | Left | Members | Noticed | Lock | Unlock
    | Trim | Restart | Pause | Gone | Lag | Drained
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Violation:
    """A response that the model does not allow."""

    rule: str
    """Short name of the rule."""
    text: str
    """One sentence: what was wrong, and what is allowed."""
    at: Instant
    message: str = ""
    """The message id, if it is about one."""
