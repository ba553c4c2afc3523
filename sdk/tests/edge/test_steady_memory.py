"""A producer that works for long holds no more than one that has just begun."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution

ROUND = 500
SLACK = 400
"""Objects that a process may have more of for other reasons: less than one for each message of the rounds between."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A fake in a process of its own, so that what it stores is not counted here."""
    topics = ("orders", "fifo:FIFO", "payments:TRANSACTION")
    program = [sys.executable, "-c", "from aiorocketmq.cli import main; main()"]
    ports = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    words = ["fake", "serve", *ports, *(f"--topic={topic}" for topic in topics)]
    server = subprocess.Popen([*program, *words], stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        try:
            ready = server.stdout.readline()
            yield next(word.removeprefix("grpc=") for word in ready.split() if word.startswith("grpc="))
        finally:
            server.terminate()


async def roll_back(message: ReceivedMessage) -> Resolution:
    return Resolution.ROLLBACK


async def work(single: Producer, lingering: Producer) -> None:
    """Every way to send, and errors as well."""
    for _ in range(ROUND // 50):
        await asyncio.gather(*(single.send(Message("orders", b"x", keys=["k"])) for _ in range(10)))
        await asyncio.gather(*(lingering.send(Message("orders", b"x")) for _ in range(10)))
        await lingering.send_many([Message("orders", b"x") for _ in range(10)])
        await asyncio.gather(*(single.send(Message("fifo", b"x", message_group=f"g{n}")) for n in range(5)))
        for _ in range(5):
            async with single.transaction(Message("payments", b"x")):
                pass
        refused = [lingering.send(Message("orders", b"x", properties={"MSG_REGION": "x"})) for _ in range(5)]
        outcomes = await asyncio.gather(*refused, return_exceptions=True)
        assert all(isinstance(outcome, Exception) for outcome in outcomes)
        sends = [asyncio.create_task(lingering.send(Message("orders", b"x"))) for _ in range(5)]
        await asyncio.sleep(0)
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


async def test_what_a_producer_holds_does_not_grow_with_what_it_sends(endpoint: str) -> None:
    async with (
        Producer(endpoint, transaction_checker=roll_back, topics=["orders", "fifo", "payments"]) as single,
        Producer(endpoint, linger=0.001, topics=["orders"]) as lingering,
    ):
        # Decisions about transactions are kept up to a bound; the warm-up need not fill it.
        single._transactions._decisions._kept = 10
        await work(single, lingering)
        before, tasks = objects(), len(asyncio.all_tasks())
        for _ in range(4):
            await work(single, lingering)
        assert objects() - before < SLACK
        assert len(asyncio.all_tasks()) <= tasks
