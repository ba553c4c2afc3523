"""Waiting for what no event reports."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], *, within: float = 10.0) -> None:
    """Wait until something holds; TimeoutError if it does not within so many seconds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
