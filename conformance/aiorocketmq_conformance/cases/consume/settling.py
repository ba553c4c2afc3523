"""Settling what was received: acks, changes of the lease, handles: inventory 4.8, second half."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.fixture import LEASE, SHORT_POLL, Consumer, Stage, on_stage
from aiorocketmq_conformance.probe.answers import Delivery, code_name
from aiorocketmq_conformance.tolerances import PROMPT, nack

PREPARED = ("@topic", "@group")


def _names(response: pb.AckMessageResponse) -> list[str]:
    return [code_name(entry.status.code) for entry in response.entries]


@case("simple.ack-late", rules=("R6.2", "R6.5"), needs=PREPARED, timeout=90.0)
@on_stage
async def ack_late(stage: Stage) -> None:
    """An ack after the lease is refused with INVALID_RECEIPT_HANDLE; the message comes back and can be acked."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await stage.clock.sleep(first.at + 10.3 - stage.clock.now())
    response = await consumer.client.ack(topic, consumer.group, first)
    assert _names(response) == ["INVALID_RECEIPT_HANDLE"]
    assert code_name(response.status.code) == "INVALID_RECEIPT_HANDLE"
    second = await consumer.one(within=20.0, poll=20.0, invisible=10.0)
    assert (second.id, second.attempt) == (first.id, 2)
    await consumer.ack(second)
    again = await stage.nothing_but(consumer, 10.0 + stage.target.number("revive.high"))
    assert not again, f"acked with its new handle, and delivered again: {again}"


@case("simple.ack-batch", rules=("R6.5", "R6.6"), needs=PREPARED, timeout=90.0)
@on_stage
async def ack_batch(stage: Stage) -> None:
    """One ack request settles ten messages; its ten entries are OK, in request order, with the ids of the request."""
    topic = await stage.topic(2)
    consumer = await stage.consumer(topic)
    await stage.send(topic, *(f"m{n}" for n in range(10)))
    seen = await consumer.take(10, invisible=10.0, settle=False)
    response = await consumer.client.ack(topic, consumer.group, *seen)
    assert code_name(response.status.code) == "OK"
    assert _names(response) == ["OK"] * 10
    assert [entry.message_id for entry in response.entries] == [one.id for one in seen]
    assert [entry.receipt_handle for entry in response.entries] == [one.handle for one in seen]
    again = await stage.nothing_but(consumer, 10.0 + stage.target.number("revive.high"))
    assert not again, f"acked in a batch, and delivered again: {again}"


@case("simple.ack-mixed", rules=("R6.5", "R6.6"), needs=PREPARED, timeout=90.0)
@on_stage
async def ack_mixed(stage: Stage) -> None:
    """An ack of one expired and one valid handle answers MULTIPLE_RESULTS, and settles the valid one."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    (stale,) = await stage.send(topic, "stale")
    expired = await consumer.one(invisible=10.0)
    await stage.clock.sleep(expired.at + 10.3 - stage.clock.now())
    (valid_sent,) = await stage.send(topic, "valid")
    valid = await consumer.find(valid_sent, settle_others=False, invisible=10.0)
    response = await consumer.client.ack(topic, consumer.group, expired, valid)
    assert code_name(response.status.code) == "MULTIPLE_RESULTS"
    assert _names(response) == ["INVALID_RECEIPT_HANDLE", "OK"]
    again = await stage.nothing_but(consumer, 10.0 + stage.target.number("revive.high"))
    assert {one.id for one in again} <= {stale.id}, (
        f"acked beside an expired handle, delivered again: {again}"
    )


@case(
    "simple.ack-garbage",
    rules=("R6.2",),
    needs=PREPARED,
    params={"text": "no handle", "empty": "", "numbers": "1 2 3"},
)
@on_stage
async def ack_garbage(stage: Stage, handle: str) -> None:
    """An ack with a handle that no server made ({}) is refused and settles nothing."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    response = await consumer.client.ack(topic, consumer.group, (held.id, handle))
    assert "OK" not in _names(response)
    assert code_name(response.status.code) != "OK"
    await _comes_back(stage, consumer, held)


@case("simple.ack-wrong-group", rules=("R6.3",), needs=PREPARED, timeout=90.0)
@on_stage
async def ack_wrong_group(stage: Stage) -> None:
    """An ack in the name of another group, whatever its answer, settles nothing for the group that holds it."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    other = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    response = await other.client.ack(topic, other.group, held)
    stage.target.note("answer", code_name(response.status.code))
    await _comes_back(stage, consumer, held)
    assert [one.id for one in await other.take(1)] == [held.id], "lost for the group that named itself"


@case("simple.ack-wrong-topic", rules=("R6.5",), needs=PREPARED, timeout=90.0)
@on_stage
async def ack_wrong_topic(stage: Stage) -> None:
    """An ack that names another topic settles nothing."""
    topic, other = await stage.topic(1), await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    response = await consumer.client.ack(other, consumer.group, held)
    stage.target.note("answer", code_name(response.status.code))
    await _comes_back(stage, consumer, held)


async def _comes_back(stage: Stage, consumer: Consumer, held: Delivery) -> None:
    again = await consumer.one(until=held.at + 10.0 + stage.target.number("revive.high"), poll=SHORT_POLL)
    assert (again.id, again.attempt) == (held.id, 2)
    await consumer.ack(again)


@case("simple.nack-subset", rules=("R5.12", "R7.2"), needs=PREPARED, timeout=120.0)
@on_stage
async def nack_subset(stage: Stage) -> None:
    """Of each batch the acked messages never return, and the one that was left returns as attempt 2."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    sent = await stage.send(topic, *(f"m{n}" for n in range(20)))
    acked: set[str] = set()
    left: set[str] = set()
    end = stage.clock.now() + 10.0 + stage.target.number("revive.high") + 2 * PROMPT
    while len(acked) < 20 and stage.clock.now() < end:
        answer = await consumer.receive(batch=50 if not left else 7, invisible=10.0)
        fresh = [one for one in answer.deliveries if one.attempt == 1]
        for one in answer.deliveries:
            assert one.id not in acked, f"acked, and delivered again: {one}"
            assert one.attempt == (2 if one.id in left else 1), f"left once, and delivered as {one}"
        done = [one for one in answer.deliveries if one not in fresh[:1]]
        left |= {one.id for one in fresh[:1]}
        await consumer.ack(*done)
        acked |= {one.id for one in done}
    assert acked == {one.id for one in sent}, f"{20 - len(acked)} of 20 never came back"
    again = await stage.nothing_but(consumer, 10.0 + stage.target.number("revive.high"))
    assert not again, f"all acked, and delivered again: {again}"


@case("simple.change-extend", rules=("R6.10",), needs=PREPARED, timeout=90.0)
@on_stage
async def change_extend(stage: Stage) -> None:
    """A lease of 10 s changed to 20 s after 2 s ends 20 s after that call, not before, with attempt 2."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await stage.clock.sleep(2.0)
    await _changed_to(stage, consumer, first, 20.0)


@case("simple.change-shorten", rules=("R6.10",), needs=PREPARED, timeout=90.0)
@on_stage
async def change_shorten(stage: Stage) -> None:
    """A lease of 60 s changed to 5 s ends 5 s after that call."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    await _changed_to(stage, consumer, await consumer.one(invisible=60.0), 5.0)


async def _changed_to(stage: Stage, consumer: Consumer, first: Delivery, seconds: float) -> None:
    called = stage.clock.now()
    response = await consumer.client.change_invisible(first, seconds)
    answered = stage.clock.now()
    assert code_name(response.status.code) == "OK"
    window = nack(stage.target, seconds)
    second = await consumer.one(until=called + window.high + PROMPT, poll=20.0)
    assert (second.id, second.attempt) == (first.id, 2)
    stage.target.note("after_change", round(second.at - called - seconds, 3))
    assert second.at >= called + window.low, f"redelivered {second.at - called:.3f} s after the change"
    assert second.at <= answered + window.high, f"redelivered {second.at - answered:.3f} s after the change"
    await consumer.ack(second)


@case("simple.change-new-handle", rules=("R6.10", "R6.11"), needs=PREPARED, timeout=90.0)
@on_stage
async def change_new_handle(stage: Stage) -> None:
    """A change answers with a handle of its own, and an ack with that one is final."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    first = await consumer.one(invisible=LEASE)
    response = await consumer.client.change_invisible(first, 10.0)
    assert code_name(response.status.code) == "OK"
    assert response.receipt_handle
    assert response.receipt_handle != first.handle
    acked = await consumer.client.ack(topic, consumer.group, (first.id, response.receipt_handle))
    assert _names(acked) == ["OK"]
    again = await stage.nothing_but(consumer, 10.0 + stage.target.number("revive.high"))
    assert not again, f"acked with the changed handle, and delivered again: {again}"


@case("simple.change-expired", rules=("R6.9",), needs=PREPARED, timeout=90.0)
@on_stage
async def change_expired(stage: Stage) -> None:
    """A lease that has ended cannot be changed: INVALID_RECEIPT_HANDLE, and the message comes back."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    await stage.clock.sleep(held.at + 10.3 - stage.clock.now())
    response = await consumer.client.change_invisible(held, 60.0)
    assert code_name(response.status.code) == "INVALID_RECEIPT_HANDLE"
    await _comes_back(stage, consumer, held)
