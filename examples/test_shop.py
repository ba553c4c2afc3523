"""The test suite of an application: retries of hours, repetitions, outages and dead letters, in a second."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiorocketmq import Message, Producer
from aiorocketmq_fake import FakeBroker
from shop import BILLING, ORDERS, RECEIPTS, BankClosed, CardRefused, billing


class Bank:
    """A bank whose next answers a test decides."""

    def __init__(self) -> None:
        self.charged: list[tuple[str, int]] = []
        self.trouble: list[Exception] = []

    async def charge(self, customer: str, amount: int) -> None:
        if self.trouble:
            raise self.trouble.pop(0)
        self.charged.append((customer, amount))


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
async def broker(rocketmq: FakeBroker) -> FakeBroker:
    for topic in (ORDERS, RECEIPTS):
        await rocketmq.create_topic(topic)
    await rocketmq.create_group(BILLING, max_attempts=5)
    return rocketmq


@pytest.fixture
async def orders(broker: FakeBroker, bank: Bank) -> AsyncIterator[Producer]:
    """A producer of orders, while the application bills them."""
    async with Producer(broker.endpoint) as producer, billing(broker.endpoint, bank.charge, broker.clock):
        yield producer


def order(customer: str, amount: int) -> Message:
    return Message(ORDERS, b"%d" % amount, keys=[customer])


async def test_an_order_is_charged_and_answered(orders: Producer, bank: Bank, broker: FakeBroker) -> None:
    await orders.send(order("ann", 30))
    await broker.clock.advance(seconds=1)
    assert bank.charged == [("ann", 30)]
    assert [receipt.body for receipt in broker.messages(RECEIPTS)] == [b"paid 30"]


async def test_a_closed_bank_is_asked_again_when_it_opens(
    orders: Producer, bank: Bank, broker: FakeBroker
) -> None:
    bank.trouble = [BankClosed(again_after=2 * 3600)]
    await orders.send(order("ann", 30))
    await broker.clock.advance(minutes=119)
    assert bank.charged == []
    await broker.clock.advance(minutes=2)
    assert bank.charged == [("ann", 30)]


async def test_a_refused_card_is_asked_once(orders: Producer, bank: Bank, broker: FakeBroker) -> None:
    bank.trouble = [CardRefused("this card is blocked")]
    await orders.send(order("ann", 30))
    await broker.clock.advance(minutes=10)
    assert [letter.keys for letter in broker.dead_letters(BILLING)] == [("ann",)]
    assert bank.charged == []


async def test_a_bank_with_a_bug_gets_five_attempts(orders: Producer, bank: Bank, broker: FakeBroker) -> None:
    bank.trouble = [ZeroDivisionError() for _ in range(10)]
    await orders.send(order("ann", 30))
    await broker.clock.advance(minutes=10)
    assert [delivery.attempt for delivery in broker.deliveries(ORDERS)] == [1, 2, 3, 4, 5]
    assert len(broker.dead_letters(BILLING)) == 1


async def test_a_repeated_send_is_charged_once(orders: Producer, bank: Bank, broker: FakeBroker) -> None:
    with broker.faults.drop_reply("SendMessage", times=1):
        await orders.send(order("ann", 30))
    assert len(broker.messages(ORDERS)) == 2  # the client repeated the send, since it got no answer
    await broker.clock.advance(minutes=1)
    assert bank.charged == [("ann", 30)]


async def test_orders_are_billed_after_a_crash_of_the_broker(
    orders: Producer, bank: Bank, broker: FakeBroker
) -> None:
    await orders.send(order("ann", 30))
    await broker.crash()
    await broker.start()
    await orders.send(order("bob", 20))
    await broker.clock.advance(minutes=5, patience=20)
    assert sorted(bank.charged) == [("ann", 30), ("bob", 20)]
