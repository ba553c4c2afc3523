"""A small application, made to be tested: it bills orders, and survives what goes wrong around it.

What makes it easy to test: endpoint, clock and the outside world (`charge`) are arguments.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiorocketmq import (
    Clock,
    Connection,
    DeadLetter,
    DeduplicationHook,
    MemoryStore,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
)

ORDERS, RECEIPTS, BILLING = "orders", "receipts", "billing"


class CardRefused(Exception):
    """The bank refuses this card for good."""


class BankClosed(Exception):
    """The bank cannot be reached, and names the seconds after which to ask again."""

    def __init__(self, again_after: float) -> None:
        super().__init__(f"ask again in {again_after:g} s")
        self.again_after = again_after


Charge = Callable[[str, int], Awaitable[None]]
"""Charges a customer's card with an amount."""


@asynccontextmanager
async def billing(endpoint: str, charge: Charge, clock: Clock | None = None) -> AsyncGenerator[PushConsumer]:
    """Bill every order once, and send a receipt for it."""
    async with Connection(endpoint, clock=clock) as connection, Producer(connection) as producer:

        async def bill(message: ReceivedMessage) -> None:
            customer, amount = message.keys[0], int(message.body)
            try:
                await charge(customer, amount)
            except CardRefused as error:
                raise DeadLetter(str(error)) from error
            except BankClosed as error:
                raise RetryLater(error.again_after) from error
            await producer.send(Message(RECEIPTS, b"paid %d" % amount, keys=[customer]))

        async with PushConsumer(
            connection,
            group=BILLING,
            subscriptions=[ORDERS],
            handler=bill,
            hooks=[DeduplicationHook(MemoryStore())],
        ) as consumer:
            yield consumer
