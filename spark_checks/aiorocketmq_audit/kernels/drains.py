"""INV-LOSS after a drain over numbers: the facts of `drained.lost`."""

from __future__ import annotations

from functools import partial

import numpy as np

from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import NONE, Events
from aiorocketmq_audit.kernels.places import queues, transactions
from aiorocketmq_audit.kernels.question import (
    ACCOUNT,
    FOREVER,
    Counts,
    Question,
    Settings,
    Survey,
    counting,
)
from aiorocketmq_audit.kernels.texts import mixed
from aiorocketmq_audit.kernels.wishes import is_refused
from aiorocketmq_audit.sides import DRAINED

_IN_TIME, _LEFT_OUT, _DONE = 1, 2, 4


def question(settings: Settings) -> Question:
    """Of each message and group that was drained: whether all that had to be settled is."""
    return counting(
        layout={"key": "u8", "facts": "u1"},
        rows=partial(_rows, settings),
        answer=_answer,
    )


def _rows(settings: Settings, events: Events, survey: Survey) -> Rows:
    parts = [_done(settings, events), *_sent(events, survey)]
    return {name: np.concatenate([part[name] for part in parts]) for name in ("key", "facts")}


def _done(settings: Settings, events: Events) -> Rows:
    events = events.some(
        events.one_of("kind", "deliver", "ack", "forward", "dlq.deliver")
        & events.known("group")
        & events.known("message_id")
    )
    ended = events.one_of("kind", "ack", "forward") & ~events.one_of("phase", "fail")
    group = settings.of(events)
    most = settings.max_attempts[group]
    used_up = (most > 0) & (events.number("attempt") >= most) & ~events.one_of("observer", "broker")
    read = events.one_of("kind", "deliver") & (events.one_of("role", "pull") | used_up)
    over = events.some(ended | read | events.one_of("kind", "dlq.deliver"))
    key = mixed(over.together(*ACCOUNT, "topic"), over.text("group"), over.text("message_id"))
    return {"key": key, "facts": np.full(len(key), _DONE, np.uint8)}


def _sent(events: Events, survey: Survey) -> list[Rows]:
    """Of each group that was drained: the messages that it had to settle before, and those that were taken back."""
    drains, committed = survey.drains, survey.committed
    if drains is None or committed is None:
        return []
    stored = events.one_of("kind", "send") & events.one_of("phase", "ok")
    taken_back = events.one_of("kind", "recall") & ~events.one_of("phase", "fail")
    sent = events.some((stored | taken_back) & events.known("message_id"))
    recalled = sent.one_of("kind", "recall")
    topic, message = sent.together(*ACCOUNT, "topic"), sent.text("message_id")
    at, due, offset = (sent.number(name) for name in ("t_wall_us", "due_us", "offset"))
    visible = np.where(sent.known("tx_id"), committed.of(transactions(sent), FOREVER), at)
    gone = (offset != NONE) & (offset < survey.left_from.of(queues(sent), NONE))
    found: list[Rows] = []
    for group in drains.readers:
        reader = np.full(len(sent), group, np.uint64)
        place = drains.places.of(mixed(topic, reader), -1)
        here = place >= 0
        if not here.any():
            continue
        refused = np.zeros(len(sent), np.bool_)
        for index in np.unique(drains.wanted[place[here]]):
            refused |= (drains.wanted[place] == index) & is_refused(sent, drains.filters[index])
        drained_at = drains.drained_at[place]
        left_out = recalled | gone | refused | (at <= drains.primed[place]) | (due >= drained_at)
        in_time = ~recalled & (visible < drained_at)
        facts = in_time * np.uint8(_IN_TIME) + left_out * np.uint8(_LEFT_OUT)
        found.append({"key": mixed(topic, reader, message)[here], "facts": facts[here]})
    return found


def _answer(rows: Rows) -> Counts:
    runs, facts = Runs(rows["key"]), rows["facts"]
    in_time, left_out, done = (runs.any((facts & bit) > 0) for bit in (_IN_TIME, _LEFT_OUT, _DONE))
    wanted = in_time & ~left_out
    return {DRAINED: (int(wanted.sum()), int((wanted & ~done).sum()))}
