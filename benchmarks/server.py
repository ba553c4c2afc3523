"""The fake broker in a process of its own, prepared by one JSON argument: topics, groups and messages to hold.

Prints its endpoint when it is ready and ends when standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys

import grpc
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.collector import spare_the_log

LOADED_AT_ONCE = 32


async def load(endpoint: str, topic: str, count: int, body: bytes) -> None:
    """Put messages into a topic, many a call."""
    method = METHODS["SendMessage"]
    async with grpc.aio.insecure_channel(endpoint) as channel:
        send = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )
        for first in range(0, count, LOADED_AT_ONCE):
            request = pb.SendMessageRequest()
            for number in range(first, min(count, first + LOADED_AT_ONCE)):
                message = request.messages.add(topic=pb.Resource(name=topic), body=body)
                message.system_properties.message_id = f"01{number:032X}"
                message.system_properties.message_type = pb.MessageType.NORMAL
                message.system_properties.born_timestamp.GetCurrentTime()
            answer = await send(request, metadata=(("x-mq-client-id", "loader"),), timeout=60)
            if answer.status.code != pb.Code.OK:
                raise RuntimeError(f"the server refused a load: {answer.status}")


async def main() -> None:
    """Serve what the orders say."""
    orders = json.loads(sys.argv[1])
    async with FakeBroker(
        profile=orders["profile"], remoting_port=0 if orders["is_remoting"] else None
    ) as broker:
        for topic in orders["topics"]:
            await broker.create_topic(topic, queues=orders["queues"])
        for group in orders["groups"]:
            await broker.create_group(group)
        for topic, count in orders["load"].items():
            await load(broker.endpoint, topic, count, bytes(orders["body_bytes"]))
        spare_the_log()
        print(broker.remoting_endpoint or broker.endpoint, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
