"""INV-RECALL over numbers: the facts of `recall.facts`."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit import recall
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import NONE, Events
from aiorocketmq_audit.kernels.question import ACCOUNT, FOREVER, Counts, Survey, counting

_SENT, _GIVEN, _RECALLED = 1, 2, 4


def _rows(events: Events, _: Survey) -> Rows:
    recalled = events.one_of("kind", "recall") & events.one_of("phase", "ok")
    events = events.some((recalled | events.one_of("kind", "send", "deliver")) & events.known("message_id"))
    return {
        "key": events.together(*ACCOUNT, "topic", "message_id"),
        "at": events.number("t_wall_us"),
        "due": events.number("due_us"),
        "facts": events.one_of("kind", "send") * np.uint8(_SENT)
        + events.one_of("kind", "deliver") * np.uint8(_GIVEN)
        + events.one_of("kind", "recall") * np.uint8(_RECALLED),
    }


def _answer(rows: Rows) -> Counts:
    runs, recalled = Runs(rows["key"]), (rows["facts"] & _RECALLED) > 0
    at = runs.least(np.where(recalled, rows["at"], FOREVER))
    # What is said of a message when it is taken back does not tell when it is due.
    due = runs.most(np.where(recalled, NONE, rows["due"]))
    in_time = (due != NONE) & (at < np.where(due == NONE, 0, due) - recall.RACE_US)
    given = runs.any((rows["facts"] & _GIVEN) > 0)
    return {recall.NAME: (int(in_time.sum()), int((in_time & given).sum()))}


QUESTION = counting(layout={"key": "u8", "at": "i8", "due": "i8", "facts": "u1"}, rows=_rows, answer=_answer)
