"""A recorder's account of its clients: facts in the order in which they happened become rows that are numbered and
joined (docs/reference/recording.md). Pure: times come with the facts."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from aiorocketmq._recording_drains import Drained, Drains
from aiorocketmq._recording_rows import DRAIN, END, SHAPES, START, Cells, Shape, kind_of
from aiorocketmq.hooks import ClientEvent, ClientIdentity, DeliverEvent, Event, Phase, ReceiveEvent

OPEN_CALLS = 65_536
"""How many calls are remembered for their completions; polls stay after theirs, for the deliveries they brought."""

_INVOKE, _SINGLE = Phase.INVOKE, Phase.SINGLE


@dataclass(frozen=True, slots=True)
class Begin:
    """The recording begins; what it says of itself."""

    cfg: dict[str, str]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """So many facts could not be kept."""

    count: int


@dataclass(frozen=True, slots=True)
class End:
    """The recording ends."""


Fact: TypeAlias = tuple[int, int, "int | None", "Event | Begin | LeftOut | End"]
"""Wall clock, monotonic clock, and the machine's clock where that is another, all in nanoseconds; and what happened."""

Rows: TypeAlias = dict[Shape, list[Cells]]


Moment: TypeAlias = tuple[int, int, "int | None"]
"""A fact's time as rows tell it: wall clock in microseconds, monotonic in nanoseconds, real clock in microseconds."""


class Call(NamedTuple):
    """The row of a call, for that of its completion."""

    wall_us: int | None = None
    seq: int | None = None


_NO_CALL = Call()


@dataclass(frozen=True, slots=True)
class _Client:
    """A client that has not stopped."""

    epoch: int
    role: str


@dataclass(slots=True)
class _Answer:
    """All messages of one answer share one time, so that their order is that of their places."""

    poll: str | None = None
    at: Moment = (0, 0, None)


class Account:
    """Takes facts, in their order, and makes rows of them."""

    def __init__(self) -> None:
        self._seq = 0
        self._epochs: dict[str, int] = {}
        self._clients: dict[str, _Client] = {}
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._answer = _Answer()
        self._drains: Drains | None = Drains()
        """None once facts were left out: among them may have been anything."""

    def take(self, facts: Iterable[Fact]) -> Rows:
        """Make rows of the next facts, by shape."""
        rows: Rows = defaultdict(list)
        for wall_ns, mono_ns, real_ns, what in facts:
            at = (wall_ns // 1000, mono_ns, None if real_ns is None else real_ns // 1000)
            if isinstance(what, Event):
                self._note(rows, at, what)
                if type(what) is ClientEvent and has_stopped(what):
                    del self._clients[what.client.client_id]
            elif type(what) is LeftOut:
                self._seq += what.count
                self._drains = None
            elif type(what) is Begin:
                self._say(rows, START, at, what.cfg)
            else:
                self._say(rows, END, at)
        return rows

    def _note(self, rows: Rows, at: Moment, event: Event) -> None:
        identity = event.client
        client = self._clients.get(identity.client_id)
        if client is None:
            client = self._begin(identity)
        shape = SHAPES.get(type(event))
        kind = None if shape is None else shape.kind or kind_of(event)
        if shape is None or kind is None:
            return
        seq, self._seq = self._seq, self._seq + 1
        operation = None if event.operation is None else f"{identity.client_id}/{event.operation}"
        if type(event) is DeliverEvent:
            if operation is not None and operation == self._answer.poll:
                at = self._answer.at
            else:
                self._answer = _Answer(operation, at)
        call = self._call_of(event, operation, at, seq)
        if call is None:
            return
        name, group = identity.client_id, identity.group
        code = None if event.error is None else event.error.code
        # Not by unpacking, which goes through a list: this runs for every event.
        wall_us, mono_ns, real_us = at
        asked_us, asked_seq = call
        cells: Cells = (seq, kind, wall_us, mono_ns, real_us, client.epoch, asked_us, asked_seq)
        cells += (name, client.role, group, code)
        if shape.is_operation:
            # `.value` is a property in Python, and this one is read for every row.
            phase = None if event.phase is _SINGLE else event.phase._value_
            cells += (phase, operation)
        rows[shape].append(cells + shape.cells(event))
        if self._drains is not None:
            drained = self._drains.note(event, mono_ns / 1e9, wall_us, seq)
            if drained is not None:
                self._say_drained(rows, at, drained)

    def _begin(self, identity: ClientIdentity) -> _Client:
        name = identity.client_id
        self._epochs[name] = epoch = self._epochs.get(name, 0) + 1
        client = self._clients[name] = _Client(epoch, identity.role.value)
        return client

    def _call_of(self, event: Event, operation: str | None, at: Moment, seq: int) -> Call | None:
        """The call that `event` completes, or answers; None for an event that must be left out."""
        if operation is None:
            return _NO_CALL
        if event.phase is _INVOKE:
            self._calls[operation] = Call(at[0], seq)
            if len(self._calls) > OPEN_CALLS:
                self._calls.popitem(last=False)
            return _NO_CALL
        # A poll is forgotten later: some clients tell its end before what it brought.
        keep = type(event) is DeliverEvent or type(event) is ReceiveEvent
        call = self._calls.get(operation) if keep else self._calls.pop(operation, None)
        if call is None:
            # A completion whose call was left out would pass for something that happened at one instant.
            return _NO_CALL if self._drains is not None else None
        return call

    def _say(self, rows: Rows, shape: Shape, at: Moment, *cells: object, asked: Call = _NO_CALL) -> None:
        """Add a row of what the recorder says by itself."""
        rows[shape].append((self._seq, shape.kind, *at, None, *asked, *cells))
        self._seq += 1

    def _say_drained(self, rows: Rows, at: Moment, drained: Drained) -> None:
        asked = Call(drained.asked.wall_us, drained.asked.seq)
        self._say(rows, DRAIN, at, drained.group, drained.topic, asked=asked)


def has_stopped(event: ClientEvent) -> bool:
    """Whether a client's life is over with this event."""
    if event.running:
        return event.phase is Phase.FAIL
    return event.phase is not _INVOKE
