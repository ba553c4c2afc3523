"""Fixtures that several folders of tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.target import Target


@pytest.fixture
def make_case() -> Callable[..., Case]:
    """Build a case out of a coroutine function."""

    def make(
        run: Callable[[Target], Awaitable[None]],
        case_id: str = "send.one",
        *,
        level: Level = Level.MUST,
        needs: tuple[str, ...] = (),
        timeout: float = 60.0,
    ) -> Case:
        return Case(case_id, ("R4.1",), level, needs, "Something holds.", timeout, run)

    return make
