from collections.abc import AsyncIterator

import pytest
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker

from sdk.tests.background import no_background_fault as no_background_fault


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
