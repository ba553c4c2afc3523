"""Pull consumers over the remoting protocol: queues assigned by hand, and shared by the members of a group."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import (
    Broadcast,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    Recorder,
    SimpleConsumer,
    Sql,
    Timeouts,
)
from aiorocketmq.allocation import Allocation, AveragelyByCircle, ConsistentHash
from aiorocketmq.errors import (
    IllegalFilterError,
    QueueRevokedError,
    TopicNotFoundError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import AssignEvent, Event, Hook
from aiorocketmq.pull_consumer import Offset, PullBatch
from anyio import run_process

from sdk.tests.pages import functions_of

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ("apache-5.5",)


class News:
    """What the members of a group have read, and a way to wait for what is still to happen."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()
        self.happened = asyncio.Event()

    async def until(self, predicate: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not predicate():
                self.happened.clear()
                await self.happened.wait()

    async def contain(self, wanted: set[bytes]) -> None:
        """Wait until all of these were read."""
        await self.until(lambda: wanted <= self.seen.keys())


class Assignments(Hook):
    """Keeps the queues of a member."""

    def __init__(self, news: News) -> None:
        self.queues: tuple[MessageQueue, ...] = ()
        self._news = news

    def observe(self, event: Event) -> None:
        if isinstance(event, AssignEvent):
            self.queues = event.queues
            self._news.happened.set()


class Member:
    """A member of a group that reads and commits until it is closed."""

    def __init__(
        self, place: Place, topic: str, group: str, news: News, *, hooks: Sequence[Hook] = (), **options: Any
    ) -> None:
        self._assignments = Assignments(news)
        self.consumer = PullConsumer(
            place.namesrv,
            group=group,
            topics=[topic],
            hooks=[self._assignments, *hooks],
            auto_commit=0.2,
            wait=5.0,
            **options,
        )
        self._news = news
        self._task: asyncio.Task[None] | None = None

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """What it owns."""
        return self._assignments.queues

    async def __aenter__(self) -> Member:
        await self.consumer.__aenter__()
        self._task = asyncio.create_task(self._loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.consumer.__aexit__(None, None, None)

    async def _loop(self) -> None:
        async for batch in self.consumer:
            self._news.seen.update(message.body for message in batch)
            self._news.happened.set()


async def send(place: Place, topic: str, first: int, last: int, **options: Any) -> set[bytes]:
    bodies = [b"%d" % number for number in range(first, last)]
    async with Producer(place.namesrv, topics=[topic], **options) as producer:
        for body in bodies:
            tag = "even" if int(body) % 2 == 0 else "odd"
            await producer.send(Message(topic, body, tag=tag, properties={"number": body.decode()}))
    return set(bodies)


async def read(consumer: PullConsumer, count: int) -> list[PullBatch]:
    batches: list[PullBatch] = []
    async with asyncio.timeout(30):
        while sum(map(len, batches)) < count:
            batch = await consumer.poll(10.0)
            if batch is not None:
                batches.append(batch)
    return batches


def bodies(batches: Sequence[PullBatch]) -> list[bytes]:
    return [message.body for batch in batches for message in batch]


async def test_assigned_queues_are_read_committed_and_taken_up_again(place: Place) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    sent = await send(place, topic, 0, 50)
    async with PullConsumer(place.namesrv, group=group) as consumer:
        queues = await consumer.queues(topic)
        assert [queue.id for queue in queues] == [0, 1, 2]
        consumer.assign(queues)
        batches = await read(consumer, 50)
        assert Counter(bodies(batches)) == Counter(sent)
        for batch in batches:
            assert [message.offset for message in batch] == sorted(message.offset for message in batch)
            await consumer.commit(batch)
        assert sum((await consumer.lag()).values()) == 0
        message = batches[0][0]
        assert (message.tag, message.properties) == (
            "even" if int(message.body) % 2 == 0 else "odd",
            {"number": message.body.decode()},
        )
        assert message.stored_at is not None
        assert consumer.health().is_ready
    more = await send(place, topic, 50, 60)
    async with PullConsumer(place.namesrv, group=group) as consumer:
        consumer.assign(await consumer.queues(topic))
        assert Counter(bodies(await read(consumer, 10))) == Counter(more)


async def test_reading_continues_where_it_seeks(place: Place) -> None:
    place.needs_5("it takes the nearest message for a time")
    topic, group = await place.topic(), await place.group()
    await send(place, topic, 0, 5)
    await asyncio.sleep(0.05)
    between = datetime.now(UTC)
    await send(place, topic, 5, 10)
    async with PullConsumer(place.namesrv, group=group, start=Offset.END) as consumer:
        (queue,) = await consumer.queues(topic)
        assert await consumer.committed(queue) is None
        consumer.assign([queue])
        assert await consumer.position(queue) == 10
        places: list[tuple[Offset | int | datetime, int]] = [
            (Offset.BEGIN, 0),
            (7, 7),
            (between, 5),
            (Offset.BEGIN, 0),
        ]
        for where, first in places:
            await consumer.seek(queue, where)
            batches = await read(consumer, 10 - first)
            assert bodies(batches)[:1] == [b"%d" % first]
        await consumer.seek(queue, 99)  # the server corrects it
        await send(place, topic, 10, 11)
        assert bodies(await read(consumer, 1)) == [b"10"]


async def test_filters_leave_messages_out(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    await send(place, topic, 0, 6)
    for filter_, expected in (("even", ["0", "2", "4"]), (Sql("number > 3"), ["4", "5"])):
        async with PullConsumer(place.namesrv, group=group, filters={topic: filter_}) as consumer:
            consumer.assign(await consumer.queues(topic))
            assert [body.decode() for body in bodies(await read(consumer, len(expected)))] == expected


async def test_a_filter_that_the_server_cannot_read_ends_the_reading(place: Place) -> None:
    """It would deliver every message."""
    topic, group = await place.topic(), await place.group()
    await send(place, topic, 0, 2)
    async with PullConsumer(place.namesrv, group=group, filters={topic: Sql("number >")}) as consumer:
        consumer.assign(await consumer.queues(topic))
        with pytest.raises(IllegalFilterError):
            await read(consumer, 1)


@pytest.mark.parametrize("allocation", [None, AveragelyByCircle(), ConsistentHash(100)], ids=str)
async def test_members_share_the_queues_and_lose_nothing_when_they_come_and_go(
    place: Place, allocation: Allocation | None
) -> None:
    topic, group = await place.topic(queues=7), await place.group()
    news = News()
    options: dict[str, Any] = {} if allocation is None else {"allocation": allocation}
    sent = await send(place, topic, 0, 40)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Member(place, topic, group, news, **options))
        await news.until(lambda: len(first.queues) == 7)
        everything = sorted(first.queues)
        await news.contain(sent)
        second = await stack.enter_async_context(Member(place, topic, group, news, **options))
        async with Member(place, topic, group, news, **options) as third:
            members = (first, second, third)
            # By consistent hashing, one of three members has none of seven queues in one run of six.
            may_be_idle = isinstance(allocation, ConsistentHash)
            await news.until(
                lambda: (
                    (may_be_idle or all(member.queues for member in members))
                    and sorted(queue for member in members for queue in member.queues) == everything
                )
            )
            if not may_be_idle:
                assert sorted(len(member.queues) for member in members) == [2, 2, 3]
            sent |= await send(place, topic, 40, 80)
            await news.contain(sent)
        sent |= await send(place, topic, 80, 120)
        await news.contain(sent)
        await news.until(lambda: sorted(first.queues + second.queues) == everything)
    assert news.seen.keys() == sent


async def test_in_ordered_groups_no_two_members_read_a_queue_at_a_time(place: Place) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    news = News()
    reading: dict[MessageQueue, Member] = {}
    offsets: dict[MessageQueue, int] = {}

    class InOrder(Member):
        is_leaving = False

        async def _loop(self) -> None:
            async for batch in self.consumer:
                assert reading.setdefault(batch.queue, self) is self
                for message in batch:
                    assert message.offset == offsets.get(batch.queue, 0)
                    offsets[batch.queue] = message.offset + 1
                    await asyncio.sleep(0.01)  # a handler's work, during which queues move
                    news.seen[message.body] += 1
                if self.is_leaving:
                    await self.consumer.commit(batch)
                del reading[batch.queue]
                news.happened.set()
                if self.is_leaving:
                    return

        async def __aexit__(self, *_: object) -> None:
            self.is_leaving = True
            assert self._task is not None
            await asyncio.wait([self._task], timeout=2)  # until its batch is done, if it has one
            await super().__aexit__()
            self._task.cancelled() or self._task.result()

    async def has_read(count: int) -> None:
        await news.until(lambda: len(news.seen) >= count)

    sent = await send(place, topic, 0, 300)
    options: dict[str, Any] = {"ordered": True, "max_messages": 8}
    async with AsyncExitStack() as stack:
        async with InOrder(place, topic, group, news, **options):
            await has_read(60)
            await stack.enter_async_context(InOrder(place, topic, group, news, **options))
            await has_read(120)
        await has_read(180)
        await stack.enter_async_context(InOrder(place, topic, group, news, **options))
        await news.contain(sent)
    assert max(news.seen.values()) == 1


@pytest.mark.slow
async def test_the_audit_of_a_recording_with_moves_reports_no_violation(place: Place, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    topic, group = await place.topic(queues=5), await place.group()
    news = News()
    async with AsyncExitStack() as stack:
        hooks = [stack.enter_context(Recorder(tmp_path))]
        first = await stack.enter_async_context(Member(place, topic, group, news, hooks=hooks))
        sent = await send(place, topic, 0, 40, hooks=hooks)
        async with Member(place, topic, group, news, hooks=hooks) as second:
            await news.until(lambda: len(second.queues) in (2, 3))
            sent |= await send(place, topic, 40, 80, hooks=hooks)
            await news.contain(sent)
        await news.until(lambda: len(first.queues) == 5)
    required = "origin,queues,commits"
    command = (sys.executable, "-m", "aiorocketmq_audit", str(tmp_path), "--json", "--require", required)
    report = json.loads((await run_process(command, check=False)).stdout)
    assert report["verdict"] == "valid", report
    judged = {check["name"]: check["judged"] for check in report["checks"]}
    assert judged["origin"] >= 80


async def test_members_beyond_the_queues_have_none(place: Place) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    news = News()
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(Member(place, topic, group, news)) for _ in range(3)]
        # Until all know of the last one, a member may still have the queue of another.
        await news.until(
            lambda: (
                sorted(tuple(queue.id for queue in member.queues) for member in members) == [(), (0,), (1,)]
            )
        )


async def test_a_listener_may_commit_revoked_queues_and_none_may_later(place: Place) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    sent = await send(place, topic, 0, 20)
    changes: list[tuple[str, int]] = []
    held: list[PullBatch] = []

    class Committing:
        async def revoked(self, queues: Sequence[MessageQueue]) -> None:
            changes.append(("revoked", len(queues)))
            for batch in held:
                if batch.queue in queues:
                    await consumer.commit(batch)

        async def assigned(self, queues: Sequence[MessageQueue]) -> None:
            changes.append(("assigned", len(queues)))

    news = News()
    assignments = Assignments(news)
    async with PullConsumer(
        place.namesrv,
        group=group,
        topics=[topic],
        on_rebalance=Committing(),
        max_messages=32,
        hooks=[assignments],
    ) as consumer:
        held += await read(consumer, 20)
        async with Member(place, topic, group, news) as other:
            await news.until(lambda: len(other.queues) == len(assignments.queues) == 1)
            (moved,) = {batch.queue for batch in held} - set(consumer.assigned)
            assert changes == [("assigned", 2), ("revoked", 1)]
            late = next(batch for batch in held if batch.queue == moved)
            with pytest.raises(QueueRevokedError, match="not assigned to this member any more"):
                await consumer.commit(late)
            assert await consumer.committed(moved) == late.next_offset
    assert changes[-1][0] == "revoked"
    assert set(bodies(held)) == sent


async def test_a_listener_may_move_the_queues_that_it_is_given(place: Place) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    await send(place, topic, 0, 20)
    ends: dict[MessageQueue, int] = {}

    class Moving:
        async def revoked(self, queues: Sequence[MessageQueue]) -> None: ...

        async def assigned(self, queues: Sequence[MessageQueue]) -> None:
            for queue in queues:
                ends[queue] = await consumer.position(queue)
                await consumer.seek(queue, 0)

    async with PullConsumer(place.namesrv, group=group, topics=[topic], on_rebalance=Moving()) as consumer:
        assert len(bodies(await read(consumer, 20))) == 20
    assert len(ends) == 3


async def test_a_broker_that_is_killed_is_read_on_when_it_is_back(place: Place) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    news = News()
    async with Member(place, topic, group, news) as member:
        sent = await send(place, topic, 0, 10)
        await news.contain(sent)
        await place.crash()
        sent |= await send(place, topic, 10, 20)
        await news.contain(sent)
        await news.until(lambda: len(member.queues) == 2)
    assert news.seen.keys() == sent


async def test_every_broadcast_member_reads_everything_and_continues_by_its_file(
    place: Place, tmp_path: Path
) -> None:
    topic, group = await place.topic(queues=3), await place.group()
    first = await send(place, topic, 0, 30)

    async def read_as(member: str, count: int) -> list[bytes]:
        async with PullConsumer(
            place.namesrv,
            group=group,
            topics=[topic],
            broadcast=Broadcast(member=member, directory=tmp_path),
            auto_commit=60.0,
        ) as consumer:
            batches = await read(consumer, count)
            for batch in batches:
                await consumer.commit(batch)
            return bodies(batches)

    assert Counter(await read_as("one", 30)) == Counter(first)
    second = await send(place, topic, 30, 60)
    assert Counter(await read_as("one", 30)) == Counter(second)
    assert Counter(await read_as("two", 60)) == Counter(first | second)


async def test_the_programs_of_the_page_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    await send(place, topic, 0, 12)
    names = functions_of("share-queues.md")
    await names["read"](place.namesrv, topic, group, 12)
    assert capsys.readouterr().out.count("\n") == 12
    assert await names["count_last_hour"](place.namesrv, topic) == 12


async def test_what_cannot_be_is_one_clear_error(place: Place) -> None:
    group, timeouts = await place.group(), Timeouts(start=1.0)
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        async with PullConsumer(place.namesrv, group=group, topics=["nowhere"], timeouts=timeouts):
            pass
    with pytest.raises(UnreachableError, match="speaks HTTP/2"):
        async with PullConsumer(f"namesrv://{place.endpoint}", group=group, timeouts=timeouts):
            pass
    with pytest.raises(UsageError, match="does not use the remoting protocol"):
        SimpleConsumer(place.namesrv, group=group, subscriptions=["orders"])
    with pytest.raises(UsageError, match="gRPC proxies do not serve"):
        PullConsumer(place.endpoint, group=group, topics=["orders"])
    topic = await place.topic()
    async with PullConsumer(place.namesrv, group=group, topics=[topic]) as consumer:
        with pytest.raises(UsageError, match="leave topics= out"):
            consumer.assign([])
