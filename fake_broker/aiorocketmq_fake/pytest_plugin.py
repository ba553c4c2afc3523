"""The fixture `rocketmq`: a fresh fake broker for every test that asks for it.

Opt in with `pytest_plugins = ["aiorocketmq_fake.pytest_plugin"]` in the topmost `conftest.py`, or with the option `-p
aiorocketmq_fake.pytest_plugin`. It serves asynchronous tests of anyio's plugin and of pytest-asyncio (both modes).

The clock is manual, so that `await rocketmq.clock.advance(hours=2)` decides what happens when. Pass it to the
consumers under test as well, `PushConsumer(rocketmq.endpoint, ..., clock=rocketmq.clock)`: it then times their leases
and retries, and `advance` waits for their work. A marker overrides the keywords of `FakeBroker`:
`@pytest.mark.rocketmq(clock="real", profile="apache-5.5")`; for a whole suite override the fixture
`rocketmq_options`, or parametrize it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiorocketmq_fake.broker import FakeBroker

__all__ = ["rocketmq", "rocketmq_options"]

MARKER = "rocketmq(**options): how the fixture `rocketmq` makes its FakeBroker, such as clock='real'."


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; with pytest-asyncio, add a fixture that it runs."""
    config.addinivalue_line("markers", MARKER)
    if config.pluginmanager.hasplugin("asyncio"):
        # Imported late: before pytest has registered it, pytest-asyncio could not be rewritten for assertions.
        from aiorocketmq_fake import pytest_asyncio_fixture

        config.pluginmanager.register(pytest_asyncio_fixture, "aiorocketmq-fake-asyncio")


@pytest.fixture
def rocketmq_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the keywords for `FakeBroker`: those of the marker over a manual clock. Any: of several types."""
    marker = request.node.get_closest_marker("rocketmq")
    return {"clock": "manual", **getattr(request, "param", {}), **(marker.kwargs if marker else {})}


@pytest.fixture
def rocketmq(request: pytest.FixtureRequest) -> FakeBroker:
    """A fresh fake broker on a free local port, closed after the test."""
    if "anyio_backend" in request.fixturenames:
        runner = "_rocketmq_of_anyio"
    elif request.node.get_closest_marker("asyncio") is not None:
        runner = "_rocketmq_of_pytest_asyncio"
    else:
        pytest.fail(
            "the fixture rocketmq serves asynchronous tests: write `async def` and run it by anyio or pytest-asyncio; "
            "a synchronous test can use `aiorocketmq fake serve` in a process of its own.",
            pytrace=False,
        )
    broker: FakeBroker = request.getfixturevalue(runner)
    return broker


@pytest.fixture
async def _rocketmq_of_anyio(
    anyio_backend_name: str, rocketmq_options: dict[str, Any]
) -> AsyncGenerator[FakeBroker]:
    """Run the broker on the loop of anyio's plugin."""
    if anyio_backend_name != "asyncio":
        pytest.fail(
            f"the fixture rocketmq needs asyncio, this test runs on {anyio_backend_name}: "
            "let the fixture anyio_backend return 'asyncio'.",
            pytrace=False,
        )
    async with _broker(rocketmq_options) as broker:
        yield broker


def _broker(options: dict[str, Any]) -> FakeBroker:
    # gRPC is imported with the first broker: a test run without one does not pay for it.
    from aiorocketmq_fake.broker import FakeBroker

    return FakeBroker(**options)
