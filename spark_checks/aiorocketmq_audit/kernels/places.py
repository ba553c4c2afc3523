"""INV-OFFSET and INV-OFFSET-ORD over numbers: the facts of `offsets.judged`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit import offsets
from aiorocketmq_audit.kernels.blocks import Rows, Runs, begins_of
from aiorocketmq_audit.kernels.events import Events, Mask, Numbers
from aiorocketmq_audit.kernels.question import ACCOUNT, FOREVER, Counts, Survey, counting
from aiorocketmq_audit.kernels.texts import Hashes, mixed

_QUEUE = (*ACCOUNT, "topic", "broker")


def queues(events: Events) -> Hashes:
    """One number for the queue that each event names, of its account."""

    def work(events: Events) -> Numbers:
        return mixed(events.together(*_QUEUE), events.number("queue")).view(np.int64)

    return events.derived("place of queue", work).view(np.uint64)


def ways(events: Events) -> Hashes:
    """One number for the queue and the group of each event, of its account."""
    return mixed(queues(events), events.text("group"))


def topics(events: Events) -> Hashes:
    """One number for the topic and the group of each event, of its account."""
    return mixed(events.together(*ACCOUNT, "topic"), events.text("group"))


def transactions(events: Events) -> Hashes:
    """One number for the transaction of each event, of its account."""
    return events.together(*ACCOUNT, "topic", "tx_id")


def is_receipt(events: Events) -> Mask:
    """Sends whose receipt names the place in which the message is read: `offsets.RECEIPT`."""
    return (
        events.one_of("kind", "send")
        & events.one_of("phase", "ok")
        & events.told("offset")
        & events.told("queue")
        & events.known("message_id")
        & ~events.told("due_us")
        & ~events.known("tx_id")
        & ~events.known("lite_topic")
    )


def _spots(events: Events, survey: Survey) -> Rows:
    first = events.one_of("kind", "deliver") & (events.number("attempt") == 1)
    first &= events.told("offset") & events.known("message_id") & ~events.known("lite_topic")
    given = events.some(first)
    lost_at = survey.lost_at.of(given.together(*ACCOUNT, "group"), FOREVER)
    first[first] = given.number("t_wall_us") < lost_at
    named = events.some(is_receipt(events) | first)
    return {"key": mixed(queues(named), named.number("offset")), "message": named.text("message_id")}


def _one_message_each(rows: Rows) -> Counts:
    runs = Runs(rows["key"])
    wrong = runs.least(rows["message"]) != runs.most(rows["message"])
    return {offsets.NAME: (len(runs), int(wrong.sum()))}


SPOTS = counting(
    layout={"key": "u8", "message": "u8"},
    rows=_spots,
    answer=_one_message_each,
)


_SENT = ("offset", "at", "seq")


def _sends(events: Events, _: Survey) -> Rows:
    """Of each producer and queue: how many sends of these events follow each other as they should, and the first and
    the last of them."""
    events = events.some(is_receipt(events))
    sent = {
        "key": mixed(queues(events), events.text("recorder"), events.text("client_id")),
        "offset": events.number("offset"),
        "at": events.number("t_wall_us"),
        "seq": events.number("seq"),
        "called": events.called(),
        "called_seq": events.called_seq(),
    }
    order = np.lexsort((sent["seq"], sent["at"], sent["key"]))
    ordered = {name: column[order] for name, column in sent.items()}
    key = ordered["key"]
    same = key[1:] == key[:-1]
    wrong = np.append(same & _overtaken(ordered, ordered), False)[: len(key)]
    begins = np.flatnonzero(begins_of(key))
    ends = np.append(begins[1:], len(key)) - 1 if len(key) else begins
    found = {name: column[begins] for name, column in ordered.items()}
    found |= {f"last_{name}": ordered[name][ends] for name in _SENT}
    found["sends"] = ends - begins + 1
    found["wrong"] = np.add.reduceat(wrong.astype(np.int64), begins) if len(begins) else begins
    return found


def _overtaken(before: Rows, after: Rows, last: str = "") -> NDArray[np.bool_]:
    """Of each row and the next: the one was over when the other began, and stands behind it."""
    at, seq, offset = (before[f"{last}{name}"][:-1] for name in ("at", "seq", "offset"))
    called = after["called"][1:]
    over = (at < called) | ((at == called) & (seq < after["called_seq"][1:]))
    return np.asarray(over & (after["offset"][1:] <= offset))


def _one_after_the_other(rows: Rows) -> Counts:
    """Put together what was counted apart; where the parts are not one after the other, nothing is certain."""
    order = np.lexsort((rows["seq"], rows["at"], rows["key"]))
    ordered = {name: column[order] for name, column in rows.items()}
    same = ordered["key"][1:] == ordered["key"][:-1]
    at, last_at = ordered["at"][1:], ordered["last_at"][:-1]
    apart = (last_at < at) | ((last_at == at) & (ordered["last_seq"][:-1] < ordered["seq"][1:]))
    wrong = same & (~apart | _overtaken(ordered, ordered, "last_"))
    ways = len(rows["key"]) - int(same.sum())
    return {
        offsets.NAME: (int(ordered["sends"].sum()) - ways, int(ordered["wrong"].sum()) + int(wrong.sum()))
    }


SENDS = counting(
    layout={"key": "u8"}
    | dict.fromkeys((*_SENT, "called", "called_seq", *(f"last_{name}" for name in _SENT)), "i8")
    | {"sends": "i8", "wrong": "i8"},
    rows=_sends,
    answer=_one_after_the_other,
)
