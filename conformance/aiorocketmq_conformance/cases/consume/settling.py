"""Acks, changes of the invisible duration, receipt handles: inventory 4.8, second half."""

from __future__ import annotations

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.cases.shared.nack import nack_and_wait
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of, entry_codes
from aiorocketmq_conformance.tolerances import PROMPT


@case("simple.ack-late", rules=("R6.2", "R6.5"), timeout=90.0)
async def ack_late(fixture: Fixture) -> None:
    """An ack after expiry is refused with INVALID_RECEIPT_HANDLE; the message is redelivered and can be acked."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await fixture.clock.sleep(first.at + 10.3 - fixture.clock.now())
    response = await consumer.client.ack(topic, consumer.group, first)
    assert entry_codes(response) == ["INVALID_RECEIPT_HANDLE"]
    assert code_of(response) == "INVALID_RECEIPT_HANDLE"
    second = await consumer.one(within=20.0, poll=20.0, invisible=10.0)
    assert (second.id, second.attempt) == (first.id, 2)
    await consumer.ack(second)
    await fixture.expect_settled(consumer, 10.0, "acked with its new handle")


@case("simple.ack-batch", rules=("R6.5", "R6.6"), timeout=90.0)
async def ack_batch(fixture: Fixture) -> None:
    """One ack request settles ten messages; its ten entries are OK, in request order, with the ids of the request."""
    topic, consumer = await fixture.subscribed(2)
    await fixture.send(topic, *(f"m{n}" for n in range(10)))
    deliveries = await consumer.take(10, invisible=10.0, settle=False)
    response = await consumer.client.ack(topic, consumer.group, *deliveries)
    assert code_of(response) == "OK"
    assert entry_codes(response) == ["OK"] * 10
    assert [entry.message_id for entry in response.entries] == [one.id for one in deliveries]
    assert [entry.receipt_handle for entry in response.entries] == [one.handle for one in deliveries]
    await fixture.expect_settled(consumer, 10.0, "acked in a batch")


@case("simple.ack-mixed", rules=("R6.5", "R6.6"), timeout=90.0)
async def ack_mixed(fixture: Fixture) -> None:
    """An ack of valid and expired handles, in any order, answers MULTIPLE_RESULTS, each entry has its own code, and
    exactly the valid ones are settled; entries of one code have that in all."""
    topic, consumer = await fixture.subscribed(1)
    rows = ("eo", "oe", "ooe", "oeo", "eoo", "eeo", "oee", "ee", "oo")
    stale = await fixture.send(topic, *(f"stale{n}" for n in range("".join(rows).count("e"))))
    expired = await consumer.take(len(stale), settle=False, invisible=10.0)
    await fixture.clock.sleep(max(one.at for one in expired) + 10.3 - fixture.clock.now())
    sent = await fixture.send(topic, *(f"valid{n}" for n in range("".join(rows).count("o"))))
    ids = {one.id for one in sent}
    valid: list[Delivery] = []
    while len(valid) < len(sent):
        answer = await consumer.receive(invisible=30.0)
        valid += [one for one in answer.deliveries if one.id in ids]
    for row in rows:
        entries = [(valid if kind == "o" else expired).pop() for kind in row]
        response = await consumer.client.ack(topic, consumer.group, *entries)
        expected = ["OK" if kind == "o" else "INVALID_RECEIPT_HANDLE" for kind in row]
        assert entry_codes(response) == expected, row
        assert code_of(response) == (expected[0] if len(set(row)) == 1 else "MULTIPLE_RESULTS"), row
    redelivered = await fixture.deliveries_within(consumer, 30.0 + fixture.number("revive.high"))
    assert {one.id for one in redelivered} <= {one.id for one in stale}, (
        f"acked together with an expired handle, and delivered again: {redelivered}"
    )


@case("simple.ack-garbage", rules=("R6.2",), params={"text": "no handle", "empty": "", "numbers": "1 2 3"})
async def ack_garbage(fixture: Fixture, handle: str) -> None:
    """An ack with a malformed handle ({}) is refused and settles nothing."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    response = await consumer.client.ack(topic, consumer.group, (leased.id, handle))
    assert "OK" not in entry_codes(response)
    assert code_of(response) != "OK"
    await _expect_redelivery(fixture, consumer, leased)


@case("simple.ack-wrong-group", rules=("R6.3",), timeout=90.0)
async def ack_wrong_group(fixture: Fixture) -> None:
    """An ack in the name of another group, whatever its response, settles nothing for the group that has the
    lease."""
    topic, consumer = await fixture.subscribed(1)
    other = await fixture.consumer(topic)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    response = await other.client.ack(topic, other.group, leased)
    fixture.note("answer", code_of(response))
    await _expect_redelivery(fixture, consumer, leased)
    assert [one.id for one in await other.take(1)] == [leased.id], "lost for the other group"


@case("simple.ack-wrong-topic", rules=("R6.5",), timeout=90.0)
async def ack_wrong_topic(fixture: Fixture) -> None:
    """An ack that names another topic settles nothing."""
    topic, other = await fixture.topic(1), await fixture.topic(1)
    consumer = await fixture.consumer(topic)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    response = await consumer.client.ack(other, consumer.group, leased)
    fixture.note("answer", code_of(response))
    await _expect_redelivery(fixture, consumer, leased)


async def _expect_redelivery(fixture: Fixture, consumer: Consumer, held: Delivery) -> None:
    redelivery = await consumer.one(until=held.at + 10.0 + fixture.number("revive.high"), poll=SHORT_POLL)
    assert (redelivery.id, redelivery.attempt) == (held.id, 2)
    await consumer.ack(redelivery)


@case("simple.nack-subset", rules=("R5.12", "R7.2"), timeout=120.0)
async def nack_subset(fixture: Fixture) -> None:
    """Of each batch the acked messages are never redelivered, the one that was not acked is, as attempt 2."""
    topic, consumer = await fixture.subscribed(1)
    sent = await fixture.send(topic, *(f"m{n}" for n in range(20)))
    acked: set[str] = set()
    left: set[str] = set()
    end = fixture.clock.now() + 10.0 + fixture.number("revive.high") + 2 * PROMPT
    while len(acked) < 20 and fixture.clock.now() < end:
        answer = await consumer.receive(batch=50 if not left else 7, invisible=10.0)
        fresh = [one for one in answer.deliveries if one.attempt == 1]
        for one in answer.deliveries:
            assert one.id not in acked, f"acked, and delivered again: {one}"
            assert one.attempt == (2 if one.id in left else 1), f"not acked once, and delivered as {one}"
        done = [one for one in answer.deliveries if one not in fresh[:1]]
        left |= {one.id for one in fresh[:1]}
        await consumer.ack(*done)
        acked |= {one.id for one in done}
    assert acked == {one.id for one in sent}, f"{20 - len(acked)} of 20 were not redelivered"
    await fixture.expect_settled(consumer, 10.0, "all acked")


@case("simple.change-extend", rules=("R6.10",), timeout=90.0)
async def change_extend(fixture: Fixture) -> None:
    """A lease of 10 s changed to 20 s after 2 s expires 20 s after that call; the message is redelivered as attempt
    2."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=10.0)
    await fixture.clock.sleep(2.0)
    await _changed_to(fixture, consumer, first, 20.0)


@case("simple.change-shorten", rules=("R6.10",), timeout=90.0)
async def change_shorten(fixture: Fixture) -> None:
    """A lease of 60 s changed to 5 s expires 5 s after that call."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    await _changed_to(fixture, consumer, await consumer.one(invisible=60.0), 5.0)


async def _changed_to(fixture: Fixture, consumer: Consumer, first: Delivery, seconds: float) -> None:
    second, after = await nack_and_wait(fixture, consumer, first, seconds)
    assert second.attempt == 2
    fixture.note("after_change", round(after - seconds, 3))
    await consumer.ack(second)


@case("simple.change-new-handle", rules=("R6.10", "R6.11"), timeout=90.0)
async def change_new_handle(fixture: Fixture) -> None:
    """A change returns a new handle, and an ack with that one settles the message."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=LEASE)
    response = await consumer.client.change_invisible(first, 10.0)
    assert code_of(response) == "OK"
    assert response.receipt_handle
    assert response.receipt_handle != first.handle
    acked = await consumer.client.ack(topic, consumer.group, (first.id, response.receipt_handle))
    assert entry_codes(acked) == ["OK"]
    await fixture.expect_settled(consumer, 10.0, "acked with the changed handle")


@case("simple.change-batch", rules=("R6.11",), params={"once": 1, "twice": 2}, timeout=120.0)
async def change_batch(fixture: Fixture, changes: int) -> None:
    """Acks with changed handles settle all messages of a batch whose leases were changed {}; a target may declare
    that only the first one's does, and then the others are redelivered."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "first", "middle", "last")
    batch = sorted(await consumer.take(3, invisible=10.0, settle=False), key=lambda one: one.offset)
    handles = [one.handle for one in batch]
    for _ in range(changes):
        await fixture.clock.sleep(2.0)
        for place, one in enumerate(batch):
            changed = await consumer.client.change_invisible(one, 10.0, handle=handles[place])
            assert code_of(changed) == "OK"
            handles[place] = changed.receipt_handle
    entries = [(one.id, handle) for one, handle in zip(batch, handles, strict=True)]
    assert entry_codes(await consumer.client.ack(topic, consumer.group, *entries)) == ["OK"] * 3
    redelivered = await fixture.deliveries_within(consumer, 10.0 + fixture.number("revive.high"))
    expected = batch[:0] if fixture.numbers["change.settles"] == "all" else batch[1:]
    assert {one.id for one in redelivered} == {one.id for one in expected}, (
        f"acked with their newest handles, and delivered again: {redelivered}"
    )


@case("simple.change-expired", rules=("R6.9",), timeout=90.0)
async def change_expired(fixture: Fixture) -> None:
    """An expired lease cannot be changed: INVALID_RECEIPT_HANDLE, and the message is redelivered."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    await fixture.clock.sleep(leased.at + 10.3 - fixture.clock.now())
    response = await consumer.client.change_invisible(leased, 60.0)
    assert code_of(response) == "INVALID_RECEIPT_HANDLE"
    await _expect_redelivery(fixture, consumer, leased)
