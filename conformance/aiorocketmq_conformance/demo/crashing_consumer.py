"""A consumer that receives messages and never acks them; the demonstration kills its process."""

from __future__ import annotations

import json
import sys

import anyio
from aiorocketmq import SimpleConsumer


async def hold(endpoint: str, topic: str, group: str, count: int) -> None:
    """Lease up to `count` messages for 30 s, print their ids as one line of JSON, and wait to be killed."""
    async with SimpleConsumer(endpoint, group=group, subscriptions=[topic]) as consumer:
        messages = await consumer.receive(max_messages=count, invisible=30, wait=5)
        print(json.dumps([message.message_id for message in messages]), flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(hold, sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
