"""Questions to whole recordings: what is asked, of which pieces, and what the answers come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from pyspark.sql import Row

from aiorocketmq_audit import (
    commits,
    fairness,
    gates,
    handles,
    handling,
    isolation,
    loss,
    offsets,
    origin,
    queues,
    recall,
    screen,
    sides,
    transactions,
)
from aiorocketmq_audit.kernels import (
    answers,
    cells,
    drains,
    handlers,
    handles as handle_questions,
    leases,
    letters,
    owners,
    passed,
    places,
    recalls,
    recorders,
    said,
    slices,
    survey,
    traces,
    transactions as transaction_questions,
)
from aiorocketmq_audit.kernels.borders import disordered
from aiorocketmq_audit.kernels.events import pieces
from aiorocketmq_audit.kernels.question import Question, Settings, Survey, Told
from aiorocketmq_audit.kernels.tasks import Answer, Cut, Look, Tasks, Workers
from aiorocketmq_audit.kernels.texts import Hashes, hash_of
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.recording.narrowing import EVERYTHING, Narrowing

QUESTIONS: Mapping[str, tuple[Question, ...]] = MappingProxyType(
    {
        handles.NAME: (handle_questions.QUESTION,),
        isolation.CHECK: (answers.QUESTION,),
        offsets.NAME: (places.SPOTS, places.SENDS),
        origin.NAME: (traces.QUESTION,),
        loss.NAME: (passed.QUESTION,),
    }
)
"""By check: what is counted for it."""

ASIDE: Mapping[str, tuple[Question, ...]] = MappingProxyType(
    {
        transactions.NAME: (transaction_questions.QUESTION,),
        recall.NAME: (recalls.QUESTION,),
        queues.NAME: (owners.READS,),
        commits.NAME: (owners.WRITES,),
    }
)
"""By SIDES: what is counted for those of which most recordings have no event."""

MOST_HANDLERS = 20_000_000
"""Begins of handlers that are looked at by whole message groups: one worker holds all those of a hot one."""

ROWS = 100_000
"""Rows of a recording that are looked at together, at most, but for row groups that are larger."""

SHARE = 1_000_000
"""Rows of a question that are looked at together, about."""

_TASK = 5
"""Pieces that one task looks at."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What was asked of events."""

    counts: Mapping[str, tuple[int, int]]
    """As `findings.counted` tells it: as many facts, and at least as many that look wrong."""
    cells: list[Row]
    """As `figures.cube` brings them."""
    sought: Hashes
    """Messages that some check would look into, by the hashes of their ids."""
    lanes: Hashes
    """Message groups in which something could be out of order."""

    @property
    def odd_letters(self) -> int:
        """Messages that became dead letters in a way that looks wrong."""
        return self.counts.get(letters.LETTERS, (0, 0))[1]


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Events that were looked at once."""

    tasks: Tasks
    numbers: list[Row]
    """As `gates.numbers` has them."""
    settings: Sequence[said.Said]
    """As `reading.settings` has them."""
    survey: Survey
    is_cut: bool
    """Calls may have answers that are not among the events."""

    def frame(self, gate: Gates) -> leases.Frame:
        """What holds for the whole recording."""
        return leases.Frame(
            said.table(self.settings),
            clocks_agree=not gate.clocks,
            ended_us=gate.ended_us or 0,
            has_open_calls=self.is_cut or gate.has_open_settling,
            has_drains=bool(gate.kinds.get("drain.ok")),
            chunk_bits=screen.CHUNK_BITS,
            polls=self.survey.polls,
        )

    def ask(self, workers: Workers, gate: Gates, checks: Sequence[str]) -> Answers:
        """Judge each delivery by itself, and count for `checks` what QUESTIONS has."""
        frame = self.frame(gate)
        asked = (leases.question(frame), *_questions(frame.settings, self.survey, gate, checks))
        return self._answers(answered(workers, self.tasks, asked, self.survey))

    def _answers(self, told: Sequence[Told]) -> Answers:
        counts: dict[str, tuple[int, int]] = {}
        for each in told:
            for name, (judged, found) in each.counts.items():
                before = counts.get(name, (0, 0))
                counts[name] = before[0] + judged, before[1] + found
        parts = [each.cells for each in told if each.cells is not None]
        groups = {hash_of(row["group"]): row["group"] for row in self.settings}
        return Answers(
            counts,
            cells.rows(cells.merged(parts), groups) if parts else [],
            _united(each.sought for each in told),
            disordered([each.borders for each in told if each.borders is not None]),
        )


def surveyed(workers: Workers, files: Sequence[str], narrowing: Narrowing = EVERYTHING) -> Surveyed | None:
    """Look once at the events of local files. None where there are none. Raises whatever the workers, the files or odd
    settings make it raise."""
    tasks = dealt(files, narrowing)
    if not tasks:
        return None
    # Here and not by the workers, which are still starting: it takes a second for a hundred million events.
    settings = said.settings(said.said([part for task in tasks for part in task]), narrowing)
    seen = partial(survey.look, said.table(settings))
    look = survey.merged(workers.each(Look(seen, survey.merged), tasks))
    return Surveyed(tasks, _added_up(look.recorders), settings, survey.survey(look), narrowing.is_cut)


def recorded(workers: Workers, tasks: Tasks) -> list[Row]:
    """What the gates look at, as `gates.numbers` have it."""
    looks = workers.each(Look(recorders.by_kind, partial(sum, start=[])), tasks)
    return _added_up([row for look in looks for row in look])


def _added_up(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    return gates.added_up(Row(**row) for row in rows)


def answered(
    workers: Workers, tasks: Tasks, questions: tuple[Question, ...], known: Any = None
) -> list[Told]:
    """What all shares of these tasks answer; `known` is what questions are told of the whole."""
    count = max(1, sum(part.rows for task in tasks for part in task) // SHARE)
    return workers.exchanged(Cut(questions, known, count), Answer(questions, count), tasks)


def dealt(files: Sequence[str], narrowing: Narrowing = EVERYTHING) -> Tasks:
    """Files in tasks of some pieces each."""
    parts = pieces(files, ROWS, narrowing)
    return tuple(tuple(parts[at : at + _TASK]) for at in range(0, len(parts), _TASK))


def _united(parts: Iterator[Hashes | None]) -> Hashes:
    some = [part for part in parts if part is not None]
    return np.unique(np.concatenate(some)) if some else np.empty(0, np.uint64)


def _questions(settings: Settings, seen: Survey, gate: Gates, checks: Sequence[str]) -> Iterator[Question]:
    """What `checks` count besides the leases, of kinds of events that are there."""
    kinds = gate.kinds
    for name in checks:
        if name != loss.NAME or seen.windows is not None:
            yield from QUESTIONS.get(name, ())
    for name in sides.asked(gate, checks):
        yield from ASIDE.get(name, ())
        if name == queues.NAME:
            yield owners.ownership(gate.ended_us or 0)
    yield letters.question(settings)
    if fairness.NAME in checks and kinds.get("deliver"):
        yield slices.question(settings)
    if handling.CHECK in checks and 0 < kinds.get("handle.start", 0) <= MOST_HANDLERS:
        yield handlers.question(settings)
    if loss.NAME in checks and kinds.get("drain.ok") and seen.committed is not None:
        yield drains.question(settings)
