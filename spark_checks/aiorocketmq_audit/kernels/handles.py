"""INV-HANDLE over numbers: the facts of `handles.judged`."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit import handles
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.question import ACCOUNT, Counts, Survey, counting
from aiorocketmq_audit.kernels.texts import hash_of, mixed

_GIVEN, _ALONE = 1, 2


def _rows(events: Events, _: Survey) -> Rows:
    used = events.one_of("kind", "ack", "change", "forward") & events.one_of("phase", "ok")
    used |= events.one_of("kind", "deliver")
    events = events.some(used & events.known("delivery") & events.known("message_id"))
    given, attempt = events.one_of("kind", "deliver"), events.text("receive_attempt")
    alone = given & ((attempt == 0) | (attempt == np.uint64(hash_of(""))))
    return {
        "key": events.together(*ACCOUNT, "delivery"),
        "message": events.text("message_id"),
        "request": mixed(attempt, events.number("batch_pos")),
        "is_given": given * np.uint8(_GIVEN) + alone * np.uint8(_ALONE),
    }


def _answer(rows: Rows) -> Counts:
    runs = Runs(rows["key"])
    given = (rows["is_given"] & _GIVEN) > 0
    other = runs.least(rows["message"]) != runs.most(rows["message"])
    times = runs.count(given)
    again = times > 1
    if again.any():
        asked = np.where(given, rows["request"], 0), np.where(given, rows["request"], np.iinfo(np.uint64).max)
        apart = runs.most(asked[0]) != runs.least(asked[1])
        again &= runs.any((rows["is_given"] & _ALONE) > 0) | apart
    known = times > 0
    return {handles.NAME: (int(known.sum()), int((known & (again | other)).sum()))}


QUESTION = counting(
    layout={"key": "u8", "message": "u8", "request": "u8", "is_given": "u1"},
    rows=_rows,
    answer=_answer,
)
