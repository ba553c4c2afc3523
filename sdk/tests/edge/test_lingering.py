"""Messages that travel together, and senders that do not notice: `Producer(linger=...)` and `send_many`."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._produce.requests import BatchRequest
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, TransportError
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import (
    BusyError,
    ClosedError,
    IllegalMessageError,
    MessageTooLargeError,
    PermissionDeniedError,
    RefusedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    TopicUnavailableError,
    UnreachableError,
)
from aiorocketmq.hooks import Hook, SendCall, SendEvent
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, SendReceipt
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Stored

from sdk.tests.edge.conftest import Awaiting
from sdk.tests.waiting import until


@pytest.fixture(params=["documented", "apache-5.5", "apache-5.5-cluster"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    async with FakeBroker(profile=request.param) as broker:
        await broker.create_topic("orders")
        yield broker


@pytest.fixture
async def producer(broker: FakeBroker) -> AsyncIterator[Producer]:
    retry = Retry(attempts=3)
    async with Producer(broker.endpoint, topics=["orders"], linger=0.02, retry=retry) as producer:
        yield producer


def numbered(count: int, topic: str = "orders") -> list[Message]:
    return [
        Message(
            topic, b"%d" % number, tag=f"t{number % 3}", keys=[f"k{number}"], properties={"n": str(number)}
        )
        for number in range(count)
    ]


async def test_concurrent_sends_travel_together_and_each_has_its_own_receipt(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.delay("SendMessage", 0.0) as requests:
        receipts = await asyncio.gather(*(producer.send(message) for message in numbered(64)))
    assert requests.hits == 2
    stored = {message.message_id: message for message in broker.messages("orders")}
    for number, receipt in enumerate(receipts):
        message = stored[receipt.message_id]
        assert (message.body, message.tag, tuple(message.keys)) == (
            b"%d" % number,
            f"t{number % 3}",
            (f"k{number}",),
        )
        assert message.properties["n"] == str(number)
        assert (receipt.offset, receipt.attempts) == (message.offset, 1)


async def test_one_send_alone_leaves_when_it_has_lingered(broker: FakeBroker, producer: Producer) -> None:
    async with asyncio.timeout(5):
        receipt = await producer.send(Message("orders", b"x"))
    assert [message.message_id for message in broker.messages("orders")] == [receipt.message_id]


async def test_without_time_to_linger_what_is_sent_at_once_still_travels_together(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0) as producer:
        with broker.faults.delay("SendMessage", 0.0) as requests:
            await asyncio.gather(*(producer.send(message) for message in numbered(20)))
    assert requests.hits == 1


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("FIFO", {"message_group": "g"}),
        ("DELAY", {"delay": 1}),
        ("PRIORITY", {"priority": 3}),
        ("LITE", {"lite_topic": "l"}),
    ],
)
async def test_what_a_batch_would_break_travels_alone(
    broker: FakeBroker, producer: Producer, kind: str, facts: dict[str, object]
) -> None:
    await broker.create_topic("special", type=kind)
    with broker.faults.delay("SendMessage", 0.0) as requests:
        await asyncio.gather(*(producer.send(Message("special", b"x", **facts)) for _ in range(5)))  # type: ignore[arg-type]
        await producer.send_many([Message("special", b"x", **facts) for _ in range(5)])  # type: ignore[arg-type]
    assert requests.hits == 10


async def test_topics_do_not_mix(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds")
    messages = [*numbered(10), *numbered(10, "refunds")]
    with broker.faults.delay("SendMessage", 0.0) as requests:
        await asyncio.gather(*(producer.send(message) for message in messages))
    assert requests.hits == 2
    assert (len(broker.messages("orders")), len(broker.messages("refunds"))) == (10, 10)


async def test_a_batch_that_began_later_leaves_after_the_first_one(broker: FakeBroker) -> None:
    await broker.create_topic("refunds")
    async with Producer(broker.endpoint, topics=["orders", "refunds"], linger=0.2) as producer:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        first = asyncio.create_task(producer.send(Message("orders", b"x")))
        await until(lambda: loop.time() > begun + 0.1)
        second = asyncio.create_task(producer.send(Message("refunds", b"x")))
        async with asyncio.timeout(5):
            assert (await first).topic == "orders"
            assert (await second).topic == "refunds"


async def test_a_batch_stays_far_below_the_servers_limit(broker: FakeBroker, producer: Producer) -> None:
    body = b"x" * 300 * 1024
    with broker.faults.delay("SendMessage", 0.0) as requests:
        await asyncio.gather(*(producer.send(Message("orders", body)) for _ in range(9)))
    assert requests.hits == 3
    await producer.send(Message("orders", b"x" * 4 * 1024 * 1024))


async def test_a_cancelled_send_is_taken_out_and_the_others_are_not_harmed(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0.2) as producer:
        sends = [asyncio.create_task(producer.send(message)) for message in numbered(3)]
        await asyncio.sleep(0)
        sends[1].cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [SendReceipt, asyncio.CancelledError, SendReceipt]
    assert {message.body for message in broker.messages("orders")} == {b"0", b"2"}


async def test_a_send_cancelled_after_its_batch_left_does_not_harm_the_others(
    broker: FakeBroker, producer: Producer, awaiting: Awaiting
) -> None:
    with broker.faults.drop_reply("SendMessage", hang=True, times=1):
        async with awaiting(Stored):
            sends = [asyncio.create_task(producer.send(message)) for message in numbered(3)]
        sends[0].cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError, SendReceipt, SendReceipt]


async def test_one_bad_message_of_a_batch_fails_alone(broker: FakeBroker, producer: Producer) -> None:
    messages = numbered(10)
    messages[4] = Message("orders", b"bad", properties={"MSG_REGION": "reserved"})
    outcomes = await asyncio.gather(*(producer.send(message) for message in messages), return_exceptions=True)
    assert Counter(type(outcome) for outcome in outcomes) == {SendReceipt: 9, IllegalMessageError: 1}
    assert isinstance(outcomes[4], IllegalMessageError)
    assert len(broker.messages("orders")) == 9


@pytest.mark.parametrize(
    ("code", "kind", "requests"),
    [
        ("TOPIC_NOT_FOUND", TopicUnavailableError, 3),
        ("FORBIDDEN", PermissionDeniedError, 1),
        ("BAD_REQUEST", RefusedError, 1 + 5),
        ("MESSAGE_CORRUPTED", IllegalMessageError, 1 + 5),
    ],
)
async def test_only_what_can_be_one_messages_fault_is_tried_one_by_one(
    broker: FakeBroker, producer: Producer, code: str, kind: type[RocketMQError], requests: int
) -> None:
    with broker.faults.refuse("SendMessage", code) as fault:
        outcomes = await asyncio.gather(
            *(producer.send(each) for each in numbered(5)), return_exceptions=True
        )
    assert [type(outcome) for outcome in outcomes] == [kind] * 5
    assert fault.hits == requests


async def test_messages_of_a_refused_batch_keep_their_ids_and_the_end_of_its_budget(
    broker: FakeBroker, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, alone = producer._sender, []

    async def send(message: Message, *, message_id: str = "", until: float = 0.0) -> SendReceipt:
        alone.append((message_id, until))
        return SendReceipt(message_id, message.topic, None, 0)

    monkeypatch.setattr(sender, "send", send)
    end = sender.until()
    members = [await sender.member(message, end) for message in numbered(2)]
    with broker.faults.refuse("SendMessage", "BAD_REQUEST", times=1):
        await sender.send_batch(sender.batch(members), end)
    assert alone == [(member.message_id, end) for member in members]


async def test_a_server_that_takes_no_batches_gets_single_messages(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.refuse("SendMessage", "BAD_REQUEST", times=1):
        await producer.send_many(numbered(5))
    assert len(broker.messages("orders")) == 5


async def test_a_batch_that_may_pass_is_tried_again_as_it_was(broker: FakeBroker, producer: Producer) -> None:
    with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", times=2) as fault:
        receipts = await asyncio.gather(*(producer.send(message) for message in numbered(5)))
    assert fault.hits == 2
    assert {receipt.attempts for receipt in receipts} == {3}
    assert {message.message_id for message in broker.messages("orders")} == {
        each.message_id for each in receipts
    }


@pytest.mark.parametrize(
    ("code", "kind"), [("TOO_MANY_REQUESTS", BusyError), ("INTERNAL_SERVER_ERROR", ServerError)]
)
async def test_each_send_of_a_lost_batch_gets_the_error_of_its_own(
    broker: FakeBroker, producer: Producer, code: str, kind: type[RocketMQError]
) -> None:
    with broker.faults.refuse("SendMessage", code, "because"):
        outcomes = await asyncio.gather(
            *(producer.send(each) for each in numbered(3)), return_exceptions=True
        )
    assert len({id(outcome) for outcome in outcomes}) == 3
    for outcome in outcomes:
        assert isinstance(outcome, kind)
        assert (outcome.code_name, outcome.topic, outcome.server_text) == (code, "orders", "because")
        assert outcome.request_id


async def test_each_send_of_a_batch_without_an_answer_gets_the_cause_as_well(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0, retry=Retry(attempts=1)) as producer:
        with broker.faults.drop_reply("SendMessage"):
            sends = (producer.send(each) for each in numbered(3))
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, UnreachableError)
        assert (outcome.may_have_taken_effect, outcome.may_retry) == (True, True)
        assert isinstance(outcome.__cause__, TransportError)


async def test_closing_sends_what_lingers(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=1.0) as producer:
        sends = [asyncio.create_task(producer.send(message)) for message in numbered(5)]
        await asyncio.sleep(0)
    receipts = await asyncio.gather(*sends)
    assert len({receipt.message_id for receipt in receipts}) == 5
    assert len(broker.messages("orders")) == 5


async def test_closing_waits_for_a_batch_no_longer_than_the_time_to_stop(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    timeouts = Timeouts(stop=0.2)
    async with Producer(broker.endpoint, topics=["orders"], linger=0, timeouts=timeouts) as producer:
        with broker.faults.drop_reply("SendMessage", hang=True):
            async with awaiting(Stored):
                sending = asyncio.create_task(producer.send(Message("orders", b"x")))
            await producer.__aexit__(None, None, None)
            with pytest.raises(ClosedError):
                await sending
    with pytest.raises(ClosedError):
        await producer.send(Message("orders", b"x"))


async def test_a_send_during_the_wait_for_batches_in_flight_is_refused(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    timeouts = Timeouts(stop=0.5)
    async with Producer(broker.endpoint, topics=["orders"], linger=0, timeouts=timeouts) as producer:
        with broker.faults.drop_reply("SendMessage", hang=True):
            async with awaiting(Stored):
                sending = asyncio.create_task(producer.send(Message("orders", b"x")))
            closing = asyncio.create_task(producer.__aexit__(None, None, None))
            await asyncio.sleep(0)
            assert not closing.done()
            with pytest.raises(ClosedError):
                async with asyncio.timeout(5):
                    await producer.send(Message("orders", b"late"))
            await closing
            with pytest.raises(ClosedError):
                await sending
    assert [message.body for message in broker.messages("orders")] == [b"x"]


async def test_a_send_that_lingers_too_long_for_its_caller_gives_up_and_is_not_sent(
    broker: FakeBroker,
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=1.0) as producer:
        with pytest.raises(UnreachableError, match=r"within the 0.05 s") as raised:
            await producer.send(Message("orders", b"x"), timeout=0.05)
        assert raised.value.timed_out
        assert not raised.value.may_have_taken_effect
    assert broker.messages("orders") == ()


@pytest.mark.parametrize("others", [0, 2])
async def test_a_send_that_gave_up_is_in_no_later_attempt(broker: FakeBroker, others: int) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0) as producer:
        await broker.crash()
        with pytest.raises(UnreachableError):  # it may go out before the connection is known to be broken
            await producer.send(Message("orders", b"scout"), timeout=0.3)
        sends = [asyncio.create_task(producer.send(message)) for message in numbered(others)]
        with pytest.raises(UnreachableError, match=r"within the 0.5 s") as raised:
            await producer.send(Message("orders", b"gave up"), timeout=0.5)
        assert not raised.value.may_have_taken_effect
        await broker.start()
        async with asyncio.timeout(10):
            await asyncio.gather(*sends)
        await producer.send(Message("orders", b"last"))
    bodies = {message.body for message in broker.messages("orders")}
    assert bodies == {b"last", *(message.body for message in numbered(others))}


async def test_a_send_that_gives_up_while_its_batch_is_under_way_may_be_stored(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0) as producer:
        with (
            broker.faults.drop_reply("SendMessage", hang=True),
            pytest.raises(UnreachableError, match=r"within the 0.5 s") as raised,
        ):
            await producer.send(Message("orders", b"x"), timeout=0.5)
        assert raised.value.may_have_taken_effect
        batches = producer._batcher._in_flight.values()
        async with asyncio.timeout(2):  # it is cancelled: an attempt has 3 s
            await asyncio.gather(*batches, return_exceptions=True)
    assert len(broker.messages("orders")) == 1


@pytest.mark.parametrize("code", ["INTERNAL_SERVER_ERROR", "BAD_REQUEST"])
async def test_the_budget_of_a_gathered_send_includes_lingering(broker: FakeBroker, code: str) -> None:
    retry = Retry(budget=0.2)
    async with Producer(broker.endpoint, topics=["orders"], linger=0.4, retry=retry) as producer:
        with broker.faults.refuse("SendMessage", code) as fault:
            outcomes = await asyncio.gather(
                *(producer.send(each) for each in numbered(3)), return_exceptions=True
            )
    assert fault.hits == 1
    for outcome in outcomes:
        assert isinstance(outcome, RocketMQError)
        assert outcome.may_retry


async def test_the_budget_of_a_batch_is_that_of_its_first_send_to_end(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0.0) as producer:
        sender, given = producer._sender, []
        ends = [sender.until() + seconds for seconds in (7, 5, 9)]
        send_batch, left = sender.send_batch, iter(ends)

        async def heard(batch: BatchRequest, until: float) -> Sequence[SendReceipt | RocketMQError]:
            given.append(until)
            return await send_batch(batch, until)

        monkeypatch.setattr(sender, "until", lambda: next(left))
        monkeypatch.setattr(sender, "send_batch", heard)
        await asyncio.gather(*map(producer.send, numbered(3)))
    assert given == [ends[1]]


class Cancelling(GrpcioTransport):
    """The ordinary transport; `then` is called before an answer to a send is passed on."""

    then: Callable[[], object] = staticmethod(lambda: None)

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        if path.endswith("/SendMessage"):
            self.then()
        return answer


async def test_what_is_cancelled_while_its_batch_is_refused_is_not_sent_alone(broker: FakeBroker) -> None:
    transport = Cancelling()
    async with Producer(broker.endpoint, topics=["orders"], linger=0.0, transport=transport) as producer:
        sends = [asyncio.create_task(producer.send(message)) for message in numbered(3)]
        transport.then = sends[1].cancel
        with broker.faults.refuse("SendMessage", "ILLEGAL_MESSAGE_TAG", times=1):
            async with asyncio.timeout(10):
                outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    bodies = [message.body for message in numbered(3)]
    assert {message.body for message in broker.messages("orders")} == {bodies[0], bodies[2]}
    assert [type(outcome) for outcome in outcomes[::2]] == [SendReceipt] * 2


async def test_a_send_that_gives_up_while_its_refused_batch_is_sent_one_by_one_may_be_stored(
    broker: FakeBroker,
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0.0) as producer:
        first, second = numbered(2)
        with (
            broker.faults.refuse("SendMessage", "ILLEGAL_MESSAGE_TAG", times=1),
            broker.faults.delay("SendMessage", 3600.0),
        ):
            waiting = asyncio.create_task(producer.send(first))
            with pytest.raises(UnreachableError, match=r"within the 0.3 s") as raised:
                await producer.send(second, timeout=0.3)
            waiting.cancel()
        assert raised.value.may_have_taken_effect


async def test_many_look_each_topic_up_once(broker: FakeBroker) -> None:
    retry = Retry(attempts=1)
    async with Producer(broker.endpoint, linger=0, retry=retry) as producer:
        with (
            broker.faults.refuse("QueryRoute", "TOO_MANY_REQUESTS") as fault,
            pytest.raises(SendManyError) as raised,
        ):
            await producer.send_many([*numbered(5), *numbered(5, "refunds")])
        assert fault.hits == 2
    assert [(type(error), error.topic) for error in raised.value.errors] == [
        *[(BusyError, "orders")] * 5,
        *[(BusyError, "refunds")] * 5,
    ]


async def test_what_the_producer_itself_refuses_does_not_enter_a_batch(
    broker: FakeBroker, producer: Producer
) -> None:
    with pytest.raises(MessageTooLargeError):
        await producer.send(Message("orders", b"x" * (4 * 1024 * 1024 + 1)))
    async with Producer(broker.endpoint, linger=0, timeouts=Timeouts(start=0.5)) as other:
        with pytest.raises(TopicNotFoundError):
            await other.send(Message("nothing", b"x"))


async def test_many_are_cut_into_batches_and_have_their_receipts_in_order(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.delay("SendMessage", 0.0) as requests:
        receipts = await producer.send_many(numbered(100))
    assert requests.hits == 4
    body_of = {message.message_id: message.body for message in broker.messages("orders")}
    assert [body_of[receipt.message_id] for receipt in receipts] == [b"%d" % number for number in range(100)]


async def test_many_start_a_task_for_each_request_and_none_for_one(
    broker: FakeBroker, producer: Producer
) -> None:
    begun = 0

    def counting(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        nonlocal begun
        begun += "anyio" in coro.cr_code.co_filename  # as a task group starts them
        return asyncio.Task(coro, loop=loop, **options)

    await producer.send(Message("orders", b"first"))
    loop = asyncio.get_running_loop()
    loop.set_task_factory(counting)
    try:
        await producer.send_many(numbered(32))
        assert begun == 0
        await producer.send_many(numbered(96))
        assert begun == 3
    finally:
        loop.set_task_factory(None)


async def test_many_of_several_kinds_have_an_outcome_each(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("fifo", type="FIFO")
    messages = [
        *numbered(3),
        Message("fifo", b"1", message_group="g"),
        Message("orders", b"bad", properties={"MSG_REGION": "reserved"}),
        Message("orders", b"x" * (4 * 1024 * 1024 + 1)),
        Message("fifo", b"2", message_group="g"),
    ]
    with pytest.raises(SendManyError, match="2 of 7 messages were not stored") as raised:
        await producer.send_many(messages)
    kinds = [type(outcome) for outcome in raised.value.outcomes]
    assert kinds == [*[SendReceipt] * 4, IllegalMessageError, MessageTooLargeError, SendReceipt]
    assert [message.body for message in broker.messages("fifo")] == [b"1", b"2"]


async def test_without_linger_many_travel_one_by_one(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        with broker.faults.delay("SendMessage", 0.0) as requests:
            await producer.send_many(numbered(10), max_in_flight=3)
    assert requests.hits == 10


async def test_observers_see_each_message_of_a_batch(broker: FakeBroker) -> None:
    class Seen(Hook):
        def __init__(self) -> None:
            self.events: list[SendEvent] = []

        def observe(self, event: object) -> None:
            if isinstance(event, SendEvent):
                self.events.append(event)

    hook = Seen()
    async with Producer(broker.endpoint, topics=["orders"], linger=0, hooks=[hook]) as producer:
        await producer.send_many(numbered(3))
        with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", times=1):
            await producer.send_many(numbered(2))
    assert [event.phase.value for event in hook.events] == [
        *("invoke", "invoke", "invoke", "ok", "ok", "ok"),
        *("invoke", "invoke", "fail", "fail", "invoke", "invoke", "ok", "ok"),
    ]
    assert len({event.operation for event in hook.events}) == 7
    assert len({event.message_id for event in hook.events}) == 5


async def test_hooks_wrap_each_message_of_a_batch(broker: FakeBroker) -> None:
    class Tagging(Hook):
        async def send(self, message: Message, call: SendCall) -> SendReceipt:
            return await call(Message(message.topic, message.body, tag="hooked"))

    async with Producer(broker.endpoint, topics=["orders"], linger=0.01, hooks=[Tagging()]) as producer:
        with broker.faults.delay("SendMessage", 0.0) as requests:
            await producer.send_many(numbered(20))
    assert requests.hits < 20
    assert [message.tag for message in broker.messages("orders")] == ["hooked"] * 20


async def test_no_more_requests_are_under_way_than_allowed(broker: FakeBroker) -> None:
    async with Producer(
        broker.endpoint, topics=["orders"], max_in_flight=2, retry=Retry(attempts=1)
    ) as producer:
        with broker.faults.drop_reply("SendMessage", hang=True) as fault:
            async with broker.events.subscribe() as events:
                sends = [asyncio.create_task(producer.send(message)) for message in numbered(5)]
                stored = 0
                async for event in events:
                    stored += isinstance(event, Stored)
                    if stored == 2:
                        break
            with pytest.raises(UnreachableError) as raised:
                await producer.send(Message("orders", b"late"), timeout=0.1)
            assert not raised.value.may_have_taken_effect
            assert fault.hits == 2
            for send in sends:
                send.cancel()
            await asyncio.wait(sends)
        await producer.send(Message("orders", b"y"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("linger", -1), ("linger", 5), ("linger", float("nan")), ("max_batch", 0), ("max_in_flight", 0)],
)
def test_the_bounds_are_checked_when_the_producer_is_made(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Producer("localhost:8081", **{name: value})  # type: ignore[arg-type]
