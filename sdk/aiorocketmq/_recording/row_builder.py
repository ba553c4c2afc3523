"""Builds numbered and joined rows from the records of one recorder, in order (docs/reference/recording.md).

Pure: times are part of the records."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiorocketmq._recording import records as kinds
from aiorocketmq._recording.drains import Drained, Drains
from aiorocketmq._recording.records import Note, Record, Shared
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
)
from aiorocketmq._session.conversion import Read, properties_from
from aiorocketmq._session.events import KNOWN, AckEntry
from aiorocketmq.hooks import Phase
from aiorocketmq.recording_format import content_of, fingerprint

OPEN_CALLS = 65_536
"""Calls of a client that are remembered for their completions; polls are kept after theirs, for their deliveries."""

_INVOKE, _SINGLE, _OK = Phase.INVOKE.value, Phase.SINGLE.value, Phase.OK.value

Moment: TypeAlias = tuple[int, int, "int | None"]
"""A record's time in the form of rows: wall clock in microseconds, monotonic in nanoseconds, real clock in
microseconds."""


Call: TypeAlias = tuple["int | None", "int | None"]
"""Time and number of a call's first row, for the row of its completion."""

_NO_CALL: Call = (None, None)


@dataclass(slots=True)
class _Client:
    """A client that has not stopped."""

    epoch: int
    role: str
    group: str | None
    calls: OrderedDict[str | int, Call]
    sends: OrderedDict[int, tuple[Call, tuple[Any, ...], float]]
    """Its sends, for the rows of their completions: the call, the cells, and the delay in seconds."""

    def began(self, operation: str | int, call: Call) -> None:
        self.calls[operation] = call
        if len(self.calls) > OPEN_CALLS:
            self.calls.popitem(last=False)


@dataclass(slots=True)
class _Answer:
    """All messages of one answer have the same time, so that their order is that of their positions."""

    poll: tuple[str, str] | None = None
    at: Moment = (0, 0, None)


class RowBuilder:
    """Builds rows from records. Can be pickled between two calls, to continue in another process."""

    def __init__(self) -> None:
        self._seq = 0
        self._epochs: dict[str, int] = {}
        self._clients: dict[str, _Client] = {}
        self._answer = _Answer()
        self._messages: list[tuple[int, Cells] | None] = [None] * KNOWN
        """The latest messages, each at its number modulo KNOWN."""
        self._drains: Drains | None = Drains()
        """None after records were left out, since these may have been anything."""

    def take(self, records: Iterable[Record], sheet: Sheet) -> None:
        """Append the rows of the next records to `sheet`."""
        for kind, wall_ns, mono_ns, real_ns, *rest in records:
            at = wall_ns // 1000, mono_ns, None if real_ns is None else real_ns // 1000
            _TAKE[kind](self, sheet, at, *rest)

    # Rows of the recorder itself, and of servers

    def _begin(self, sheet: Sheet, at: Moment, cfg: dict[str, str]) -> None:
        self._append(sheet, START, at, cfg)

    def _end(self, sheet: Sheet, at: Moment) -> None:
        self._append(sheet, END, at)

    def _skip(self, sheet: Sheet, at: Moment, count: int) -> None:
        del sheet, at
        self._seq += count
        self._drains = None

    def _add_fault(self, sheet: Sheet, at: Moment, fault: dict[str, str]) -> None:
        self._append(sheet, FAULT, at, fault)

    def _append(self, sheet: Sheet, shape: Shape, at: Moment, *cells: object, call: Call = _NO_CALL) -> None:
        sheet.rows[shape].append((self._seq, shape.kind, *at, None, *call, *cells))
        self._seq += 1

    def _append_drain(self, sheet: Sheet, at: Moment, drained: Drained) -> None:
        call = drained.poll.wall_us, drained.poll.seq
        self._append(sheet, DRAIN, at, drained.group, drained.topic, call=call)

    # Clients and messages

    def _add_client(
        self,
        sheet: Sheet,
        at: Moment,
        name: str,
        role: str,
        group: str | None,
    ) -> None:
        del sheet, at
        # Also if it is known: its stop may have been left out.
        self._epochs[name] = epoch = self._epochs.get(name, 0) + 1
        self._clients[name] = _Client(epoch, role, group, OrderedDict(), OrderedDict())

    def _remember(self, sheet: Sheet, at: Moment, serial: int, cells: Cells) -> None:
        del sheet, at
        self._messages[serial % KNOWN] = serial, cells

    def _message(self, sheet: Sheet, serial: int) -> int | None:
        """The position of a message in the sheet; None if its introduction was left out."""
        place = sheet.place_of(serial)
        if place is None:
            remembered = self._messages[serial % KNOWN]
            if remembered is None or remembered[0] != serial:
                return None
            place = sheet.place(serial, remembered[1])
        return place

    # Events

    def _add_event(
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
                    self._append_drain(sheet, at, drained)
        if note is not None and note[0] == kinds.STOPPED:
            del self._clients[name]

    def _answered(self, name: str, operation: str | None, at: Moment) -> Moment:
        poll = None if operation is None else (name, operation)
        if poll is None or poll != self._answer.poll:
            self._answer = _Answer(poll, at)
        return self._answer.at

    def _call_of(
        self, client: _Client, shape: Shape, phase: str, operation: str | None, at: Moment, seq: int
    ) -> Call | None:
        """Return the call that an event completes, or answers; None for an event that must be left out."""
        if operation is None:
            return _NO_CALL
        if phase == _INVOKE:
            client.began(operation, (at[0], seq))
            return _NO_CALL
        # A poll is removed later: some clients emit its end before its deliveries.
        keep = shape is DELIVER or shape is RECEIVE
        calls = client.calls
        return self._found(calls.get(operation) if keep else calls.pop(operation, None))

    def _found(self, call: Call | None) -> Call | None:
        if call is None and self._drains is not None:
            return _NO_CALL
        # A completion whose call was left out would look like an event of one instant.
        return call

    # High-frequency events

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
            # Concatenated, not unpacked: that would create lists.
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

    def _begin_acks(
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

    def _end_acks(
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
            # The message is known from the call alone. Without a completion its outcome is unknown.
            self._seq += self._drains is None
            return
        seq, self._seq = self._seq, self._seq + 1
        call, cells, delay = begun
        head = (seq, "send", *at, client.epoch, *call, name, client.role, client.group, code)
        sheet.rows[SEND].append((*head, phase, f"{name}/{operation}", *cells, *stored))
        if self._drains is not None:
            self._drains.sent(at[1] / 1e9, cells[0], delay)


_TAKE: dict[int, Callable[..., None]] = {
    kinds.BEGIN: RowBuilder._begin,
    kinds.END: RowBuilder._end,
    kinds.LEFT_OUT: RowBuilder._skip,
    kinds.FAULT: RowBuilder._add_fault,
    kinds.CLIENT: RowBuilder._add_client,
    kinds.MESSAGE: RowBuilder._remember,
    kinds.EVENT: RowBuilder._add_event,
    kinds.DELIVERED: RowBuilder._deliver,
    kinds.HANDLING: RowBuilder._start_handler,
    kinds.HANDLED: RowBuilder._end_handler,
    kinds.ACKING: RowBuilder._begin_acks,
    kinds.ACKED: RowBuilder._end_acks,
    kinds.SENDING: RowBuilder._send,
    kinds.SENT: RowBuilder._sent,
}
