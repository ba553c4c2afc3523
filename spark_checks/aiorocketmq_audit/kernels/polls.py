"""Long polls: while one of them is open, a message that is free must come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aiorocketmq_audit.kernels.events import Events
from aiorocketmq_audit.kernels.places import topics
from aiorocketmq_audit.kernels.question import Polls, Settings

MOST = 200_000
"""Polls that every worker holds, at most."""


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
    columns = {name: np.concatenate([getattr(part, name) for part in known]) for name in Polls.__slots__}
    order = np.argsort(columns["poll"], kind="stable")
    return Polls(**{name: column[order] for name, column in columns.items()})
