"""Reading queues by offset: the pull calls, inventory 4.11; Apache's proxies do not serve them."""

from __future__ import annotations

import asyncio

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.cases.stage import Consumer, Sent, Stage, on_stage, once_each
from aiorocketmq_conformance.cases.tolerances import PROMPT, empty_poll, wake
from aiorocketmq_conformance.probe.answers import Received, code_name
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.queues import get_offset, pull, query_offset, queue_of, update_offset
from aiorocketmq_conformance.registry import Level, case
from aiorocketmq_conformance.verdicts import NotApplicable

PREPARED = ("@topic", "@group")
PULL = (*PREPARED, "pull")
NOT_SERVED = {"UNIMPLEMENTED", "NOT_IMPLEMENTED", "UNSUPPORTED"}


class Reader:
    """A client that reads the one queue of a fresh topic."""

    def __init__(self, stage: Stage, consumer: Consumer) -> None:
        self.stage = stage
        self.consumer = consumer
        self.topic = consumer.topic
        self.group = consumer.group
        self.client = consumer.client
        self.queue = queue_of(consumer.topic, 0)

    async def pull(self, offset: int, *, batch: int = 32, poll: float = 5.0, tag: str = "*") -> Received:
        """Read from `offset`."""
        return await pull(self.client, self.group, self.queue, offset, batch=batch, poll=poll, expression=tag)

    async def send(self, count: int, **fields: str) -> list[Sent]:
        """Send `count` messages, one after the other."""
        return await self.stage.send(self.topic, *(f"m{n}" for n in range(count)), **fields)


async def _reader(stage: Stage) -> Reader:
    topic = await stage.topic(1)
    return Reader(stage, await stage.consumer(topic, prime=False))


def _texts(answer: Received) -> list[str]:
    return [one.text for one in answer.deliveries]


@case(
    "pull.absent-is-clean",
    rules=("R10.1",),
    needs=PREPARED,
    params={name: name for name in ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset")},
)
@on_stage
async def absent_is_clean(stage: Stage, name: str) -> None:
    """A server that does not serve {} says so: it never answers as if it did."""
    if stage.target.has("pull"):
        raise NotApplicable("this target serves the pull calls")
    reader = await _reader(stage)
    await reader.send(1)
    told = await _told(reader, name)
    assert told in NOT_SERVED, f"{name} answered {told}"


async def _told(reader: Reader, name: str) -> str:
    """The code, of the call or in its answer, that one of the calls is answered with."""
    try:
        if name == "UpdateOffset":
            return code_name((await update_offset(reader.client, reader.group, reader.queue, 1)).status.code)
        if name == "GetOffset":
            return code_name((await get_offset(reader.client, reader.group, reader.queue)).status.code)
        if name == "QueryOffset":
            return code_name((await query_offset(reader.client, reader.queue, "END")).status.code)
    except CallFailed as failure:
        return failure.code
    answer = await reader.pull(0)
    assert not answer.deliveries
    return answer.error or code_name(answer.code)


@case("pull.from-offset", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def from_offset(stage: Stage) -> None:
    """A pull of ten from offset 0 brings the first ten in order, and says where to go on."""
    reader = await _reader(stage)
    await reader.send(20)
    answer = await reader.pull(0, batch=10)
    assert answer.code == pb.Code.OK
    assert _texts(answer) == [f"m{n}" for n in range(10)]
    assert answer.next_offset == 10


@case("pull.repeatable", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def repeatable(stage: Stage) -> None:
    """The same pull brings the same again: nothing is hidden, nothing has to be acked."""
    reader = await _reader(stage)
    await reader.send(5)
    first = await reader.pull(0)
    second = await reader.pull(0)
    assert _texts(first) == _texts(second) == [f"m{n}" for n in range(5)]
    assert first.next_offset == second.next_offset == 5


@case("pull.not-shared-with-pop", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def not_shared_with_pop(stage: Stage) -> None:
    """Pulling takes nothing from those of the group that receive."""
    topic = await stage.topic(1)
    reader = Reader(stage, await stage.consumer(topic))
    sent = await reader.send(5)
    assert len((await reader.pull(0)).deliveries) == 5
    once_each(sent, await reader.consumer.take(5))


@case("pull.next-offset-chain", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def next_offset_chain(stage: Stage) -> None:
    """Who follows the offsets that pulls give back reads each of 100 messages once, in order."""
    reader = await _reader(stage)
    await stage.send(reader.topic, *(f"m{n}" for n in range(100)))
    texts: list[str] = []
    offset = 0
    while len(texts) < 100:
        answer = await reader.pull(offset, batch=7)
        assert answer.deliveries, f"nothing at offset {offset}"
        assert answer.next_offset is not None
        texts += _texts(answer)
        offset = answer.next_offset
    assert texts == [f"m{n}" for n in range(100)]


@case("pull.filter-advances", rules=("R10.1", "R5.23"), level=Level.EXTENSION, needs=PULL)
@on_stage
async def filter_advances(stage: Stage) -> None:
    """A pull of one tag brings only that, and goes on behind what it passed over."""
    reader = await _reader(stage)
    for _ in range(5):
        await reader.send(1, tag="a")
        await reader.send(1, tag="b")
    answer = await reader.pull(0, tag="a")
    assert [one.message.system_properties.tag for one in answer.deliveries] == ["a"] * 5
    assert answer.next_offset in {9, 10}
    nothing = await reader.pull(0, tag="none", poll=0.0)
    assert not nothing.deliveries
    assert nothing.next_offset == 10


@case("pull.empty-waits", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def empty_waits(stage: Stage) -> None:
    """A pull at the end of a queue waits as long as asked, and then says to ask the same again."""
    reader = await _reader(stage)
    await reader.send(3)
    answer = await reader.pull(3, poll=5.0)
    assert not answer.deliveries
    assert answer.next_offset == 3
    empty_poll(stage.target, 5.0).check(answer.took, "an empty pull ended")


@case("pull.empty-wakes", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def empty_wakes(stage: Stage) -> None:
    """A message that arrives ends a waiting pull at once."""
    reader = await _reader(stage)
    waiting = asyncio.create_task(reader.pull(0, poll=15.0))
    await stage.clock.sleep(3.0)
    assert not waiting.done(), "the pull ended before anything was sent"
    (sent,) = await reader.send(1)
    answer = await waiting
    assert [one.id for one in answer.deliveries] == [sent.id]
    wake(stage.target).check(answer.deliveries[0].at - sent.acked_at, "the waiting pull was answered")


@case("pull.batch-cap", rules=("R5.3",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def batch_cap(stage: Stage) -> None:
    """However many are asked for, no pull brings more than the largest batch."""
    reader = await _reader(stage)
    await stage.send(reader.topic, *(f"m{n}" for n in range(50)))
    answer = await reader.pull(0, batch=50)
    assert 1 <= len(answer.deliveries) <= stage.target.number("batch.max")
    assert answer.next_offset == len(answer.deliveries)


@case(
    "pull.illegal-offset",
    rules=("R10.1",),
    level=Level.EXTENSION,
    needs=PULL,
    params={"-1": (-1, 0), "beyond": (7, 3)},
)
@on_stage
async def illegal_offset(stage: Stage, row: tuple[int, int]) -> None:
    """A pull outside of the queue ({}) is told the nearest place in it, and brings nothing of elsewhere."""
    offset, nearest = row
    reader = await _reader(stage)
    await reader.send(3)
    answer = await reader.pull(offset)
    assert code_name(answer.code) == "ILLEGAL_OFFSET"
    assert not answer.deliveries
    assert answer.next_offset == nearest


@case("pull.trimmed-offset", rules=("R11.2",), level=Level.EXTENSION, needs=(*PULL, "@keep"), timeout=180.0)
@on_stage
async def trimmed_offset(stage: Stage) -> None:
    """A pull of what retention has deleted is told the first offset left."""
    reader = await _reader(stage)
    await stage.target.keep(60.0)
    await reader.send(3)
    await stage.clock.sleep(75.0)
    await stage.target.clean()
    await reader.send(1)
    answer = await reader.pull(0)
    assert not answer.deliveries
    assert answer.next_offset == 3
    assert _texts(await reader.pull(3)) == ["m0"]


async def _stored(reader: Reader) -> int:
    answer = await get_offset(reader.client, reader.group, reader.queue)
    assert code_name(answer.status.code) == "OK"
    return answer.offset


async def _store(reader: Reader, offset: int) -> None:
    answer = await update_offset(reader.client, reader.group, reader.queue, offset)
    assert code_name(answer.status.code) == "OK"


@case("pull.update-get-offset", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def update_get_offset(stage: Stage) -> None:
    """An offset that was written down is read back."""
    reader = await _reader(stage)
    await reader.send(10)
    await _store(reader, 7)
    assert await _stored(reader) == 7


@case("pull.get-offset-none", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def get_offset_none(stage: Stage) -> None:
    """A group that never wrote an offset down is told so, not 0."""
    reader = await _reader(stage)
    answer = await get_offset(reader.client, reader.group, reader.queue)
    assert code_name(answer.status.code) == "OFFSET_NOT_FOUND"


@case("pull.update-backwards", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def update_backwards(stage: Stage) -> None:
    """An offset may be written down that is smaller than the last one."""
    reader = await _reader(stage)
    await reader.send(10)
    await _store(reader, 7)
    await _store(reader, 3)
    assert await _stored(reader) == 3


@case("pull.offset-per-group", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def offset_per_group(stage: Stage) -> None:
    """Each group has offsets of its own."""
    one = await _reader(stage)
    two = Reader(stage, await stage.consumer(one.topic, prime=False))
    await _store(one, 1)
    await _store(two, 2)
    await _store(one, 5)
    assert (await _stored(one), await _stored(two)) == (5, 2)


@case(
    "pull.offset-survives-restart",
    rules=("R10.4", "R12.7"),
    level=Level.EXTENSION,
    needs=(*PULL, "@restart"),
    timeout=400.0,
)
@on_stage
async def offset_survives_restart(stage: Stage) -> None:
    """An offset that was written down is there after a restart."""
    reader = await _reader(stage)
    await _store(reader, 7)
    await stage.clock.sleep(6.0)
    await stage.target.restart()
    assert await _stored(reader) == 7


@case("pull.query-begin-end", rules=("R10.7",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def query_begin_end(stage: Stage) -> None:
    """The beginning of a queue of 20 messages is 0, its end 20."""
    reader = await _reader(stage)
    await reader.send(20)
    for policy, expected in (("BEGINNING", 0), ("END", 20)):
        answer = await query_offset(reader.client, reader.queue, policy)
        assert (code_name(answer.status.code), answer.offset) == ("OK", expected)


@case("pull.query-time", rules=("R10.7",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def query_time(stage: Stage) -> None:
    """The offset of a time between two bursts is that of the second one, at most one beside."""
    reader = await _reader(stage)
    await reader.send(10)
    await stage.clock.sleep(1.5)
    middle = stage.clock.wall()
    await stage.clock.sleep(1.5)
    await reader.send(10)
    answer = await query_offset(reader.client, reader.queue, "TIMESTAMP", at=middle)
    assert code_name(answer.status.code) == "OK"
    assert abs(answer.offset - 10) <= 1


@case(
    "pull.assignment-exclusive",
    rules=("R3.7",),
    level=Level.EXTENSION,
    needs=(*PULL, "pull-balance"),
)
@on_stage
async def assignment_exclusive(stage: Stage) -> None:
    """Two pull consumers of a group are assigned two of four queues each, none of them to both; one alone has all."""
    topic, group = await stage.topic(4), await stage.target.create_group()
    kind = pb.ClientType.PULL_CONSUMER
    first = await stage.consumer(topic, group=group, kind=kind, prime=False)
    assert await _assigned(first) == [0, 1, 2, 3]
    second = await stage.consumer(topic, group=group, kind=kind, prime=False)
    shares = [await _assigned(first), await _assigned(second)]
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3], f"queues of both: {shares}"
    assert {len(share) for share in shares} == {2}, f"uneven: {shares}"
    await second.client.close()
    assert await _assigned(first) == [0, 1, 2, 3], "the queues of one that left are nobody's"


async def _assigned(consumer: Consumer) -> list[int]:
    answer = await consumer.client.query_assignment(consumer.topic, consumer.group)
    assert code_name(answer.status.code) == "OK"
    return sorted(each.message_queue.id for each in answer.assignments)


@case("pull.no-ack-replays", rules=("R10.1",), level=Level.EXTENSION, needs=PULL)
@on_stage
async def no_ack_replays(stage: Stage) -> None:
    """Who wrote nothing down since reads the same again from the stored offset, also as another client."""
    reader = await _reader(stage)
    await reader.send(10)
    await _store(reader, 4)
    first = await reader.pull(await _stored(reader))
    other = Reader(stage, await stage.consumer(reader.topic, group=reader.group, prime=False))
    again = await other.pull(await _stored(other))
    assert _texts(first) == _texts(again) == [f"m{n}" for n in range(4, 10)]
    assert again.took < PROMPT
