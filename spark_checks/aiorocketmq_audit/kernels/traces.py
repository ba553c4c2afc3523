"""INV-CONTENT, INV-FAILED and INV-ORIGIN over numbers: the facts of `origin.facts`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit import origin
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.question import ACCOUNT, FOREVER, Counts, Survey, counting

_SEND, _CALLED, _OK, _FAILED, _UNKNOWN, _BY_BROKER, _LATER = (1 << bit for bit in range(7))

_MOST = np.iinfo(np.uint64).max


def _rows(events: Events, survey: Survey) -> Rows:
    events = events.some(events.one_of("kind", "send", "deliver") & events.known("message_id"))
    send, given = events.one_of("kind", "send"), events.one_of("kind", "deliver")
    by_broker = events.one_of("observer", "broker")
    facts = send * np.uint8(_SEND) + by_broker * np.uint8(_BY_BROKER)
    for phase, bit in (("invoke", _CALLED), ("ok", _OK), ("fail", _FAILED), ("info", _UNKNOWN)):
        facts += (send & events.one_of("phase", phase)) * np.uint8(bit)
    if by_broker.any():
        later = events.number("store_us") > survey.began.of(events.together(*ACCOUNT), FOREVER)
        facts += (given & later) * np.uint8(_LATER)
    return {
        "key": events.together(*ACCOUNT, "message_id"),
        "body": events.text("body_sha"),
        "props": events.text("props_sha"),
        "facts": facts,
    }


def _answer(rows: Rows) -> Counts:
    """A message without a send is from nowhere if any copy of it was stored later: more than the check says."""
    runs, facts = Runs(rows["key"]), rows["facts"]

    def times(bits: int) -> NDArray[np.int64]:
        return runs.count((facts & bits) > 0)

    sends, given, by_broker = times(_SEND), runs.any((facts & _SEND) == 0), times(_BY_BROKER) > 0
    refused, answered = times(_FAILED), times(_OK | _FAILED | _UNKNOWN)
    is_refused = (refused > 0) & (answered == refused) & (times(_CALLED) <= answered)
    wrong = is_refused | ((sends == 0) & by_broker & (times(_LATER) > 0))
    for part in (rows["body"], rows["props"]):
        wrong |= _is_other(runs, part, (facts & _SEND) > 0)
    judged = given & ((sends > 0) | by_broker)
    confirmed = judged & (times(_OK) > 0)
    recovered = judged & ~confirmed & (sends > 0) & ~is_refused
    kinds = {origin.CONFIRMED: confirmed, origin.RECOVERED: recovered}
    kinds[origin.NAME] = judged & ~confirmed & ~recovered
    return {name: (int(of.sum()), int((of & wrong).sum())) for name, of in kinds.items()}


def _is_other(runs: Runs, part: NDArray[Any], is_send: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Sends of one id that differ say nothing, nor does an account that leaves the part out."""
    told = part != 0
    sent, given = is_send & told, ~is_send & told
    sent_least, given_least = (runs.least(np.where(which, part, _MOST)) for which in (sent, given))
    sent_most, given_most = (runs.most(np.where(which, part, 0)) for which in (sent, given))
    both = runs.any(sent) & runs.any(given)
    other = (given_least != sent_least) | (given_most != sent_least)
    return np.asarray(both & (sent_least == sent_most) & other)


QUESTION = counting(
    layout={"key": "u8", "body": "u8", "props": "u8", "facts": "u1"},
    rows=_rows,
    answer=_answer,
)
