"""The fixture `rocketmq`: a fresh fake broker for every test that asks for it.

pytest loads it by itself. In a run without plugins of installed packages, `-p aiorocketmq_fake.pytest_plugin` does.

The broker runs where the test runs: on the event loop of anyio's plugin (asyncio) or of pytest-asyncio (strict and auto
mode, any loop scope), and for a synchronous test on an event loop in a thread of its own, with `rocketmq.portal` for
calls (see `FakeBroker.portal`).

The clock is manual, so that `await rocketmq.clock.advance(hours=2)` decides what happens when. Pass it to the
consumers under test as well, `PushConsumer(rocketmq.endpoint, ..., clock=rocketmq.clock)`: it then times their leases
and retries, and `advance` waits for their work. A marker overrides the keywords of `FakeBroker`:
`@pytest.mark.rocketmq(clock="real", profile="apache-5.5")`; for a whole suite override the fixture
`rocketmq_options`, or parametrize it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiorocketmq_fake.broker import FakeBroker

__all__ = ["rocketmq", "rocketmq_options"]

MARKER = "rocketmq(**options): how the fixture `rocketmq` makes its FakeBroker, such as clock='real'."


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; with pytest-asyncio, add fixtures that it runs."""
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
    broker: FakeBroker = request.getfixturevalue(_runner(request))
    return broker


def _runner(request: pytest.FixtureRequest) -> str:
    """Return the name of the fixture that runs the broker on the event loop of the test."""
    test = request.function
    # hypothesis makes a function of a coroutine function.
    if not iscoroutinefunction(getattr(getattr(test, "hypothesis", None), "inner_test", test)):
        return "_rocketmq_in_thread"
    if "anyio_backend" in request.fixturenames:
        return "_rocketmq_of_anyio"
    marker = request.node.get_closest_marker("asyncio")
    if marker is not None:
        return f"_rocketmq_of_asyncio_{_loop_scope(marker, request.config)}"
    pytest.fail(
        "the fixture rocketmq does not know what runs this `async def` test: mark it with `@pytest.mark.anyio` or "
        "`@pytest.mark.asyncio`.",
        pytrace=False,
    )


def _loop_scope(marker: pytest.Mark, config: pytest.Config) -> str:
    """Return the scope of the event loop that pytest-asyncio runs a test with this marker on."""
    scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
    if scope is None:
        try:
            scope = config.getini("asyncio_default_test_loop_scope")
        except ValueError:  # before pytest-asyncio 0.26
            scope = "function"
    return str(scope)


@pytest.fixture
def _rocketmq_in_thread(rocketmq_options: dict[str, Any]) -> Generator[FakeBroker]:
    """Run the broker on an event loop in a thread, for a synchronous test."""
    with _broker(rocketmq_options) as broker:
        yield broker


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
