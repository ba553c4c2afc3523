"""A recorder's account of its clients: facts in the order in which they happened become rows that are numbered and
joined (docs/reference/recording.md). Pure: times come with the facts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiorocketmq._recording import facts as told
from aiorocketmq._recording.drains import Drained, Drains
from aiorocketmq._recording.facts import Fact, Note, Shared
from aiorocketmq._recording.rows import (
    BY_NUMBER,
    DELIVER,
    DRAIN,
    END,
    FAULT,
    PLACED_ACK,
    PLACED_DELIVER,
    PLACED_HANDLE,
    RECEIVE,
    SEND,
    START,
    Cells,
    Shape,
    Sheet,
    content_of,
    fingerprint,
)
from aiorocketmq._session.conversion import Read, properties_from
from aiorocketmq._session.emitting import KNOWN, AckEntry
from aiorocketmq.hooks import Phase

OPEN_CALLS = 65_536
"""How many calls of a client are remembered for their completions; polls stay after theirs, for the deliveries they
brought."""

_INVOKE, _SINGLE, _OK = Phase.INVOKE.value, Phase.SINGLE.value, Phase.OK.value

Moment: TypeAlias = tuple[int, int, "int | None"]
"""A fact's time as rows tell it: wall clock in microseconds, monotonic in nanoseconds, real clock in microseconds."""


Call: TypeAlias = tuple["int | None", "int | None"]
"""Time and number of the row of a call, for that of its completion."""

_NO_CALL: Call = (None, None)


@dataclass(slots=True)
class _Client:
    """A client that has not stopped."""

    epoch: int
    role: str
    group: str | None
    calls: OrderedDict[str | int, Call]
    sends: OrderedDict[int, tuple[Call, tuple[Any, ...], float]]
    """Their calls, and what their completions tell as well: the cells, and the delay in seconds."""

    def began(self, operation: str | int, call: Call) -> None:
        self.calls[operation] = call
        if len(self.calls) > OPEN_CALLS:
            self.calls.popitem(last=False)


@dataclass(slots=True)
class _Answer:
    """All messages of one answer share one time, so that their order is that of their places."""

    poll: tuple[str, str] | None = None
    at: Moment = (0, 0, None)


class Account:
    """Takes facts, in their order, and makes rows of them. Can be pickled between two takes, to go on elsewhere."""

    def __init__(self) -> None:
        self._seq = 0
        self._epochs: dict[str, int] = {}
        self._clients: dict[str, _Client] = {}
        self._answer = _Answer()
        self._messages: list[tuple[int, Cells] | None] = [None] * KNOWN
        """The latest messages, each at its number's remainder."""
        self._drains: Drains | None = Drains()
        """None once facts were left out: among them may have been anything."""

    def take(self, facts: Iterable[Fact], sheet: Sheet) -> None:
        """Make rows of the next facts, and put them into `sheet`."""
        for kind, wall_ns, mono_ns, real_ns, *rest in facts:
            at = wall_ns // 1000, mono_ns, None if real_ns is None else real_ns // 1000
            _TAKE[kind](self, sheet, at, *rest)

    # What a recorder says by itself, or was told of a server

    def _begin(self, sheet: Sheet, at: Moment, cfg: dict[str, str]) -> None:
        self._say(sheet, START, at, cfg)

    def _end(self, sheet: Sheet, at: Moment) -> None:
        self._say(sheet, END, at)

    def _leave_out(self, sheet: Sheet, at: Moment, count: int) -> None:
        del sheet, at
        self._seq += count
        self._drains = None

    def _disturb(self, sheet: Sheet, at: Moment, fault: dict[str, str]) -> None:
        self._say(sheet, FAULT, at, fault)

    def _say(self, sheet: Sheet, shape: Shape, at: Moment, *cells: object, asked: Call = _NO_CALL) -> None:
        sheet.rows[shape].append((self._seq, shape.kind, *at, None, *asked, *cells))
        self._seq += 1

    def _say_drained(self, sheet: Sheet, at: Moment, drained: Drained) -> None:
        asked = drained.asked.wall_us, drained.asked.seq
        self._say(sheet, DRAIN, at, drained.group, drained.topic, asked=asked)

    # Clients and messages that are told of

    def _meet(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        role: str,
        group: str | None,
    ) -> None:
        del sheet, at
        if name not in self._clients:
            self._epochs[name] = epoch = self._epochs.get(name, 0) + 1
            self._clients[name] = _Client(epoch, role, group, OrderedDict(), OrderedDict())

    def _know(self, sheet: Sheet, at: Moment, serial: int, cells: Cells) -> None:
        del sheet, at
        self._messages[serial % KNOWN] = serial, cells

    def _message(self, sheet: Sheet, serial: int) -> int | None:
        """The place of a message in the sheet; None for one whose introduction was left out."""
        place = sheet.place_of(serial)
        if place is None:
            known = self._messages[serial % KNOWN]
            if known is None or known[0] != serial:
                return None
            place = sheet.place(serial, known[1])
        return place

    # Events

    def _note(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        number: int,
        kind: str | None,
        phase: str,
        operation: str | None,
        code: int | None,
        cells: Cells,
        note: Note | None,
    ) -> None:
        client = self._clients[name]
        if kind is not None:
            shape = BY_NUMBER[number]
            seq, self._seq = self._seq, self._seq + 1
            if shape is DELIVER:
                at = self._answered(name, operation, at)
            call = self._call_of(client, shape, phase, operation, at, seq)
            if call is None:
                return
            head: Cells = (seq, kind, *at, client.epoch, *call, name, client.role, client.group, code)
            if shape.is_operation:
                head += (
                    None if phase == _SINGLE else phase,
                    None if operation is None else f"{name}/{operation}",
                )
            sheet.rows[shape].append(head + cells)
            if note is not None and self._drains is not None:
                drained = self._drains.note(name, client.group, note, at[1] / 1e9, at[0], seq)
                if drained is not None:
                    self._say_drained(sheet, at, drained)
        if note is not None and note[0] == told.STOPPED:
            del self._clients[name]

    def _answered(self, name: str, operation: str | None, at: Moment) -> Moment:
        poll = None if operation is None else (name, operation)
        if poll is None or poll != self._answer.poll:
            self._answer = _Answer(poll, at)
        return self._answer.at

    def _call_of(
        self, client: _Client, shape: Shape, phase: str, operation: str | None, at: Moment, seq: int
    ) -> Call | None:
        """The call that an event completes, or answers; None for an event that must be left out."""
        if operation is None:
            return _NO_CALL
        if phase == _INVOKE:
            client.began(operation, (at[0], seq))
            return _NO_CALL
        # A poll is forgotten later: some clients tell its end before what it brought.
        keep = shape is DELIVER or shape is RECEIVE
        calls = client.calls
        return self._found(calls.get(operation) if keep else calls.pop(operation, None))

    def _found(self, call: Call | None) -> Call | None:
        if call is None and self._drains is not None:
            return _NO_CALL
        # A completion whose call was left out would pass for something that happened at one instant.
        return call

    # What happens to every message

    def _deliver(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        operation: str | None,
        answer: Shared,
        first: int,
        entries: Sequence[tuple[str, str, tuple[bytes, dict[str, str] | None] | Read]],
    ) -> None:
        client = self._clients[name]
        broker, is_leased, lease, server_us, *about = answer
        call = _NO_CALL if operation is None else self._found(client.calls.get(operation))
        if call is None:
            self._seq += len(entries)
            return
        before = ("deliver", *at, client.epoch, *call, name, client.role, client.group, None)
        batch = None if operation is None else f"{name}/{operation}"
        rows = sheet.rows[PLACED_DELIVER]
        seq, now = self._seq, at[1] / 1e9
        handed: set[tuple[str, bool]] = set()
        for position, (topic, body_sha, travelled) in enumerate(entries):
            named, came, properties = properties_from(*travelled) if len(travelled) == 2 else travelled
            lite_topic, queue, offset, message_id, message_group, tag, priority = named
            attempt, handle, due_us, born_us, stored_us, transaction_id = came
            name_of = fingerprint(handle) if is_leased and handle else None
            cells: Cells = (
                topic,
                lite_topic,
                broker,
                queue,
                offset,
                message_id,
                message_group,
                tag,
                priority,
                name_of,
            )
            serial = first + position
            self._messages[serial % KNOWN] = serial, cells
            # Added up, not unpacked: that would go through lists.
            row: Cells = (seq,)
            row += before
            row += (attempt,)
            row += content_of(body_sha, properties)
            row += (name_of, batch, position)
            row += (*about, due_us, born_us, stored_us, server_us, transaction_id, sheet.place(serial, cells))
            rows.append(row)
            seq += 1
            handed.add((topic, lite_topic is None))
        self._seq = seq
        if self._drains is not None:
            for topic, is_plain in handed:
                self._drains.delivered(client.group, now, topic, lease, is_plain and not about[-1])

    def _start_handler(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        operation: int,
        serial: int,
        attempt: int,
    ) -> None:
        client = self._clients[name]
        seq, self._seq = self._seq, self._seq + 1
        place = self._message(sheet, serial)
        if place is None:
            return
        client.began(operation, (at[0], seq))
        row: Cells = (seq, "handle.start", *at, client.epoch, None, None)
        row += (name, client.role, client.group, None, attempt, None, place)
        sheet.rows[PLACED_HANDLE].append(row)
        self._moved(client, sheet.messages[place][:1], at)

    def _end_handler(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        operation: int,
        serial: int,
        attempt: int,
        is_success: bool,
    ) -> None:
        client = self._clients[name]
        seq, self._seq = self._seq, self._seq + 1
        place = self._message(sheet, serial)
        call = self._found(client.calls.pop(operation, None))
        if place is None or call is None:
            return
        row: Cells = (seq, "handle.end", *at, client.epoch, *call)
        row += (name, client.role, client.group, None, attempt, "success" if is_success else "failure", place)
        sheet.rows[PLACED_HANDLE].append(row)
        self._moved(client, sheet.messages[place][:1], at)

    def _ask_acks(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        first: int,
        entries: Sequence[AckEntry],
    ) -> None:
        client = self._clients[name]
        before = ("ack", *at, client.epoch, None, None, name, client.role, client.group, None, _INVOKE)
        rows = sheet.rows[PLACED_ACK]
        topics: set[object] = set()
        for operation, (serial, attempt, handle) in enumerate(entries, first):
            seq, self._seq = self._seq, self._seq + 1
            place = self._message(sheet, serial)
            if place is None:
                continue
            client.began(operation, (at[0], seq))
            message = sheet.messages[place]
            used = message[-1] if handle is None else fingerprint(handle)
            row: Cells = (seq,)
            row += before
            row += (f"{name}/{operation}", attempt, used, place)
            rows.append(row)
            topics.add(message[0])
        self._moved(client, topics, at)

    def _answer_acks(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        codes: Sequence[tuple[str, int | None]] | None,
        first: int,
        entries: Sequence[AckEntry],
    ) -> None:
        client = self._clients[name]
        before = ("ack", *at, client.epoch)
        role, group = client.role, client.group
        rows = sheet.rows[PLACED_ACK]
        topics: set[object] = set()
        for index, (serial, attempt, handle) in enumerate(entries):
            operation = first + index
            phase, code = (_OK, None) if codes is None else codes[index]
            seq, self._seq = self._seq, self._seq + 1
            place = self._message(sheet, serial)
            call = self._found(client.calls.pop(operation, None))
            if place is None or call is None:
                continue
            message = sheet.messages[place]
            used = message[-1] if handle is None else fingerprint(handle)
            row: Cells = (seq,)
            row += before
            row += call
            row += (name, role, group, code, phase, f"{name}/{operation}", attempt, used, place)
            rows.append(row)
            topics.add(message[0])
        self._moved(client, topics, at)

    def _moved(self, client: _Client, topics: Iterable[Any], at: Moment) -> None:
        if self._drains is not None:
            for topic in topics:
                self._drains.moved(client.group, at[1] / 1e9, topic)

    def _send(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        operation: int,
        cells: tuple[Any, ...],  # the first one is the topic
        delay: float,
    ) -> None:
        client = self._clients[name]
        seq, self._seq = self._seq, self._seq + 1
        client.sends[operation] = (at[0], seq), cells, delay
        if len(client.sends) > OPEN_CALLS:
            client.sends.popitem(last=False)
        head = (seq, "send", *at, client.epoch, None, None, name, client.role, client.group, None)
        sheet.rows[SEND].append((*head, _INVOKE, f"{name}/{operation}", *cells, None, None))
        if self._drains is not None:
            self._drains.sent(at[1] / 1e9, cells[0], delay)

    def _sent(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        operation: int,
        phase: str,
        code: int | None,
        stored: Cells,
    ) -> None:
        client = self._clients[name]
        begun = client.sends.pop(operation, None)
        if begun is None:
            # What was sent is known from the call alone. Without an end it says that nobody knows.
            self._seq += self._drains is None
            return
        seq, self._seq = self._seq, self._seq + 1
        call, cells, delay = begun
        head = (seq, "send", *at, client.epoch, *call, name, client.role, client.group, code)
        sheet.rows[SEND].append((*head, phase, f"{name}/{operation}", *cells, *stored))
        if self._drains is not None:
            self._drains.sent(at[1] / 1e9, cells[0], delay)


_TAKE: dict[int, Callable[..., None]] = {
    told.BEGIN: Account._begin,
    told.END: Account._end,
    told.LEFT_OUT: Account._leave_out,
    told.FAULT: Account._disturb,
    told.CLIENT: Account._meet,
    told.MESSAGE: Account._know,
    told.EVENT: Account._note,
    told.DELIVERED: Account._deliver,
    told.HANDLING: Account._start_handler,
    told.HANDLED: Account._end_handler,
    told.ACKING: Account._ask_acks,
    told.ACKED: Account._answer_acks,
    told.SENDING: Account._send,
    told.SENT: Account._sent,
}
