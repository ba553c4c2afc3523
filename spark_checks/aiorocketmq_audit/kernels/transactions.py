"""INV-TX and INV-TX-CHECK over numbers: the facts of `transactions.facts`."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit import transactions
from aiorocketmq_audit.kernels import places
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import NONE, Events, Numbers
from aiorocketmq_audit.kernels.question import FOREVER, Counts, Survey, counting

_GIVEN, _COMMITTED, _DECIDED, _ASKED, _STORED = 1, 2, 4, 8, 16


def _rows(events: Events, _: Survey) -> Rows:
    events = events.some(
        events.one_of("kind", "send", "deliver", "tx.end", "tx.check") & events.known("tx_id")
    )
    ended = events.one_of("kind", "tx.end") & ~events.one_of("phase", "fail")
    commit = events.one_of("resolution", "commit")
    decided = (commit | events.one_of("resolution", "rollback")) & events.one_of("phase", "ok")
    return {
        "key": events.together("run_id", "case_id", "topic", "tx_id"),
        "account": places.transactions(events),
        "at": events.number("t_wall_us"),
        "called": events.called(),
        "facts": events.one_of("kind", "deliver") * np.uint8(_GIVEN)
        + (ended & commit) * np.uint8(_COMMITTED)
        + (ended & decided) * np.uint8(_DECIDED)
        + events.one_of("kind", "tx.check") * np.uint8(_ASKED)
        + (events.one_of("kind", "send") & events.one_of("phase", "ok") & events.one_of("observer", "broker"))
        * np.uint8(_STORED),
    }


def _answer(rows: Rows) -> Counts:
    told, runs, facts = Runs(rows["key"]), Runs(rows["account"]), rows["facts"]
    halves = runs.first(told.spread(told.count((facts & _STORED) != 0)))

    def first(bit: int, times: Numbers) -> Numbers:
        return runs.least(np.where(facts & bit, times, FOREVER))

    known = runs.any((facts & _GIVEN) == 0)
    given, decided = first(_GIVEN, rows["at"]), first(_DECIDED, rows["at"])
    hidden = known & (given != FOREVER) & (first(_COMMITTED, rows["called"]) > given)
    asked = runs.most(np.where(facts & _ASKED, rows["at"], NONE))
    checked = known & (asked != NONE) & (decided != FOREVER) & (halves <= 1)
    late = checked & (np.where(checked, asked, 0) - transactions.CHECK_US > decided)
    return {transactions.NAME: (int(known.sum() + checked.sum()), int(hidden.sum() + late.sum()))}


QUESTION = counting(
    layout={"key": "u8", "account": "u8", "at": "i8", "called": "i8", "facts": "u1"},
    rows=_rows,
    answer=_answer,
)
