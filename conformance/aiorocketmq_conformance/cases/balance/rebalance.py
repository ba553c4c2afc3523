"""Consumers come, go, crash and come back: inventory 4.13, the rows of a rebalance."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer, Sent
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery, Received
from aiorocketmq_conformance.tolerances import PROMPT, expiry

# The shortest lease that every server grants.
LEASE = 10.0


class _Crew:
    """Consumers of one group that come and go while they work, and what became of every message."""

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
        """Let a consumer work from now on."""
        self._works[consumer.client.client_id] = self._fixture.background(self._work(consumer, batch))

    async def leave(self, consumer: Consumer) -> None:
        """Let a consumer break off its poll, finish what it has, and say good-bye."""
        name = consumer.client.client_id
        self._leaving.add(name)
        if name in self._polls:
            self._polls[name].cancel()
        await self._works.pop(name)
        await consumer.client.close()

    async def crash(self, consumer: Consumer) -> list[Delivery]:
        """Let a consumer vanish; answers what it had in hand."""
        name = consumer.client.client_id
        work = self._works.pop(name)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await consumer.client.vanish()
        return self.held.pop(name, [])

    async def until(self, count: int, within: float) -> None:
        """Wait until so many different messages are done; AssertionError when they take longer."""
        end = self._fixture.clock.now() + within
        while len(self.acked) < count:
            for work in self._works.values():
                if work.done():
                    work.result()
            assert self._fixture.clock.now() < end, f"{len(self.acked)} of {count} messages in {within:g} s"
            await self._fixture.clock.sleep(0.2)

    async def disband(self) -> None:
        """End all work."""
        for work in self._works.values():
            work.cancel()
        await asyncio.gather(*self._works.values(), return_exceptions=True)

    def doubled(self) -> set[str]:
        """Messages that were done more than once."""
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


async def _traffic(
    fixture: Fixture, topic: str, count: int, every: float = 0.1, **fields: object
) -> list[Sent]:
    """Send steadily."""
    sent = []
    for n in range(count):
        sent += await fixture.send(topic, f"m{n}", **fields)
        await fixture.clock.sleep(every)
    return sent


async def _another(fixture: Fixture, first: Consumer) -> Consumer:
    return await fixture.consumer(first.topic, group=first.group, prime=False)


@case("reb.join-no-loss", rules=("R5.10", "R3.8"), timeout=150.0)
async def join_no_loss(fixture: Fixture) -> None:
    """A second consumer that joins under traffic costs no message, and doubles none but what was in flight."""
    first = await fixture.consumer(await fixture.topic())
    crew = _Crew(fixture)
    crew.join(first)
    sent = await _traffic(fixture, first.topic, 20)
    second = await _another(fixture, first)
    in_flight = {one.id for one in crew.held[first.client.client_id]}
    crew.join(second)
    sent += await _traffic(fixture, first.topic, 30)
    await crew.until(50, 30.0)
    await crew.disband()
    assert set(crew.acked) == {one.id for one in sent}
    assert crew.doubled() <= in_flight, f"came twice: {crew.doubled() - in_flight}"


@case("reb.join-gets-share", rules=("R3.8",), level=SHOULD, timeout=150.0)
async def join_gets_share(fixture: Fixture) -> None:
    """A consumer that joins gets at least a tenth of the next 200 messages."""
    first = await fixture.consumer(await fixture.topic())
    crew = _Crew(fixture)
    crew.join(first, batch=1)
    await _traffic(fixture, first.topic, 10)
    await crew.until(10, 30.0)
    second = await _another(fixture, first)
    crew.join(second, batch=1)
    await fixture.send_all(first.topic, [f"next{n}" for n in range(200)])
    await crew.until(210, 60.0)
    await crew.disband()
    share = crew.shares[second.client.client_id] / 200
    fixture.note("share", round(share, 3))
    assert share >= 0.1, f"the newcomer got {share:.0%}"


@case("reb.leave-clean", rules=("R2.16", "R7.9"), timeout=150.0)
async def leave_clean(fixture: Fixture) -> None:
    """Two of four consumers leave under traffic: nothing is lost, nothing acked comes back, the others take all."""
    members = [await fixture.consumer(await fixture.topic())]
    members += [await _another(fixture, members[0]) for _ in range(3)]
    crew = _Crew(fixture)
    for one in members:
        crew.join(one)
    sent = await _traffic(fixture, members[0].topic, 30)
    before = set(crew.acked)
    for one in members[:2]:
        await crew.leave(one)
    sent += await _traffic(fixture, members[0].topic, 20)
    # What a poll of a leaver took with it comes back when its lease is over.
    await crew.until(50, expiry(fixture.target, LEASE).high + PROMPT)
    await fixture.clock.sleep(expiry(fixture.target, LEASE).high)
    await crew.disband()
    assert set(crew.acked) == {one.id for one in sent}
    again = crew.doubled() & before
    assert not again, f"acknowledged before two consumers left, and came again: {again}"


@case("reb.crash", rules=("R7.1", "R2.15"), timeout=150.0)
async def crash(fixture: Fixture) -> None:
    """What a crashed consumer had in hand comes to the others after its lease, as the second attempt."""
    first = await fixture.consumer(await fixture.topic(1))
    victim = await _another(fixture, first)
    sent = await fixture.send(first.topic, *(f"m{n}" for n in range(6)))
    held = await victim.take(6, invisible=LEASE, settle=False)
    await victim.client.vanish()
    window = expiry(fixture.target, LEASE)
    seen = await first.take(6, within=window.high + PROMPT, batch=6)
    assert {one.id for one in seen} == {one.id for one in sent}
    by_id = {one.id: one for one in held}
    for one in seen:
        window.check_return(by_id[one.id], one)
        assert one.attempt == 2


@case("reb.crash-dups-bounded", rules=("R7.1",), timeout=200.0)
async def crash_dups_bounded(fixture: Fixture) -> None:
    """Of three consumers one crashes under traffic: only what it had in flight is delivered again."""
    members = [await fixture.consumer(await fixture.topic())]
    members += [await _another(fixture, members[0]) for _ in range(2)]
    victim = members[2]
    # Two that it will never acknowledge, whatever the moment of its crash.
    sent = await fixture.send(members[0].topic, "held0", "held1")
    in_flight = {one.id for one in await victim.take(2, invisible=LEASE, settle=False)}
    crew = _Crew(fixture)
    for one in members:
        crew.join(one)
    sent += await _traffic(fixture, members[0].topic, 30)
    in_flight |= {one.id for one in await crew.crash(victim)}
    sent += await _traffic(fixture, members[0].topic, 20)
    await crew.until(52, expiry(fixture.target, LEASE).high + 2 * PROMPT)
    await fixture.clock.sleep(expiry(fixture.target, LEASE).high)
    await crew.disband()
    assert set(crew.acked) == {one.id for one in sent}
    twice = {one.id for member in members for one in member.seen if one.attempt > 1} | crew.doubled()
    # A poll that was under way at the crash may have taken messages that its client never saw.
    unseen = {one.id for one in sent} - {one.id for one in victim.seen}
    assert twice <= in_flight | unseen, (
        f"came again without having been in flight: {twice - in_flight - unseen}"
    )
    assert in_flight <= twice, "what the crashed one held was not delivered again"


@case("reb.flap", rules=("R7.1", "R2.16"), level=SHOULD, timeout=400.0)
async def flap(fixture: Fixture) -> None:
    """A consumer that restarts every three seconds for a minute loses nothing and wastes no attempts."""
    first = await fixture.consumer(await fixture.topic())
    crew = _Crew(fixture)
    traffic = fixture.background(_traffic(fixture, first.topic, 100, every=0.6))
    current = first
    for _ in range(20):
        crew.join(current)
        await fixture.clock.sleep(3.0)
        await crew.leave(current)
        current = await _another(fixture, first)
    sent = await traffic
    crew.join(current)
    await crew.until(100, 2 * expiry(fixture.target, LEASE).high + 2 * PROMPT)
    await crew.disband()
    assert set(crew.acked) == {one.id for one in sent}
    most = max(one.attempt for done in crew.acked.values() for one in done)
    fixture.note("most attempts", most)
    assert most <= 16


@case("reb.all-leave-return", rules=("R10.3", "R2.16"), timeout=200.0)
async def all_leave_return(fixture: Fixture) -> None:
    """A group that comes back goes on where it stood: all that was sent meanwhile, nothing from before."""
    before = await fixture.consumer(await fixture.topic())
    await fixture.send(before.topic, *(f"old{n}" for n in range(5)))
    await before.take(5)
    await before.client.close()
    backlog = await fixture.send(before.topic, *(f"new{n}" for n in range(20)))
    await fixture.clock.sleep(30.0)
    after = await _another(fixture, before)
    seen = await after.take(20, within=2 * PROMPT)
    seen += await fixture.deliveries_within(after, SHORT_POLL)
    assert Counter(one.id for one in seen) == Counter(one.id for one in backlog)


@case("reb.fifo-handover", rules=("R8.7", "R8.12"), needs=("type.fifo",), timeout=200.0)
async def fifo_handover(fixture: Fixture) -> None:
    """When the holder of a message group crashes, another one goes on in order, not before the lease is over."""
    holder = await fixture.consumer(await fixture.topic(1, type="FIFO"), ordered=True)
    other = await _another(fixture, holder)
    sent = await fixture.backlog(holder.topic, *map(str, range(6)), group=fixture.fresh("mg"))
    held = await holder.take(2, batch=2, invisible=LEASE, settle=False)
    assert [one.id for one in held] == [one.id for one in sent[:2]]
    await holder.client.vanish()
    window = expiry(fixture.target, LEASE, ordered=True)
    seen = await other.take(6, within=window.high + 2 * PROMPT, batch=2)
    assert [one.id for one in seen] == [one.id for one in sent], "out of order"
    window.check_return(held[0], seen[0])


@case("reb.queue-increase", rules=("R3.1", "R5.10"), level=SHOULD, timeout=240.0)
async def queue_increase(fixture: Fixture) -> None:
    """A topic that grows from two queues to eight under traffic loses nothing, and the new queues are consumed."""
    first = await fixture.consumer(await fixture.topic(2))
    crew = _Crew(fixture)
    crew.join(first)
    sent = await _traffic(fixture, first.topic, 10)
    await fixture.target.create_topic(first.topic, queues=8)
    began = fixture.clock.now()
    while len({one.queue for one in first.seen}) < 8:
        # Proxies see the change with their next look at the route.
        assert fixture.clock.now() < began + 60.0, (
            f"consumed from {sorted({one.queue for one in first.seen})}"
        )
        sent += await _traffic(fixture, first.topic, 4, every=0.5)
    fixture.note("all queues after", round(fixture.clock.now() - began, 1))
    await crew.until(len(sent), 30.0)
    await crew.disband()
    assert set(crew.acked) == {one.id for one in sent}
    assert not crew.doubled()


@case("reb.topic-recreated", rules=("R10.3",), level=INFORMATIONAL, needs=("@delete",), timeout=200.0)
async def topic_recreated(fixture: Fixture) -> None:
    """What a group sees of a topic that was deleted and made again is recorded."""
    consumer = await fixture.consumer(await fixture.topic(1))
    await fixture.send(consumer.topic, "old0", "old1", "old2")
    await consumer.take(1, batch=1)
    await fixture.target.delete_topic(consumer.topic)
    await fixture.target.create_topic(consumer.topic, queues=1)
    (fresh,) = await fixture.send(consumer.topic, "fresh")
    seen = await consumer.watch(2 * PROMPT, settle=True)
    fixture.note("offset of the first message", fresh.receipt.offset)
    fixture.note("seen", ",".join(one.text for one in seen))
