"""What a page shows of groups and of times, over numbers: the cells of `overview`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import Row

from aiorocketmq_audit.frames.overview import COUNTS, LATENCY_S, MOST_ROWS, Slices
from aiorocketmq_audit.kernels.blocks import Runs
from aiorocketmq_audit.kernels.events import NONE, Events
from aiorocketmq_audit.kernels.nullable import bucket
from aiorocketmq_audit.kernels.tasks import Look, Tasks, Workers
from aiorocketmq_audit.kernels.texts import mixed

_Cells = dict[tuple[Any, ...], list[int]]


def cells(workers: Workers, tasks: Tasks, slices: Slices) -> list[Row]:
    """Deliveries and dead letters by observer, group, latency and slice of time."""
    names = ("observer", "group", "bucket", "slice", *COUNTS)
    found = _merged(workers.each(Look(partial(_seen, slices), _merged), tasks))
    return [Row(**dict(zip(names, (*key, *counts), strict=True))) for key, counts in found.items()][
        :MOST_ROWS
    ]


def _merged(parts: Sequence[_Cells]) -> _Cells:
    total: _Cells = {}
    for part in parts:
        for key, counts in part.items():
            total[key] = [one + other for one, other in zip(counts, total.get(key, (0, 0, 0)), strict=True)]
    return total


def _seen(slices: Slices, events: Events) -> _Cells:
    events = events.some(events.one_of("kind", "deliver", "dlq.deliver") & events.known("group"))
    given, attempt = events.one_of("kind", "deliver"), events.number("attempt")
    at = events.number("t_wall_us")
    stored = np.where(events.told("store_us"), events.number("store_us"), events.number("born_us"))
    ready = np.where(stored == NONE, NONE, np.maximum(stored, np.maximum(events.number("due_us"), 0)))
    latency = bucket(at - ready, given & (attempt == 1) & (ready != NONE), LATENCY_S)
    slice_ = np.where(given, NONE, (at - slices.began) // slices.us)
    runs = Runs(mixed(events.together("observer", "group"), latency, slice_))
    counts = (runs.count(which) for which in (given, given & (attempt > 1), ~given))
    rows = runs.order[runs.begins]
    texts = {name: events.vocabulary(name) for name in ("observer", "group")}
    keys = zip(
        *([texts[name][key] for key in events.text(name)[rows].tolist()] for name in texts),
        *(
            [None if number == NONE else number for number in column[rows].tolist()]
            for column in (latency, slice_)
        ),
        strict=True,
    )
    return dict(zip(keys, map(list, zip(*(count.tolist() for count in counts), strict=True)), strict=True))
