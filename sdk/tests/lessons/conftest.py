"""The places of the live lessons: servers of Apache, and the fake that does as they do, on a clock that tests move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sdk.tests.conftest import OpenPlace, Place
else:
    OpenPlace = Place = Any


@pytest.fixture
async def place(open_place: OpenPlace) -> AsyncIterator[Place]:
    """A place on which a test lets time pass."""
    async with open_place(clock="manual") as place:
        yield place
