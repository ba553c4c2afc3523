"""Events of single messages, for pictures: what `figures.subject_of` and `figures.events_of` find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiorocketmq_audit.figures import DRAWN, DRAWN_KINDS, MOST_EVENTS, Subject
from aiorocketmq_audit.kernels.events import Events, Mask, Piece, Reader
from aiorocketmq_audit.kernels.tasks import Tasks, Workers
from aiorocketmq_audit.kernels.texts import hash_of


def subject_of(workers: Workers, tasks: Tasks, place: tuple[int, int]) -> Subject | None:
    """The message of the event with this recorder (hash) and number."""
    found = [row for rows in workers.each(_Sought(*place), tasks) for row in rows]
    return Subject(**found[0]) if found else None


def events_of(workers: Workers, tasks: Tasks, subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """What happened to these messages, and the deliveries of their message groups, oldest first."""
    rows = [row for some in workers.each(_Drawn(tuple(subjects)), tasks) for row in some]
    return _first(rows)


def _first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows.sort(key=lambda row: (row["t_wall_us"], row["recorder"], row["seq"]))
    return rows[:MOST_EVENTS]


@dataclass(frozen=True, slots=True)
class _Sought:
    recorder: int
    seq: int

    def __call__(self, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
        reader, recorder = Reader(), np.array([self.recorder]).view(np.uint64)
        found: list[dict[str, Any]] = []
        for piece in pieces:
            events = reader.read(piece)
            here = (events.number("seq") == self.seq) & (events.text("recorder") == recorder)
            found += events.rows(Subject.__slots__, np.flatnonzero(here)) if here.any() else []
        return found


@dataclass(frozen=True, slots=True)
class _Drawn:
    subjects: tuple[Subject, ...]

    def __call__(self, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
        reader = Reader()
        found: list[dict[str, Any]] = []
        for piece in pieces:
            events = reader.read(piece)
            if any(_concerns(events, subject).any() for subject in self.subjects):
                kinds = events.one_of("kind", *DRAWN_KINDS)
                wanted = np.zeros(len(events), np.bool_)
                for subject in self.subjects:
                    wanted |= _is_of(events, subject)
                at = events.number("t_wall_us")
                places = np.flatnonzero(kinds & wanted)
                # Of a large message group the first ones of this piece are enough.
                some = places[np.argsort(at[places], kind="stable")[: 4 * MOST_EVENTS]]
                found += events.rows(DRAWN, some)
        return _first(found)


def _concerns(events: Events, subject: Subject) -> Mask:
    about = events.known("message_id") & (events.text("message_id") == np.uint64(hash_of(subject.message_id)))
    if subject.message_group is not None:
        group = events.text("message_group") == np.uint64(hash_of(subject.message_group))
        about |= group & events.one_of("kind", "deliver")
    return np.asarray(about)


def _is_of(events: Events, subject: Subject) -> Mask:
    here = _concerns(events, subject)
    for name in ("run_id", "case_id", "observer", "topic"):
        here &= events.one_of(name, getattr(subject, name))
    return here & (~events.known("group") | events.one_of("group", subject.group))
