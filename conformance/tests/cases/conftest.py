"""What the tests of the cases share."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
