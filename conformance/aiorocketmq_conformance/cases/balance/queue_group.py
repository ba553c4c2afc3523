"""A group whose members share queues as classic clients do: each computes its assignment from the list of all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable

from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq.allocation import Allocation, Averagely
from aiorocketmq.message import MessageQueue

from aiorocketmq_conformance.fixture import Fixture, notices
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import Pulled, number, response_text
from aiorocketmq_conformance.tolerances import PROMPT

QUEUES, EACH = 5, 6
"""Queues, and messages in each."""
BATCH, PAUSE = 2, 0.2
"""Messages that a running member reads before it commits, and seconds between reads."""


class Member:
    """One member: its assigned queues, and its position in each."""

    def __init__(self, group: Group, probe: RemotingProbe) -> None:
        self.probe = probe
        self.positions: dict[int, int | None] = {}
        """The next offset by queue; None until the committed offset was queried."""
        self.notified = 0
        """Number of change notifications received."""
        self.is_leaving = False
        self._group = group

    @property
    def client_id(self) -> str:
        """The client id."""
        return self.probe.client_id

    async def share(self, listed: tuple[str, ...]) -> None:
        """Compute its assignment; queues that it keeps are read on from the current position."""
        group = self._group
        broker = (await self.probe.broker_of(group.topic)).name
        queues = [MessageQueue(group.topic, broker, number) for number in range(group.queues)]
        own = [queue.id for queue in group.allocation(queues, listed, self.client_id)]
        group.moves += len(set(own) - self.positions.keys())
        self.positions = {queue: self.positions.get(queue) for queue in own}

    async def read(self, upto: int | None = None, *, commit: int | None = None) -> None:
        """Read each of its queues up to an offset, or to its end, and commit that, or another one."""
        for queue in self.positions:
            end = self._group.sent[queue] if upto is None else upto
            while (position := await self._position(queue)) < end:
                await self._pull(queue, position, end - position)
            await self._commit(queue, end if commit is None else commit)

    async def work(self) -> None:
        """Read and commit until it leaves; compute the assignment again after each notification."""
        group = self._group
        while not self.is_leaving:
            if len(self.probe.notices) > self.notified:
                self.notified = len(self.probe.notices)
                before = set(self.positions)
                await self.share(await self.probe.members(group.name, group.topic))
                await self._release(before - self.positions.keys())
            for queue in await self._readable():
                await self._step(queue)
            await self.probe.clock.sleep(PAUSE)
        await self._release(self.positions.keys())

    async def _readable(self) -> list[int]:
        """Return its queues; of an ordered group those that it has locked."""
        group, own = self._group, list(self.positions)
        if not group.is_ordered or not own:
            return own
        return await self.probe.lock(group.name, group.topic, *own)

    async def _release(self, queues: Collection[int]) -> None:
        """Unlock queues of an ordered group: what was read of them is committed."""
        if self._group.is_ordered and queues:
            await self.probe.unlock(self._group.name, self._group.topic, *queues)

    async def _step(self, queue: int) -> None:
        """Read a queue once, and commit what was read."""
        group, position = self._group, await self._position(queue)
        answer = await self.probe.pull(group.topic, group.name, position, queue=queue, batch=BATCH)
        if answer.records:
            self._read(queue, answer)
            await self._commit(queue, answer.records[-1].queue_offset + 1)

    def _read(self, queue: int, answer: Pulled) -> None:
        for record in answer.records:
            self._group.read_in_order.append((queue, record.queue_offset))
            self.positions[queue] = record.queue_offset + 1

    async def _commit(self, queue: int, offset: int) -> None:
        group = self._group
        answer = await self.probe.commit(group.topic, group.name, offset, queue=queue)
        assert answer.code == ResponseCode.SUCCESS, f"the commit was answered with {response_text(answer)}"

    async def _pull(self, queue: int, offset: int, batch: int) -> None:
        group = self._group
        answer = await self.probe.pull(group.topic, group.name, offset, queue=queue, batch=batch, poll=5.0)
        assert answer.records, (
            f"queue {queue} at {offset} of {group.sent[queue]} was answered with {answer.name}"
        )
        self._read(queue, answer)

    async def _position(self, queue: int) -> int:
        """Return the next offset: after what was read, or the committed one."""
        position = self.positions[queue]
        if position is None:
            answer = await self.probe.committed(self._group.topic, self._group.name, queue=queue)
            assert answer.code == ResponseCode.SUCCESS, (
                f"the offset query was answered with {response_text(answer)}"
            )
            position = self.positions[queue] = number(answer, "offset") or 0
        return position


class Group:
    """Members of one group that read one topic, and all messages that they have read."""

    def __init__(
        self,
        fixture: Fixture,
        topic: str,
        name: str,
        queues: int,
        allocation: Allocation = Averagely(),  # noqa: B008  # a value
    ) -> None:
        self.topic = topic
        self.name = name
        self.queues = queues
        self.allocation = allocation
        self.members: list[Member] = []
        self.sent: Counter[int] = Counter()
        self.is_ordered = False
        """Whether running members lock queues before they read them."""
        self.read_in_order: list[tuple[int, int]] = []
        """Every message that was read, as queue and offset."""
        self.moves = 0
        """How many times a queue was assigned to a member."""
        self._fixture = fixture
        self._producer = fixture.member()

    async def send(self, each: int = EACH) -> None:
        """Store `each` messages in each queue."""
        for queue in range(self.queues):
            for _ in range(each):
                body = b"%d" % self.sent[queue]
                await self._fixture.send_over(self._producer, self.topic, body, queue=queue)
                self.sent[queue] += 1

    async def join(self, count: int = 1) -> Member:
        """Let `count` more members join, one after the other, and compute assignments; return the last one."""
        for _ in range(count):
            member = Member(self, self._fixture.member())
            self.members.append(member)
            await member.probe.join(self.name, self.topic)
            await self._wait_notified()
        await self.share()
        return self.members[-1]

    async def leave(self, member: Member) -> None:
        """Let a member unregister, and the others compute assignments."""
        self.members.remove(member)
        await member.probe.leave(self.name, self.topic)
        await self._wait_notified()
        await self.share()

    async def crash(self, member: Member) -> None:
        """Let a member disconnect without unregistering, and the others compute assignments."""
        self.members.remove(member)
        await member.probe.disconnect()
        await self._wait_notified()
        await self.share()

    async def share(self) -> None:
        """Let every member query the member list: all see the same, and every queue has one owner."""
        client_ids = tuple(sorted(member.client_id for member in self.members))
        for member in self.members:
            listed = await member.probe.members(self.name, self.topic)
            assert listed == client_ids, f"{len(listed)} of {len(client_ids)} members are listed: {listed}"
            await member.share(listed)
        owned = sorted(queue for member in self.members for queue in member.positions)
        assert not self.members or owned == list(range(self.queues)), f"queues {owned} have owners"

    async def read(self, upto: int | None = None, *, commit: int | None = None) -> None:
        """Let every member read its queues up to an offset, or to their ends, and commit that, or another one.

        Sequentially: of concurrent first commits of a group 4.9.7 lost some in 1 of 60 groups.
        """
        for member in self.members:
            await member.read(upto, commit=commit)

    @property
    def reads(self) -> Counter[tuple[int, int]]:
        """Return how many times each message was read, by queue and offset."""
        return Counter(self.read_in_order)

    def owners(self) -> dict[int, str]:
        """Return the owner of each queue."""
        return {queue: member.client_id for member in self.members for queue in member.positions}

    def all_once(self, twice: Iterable[tuple[int, int]] = ()) -> None:
        """Assert that every message was read once, and those of `twice` twice."""
        expected = Counter((queue, offset) for queue, count in self.sent.items() for offset in range(count))
        expected.update(twice)
        reads = self.reads
        missing, more = expected - reads, reads - expected
        assert reads == expected, f"not read: {sorted(missing)}; read too often: {sorted(more)}"

    async def _wait_notified(self) -> None:
        """Wait until every member was notified of one more change."""
        for member in self.members:
            member.notified += 1
            await notices(member.probe, member.notified)


class Workers:
    """Members of a group that run concurrently."""

    def __init__(self, fixture: Fixture, group: Group) -> None:
        self._fixture = fixture
        self._group = group
        self._works: dict[Member, asyncio.Task[None]] = {}
        fixture.stack.push_async_callback(self.end)

    async def join(self) -> Member:
        """Let one more member join and run."""
        member = Member(self._group, self._fixture.member())
        await member.probe.join(self._group.name, self._group.topic)
        self._works[member] = asyncio.create_task(member.work())
        return member

    async def leave(self, member: Member) -> None:
        """Let a member finish its work, and unregister."""
        member.is_leaving = True
        await self._works.pop(member)
        await member.probe.leave(self._group.name, self._group.topic)

    async def crash(self, member: Member) -> None:
        """Let a member disconnect during its work."""
        await self._cancel(self._works.pop(member))
        await member.probe.disconnect()

    async def send(self, rounds: int) -> None:
        """Store `rounds` messages in each queue, one after the other."""
        for _ in range(rounds):
            await self._group.send(1)
            await self._fixture.clock.sleep(PAUSE / 2)

    async def read_all(self) -> None:
        """Wait until every message was read; AssertionError if that takes too long."""
        group, clock = self._group, self._fixture.clock
        until = clock.now() + 2 * PROMPT
        while (read := len(group.reads)) < group.sent.total():
            for work in self._works.values():
                if work.done():
                    work.result()
            assert clock.now() < until, f"{read} of {group.sent.total()} messages were read"
            await clock.sleep(PAUSE)

    async def end(self) -> None:
        """Cancel all members."""
        await self._cancel(*self._works.values())

    @staticmethod
    async def _cancel(*works: asyncio.Task[None]) -> None:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def group_of(
    fixture: Fixture,
    *,
    queues: int = QUEUES,
    allocation: Allocation = Averagely(),  # noqa: B008  # a value
    each: int = EACH,
) -> Group:
    """Return a fresh group without members, of a fresh topic with `each` messages in every queue."""
    topic, name = await fixture.topic(queues), await fixture.group()
    group = Group(fixture, topic, name, queues, allocation)
    await group.send(each)
    return group
