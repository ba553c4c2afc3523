"""A member of a group in a process of its own: reads, commits and records until its standard input ends.

Its argument is a JSON object; it prints `queues NUMBER` when it is given queues and `read BODY` for each message."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from aiorocketmq import PullConsumer, PushConsumer, ReceivedMessage, Recorder, Timeouts
from aiorocketmq.hooks import AssignEvent, Event, Hook

say = partial(print, flush=True)


class Assignments(Hook):
    """Prints how many queues of the topic the member has; a push consumer has its group's retry topic, too."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def observe(self, event: Event) -> None:
        if isinstance(event, AssignEvent):
            say("queues", sum(queue.topic == self._topic for queue in event.queues))


async def main(options: dict[str, Any]) -> None:
    """Read as the kind of consumer that is wanted."""
    recorder = Recorder(options["folder"], run_id="run", seconds_per_file=0.5)
    common: dict[str, Any] = {
        "group": options["group"],
        "hooks": [Assignments(options["topic"]), recorder],
        "address_map": options["address_map"],
        "timeouts": Timeouts(request=2.0),
    }
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        stack.enter_context(recorder)
        if options["kind"] == "pull":
            puller = PullConsumer(
                options["namesrv"], topics=[options["topic"]], auto_commit=0.2, wait=5.0, **common
            )
            reading = loop.create_task(read(await stack.enter_async_context(puller)))
        else:
            pusher = PushConsumer(
                options["namesrv"], subscriptions=[options["topic"]], handler=handle, **common
            )
            reading = loop.create_task((await stack.enter_async_context(pusher)).run())
        await loop.run_in_executor(None, sys.stdin.read)
        reading.cancel()
        await asyncio.wait([reading])


async def read(consumer: PullConsumer) -> None:
    async for batch in consumer:
        for message in batch:
            await handle(message)


async def handle(message: ReceivedMessage) -> None:
    """Say that it was read."""
    say("read", message.body.decode())


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
