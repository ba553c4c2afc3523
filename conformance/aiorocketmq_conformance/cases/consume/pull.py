"""Reading queues by offset: the pull calls, inventory 4.9.

Apache's proxies do not serve them, but brokers do over remoting.
"""

from __future__ import annotations

import asyncio
import itertools

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import PULL, RemotingReader, Wire, on_both_wires, trim
from aiorocketmq_conformance.consumer import Consumer
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.queues import get_offset, pull, query_offset, queue_of, update_offset
from aiorocketmq_conformance.tolerances import PROMPT, wake_window
from aiorocketmq_conformance.verdicts import NotApplicable

LIVE_PULL, LIVE_OFFSETS = "live-broker-remoting.md 4", "live-broker-remoting.md 5"
DAY = 86_400.0
NOT_SERVED = {"UNIMPLEMENTED", "NOT_IMPLEMENTED", "UNSUPPORTED"}


@case(
    "pull.absent-is-clean",
    rules=("R10.1",),
    params={name: name for name in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")},
)
async def absent_is_clean(fixture: Fixture, name: str) -> None:
    """A server that does not serve {} refuses it: it never answers as if it did."""
    if fixture.target.has("pull"):
        raise NotApplicable("this target serves the pull calls")
    topic, consumer = await fixture.subscribed(1, prime=False)
    await fixture.send(topic, "m0")
    code = await _code_of_call(consumer, name)
    assert code in NOT_SERVED, f"{name} was answered with {code}"


async def _code_of_call(consumer: Consumer, name: str) -> str:
    """Return the code of one of the calls: that of its response, or of the call itself."""
    client, group, queue = consumer.client, consumer.group, queue_of(consumer.topic, 0)
    try:
        if name == "UpdateOffset":
            return code_of(await update_offset(client, group, queue, 1))
        if name == "GetOffset":
            return code_of(await get_offset(client, group, queue))
        if name == "QueryOffset":
            return code_of(await query_offset(client, queue, "END"))
    except CallFailed as failure:
        return failure.code
    answer = await pull(client, group, queue, 0)
    assert not answer.deliveries
    return answer.error or code_name(answer.code)


@on_both_wires("pull.from-offset", rules=("R10.1",), remoting_rules=(LIVE_PULL,))
async def from_offset(fixture: Fixture, wire: Wire) -> None:
    """A pull of ten from offset 0 returns the first ten in order, and the next offset."""
    reader = await wire(fixture)
    await reader.send(20)
    page = await reader.pull(0, batch=10)
    assert page.outcome == "found"
    assert page.texts == _texts(10)
    assert page.next_offset == 10


@on_both_wires("pull.repeatable", rules=("R10.1",))
async def repeatable(fixture: Fixture, wire: Wire) -> None:
    """A repeated pull returns the same messages: pulls neither hide messages nor need acks."""
    reader = await wire(fixture)
    await reader.send(5)
    first = await reader.pull(0)
    second = await reader.pull(0)
    assert first.texts == second.texts == _texts(5)
    assert first.next_offset == second.next_offset == 5


@on_both_wires("pull.not-shared-with-pop", rules=("R10.1",))
async def not_shared_with_pop(fixture: Fixture, wire: Wire) -> None:
    """Pulled messages are still delivered to consumers of the group that receive."""
    topic, consumer = await fixture.subscribed(1)
    reader = await wire(fixture, topic=topic, group=consumer.group)
    sent = await fixture.send(topic, *_texts(5))
    await reader.wait_visible(5)
    assert len((await reader.pull(0)).texts) == 5
    once_each(sent, await consumer.take(5))


@on_both_wires("pull.next-offset-chain", rules=("R10.1",))
async def next_offset_chain(fixture: Fixture, wire: Wire) -> None:
    """A reader that follows the returned next offsets reads each of 100 messages once, in order."""
    reader = await wire(fixture)
    await reader.send(100)
    texts: tuple[str, ...] = ()
    offset = 0
    while len(texts) < 100:
        page = await reader.pull(offset, batch=7)
        assert page.texts, f"nothing at offset {offset}"
        assert page.next_offset is not None
        texts += page.texts
        offset = page.next_offset
    assert texts == _texts(100)


@on_both_wires("pull.filter-advances", rules=("R10.1", "R5.23"), remoting_rules=(LIVE_PULL,))
async def filter_advances(fixture: Fixture, wire: Wire) -> None:
    """A pull of one tag returns only that, and its next offset is after the filtered messages."""
    reader = await wire(fixture)
    for _ in range(5):
        await reader.send(1, tag="a")
        await reader.send(1, tag="b")
    page = await reader.pull(0, tag="a")
    assert page.tags == ("a",) * 5
    assert page.next_offset == 10
    nothing = await reader.pull(0, tag="none", poll=0.0)
    assert not nothing.texts
    assert nothing.next_offset == 10


@on_both_wires("pull.empty-waits", rules=("R10.1",), remoting_rules=(LIVE_PULL,))
async def empty_waits(fixture: Fixture, wire: Wire) -> None:
    """A pull at the end of a queue waits for its poll time, and then returns the same offset."""
    reader = await wire(fixture)
    await reader.send(3)
    page = await reader.pull(3, poll=5.0)
    assert page.outcome == "nothing"
    assert page.next_offset == 3
    reader.empty(5.0).check(page.took, "an empty pull ended")


@on_both_wires("pull.empty-wakes", rules=("R10.1",), remoting_rules=(LIVE_PULL,))
async def empty_wakes(fixture: Fixture, wire: Wire) -> None:
    """A new message completes a waiting pull at once."""
    reader = await wire(fixture)
    waiting = asyncio.create_task(reader.pull(0, poll=15.0))
    await fixture.clock.sleep(3.0)
    assert not waiting.done(), "the pull ended before anything was sent"
    (sent,) = await reader.send(1)
    page = await waiting
    assert page.ids == (sent.id,)
    wake_window(fixture.target).check(page.at - sent.acked_at, "the waiting pull was answered")


@on_both_wires("pull.many-waiters", rules=("R10.1",), remoting_rules=(LIVE_PULL,))
async def many_waiters(fixture: Fixture, wire: Wire) -> None:
    """A new message completes all pulls that wait at the end of its queue; a pull of a stored one does not wait."""
    readers = [await wire(fixture)]
    readers += [await wire(fixture, topic=readers[0].topic) for _ in range(2)]
    (first,) = await readers[0].send(1)
    waiting = [fixture.background(reader.pull(1, poll=15.0)) for reader in readers]
    assert (await readers[0].pull(0, poll=15.0)).ids == (first.id,)
    await fixture.clock.sleep(3.0)
    assert not any(each.done() for each in waiting), "a pull ended before anything was sent"
    sent = await readers[0].send_one("m1")
    for each in waiting:
        page = await each
        assert (page.ids, page.next_offset) == ((sent.id,), 2)
        wake_window(fixture.target).check(page.at - sent.acked_at, "a waiting pull was answered")


@on_both_wires("pull.batch-cap", rules=("R5.3",))
async def batch_cap(fixture: Fixture, wire: Wire) -> None:
    """No pull returns more than the largest batch, whatever it requests."""
    reader = await wire(fixture)
    await reader.send(50)
    page = await reader.pull(0, batch=50)
    assert 1 <= len(page.texts) <= fixture.number("batch.max")
    assert page.next_offset == len(page.texts)


@on_both_wires(
    "pull.illegal-offset",
    rules=("R10.1",),
    remoting_rules=(LIVE_PULL,),
    params={"-1": (-1, 0), "beyond": (7, 3)},
)
async def illegal_offset(fixture: Fixture, wire: Wire, row: tuple[int, int]) -> None:
    """A pull outside of the queue ({}) returns the nearest valid offset, and no messages."""
    offset, nearest = row
    reader = await wire(fixture)
    await reader.send(3)
    page = await reader.pull(offset)
    assert page.outcome == "illegal"
    assert not page.texts
    assert page.next_offset == nearest


@on_both_wires("pull.trimmed-offset", rules=("R11.2",), needs=("@trim",), timeout=300.0)
async def trimmed_offset(fixture: Fixture, wire: Wire) -> None:
    """A pull of an offset that retention has deleted returns the first offset left, as does a query of an earlier
    time."""
    reader = await wire(fixture)
    await reader.send(3)
    await trim(reader)
    page = await reader.pull(0)
    assert not page.texts
    assert page.next_offset == 3
    assert (await reader.pull(3)).texts == ("m0",)
    now = fixture.clock.wall()
    offsets = [await reader.query_offset("TIMESTAMP", now + seconds) for seconds in (-DAY, DAY)]
    assert offsets == [3, 4]
    if isinstance(reader, RemotingReader):
        for seconds in (-DAY, DAY):
            assert await reader.probe.offset_at(reader.topic, now + seconds, boundaryType="UPPER") == 3


@on_both_wires("pull.update-get-offset", rules=("R10.1",), remoting_rules=(LIVE_OFFSETS,))
async def update_get_offset(fixture: Fixture, wire: Wire) -> None:
    """An offset that was committed is returned."""
    reader = await wire(fixture)
    await reader.send(10)
    await reader.commit(7)
    assert await reader.committed() == 7


@on_both_wires("pull.get-offset-none", rules=("R10.1",), remoting_rules=(LIVE_OFFSETS,))
async def get_offset_none(fixture: Fixture, wire: Wire) -> None:
    """A group that never committed an offset gets OFFSET_NOT_FOUND, not 0."""
    reader = await wire(fixture)
    assert await reader.committed() is None


@on_both_wires("pull.update-backwards", rules=("R10.1",), remoting_rules=(LIVE_OFFSETS,))
async def update_backwards(fixture: Fixture, wire: Wire) -> None:
    """A smaller offset than the last one can be committed."""
    reader = await wire(fixture)
    await reader.send(10)
    await reader.commit(7)
    await reader.commit(3)
    assert await reader.committed() == 3


@on_both_wires("pull.offset-per-group", rules=("R10.1",))
async def offset_per_group(fixture: Fixture, wire: Wire) -> None:
    """Each group has offsets of its own."""
    one = await wire(fixture)
    two = await wire(fixture, topic=one.topic)
    await one.commit(1)
    await two.commit(2)
    await one.commit(5)
    assert (await one.committed(), await two.committed()) == (5, 2)


@on_both_wires("pull.offset-survives-restart", rules=("R10.4", "R12.7"), needs=("@restart",), timeout=400.0)
async def offset_survives_restart(fixture: Fixture, wire: Wire) -> None:
    """A committed offset survives a restart."""
    reader = await wire(fixture)
    await reader.commit(7)
    await fixture.clock.sleep(6.0)
    await fixture.target.restart()
    assert await reader.committed() == 7


@on_both_wires("pull.query-begin-end", rules=("R10.7",))
async def query_begin_end(fixture: Fixture, wire: Wire) -> None:
    """The beginning of a queue of 20 messages is 0, its end 20."""
    reader = await wire(fixture)
    await reader.send(20)
    assert (await reader.query_offset("BEGINNING"), await reader.query_offset("END")) == (0, 20)


@on_both_wires("pull.query-time", rules=("R10.7",), remoting_rules=(LIVE_OFFSETS,))
async def query_time(fixture: Fixture, wire: Wire) -> None:
    """The offset of a time is that of the first message stored then or later, as exactly as declared; after the last
    message it is the end."""
    reader = await wire(fixture)
    slack = fixture.number("offset.slack")
    # At exact times, only where these are known.
    around = {-1.5: 0, -0.001: 0, 0.0: 0, 0.001: 1, 1.5: 1} if slack == 0 else {-1.5: 0, 1.5: 1}
    bursts = []
    for _ in range(3):
        bursts.append(int(fixture.clock.wall() * 1000 + 0.01) / 1000)  # servers cut off the rest
        await reader.send(10)
        await fixture.clock.sleep(3.0)
    for number, burst in enumerate(bursts):
        for seconds, later in around.items():
            offset = await reader.query_offset("TIMESTAMP", burst + seconds)
            expected = 10 * (number + later)
            assert offset is not None
            assert abs(offset - expected) <= slack, f"offset {offset} {seconds:+g} s from burst {number}"


@case("pull.assignment-exclusive", rules=("R3.7",), level=EXTENSION, needs=(*PULL, "pull-balance"))
async def assignment_exclusive(fixture: Fixture) -> None:
    """Pull consumers of a group are assigned all queues, each to one of them, and as evenly as they can be divided,
    while others join, leave, and go over to another group."""
    kind = pb.ClientType.PULL_CONSUMER
    elsewhere = await fixture.group()
    for queues, most in ((4, 2), (5, 3), (7, 4), (2, 3)):
        topic, group = await fixture.topic(queues), await fixture.group()
        consumers: list[Consumer] = []
        for change in (*["join"] * most, "move", *["leave"] * (most - 2)):
            if change == "join":
                consumers.append(await fixture.consumer(topic, group=group, kind=kind, prime=False))
            elif change == "move":
                settings = requests.consumer_settings(elsewhere, {topic: "*"}, kind)
                await consumers.pop(0).client.send_settings(settings)
            else:
                await consumers.pop(0).client.close()
            shares = [await _assigned(consumer) for consumer in consumers]
            assert sorted(itertools.chain(*shares)) == list(range(queues)), f"queues of all: {shares}"
            sizes = {len(share) for share in shares}
            assert max(sizes) - min(sizes) <= 1, f"uneven: {shares}"


async def _assigned(consumer: Consumer) -> list[int]:
    answer = await consumer.client.query_assignment(consumer.topic, consumer.group)
    assert code_of(answer) == "OK"
    return sorted(each.message_queue.id for each in answer.assignments)


@on_both_wires("pull.no-ack-replays", rules=("R10.1",))
async def no_ack_replays(fixture: Fixture, wire: Wire) -> None:
    """Without a commit the same messages are read again from the committed offset, also by another client."""
    reader = await wire(fixture)
    await reader.send(10)
    await reader.commit(4)
    first = await reader.pull(await reader.committed() or 0)
    other = await wire(fixture, topic=reader.topic, group=reader.group)
    page = await other.pull(await other.committed() or 0)
    assert first.texts == page.texts == _texts(10)[4:]
    assert page.took < PROMPT


def _texts(count: int) -> tuple[str, ...]:
    return tuple(f"m{n}" for n in range(count))
