"""The part of `pytest_plugin` that pytest-asyncio runs; loaded only with that plugin."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest_asyncio

from aiorocketmq_fake.broker import FakeBroker

__all__ = ["_rocketmq_of_pytest_asyncio"]


@pytest_asyncio.fixture
async def _rocketmq_of_pytest_asyncio(rocketmq_options: dict[str, Any]) -> AsyncGenerator[FakeBroker]:
    """Run the broker on the loop of pytest-asyncio. Any: options of several types."""
    async with FakeBroker(**rocketmq_options) as broker:
        yield broker
