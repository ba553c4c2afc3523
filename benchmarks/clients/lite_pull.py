"""Reads a topic from its begin with our client, as LitePull.java does with Apache's.

Arguments: name server, group, topic, number of messages, largest batch."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiorocketmq import Offset, PullConsumer


async def main(namesrv: str, group: str, topic: str, count: int, batch: int) -> None:
    """Read everything twice; the second time nothing has to start."""
    async with PullConsumer(f"namesrv://{namesrv}", group=group, max_messages=batch) as consumer:
        queues = await consumer.queues(topic)
        consumer.assign(queues)
        for _ in range(2):
            began, cpu, read = time.perf_counter(), time.process_time(), 0
            for queue in queues:
                await consumer.seek(queue, Offset.BEGIN)
            while read < count:
                messages = await consumer.poll(10.0)
                assert messages is not None
                for message in messages:
                    # What an application looks at, which Java's client reads in any case.
                    assert message.message_id
                    assert message.properties
                read += len(messages)
            spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
            print(json.dumps({"read": read, **spent}), flush=True)


_, NAMESRV, GROUP, TOPIC, COUNT, BATCH = sys.argv
asyncio.run(main(NAMESRV, GROUP, TOPIC, int(COUNT), int(BATCH)))
