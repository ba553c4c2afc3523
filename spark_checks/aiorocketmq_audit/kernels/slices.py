"""INV-FAIR over numbers: the facts of `fairness.facts`, and each standstill, whether anybody asked meanwhile or not."""

from __future__ import annotations

from functools import partial

import numpy as np

from aiorocketmq_audit import fairness
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.places import ways
from aiorocketmq_audit.kernels.question import Counts, Question, Settings, Survey, counting
from aiorocketmq_audit.kernels.texts import mixed


def question(settings: Settings) -> Question:
    """Of each queue and group: the slices of time in which it went on."""
    return counting(
        layout={"key": "u8", "slice": "i8", "begin": "i8", "end": "i8", "ready": "i8"},
        rows=partial(_rows, settings),
        answer=_answer,
    )


def _rows(settings: Settings, events: Events, _: Survey) -> Rows:
    first = events.one_of("kind", "deliver") & (events.number("attempt") == 1)
    first &= events.told("store_us") & events.told("queue")
    group = settings.of(events)
    which = np.flatnonzero(first & (settings.ordered[group] == 0))
    at = events.number("t_wall_us")[which]
    ready = np.maximum(events.number("store_us"), np.maximum(events.number("due_us"), 0))[which]
    return _folded(
        {
            "key": ways(events)[which],
            "slice": at // fairness.BUCKET_US,
            "begin": at,
            "end": at,
            "ready": ready,
        }
    )


def _folded(rows: Rows) -> Rows:
    """One row for each slice."""
    runs = Runs(mixed(rows["key"], rows["slice"]))
    return {
        "key": runs.first(rows["key"]),
        "slice": runs.first(rows["slice"]),
        "begin": runs.least(rows["begin"]),
        "end": runs.most(rows["end"]),
        "ready": runs.least(rows["ready"]),
    }


def _answer(rows: Rows) -> Counts:
    slices = _folded(rows)
    order = np.lexsort((slices["slice"], slices["key"]))
    key, begin, end, ready = (slices[name][order] for name in ("key", "begin", "end", "ready"))
    same = key[1:] == key[:-1]
    stood = same & (begin[1:] - np.maximum(end[:-1], ready[1:]) >= fairness.STANDSTILL_US)
    return {fairness.NAME: (int(same.sum()), int(stood.sum()))}
