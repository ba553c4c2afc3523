"""Groups whose messages become dead letters, and groups that read those."""

from __future__ import annotations

from aiorocketmq_conformance.cases.shared.nack import exhaust
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.tolerances import PROMPT


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters."""
    return f"%DLQ%{group}"


async def reading_group(fixture: Fixture) -> str:
    """Create a group that can read dead letters, before there are any: a group may start at the end of the topic.

    A dead letter has an attempt above its group's limit (R7.6), so the reading group's limit is higher.
    """
    return await fixture.group(max_attempts=60)


async def failing_consumer(fixture: Fixture, *, retries: int, ordered: bool = False) -> tuple[Consumer, str]:
    """Return a consumer of a fresh topic in a group with `retries`, and a group that can read its dead letters."""
    readers = await reading_group(fixture)
    topic = await fixture.topic(1, type="FIFO" if ordered else "NORMAL")
    return await fixture.consumer(topic, max_attempts=retries + 1, ordered=ordered), readers


async def dead_letter_reader(fixture: Fixture, failing: Consumer, readers: str) -> Consumer:
    """Return a reader of a group's dead letters, whose topic must exist: servers cache that it does not."""
    return await fixture.consumer(dead_letter_topic(failing.group), group=readers, prime=False)


async def forward(consumer: Consumer, delivery: Delivery) -> None:
    """Move a delivery to the dead letters of its group; AssertionError if the server refuses."""
    reply = await consumer.client.forward_to_dead_letters(delivery, 17)
    assert code_of(reply) == "OK", f"a forward was answered with {code_of(reply)}"


async def dead_letters(fixture: Fixture, failing: Consumer, readers: str, count: int = 1) -> list[Delivery]:
    """Wait for the move, then receive and ack `count` dead letters."""
    await failing.receive_for(fixture.number("nack.high") + SHORT_POLL)
    reader = await dead_letter_reader(fixture, failing, readers)
    return await reader.take(count, within=2 * PROMPT)


async def dead_letter(fixture: Fixture) -> Delivery:
    """Return the dead letter of a message that failed twice."""
    failing, readers = await failing_consumer(fixture, retries=1)
    await fixture.send(failing.topic, "m")
    await exhaust(fixture, failing, 2)
    (letter,) = await dead_letters(fixture, failing, readers)
    return letter
