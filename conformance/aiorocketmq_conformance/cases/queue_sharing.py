"""Groups that share queues as classic clients do: each member computes its part from the list that the broker gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq.allocation import Allocation, Averagely, AveragelyByCircle, ConsistentHash
from aiorocketmq.message import MessageQueue

from aiorocketmq_conformance.cases.queue_reading import REMOTING, over_remoting
from aiorocketmq_conformance.cases.stage import Stage, notices, on_stage
from aiorocketmq_conformance.cases.tolerances import PROMPT
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import number, told
from aiorocketmq_conformance.registry import Level, case

LIVE = ("live-broker-remoting.md 6", "live-broker-remoting.md 7.1")
STRATEGIES = {
    "averagely": Averagely(),
    "by-circle": AveragelyByCircle(),
    "consistent-hash": ConsistentHash(100),
}
QUEUES, EACH = 5, 6
"""Queues, and messages in each."""
# Members that say nothing are forgotten after 120 s, at the next look of a server that looks every 10 s.
EXPIRY, LOOKS = 120.0, 15.0
HEARTBEAT = 30.0


class Member:
    """One member: the queues that are its own by now, and where it is in each."""

    def __init__(self, group: Group, probe: RemotingProbe) -> None:
        self.probe = probe
        self.positions: dict[int, int | None] = {}
        """Where it reads on, by queue; None as long as it has not asked what is committed."""
        self.heard = 0
        """How many changes it has been told of."""
        self._group = group

    @property
    def client_id(self) -> str:
        """By which the broker knows it."""
        return self.probe.client_id

    async def share(self, listed: tuple[str, ...]) -> None:
        """Compute its part of the queues; what it keeps is read on from where it is."""
        group = self._group
        broker = (await self.probe.broker_of(group.topic)).name
        queues = [MessageQueue(group.topic, broker, number) for number in range(group.queues)]
        own = [queue.id for queue in group.allocation(queues, listed, self.client_id)]
        self.positions = {queue: self.positions.get(queue) for queue in own}

    async def read(self, upto: int, *, commit: int | None = None) -> None:
        """Read each of its queues up to an offset, and commit that, or another one."""
        for queue in self.positions:
            while (position := await self._position(queue)) < upto:
                await self._pull(queue, position, upto - position)
            await self._commit(queue, upto if commit is None else commit)

    async def _commit(self, queue: int, offset: int) -> None:
        group = self._group
        answer = await self.probe.commit(group.topic, group.name, offset, queue=queue)
        assert answer.code == ResponseCode.SUCCESS, f"the commit of an offset answered {told(answer)}"

    async def _pull(self, queue: int, offset: int, batch: int) -> None:
        group = self._group
        answer = await self.probe.pull(group.topic, group.name, offset, queue=queue, batch=batch, poll=5.0)
        assert answer.records, f"queue {queue} at {offset} of {group.sent[queue]} answered {answer.name}"
        for record in answer.records:
            group.seen[queue, record.queue_offset] += 1
            self.positions[queue] = record.queue_offset + 1

    async def _position(self, queue: int) -> int:
        """Where it reads on: behind what it has read, or where the group stands."""
        position = self.positions[queue]
        if position is None:
            answer = await self.probe.committed(self._group.topic, self._group.name, queue=queue)
            assert answer.code == ResponseCode.SUCCESS, f"the question for an offset answered {told(answer)}"
            position = self.positions[queue] = number(answer, "offset") or 0
        return position


class Group:
    """Members of one group that read one topic, and everything that they have read."""

    def __init__(self, stage: Stage, topic: str, name: str, queues: int, allocation: Allocation) -> None:
        self.topic = topic
        self.name = name
        self.queues = queues
        self.allocation = allocation
        self.members: list[Member] = []
        self.sent: Counter[int] = Counter()
        self.seen: Counter[tuple[int, int]] = Counter()
        """How many times each message was read, by queue and offset."""
        self._stage = stage
        self._producer = stage.member()

    async def send(self, each: int = EACH) -> None:
        """Store so many messages in each queue."""
        for queue in range(self.queues):
            for _ in range(each):
                answer = await self._producer.send(self.topic, b"%d" % self.sent[queue], queue=queue)
                assert answer.code == ResponseCode.SUCCESS, f"a message was answered {told(answer)}"
                self.sent[queue] += 1

    async def join(self, count: int = 1) -> Member:
        """Let `count` more members join, one after the other, and all of them share; returns the last one."""
        for _ in range(count):
            member = Member(self, self._stage.member())
            self.members.append(member)
            await member.probe.join(self.name, self.topic)
            await self._told()
        await self.share()
        return self.members[-1]

    async def leave(self, member: Member) -> None:
        """Let a member say goodbye, and the others share."""
        self.members.remove(member)
        await member.probe.leave(self.name, self.topic)
        await self._told()
        await self.share()

    async def crash(self, member: Member) -> None:
        """Let a member hang up without a word, and the others share."""
        self.members.remove(member)
        await member.probe.vanish()
        await self._told()
        await self.share()

    async def share(self) -> None:
        """Let every member ask who there is: all are told of all, and every queue has one owner."""
        everybody = tuple(sorted(member.client_id for member in self.members))
        for member in self.members:
            listed = await member.probe.members(self.name, self.topic)
            assert listed == everybody, f"{len(listed)} of {len(everybody)} members are listed: {listed}"
            await member.share(listed)
        owned = sorted(queue for member in self.members for queue in member.positions)
        assert not self.members or owned == list(range(self.queues)), f"queues {owned} have owners"

    async def read(self, upto: int, *, commit: int | None = None) -> None:
        """Let every member read its queues up to an offset, and commit that, or another one."""
        for member in self.members:
            await member.read(upto, commit=commit)

    def owners(self) -> dict[int, str]:
        """Who has each queue."""
        return {queue: member.client_id for member in self.members for queue in member.positions}

    def all_once(self, twice: Iterable[tuple[int, int]] = ()) -> None:
        """AssertionError unless every message was read once, and those of `twice` once more."""
        wanted = Counter((queue, offset) for queue, count in self.sent.items() for offset in range(count))
        wanted.update(twice)
        missing, more = wanted - self.seen, self.seen - wanted
        assert self.seen == wanted, f"not read: {sorted(missing)}; read too often: {sorted(more)}"

    async def _told(self) -> None:
        """Return when every member has been told of one more change."""
        for member in self.members:
            member.heard += 1
            await notices(member.probe, member.heard)


async def _group(stage: Stage, *, queues: int = QUEUES, allocation: Allocation = Averagely()) -> Group:  # noqa: B008  # a value
    topic, name = await stage.topic(queues), await stage.target.create_group()
    group = Group(stage, topic, name, queues, allocation)
    await group.send()
    return group


@case("strategy.shares", rules=LIVE, level=Level.EXTENSION, needs=REMOTING, params=STRATEGIES)
@on_stage
async def shares(stage: Stage, allocation: Allocation) -> None:
    """Three members that share 5 queues, and 7, by the strategy {} agree, and read every message once."""
    for queues in (5, 7):
        group = await _group(stage, queues=queues, allocation=allocation)
        await group.join(3)
        await group.read(EACH)
        group.all_once()


@case("strategy.idle-members", rules=LIVE, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def idle_members(stage: Stage) -> None:
    """Of five members that share three queues two have none, until one that has one leaves."""
    group = await _group(stage, queues=3)
    await group.join(5)
    assert sorted(len(member.positions) for member in group.members) == [0, 0, 1, 1, 1]
    await group.read(2)
    await group.leave(next(member for member in group.members if member.positions))
    await group.read(EACH)
    group.all_once()


@case("reb.queues-latecomer", rules=LIVE, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def latecomer(stage: Stage) -> None:
    """Who joins goes on in its queues where the group has committed: nothing is read twice, and nothing is left out."""
    group = await _group(stage)
    await group.join(2)
    await group.read(2)
    late = await group.join()
    assert late.positions
    await group.read(EACH)
    group.all_once()


@case("reb.queues-leave", rules=LIVE, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def leave(stage: Stage) -> None:
    """The queues of a member that leaves go on where it has committed."""
    group = await _group(stage)
    await group.join(3)
    await group.read(4)
    await group.leave(group.members[1])
    await group.read(EACH)
    group.all_once()


@case("reb.queues-crash", rules=LIVE, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def crash(stage: Stage) -> None:
    """Of the queues of a member that hangs up, what it had read and not committed is read again, and nothing else."""
    group = await _group(stage)
    await group.join(3)
    await group.read(4, commit=3)
    before = group.owners()
    await group.crash(group.members[1])
    moved = [queue for queue, owner in group.owners().items() if before[queue] != owner]
    assert moved
    await group.read(EACH)
    group.all_once(twice=[(queue, 3) for queue in moved])


@case("reb.queues-flap", rules=LIVE, level=Level.EXTENSION, needs=REMOTING)
@on_stage
async def flap(stage: Stage) -> None:
    """While a third member comes and goes, every message is read once."""
    group = await _group(stage)
    await group.join(2)
    for upto in range(1, EACH, 2):
        third = await group.join()
        await group.read(upto)
        await group.leave(third)
        await group.read(upto + 1)
    group.all_once()


@case("member.expires", rules=LIVE, level=Level.EXTENSION, needs=REMOTING, timeout=240.0)
@on_stage
async def expires(stage: Stage) -> None:
    """A member that stays connected and says nothing is listed for 120 s, and then no more; the others are told."""
    group = await _group(stage)
    await group.join(3)
    silent, clock = group.members[1], stage.clock
    since, others = clock.now(), [member for member in group.members if member is not silent]
    while clock.now() < since + EXPIRY - HEARTBEAT:
        await clock.sleep(HEARTBEAT)
        for member in others:
            await member.probe.join(group.name, group.topic)
    assert silent.client_id in await others[0].probe.members(group.name, group.topic)
    group.members.remove(silent)
    for member in others:
        member.heard += 1
        left = max(0.0, since + EXPIRY + LOOKS + PROMPT - clock.now())
        await notices(member.probe, member.heard, patience=left)
    await group.share()


@case(
    "reb.queues-all-return",
    rules=("live-broker-remoting.md 5",),
    level=Level.EXTENSION,
    needs=REMOTING,
)
@on_stage
async def all_leave_return(stage: Stage) -> None:
    """After all members left, one by one or without a word, a new one goes on at the committed offset."""
    reader = await over_remoting(stage)
    await reader.send(5)
    for leaves_politely in (True, False):
        member = stage.member()
        await member.join(reader.group, reader.topic)
        if leaves_politely:
            await reader.store(3)
            await member.leave(reader.group, reader.topic)
        else:
            await member.vanish()
    await reader.send(2)
    again = await over_remoting(stage, topic=reader.topic, group=reader.group)
    stored = await again.stored()
    assert stored == 3
    assert (await again.pull(stored)).texts == ("m3", "m4", "m0", "m1")
