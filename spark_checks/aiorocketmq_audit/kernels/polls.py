"""Long polls: while one of them is open, a message that is free must come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Numbers
from aiorocketmq_audit.kernels.places import topics
from aiorocketmq_audit.kernels.question import Settings
from aiorocketmq_audit.kernels.texts import Hashes

MOST = 200_000
"""Polls that every worker holds, at most."""


@dataclass(frozen=True, slots=True)
class Polls:
    """Answered polls, in the order of what they asked for."""

    poll: Hashes
    """The topic and the group, of an account."""
    queue: Numbers
    """NONE for all of them."""
    begun: Numbers
    ended: Numbers

    def among(self, places: Hashes) -> NDArray[np.int32]:
        """Of each topic and group, where its polls begin; -1 where it has none."""
        if not len(self.poll):
            return np.full(len(places), -1, np.int32)
        found = np.minimum(np.searchsorted(self.poll, places), len(self.poll) - 1)
        return np.where(self.poll[found] == places, found, -1).astype(np.int32)

    def cover(self, first: NDArray[np.int32], queue: Numbers, free: Numbers, bound: Numbers) -> Mask:
        """Whether a poll was open from when a message was `free` up to the `bound`; `first` is what `among` says."""
        last = np.searchsorted(self.poll, self.poll[first], "right") if len(self.poll) else first
        found = np.zeros(len(first), np.bool_)
        for row in np.flatnonzero(first >= 0):
            mine = slice(first[row], last[row])
            here = (self.queue[mine] == NONE) | (self.queue[mine] == queue[row])
            found[row] = (here & (self.begun[mine] <= free[row]) & (self.ended[mine] >= bound[row])).any()
        return found


def polls(settings: Settings, events: Events) -> Polls:
    """Those that took as long as any group's messages may be late."""
    asked = events.one_of("kind", "receive") & events.one_of("phase", "ok") & events.told("invoked_us")
    some = events.some(asked)
    begun, ended = some.number("invoked_us"), some.number("t_wall_us")
    some_long = ended - begun >= settings.late.min()
    return Polls(topics(some)[some_long], some.number("queue")[some_long], begun[some_long], ended[some_long])


def merged(parts: Sequence[Polls | None]) -> Polls | None:
    """Several as one; None where they are too many."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or sum(len(part.poll) for part in known) > MOST:
        return None
    columns = (np.concatenate([getattr(part, name) for part in known]) for name in Polls.__slots__)
    poll, *others = columns
    order = np.argsort(poll, kind="stable")
    return Polls(poll[order], *(column[order] for column in others))
