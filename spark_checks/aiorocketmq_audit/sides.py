"""Checks of kinds of events that most recordings have few of, or none: those without any are not asked.

Each makes one row per fact that it judged, as FINDING, with a null verdict where all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame, functions as F

from aiorocketmq_audit import (
    commits,
    dead_letters,
    drained,
    fairness,
    handles,
    handling,
    isolation,
    lite_topics,
    loss,
    offsets,
    queues,
    recall,
    transactions,
)
from aiorocketmq_audit.findings import softened, tally
from aiorocketmq_audit.recording.gates import Gates


@dataclass(frozen=True, slots=True)
class Sources:
    """What such a check looks at."""

    events: DataFrame
    settings: DataFrame
    deliveries: DataFrame
    marks: DataFrame
    ended_us: int


@dataclass(frozen=True, slots=True)
class Side:
    """How one such check, or a part of one, finds its facts."""

    check: str
    facts: Callable[[Sources], DataFrame]
    kinds: tuple[str, ...]
    """Without any event of these kinds there is nothing to judge."""
    depends_on_time: bool = False
    judged: Callable[[Sources], DataFrame] | None = None
    """The same facts, of which `wrong` are findings, where telling them without their proof is less work."""


ANSWERS, HANDLERS, DRAINED, NOT_BURIED = (
    "answers to polls",
    "order of handlers",
    "loss after a drain",
    "burial after a drain",
)
"""Parts of checks that are judged by themselves."""

SIDES: Mapping[str, Side] = MappingProxyType(
    {
        transactions.NAME: Side(
            transactions.NAME,
            lambda of: transactions.facts(of.events, of.marks),
            ("tx.end", "tx.check"),
            True,
        ),
        recall.NAME: Side(recall.NAME, lambda of: recall.facts(of.events), ("recall",), True),
        queues.NAME: Side(
            queues.NAME,
            lambda of: queues.facts(of.events, of.marks, ended_us=of.ended_us),
            ("assign", "pull"),
            True,
        ),
        offsets.NAME: Side(
            offsets.NAME,
            lambda of: offsets.facts(of.events, of.marks),
            ("send", "deliver"),
            judged=lambda of: offsets.judged(of.events),
        ),
        commits.NAME: Side(commits.NAME, lambda of: commits.facts(of.events, of.marks), ("commit",)),
        fairness.NAME: Side(
            fairness.NAME, lambda of: fairness.facts(of.events, of.settings), ("deliver",), True
        ),
        handles.NAME: Side(
            handles.NAME,
            lambda of: handles.facts(of.events),
            ("deliver",),
            judged=lambda of: handles.judged(of.events),
        ),
        HANDLERS: Side(
            handling.CHECK,
            lambda of: handling.facts(of.events, of.settings, of.marks),
            handling.KINDS,
            True,
            judged=lambda of: handling.judged(of.events, of.settings),
        ),
        ANSWERS: Side(
            isolation.CHECK,
            lambda of: isolation.facts(of.events),
            ("receive",),
            judged=lambda of: isolation.judged(of.events),
        ),
        "wanted lite topics": Side(
            lite_topics.CHECK,
            lambda of: lite_topics.facts(of.events),
            lite_topics.KINDS,
            judged=lambda of: lite_topics.judged(of.events),
        ),
        DRAINED: Side(loss.NAME, lambda of: drained.lost(of.events, of.settings), ("drain.ok",)),
        NOT_BURIED: Side(
            dead_letters.NAME, lambda of: drained.not_buried(of.events, of.deliveries), ("drain.ok",)
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Aside:
    """What these checks said."""

    judged: Mapping[str, int]
    """Facts by check."""
    found: frozenset[str]
    """Checks that have findings."""


NOTHING = Aside({}, frozenset())


def tallies(
    of: Sources, gate: Gates, checks: Sequence[str], *, without: Container[str] = ()
) -> list[DataFrame]:
    """The facts of `checks`, for `findings.counted`; none of what the recording has no event for, nor of what stands
    in `without`."""
    found = []
    for name, side in asked(gate, checks).items():
        if name in without:
            continue
        rows = side.facts(of) if side.judged is None else side.judged(of)
        wrong = F.col("verdict").isNotNull() if side.judged is None else F.col("wrong")
        found.append(tally(name, rows, judged=F.lit(True), found=wrong))
    return found


def aside(counts: Mapping[str, tuple[int, int]]) -> Aside:
    """What `findings.counted` counted of the `tallies`."""
    judged: Counter[str] = Counter()
    for name, (facts, _) in counts.items():
        judged[SIDES[name].check] += facts
    return Aside(judged, frozenset(SIDES[name].check for name, (_, wrong) in counts.items() if wrong))


def findings(
    of: Sources, gate: Gates, checks: Sequence[str], *, only: Container[str] | None = None
) -> list[DataFrame]:
    """What these checks find, excused or not: rows of FINDING. `only` are the SIDES to ask; by default all."""
    found = []
    for name, side in asked(gate, checks).items():
        if only is not None and name not in only:
            continue
        unsure = gate.makes_unsure(depends_on_time=side.depends_on_time)
        found.append(softened(side.facts(of).where("verdict is not null"), has_gaps=unsure))
    return found


def asked(gate: Gates, checks: Sequence[str]) -> dict[str, Side]:
    """The SIDES of these checks for which the recording has any event."""
    return {
        name: side
        for name, side in SIDES.items()
        if side.check in checks and any(gate.kinds.get(kind) for kind in side.kinds)
    }
