"""Shrinks a failing history: steps are left out as long as one of the violated rules still is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence


async def shrink(items: Sequence[int], fails: Callable[[Sequence[int]], Awaitable[bool]]) -> list[int]:
    """Return items of which none can be left out without the failure going away.

    Delta debugging: whole parts are left out first, then ever smaller ones, each item alone in the end.
    """
    kept = list(items)
    size = max(1, len(kept) // 2)
    while kept:
        has_changed = False
        start = len(kept)
        # From the end: what follows the failure goes first.
        while start > 0:
            begin = max(0, start - size)
            rest = kept[:begin] + kept[start:]
            if await fails(rest):
                kept, has_changed = rest, True
            start = begin
        if size == 1 and not has_changed:
            return kept
        size = size if has_changed and size == 1 else max(1, size // 2)
    return kept
