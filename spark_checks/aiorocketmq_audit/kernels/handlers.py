"""INV-ORD-HANDLE over numbers: the facts of `handling.judged`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import Rows, begins_of, first_of, greatest_so_far, last_so_far
from aiorocketmq_audit.kernels.events import NONE, Events, Numbers
from aiorocketmq_audit.kernels.question import (
    ACCOUNT,
    Counts,
    Question,
    Settings,
    Survey,
    chosen,
    counting,
)
from aiorocketmq_audit.kernels.texts import mixed
from aiorocketmq_audit.screen import NEVER
from aiorocketmq_audit.sides import HANDLERS

_GIVEN, _BEGINS, _ENDS, _CHANGED = 1, 2, 4, 8


def question(settings: Settings) -> Question:
    """Of each message group of an ordered group: the begins of handlers, and those that are suspicious."""
    return counting(
        layout={
            **dict.fromkeys(("key", "whose", "recorder"), "u8"),
            **dict.fromkeys(("at", "seq", "lease", "apart"), "i8"),
            "kind": "u1",
        },
        rows=partial(_rows, settings),
        answer=_answer,
    )


def _rows(settings: Settings, events: Events, _: Survey) -> Rows:
    kind = np.zeros(len(events), np.uint8)
    for name, code in (("deliver", _GIVEN), ("handle.start", _BEGINS), ("handle.end", _ENDS)):
        kind += events.one_of("kind", name) * np.uint8(code)
    kind += (events.one_of("kind", "change") & events.one_of("phase", "ok")) * np.uint8(_CHANGED)
    group = settings.of(events)
    told = (kind > 0) & (settings.ordered[group] == 1) & events.one_of("role", "push")
    told &= events.known("message_group") & events.known("message_id")
    hold = events.number("invisible_ms")
    leased = np.where((hold == NONE) | (kind & (_GIVEN | _CHANGED) == 0), NONE, events.called() + 1000 * hold)
    # A server that renews leases by itself lets none end while its client lives.
    leased = np.where((kind == _GIVEN) & (events.number("auto_renew") == 1), NEVER, leased)
    lane = mixed(
        events.together(*ACCOUNT, "topic", "group", "broker"),
        events.number("queue"),
        events.text("message_group"),
    )
    message = mixed(events.text("message_id"), events.number("offset"), events.number("attempt"))
    return chosen(
        told,
        key=lane,
        whose=mixed(lane, message, events.text("recorder"), events.text("client_id")),
        recorder=events.text("recorder"),
        at=events.number("t_wall_us"),
        seq=events.number("seq"),
        lease=leased,
        apart=settings.apart[group],
        kind=kind,
    )


def _answer(rows: Rows) -> Counts:
    begun = _handlers(rows)
    order = np.lexsort((begun["seq"], begun["at"], begun["key"]))
    begun = {name: column[order] for name, column in begun.items()}
    # The one of those before that held its message for longest, and of equal ones the last.
    ranked = np.lexsort((begun["recorder"], begun["seq"], begun["at"], begun["until"]))
    rank = np.empty(len(ranked), np.int64)
    rank[ranked] = np.arange(len(ranked))
    other = ranked[greatest_so_far(rank, begins_of(begun["key"]))[:-1]]
    same = begun["key"][1:] == begun["key"][:-1]
    apart = np.where(begun["recorder"][other] == begun["recorder"][1:], 0, begun["apart"][1:])
    began, other_began = begun["at"][1:], begun["at"][other]
    # Which of the two began first, clocks that are apart may not tell.
    began_beside = (other_began + apart <= began) | (begun["until"][1:] > other_began + apart)
    wrong = same & (begun["until"][other] > began + apart) & began_beside
    return {HANDLERS: (len(order), int(wrong.sum()))}


def _handlers(rows: Rows) -> dict[str, NDArray[Any]]:
    """Each begin of a handler, with `until` when it was at work and held its message at the least."""
    order = np.lexsort((rows["seq"], rows["whose"]))
    sorted_rows = {name: column[order] for name, column in rows.items()}
    kind = sorted_rows["kind"]
    # A delivery and what was done about it: what follows the next one belongs to that.
    begins = begins_of(sorted_rows["whose"]) | (kind == _GIVEN)
    first = first_of(begins)
    last = np.append(np.flatnonzero(begins)[1:], len(kind))[np.cumsum(begins) - 1] - 1
    lease = _last_told(sorted_rows["lease"], first)
    end = _next(kind == _ENDS, last)
    has_end = end >= 0
    alone = np.where(lease[last] < NEVER, lease[last], NONE)
    through = np.where(lease[end] == NONE, NONE, np.minimum(sorted_rows["at"][end], lease[end]))
    until = np.where(has_end, through, alone)
    which = kind == _BEGINS
    found = {name: column[which] for name, column in sorted_rows.items()}
    return found | {"until": until[which]}


def _last_told(values: Numbers, first: NDArray[np.intp]) -> Numbers:
    """Each value, or the last one before it that is told, from the row `first` on."""
    told = last_so_far(values != NONE, first)
    return np.where(told >= 0, values[told], NONE)


def _next(which: NDArray[np.bool_], last: NDArray[np.intp]) -> NDArray[np.intp]:
    """Of each row the next one that is chosen, up to the row `last`; -1 without any."""
    count = len(which)
    places = np.where(which, np.arange(count), count)
    following = np.append(np.minimum.accumulate(places[::-1])[::-1][1:], count)[:count]
    return np.where(following <= last, following, -1)
