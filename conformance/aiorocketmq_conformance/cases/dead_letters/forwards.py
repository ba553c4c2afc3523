"""Messages that their consumer forwards to the dead letters; inventory 4.12."""

from __future__ import annotations

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.dead_letters.delivery import LIMITED
from aiorocketmq_conformance.cases.shared.dead_letters import (
    dead_letter_reader,
    dead_letter_topic,
    failing_consumer,
)
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window, wake_window


async def _forward(consumer: Consumer, delivery: Delivery, *, handle: str | None = None) -> str:
    reply = await consumer.client.forward_to_dead_letters(delivery, 17, handle=handle)
    return code_of(reply)


@case("dlq.forward-rpc", rules=("R6.17", "R6.18"), needs=LIMITED, timeout=150.0)
async def forward_rpc(fixture: Fixture) -> None:
    """A forwarded message becomes a dead letter at once and is never redelivered."""
    consumer, readers = await failing_consumer(fixture, retries=16)
    (sent,) = await fixture.send(consumer.topic, "poison")
    leased = await consumer.one(invisible=10.0)
    assert await _forward(consumer, leased) == "OK"
    reader = await dead_letter_reader(fixture, consumer, readers)
    dead = await reader.one(within=2 * PROMPT)
    await reader.ack(dead)
    assert (dead.id, dead.body) == (sent.id, b"poison")
    await fixture.expect_settled(consumer, 10.0, "forwarded")


@case("dlq.forward-bad-handle", rules=("R6.17", "R6.2"), level=SHOULD, needs=LIMITED, timeout=90.0)
async def forward_bad_handle(fixture: Fixture) -> None:
    """A forward with a malformed handle is refused, and moves nothing."""
    consumer, _ = await failing_consumer(fixture, retries=16)
    await fixture.send(consumer.topic, "m")
    leased = await consumer.one(invisible=60.0)
    answers = {handle: await _forward(consumer, leased, handle=handle) for handle in ("no handle", "1 2 3")}
    assert "OK" not in answers.values(), f"answered with {answers}"
    route = await consumer.client.query_route(dead_letter_topic(consumer.group))
    assert code_of(route) == "TOPIC_NOT_FOUND", "a refused forward created a dead-letter topic"
    await consumer.ack(leased)


@case("dlq.forward-twice", rules=("R6.17",), level=SHOULD, needs=LIMITED, timeout=120.0)
async def forward_twice(fixture: Fixture) -> None:
    """Forwarding the same delivery twice creates one dead letter."""
    consumer, readers = await failing_consumer(fixture, retries=16)
    (sent,) = await fixture.send(consumer.topic, "poison")
    leased = await consumer.one(invisible=60.0)
    assert await _forward(consumer, leased) == "OK"
    fixture.note("second", await _forward(consumer, leased))
    reader = await dead_letter_reader(fixture, consumer, readers)
    dead = await reader.take(1, within=2 * PROMPT)
    dead += await reader.receive_for(SHORT_POLL, settle=True)
    assert [one.id for one in dead] == [sent.id], f"forwarded twice: {dead}"


@case("dlq.forward-then-ack", rules=("R6.17", "R6.3"), level=SHOULD, needs=LIMITED, timeout=90.0)
async def forward_then_ack(fixture: Fixture) -> None:
    """An ack after the forward is OK or INVALID_RECEIPT_HANDLE, and does not undo it."""
    consumer, readers = await failing_consumer(fixture, retries=16)
    (sent,) = await fixture.send(consumer.topic, "poison")
    leased = await consumer.one(invisible=60.0)
    assert await _forward(consumer, leased) == "OK"
    response = await consumer.client.ack(consumer.topic, consumer.group, leased)
    code = code_of(response.entries[0])
    fixture.note("ack", code)
    assert code in {"OK", "INVALID_RECEIPT_HANDLE"}, f"ack was answered with {code}"
    reader = await dead_letter_reader(fixture, consumer, readers)
    (dead,) = await reader.take(1, within=2 * PROMPT)
    assert dead.id == sent.id


@case("dlq.fifo-continues", rules=("R8.19",), needs=(*LIMITED, "type.fifo"), timeout=120.0)
async def fifo_continues(fixture: Fixture) -> None:
    """When the head of a message group is forwarded to the dead letters, a waiting poll gets the next one at once."""
    consumer, readers = await failing_consumer(fixture, retries=16, ordered=True)
    sent = await fixture.send(consumer.topic, "head", "next", group=fixture.fresh("mg"))
    head = await consumer.one(invisible=60.0)
    forwarded = fixture.clock.now()
    assert await _forward(consumer, head) == "OK"
    following = await consumer.one(poll=20.0)
    assert following.id == sent[1].id, f"after the head {following} was delivered"
    wake_window(fixture.target).check(following.at - forwarded, "the next message was delivered")
    await consumer.ack(following)
    reader = await dead_letter_reader(fixture, consumer, readers)
    (dead,) = await reader.take(1, within=2 * PROMPT)
    assert dead.id == sent[0].id


@case(
    "dlq.fifo-exhausted-wakes",
    rules=("R8.19", "R5.20"),
    level=SHOULD,
    needs=(*LIMITED, "type.fifo"),
    timeout=120.0,
)
async def fifo_exhausted_wakes(fixture: Fixture) -> None:
    """When the head of a message group is given up as its last lease ends, a poll that waits gets the next one."""
    consumer, _ = await failing_consumer(fixture, retries=0, ordered=True)
    sent = await fixture.send(consumer.topic, "head", "next", group=fixture.fresh("mg"))
    head = await consumer.one(invisible=10.0)
    assert head.id == sent[0].id
    window = expiry_window(fixture.target, 10.0, ordered=True)
    # A server that gives up what a poll has found may end the poll.
    following = await consumer.one(poll=20.0, within=window.high + PROMPT)
    assert following.id == sent[1].id, f"after the head {following} was delivered"
    window.check(following.at - head.at, "the next message was delivered")
    await consumer.ack(following)
