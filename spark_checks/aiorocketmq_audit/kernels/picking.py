"""The few events of a recording that must be looked at closely, and those that may excuse them, put aside as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from aiorocketmq_audit.excuses import MARKING
from aiorocketmq_audit.kernels.blocks import Runs
from aiorocketmq_audit.kernels.events import Events, Mask, Piece, Reader, put, told_away
from aiorocketmq_audit.kernels.leases import answers_of, lanes_of
from aiorocketmq_audit.kernels.question import ACCOUNT
from aiorocketmq_audit.kernels.tasks import Tasks, Workers
from aiorocketmq_audit.kernels.texts import Hashes
from aiorocketmq_audit.recording.schema import COLUMNS

CHOSEN, WHOLE = "chosen", "whole"
"""Columns beside those of a recording: whether all events of the row's message are there, and all of its message
group."""

_BESIDE = ("config", "drain.ok", *MARKING)
"""Kinds of events that excuses and rules are told by; they are few."""

_NOBODY = np.empty(0, np.uint64)

_TOLD_BESIDE = (
    *("run_id", "case_id", "observer", "recorder", "seq", "boot", "kind", "phase", "t_wall_us", "invoked_us"),
    *("client_id", "role", "group", "topic", "queue", "result", "cfg", "fault"),
)
"""What must be known of events that only excuse or prove."""

_UNUSED = (
    "handle",
    "prev_handle",
    "op_id",
    "producer",
    "pseq",
    "body_sha",
    "props_sha",
    "t_mono_ns",
    "t_real_us",
)
"""What nobody asks about deliveries, and takes long to read."""


_ROWS = 100_000
"""Rows after which they are written, about."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to pick."""

    messages: Hashes
    lanes: Hashes = field(default_factory=lambda: _NOBODY)
    answers: Hashes = field(default_factory=lambda: _NOBODY)
    """Messages that came with others in these answers."""
    polls_us: int | None = None
    """Polls that took at least so long, and the last event of each account; None for none of them."""
    lost_answers: bool = False
    """Polls of whose answer nothing is known."""


def picked(workers: Workers, tasks: Tasks, wanted: Wanted, folder: str) -> int:
    """Write what is wanted to files in `folder`, with the columns CHOSEN and WHOLE; returns how many rows that is."""
    return sum(workers.each(_Pick(wanted, folder), tasks))


def read(folder: str) -> pa.Table:
    """All rows that were picked."""
    tables = [parquet.read_table(path, partitioning=None) for path in sorted(Path(folder).glob("*.parquet"))]
    return pa.concat_tables(tables, promote_options="permissive")


@dataclass(frozen=True, slots=True)
class _Pick:
    wanted: Wanted
    folder: str

    def __call__(self, pieces: Sequence[Piece]) -> int:
        reader, tables, rows = Reader(), list[pa.Table](), 0
        for piece in pieces:
            for group in piece.groups:
                # One by one, as most have nothing.
                part = replace(piece, groups=(group,))
                events = reader.read(part)
                tables += _rows(part, *map(events.of_all, _marks(self.wanted, events)))
            if sum(table.num_rows for table in tables) >= _ROWS:
                rows += self._write(tables)
                tables.clear()
        return rows + self._write(tables)

    def _write(self, tables: Sequence[pa.Table]) -> int:
        if not tables:
            return 0
        table = pa.concat_tables(tables, promote_options="permissive")
        put(table, self.folder)
        return int(table.num_rows)


def _marks(wanted: Wanted, events: Events) -> tuple[Mask, Mask, Mask]:
    """Which events belong to chosen messages, which to whole message groups, and which others are wanted."""
    chosen = events.known("message_id") & np.isin(events.text("message_id"), wanted.messages)
    whole = np.zeros(len(events), np.bool_)
    if len(wanted.lanes):
        whole = events.known("group") & np.isin(lanes_of(events), wanted.lanes)
    if len(wanted.answers):
        chosen |= events.one_of("kind", "deliver") & np.isin(answers_of(events), wanted.answers)
    beside = events.one_of("kind", *_BESIDE)
    beside |= told_away(events)
    if wanted.lost_answers:
        beside |= events.one_of("kind", "receive") & events.one_of("phase", "info")
    if wanted.polls_us is not None:
        at, invoked = events.number("t_wall_us"), events.number("invoked_us")
        is_long = events.told("invoked_us") & (at - invoked >= wanted.polls_us)
        beside |= events.one_of("kind", "receive") & events.one_of("phase", "ok") & is_long
        beside[Runs(events.together(*ACCOUNT)).where_most(at)] = True
    return chosen | whole, whole, beside & ~(chosen | whole)


def _rows(piece: Piece, chosen: Mask, whole: Mask, beside: Mask) -> Iterator[pa.Table]:
    for mark, names in ((chosen, COLUMNS.keys() - _UNUSED), (beside, _TOLD_BESIDE)):
        if mark.any():
            table = piece.table(names).append_column(CHOSEN, pa.array(chosen))
            yield table.append_column(WHOLE, pa.array(whole)).filter(pa.array(mark))
