"""One group, read queue by queue and delivered message by message: the members that own queues refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import PullConsumer, PushConsumer, SimpleConsumer
from aiorocketmq.errors import UsageError
from aiorocketmq.message import ReceivedMessage

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ("apache-5.5",)


async def handle(message: ReceivedMessage) -> None:
    """Nothing is sent here."""


@pytest.mark.parametrize("kind", ["simple", "push"])
async def test_a_group_with_grpc_members_is_refused(place: Place, kind: str) -> None:
    topic, group = await place.topic(), await place.group()
    other: SimpleConsumer | PushConsumer
    if kind == "simple":
        other = SimpleConsumer(place.endpoint, group=group, subscriptions=[topic])
    else:
        other = PushConsumer(place.endpoint, group=group, subscriptions=[topic], handler=handle)
    async with other:
        with pytest.raises(UsageError, match=r"has members that receive messages over gRPC"):
            async with PullConsumer(place.namesrv, group=group, topics=[topic]):
                pass
        with pytest.raises(UsageError, match=r"has members that receive messages over gRPC"):
            async with PushConsumer(place.namesrv, group=group, subscriptions=[topic], handler=handle):
                pass
        async with PullConsumer(place.namesrv, group=group, topics=[topic], allow_pop_members=True):
            pass


async def test_a_grpc_member_that_joins_later_ends_those_that_own_queues(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    endpoint = place.endpoint
    async with PullConsumer(place.namesrv, group=group, topics=[topic]) as reader:
        assert await reader.poll(2.0) is None
        assert reader.assigned
        async with SimpleConsumer(endpoint, group=group, subscriptions=[topic]):
            with pytest.raises(UsageError, match=r"has members that receive messages over gRPC"):
                await reader.poll(25.0)
