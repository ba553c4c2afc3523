"""Lite subscriptions: what they select, where they start, quotas, and when they expire; inventory 4.6."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.lite import (
    ADD,
    FROM_BEGINNING,
    NEEDS,
    REMOVE,
    REPLACE,
    LiteFixture,
    open_lite,
)
from aiorocketmq_conformance.cases.shared.queues import REMOTING
from aiorocketmq_conformance.fixture import FORGOTTEN, Fixture, once_each
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.tolerances import PROMPT


@case("lite.per-consumer-sets", rules=("R4.32",), level=EXTENSION, needs=NEEDS)
async def per_consumer_sets(fixture: Fixture) -> None:
    """Two consumers of one group with different lite subscriptions each receive their own messages."""
    lite = await open_lite(fixture)
    one, two = await lite.consumer("l1"), await lite.consumer("l2")
    first, second = await lite.send("l1", "1"), await lite.send("l2", "2")
    once_each(first, await one.receive_for(5.0, settle=True))
    once_each(second, await two.receive_for(5.0, settle=True))


@case("lite.waiters", rules=("R4.32", "R5.20"), level=EXTENSION, needs=NEEDS)
async def waiters(fixture: Fixture) -> None:
    """An ack completes the receive that waits for the next message of a lite topic, although another consumer of the
    group has waited for another lite topic for longer."""
    lite = await open_lite(fixture)
    idle, busy = await lite.consumer("l1"), await lite.consumer("l2")
    sent = await lite.send("l2", "1", "2")
    first = await busy.one(invisible=60.0)
    fixture.background(idle.receive(poll=20.0))
    await fixture.clock.sleep(1.0)
    waiting = fixture.background(busy.receive(poll=20.0))
    await fixture.clock.sleep(1.0)
    await busy.ack(first)
    answer = await waiting
    once_each(sent, [first, *answer.deliveries])
    # Servers may check only every ten seconds whether a lite topic has more messages.
    assert answer.took < 1.0 + PROMPT + 5.0, (
        f"completed only after {answer.took:.1f} s, at the end of its poll"
    )


@case("lite.partial-add-remove", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def partial_add_remove(fixture: Fixture) -> None:
    """Removing one of two lite subscriptions keeps the other."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    assert await lite.sync(consumer, REMOVE, "l1") == "OK"
    await lite.send("l1", "gone")
    sent = await lite.send("l2", "stays")
    once_each(sent, await lite.deliveries_within(consumer))


@case("lite.complete-add", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def complete_add(fixture: Fixture) -> None:
    """A complete list replaces the previous lite subscriptions, whatever their versions."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1", "l2")
    for version, name in ((2, "l2"), (1, "l3")):
        assert await lite.sync(consumer, REPLACE, name, version=version) == "OK"
    await lite.send("l1", "1")
    await lite.send("l2", "2")
    sent = await lite.send("l3", "3")
    once_each(sent, await lite.deliveries_within(consumer))


@case("lite.quota", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def quota(fixture: Fixture) -> None:
    """The settings contain the quota; one name more is refused, the same names again are none more, and existing
    subscriptions still work."""
    lite = await open_lite(fixture, quota=3)
    consumer = await lite.consumer("l1", "l2", "l3")
    settings = consumer.client.settings
    assert settings is not None
    assert settings.subscription.lite_subscription_quota == 3
    assert await lite.sync(consumer, ADD, "l4") == "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    assert await lite.sync(consumer, ADD, "l2", "l3") == "OK"
    sent = await lite.send("l3", "m")
    once_each(sent, await consumer.take(1))


@case("lite.group-updated", rules=("R4.30",), level=EXTENSION, needs=(*NEEDS, *REMOTING))
async def group_updated(fixture: Fixture) -> None:
    """A group whose attempts are changed over remoting, without a word of its topic, stays bound to it."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    body = json.dumps({"groupName": lite.group, "retryMaxTimes": 5}).encode()
    request = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    answer = await fixture.member().ask(lite.topic, request, body=body)
    assert answer.code == ResponseCode.SUCCESS, response_text(answer)
    assert await lite.sync(consumer, ADD, "l2") == "OK"
    sent = [*await lite.send("l1", "a"), *await lite.send("l2", "b")]
    once_each(sent, await consumer.take(2))


@case(
    "lite.name-limits",
    rules=("R4.31",),
    level=EXTENSION,
    needs=NEEDS,
    params={"blank": " ", "65": "a" * 65, "dot": "a.b", "space": "a b", "accent": "é"},
)
async def name_limits(fixture: Fixture, name: str) -> None:
    """An illegal lite topic name ({}) is refused in subscriptions and sends; 64 characters are legal."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, name) == "ILLEGAL_LITE_TOPIC"
    producer = await fixture.producer(lite.topic)
    reply = await producer.send(lite.message(name, "m"))
    assert code_of(reply) == "ILLEGAL_LITE_TOPIC"
    assert await lite.sync(consumer, ADD, "a" * 64) == "OK"


_STARTS: dict[str, tuple[pb.OffsetOption, Sequence[int]]] = {
    "min": (FROM_BEGINNING, range(10)),
    "max": (pb.OffsetOption(policy=pb.OffsetOption.MAX), ()),
    "offset-7": (pb.OffsetOption(offset=7), range(7, 10)),
    "tail-3": (pb.OffsetOption(tail_n=3), range(7, 10)),
}


@case("lite.offset", rules=("R4.33",), level=EXTENSION, needs=NEEDS, params=_STARTS)
async def offset(fixture: Fixture, start_and_expected: tuple[pb.OffsetOption, Sequence[int]]) -> None:
    """A new subscriber that starts at {} receives the later ones of ten stored messages, and all new ones."""
    start, expected = start_and_expected
    lite = await open_lite(fixture)
    sent = await lite.send("l1", *map(str, range(10)))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=start) == "OK"
    later = await lite.send("l1", "later")
    deliveries = await consumer.receive_for(5.0, settle=True)
    once_each([*(sent[n] for n in expected), *later], deliveries)


@case("lite.offset-last", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_last(fixture: Fixture) -> None:
    """A group that consumed four of ten messages and left continues at the fifth when it returns."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", *map(str, range(10)))
    once_each(sent[:4], await consumer.take(4, batch=4))
    assert await lite.sync(consumer, REMOVE, "l1") == "OK"
    last = pb.OffsetOption(policy=pb.OffsetOption.LAST)
    assert await lite.sync(consumer, ADD, "l1", start=last) == "OK"
    once_each(sent[4:], await consumer.receive_for(25.0, settle=True))


@case("lite.offset-of-one", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_of_one(fixture: Fixture) -> None:
    """A client that adds a lite topic, and says where to begin, goes on where it was in the others."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", "0", "1", "2")
    once_each(sent[:2], await consumer.take(2, batch=2))
    (added,) = await lite.send("l2", "added")
    assert await lite.sync(consumer, ADD, "l2", start=FROM_BEGINNING) == "OK"
    once_each([sent[2], added], await consumer.receive_for(25.0, settle=True))


@case("lite.offset-timestamp", rules=("R4.33",), level=EXTENSION, needs=NEEDS)
async def offset_timestamp(fixture: Fixture) -> None:
    """A new subscriber that starts at a time receives what was stored from then on."""
    lite = await open_lite(fixture)
    await lite.send("l1", *map(str, range(5)))
    await fixture.clock.sleep(3.0)
    between = int(fixture.clock.wall() * 1000)
    await fixture.clock.sleep(3.0)
    sent = await lite.send("l1", *map(str, range(5, 10)))
    consumer = await lite.consumer()
    assert await lite.sync(consumer, ADD, "l1", start=pb.OffsetOption(timestamp=between)) == "OK"
    once_each(sent, await consumer.receive_for(5.0, settle=True))


@case("lite.notify-unsubscribe", rules=("R4.34",), level=EXTENSION, needs=NEEDS)
async def notify_unsubscribe(fixture: Fixture) -> None:
    """If lite topics are exclusive, the former subscriber is notified, and receives nothing more; that of another
    group does."""
    lite = await open_lite(fixture, exclusive=True)
    beside = LiteFixture(fixture, lite.topic, await fixture.group(lite_topic=lite.topic, lite_exclusive=True))
    other = await beside.consumer("l1")
    first = await lite.consumer("l1", "l2")
    second = await lite.consumer("l1")
    stream = first.client.stream
    assert stream is not None
    evicted_from = ""
    with suppress(StreamEnded):
        while not evicted_from:
            command = await stream.next(2.0)
            evicted_from = command.notify_unsubscribe_lite_command.lite_topic
    assert evicted_from == "l1", "the evicted consumer was not notified"
    sent = await lite.send("l1", "m")
    assert not await first.receive_for(5.0)
    once_each(sent, await second.take(1))
    once_each(sent, await other.take(1))


@case("lite.expiry", rules=("R4.33",), level=EXTENSION, needs=NEEDS, timeout=800.0)
async def subscription_expiry(fixture: Fixture) -> None:
    """A lite subscription expires unless it is renewed; messages of its lite topic stay available."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    life = fixture.number("lite.life")
    for _ in range(2):
        await consumer.receive_for(life * 0.6)
        once_each(await lite.send("l1", "alive"), await consumer.take(1))
        assert await lite.sync(consumer, REPLACE, "l1") == "OK"
    await consumer.receive_for(life + 125.0)
    sent = await lite.send("l1", "too late")
    assert not await consumer.receive_for(PROMPT), "delivered without a subscription"
    assert await lite.sync(consumer, ADD, "l1") == "OK"
    once_each(sent, await consumer.take(1))


@case("lite.resync", rules=("R4.33", "R12.7"), level=EXTENSION, needs=(*NEEDS, "@restart"), timeout=200.0)
async def resync(fixture: Fixture) -> None:
    """After a restart that lost the subscriptions a consumer that renews its own continues at its progress."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    sent = await lite.send("l1", "1", "2")
    once_each(sent[:1], await consumer.take(1, batch=1))
    await fixture.clock.sleep(12.0)
    await consumer.client.disconnect()
    await fixture.target.restart()
    successor = await lite.consumer()
    until = fixture.clock.now() + FORGOTTEN
    while (code := await lite.sync(successor, REPLACE, "l1")) != "OK" and fixture.clock.now() < until:
        await fixture.clock.sleep(1.0)
    assert code == "OK", f"answered with {code} for a minute after the restart"
    once_each(sent[1:], await successor.take(1, within=60.0))
