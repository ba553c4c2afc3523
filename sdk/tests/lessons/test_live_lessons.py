"""Each live lesson (live-lessons.md 1 to 13, and 14) holds against the fake as Apache's 5.5 and real servers."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._transport.grpcio import _OPTIONS, GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.config import Credentials, Timeouts
from aiorocketmq.connection import Connection
from aiorocketmq.errors import GroupNotFoundError, RefusedError, TopicNotFoundError, UsageError
from aiorocketmq.hooks import AckEvent, ChangeEvent, Event, ForwardEvent, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import DeadLetter, PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.subscription import dead_letters
from aiorocketmq.transaction import Resolution
from aiorocketmq.wire import messages as pb

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ("apache-5.5",)
"""The contract's profile has none of the traps that the lessons are about."""
PATIENCE = 40.0


class Watch(Hook):
    """Keeps events, and lets one wait for so many good ones of a kind."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def good(self, kind: type[Any], count: int = 1) -> list[Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                events = [e for e in self.events if isinstance(e, kind) and e.phase is Phase.OK]
                if len(events) >= count:
                    return events
                self._news.clear()
                await self._news.wait()


class Overheard(GrpcioTransport):
    """The ordinary transport, which keeps the deadlines of its streams, what is sent, and the size of metadata."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: list[float] = []
        self.sends: list[tuple[pb.Message, ...]] = []
        self.metadata_sizes: list[int] = []

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        if path.endswith("/SendMessage"):
            self.sends.append(tuple(pb.SendMessageRequest.FromString(payload).messages))
        self.metadata_sizes.append(sum(len(name) + len(value) for name, value in metadata))
        return await super().unary(endpoint, path, payload, metadata, timeout)

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        self.deadlines.append(timeout)
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)


async def sent(place: Place, topic: str, *bodies: bytes, message_group: str | None = None) -> None:
    async with Producer(place.endpoint) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, message_group=message_group))


async def test_1_a_message_in_a_handler_is_renewed_by_us_and_not_delivered_twice(place: Place) -> None:
    topic, group, watch = await place.topic(), await place.group(), Watch()
    attempts: list[int] = []

    async def handle(message: ReceivedMessage) -> None:
        attempts.append(message.attempt)
        await watch.good(ChangeEvent, 2)  # twice five seconds: longer than the first lease

    await sent(place, topic, b"long work")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=handle, invisible=10, hooks=[watch]
    ):
        await watch.good(AckEvent)
    assert attempts == [1]


async def test_2_changes_and_ack_of_one_message_go_one_after_the_other_and_leave_no_copy(
    place: Place,
) -> None:
    topic, group = await place.topic(), await place.group()
    await sent(place, topic, b"once")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        (message,) = await consumer.receive(invisible=10)
        await asyncio.gather(message.extend(11), message.extend(10), message.extend(12), message.ack())
        with pytest.raises(UsageError):
            await message.extend(10)
        await place.pass_time(18)
        waiting = asyncio.create_task(consumer.receive(wait=5))
        await asyncio.wait((waiting,), timeout=0.5)
        await place.pass_time(6)
        assert await waiting == []


async def test_3_a_dead_letter_is_the_message_itself_though_its_lease_was_extended(place: Place) -> None:
    topic, group, watch = await place.topic(kind="FIFO"), await place.group(ordered=True), Watch()

    async def give_up(message: ReceivedMessage) -> None:
        if message.body == b"broken":
            await message.extend(20)
            await message.extend(25)
            raise DeadLetter("it cannot be read")

    await sent(place, topic, b"fine", b"broken", b"fine as well", message_group="g")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=give_up, hooks=[watch]
    ):
        await watch.good(ForwardEvent)
        await watch.good(AckEvent, 2)
    reader = await place.group(max_attempts=50)
    async with SimpleConsumer(place.endpoint, group=reader, subscriptions=[dead_letters(group)]) as consumer:
        (letter,) = await consumer.receive()
        assert letter.body == b"broken"
        await letter.ack()


async def test_4_a_receive_leaves_three_seconds_beyond_its_poll(place: Place) -> None:
    topic, group, transport = await place.topic(), await place.group(), Overheard()
    await sent(place, topic, b"1")
    async with SimpleConsumer(
        place.endpoint, group=group, subscriptions=[topic], transport=transport, timeouts=Timeouts(request=1)
    ) as consumer:
        (message,) = await consumer.receive(wait=7)
        await message.ack()
    assert transport.deadlines == [10.0]


async def test_5_redelivery_topics_are_refused_and_dead_letters_guarded(place: Place) -> None:
    topic, group, watch = await place.topic(), await place.group(max_attempts=17), Watch()
    with pytest.raises(ValueError, match="can stop redelivery"):
        SimpleConsumer(place.endpoint, group=group, subscriptions=[f"%RETRY%{group}"])

    async def give_up(message: ReceivedMessage) -> None:
        raise DeadLetter("no")

    await sent(place, topic, b"1")
    async with PushConsumer(
        place.endpoint, group=group, subscriptions=[topic], handler=give_up, hooks=[watch]
    ):
        await watch.good(ForwardEvent)
    equal = await place.group(max_attempts=17)
    with pytest.raises(UsageError, match="begin with attempt 19"):
        async with SimpleConsumer(place.endpoint, group=equal, subscriptions=[dead_letters(group)]):
            pass


async def test_6_only_plain_messages_travel_in_batches_and_only_when_asked_to(place: Place) -> None:
    topic, later = await place.topic(), await place.topic(kind="DELAY")
    fifo, paid = await place.topic(kind="FIFO"), await place.topic(kind="TRANSACTION")
    group, alone, gathered = await place.group(), Overheard(), Overheard()

    async def decide(message: ReceivedMessage) -> Resolution:
        return Resolution.COMMIT

    plain = [Message(topic, b"%d" % number, keys=[f"key-{number}"]) for number in range(4)]
    async with Producer(place.endpoint, transport=alone) as producer:
        await asyncio.gather(*(producer.send(message) for message in plain))
    assert [len(each) for each in alone.sends] == [1, 1, 1, 1]

    async with Producer(
        place.endpoint, transport=gathered, linger=0.2, transaction_checker=decide
    ) as producer:

        async def pay() -> None:
            async with producer.transaction(Message(paid, b"paid")):
                pass

        special = [
            *(Message(later, b"later", delay=60) for _ in range(2)),
            *(Message(fifo, b"in line", message_group="g") for _ in range(2)),
        ]
        receipts, *_ = await asyncio.gather(
            asyncio.gather(*(producer.send(message) for message in plain)),
            *(producer.send(message) for message in special),
            *(pay() for _ in range(2)),
        )
    assert sorted(len(each) for each in gathered.sends) == [1, 1, 1, 1, 1, 1, 4]
    (batch,) = (each for each in gathered.sends if len(each) == 4)
    assert [message.topic.name for message in batch] == [topic] * 4
    # One entry answers for all of them: their ids are their own, their places are counted on.
    places = {receipt.message_id: receipt.offset for receipt in receipts}
    ids = [message.system_properties.message_id for message in batch]
    assert [places[each] for each in ids] == list(range(places[ids[0]], places[ids[0]] + 4))

    came: list[ReceivedMessage] = []
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        while len(came) < 8:
            messages = await consumer.receive(wait=5)
            assert messages, "the topic holds less than was sent"
            await consumer.ack(messages)
            came += messages
    assert sorted(message.body for message in came) == sorted(2 * [message.body for message in plain])
    own = {message.message_id: message.keys for message in came}
    assert len(own) == (5 if place.is_old else 8)
    if not place.is_old:
        assert [own[receipt.message_id] for receipt in receipts] == [message.keys for message in plain]


async def test_7_every_message_says_when_it_was_born(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    before = datetime.now(UTC) - timedelta(seconds=1)
    await sent(place, topic, b"1")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        (message,) = await consumer.receive()
        await message.ack()
    assert message.born_at is not None
    assert before <= message.born_at <= datetime.now(UTC) + timedelta(seconds=1)


async def test_8_an_unknown_group_is_one_error_with_its_remedy_or_created_on_request(place: Place) -> None:
    topic, group = await place.topic(), place.name("group")
    await sent(place, topic, b"1")
    if not place.is_old:  # servers before 5.5 take any group
        with pytest.raises(GroupNotFoundError, match="create the consumer group first"):
            async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]):
                pass
    async with SimpleConsumer(
        place.endpoint, group=group, subscriptions=[topic], create_group=True
    ) as consumer:
        (message,) = await consumer.receive()
        assert (message.body, message.attempt) == (b"1", 1)
        await message.ack()


async def test_9_no_ping_and_no_metadata_that_end_the_connection(place: Place) -> None:
    assert int(dict(_OPTIONS)["grpc.keepalive_time_ms"]) >= 300_000
    topic, transport = await place.topic(), Overheard()
    credentials = Credentials("k" * 64, "s" * 64, session_token="t" * 2048)
    async with Producer(
        place.endpoint, namespace="n" * 64, credentials=credentials, transport=transport
    ) as producer:
        await producer.send(Message(topic, b"1"))
    assert max(transport.metadata_sizes) < 7 * 1024


async def test_10_the_address_that_a_server_names_can_be_replaced(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    named: list[str] = []

    def elsewhere(address: str) -> str:
        named.append(address)
        return place.endpoint

    async with (
        Connection(place.endpoint, address_map=elsewhere) as rocketmq,
        Producer(rocketmq) as producer,
        SimpleConsumer(rocketmq, group=group, subscriptions=[topic]) as consumer,
    ):
        await producer.send(Message(topic, b"1"))
        (message,) = await consumer.receive()
        await message.ack()
    assert named


async def test_11_an_error_keeps_code_and_words_of_the_server(place: Place) -> None:
    topic = place.name("topic")
    with pytest.raises(TopicNotFoundError) as raised:
        async with Producer(place.endpoint, topics=[topic], timeouts=Timeouts(start=1)):
            pass
    assert isinstance(raised.value, RefusedError)
    assert raised.value.code == 40402
    assert topic in str(raised.value)


async def test_12_that_a_recall_is_agreed_to_does_not_prove_that_there_was_a_message(place: Place) -> None:
    topic, group = await place.topic(kind="DELAY"), await place.group()
    async with Producer(place.endpoint, topics=[topic]) as producer:
        receipt = await producer.send(Message(topic, b"recalled", delay=8))
        await producer.recall(receipt)
        await producer.recall(receipt)  # by now there is none
        last = await producer.send(Message(topic, b"last", delay=9))
        await place.pass_time(12)
        async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
            (message,) = await consumer.receive()
            assert (message.body, message.message_id) == (b"last", last.message_id)
            await message.ack()
    assert "does not prove" in (Producer.recall.__doc__ or "")


async def test_13_a_topic_that_was_asked_for_too_early_is_waited_for(place: Place) -> None:
    topic = place.name("topic")

    async with Producer(place.endpoint, timeouts=Timeouts(start=PATIENCE)) as producer:
        sending = asyncio.create_task(producer.send(Message(topic, b"early")))
        await asyncio.wait((sending,), timeout=0.5)
        assert not sending.done()
        await place.topic(topic)
        await place.pass_time(21)
        receipt = await asyncio.wait_for(sending, PATIENCE)
        assert receipt.topic == topic


async def test_14_all_messages_of_a_batch_are_settled_though_their_leases_were_extended(place: Place) -> None:
    topic, group = await place.topic(queues=1), await place.group()
    await sent(place, topic, b"first", b"middle", b"last")
    async with SimpleConsumer(place.endpoint, group=group, subscriptions=[topic]) as consumer:
        messages = await consumer.receive(invisible=10)
        assert [message.body for message in messages] == [b"first", b"middle", b"last"]
        for message in messages:
            await message.extend(11)
            await message.extend(10)
        await asyncio.gather(*(message.ack() for message in messages))
        await place.pass_time(18)
        waiting = asyncio.create_task(consumer.receive(wait=5))
        await asyncio.wait((waiting,), timeout=0.5)
        await place.pass_time(6)
        assert await waiting == []
