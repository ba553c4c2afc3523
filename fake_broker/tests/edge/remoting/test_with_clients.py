"""The project's own clients, which share no code with the fake, over its remoting port and its gRPC port."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from zlib import compress

import pytest
from aiorocketmq import Admin, Broadcast, Message, Producer, PullConsumer, SimpleConsumer, Sql
from aiorocketmq.errors import IllegalFilterError, TopicNotFoundError
from aiorocketmq.hooks import AssignEvent, Event, Hook
from aiorocketmq.pull_consumer import Offset
from aiorocketmq_fake import FakeBroker

from fake_broker.tests.edge.remoting.conftest import dial

PATIENCE = 30.0


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(remoting_port=0) as fake:
        await fake.create_topic("orders", queues=7)
        await fake.create_topic("line", queues=1)
        yield fake


class Group:
    """Members that read and commit, and what they have read; wakes who waits for that."""

    def __init__(self, broker: FakeBroker, **options: Any) -> None:
        self.broker = broker
        self.read: Counter[bytes] = Counter()
        self.queues: dict[str, tuple[int, ...]] = {}
        self._options = options
        self._happened = asyncio.Event()

    def tell(self) -> None:
        self._happened.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._happened.clear()
                await self._happened.wait()

    async def member(self, stack: AsyncExitStack, name: str, **options: Any) -> None:
        """Start a member, which ends with the stack."""
        consumer = PullConsumer(
            namesrv(self.broker),
            group="g",
            topics=["orders"],
            wait=5.0,
            hooks=[Owned(self, name)],
            **{"auto_commit": 0.1, **self._options, **options},
        )
        await stack.enter_async_context(consumer)
        task = asyncio.create_task(self._loop(consumer))
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(task.cancel)

    async def _loop(self, consumer: PullConsumer) -> None:
        async for batch in consumer:
            self.read.update(message.body for message in batch)
            self.tell()

    def is_shared(self, *sizes: int) -> bool:
        """Whether all queues are owned, by members with so many each."""
        owned = sorted(queue for queues in self.queues.values() for queue in queues)
        return owned == list(range(7)) and sorted(map(len, self.queues.values())) == sorted(sizes)


class Owned(Hook):
    """Keeps the queues of a member."""

    def __init__(self, group: Group, name: str) -> None:
        self._group = group
        self._name = name

    def observe(self, event: Event) -> None:
        if isinstance(event, AssignEvent):
            self._group.queues[self._name] = tuple(queue.id for queue in event.queues)
            self._group.tell()


def namesrv(broker: FakeBroker) -> str:
    return f"namesrv://{broker.remoting_endpoint}"


async def send(broker: FakeBroker, topic: str, numbers: Sequence[int]) -> set[bytes]:
    """Send by gRPC."""
    async with Producer(broker.endpoint, topics=[topic]) as producer:
        for number in numbers:
            tag = "even" if number % 2 == 0 else "odd"
            await producer.send(Message(topic, b"%d" % number, tag=tag, properties={"number": str(number)}))
    return {b"%d" % number for number in numbers}


async def read(consumer: PullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for batch in consumer:
            bodies += [message.body for message in batch]
            await consumer.commit(batch)
            if len(bodies) >= count:
                return bodies
    return bodies


@pytest.mark.parametrize("ordered", [False, True])
async def test_three_members_share_seven_queues_until_one_leaves(broker: FakeBroker, ordered: bool) -> None:
    group = Group(broker, ordered=ordered)
    async with AsyncExitStack() as stack:
        await group.member(stack, "first")
        await group.member(stack, "second")
        async with AsyncExitStack() as third:
            await group.member(third, "third")
            await group.until(lambda: group.is_shared(2, 2, 3))
            sent = await send(broker, "orders", range(50))
            await group.until(lambda: group.read.keys() == sent)
        del group.queues["third"]
        await group.until(lambda: group.is_shared(3, 4))
        sent |= await send(broker, "orders", range(50, 100))
        await group.until(lambda: group.read.keys() == sent)
    assert all(place.lag == 0 for place in broker.progress("g"))
    if ordered:
        assert set(group.read.values()) == {1}


async def test_every_member_of_a_broadcast_reads_everything(broker: FakeBroker, tmp_path: Path) -> None:
    sent = await send(broker, "orders", range(20))
    group = Group(broker)
    async with AsyncExitStack() as stack:
        for name in ("first", "second"):
            await group.member(stack, name, broadcast=Broadcast(name, tmp_path))
        await group.until(lambda: group.read == Counter(dict.fromkeys(sent, 2)))
    assert broker.progress("g") == ()


async def test_a_group_continues_over_either_protocol(broker: FakeBroker) -> None:
    """One offset for each group, topic and queue."""
    await broker.create_group("g")
    await send(broker, "line", range(6))
    async with SimpleConsumer(broker.endpoint, group="g", subscriptions=["line"]) as simple:
        for message in await simple.receive(max_messages=2, invisible=30, wait=5):
            await message.ack()
        async with PullConsumer(namesrv(broker), group="g", max_messages=2) as pull:
            (queue,) = await pull.queues("line")
            assert await pull.committed(queue) == 2
            pull.assign([queue])
            assert await read(pull, 2) == [b"2", b"3"]
            assert await pull.lag() == {queue: 2}
        messages = await simple.receive(max_messages=9, invisible=30, wait=5)
        assert [message.body for message in messages] == [b"4", b"5"]


async def test_reading_continues_at_a_reset_offset(broker: FakeBroker) -> None:
    await send(broker, "line", range(10))
    async with PullConsumer(namesrv(broker), group="g", start=Offset.END) as consumer:
        (queue,) = await consumer.queues("line")
        assert await consumer.committed(queue) is None
        consumer.assign([queue])
        assert await consumer.position(queue) == 10
        for where, first in ((Offset.BEGIN, b"0"), (7, b"7"), (Offset.BEGIN, b"0")):
            await consumer.seek(queue, where)
            assert (await read(consumer, 1))[0] == first
        await consumer.seek(queue, 99)
        await send(broker, "line", [10])
        assert await read(consumer, 1) == [b"10"]


async def test_filters_leave_messages_out(broker: FakeBroker) -> None:
    await send(broker, "line", range(6))
    for filter_, bodies in (("even", [b"0", b"2", b"4"]), (Sql("number > 3"), [b"4", b"5"])):
        async with PullConsumer(
            namesrv(broker), group=f"g{len(bodies)}", filters={"line": filter_}
        ) as consumer:
            consumer.assign(await consumer.queues("line"))
            assert await read(consumer, len(bodies)) == bodies
    async with PullConsumer(namesrv(broker), group="bad", filters={"line": Sql("number >")}) as consumer:
        consumer.assign(await consumer.queues("line"))
        with pytest.raises(IllegalFilterError):
            await read(consumer, 1)


async def test_a_message_arrives_with_all_that_its_producer_gave_it(broker: FakeBroker) -> None:
    message = Message("line", b"x" * 10_000, tag="red", keys=["a", "b"], properties={"from": "web"})
    async with Producer(broker.endpoint) as producer:
        sent = await producer.send(message)
    async with PullConsumer(namesrv(broker), group="g") as consumer:
        consumer.assign(await consumer.queues("line"))
        async with asyncio.timeout(PATIENCE):
            (received,) = await anext(aiter(consumer))
    assert (received.body, received.tag, tuple(received.keys)) == (b"x" * 10_000, "red", ("a", "b"))
    assert (received.message_id, received.properties["from"]) == (sent.message_id, "web")


async def test_what_is_sent_over_remoting_arrives_over_grpc(broker: FakeBroker) -> None:
    await broker.create_group("g")
    properties = {"TAGS": "red", "KEYS": "a b", "UNIQ_KEY": "U1", "from": "old", "__SHARDINGKEY": "customer"}
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    async with dial(broker) as wire:
        sent = await wire.produce("line", compress(b"body"), text, f=1)
        assert sent.code == 0
    async with SimpleConsumer(broker.endpoint, group="g", subscriptions=["line"]) as consumer:
        (received,) = await consumer.receive(max_messages=1, invisible=30, wait=5)
        await received.ack()
    assert (received.body, received.tag, tuple(received.keys)) == (b"body", "red", ("a", "b"))
    assert (received.message_id, received.message_group) == ("U1", "customer")
    assert received.properties["from"] == "old"


@pytest.mark.parametrize(
    ("text", "more", "queue", "priority"),
    [
        ("2", "", 2, 2),
        ("100", "", 6, 100),
        (f"{2**31 - 1}", "", 6, 2**31 - 1),
        (f"{2**31}", "", 5, None),
        ("-1", "", 5, None),
        ("2", "__SHARDINGKEY\x01customer\x02", 5, None),
    ],
)
async def test_a_priority_chooses_the_queue_unless_the_message_is_of_another_type(
    broker: FakeBroker, text: str, more: str, queue: int, priority: int | None
) -> None:
    async with dial(broker) as wire:
        sent = await wire.produce("orders", b"body", f"_SYS_MSG_PRIORITY_\x01{text}\x02{more}", e=5)
    async with PullConsumer(namesrv(broker), group="g") as consumer:
        consumer.assign(await consumer.queues("orders"))
        async with asyncio.timeout(PATIENCE):
            (received,) = await anext(aiter(consumer))
    assert (sent.fields["queueId"], received.queue.id, received.priority) == (str(queue), queue, priority)


async def test_reading_continues_after_a_restart(broker: FakeBroker) -> None:
    group = Group(broker)
    async with AsyncExitStack() as stack:
        await group.member(stack, "only")
        sent = await send(broker, "orders", range(10))
        await group.until(lambda: group.read.keys() == sent)
        await broker.crash()
        await broker.start()
        sent |= await send(broker, "orders", range(10, 20))
        await group.until(lambda: group.read.keys() == sent)
        assert group.is_shared(7)


async def test_an_administrator_creates_inspects_and_deletes(broker: FakeBroker) -> None:
    async with Admin(namesrv(broker)) as admin:
        await admin.create_topic("new", queues=3)
        await admin.create_group("made")
        route = await admin.route("new")
        assert [(each.broker, each.address, each.readable) for each in route.queues] == [
            ("broker-a", broker.remoting_endpoint, 3)
        ]
        assert {"new", "orders"} <= set(await admin.topics())
        assert "made" in await admin.groups()
        async with AsyncExitStack() as stack:
            await Group(broker).member(stack, "only")
            (member,) = await admin.clients("g")
            assert member.broker == broker.remoting_endpoint
        assert await admin.clients("g") == ()
        await admin.delete_group("made")
        await admin.delete_topic("new")
        with pytest.raises(TopicNotFoundError):
            await admin.route("new")


async def test_a_grpc_client_is_described_with_its_group(broker: FakeBroker) -> None:
    await broker.create_group("g")
    async with (
        SimpleConsumer(broker.endpoint, group="g", subscriptions={"line": "a || b"}),
        Producer(broker.endpoint, topics=["line"]),
        Admin(namesrv(broker)) as admin,
    ):
        (client,) = [client for client in broker.clients() if client.group == "g"]
        (member,) = await admin.clients("g")
        assert member.client_id == client.client_id
        assert (member.language, member.version, member.model) == ("PYTHON", 513, "CLUSTERING")
        assert member.address.startswith("127.0.0.1:")
        assert member.subscriptions == {"line": "a || b"}
        assert len(await admin.producers("line")) == 1
    async with Admin(namesrv(broker)) as admin:
        assert await admin.clients("g") == ()
