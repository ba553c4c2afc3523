"""What allows the few deliveries that look wrong, over numbers: what the checks would call excused, told without Spark.

Only what is excused is told here, or no finding at all: where one stands, Spark makes it, with its evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from aiorocketmq_audit import attempts, dead_letters, double_delivery, ordering, retry_timing
from aiorocketmq_audit.excuses import (
    ANSWER_LOST,
    FLUSH_US,
    GONE,
    LINGERS_US,
    OWNER_GONE,
    RESENT,
    RESET,
    RESETS,
    RESTARTED,
    RESTARTS,
)
from aiorocketmq_audit.findings import EXCUSED
from aiorocketmq_audit.kernels import leases
from aiorocketmq_audit.kernels.events import NONE, Events, Numbers
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.overtaking import by_one_clock, overtakings
from aiorocketmq_audit.kernels.picking import CHOSEN, WHOLE
from aiorocketmq_audit.kernels.places import topics
from aiorocketmq_audit.kernels.question import Survey

MOST = 20_000
"""Deliveries that are looked at one by one."""

Excused = tuple[str, str, str]
"""Check, invariant and excuse."""


class Stands(Exception):
    """Something is broken, or may be."""


def excused(picked: pa.Table, frame: leases.Frame, survey: Survey) -> list[Row] | None:
    """Counts of excused findings among events that were picked, as `run` counts them. None where a finding stands, or
    there is too much to look at."""
    events = Events.of(picked)
    given = _Given.of(events.some(events.number(CHOSEN) == 1), frame, survey)
    if len(given.suspects) > MOST:
        return None
    around = _Around(_marks(events), _lost(events))
    try:
        found = Counter(each for index in given.suspects.tolist() for each in _judged(given, index, around))
        found += Counter(_out_of_order(given, around))
    except Stands:
        return None
    names = ("check", "invariant", "verdict", "excuse", "count")
    return [
        Row(**dict(zip(names, (check, invariant, EXCUSED, excuse, count), strict=True)))
        for (check, invariant, excuse), count in found.items()
    ]


@dataclass(frozen=True, slots=True)
class _Given:
    """Deliveries, with all that is known of each."""

    suspects: np.ndarray[Any, np.dtype[np.intp]]
    columns: Mapping[str, np.ndarray[Any, Any]]

    @classmethod
    def of(cls, events: Events, frame: leases.Frame, survey: Survey) -> _Given:
        told, others = leases.rows(frame, events, survey)
        deliveries = leases.told(events)
        deliveries = deliveries.some(deliveries.one_of("kind", "deliver"))
        beside = {
            "scope": deliveries.together("run_id", "case_id"),
            "asked": topics(deliveries),
            "client": deliveries.text("client_id"),
            "there": _there(deliveries, clocks_agree=frame.clocks_agree),
            WHOLE: deliveries.number(WHOLE),
        }
        judged = leases.judged(frame, Histories({**told, **beside}, others))
        rows, after, done, hold = judged.rows, judged.after, judged.done, judged.hold
        names = ("scope", "asked", "client", "who", "recorder", "seq", "lo", "hi", "attempt")
        in_lane = (judged.group.ordered == 1) & judged.traits["grouped"] & (rows.given("offset") != NONE)
        columns = {
            **judged.traits,
            **judged.suspects,
            "in_order": in_lane & (rows.given(WHOLE) == 1),
            "answer": rows.answers(),
            "apart": frame.settings.apart[rows.given("settings")],
            "one_clock": by_one_clock(rows),
            "number": rows.number(),
            "end": hold.end,
            **{name: rows.given(name) for name in (*names, "lane", "place", "offset")},
            **{f"n_{name}": rows.next(name, 0) for name in ("recorder", "seq")},
            "since": rows.least(rows.given("there")),
            "n_hi": after.hi,
            "n_attempt": after.attempt,
            "acked_hi": done.acked_hi,
            "copies": judged.copies,
            "unsure": hold.unsure,
        }
        wrong = ("doubled", "mistimed", "misnumbered", "hurried", "buried", "unwanted")
        return cls(np.flatnonzero(np.logical_or.reduce([columns[name] for name in wrong])), columns)


@dataclass(frozen=True, slots=True)
class _Around:
    """What may excuse deliveries."""

    marks: Sequence[tuple[Any, ...]]
    """As `excuses.marks` has them: excuse, scope, key, at, by, number and until."""
    lost: Mapping[int, Numbers]
    """By poll: when those began whose answer nobody knows."""


def _judged(given: _Given, index: int, around: _Around) -> Iterator[Excused]:
    """What the checks say of one delivery. Raises Stands."""
    row = {name: column[index] for name, column in given.columns.items()}
    if row["hurried"] or row["unwanted"] or row["above"] or row["late"]:
        raise Stands
    excuse = RESENT if row["copies"] else _excuse(row, around.marks)
    definite = (row["acked_in_time"] or row["too_early"]) and not row["other_way_round"]
    if row["doubled"] and (definite or not row["unsure"]):
        ends = row["acked_in_time"] and row["acked_hi"] < row["n_hi"]
        yield double_delivery.NAME, "INV-ACKED" if ends else "INV-EXCL", _standing(excuse)
    if row["early_retry"] and ((row["too_early"] and not row["other_way_round"]) or not row["unsure"]):
        yield retry_timing.NAME, "INV-EARLY", _standing(excuse)
    if row["stays"] or row["skips"]:
        answers = around.lost.get(int(row["asked"]), np.empty(0, np.int64))
        missing = row["n_attempt"] - row["attempt"] - 1
        is_lost = row["skips"] and missing <= np.count_nonzero(answers <= row["n_hi"])
        lost = ANSWER_LOST if is_lost and not row["copies"] else excuse
        yield attempts.NAME, "INV-ATTEMPT", _standing(lost)
    if row["buried"]:
        yield dead_letters.NAME, "INV-DLQ", _standing(excuse)


def _out_of_order(given: _Given, around: _Around) -> Iterator[Excused]:
    """What check `ordering` says. Raises Stands."""
    columns = given.columns
    for each in overtakings(columns, columns["in_order"]):
        # The interval runs from the earlier delivery to this one.
        span = {
            **{name: columns[name][each.earlier] for name in ("recorder", "seq")},
            **{name: columns[name][each.later] for name in ("scope", "who")},
            **{f"n_{name}": columns[name][each.later] for name in ("hi", "recorder", "seq")},
            **dict.fromkeys(("lo", "since"), columns["hi"][each.earlier]),
            "client": None,
            "acked_hi": NONE,
        }
        name = "INV-ORD-FIRST" if each.is_late else "INV-ORD"
        yield ordering.NAME, name, _standing(_excuse(span, around.marks))


def _standing(excuse: str | None) -> str:
    if excuse is None:
        raise Stands
    return excuse


def _excuse(row: Mapping[str, Any], marks: Sequence[tuple[Any, ...]]) -> str | None:
    """The first mark between a delivery and the next one: `excuses.with_excuse`."""
    for excuse, scope, key, at, by, number, until in marks:
        after = at > row["lo"] or (at == row["lo"] and by == row["recorder"] and number > row["seq"])
        after |= excuse == RESTARTED and until > row["since"] and until > row["n_hi"] - LINGERS_US
        before = at < row["n_hi"] or (at == row["n_hi"] and by == row["n_recorder"] and number < row["n_seq"])
        concerned = key is None or key in (row["who"], row["client"])
        forgotten = excuse != RESTARTED or row["acked_hi"] == NONE or row["acked_hi"] > at - FLUSH_US
        if scope == row["scope"] and after and before and concerned and forgotten:
            return str(excuse)
    return None


def _marks(events: Events) -> list[tuple[Any, ...]]:
    kinds = ((RESET, RESETS, "group"), (OWNER_GONE, GONE, "client_id"))
    found: list[tuple[Any, ...]] = []
    for excuse, names, key in kinds:
        some = events.some(events.one_of("kind", *names))
        at = some.number("t_wall_us")
        rows = zip(
            some.together("run_id", "case_id"),
            some.text(key),
            at,
            some.text("recorder"),
            some.number("seq"),
            at,
            strict=True,
        )
        found += [(excuse, *row) for row in rows]
    return found + _restarts(events.some(events.one_of("kind", "fault")))


def _restarts(faults: Events) -> list[tuple[Any, ...]]:
    """Each that was started lasts until somebody says that it has stopped, or for LINGERS_US."""
    scopes, recorders = faults.together("run_id", "case_id"), faults.text("recorder")
    at, seq = faults.number("t_wall_us"), faults.number("seq")
    told = [dict(fault or ()) for fault in faults.plain("fault", np.arange(len(faults)))]
    found, running = [], dict[tuple[Any, ...], tuple[Any, ...]]()
    for index in np.lexsort((seq, recorders, at)).tolist():
        fault, scope, recorder = told[index], scopes[index], recorders[index]
        if fault.get("kind") not in RESTARTS:
            continue
        what = (scope, fault["kind"], fault.get("target"))
        begun = running.pop(what, None)
        if begun is not None:
            found.append((*begun, at[index] if fault.get("state") == "stop" else begun[3] + LINGERS_US))
        mark = (RESTARTED, scope, None, at[index], recorder, seq[index])
        if fault.get("state") == "start":
            running[what] = mark
        else:
            found.append((*mark, at[index]))
    return found + [(*begun, begun[3] + LINGERS_US) for begun in running.values()]


def _there(deliveries: Events, *, clocks_agree: bool) -> Numbers:
    """Since when each message was there, as far as its delivery tells."""
    # Copies that come again are stored anew.
    stored, born = deliveries.number("store_us"), deliveries.number("born_us")
    known = np.minimum(stored, np.where(born == NONE, stored, born))
    made = np.where(stored == NONE, born, known)
    there = np.minimum(made, deliveries.number("t_wall_us"))
    return np.where((made != NONE) & clocks_agree, there, deliveries.called())


def _lost(events: Events) -> dict[int, Numbers]:
    some = events.some(events.one_of("kind", "receive") & events.one_of("phase", "info"))
    polls, begun = topics(some), some.called()
    return {int(poll): begun[polls == poll] for poll in np.unique(polls)}
