"""A wire between client and broker that a test can disturb, below everything that the client knows of."""

from collections.abc import AsyncIterator

import pytest
from aiorocketmq_fake import FakeBroker

from tools.wire import ENHANCE_YOUR_CALM as ENHANCE_YOUR_CALM, NO_ERROR as NO_ERROR, Wire


@pytest.fixture
async def wire(broker: FakeBroker) -> AsyncIterator[Wire]:
    async with Wire(broker.endpoint) as wire:
        yield wire
