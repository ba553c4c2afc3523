"""All examples are tested with the fixture `rocketmq`, a fresh fake broker for each test."""

from __future__ import annotations

import pytest

pytest_plugins = ["aiorocketmq_fake.pytest_plugin"]


@pytest.fixture
def anyio_backend() -> str:
    """Run the tests on asyncio."""
    return "asyncio"
