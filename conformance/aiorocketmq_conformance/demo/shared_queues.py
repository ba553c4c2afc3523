"""A part of the scenario: four consumers of one group share the queues of a topic, and one of them leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from aiorocketmq import Message, Producer, PullConsumer
from aiorocketmq.hooks import AssignEvent, Event, Hook
from aiorocketmq_fake import FakeBroker

PAYMENTS, CLERKS = "payments", "clerks"
QUEUES, MEMBERS = 6, 4
HALF = 60
"""Messages that are sent before one member leaves, and again afterwards."""
PATIENCE = 20.0


@dataclass(slots=True)
class Share:
    """One member: its queues with all four members, its queues after one has left, and how much it read."""

    name: str
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    read: int = 0


class _Member(Hook):
    """Reads and commits until it is closed; a hook of its own consumer, to observe its queues."""

    def __init__(
        self, share: Share, consumer: Callable[[Hook], PullConsumer], changed: asyncio.Event
    ) -> None:
        self.share = share
        self.queues: tuple[int, ...] = ()
        self._changed = changed
        self._consumer = consumer(self)
        self._reading: asyncio.Task[None] | None = None

    def observe(self, event: Event) -> None:
        """Record a change of its queues."""
        if isinstance(event, AssignEvent):
            self.queues = tuple(sorted(queue.id for queue in event.queues))
            self._changed.set()

    async def __aenter__(self) -> _Member:
        await self._consumer.__aenter__()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self._consumer.__aexit__(None, None, None)

    async def _read(self) -> None:
        async for batch in self._consumer:
            self.share.read += len(batch)
            await self._consumer.commit(batch)
            self._changed.set()


async def share_queues(broker: FakeBroker, hooks: Sequence[Hook]) -> tuple[Share, ...]:
    """Let four members read, and three after one has left; every message is read. Raises TimeoutError otherwise."""
    await broker.create_topic(PAYMENTS, queues=QUEUES)
    await broker.create_group(CLERKS)
    changed = asyncio.Event()

    def consumer(own: Hook) -> PullConsumer:
        return PullConsumer(
            f"namesrv://{broker.remoting_endpoint}", group=CLERKS, topics=[PAYMENTS], hooks=[own, *hooks]
        )

    members = [_Member(Share(name), consumer, changed) for name in "abcd"[:MEMBERS]]

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                changed.clear()
                await changed.wait()

    def are_shared(among: Sequence[_Member]) -> bool:
        owned = sorted(queue for member in among for queue in member.queues)
        return owned == list(range(QUEUES)) and all(member.queues for member in among)

    async with AsyncExitStack() as staying:
        async with AsyncExitStack() as leaving:
            for member in members:
                await (staying if member is not members[-1] else leaving).enter_async_context(member)
            await until(lambda: are_shared(members))
            for member in members:
                member.share.before = member.queues
            await _send(broker, hooks)
            await until(lambda: sum(member.share.read for member in members) >= HALF)
        await until(lambda: are_shared(members[:-1]))
        for member in members[:-1]:
            member.share.after = member.queues
        await _send(broker, hooks)
        await until(lambda: sum(member.share.read for member in members) >= 2 * HALF)
    return tuple(member.share for member in members)


async def _send(broker: FakeBroker, hooks: Sequence[Hook]) -> None:
    async with Producer(f"namesrv://{broker.remoting_endpoint}", hooks=hooks) as producer:
        await producer.send_many([Message(PAYMENTS, b"paid %d" % number) for number in range(HALF)])


def describe_shares(shares: Sequence[Share]) -> str:
    """Return the queues of each member, in one line."""
    before = "; ".join(f"{each.name} {_listed(each.before)}" for each in shares)
    after = "; ".join(f"{each.name} {_listed(each.after)}" for each in shares if each.after)
    return f"{before}. {shares[-1].name} leaves: {after}"


def _listed(queues: Sequence[int]) -> str:
    return " ".join(map(str, queues))
