"""Settling at the edges: inventory 4.8, the rows about late, double and chained acks and changes."""

from __future__ import annotations

from itertools import pairwise

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.shared.nack import give_back, returned
from aiorocketmq_conformance.fixture import SHORT_POLL, Stage, on_stage
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT, expiry, nack

PREPARED = ("@topic", "@group")


@case("simple.expiry-x3", rules=("R7.1", "R7.2"), level=Level.SHOULD, needs=PREPARED, timeout=200.0)
@on_stage
async def expiry_x3(stage: Stage) -> None:
    """A message that is left three times comes as attempt 1 to 4, each after its lease, and is done when acked."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    window = expiry(stage.target, 10.0)
    seen = [await consumer.one(invisible=10.0)]
    for _ in range(3):
        seen.append(await consumer.one(invisible=10.0, poll=20.0, until=seen[-1].at + window.high + PROMPT))
    assert [one.attempt for one in seen] == [1, 2, 3, 4]
    for earlier, later in pairwise(seen):
        # Counted from its arrival: the poll that brought it was parked.
        gap = later.at - earlier.at
        assert gap >= window.low - stage.target.number("wake.high"), f"came again after {gap:.3f} s"
        assert gap <= window.high, f"came again only after {gap:.3f} s"
    await consumer.ack(seen[-1])
    again = await stage.nothing_but(consumer, window.high)
    assert not again, f"acked at attempt 4, and delivered again: {again}"


@case("simple.ack-edge", rules=("R6.3", "R7.1"), level=Level.INFORMATIONAL, needs=PREPARED, timeout=150.0)
@on_stage
async def ack_edge(stage: Stage) -> None:
    """Of 30 messages acked around the very end of their leases each is done by that ack or comes again."""
    topic = await stage.topic()
    consumer = await stage.consumer(topic)
    sent = await stage.send_all(topic, [f"m{n}" for n in range(30)])
    held = await consumer.take(30, invisible=10.0, settle=False)
    end = min(one.asked_at for one in held) + 10.0
    done: set[str] = set()
    for number, one in enumerate(held):
        instant = end - 0.2 + 0.4 * number / len(held)
        await stage.clock.sleep(max(0.0, instant - stage.clock.now()))
        response = await consumer.client.ack(topic, consumer.group, one)
        if code_name(response.entries[0].status.code) == "OK":
            done.add(one.id)
    again = await consumer.watch(expiry(stage.target, 10.0).high, settle=True)
    stage.target.note("acked", len(done))
    stage.target.note("both", len(done & {one.id for one in again}))
    lost = {one.id for one in sent} - done - {one.id for one in again}
    assert not lost, f"{len(lost)} messages neither acked nor delivered again"


@case("simple.ack-twice", rules=("R6.8", "R6.3"), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def ack_twice(stage: Stage) -> None:
    """A second ack is OK or INVALID_RECEIPT_HANDLE, and the message does not come again."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    await consumer.ack(held)
    response = await consumer.client.ack(topic, consumer.group, held)
    told = code_name(response.entries[0].status.code)
    stage.target.note("second", told)
    assert told in {"OK", "INVALID_RECEIPT_HANDLE"}, f"the second ack answered {told}"
    again = await stage.nothing_but(consumer, expiry(stage.target, 10.0).high)
    assert not again, f"acked twice, and delivered again: {again}"


@case("simple.ack-empty", rules=("R6.6",), level=Level.SHOULD, needs=PREPARED)
@on_stage
async def ack_empty(stage: Stage) -> None:
    """An ack of nothing is refused, and the next one works."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    response = await consumer.client.ack(topic, consumer.group)
    stage.target.note("answer", code_name(response.status.code))
    assert code_name(response.status.code) != "OK"
    assert not response.entries
    await stage.send(topic, "m")
    await consumer.take(1)


@case("simple.change-now", rules=("R6.10", "R6.16"), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def change_now(stage: Stage) -> None:
    """A message received for 60 s and changed to 0 comes again at once, as far as the server knows at once."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    second, took = await returned(stage, consumer, first, 0.0)
    stage.target.note("after_change", round(took, 3))
    assert second.attempt == 2
    await consumer.ack(second)


@case("simple.change-old-handle", rules=("R6.12",), level=Level.INFORMATIONAL, needs=PREPARED, timeout=120.0)
@on_stage
async def change_old_handle(stage: Stage) -> None:
    """After a change an ack with the handle from before, not yet expired, is refused."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    await give_back(consumer, first, 10.0)
    response = await consumer.client.ack(topic, consumer.group, first)
    told = code_name(response.entries[0].status.code)
    again = await consumer.watch(nack(stage.target, 10.0).high, settle=True)
    outcome = "refused" if told != "OK" else "ignored" if again else "consumed"
    stage.target.note("outcome", outcome)
    assert outcome == "refused", f"the old handle was {outcome}"


@case("simple.change-after-ack", rules=("R6.8",), level=Level.INFORMATIONAL, needs=PREPARED, timeout=120.0)
@on_stage
async def change_after_ack(stage: Stage) -> None:
    """A change of the lease of a message that was acked is refused, and the message stays done."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=60.0)
    await consumer.ack(held)
    response = await consumer.client.change_invisible(held, 10.0)
    told = code_name(response.status.code)
    again = await consumer.watch(nack(stage.target, 10.0).high, settle=True)
    outcome = "resurrected" if again else "refused" if told != "OK" else "ignored"
    stage.target.note("outcome", outcome)
    assert outcome == "refused", f"the message was {outcome}"


@case("simple.change-chain", rules=("R6.10", "R6.11"), level=Level.SHOULD, needs=PREPARED, timeout=120.0)
@on_stage
async def change_chain(stage: Stage) -> None:
    """Five changes to 10 s, 3 s apart, each with the newest handle, keep the message away until 10 s after the last."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    handle = held.handle
    for _ in range(5):
        await stage.clock.sleep(3.0)
        called = stage.clock.now()
        response = await consumer.client.change_invisible(held, 10.0, handle=handle)
        assert code_name(response.status.code) == "OK"
        handle = response.receipt_handle
    window = nack(stage.target, 10.0)
    again = await consumer.one(until=called + window.high + PROMPT, poll=20.0)
    window.check(again.at - called, "after the last change the message came again")
    assert (again.id, again.attempt) == (held.id, 2)
    await consumer.ack(again)
    more = await consumer.watch(SHORT_POLL + stage.target.number("nack.low"))
    assert not more, f"five changes of one lease, and one more delivery: {more}"


@case("simple.change-over-max", rules=("R6.9",), level=Level.SHOULD, needs=PREPARED, timeout=90.0)
@on_stage
async def change_over_max(stage: Stage) -> None:
    """A change to more than the longest lease is refused, and the old lease still holds."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    await stage.send(topic, "m")
    held = await consumer.one(invisible=10.0)
    response = await consumer.client.change_invisible(held, stage.target.number("invisible.max") + 1.0)
    assert code_name(response.status.code) == "ILLEGAL_INVISIBLE_TIME"
    window = expiry(stage.target, 10.0)
    again = await consumer.one(until=held.at + window.high + PROMPT, poll=20.0)
    window.check_return(held, again)
    await consumer.ack(again)
