"""Giving messages back, and holding their return against what was asked: what retry, timing and dead letters share."""

from __future__ import annotations

from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.tolerances import PROMPT, nack


def retry_within(fixture: Fixture) -> float:
    """Seconds in which a message that was given back at once has to be here again."""
    return fixture.number("nack.high") + PROMPT


async def give_back(consumer: Consumer, delivery: Delivery, seconds: float = 0.0) -> None:
    """Ask for the message again in `seconds`; AssertionError when the server refuses."""
    response = await consumer.client.change_invisible(delivery, seconds)
    assert code_of(response) == "OK", f"nack answered {code_of(response)}"


async def returned(
    fixture: Fixture, consumer: Consumer, delivery: Delivery, seconds: float, *, ordered: bool = False
) -> tuple[Delivery, float]:
    """Give a message back for `seconds` and wait for it; the next delivery and how long after the call it came.

    AssertionError when it comes too early or too late, or something else comes (rule R6.10).
    """
    called = fixture.clock.now()
    await give_back(consumer, delivery, seconds)
    answered = fixture.clock.now()
    window = nack(fixture.target, seconds, ordered=ordered)
    again = await consumer.one(until=called + window.high + PROMPT, poll=20.0, invisible=60.0)
    assert again.id == delivery.id, f"waiting for {delivery}, and {again} came"
    early, late = again.at - called, again.at - answered
    assert early >= window.low, f"asked for {seconds:g} s, redelivered after {early:.3f} s"
    assert late <= window.high, f"asked for {seconds:g} s, redelivered only after {late:.3f} s"
    return again, early


async def exhaust(fixture: Fixture, consumer: Consumer, attempts: int) -> list[Delivery]:
    """Take the one waiting message and give it back at once, `attempts` times; its deliveries."""
    seen = []
    for _ in range(attempts):
        seen.append(await consumer.one(within=retry_within(fixture), poll=20.0))
        await give_back(consumer, seen[-1])
    return seen
