"""The floor: bare `grpc.aio` calls with our wire messages and no client on top."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import grpc
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from benchmarks.clients.measuring import Meter, Orders

POLL_SECONDS = 2


class Stub:
    """One channel and the calls that the work needs."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.channel = grpc.aio.insecure_channel(orders.endpoint)
        self.metadata = (
            ("x-mq-client-id", f"bench-{os.getpid()}-{orders.work}"),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.0.5"),
            ("x-mq-protocol", "v2"),
        )
        self.ids = 0
        self.send = self.call("SendMessage")
        self.receive = self.call("ReceiveMessage")
        self.ack = self.call("AckMessage")
        self.route = self.call("QueryRoute")
        self.group = pb.Resource(name=orders.group)
        self.topic = pb.Resource(name=orders.topic)

    def call(self, name: str) -> Any:
        """Make the multi-callable of one method."""
        method = METHODS[name]
        kind = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
        make = getattr(self.channel, kind[method.client_streaming, method.server_streaming])
        return make(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )

    async def queues(self) -> list[Any]:
        """Ask for the route."""
        route = await self.route(pb.QueryRouteRequest(topic=self.topic), metadata=self.metadata, timeout=5)
        assert route.status.code == pb.Code.OK, route.status
        return [queue for queue in route.message_queues if queue.permission != pb.Permission.WRITE]

    async def telemetry(self) -> Any:
        """Open the stream and exchange settings; the server refuses receives without them."""
        settings = pb.Settings(client_type=pb.ClientType.PUSH_CONSUMER)
        settings.subscription.group.CopyFrom(self.group)
        entry = settings.subscription.subscriptions.add(topic=self.topic)
        entry.expression.type, entry.expression.expression = pb.FilterType.TAG, "*"
        settings.user_agent.language = pb.Language.PYTHON
        stream = self.call("Telemetry")(metadata=self.metadata)
        await stream.write(pb.TelemetryCommand(settings=settings))
        answer = await stream.read()
        assert answer.WhichOneof("command") == "settings", answer
        return stream

    def message(self, body: bytes) -> Any:
        """Make a message, as simple as the protocol allows."""
        self.ids += 1
        message = pb.Message(topic=self.topic, body=body)
        properties = message.system_properties
        properties.message_id = f"01{os.getpid():012X}{self.ids:018X}"
        properties.message_type = pb.MessageType.NORMAL
        now = time.time_ns()
        properties.born_timestamp.seconds, properties.born_timestamp.nanos = now // 10**9, now % 10**9
        return message

    async def send_one(self, body: bytes) -> None:
        """Send one message."""
        await self.send_all([body])

    async def send_all(self, bodies: list[bytes]) -> None:
        """Send messages in one request."""
        request = pb.SendMessageRequest(messages=[self.message(body) for body in bodies])
        answer = await self.send(request, metadata=self.metadata, timeout=10)
        assert answer.status.code == pb.Code.OK, answer.status

    async def receive_some(self, queue: Any, limit: int) -> list[Any]:
        """Receive up to `limit` messages."""
        request = pb.ReceiveMessageRequest(group=self.group, message_queue=queue, batch_size=limit)
        request.filter_expression.type, request.filter_expression.expression = pb.FilterType.TAG, "*"
        request.invisible_duration.seconds = 60
        request.long_polling_timeout.seconds = POLL_SECONDS
        stream = self.receive(request, metadata=self.metadata, timeout=POLL_SECONDS + 10)
        return [part.message async for part in stream if part.WhichOneof("content") == "message"]

    async def ack_all(self, messages: list[Any]) -> None:
        """Acknowledge a receive with one call."""
        request = pb.AckMessageRequest(group=self.group, topic=self.topic)
        for message in messages:
            properties = message.system_properties
            request.entries.add(message_id=properties.message_id, receipt_handle=properties.receipt_handle)
        answer = await self.ack(request, metadata=self.metadata, timeout=10)
        assert answer.status.code in (pb.Code.OK, pb.Code.MULTIPLE_RESULTS), answer.status


async def send(stub: Stub, meter: Meter) -> None:
    """Send with `in_flight` calls at a time."""
    body = stub.orders.body

    async def sender() -> None:
        while not meter.over:
            began = time.perf_counter()
            await stub.send_one(body)
            meter.count(1, time.perf_counter() - began)

    await asyncio.gather(*(sender() for _ in range(stub.orders.in_flight)))


async def batches(stub: Stub, meter: Meter) -> None:
    """Send requests of `batch` messages, so many at a time that `in_flight` messages are under way."""
    bodies = [stub.orders.body] * stub.orders.batch

    async def sender() -> None:
        while not meter.over:
            began = time.perf_counter()
            await stub.send_all(bodies)
            meter.count(len(bodies), time.perf_counter() - began)

    await asyncio.gather(*(sender() for _ in range(stub.orders.in_flight // stub.orders.batch)))


async def consume(stub: Stub, meter: Meter) -> None:
    """Receive and acknowledge; all queues are read, `in_flight` receives at a time."""
    queues = await stub.queues()
    stream = await stub.telemetry()

    async def reader(number: int) -> None:
        while not meter.over:
            number += 1
            began = time.perf_counter()
            messages = await stub.receive_some(queues[number % len(queues)], stub.orders.batch)
            took = time.perf_counter() - began
            if messages:
                await stub.ack_all(messages)
            meter.count(len(messages), took)

    await asyncio.gather(*(reader(number) for number in range(stub.orders.in_flight)))
    stream.cancel()


async def end_to_end(stub: Stub, meter: Meter) -> None:
    """Send at a fixed rate and receive in the same process; the latency is from send to handler."""
    queues = await stub.queues()
    stream = await stub.telemetry()

    async def reader(queue: Any) -> None:
        while not meter.over:
            for message in await stub.receive_some(queue, stub.orders.batch):
                meter.count(1, (time.perf_counter_ns() - int(message.body[:20])) / 1e9)
                await stub.ack_all([message])

    readers = [asyncio.create_task(reader(queue)) for queue in queues]
    following = time.perf_counter()
    while not meter.over:
        following += 1 / stub.orders.rate
        await asyncio.sleep(max(0.0, following - time.perf_counter()))
        await stub.send_one(b"%020d" % time.perf_counter_ns())
    await asyncio.gather(*readers)
    stream.cancel()


async def main() -> None:
    """Do what the orders say and report."""
    orders = Orders.from_arguments()
    stub = Stub(orders)
    meter = Meter(orders)
    works = {
        "send": send,
        "linger": batches,
        "many": batches,
        "simple": consume,
        "push": consume,
        "end_to_end": end_to_end,
    }
    await works[orders.work](stub, meter)
    meter.report()
    await stub.channel.close()


if __name__ == "__main__":
    asyncio.run(main())
