"""Ordered groups: what is delivered, what blocks, what unblocks: inventory 4.3, with raw receives."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from itertools import pairwise

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_reader, reading_group
from aiorocketmq_conformance.cases.shared.nack import nack_and_wait
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of, entry_codes
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window, wake_window

ORDERED = ("type.fifo",)
PLACES = {"a": 0, "order-17": 3, "订单": 7, "😀": 4, "😀😀": 1, "𠮷野家": 3}
"""Queues of message groups in a topic of eight."""


async def one_group(fixture: Fixture, count: int, *, shown: bool = False) -> tuple[Consumer, list[Sent], str]:
    """Return an ordered consumer and `count` messages m0… of one message group, visible already if `shown`; and the
    group's name."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True)
    message_group = fixture.fresh("mg")
    send = fixture.backlog if shown else fixture.send
    sent = await send(topic, *(f"m{n}" for n in range(count)), group=message_group)
    return consumer, sent, message_group


def _texts(deliveries: list[Delivery] | tuple[Delivery, ...]) -> list[str]:
    return [one.text for one in deliveries]


@case("fifo.same-queue", rules=("R4.8", "R4.10"), needs=ORDERED, timeout=90.0)
async def same_queue(fixture: Fixture) -> None:
    """All messages of one message group are in one queue, and twenty groups are not all in the same one."""
    topic, consumer = await fixture.subscribed(8, type="FIFO")
    groups = [fixture.fresh("mg") for _ in range(20)]
    for group in groups:
        await fixture.send(topic, *(f"m{n}" for n in range(10)), group=group)
    deliveries = await consumer.take(200, within=30.0)
    queues: dict[str, set[int]] = defaultdict(set)
    for one in deliveries:
        queues[one.message_group].add(one.queue)
    assert set(queues) == set(groups)
    spread = {group: ids for group, ids in queues.items() if len(ids) > 1}
    assert not spread, f"message groups spread over queues: {spread}"
    assert len({min(ids) for ids in queues.values()}) > 1, "twenty message groups in one of eight queues"


@case("fifo.placement", rules=("R4.8", "R4.9"), level=SHOULD, needs=ORDERED)
async def placement(fixture: Fixture) -> None:
    """A message group is in the queue that its hash determines, on every server, also if it is of characters beyond
    16 bits."""
    topic, consumer = await fixture.subscribed(8, type="FIFO")
    for group in PLACES:
        await fixture.send(topic, "m", group=group)
    deliveries = await consumer.take(len(PLACES))
    assert {one.message_group: one.queue for one in deliveries} == PLACES


@case("fifo.single-group", rules=("R8.4", "R8.9"), needs=ORDERED)
async def single_group(fixture: Fixture) -> None:
    """Twenty messages of one message group, received and acked one by one, are delivered in sending order, once
    each."""
    consumer, sent, _ = await one_group(fixture, 20)
    deliveries = [(await consumer.take(1, batch=1))[0] for _ in range(20)]
    assert [one.id for one in deliveries] == [one.id for one in sent]
    assert {one.attempt for one in deliveries} == {1}


@case("fifo.many-groups", rules=("R8.4", "R8.16", "R8.17"), needs=ORDERED, timeout=180.0)
async def many_groups(fixture: Fixture) -> None:
    """Four concurrent consumers receive every one of 50 message groups complete and in order."""
    topic = await fixture.topic(4, type="FIFO")
    first = await fixture.consumer(topic, ordered=True)
    consumers = [first, *[await fixture.consumer(topic, group=first.group, prime=False) for _ in range(3)]]
    groups = [fixture.fresh("mg") for _ in range(50)]
    producer = await fixture.producer(topic)

    async def produce(group: str) -> None:
        for n in range(20):
            await fixture.send(topic, f"{n}", client=producer, group=group)

    end = fixture.clock.now() + 90.0
    left = Counter(dict.fromkeys(groups, 20))

    async def consume(consumer: Consumer) -> None:
        while left.total() and fixture.clock.now() < end:
            answer = await consumer.receive(batch=16)
            left.subtract(one.message_group for one in answer.deliveries)
            await consumer.ack(*answer.deliveries)

    # Producing and consuming overlap, as in production.
    await asyncio.gather(*map(produce, groups), *map(consume, consumers))
    deliveries = sorted(
        (one for consumer in consumers for one in consumer.deliveries), key=lambda one: one.serial
    )
    numbers: dict[str, list[int]] = defaultdict(list)
    for one in deliveries:
        numbers[one.message_group].append(int(one.text))
    wrong = {group: numbers[group] for group in groups if numbers[group] != list(range(20))}
    assert not wrong, (
        f"{len(wrong)} of 50 message groups out of order or incomplete, for example {wrong.popitem()}"
    )


@case("fifo.batch-prefix", rules=("R8.6",), needs=ORDERED)
async def batch_prefix(fixture: Fixture) -> None:
    """A batch of a message group contains its next messages in order, without a gap."""
    consumer, _, _ = await one_group(fixture, 20)
    answer = await consumer.receive(batch=8)
    assert 1 <= len(answer.deliveries) <= 8
    assert _texts(answer.deliveries) == [f"m{n}" for n in range(len(answer.deliveries))]
    await consumer.ack(*answer.deliveries)
    rest = await consumer.receive(batch=8)
    start = len(answer.deliveries)
    assert _texts(rest.deliveries) == [f"m{n}" for n in range(start, start + len(rest.deliveries))]
    assert rest.deliveries
    await consumer.ack(*rest.deliveries)


@case("fifo.unacked-blocks", rules=("R8.4", "R8.7"), needs=ORDERED, timeout=90.0)
async def unacked_blocks(fixture: Fixture) -> None:
    """While the head of a message group is not acked, four consumers receive only the head, with growing attempts."""
    first, _, _ = await one_group(fixture, 20)
    others = [await fixture.consumer(first.topic, group=first.group, prime=False) for _ in range(3)]
    received = await asyncio.gather(
        *(one.receive_for(35.0, batch=1, invisible=10.0) for one in [first, *others])
    )
    deliveries = sorted((one for each in received for one in each), key=lambda one: one.serial)
    assert {one.text for one in deliveries} == {"m0"}, f"delivered past an un-acked head: {deliveries}"
    assert [one.attempt for one in deliveries] == list(range(1, len(deliveries) + 1))
    assert len(deliveries) >= 3, f"in 35 s a lease of 10 s was redelivered only {len(deliveries) - 1} times"
    head = deliveries[0]
    for number, redelivery in enumerate(deliveries[1:], start=1):
        # Counted from the first receive: later ones were parked when their message was delivered.
        assert redelivery.at >= head.asked_at + number * 10.0 - fixture.number("early"), (
            f"{redelivery} was early"
        )
    for earlier, later in pairwise(deliveries):
        assert later.at <= earlier.at + expiry_window(fixture.target, 10.0, ordered=True).high, (
            f"{later} was late"
        )


@case("fifo.ack-unblocks", rules=("R8.9",), needs=ORDERED)
async def ack_unblocks(fixture: Fixture) -> None:
    """An ack of the head completes a waiting poll with the next message at once."""
    consumer, _, _ = await one_group(fixture, 2)
    head = await consumer.one()
    assert head.text == "m0"
    waiting = fixture.background(consumer.receive(batch=1, poll=10.0))
    await fixture.clock.sleep(2.0)
    assert not waiting.done(), "the poll was answered while the head was in flight"
    await consumer.ack(head)
    acked = fixture.clock.now()
    answer = await waiting
    assert _texts(answer.deliveries) == ["m1"]
    woken = answer.deliveries[0].at - acked
    fixture.note("unblocked", round(woken, 4))
    wake_window(fixture.target).check(woken, "the next message was delivered")
    await consumer.ack(*answer.deliveries)


@case("fifo.late-ack-unblocks", rules=("R8.9", "R8.7"), level=SHOULD, needs=ORDERED, timeout=90.0)
async def late_ack_unblocks(fixture: Fixture) -> None:
    """When the lease of the head has expired, the ack of the other message of its batch completes a waiting poll with
    the head."""
    consumer, _, _ = await one_group(fixture, 2, shown=True)
    head, following = (await consumer.receive(batch=2, invisible=10.0)).deliveries
    response = await consumer.client.change_invisible(following, 60.0)
    assert code_of(response) == "OK"
    await fixture.clock.sleep(head.at + 13.0 - fixture.clock.now())
    waiting = fixture.background(consumer.receive(batch=1, poll=20.0))
    await fixture.clock.sleep(2.0)
    acked = await consumer.client.ack(consumer.topic, consumer.group, (following.id, response.receipt_handle))
    assert entry_codes(acked) == ["OK"]
    at = fixture.clock.now()
    answer = await waiting
    assert [(one.text, one.attempt) for one in answer.deliveries] == [("m0", 2)]
    wake_window(fixture.target).check(answer.deliveries[0].at - at, "the head was delivered")
    await consumer.ack(*answer.deliveries)


@case("fifo.gap-ack", rules=("R8.8", "R8.10"), needs=ORDERED, timeout=90.0)
async def gap_ack(fixture: Fixture) -> None:
    """When the head of a batch is not acked, it is redelivered, and nothing after the batch is delivered before its
    ack."""
    consumer, _, _ = await one_group(fixture, 6, shown=True)
    batch = (await consumer.receive(batch=3, invisible=10.0)).deliveries
    assert _texts(batch) == ["m0", "m1", "m2"]
    await consumer.ack(batch[1], batch[2])
    # One at a time, so that the attempt tells what was delivered before and followers are not in the batch.
    deliveries = await consumer.receive_for(35.0, batch=1, invisible=10.0)
    assert deliveries, "the head was not redelivered"
    assert deliveries[0].text == "m0"
    assert deliveries[0].attempt == 2
    beyond = {one.text for one in deliveries} - {"m0", "m1", "m2"}
    assert not beyond, f"delivered behind an un-acked head: {beyond}"
    followers = {one.text for one in deliveries} & {"m1", "m2"}
    if not fixture.target.has("order.grain=queue"):
        assert not followers, f"acked, and delivered again: {followers}"
    # The sentinel: once the head is acked, the next message is delivered.
    await consumer.ack(await consumer.one(within=2 * PROMPT))
    rest = _texts(await consumer.take(3, batch=1, within=2 * PROMPT))
    after = [text for text in rest if text not in {"m1", "m2"}]
    assert after == sorted(after), f"out of order after the gap: {rest}"


@case("fifo.first-ack-only", rules=("R8.7", "R8.8"), needs=ORDERED, timeout=90.0)
async def first_ack_only(fixture: Fixture) -> None:
    """If only the head of a batch was acked, the rest is redelivered in order."""
    consumer, _, _ = await one_group(fixture, 6, shown=True)
    batch = (await consumer.receive(batch=3, invisible=10.0)).deliveries
    assert _texts(batch) == ["m0", "m1", "m2"]
    await consumer.ack(batch[0])
    answer = await consumer.receive(batch=2, poll=20.0, invisible=10.0)
    assert _texts(answer.deliveries)[:1] == ["m1"]
    assert _texts(answer.deliveries) == ["m1", "m2"][: len(answer.deliveries)]
    assert answer.deliveries[0].attempt == 2
    expiry_window(fixture.target, 10.0, ordered=True).check_return(batch[0], answer.deliveries[0])
    await consumer.ack(*answer.deliveries)
    start = 1 + len(answer.deliveries)
    rest = _texts(await consumer.take(6 - start, batch=1))
    assert rest == [f"m{n}" for n in range(start, 6)]


@case("fifo.attempts-grow", rules=("R8.7", "R8.13"), needs=ORDERED, timeout=90.0)
async def attempts_grow(fixture: Fixture) -> None:
    """Each expired lease increments the head's attempt by one."""
    consumer, sent, _ = await one_group(fixture, 1)
    deliveries = [await consumer.one(invisible=10.0, poll=20.0, within=20.0) for _ in range(3)]
    assert {one.id for one in deliveries} == {sent[0].id}
    assert [one.attempt for one in deliveries] == [1, 2, 3]
    await consumer.ack(deliveries[-1])


@case("fifo.change-shorter", rules=("R8.11",), needs=ORDERED)
async def change_shorter(fixture: Fixture) -> None:
    """An ordered lease of 60 s changed to 1 s expires one second after that call."""
    consumer, _, _ = await one_group(fixture, 2)
    await _changed_to(fixture, consumer, await consumer.one(invisible=60.0), 1.0)


@case("fifo.change-longer", rules=("R8.11",), needs=ORDERED, timeout=90.0)
async def change_longer(fixture: Fixture) -> None:
    """An ordered lease of 10 s changed to 25 s blocks its queue until 25 s after that call."""
    consumer, _, _ = await one_group(fixture, 2)
    await _changed_to(fixture, consumer, await consumer.one(invisible=10.0), 25.0)


async def _changed_to(fixture: Fixture, consumer: Consumer, head: Delivery, seconds: float) -> None:
    redelivery, after = await nack_and_wait(fixture, consumer, head, seconds, ordered=True)
    assert redelivery.attempt == 2
    fixture.note("after_change", round(after - seconds, 3))
    await consumer.ack(redelivery)
    assert _texts(await consumer.take(1, batch=1)) == ["m1"]


@case("fifo.other-queue-progress", rules=("R8.5",), needs=ORDERED, timeout=90.0)
async def other_queue_progress(fixture: Fixture) -> None:
    """A blocked message group does not block one in another queue, which is received completely meanwhile."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True)
    blocked, free = await _on_two_queues(fixture, consumer)
    await fixture.send(topic, *(f"b{n}" for n in range(3)), group=blocked)
    head = await consumer.one(invisible=30.0)
    assert head.text == "b0"
    await fixture.send(topic, *(f"f{n}" for n in range(20)), group=free)
    # One at a time: the server chooses the queue of each response, and should choose the blocked one, too.
    deliveries = await consumer.take(20, batch=1, within=20.0)
    assert fixture.clock.now() < head.at + 30.0, "took longer than the block lasted"
    assert _texts(deliveries) == [f"f{n}" for n in range(20)]
    await consumer.ack(head)
    assert _texts(await consumer.take(2, batch=1)) == ["b1", "b2"]


async def _on_two_queues(fixture: Fixture, consumer: Consumer) -> tuple[str, str]:
    """Return two message groups in different queues, found by the queues of their messages."""
    by_queue: dict[int, str] = {}
    for _ in range(12):
        group = fixture.fresh("mg")
        await fixture.send(consumer.topic, "where", group=group)
        (delivery,) = await consumer.take(1, batch=1)
        by_queue.setdefault(delivery.queue, group)
        if len(by_queue) == 2:
            one, two = by_queue.values()
            return one, two
    raise AssertionError("twelve message groups are all in one of four queues")


@case("fifo.tag-filter-no-block", rules=("R8.18",), needs=ORDERED, timeout=90.0)
async def tag_filter_no_block(fixture: Fixture) -> None:
    """A consumer of one tag receives all of its messages in order; the filtered ones between them do not block."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True, expression="a")
    group = fixture.fresh("mg")
    sent = [
        (await fixture.send(topic, f"m{n}", group=group, tag="ab"[n % 2]))[0] for n in range(20)
    ]  # fmt: skip
    deliveries = await consumer.take(10, batch=3, within=30.0)
    assert [one.id for one in deliveries] == [one.id for one in sent[::2]]


@case("fifo.exhausted-unblocks", rules=("R5.26", "R8.19"), needs=(*ORDERED, "dlq"), timeout=90.0)
async def exhausted_unblocks(fixture: Fixture) -> None:
    """A head that always fails becomes a dead letter after the group's attempts, and the next message is
    delivered."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True, max_attempts=2)
    readers = await reading_group(fixture)
    sent = await fixture.send(topic, "poison", "good", group=fixture.fresh("mg"))
    for attempt in (1, 2):
        head = await consumer.one()
        assert (head.id, head.attempt) == (sent[0].id, attempt)
        response = await consumer.client.change_invisible(head, 0.0)
        assert code_of(response) == "OK"
    following = await consumer.one()
    assert following.text == "good", f"{following} was delivered instead of the next message"
    await consumer.ack(following)
    reader = await dead_letter_reader(fixture, consumer, readers)
    dead = await reader.one(within=2 * PROMPT)
    assert dead.id == sent[0].id
    await reader.ack(dead)


@case("fifo.expired-ack", rules=("R6.2", "R6.5"), needs=ORDERED, timeout=90.0)
async def expired_ack(fixture: Fixture) -> None:
    """An ack of the head after expiry is refused with INVALID_RECEIPT_HANDLE, and the order is unchanged."""
    consumer, _, _ = await one_group(fixture, 3)
    head = await consumer.one(invisible=10.0)
    await fixture.clock.sleep(head.at + 10.3 - fixture.clock.now())
    response = await consumer.client.ack(consumer.topic, consumer.group, head)
    assert entry_codes(response) == ["INVALID_RECEIPT_HANDLE"]
    deliveries = [(await consumer.take(1, batch=1))[0] for _ in range(3)]
    assert _texts(deliveries) == ["m0", "m1", "m2"]
    assert [one.attempt for one in deliveries] == [2, 1, 1]


@case("fifo.old-handle-after-redelivery", rules=("R8.9",), needs=ORDERED, timeout=90.0)
async def old_handle_after_redelivery(fixture: Fixture) -> None:
    """After the head was redelivered, an ack with its first handle does not unblock; the second handle does."""
    consumer, _, _ = await one_group(fixture, 2)
    # The first lease would last 60 s: the handle is invalidated by the redelivery, not by expiry.
    first = await consumer.one(invisible=60.0)
    response = await consumer.client.change_invisible(first, 1.0)
    assert code_of(response) == "OK"
    second = await consumer.one(invisible=60.0)
    assert (second.id, second.attempt) == (first.id, 2)
    stale = await consumer.client.ack(consumer.topic, consumer.group, first)
    fixture.note("answer", code_of(stale.entries[0]))
    early = await consumer.receive_for(SHORT_POLL, batch=1)
    assert not early, f"released by a handle of an earlier delivery: {early}"
    await consumer.ack(second)
    assert _texts(await consumer.take(1, batch=1)) == ["m1"]


@case("fifo.consumer-crash", rules=("R8.12", "R8.16"), needs=ORDERED, timeout=90.0)
async def consumer_crash(fixture: Fixture) -> None:
    """When the consumer of the head vanishes, another one receives the head after its lease, then the others in
    order."""
    crashing, sent, _ = await one_group(fixture, 5)
    survivor = await fixture.consumer(crashing.topic, group=crashing.group, prime=False)
    leased = await crashing.one(invisible=10.0)
    crashing.deliveries.clear()  # it can no longer be acknowledged
    await crashing.client.disconnect()
    deliveries = [(await survivor.take(1, batch=1, within=20.0, poll=20.0))[0] for _ in range(5)]
    assert [one.id for one in deliveries] == [one.id for one in sent]
    assert [one.attempt for one in deliveries] == [2, 1, 1, 1, 1]
    expiry_window(fixture.target, 10.0, ordered=True).check_return(leased, deliveries[0])


@case("fifo.two-producers", rules=("R8.17", "R4.8"), needs=ORDERED, timeout=90.0)
async def two_producers(fixture: Fixture) -> None:
    """Messages of two producers of one message group are delivered in each producer's order."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True)
    group = fixture.fresh("mg")

    async def produce(name: str) -> None:
        client = await fixture.producer(topic)
        for n in range(25):
            await fixture.send(topic, f"{name}{n}", client=client, group=group)

    await asyncio.gather(produce("a"), produce("b"))
    texts = _texts(await consumer.take(50, batch=8, within=30.0))
    for name in "ab":
        assert [text for text in texts if text[0] == name] == [f"{name}{n}" for n in range(25)]
