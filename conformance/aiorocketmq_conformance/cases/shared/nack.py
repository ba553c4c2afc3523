"""Negative acknowledgements: make messages visible again, and assert when they are redelivered."""

from __future__ import annotations

from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.tolerances import PROMPT, nack_window


def retry_within(fixture: Fixture) -> float:
    """Return the seconds within which a message nacked with 0 s has to be redelivered."""
    return fixture.number("nack.high") + PROMPT


async def nack(consumer: Consumer, delivery: Delivery, seconds: float = 0.0) -> None:
    """Make a message visible again in `seconds`; AssertionError if the server refuses."""
    response = await consumer.client.change_invisible(delivery, seconds)
    assert code_of(response) == "OK", f"nack was answered with {code_of(response)}"


async def nack_and_wait(
    fixture: Fixture, consumer: Consumer, delivery: Delivery, seconds: float, *, ordered: bool = False
) -> tuple[Delivery, float]:
    """Nack a message for `seconds` and wait for it; return the redelivery and how long after the call it was.

    AssertionError if it is too early or too late, or another message is delivered (rule R6.10).
    """
    called = fixture.clock.now()
    await nack(consumer, delivery, seconds)
    answered = fixture.clock.now()
    window = nack_window(fixture.target, seconds, ordered=ordered)
    redelivery = await consumer.one(until=called + window.high + PROMPT, poll=20.0, invisible=60.0)
    assert redelivery.id == delivery.id, f"expected {delivery}, but {redelivery} was delivered"
    early, late = redelivery.at - called, redelivery.at - answered
    assert early >= window.low, f"nacked for {seconds:g} s, redelivered after {early:.3f} s"
    assert late <= window.high, f"nacked for {seconds:g} s, redelivered only after {late:.3f} s"
    return redelivery, early


async def exhaust(fixture: Fixture, consumer: Consumer, attempts: int) -> list[Delivery]:
    """Receive the one available message and nack it at once, `attempts` times; return its deliveries."""
    deliveries = []
    for _ in range(attempts):
        deliveries.append(await consumer.one(within=retry_within(fixture), poll=20.0))
        await nack(consumer, deliveries[-1])
    return deliveries
