from collections.abc import AsyncIterator

import pytest
from aiorocketmq_fake import FakeBroker


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing", max_attempts=3, backoff=(0.0,))
        yield broker
