"""Consumers join, leave, crash and return: inventory 4.13, the rows of a rebalance."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.shared.nack import nack, nack_and_wait
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, Received
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window

# The shortest lease that every server grants.
LEASE = 10.0
NACK = 10.0


class _Workers:
    """Consumers of one group that join and leave under traffic, and the outcome of every message."""

    def __init__(self, fixture: Fixture) -> None:
        self._fixture = fixture
        self._works: dict[str, asyncio.Task[None]] = {}
        self._polls: dict[str, asyncio.Task[Received]] = {}
        self._leaving: set[str] = set()
        self.acked: dict[str, list[Delivery]] = defaultdict(list)
        """Acknowledged deliveries by message."""
        self.held: dict[str, list[Delivery]] = defaultdict(list)
        """What each client received and has not acknowledged."""
        self.shares: Counter[str] = Counter()

    def join(self, consumer: Consumer, *, batch: int = 2) -> None:
        """Start a consumer's receive loop."""
        self._works[consumer.client.client_id] = self._fixture.background(self._work(consumer, batch))

    async def leave(self, consumer: Consumer) -> None:
        """Let a consumer cancel its poll, finish its messages, and terminate."""
        name = consumer.client.client_id
        self._leaving.add(name)
        if name in self._polls:
            self._polls[name].cancel()
        await self._works.pop(name)
        await consumer.client.close()

    async def crash(self, consumer: Consumer) -> list[Delivery]:
        """Let a consumer vanish; return its unacknowledged deliveries."""
        name = consumer.client.client_id
        work = self._works.pop(name)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await consumer.client.disconnect()
        return self.held.pop(name, [])

    async def until(self, count: int, within: float) -> None:
        """Wait until `count` different messages are acknowledged; AssertionError if that takes longer."""
        end = self._fixture.clock.now() + within
        while len(self.acked) < count:
            for work in self._works.values():
                if work.done():
                    work.result()
            assert self._fixture.clock.now() < end, f"{len(self.acked)} of {count} messages in {within:g} s"
            await self._fixture.clock.sleep(0.2)

    async def disband(self) -> None:
        """Cancel all consumers."""
        for work in self._works.values():
            work.cancel()
        await asyncio.gather(*self._works.values(), return_exceptions=True)

    def doubled(self) -> set[str]:
        """Return the messages that were acknowledged more than once."""
        return {message_id for message_id, done in self.acked.items() if len(done) > 1}

    async def _work(self, consumer: Consumer, batch: int) -> None:
        name = consumer.client.client_id
        while name not in self._leaving:
            poll = asyncio.create_task(consumer.receive(batch=batch, poll=SHORT_POLL, invisible=LEASE))
            self._polls[name] = poll
            try:
                await asyncio.wait((poll,))
            finally:
                poll.cancel()
                await asyncio.gather(poll, return_exceptions=True)
            del self._polls[name]
            if poll.cancelled():
                return
            self.held[name] += poll.result().deliveries
            for one in poll.result().deliveries:
                await self._fixture.clock.sleep(0.05)
                await consumer.ack(one)
                self.held[name].remove(one)
                self.acked[one.id].append(one)
                self.shares[name] += 1


async def _traffic(fixture: Fixture, topic: str, count: int, every: float = 0.1, **fields: Any) -> list[Sent]:
    """Send at a steady rate."""
    sent = []
    for n in range(count):
        sent += await fixture.send(topic, f"m{n}", **fields)
        await fixture.clock.sleep(every)
    return sent


async def _another(fixture: Fixture, first: Consumer) -> Consumer:
    return await fixture.consumer(first.topic, group=first.group, prime=False)


@case("reb.join-no-loss", rules=("R5.10", "R3.8"), timeout=150.0)
async def join_no_loss(fixture: Fixture) -> None:
    """When a second consumer joins under traffic no message is lost, and only in-flight ones may be redelivered."""
    first = await fixture.consumer(await fixture.topic())
    workers = _Workers(fixture)
    workers.join(first)
    sent = await _traffic(fixture, first.topic, 20)
    second = await _another(fixture, first)
    in_flight = {one.id for one in workers.held[first.client.client_id]}
    workers.join(second)
    sent += await _traffic(fixture, first.topic, 30)
    await workers.until(50, 30.0)
    await workers.disband()
    assert set(workers.acked) == {one.id for one in sent}
    assert workers.doubled() <= in_flight, f"redelivered: {workers.doubled() - in_flight}"


@case("reb.join-gets-share", rules=("R3.8",), level=SHOULD, timeout=150.0)
async def join_gets_share(fixture: Fixture) -> None:
    """A consumer that joins receives at least a tenth of the next 200 messages."""
    first = await fixture.consumer(await fixture.topic())
    workers = _Workers(fixture)
    workers.join(first, batch=1)
    await _traffic(fixture, first.topic, 10)
    await workers.until(10, 30.0)
    second = await _another(fixture, first)
    workers.join(second, batch=1)
    await fixture.send_all(first.topic, [f"next{n}" for n in range(200)])
    await workers.until(210, 60.0)
    await workers.disband()
    share = workers.shares[second.client.client_id] / 200
    fixture.note("share", round(share, 3))
    assert share >= 0.1, f"the newcomer got {share:.0%}"


@case("reb.leave-clean", rules=("R2.16", "R7.9"), timeout=150.0)
async def leave_clean(fixture: Fixture) -> None:
    """Two of four consumers leave under traffic: nothing is lost, nothing acked is redelivered, the others receive
    all."""
    members = [await fixture.consumer(await fixture.topic())]
    members += [await _another(fixture, members[0]) for _ in range(3)]
    workers = _Workers(fixture)
    for one in members:
        workers.join(one)
    sent = await _traffic(fixture, members[0].topic, 30)
    before = set(workers.acked)
    for one in members[:2]:
        await workers.leave(one)
    sent += await _traffic(fixture, members[0].topic, 20)
    # Messages in a cancelled poll are redelivered when their leases expire.
    await workers.until(50, expiry_window(fixture.target, LEASE).high + PROMPT)
    await fixture.clock.sleep(expiry_window(fixture.target, LEASE).high)
    await workers.disband()
    assert set(workers.acked) == {one.id for one in sent}
    redelivered = workers.doubled() & before
    assert not redelivered, f"acknowledged before two consumers left, and redelivered: {redelivered}"


@case("reb.crash", rules=("R7.1", "R2.15"), timeout=150.0)
async def crash(fixture: Fixture) -> None:
    """In-flight messages of a crashed consumer are redelivered to the others after their leases, as attempt 2."""
    first = await fixture.consumer(await fixture.topic(1))
    crashing = await _another(fixture, first)
    sent = await fixture.send(first.topic, *(f"m{n}" for n in range(6)))
    leased = await crashing.take(6, invisible=LEASE, settle=False)
    await crashing.client.disconnect()
    window = expiry_window(fixture.target, LEASE)
    deliveries = await first.take(6, within=window.high + PROMPT, batch=6)
    assert {one.id for one in deliveries} == {one.id for one in sent}
    by_id = {one.id: one for one in leased}
    for one in deliveries:
        window.check_return(by_id[one.id], one)
        assert one.attempt == 2


@case("reb.crash-dups-bounded", rules=("R7.1",), timeout=200.0)
async def crash_dups_bounded(fixture: Fixture) -> None:
    """When one of three consumers crashes under traffic only its in-flight messages are redelivered."""
    members = [await fixture.consumer(await fixture.topic())]
    members += [await _another(fixture, members[0]) for _ in range(2)]
    crashing = members[2]
    # Two that it will never acknowledge, whenever it crashes.
    sent = await fixture.send(members[0].topic, "held0", "held1")
    in_flight = {one.id for one in await crashing.take(2, invisible=LEASE, settle=False)}
    workers = _Workers(fixture)
    for one in members:
        workers.join(one)
    sent += await _traffic(fixture, members[0].topic, 30)
    in_flight |= {one.id for one in await workers.crash(crashing)}
    sent += await _traffic(fixture, members[0].topic, 20)
    await workers.until(52, expiry_window(fixture.target, LEASE).high + 2 * PROMPT)
    await fixture.clock.sleep(expiry_window(fixture.target, LEASE).high)
    await workers.disband()
    assert set(workers.acked) == {one.id for one in sent}
    twice = {one.id for member in members for one in member.deliveries if one.attempt > 1} | workers.doubled()
    # A poll in progress at the crash may have leased messages that its client never received.
    unseen = {one.id for one in sent} - {one.id for one in crashing.deliveries}
    assert twice <= in_flight | unseen, (
        f"redelivered without having been in flight: {twice - in_flight - unseen}"
    )
    assert in_flight <= twice, "in-flight messages of the crashed consumer were not redelivered"


@case("reb.flap", rules=("R7.1", "R2.16"), level=SHOULD, timeout=400.0)
async def flap(fixture: Fixture) -> None:
    """A consumer that restarts every three seconds for a minute loses no message and uses up no attempts."""
    first = await fixture.consumer(await fixture.topic())
    workers = _Workers(fixture)
    traffic = fixture.background(_traffic(fixture, first.topic, 100, every=0.6))
    current = first
    for _ in range(20):
        workers.join(current)
        await fixture.clock.sleep(3.0)
        await workers.leave(current)
        current = await _another(fixture, first)
    sent = await traffic
    workers.join(current)
    await workers.until(100, 2 * expiry_window(fixture.target, LEASE).high + 2 * PROMPT)
    await workers.disband()
    assert set(workers.acked) == {one.id for one in sent}
    most = max(one.attempt for done in workers.acked.values() for one in done)
    fixture.note("most attempts", most)
    assert most <= 16


@case("reb.all-leave-return", rules=("R10.3", "R2.16"), timeout=200.0)
async def all_leave_return(fixture: Fixture) -> None:
    """A group that returns continues at its progress: it receives all that was sent meanwhile, and nothing again."""
    before = await fixture.consumer(await fixture.topic())
    await fixture.send(before.topic, *(f"old{n}" for n in range(5)))
    await before.take(5)
    await before.client.close()
    backlog = await fixture.send(before.topic, *(f"new{n}" for n in range(20)))
    await fixture.clock.sleep(30.0)
    after = await _another(fixture, before)
    deliveries = await after.take(20, within=2 * PROMPT)
    deliveries += await fixture.deliveries_within(after, SHORT_POLL)
    assert Counter(one.id for one in deliveries) == Counter(one.id for one in backlog)


@case("reb.fifo-handover", rules=("R8.7", "R8.12"), needs=("type.fifo",), timeout=200.0)
async def fifo_handover(fixture: Fixture) -> None:
    """When the consumer of a message group crashes, another one continues in order once the lease has expired."""
    owner = await fixture.consumer(await fixture.topic(1, type="FIFO"), ordered=True)
    other = await _another(fixture, owner)
    sent = await fixture.backlog(owner.topic, *map(str, range(6)), group=fixture.fresh("mg"))
    leased = await owner.take(2, batch=2, invisible=LEASE, settle=False)
    assert [one.id for one in leased] == [one.id for one in sent[:2]]
    await owner.client.disconnect()
    window = expiry_window(fixture.target, LEASE, ordered=True)
    deliveries = await other.take(6, within=window.high + 2 * PROMPT, batch=2)
    assert [one.id for one in deliveries] == [one.id for one in sent], "out of order"
    window.check_return(leased[0], deliveries[0])


@case("reb.queue-increase", rules=("R3.1", "R5.10"), level=SHOULD, timeout=240.0)
async def queue_increase(fixture: Fixture) -> None:
    """A topic that grows from two queues to eight under traffic loses nothing, and the new queues are consumed."""
    first = await fixture.consumer(await fixture.topic(2))
    workers = _Workers(fixture)
    workers.join(first)
    sent = await _traffic(fixture, first.topic, 10)
    await fixture.target.create_topic(first.topic, queues=8)
    began = fixture.clock.now()
    while len({one.queue for one in first.deliveries}) < 8:
        # Proxies see the change at their next route refresh.
        assert fixture.clock.now() < began + 60.0, (
            f"consumed from {sorted({one.queue for one in first.deliveries})}"
        )
        sent += await _traffic(fixture, first.topic, 4, every=0.5)
    fixture.note("all queues after", round(fixture.clock.now() - began, 1))
    await workers.until(len(sent), 30.0)
    await workers.disband()
    assert set(workers.acked) == {one.id for one in sent}
    assert not workers.doubled()


@case("reb.topic-recreated", rules=("R10.3", "R7.4"), level=SHOULD, needs=("@delete",), timeout=200.0)
async def topic_recreated(fixture: Fixture) -> None:
    """A topic that is deleted and created again is empty: a group receives what was sent since, and neither messages
    nor redeliveries of before."""
    consumer = await fixture.consumer(await fixture.topic(1))
    await fixture.send(consumer.topic, "old0")
    await consumer.ack((await nack_and_wait(fixture, consumer, await consumer.one(), NACK))[0])
    await fixture.send(consumer.topic, "old1", "old2")
    await fixture.target.admin.delete_topic(consumer.topic)
    await fixture.target.create_topic(consumer.topic, queues=1)
    (fresh,) = await fixture.send(consumer.topic, "fresh")
    assert fresh.receipt.offset == 0, f"the first message is number {fresh.receipt.offset}"
    # A redelivery of the new topic: servers keep redelivered messages in a topic of their own.
    once = await consumer.one()
    await nack(consumer, once, NACK)
    deliveries = await consumer.receive_for(NACK + fixture.number("nack.high") + PROMPT, settle=True)
    assert [one.text for one in (once, *deliveries)] == ["fresh", "fresh"]
