"""INV-ASSIGN, INV-PULL-ORD and INV-COMMIT over numbers: the facts of `queues.facts` and of `commits.facts`; what looks
wrong counts, whether it is excused or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aiorocketmq_audit import commits
from aiorocketmq_audit.kernels.blocks import Rows, begins_of, first_of, greatest_so_far, last_so_far
from aiorocketmq_audit.kernels.events import NONE, Events, Mask
from aiorocketmq_audit.kernels.places import ways
from aiorocketmq_audit.kernels.question import ACCOUNT, Counts, Question, Survey, counting
from aiorocketmq_audit.kernels.texts import mixed
from aiorocketmq_audit.queues import NAME, REBALANCE_US

_GIVEN, _COMMITTED, _ASSIGNED, _FILTERED = 1, 2, 4, 8

_OWNER = (*ACCOUNT, "topic", "group", "client_id", "recorder", "epoch", "t_wall_us", "seq")
"""Columns of an assignment that concern each of its queues."""


def _owned(events: Events) -> Events:
    """One for each queue in an assignment to a pull consumer, as `queues.assigned` has them."""
    told = events.some(
        events.one_of("kind", "assign") & events.one_of("role", "pull") & events.known("topic")
    )
    rows = told.rows((*_OWNER, "queues"), np.arange(len(told)))
    return Events.of(pa.Table.from_pylist([row | queue for row in rows for queue in row.pop("queues") or ()]))


def _pulled(events: Events) -> Mask:
    return events.one_of("kind", "deliver") & events.one_of("role", "pull")


def ownership(ended_us: int) -> Question:
    """How many times of ownership there are, over assignments in a row, and which lie too far within another's."""
    return counting(
        layout={**dict.fromkeys(("key", "whose", "client", "way"), "u8"), "at": "i8", "seq": "i8"},
        rows=_lives,
        answer=partial(_owners, ended_us),
    )


def _lives(events: Events, _: Survey) -> Rows:
    """All that changes what clients own, with 0 for the queue, and each queue that they own from then on. They are few
    and looked at together, account by account."""
    lives = events.some(events.one_of("kind", "assign", "client.stop", "client.crash"))
    held = _owned(lives)
    parts = [_life(lives) | {"way": np.zeros(len(lives), np.uint64)}, _life(held) | {"way": ways(held)}]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _life(events: Events) -> dict[str, NDArray[Any]]:
    client, account = events.text("client_id"), events.together(*ACCOUNT)
    return {
        "key": account,
        "whose": mixed(account, client, events.text("recorder"), events.number("epoch")),
        "client": client,
        "at": events.number("t_wall_us"),
        "seq": events.number("seq"),
    }


def _owners(ended_us: int, rows: Rows) -> Counts:
    owners = _runs(rows, _until(ended_us, rows))
    return {NAME: (sum(map(len, owners)), sum(map(_doubly, owners)))}


def _doubly(runs: Sequence[tuple[int, int, int]]) -> int:
    """How many of these times, in the order of their begins, lie too far within an earlier one of another client."""
    wrong = 0
    # Until when the queue is owned, by who owns it for longest, and by the others.
    longest, owner, others = NONE, NONE, NONE
    for begin, end, client in runs:
        until = min(end, others if client == owner else longest)
        wrong += until != NONE and until - begin > REBALANCE_US
        if client == owner:
            longest = max(longest, end)
        elif end > longest:
            longest, owner, others = end, client, longest
        else:
            others = max(others, end)
    return wrong


def _until(ended_us: int, rows: Rows) -> Mapping[tuple[int, int, int], int]:
    """By life, time and number of what changed it: when it was changed next."""
    lives = np.flatnonzero(rows["way"] == 0)
    order = lives[np.lexsort((rows["seq"][lives], rows["at"][lives], rows["whose"][lives]))]
    whose, at, seq = (rows[name][order] for name in ("whose", "at", "seq"))
    leaves = np.append(at[1:], ended_us)
    leaves[:-1][whose[1:] != whose[:-1]] = ended_us
    leaves = leaves[: len(order)]
    keys = zip(whose.tolist(), at.tolist(), seq.tolist(), strict=True)
    return dict(zip(keys, leaves.tolist(), strict=True))


def _runs(rows: Rows, until: Mapping[tuple[int, int, int], int]) -> list[list[tuple[int, int, int]]]:
    """By queue: from when to when which client owned it, over assignments in a row, in the order of time."""
    held = np.flatnonzero(rows["way"] != 0)
    order = held[np.lexsort((rows["seq"][held], rows["at"][held], rows["whose"][held], rows["way"][held]))]
    found: dict[int, list[tuple[int, int, int]]] = {}
    before = (0, 0)
    names = ("way", "whose", "client", "at", "seq")
    for way, whose, client, at, seq in zip(*(rows[name][order].tolist() for name in names), strict=True):
        mine, leaves = found.setdefault(way, []), until[whose, at, seq]
        if before == (way, whose) and mine[-1][1] == at:
            mine[-1] = mine[-1][0], leaves, client
        else:
            mine.append((at, leaves, client))
        before = way, whose
    return [sorted(mine, key=lambda run: (run[0], run[2])) for mine in found.values()]


def _given(events: Events, _: Survey) -> Rows:
    events = events.some(_pulled(events) & events.told("offset"))
    way = mixed(ways(events), events.text("client_id"), events.text("recorder"))
    return {"key": way, "seq": events.number("seq"), "offset": events.number("offset")}


def _falling(rows: Rows) -> Counts:
    order = np.lexsort((rows["seq"], rows["key"]))
    key, offset = rows["key"][order], rows["offset"][order]
    falls = (key[1:] == key[:-1]) & (offset[1:] <= offset[:-1])
    return {NAME: (len(order), int(falls.sum()))}


READS = counting(layout={"key": "u8", "seq": "i8", "offset": "i8"}, rows=_given, answer=_falling)
"""Of each consumer and queue that it owned: what it was handed, and what not in the order of the offsets."""


def _progress(events: Events, _: Survey) -> Rows:
    wrote = events.one_of("kind", "commit") & events.told("commit_offset")
    owned, events = _owned(events), events.some(wrote | _pulled(events))
    committed = events.one_of("kind", "commit")
    filtered = ~committed & events.known("filter") & ~events.one_of("filter", "TAG:*")
    facts = committed * np.uint8(_COMMITTED) + ~committed * np.uint8(_GIVEN)
    return {
        "key": np.append(ways(events), ways(owned)),
        "at": np.append(events.number("t_wall_us"), owned.number("t_wall_us")),
        "seq": np.append(events.number("seq"), owned.number("seq")),
        "offset": np.append(
            np.where(committed, events.number("commit_offset"), events.number("offset")),
            np.full(len(owned), NONE),
        ),
        "facts": np.append(facts + filtered * np.uint8(_FILTERED), np.full(len(owned), _ASSIGNED, np.uint8)),
    }


def _written(rows: Rows) -> Counts:
    order = np.lexsort((rows["seq"], rows["at"], rows["key"]))
    key, offset, facts = (rows[name][order] for name in ("key", "offset", "facts"))
    begins = begins_of(key)
    first = first_of(begins)
    committed, given, assigned = ((facts & bit) > 0 for bit in (_COMMITTED, _GIVEN, _ASSIGNED))
    written = np.flatnonzero(committed)
    fell = (key[written][1:] == key[written][:-1]) & (offset[written][1:] < offset[written][:-1])
    # A commit is neither a delivery nor an assignment, so that what came up to it is what came before it.
    highest = greatest_so_far(np.where(given, offset, NONE), begins)
    read, begun = last_so_far(given, first), last_so_far(assigned, first)
    known = (begun < 0) | (read > begun)
    filtered = last_so_far((facts & _FILTERED) > 0, first) >= 0
    wrong = (highest != NONE) & (offset > highest + 1) & known & ~filtered
    wrong[written[1:]] |= fell
    return {commits.NAME: (len(written), int(wrong[written].sum()))}


WRITES = counting(
    layout={"key": "u8", "at": "i8", "seq": "i8", "offset": "i8", "facts": "u1"},
    rows=_progress,
    answer=_written,
)
"""Of each queue and group: the offsets that were written, and those that fell or were ahead."""
