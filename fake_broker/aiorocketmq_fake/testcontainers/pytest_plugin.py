"""Fixtures: a real RocketMQ server, or the fake, in one container for the whole test run.

Opt in with `pytest_plugins = ["aiorocketmq_fake.testcontainers.pytest_plugin"]` in the topmost `conftest.py`, or with
the option `-p`. A test that fails shows what its server printed meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from typing import TypeVar

import pytest

from aiorocketmq_fake.testcontainers.container import ServerContainer
from aiorocketmq_fake.testcontainers.errors import ContainerError
from aiorocketmq_fake.testcontainers.fake_server import FakeRocketMQContainer
from aiorocketmq_fake.testcontainers.real_server import RocketMQContainer

__all__ = ["fake_rocketmq_container", "fake_rocketmq_image", "rocketmq_container", "rocketmq_image"]

C = TypeVar("C", bound=ServerContainer)

_LINES = 100


@pytest.fixture(scope="session")
def rocketmq_image() -> str:
    """Return the image of `rocketmq_container`: that of the variable AIOROCKETMQ_IMAGE, else Apache's 5.5.0."""
    return os.environ.get("AIOROCKETMQ_IMAGE", "apache/rocketmq:5.5.0")


@pytest.fixture(scope="session")
def fake_rocketmq_image() -> str:
    """Return the image of `fake_rocketmq_container`: AIOROCKETMQ_FAKE_IMAGE, else `aiorocketmq-fake`."""
    return os.environ.get("AIOROCKETMQ_FAKE_IMAGE", "aiorocketmq-fake")


@pytest.fixture(scope="session")
def rocketmq_container(rocketmq_image: str) -> Iterator[RocketMQContainer]:
    """A real server, started for the first test that asks for it and removed after the last."""
    yield from _running(lambda: RocketMQContainer(rocketmq_image))


@pytest.fixture(scope="session")
def fake_rocketmq_container(fake_rocketmq_image: str) -> Iterator[FakeRocketMQContainer]:
    """The fake in a container, for the whole run as well."""
    yield from _running(lambda: FakeRocketMQContainer(fake_rocketmq_image))


def _running(prepare: Callable[[], C]) -> Iterator[C]:
    try:
        container = prepare().start()
    except ContainerError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield container
    finally:
        container.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the server's output during the test to the report of a failed one."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name, value in item.funcargs.items():
            if isinstance(value, ServerContainer):
                log = value.log(since=datetime.fromtimestamp(call.start, UTC)).splitlines()
                report.sections.append((f"{name}: its last lines", "\n".join(log[-_LINES:])))
    return report
