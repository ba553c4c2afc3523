"""Count the client's files that run for one message, from `send` to its handler: `python -m tools.message_path`."""

import asyncio
import sys
from pathlib import Path
from types import FrameType

import aiorocketmq
from aiorocketmq import Message, Producer, PushConsumer, ReceivedMessage
from aiorocketmq_fake import FakeBroker

ROOT = Path(aiorocketmq.__file__).parent


async def files_of_one_message() -> list[str]:
    """Send two messages, and return the files with a function that was called for the second one."""
    files: set[str] = set()
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename)

    async def handle(message: ReceivedMessage) -> None:
        await handled.put(message.body)

    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        consumer = PushConsumer(broker.endpoint, group="billing", subscriptions=["orders"], handler=handle)
        async with Producer(broker.endpoint, topics=["orders"]) as producer, consumer:
            for tracing in (None, trace):
                sys.settrace(tracing)
                await producer.send(Message("orders", b"1"))
                await handled.get()
            sys.settrace(None)
    return sorted(str(Path(file).relative_to(ROOT)) for file in files if file.startswith(f"{ROOT}/"))


if __name__ == "__main__":
    print("\n".join([*(names := asyncio.run(files_of_one_message())), f"{len(names)} files"]))
