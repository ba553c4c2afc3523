"""Fixtures of the documentation's tests."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The examples run on asyncio."""
    return "asyncio"
