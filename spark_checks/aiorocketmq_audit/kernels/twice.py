"""Calls and answers that are told twice, over numbers: the facts of `gates.told_twice`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aiorocketmq_audit.gates import OPERATION_PHASES
from aiorocketmq_audit.kernels.asking import answered
from aiorocketmq_audit.kernels.blocks import Layout, Rows, Runs
from aiorocketmq_audit.kernels.events import Events, Mask
from aiorocketmq_audit.kernels.question import FOREVER, Question, Told
from aiorocketmq_audit.kernels.tasks import Tasks, Workers
from aiorocketmq_audit.kernels.texts import hash_of, mixed

_LAYOUT: Layout = {"key": "u8", "recorder": "u8", "seq": "i8", "is_call": "?"}


def told_twice(workers: Workers, tasks: Tasks, recorders: Sequence[str]) -> dict[str, int]:
    """How many ids each of `recorders` told two calls by, or two answers; rows that are there twice count once."""
    asked = Question((_LAYOUT,), _Rows(tuple(recorders)), _answer)
    total: Counter[str] = Counter()
    for told in answered(workers, tasks, (asked,)):
        total.update({recorder: odd for recorder, (odd, _) in told.counts.items()})
    return {name: total[str(hash_of(name))] for name in recorders if total[str(hash_of(name))]}


@dataclass(frozen=True, slots=True)
class _Rows:
    recorders: tuple[str, ...]

    def __call__(self, events: Events, _: None) -> tuple[Rows]:
        told = events.one_of("recorder", *self.recorders) & events.one_of("phase", *OPERATION_PHASES)
        events = events.some(told & events.known("op_id"))
        key = mixed(events.together("recorder", "boot", "kind", "op_id"), events.number("epoch"))
        return (
            {
                "key": key,
                "recorder": events.text("recorder"),
                "seq": events.number("seq"),
                "is_call": events.one_of("phase", "invoke"),
            },
        )


def _answer(rows: Rows) -> Told:
    runs, is_call = Runs(rows["key"]), rows["is_call"] > 0

    def is_twice(which: Mask) -> Mask:
        least = runs.least(np.where(which, rows["seq"], FOREVER))
        return np.asarray(least < runs.most(np.where(which, rows["seq"], -1)))

    odd = is_twice(is_call) | is_twice(~is_call)
    recorders, counts = np.unique(runs.first(rows["recorder"])[odd], return_counts=True)
    found = zip(recorders.tolist(), counts.tolist(), strict=True)
    return Told({str(recorder): (count, 0) for recorder, count in found})
