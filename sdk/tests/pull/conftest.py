import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A fake broker that serves pull calls, with a topic of two queues."""
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=2)
        await broker.create_group("audit")
        yield broker


@pytest.fixture
async def producer(broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(broker.endpoint) as producer:
        yield producer


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
