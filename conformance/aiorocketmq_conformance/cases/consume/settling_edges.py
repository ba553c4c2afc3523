"""Late, double and chained acks and changes: inventory 4.8."""

from __future__ import annotations

from itertools import pairwise

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.nack import nack, nack_and_wait
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window, nack_window


@case("simple.expiry-x3", rules=("R7.1", "R7.2"), level=SHOULD, timeout=200.0)
async def expiry_x3(fixture: Fixture) -> None:
    """A message that is not acked three times is delivered as attempt 1 to 4, each after a lease, until it is
    acked."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    window = expiry_window(fixture.target, 10.0)
    deliveries = [await consumer.one(invisible=10.0)]
    for _ in range(3):
        deliveries.append(
            await consumer.one(invisible=10.0, poll=20.0, until=deliveries[-1].at + window.high + PROMPT)
        )
    assert [one.attempt for one in deliveries] == [1, 2, 3, 4]
    for earlier, later in pairwise(deliveries):
        # Counted from its arrival: its poll was parked.
        gap = later.at - earlier.at
        assert gap >= window.low - fixture.number("wake.high"), f"redelivered after {gap:.3f} s"
        assert gap <= window.high, f"redelivered only after {gap:.3f} s"
    await consumer.ack(deliveries[-1])
    await fixture.expect_nothing(consumer, window.high, "acked at attempt 4, and delivered again")


@case("simple.ack-edge", rules=("R6.3", "R7.1"), level=INFORMATIONAL, timeout=150.0)
async def ack_edge(fixture: Fixture) -> None:
    """Of 30 messages acked around the expiry of their leases each is either settled or redelivered."""
    topic, consumer = await fixture.subscribed()
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(30)])
    leased = await consumer.take(30, invisible=10.0, settle=False)
    end = min(one.asked_at for one in leased) + 10.0
    done: set[str] = set()
    for number, one in enumerate(leased):
        instant = end - 0.2 + 0.4 * number / len(leased)
        await fixture.clock.sleep(max(0.0, instant - fixture.clock.now()))
        response = await consumer.client.ack(topic, consumer.group, one)
        if code_of(response.entries[0]) == "OK":
            done.add(one.id)
    redelivered = await consumer.receive_for(expiry_window(fixture.target, 10.0).high, settle=True)
    fixture.note("acked", len(done))
    fixture.note("both", len(done & {one.id for one in redelivered}))
    lost = {one.id for one in sent} - done - {one.id for one in redelivered}
    assert not lost, f"{len(lost)} messages neither acked nor delivered again"


@case("simple.ack-twice", rules=("R6.8", "R6.3"), level=SHOULD, timeout=90.0)
async def ack_twice(fixture: Fixture) -> None:
    """A second ack is OK or INVALID_RECEIPT_HANDLE, and the message is not redelivered."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    await consumer.ack(leased)
    response = await consumer.client.ack(topic, consumer.group, leased)
    code = code_of(response.entries[0])
    fixture.note("second", code)
    assert code in {"OK", "INVALID_RECEIPT_HANDLE"}, f"the second ack was answered with {code}"
    await fixture.expect_nothing(
        consumer, expiry_window(fixture.target, 10.0).high, "acked twice, and delivered again"
    )


@case("simple.ack-empty", rules=("R6.6",), level=SHOULD)
async def ack_empty(fixture: Fixture) -> None:
    """An ack without entries is refused, and the next one works."""
    topic, consumer = await fixture.subscribed(1)
    response = await consumer.client.ack(topic, consumer.group)
    fixture.note("answer", code_of(response))
    assert code_of(response) != "OK"
    assert not response.entries
    await fixture.send(topic, "m")
    await consumer.take(1)


@case("simple.change-now", rules=("R6.10", "R6.16"), level=SHOULD, timeout=90.0)
async def change_now(fixture: Fixture) -> None:
    """A lease of 60 s changed to 0 makes the message visible at once, within the declared tolerance."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    second, took = await nack_and_wait(fixture, consumer, first, 0.0)
    fixture.note("after_change", round(took, 3))
    assert second.attempt == 2
    await consumer.ack(second)


@case("simple.change-old-handle", rules=("R6.12",), level=INFORMATIONAL, timeout=120.0)
async def change_old_handle(fixture: Fixture) -> None:
    """After a change an ack with the previous handle is refused, although it has not expired."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    await nack(consumer, first, 10.0)
    response = await consumer.client.ack(topic, consumer.group, first)
    code = code_of(response.entries[0])
    redelivered = await consumer.receive_for(nack_window(fixture.target, 10.0).high, settle=True)
    outcome = "refused" if code != "OK" else "ignored" if redelivered else "consumed"
    fixture.note("outcome", outcome)
    assert outcome == "refused", f"the old handle was {outcome}"


@case("simple.change-after-ack", rules=("R6.8",), level=INFORMATIONAL, timeout=120.0)
async def change_after_ack(fixture: Fixture) -> None:
    """A change of the lease of an acked message is refused, and the message is not redelivered."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=60.0)
    await consumer.ack(leased)
    response = await consumer.client.change_invisible(leased, 10.0)
    code = code_of(response)
    redelivered = await consumer.receive_for(nack_window(fixture.target, 10.0).high, settle=True)
    outcome = "resurrected" if redelivered else "refused" if code != "OK" else "ignored"
    fixture.note("outcome", outcome)
    assert outcome == "refused", f"the message was {outcome}"


@case("simple.change-chain", rules=("R6.10", "R6.11"), level=SHOULD, timeout=120.0)
async def change_chain(fixture: Fixture) -> None:
    """Five changes to 10 s, 3 s apart, each with the newest handle, keep the message invisible until 10 s after the
    last."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    handle = leased.handle
    for _ in range(5):
        await fixture.clock.sleep(3.0)
        called = fixture.clock.now()
        response = await consumer.client.change_invisible(leased, 10.0, handle=handle)
        assert code_of(response) == "OK"
        handle = response.receipt_handle
    window = nack_window(fixture.target, 10.0)
    redelivery = await consumer.one(until=called + window.high + PROMPT, poll=20.0)
    window.check(redelivery.at - called, "redelivery after the last change")
    assert (redelivery.id, redelivery.attempt) == (leased.id, 2)
    await consumer.ack(redelivery)
    more = await consumer.receive_for(SHORT_POLL + fixture.number("nack.low"))
    assert not more, f"five changes of one lease, and one more delivery: {more}"


@case("simple.change-over-max", rules=("R6.9",), level=SHOULD, timeout=90.0)
async def change_over_max(fixture: Fixture) -> None:
    """A change to more than the longest lease is refused, and the old lease remains valid."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    response = await consumer.client.change_invisible(leased, fixture.number("invisible.max") + 1.0)
    assert code_of(response) == "ILLEGAL_INVISIBLE_TIME"
    window = expiry_window(fixture.target, 10.0)
    redelivery = await consumer.one(until=leased.at + window.high + PROMPT, poll=20.0)
    window.check_return(leased, redelivery)
    await consumer.ack(redelivery)
