"""A gate in front of a broker: while it is shut nothing comes in and nothing goes out, as behind a broken network."""

from __future__ import annotations

import asyncio

from aiorocketmq_fake.edge.quiet import Quiet

__all__ = ["Gate"]


class Gate:
    """Open at first. Who waits at it is not at work."""

    def __init__(self, quiet: Quiet) -> None:
        self._quiet = quiet
        self._opened: asyncio.Event | None = None

    @property
    def is_shut(self) -> bool:
        """Whether nothing gets through."""
        return self._opened is not None

    def shut(self) -> None:
        """Let nothing through any more."""
        if self._opened is None:
            self._opened = asyncio.Event()

    def open(self) -> None:
        """Let through what has waited and has not given up, and all that comes."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.set()

    async def wait(self) -> None:
        """Return when the gate is open; called by work that counts as in progress."""
        while self._opened is not None:
            self._quiet.leave()
            try:
                await self._opened.wait()
            finally:
                self._quiet.enter()
