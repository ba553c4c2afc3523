"""A parent topic with a bound group, and its lite consumers."""

from __future__ import annotations

from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.consumer import Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of

NEEDS = ("type.lite",)
ADD = pb.LiteSubscriptionAction.PARTIAL_ADD
REMOVE = pb.LiteSubscriptionAction.PARTIAL_REMOVE
REPLACE = pb.LiteSubscriptionAction.COMPLETE_ADD
FROM_BEGINNING = pb.OffsetOption(policy=pb.OffsetOption.MIN)
LEASE = 10.0


class LiteFixture:
    """A parent topic with one bound group."""

    def __init__(self, fixture: Fixture, topic: str, group: str) -> None:
        self.fixture = fixture
        self.topic = topic
        self.group = group

    async def consumer(self, *names: str, kind: int = pb.ClientType.LITE_PUSH_CONSUMER) -> Consumer:
        """Return another lite consumer of the group, subscribed to some names."""
        consumer = await self.fixture.consumer(self.topic, group=self.group, prime=False, kind=kind)
        if names:
            assert await self.sync(consumer, ADD, *names) == "OK"
        return consumer

    async def sync(
        self,
        consumer: Consumer,
        action: int,
        *names: str,
        start: pb.OffsetOption | None = None,
        version: int | None = None,
        **fields: Any,
    ) -> str:
        """Change a consumer's lite subscriptions; return the response's code."""
        request = pb.SyncLiteSubscriptionRequest(
            action=action,  # type: ignore[arg-type]  # wrong numbers allowed
            topic=requests.resource(fields.get("topic", self.topic)),
            group=requests.resource(fields.get("group", self.group)),
            lite_topic_set=names,
        )
        if start is not None:
            request.offset_option.CopyFrom(start)
        if version is not None:
            request.version = version
        reply = await consumer.client.unary("SyncLiteSubscription", request)
        return code_of(reply)

    async def send(self, name: str, *bodies: str) -> list[Sent]:
        """Send messages to one lite topic."""
        return [await self.fixture.send_message(self.message(name, body)) for body in bodies]

    def message(self, name: str, body: str) -> pb.Message:
        """Return a message to a lite topic."""
        message = self.fixture.message(self.topic, body, kind=pb.MessageType.LITE)
        message.system_properties.lite_topic = name
        return message

    async def deliveries_within(self, consumer: Consumer, seconds: float = 8.0) -> list[Any]:
        """Return what is delivered within `seconds`, closed by a message to a lite topic that is added for it."""
        deliveries = await consumer.receive_for(seconds, settle=True)
        assert await self.sync(consumer, ADD, "sentinel") == "OK"
        (sentinel,) = await self.send("sentinel", "sentinel")
        while True:
            (delivery,) = await consumer.take(1, batch=1)
            if delivery.id == sentinel.id:
                return deliveries
            deliveries.append(delivery)


async def open_lite(fixture: Fixture, *, quota: int = 0, exclusive: bool = False) -> LiteFixture:
    """Return a fresh parent topic and a fresh group that is bound to it."""
    topic = await fixture.topic(1, type="LITE")
    return LiteFixture(
        fixture, topic, await fixture.group(lite_topic=topic, lite_quota=quota, lite_exclusive=exclusive)
    )
