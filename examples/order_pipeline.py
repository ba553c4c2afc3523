"""An ordered pipeline that loses nothing: a database, a transaction, ordered steps, dead letters and their return.

    python order_pipeline.py          # runs once against a fake broker

1. `accept` writes an order into a database and sends it in a transaction: both happen, or neither does.
2. The group `planning` makes steps of each order; those of one customer are a message group, and stay in order.
3. The ordered group `warehouse` does the steps; one that keeps failing becomes a dead letter, and the next one runs.
4. `redrive` sends dead letters back to where they came from, when their cause is mended (`aiorocketmq group redrive`).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from aiorocketmq import (
    Admin,
    Connection,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Resolution,
)
from aiorocketmq_fake import FakeBroker

ORDERS, STEPS = "orders", "steps"
PLANNING, WAREHOUSE = "planning", "warehouse"


@dataclass(frozen=True)
class Order:
    """What is in the database and in the messages of the topic `orders`."""

    id: str
    customer: str
    article: str


@dataclass(frozen=True)
class Step:
    """Something to do for a customer's order, a message of the topic `steps`."""

    order: str
    customer: str
    article: str
    work: str


class Ledger:
    """Orders in a database; what is in it was accepted."""

    def __init__(self, path: str = ":memory:") -> None:
        self._database = sqlite3.connect(path)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT, article TEXT)"
        )

    def add(self, order: Order) -> None:
        """Write an order; IntegrityError if there is one with this id."""
        with self._database:
            self._database.execute(
                "INSERT INTO orders VALUES (?, ?, ?)", (order.id, order.customer, order.article)
            )

    def has(self, order: str) -> bool:
        """Tell whether an order was accepted."""
        return self._database.execute("SELECT 1 FROM orders WHERE id = ?", (order,)).fetchone() is not None


class Pipeline:
    """All stages in one process; in a company, each is a program of its own."""

    def __init__(self, connection: Connection, ledger: Ledger, do: Callable[[Step], None]) -> None:
        self._ledger = ledger
        self._do = do
        # Of two kinds, since a transaction has no message group: messages of one are not ordered.
        self._orders = Producer(connection, topics=[ORDERS], transaction_checker=self._was_accepted)
        self._steps = Producer(connection, topics=[STEPS])
        self._planning = PushConsumer(connection, group=PLANNING, subscriptions=[ORDERS], handler=self._plan)
        self._warehouse = PushConsumer(connection, group=WAREHOUSE, subscriptions=[STEPS], handler=self._work)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Run all stages in this block."""
        async with self._orders, self._steps, self._planning, self._warehouse:
            yield

    async def accept(self, order: Order) -> None:
        """Write an order and send it: if the database refuses it, no consumer receives it."""
        message = Message(ORDERS, json.dumps(asdict(order)).encode(), keys=[order.id])
        async with self._orders.transaction(message):
            self._ledger.add(order)

    async def _was_accepted(self, message: ReceivedMessage) -> Resolution:
        """Answer the server after a crash between the database's commit and the transaction's."""
        return Resolution.COMMIT if self._ledger.has(message.keys[0]) else Resolution.ROLLBACK

    async def _plan(self, message: ReceivedMessage) -> None:
        order = Order(**json.loads(message.body))
        for work in ("pick", "pack", "ship"):
            step = Step(order.id, order.customer, order.article, work)
            body = json.dumps(asdict(step)).encode()
            await self._steps.send(Message(STEPS, body, message_group=order.customer, keys=[order.id]))

    async def _work(self, message: ReceivedMessage) -> None:
        self._do(Step(**json.loads(message.body)))


async def redrive(namesrv: str) -> int:
    """Send the dead letters of the warehouse back to their topic, behind its other messages; return their number."""
    async with Admin(namesrv) as admin:
        return (await admin.redrive(WAREHOUSE)).total


async def prepare(broker: FakeBroker) -> None:
    """Create topics and groups, as an operator does on a real server (`aiorocketmq topic create` …)."""
    await broker.create_topic(ORDERS, type="TRANSACTION")
    await broker.create_topic(STEPS, type="FIFO")
    await broker.create_group(PLANNING)
    await broker.create_group(WAREHOUSE, ordered=True, max_attempts=3)


async def main() -> None:
    """Run the pipeline for two orders."""
    done: asyncio.Queue[Step] = asyncio.Queue()
    async with FakeBroker() as broker:
        await prepare(broker)
        async with Connection(broker.endpoint) as connection:
            pipeline = Pipeline(connection, Ledger(), done.put_nowait)
            async with pipeline.run():
                await pipeline.accept(Order("1", "ann", "shoes"))
                await pipeline.accept(Order("2", "bob", "hat"))
                for _ in range(6):
                    print(await done.get())


if __name__ == "__main__":
    asyncio.run(main())
