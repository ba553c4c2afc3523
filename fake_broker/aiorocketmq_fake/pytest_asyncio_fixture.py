"""The part of `pytest_plugin` that pytest-asyncio runs; loaded only with that plugin.

pytest-asyncio has an event loop for each scope, and fixtures are bound to one: there is a fixture for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Literal

import pytest_asyncio

if TYPE_CHECKING:
    from aiorocketmq_fake.broker import FakeBroker

__all__: list[str] = []


def _make_fixture(loop_scope: Literal["function", "class", "module", "package", "session"]) -> object:
    @pytest_asyncio.fixture(loop_scope=loop_scope, name=f"_rocketmq_of_asyncio_{loop_scope}")
    async def run(rocketmq_options: dict[str, Any]) -> AsyncGenerator[FakeBroker]:
        """Run the broker on a loop of pytest-asyncio. Any: options of several types."""
        # Imported with the first broker, as `pytest_plugin` does.
        from aiorocketmq_fake.broker import FakeBroker

        async with FakeBroker(**rocketmq_options) as broker:
            yield broker

    return run


_of_function = _make_fixture("function")
_of_class = _make_fixture("class")
_of_module = _make_fixture("module")
_of_package = _make_fixture("package")
_of_session = _make_fixture("session")
