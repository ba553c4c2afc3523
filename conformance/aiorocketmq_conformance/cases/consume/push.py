"""Push consumption, judged at the broker: leases that it renews, redelivery of failures: inventory 4.7."""

from __future__ import annotations

from collections import Counter, defaultdict

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, code_of, entry_codes
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.push import Handler, PushClient, interval
from aiorocketmq_conformance.tolerances import PROMPT, QUIET_WINDOW, expiry_window, nack_window, wake_window

RENEWING = ("autorenew",)
# The first lease of a server that renews leases, and how long before expiry it renews (R7.7).
KEPT_LEASE = 60.0
RENEWED = 3 * 3600.0
"""Renewals end so long after the receive (R7.8)."""


async def _push(fixture: Fixture, topic: str, handler: Handler, *, group: str | None = None) -> PushClient:
    consumer = await _consumer(fixture, topic, group=group)
    push = PushClient(consumer.client, topic, consumer.group, handler)
    return await fixture.stack.enter_async_context(push)


async def _consumer(fixture: Fixture, topic: str, *, group: str | None = None) -> Consumer:
    return await fixture.consumer(topic, group=group, kind=pb.ClientType.PUSH_CONSUMER, prime=group is None)


@case("push.consume-10", rules=("R7.2",), needs=RENEWING, timeout=90.0)
async def consume_10(fixture: Fixture) -> None:
    """A push consumer handles each of ten messages once, and none is redelivered."""
    topic = await fixture.topic()

    async def handle(_: Delivery) -> bool:
        return True

    push = await _push(fixture, topic, handle)
    sent = await fixture.send(topic, *(f"m{n}" for n in range(10)))
    await push.until(lambda handled: len(handled) >= 10, 30.0)
    await fixture.clock.sleep(QUIET_WINDOW)
    sent += await fixture.send(topic, "sentinel")
    await push.until(lambda handled: any(one.delivery.id == sent[-1].id for one in handled), PROMPT)
    await _nothing_left(fixture, [push])
    assert Counter(one.delivery.id for one in push.handled) == Counter(one.id for one in sent)
    assert {one.attempt for one in push.handled} == {1}


@case("push.auto-renew-holds", rules=("R7.7", "R7.8"), needs=RENEWING, timeout=150.0)
async def auto_renew_holds(fixture: Fixture) -> None:
    """A message whose handler takes 80 s is not redelivered while its client is connected, and can be acked at the
    end."""
    topic = await fixture.topic(1)

    async def handle(delivery: Delivery) -> bool:
        if delivery.text == "long":
            await fixture.clock.sleep(80.0)
        return True

    push = await _push(fixture, topic, handle)
    await fixture.send(topic, "long")
    await push.until(lambda handled: any(one.delivery.text == "long" for one in handled), 80.0 + PROMPT)
    # The message would be redelivered to the same client, whose poll is always open; a sentinel closes the quiet
    # window.
    await fixture.clock.sleep(fixture.number("revive.high"))
    (sentinel,) = await fixture.send(topic, "sentinel")
    await push.until(lambda handled: any(one.delivery.id == sentinel.id for one in handled), PROMPT)
    # Also one that is still being handled: a second handler of 80 s finishes after the sentinel's.
    assert [one.text for one in push.received] == ["long", "sentinel"]


@case("push.auto-renew-original-handle", rules=("R7.10", "R6.7"), needs=RENEWING, timeout=150.0)
async def auto_renew_original_handle(fixture: Fixture) -> None:
    """After the server renewed a lease, an ack with the handle first delivered is OK and final, by its own client
    only."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    other = await _consumer(fixture, topic, group=consumer.group)
    await fixture.send(topic, "m")
    leased = await consumer.one(auto_renew=True, invisible=None)
    await _stay_alive(fixture, consumer, leased.at + KEPT_LEASE + 5.0)
    assert "OK" not in entry_codes(await other.client.ack(topic, other.group, leased))
    await consumer.ack(leased)
    # The renewed lease would last another minute; termination of its client ends it at once.
    await consumer.client.terminate(consumer.group)
    await fixture.expect_settled(other, 1.0, "acked after a renewal")


@case("push.renewed-changed", rules=("R7.8", "R6.7"), needs=(*RENEWING, "handle.checks=lease"), timeout=150.0)
async def renewed_changed(fixture: Fixture) -> None:
    """A change of a renewed lease replaces all handles of it: the one first delivered does nothing any more."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    await fixture.send(topic, "m")
    leased = await consumer.one(auto_renew=True, invisible=None)
    await _stay_alive(fixture, consumer, leased.at + KEPT_LEASE + 5.0)
    changed = await consumer.client.change_invisible(leased, 30.0)
    assert code_of(changed) == "OK"
    assert entry_codes(await consumer.client.ack(topic, consumer.group, leased)) == ["INVALID_RECEIPT_HANDLE"]
    newest = (leased.id, changed.receipt_handle)
    assert entry_codes(await consumer.client.ack(topic, consumer.group, newest)) == ["OK"]
    await fixture.expect_settled(consumer, 1.0, "acked after a change")


@case("push.renewed-often", rules=("R7.8", "R7.10"), needs=(*RENEWING, "@clock"), timeout=2000.0)
async def renewed_often(fixture: Fixture) -> None:
    """A lease is renewed as long as its client is connected, each time for longer; the handle first delivered stays
    good, and other messages are renewed on their own."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    await fixture.send(topic, "first")
    first = await consumer.one(auto_renew=True, invisible=None)
    # 60 s, then renewals of 60, 180, 300 and 600 s, each 10 s ahead of the end.
    await _stay_alive(fixture, consumer, first.at + 1100.0)
    await fixture.send(topic, "second")
    second = await consumer.one(auto_renew=True, invisible=None)
    assert second.text == "second", f"{second} was redelivered while its client was connected"
    await _stay_alive(fixture, consumer, second.at + 100.0)
    await consumer.ack(first, second)
    await consumer.client.terminate(consumer.group)
    other = await _consumer(fixture, topic, group=consumer.group)
    await fixture.expect_settled(other, 1.0, "acked after renewals")


@case("push.renewals-end", rules=("R7.8",), needs=(*RENEWING, "@clock"), timeout=20_000.0)
async def renewals_end(fixture: Fixture) -> None:
    """A lease is renewed for three hours from its receive, and not for ever: then the message is redelivered."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    await fixture.send(topic, "m")
    first = await consumer.one(auto_renew=True, invisible=None)
    await _stay_alive(fixture, consumer, first.at + RENEWED - PROMPT, every=60.0)
    assert not (await consumer.receive(poll=SHORT_POLL)).deliveries, "redelivered within three hours"
    # The last renewal of an hour may begin just before.
    end = first.at + RENEWED + 3600.0 + expiry_window(fixture.target, KEPT_LEASE).high
    while not (deliveries := (await consumer.receive(poll=20.0)).deliveries):
        assert fixture.clock.now() < end, "still renewed after three hours, and one more"
        await _stay_alive(fixture, consumer, fixture.clock.now() + KEPT_LEASE, every=60.0)
    assert (deliveries[0].id, deliveries[0].attempt) == (first.id, 2)
    await consumer.ack(*deliveries)


async def _stay_alive(fixture: Fixture, consumer: Consumer, until: float, *, every: float = 10.0) -> None:
    while (left := until - fixture.clock.now()) > 0:
        await fixture.clock.sleep(min(left, every))
        reply = await consumer.client.heartbeat(consumer.group, pb.ClientType.PUSH_CONSUMER)
        assert code_of(reply) == "OK"


@case("push.no-renew-without-flag", rules=("R7.11",), timeout=90.0)
async def no_renew_without_flag(fixture: Fixture) -> None:
    """Without the renew flag a push consumer's lease of 10 s expires, although its client is connected."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=10.0)
    window = expiry_window(fixture.target, 10.0)
    redelivery = await consumer.one(until=leased.at + window.high + PROMPT, invisible=LEASE, poll=20.0)
    assert (redelivery.id, redelivery.attempt) == (leased.id, 2)
    window.check_return(leased, redelivery)
    await consumer.ack(redelivery)


@case("push.client-gone-releases", rules=("R2.16", "R7.9"), needs=RENEWING, timeout=90.0)
async def client_gone_releases(fixture: Fixture) -> None:
    """All messages leased by a push consumer that terminates are redelivered well before their leases expire."""
    topic = await fixture.topic(1)
    leaving = await _consumer(fixture, topic)
    await fixture.send(topic, "m0", "m1", "m2")
    leased = await leaving.take(3, settle=False, auto_renew=True, invisible=None)
    farewell = await leaving.client.terminate(leaving.group)
    gone = fixture.clock.now()
    assert code_of(farewell) == "OK"
    other = await _consumer(fixture, topic, group=leaving.group)
    # The server keeps it invisible for one more second, then revives it (rule R7.9).
    released = await other.take(3, within=1.0 + fixture.number("revive.high") + PROMPT, poll=20.0)
    assert {(each.id, each.attempt) for each in released} == {(each.id, 2) for each in leased}
    after = max(each.at for each in released) - gone
    fixture.note("released_after", round(after, 3))
    latest = 1.0 + fixture.number("revive.high") + wake_window(fixture.target).high
    assert after <= latest, f"the last was released {after:.3f} s after the termination"


async def _fail_once(fixture: Fixture, *, throws: bool) -> None:
    topic = await fixture.topic()

    async def handle(delivery: Delivery) -> bool:
        odd = int(delivery.text) % 2
        if odd and delivery.attempt == 1:
            if throws:
                raise RuntimeError("the handler's own failure")
            return False
        return True

    push = await _push(fixture, topic, handle)
    sent = await fixture.send(topic, *map(str, range(10)))
    await push.until(lambda handled: sum(one.succeeded for one in handled) >= 10, 30.0)
    first_step = interval(push.settings, 1)
    await fixture.clock.sleep(nack_window(fixture.target, first_step).high)
    (sentinel,) = await fixture.send(topic, "100")
    await push.until(lambda handled: any(one.delivery.id == sentinel.id for one in handled), PROMPT)
    runs_by_body: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for one in push.handled:
        runs_by_body[one.delivery.text].append((one.attempt, one.succeeded))
    assert {one.delivery.id for one in push.handled} == {one.id for one in [*sent, sentinel]}
    for body, runs in runs_by_body.items():
        expected = [(1, False), (2, True)] if int(body) % 2 else [(1, True)]
        assert runs == expected, f"message {body} was handled as {runs}"


@case("push.fail-redelivers", rules=("R7.2",), needs=RENEWING, timeout=90.0)
async def fail_redelivers(fixture: Fixture) -> None:
    """Messages whose handler failed once are redelivered as attempt 2, the others are delivered once."""
    await _fail_once(fixture, throws=False)


@case("push.throw-is-failure", rules=("R7.2",), needs=RENEWING, timeout=90.0)
async def throw_is_failure(fixture: Fixture) -> None:
    """An exception in a handler is a failure: the message is redelivered as attempt 2."""
    await _fail_once(fixture, throws=True)


@case("push.success-final", rules=("R6.8", "R7.7"), needs=RENEWING, timeout=120.0)
async def success_final(fixture: Fixture) -> None:
    """Of 100 messages handled slowly by two push consumers each succeeds exactly once, and none is redelivered."""
    topic = await fixture.topic()

    async def handle(_: Delivery) -> bool:
        await fixture.clock.sleep(2.0)
        return True

    one = await _push(fixture, topic, handle)
    two = await _push(fixture, topic, handle, group=one.group)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(100)], concurrency=8)
    ids = Counter(each.id for each in sent)
    await _sum_of(fixture, [one, two], 100, 60.0)
    await _nothing_left(fixture, [one, two])
    handled = [run for each in (one, two) for run in each.handled]
    assert Counter(run.delivery.id for run in handled) == ids
    assert all(run.succeeded and run.attempt == 1 for run in handled)
    assert not one.errors + two.errors, f"{one.errors + two.errors}"


async def _nothing_left(fixture: Fixture, clients: list[PushClient]) -> None:
    """After all have terminated another consumer of the group receives nothing: a lease that still exists would be
    released now. While they are connected the server renews their leases, so that waiting would prove nothing."""
    # An ack may still be in flight when its handler has been counted.
    await fixture.clock.sleep(1.0)
    for client in clients:
        await client.leave()
    other = await _consumer(fixture, clients[0].topic, group=clients[0].group)
    await fixture.expect_settled(other, 1.0, "handled with success")


async def _sum_of(fixture: Fixture, clients: list[PushClient], count: int, seconds: float) -> None:
    """Wait until the clients together have handled `count` messages, or `seconds` have passed."""
    end = fixture.clock.now() + seconds
    while sum(len(client.handled) for client in clients) < count and fixture.clock.now() < end:
        await fixture.clock.sleep(0.5)


@case("push.groups-broadcast", rules=("R10.1",), timeout=120.0)
async def groups_broadcast(fixture: Fixture) -> None:
    """Three groups each get all of 100 messages, whatever the others have acked."""
    topic = await fixture.topic()
    consumers = [await fixture.consumer(topic) for _ in range(3)]
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(100)], concurrency=8)
    for consumer in consumers:
        deliveries = await consumer.take(100, within=30.0)
        assert Counter(one.id for one in deliveries) == Counter(one.id for one in sent)
        assert {one.attempt for one in deliveries} == {1}
    # An ack in one group does not affect the lease in another.
    (last,) = await fixture.send(topic, "last")
    leased = [await consumer.find(last, invisible=10.0) for consumer in consumers[:2]]
    await consumers[0].ack(leased[0])
    window = expiry_window(fixture.target, 10.0)
    redelivery = await consumers[1].one(until=leased[1].at + window.high + PROMPT, poll=20.0)
    await consumers[1].ack(redelivery)
    assert (redelivery.id, redelivery.attempt) == (last.id, 2), "acked by one group, and settled for another"


@case("push.nack-interval", rules=("R6.10", "R7.2"), timeout=90.0)
async def nack_interval(fixture: Fixture) -> None:
    """A failed message made invisible for the advertised first interval is redelivered after it, and not before."""
    topic = await fixture.topic(1)
    consumer = await _consumer(fixture, topic)
    client: ProbeClient = consumer.client
    assert client.settings is not None
    step = interval(client.settings, 1)
    await fixture.send(topic, "m")
    first = await consumer.one(invisible=60.0)
    called = fixture.clock.now()
    response = await client.change_invisible(first, step)
    answered = fixture.clock.now()
    assert code_of(response) == "OK"
    window = nack_window(fixture.target, step)
    second = await consumer.one(until=called + window.high + PROMPT, poll=20.0)
    await consumer.ack(second)
    assert (second.id, second.attempt) == (first.id, 2)
    fixture.note("after_interval", round(second.at - called - step, 3))
    assert second.at >= called + window.low, f"redelivered {second.at - called:.3f} s after the nack"
    assert second.at <= answered + window.high, f"redelivered {second.at - answered:.3f} s after the nack"
