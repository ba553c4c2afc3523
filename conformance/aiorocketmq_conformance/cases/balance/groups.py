"""Several consumers of a group, and several groups of a topic: inventory 4.13, the rows without a rebalance."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import NamedTuple

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import SHORT_POLL, Consumer
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.tolerances import PROMPT


async def _members(fixture: Fixture, count: int, *, queues: int = 4, **arguments: object) -> list[Consumer]:
    """Return `count` consumers of one fresh topic in one fresh group."""
    topic = await fixture.topic(queues, type=str(arguments.pop("type", "NORMAL")))
    first = await fixture.consumer(topic, ordered=bool(arguments.pop("ordered", False)))
    return [
        first,
        *[await fixture.consumer(topic, group=first.group, prime=False) for _ in range(count - 1)],
    ]


class _Pool:
    """Consumers that run concurrently until a number of messages are acknowledged."""

    def __init__(self, fixture: Fixture, count: int, within: float) -> None:
        self._fixture = fixture
        self._left = count
        self._end = fixture.clock.now() + within
        self.done: dict[str, list[Delivery]] = defaultdict(list)

    async def work(self, consumer: Consumer, *, batch: int, each: float = 0.0) -> None:
        """Receive, process every message for `each` seconds, and ack it."""
        while self._left > 0 and self._fixture.clock.now() < self._end:
            answer = await consumer.receive(batch=batch, poll=SHORT_POLL)
            for one in answer.deliveries:
                if each:
                    await self._fixture.clock.sleep(each)
                await consumer.ack(one)
                self.done[consumer.client.client_id].append(one)
                self._left -= 1

    @property
    def deliveries(self) -> list[Delivery]:
        """Return all acknowledged deliveries."""
        return [one for each in self.done.values() for one in each]


@case("lb.share-no-overlap", rules=("R5.10", "R8.16"), timeout=120.0)
async def share_no_overlap(fixture: Fixture) -> None:
    """Three concurrent consumers of one group receive 200 messages, each message once."""
    members = await _members(fixture, 3)
    sent = await fixture.send_all(members[0].topic, [f"m{n}" for n in range(200)])
    pool = _Pool(fixture, 200, 60.0)
    await asyncio.gather(*(pool.work(one, batch=5) for one in members))
    once_each(sent, pool.deliveries)


@case("lb.even-4", rules=("R3.8",), level=SHOULD, timeout=150.0)
async def even_4(fixture: Fixture) -> None:
    """Four equally fast consumers each receive 15 to 35 % of a steady stream."""
    members = await _members(fixture, 4, queues=8)
    pool = _Pool(fixture, 240, 100.0)

    async def produce() -> None:
        for burst in range(60):
            await fixture.send(members[0].topic, *(f"m{burst}-{n}" for n in range(4)))
            await fixture.clock.sleep(0.1)

    await asyncio.gather(produce(), *(pool.work(one, batch=1, each=0.1) for one in members))
    shares = sorted(len(pool.done[one.client.client_id]) / 240 for one in members)
    fixture.note("shares", str([round(share, 3) for share in shares]))
    assert len(pool.deliveries) == 240, f"{len(pool.deliveries)} of 240 messages were acknowledged in time"
    assert shares[0] >= 0.15, f"the slowest got {shares[0]:.0%}"
    assert shares[-1] <= 0.35, f"the fastest got {shares[-1]:.0%}"


@case("lb.more-consumers-than-queues", rules=("R3.8", "R5.10"), timeout=120.0)
async def more_consumers_than_queues(fixture: Fixture) -> None:
    """On one queue at least three of four consumers receive messages: balancing is per message, not per queue."""
    members = await _members(fixture, 4, queues=1)
    sent = await fixture.send_all(members[0].topic, [f"m{n}" for n in range(200)])
    pool = _Pool(fixture, 200, 60.0)
    await asyncio.gather(*(pool.work(one, batch=4, each=0.05) for one in members))
    once_each(sent, pool.deliveries)
    active = sum(bool(done) for done in pool.done.values())
    fixture.note("active", active)
    assert active >= 3, f"{active} of 4 consumers got anything"


class _Spent(NamedTuple):
    seconds: float
    pool: _Pool


async def _spent(fixture: Fixture, members: list[Consumer], spans: tuple[float, ...]) -> _Spent:
    """Return how long consumers with these processing times take for 120 messages."""
    sent = await fixture.send_all(members[0].topic, [f"m{n}" for n in range(120)])
    pool = _Pool(fixture, 120, 100.0)
    began = fixture.clock.now()
    await asyncio.gather(
        *(pool.work(one, batch=2, each=span) for one, span in zip(members, spans, strict=True))
    )
    once_each(sent, pool.deliveries)
    return _Spent(fixture.clock.now() - began, pool)


@case("lb.slow-consumer", rules=("R5.10", "R5.12"), level=SHOULD, timeout=300.0)
async def slow_consumer(fixture: Fixture) -> None:
    """A consumer ten times slower than the other two does not delay them: they process nearly all messages."""
    members = await _members(fixture, 3)
    alone = await _spent(fixture, members[:2], (0.1, 0.1))
    took = await _spent(fixture, members, (0.1, 0.1, 1.0))
    fixture.note("took", round(took.seconds, 2))
    # Calibration with the two fast ones alone: 6 s on an idle machine. The end may wait for one slow batch and one
    # empty poll.
    allowed = 1.5 * alone.seconds + 2.0 + SHORT_POLL + 5 * fixture.clock.traffic.slowest_answer()
    assert took.seconds <= allowed + PROMPT, (
        f"{took.seconds:.1f} s, two fast ones alone {alone.seconds:.1f} s"
    )
    pool = took.pool
    assert len(pool.done[members[2].client.client_id]) <= 40


@case("lb.groups-independent", rules=("R10.1",), timeout=120.0)
async def groups_independent(fixture: Fixture) -> None:
    """Three groups of two consumers concurrently receive all of 100 messages each."""
    topic = await fixture.topic()
    teams = []
    for _ in range(3):
        first = await fixture.consumer(topic)
        teams.append([first, await fixture.consumer(topic, group=first.group, prime=False)])
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(100)])
    drains = [_Pool(fixture, 100, 60.0) for _ in teams]
    await asyncio.gather(
        *(pool.work(one, batch=4) for pool, team in zip(drains, teams, strict=True) for one in team)
    )
    for pool in drains:
        once_each(sent, pool.deliveries)


@case("lb.stalled-group-isolated", rules=("R10.1", "R5.12"), timeout=90.0)
async def stalled_group_isolated(fixture: Fixture) -> None:
    """A group that receives everything and acks nothing does not delay another group."""
    topic = await fixture.topic()
    stalled, other = await fixture.consumer(topic), await fixture.consumer(topic)
    sent = await fixture.send_all(topic, [f"m{n}" for n in range(60)])
    await stalled.take(60, settle=False, invisible=120.0)
    deliveries = await other.take(60)
    once_each(sent, deliveries)
    assert {one.attempt for one in deliveries} == {1}
    late = await fixture.send(topic, "late")
    assert [one.id for one in await other.take(1)] == [late[0].id]


@case(
    "lb.all-queues-served",
    rules=("R3.7", "R5.13"),
    needs=("type.fifo",),
    params={"1": 1, "2": 2, "4": 4},
    timeout=150.0,
)
async def all_queues_served(fixture: Fixture, count: int) -> None:
    """{} consumer(s) receive everything from all eight queues."""
    members = await _members(fixture, count, queues=8, type="FIFO")
    for lane in range(24):
        await fixture.send(members[0].topic, *(f"{lane}-{n}" for n in range(4)), group=fixture.fresh("mg"))
    pool = _Pool(fixture, 96, 60.0)
    await asyncio.gather(*(pool.work(one, batch=8) for one in members))
    queues = Counter(one.queue for one in pool.deliveries)
    assert len(pool.deliveries) == 96, (
        f"{96 - len(pool.deliveries)} of 96 messages were never delivered: {queues}"
    )
    assert len(queues) >= 6, f"24 message groups are in {len(queues)} of eight queues only"
    # Every queue is in a consumer's assignment.
    assigned: set[int] = set()
    for one in members:
        answer = await one.client.query_assignment(one.topic, one.group)
        for each in answer.assignments:
            assigned |= set(range(8)) if each.message_queue.id == -1 else {each.message_queue.id}
    assert assigned == set(range(8))


@case("lb.fifo-spread", rules=("R8.5", "R8.16"), level=SHOULD, needs=("type.fifo",), timeout=180.0)
async def fifo_spread(fixture: Fixture) -> None:
    """Of four consumers of sixty-four message groups at least two receive messages, each message group in order."""
    members = await _members(fixture, 4, queues=8, type="FIFO", ordered=True)
    groups = [fixture.fresh("mg") for _ in range(64)]
    for n in range(5):
        await asyncio.gather(*(fixture.send(members[0].topic, str(n), group=group) for group in groups))
    pool = _Pool(fixture, 320, 90.0)
    await asyncio.gather(*(pool.work(one, batch=8) for one in members))
    numbers: dict[str, list[int]] = defaultdict(list)
    for one in sorted(pool.deliveries, key=lambda one: one.serial):
        numbers[one.message_group].append(int(one.text))
    wrong = {group: numbers[group] for group in groups if numbers[group] != list(range(5))}
    assert not wrong, f"{len(wrong)} of 64 message groups out of order, for example {wrong.popitem()}"
    active = sum(bool(done) for done in pool.done.values())
    fixture.note("active", active)
    assert active >= 2, "one consumer did all the work"


@case("lb.mixed-subscription", rules=("R5.22",), level=INFORMATIONAL, timeout=120.0)
async def mixed_subscription(fixture: Fixture) -> None:
    """Two consumers of one group with different tags (misuse) together still receive all messages of both tags."""
    topic = await fixture.topic()
    one = await fixture.consumer(topic, expression="a")
    two = await fixture.consumer(topic, group=one.group, expression="b", prime=False)
    sent = []
    for n in range(40):
        sent += await fixture.send(topic, f"m{n}", tag="ab"[n % 2])
    deliveries = [
        each
        for pair in await asyncio.gather(
            one.receive_for(20.0, settle=True), two.receive_for(20.0, settle=True)
        )
        for each in pair
    ]
    fixture.note("delivered", len({each.id for each in deliveries}))
    once_each(sent, deliveries)
