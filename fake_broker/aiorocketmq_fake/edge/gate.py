"""Simulated network partition: while the gate is shut, no bytes come in or go out."""

from __future__ import annotations

import asyncio

from aiorocketmq_fake.edge.in_progress import InProgress

__all__ = ["Gate"]


class Gate:
    """Open at first. Waiting for it does not count as work in progress."""

    def __init__(self, in_progress: InProgress) -> None:
        self._in_progress = in_progress
        self._opened: asyncio.Event | None = None

    @property
    def is_shut(self) -> bool:
        """Whether it blocks everything."""
        return self._opened is not None

    def shut(self) -> None:
        """Block everything."""
        if self._opened is None:
            self._opened = asyncio.Event()

    def open(self) -> None:
        """Let all waiting and later bytes pass."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.set()

    async def wait(self) -> None:
        """Return when the gate is open; called by work that counts as in progress."""
        while self._opened is not None:
            self._in_progress.leave()
            try:
                await self._opened.wait()
            finally:
                self._in_progress.enter()
