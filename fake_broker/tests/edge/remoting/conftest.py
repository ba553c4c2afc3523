"""Fixtures: a fake that speaks the remoting protocol, and a bare client that decides nothing by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.node import Node
from aiorocketmq_fake.edge.remoting.frames import Frame, decode, encode

DEADLINE = 10.0
"""Seconds; no test waits so long."""


class Wire:
    """One connection: what is sent, and what comes back, sorted into answers and requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.version = 407
        """The version of the client that its requests name."""
        self.pushed: asyncio.Queue[Frame] = asyncio.Queue()
        """Requests of the server."""
        self.raw: list[bytes] = []
        """Every frame that came, as it came."""
        self.ended = asyncio.Event()
        self._answers: dict[int, asyncio.Future[Frame]] = {}
        self._opaque = 0

    async def listen(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self.reader.readexactly(4))
                self.raw.append(await self.reader.readexactly(size))
                frame = decode(self.raw[-1])
                if frame.is_response:
                    self._answers.pop(frame.opaque).set_result(frame)
                else:
                    self.pushed.put_nowait(frame)
        except (OSError, asyncio.IncompleteReadError):
            self.ended.set()
            self.writer.close()

    def send(self, code: int, body: object = b"", **fields: object) -> asyncio.Future[Frame]:
        """Send a request; returns its answer to come."""
        return self._write(code, body, 0, fields)

    def send_one_way(self, code: int, body: object = b"", **fields: object) -> asyncio.Future[Frame]:
        """Send a request that asks for no answer; returns the answer that comes if the server sends one."""
        return self._write(code, body, 2, fields)

    def _write(
        self, code: int, body: object, frame_flag: int, fields: Mapping[str, object]
    ) -> asyncio.Future[Frame]:
        self._opaque += 1
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        texts = {name: str(value) for name, value in fields.items()}
        frame = Frame(code, texts, content, self._opaque, frame_flag, language="PYTHON", version=self.version)
        self.writer.write(encode(frame))
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._answers[self._opaque] = answer
        return answer

    async def ask(self, code: int, body: object = b"", **fields: object) -> Frame:
        """Send a request, and return its answer."""
        return await asyncio.wait_for(self.send(code, body, **fields), DEADLINE)

    async def next_push(self) -> Frame:
        return await asyncio.wait_for(self.pushed.get(), DEADLINE)

    async def is_closed(self) -> bool:
        await asyncio.wait_for(self.ended.wait(), DEADLINE)
        return True

    # Requests in one word

    async def beat(self, client_id: str, group: str, *topics: str, **fields: Any) -> Frame:
        subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
        consumer = {
            "groupName": group,
            "subscriptionDataSet": subscriptions,
            "consumeType": "CONSUME_PASSIVELY",
        }
        body = {"clientID": client_id, "consumerDataSet": [{**consumer, **fields}], "producerDataSet": []}
        return await self.ask(34, body)

    async def produce(self, topic: str, body: bytes, properties: str = "", **fields: object) -> Frame:
        short = {"a": "pg", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0}
        return await self.ask(310, body, **{**short, "i": properties, **fields})

    def pull(self, topic: str, offset: int = 0, **fields: object) -> asyncio.Future[Frame]:
        usual = {"consumerGroup": "g", "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32}
        more = {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*"}
        return self.send(11, b"", **{**usual, **more, **fields})

    async def pulled(self, topic: str, offset: int = 0, **fields: object) -> Frame:
        return await asyncio.wait_for(self.pull(topic, offset, **fields), DEADLINE)


Connect = Callable[[], Awaitable[Wire]]


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    """A fake with topics `t` of one and `wide` of four queues."""
    async with FakeBroker(remoting_port=0) as fake:
        await fake.create_topic("t", queues=1)
        await fake.create_topic("wide", queues=4)
        yield fake


@asynccontextmanager
async def dial(node: FakeBroker | Node, address: str | None = None) -> AsyncIterator[Wire]:
    """Connect to a broker, at another address of this machine if one is given, until the block is left."""
    assert node.remoting_endpoint is not None
    host, _, port = node.remoting_endpoint.rpartition(":")
    wire = Wire(*await asyncio.open_connection(address or host, int(port)))
    listening = asyncio.create_task(wire.listen())
    try:
        yield wire
    finally:
        wire.writer.transport.abort()
        await listening


@pytest.fixture
async def connect(broker: FakeBroker) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:
        yield lambda: stack.enter_async_context(dial(broker))


@pytest.fixture
async def wire(connect: Connect) -> Wire:
    return await connect()
