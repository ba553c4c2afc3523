"""What workers do with pieces of a recording, whoever deals them out: functions that are sent as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from aiorocketmq_audit.kernels.blocks import Segment, joined, packed, shares
from aiorocketmq_audit.kernels.events import Events, Piece, Reader
from aiorocketmq_audit.kernels.question import Question, Told

T = TypeVar("T")

Tasks = Sequence[Sequence[Piece]]
"""Pieces, some of which are looked at by one worker."""

Blocks = Mapping[tuple[int, int], bytes]
"""By unit, which is a question's share, and by table: rows that are looked at together."""


@dataclass(frozen=True, slots=True)
class Look(Generic[T]):
    """Look at pieces, and put together what was seen."""

    seen: Callable[[Events], T]
    merged: Callable[[Sequence[T]], T]

    def __call__(self, pieces: Sequence[Piece]) -> T:
        """What was seen of all of them together."""
        reader = Reader()
        return self.merged([self.seen(reader.read(piece)) for piece in pieces])


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut what each question wants of pieces into shares, and number these."""

    questions: tuple[Question, ...]
    survey: Any
    """What is known of the whole recording."""
    count: int

    def __call__(self, pieces: Sequence[Piece]) -> Blocks:
        """The shares of all of them together."""
        reader = Reader()
        segments: dict[tuple[int, int], list[Segment]] = defaultdict(list)
        for piece in pieces:
            events = reader.read(piece)
            for number, question in enumerate(self.questions):
                for part, rows in enumerate(question.rows(events, self.survey)):
                    for share, segment in shares(rows, question.layouts[part], self.count):
                        segments[number * self.count + share, part].append(segment)
        return {key: packed(mine) for key, mine in segments.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """Put the blocks of a unit together, and answer the question that they are of."""

    questions: tuple[Question, ...]
    count: int

    def __call__(self, unit: int, blocks: Mapping[int, Sequence[Any]]) -> Told:
        """`blocks` by table."""
        question = self.questions[unit // self.count]
        tables = (joined(blocks.get(part, ()), layout) for part, layout in enumerate(question.layouts))
        return question.answer(*tables)


class Workers(Protocol):
    """Whoever deals out pieces."""

    def each(self, look: Callable[[Sequence[Piece]], T], tasks: Tasks) -> list[T]:
        """What a look at each task's pieces says, in any order."""
        ...

    def exchanged(self, cut: Cut, answer: Answer, tasks: Tasks) -> list[Told]:
        """Cut all tasks' pieces, and answer each unit that has any rows, and of each question one at least."""
        ...
