"""INV-ISOLATE of answers to polls over numbers: the facts of `isolation.judged`."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.question import Counts, Survey, counting
from aiorocketmq_audit.kernels.texts import mixed
from aiorocketmq_audit.sides import ANSWERS

_MOST = np.iinfo(np.uint64).max


def _rows(events: Events, _: Survey) -> Rows:
    events = events.some(
        events.one_of("kind", "receive", "deliver") & events.known("topic") & events.known("group")
    )
    asked = events.one_of("kind", "receive")
    operation = np.where(asked, events.text("op_id"), events.text("batch"))
    told = operation != 0
    key = mixed(events.text("recorder"), events.text("boot"), operation)[told]
    place, asked = events.together("topic", "group")[told], asked[told]
    # The messages of an answer stand together, and so do a call and its answer if nothing is between them.
    again = np.zeros(len(key), np.bool_)
    again[1:] = (key[1:] == key[:-1]) & (place[1:] == place[:-1]) & (asked[1:] == asked[:-1])
    return {"key": key[~again], "place": place[~again], "asked": asked[~again]}


def _answer(rows: Rows) -> Counts:
    runs, place, asked = Runs(rows["key"]), rows["place"], rows["asked"] > 0
    asked_least = runs.least(np.where(asked, place, _MOST))
    asked_most = runs.most(np.where(asked, place, 0))
    given_least = runs.least(np.where(asked, _MOST, place))
    given_most = runs.most(np.where(asked, 0, place))
    # Two polls of one id say nothing.
    known = (asked_least == asked_most) & runs.any(~asked)
    other = (given_least != asked_most) | (given_most != asked_most)
    return {ANSWERS: (int(known.sum()), int((known & other).sum()))}


QUESTION = counting(
    layout={"key": "u8", "place": "u8", "asked": "?"},
    rows=_rows,
    answer=_answer,
)
