"""Which events are carried to the next batch, over numbers: what `streaming.retention` keeps, written as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.asking import answered
from aiorocketmq_audit.kernels.blocks import Layout, Rows, Runs
from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Piece, Reader, put, told_away
from aiorocketmq_audit.kernels.places import queues
from aiorocketmq_audit.kernels.question import ACCOUNT, Question, Table, Told
from aiorocketmq_audit.kernels.tasks import Look, Tasks, Workers
from aiorocketmq_audit.kernels.texts import NOBODY, Hashes, mixed
from aiorocketmq_audit.recording.schema import COLUMNS
from aiorocketmq_audit.streaming.retention import ENDS, PASSING, SINGLE, Window

_GIVEN, _ENDED, _STORED = 1, 2, 4

_LAYOUT: Layout = {
    **dict.fromkeys(("key", "reader", "topic", "queue"), "u8"),
    **dict.fromkeys(("at", "heard", "offset"), "i8"),
    "facts": "u1",
}

_FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is carried on."""

    tasks: Tasks
    window: Window
    keys: Hashes
    """Messages of which all is kept."""
    singles: Hashes
    """Rows that are kept by themselves."""
    forgotten: int
    """Messages that are dropped although they are not done."""

    def write(self, workers: Workers, folder: Path) -> None:
        """Write the events to files in `folder`, which is made."""
        folder.mkdir(parents=True)
        workers.each(_Kept(replace(self, tasks=()), str(folder)), self.tasks)


def remaining(workers: Workers, tasks: Tasks, window: Window) -> Remaining:
    """Choose the events that later ones may need."""
    seen = _merged(workers.each(Look(partial(_seen, window), _merged), tasks))
    frame = _Frame(window, *_readers(seen["places"]))
    asked = Question((_LAYOUT,), _rows, partial(_answer, frame))
    told = answered(workers, tasks, (asked,))
    chosen = [each.sought for each in told if each.sought is not None]
    marks = [seen[name]["key"] for name in ("lowest", "highest", "lanes")]
    singles = [seen["commits"]["row"], _standing(seen["lists"])]
    return Remaining(
        tasks,
        window,
        np.unique(np.concatenate([*chosen, *marks])),
        np.unique(np.concatenate(singles)),
        sum(each.counts[_FORGOTTEN][0] for each in told),
    )


def _key(events: Events) -> Hashes:
    """The message that a row is about, in one account."""
    return events.together(*ACCOUNT, "message_id")


def _row(events: Events) -> Hashes:
    return mixed(events.text("recorder"), events.number("seq"))


_Seen = dict[str, dict[str, NDArray[Any]]]


def _seen(window: Window, events: Events) -> _Seen:
    """Where groups have come to in their queues, and rows that stand for themselves."""
    given = events.some(events.one_of("kind", "deliver") & events.known("group"))
    first = given.number("attempt") == 1
    places = {
        "topic": given.together(*ACCOUNT, "topic"),
        "queue": queues(given),
        "group": given.text("group"),
        "highest": np.where(first, given.number("offset"), NONE),
    }
    first = events.one_of("kind", "deliver") & (events.number("attempt") == 1)
    some = events.some(first & events.told("offset") & events.known("message_id"))
    way = mixed(queues(some), some.text("group"))
    marks = {"key": _key(some), "offset": some.number("offset")}
    lane = some.text("message_group")
    in_lane = lane != NOBODY
    lanes = {name: column[in_lane] for name, column in marks.items()}
    commits = events.some(events.one_of("kind", "commit"))
    lists = events.some(events.one_of("kind", "lite.sync"))
    by_filter = mixed(way, some.text("filter"))
    return {
        "places": _most(places | {"by": mixed(places["queue"], places["group"])}, "highest"),
        "lowest": _most(marks | {"by": by_filter, "offset": -marks["offset"]}, "offset"),
        "highest": _most(marks | {"by": by_filter}, "offset"),
        "lanes": _most(lanes | {"by": mixed(way, lane)[in_lane]}, "offset"),
        "commits": _last(
            {
                "by": mixed(queues(commits), commits.text("group")),
                "at": commits.number("t_wall_us"),
                "seq": commits.number("seq"),
                "row": _row(commits),
            }
        ),
        "lists": _lists(window, lists),
    }


def _lists(window: Window, lists: Events) -> dict[str, NDArray[Any]]:
    told = lists.plain("cfg", np.arange(len(lists)))
    names = np.array(["all" in dict(cfg or ()) for cfg in told], np.bool_)
    is_whole = names & (~lists.known("phase") | lists.one_of("phase", "ok"))
    is_old = lists.number("t_wall_us") < window.done_before
    return {
        "by": lists.together("recorder", "boot", "client_id", "group", "topic"),
        "begin": np.where(is_whole & is_old, lists.called_seq(), NONE),
        "seq": lists.number("seq"),
        "is_unknown": lists.one_of("phase", "info"),
        "row": _row(lists),
    }


def _standing(lists: Rows) -> Hashes:
    """Lists of lite topics that a later whole list has not replaced, and those of which nobody knows."""
    runs = Runs(lists["by"])
    replaced = runs.spread(np.maximum(runs.most(lists["begin"]), 0))
    stays = (lists["seq"] >= replaced) | lists["is_unknown"]
    return np.asarray(lists["row"][stays])


def _most(rows: dict[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Of each `by`, the row with the greatest value."""
    runs = Runs(rows["by"])
    which = runs.where_most(rows[name])
    return {column: values[which] for column, values in rows.items()}


def _last(rows: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Of each `by`, the last row."""
    order = np.lexsort((rows["seq"], rows["at"], rows["by"]))
    by = rows["by"][order]
    which = order[np.append(by[1:] != by[:-1], True)[: len(by)]]
    return {column: values[which] for column, values in rows.items()}


def _merged(parts: Sequence[_Seen]) -> _Seen:
    together = {
        what: {name: np.concatenate([part[what][name] for part in parts]) for name in parts[0][what]}
        for what in parts[0]
    }
    return {
        "places": _most(together["places"], "highest"),
        **{what: _most(together[what], "offset") for what in ("lowest", "highest", "lanes")},
        "commits": _last(together["commits"]),
        "lists": together["lists"],
    }


@dataclass(frozen=True, slots=True)
class _Frame:
    """What must be known of all groups to say that a message is done."""

    window: Window
    readers: Table
    """How many groups read each topic."""
    reading: Table
    """How many groups have begun to read each queue."""
    reached: Table
    """How far the slowest of them has come."""


def _readers(places: Rows) -> tuple[Table, Table, Table]:
    topics = Runs(mixed(places["topic"], places["group"]))
    of_topics = Runs(topics.first(places["topic"]))
    told = places["highest"] != NONE
    queue, highest = places["queue"][told], places["highest"][told]
    of_queues = Runs(queue)
    return (
        Table.by(of_topics.first(topics.first(places["topic"])), of_topics.lengths),
        Table.by(of_queues.first(queue), of_queues.lengths),
        Table.by(of_queues.first(queue), of_queues.least(highest)),
    )


def _rows(events: Events, _: None) -> tuple[Rows]:
    events = events.some(events.known("message_id"))
    at, due = events.number("t_wall_us"), events.number("due_us")
    stored = events.one_of("kind", "send") & events.one_of("phase", "ok", "info")
    ended = events.one_of("kind", *ENDS) & ~events.one_of("phase", "fail")
    return (
        {
            "key": _key(events),
            "reader": events.text("group"),
            "topic": np.where(stored, events.together(*ACCOUNT, "topic"), np.uint64(0)),
            "queue": np.where(stored, queues(events), np.uint64(0)),
            "at": at,
            "heard": np.maximum(at, due),
            "offset": np.where(stored, events.number("offset"), NONE),
            "facts": events.one_of("kind", "deliver") * np.uint8(_GIVEN)
            + ended * np.uint8(_ENDED)
            + stored * np.uint8(_STORED),
        },
    )


def _answer(frame: _Frame, rows: Rows) -> Told:
    by_group = Runs(mixed(rows["key"], rows["reader"]))
    given, ended = (
        by_group.most(np.where((rows["facts"] & bit) > 0, rows["at"], NONE)) for bit in (_GIVEN, _ENDED)
    )
    runs = Runs(by_group.first(rows["key"]))
    held = runs.any((given != NONE) & (np.maximum(ended, 0) < given))
    groups = runs.count(given != NONE)
    whole = Runs(rows["key"])
    first, last = whole.least(rows["at"]), whole.most(rows["heard"])
    topic, offset = whole.most(rows["topic"]), whole.most(rows["offset"])
    queue = rows["queue"][whole.where_most(rows["offset"])]
    expected = frame.readers.of(topic, 1)
    passed = (frame.reading.of(queue, NONE) >= expected) & (offset <= frame.reached.of(queue, NONE))
    is_open = held | ((topic != 0) & (groups < expected) & ~(passed & (offset != NONE)))
    window = frame.window
    stays = (last >= window.done_before) | (is_open & (last >= window.any_before))
    forgotten = int((is_open & (last < window.any_before)).sum())
    kept = whole.first(rows["key"])[stays & (first < window.done_before)]
    return Told({_FORGOTTEN: (forgotten, 0)}, sought=kept)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Write what is kept of some pieces to files."""

    remaining: Remaining
    folder: str

    def __call__(self, pieces: Sequence[Piece]) -> None:
        reader = Reader()
        for piece in pieces:
            stays = self._stays(reader.read(piece))
            if stays.any():
                kept = piece.table(COLUMNS).filter(pa.array(stays))
                put(_shortened(kept, self.remaining.window), self.folder)

    def _stays(self, events: Events) -> Mask:
        window, at = self.remaining.window, events.number("t_wall_us")
        is_message = events.known("message_id")
        stays = at >= window.done_before
        stays |= ~events.one_of("kind", *PASSING) & ~is_message
        lost = (events.one_of("kind", "receive") & events.one_of("phase", "info")) | told_away(events)
        stays |= lost & (at >= window.any_before)
        stays |= is_message & _among(_key(events), self.remaining.keys)
        alone = events.one_of("kind", *SINGLE) & ~is_message
        return stays | (alone & _among(_row(events), self.remaining.singles))


def _among(keys: Hashes, known: Hashes) -> Mask:
    """Which keys are in `known`, which is in order."""
    return np.asarray(Table(known, np.zeros(len(known), np.int64)).of(keys, 1) == 0)


def _shortened(table: pa.Table, window: Window) -> pa.Table:
    """Let each account begin where its sends are still known, so that nothing seems to come from nowhere."""
    at, place = table.column("t_wall_us"), table.column_names.index("t_wall_us")
    began = pc.max_element_wise(at, pa.scalar(window.done_before, at.type))
    begins = pc.if_else(pc.equal(table.column("kind"), "recorder.start"), began, at)
    return table.set_column(place, table.schema.field(place), begins)
