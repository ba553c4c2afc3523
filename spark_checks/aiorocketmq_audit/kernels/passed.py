"""INV-LOSS-MID over numbers: the facts of `loss.facts`."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit import loss
from aiorocketmq_audit.kernels.blocks import Rows, Runs
from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.places import is_receipt, queues
from aiorocketmq_audit.kernels.question import ACCOUNT, Counts, Survey, counting
from aiorocketmq_audit.kernels.texts import Hashes, hash_of, mixed
from aiorocketmq_audit.kernels.wishes import is_refused


def lanes(events: Events) -> Hashes:
    """The message group of each event; those without one are one."""
    group = events.text("message_group")
    return np.where(group == 0, np.uint64(hash_of("")), group)


def _rows(events: Events, survey: Survey) -> Rows:
    """What groups got, and, of what was stored, what they should have got."""
    given = events.some(
        events.one_of("kind", "deliver") & events.known("group") & ~events.one_of("role", "pull")
    )
    came = mixed(given.together(*ACCOUNT, "message_id"), given.text("group"))
    wanted = _wanted(events, survey)
    return {
        "key": np.concatenate((came, *wanted)),
        "wanted": np.arange(len(came) + sum(map(len, wanted))) >= len(came),
    }


def _wanted(events: Events, survey: Survey) -> list[Hashes]:
    windows = survey.windows
    if windows is None:
        return []
    sent = events.some(is_receipt(events))
    queue, lane, offset = queues(sent), lanes(sent), sent.number("offset")
    is_there, at = offset >= survey.left_from.of(queue, 0), sent.number("t_wall_us")
    message = sent.together(*ACCOUNT, "message_id")
    found = []
    for group, is_laned in windows.readers:
        reader = np.full(len(sent), group, np.uint64)
        own = lane if is_laned else np.zeros_like(lane)
        place = windows.places.of(mixed(queue, reader, own), -1)
        here = is_there & (place >= 0)
        here &= offset <= windows.highest[place]
        behind = offset >= windows.lowest[place]
        # What an ordered group reads of a message group begins with the first one that it can have seen.
        here &= behind | (is_laned & (at > windows.began[place]))
        for index in np.unique(windows.wanted[place[here]]):
            here &= ~((windows.wanted[place] == index) & is_refused(sent, windows.filters[index]))
        found.append(mixed(message, reader)[here])
    return found


def _answer(rows: Rows) -> Counts:
    runs, wanted = Runs(rows["key"]), rows["wanted"] > 0
    expected, came = runs.count(wanted), runs.any(~wanted)
    return {loss.NAME: (int(expected.sum()), int(expected[~came].sum()))}


QUESTION = counting(
    layout={"key": "u8", "wanted": "?"},
    rows=_rows,
    answer=_answer,
)
