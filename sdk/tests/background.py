"""Check of the tasks of clients."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_background_fault(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A task of a client that ends by an error of ours shows nowhere but in the log."""
    yield
    faults = [
        each
        for each in caplog.get_records("call")
        if each.name == "aiorocketmq.tasks" and each.levelno >= logging.ERROR
    ]
    assert faults == []
