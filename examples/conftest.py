"""All examples are tested with the fixture `rocketmq`, a fresh fake broker for each test, on asyncio."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run the tests on asyncio."""
    return "asyncio"
