"""The producer against a broker on a real port."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import (
    BusyError,
    ClosedError,
    IllegalMessageError,
    MessageTooLargeError,
    PermissionDeniedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    TypeMismatchError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import ClientEvent, Hook, RecallEvent, SendCall, SendEvent
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, SendReceipt
from aiorocketmq.producer import Producer
from aiorocketmq_fake import EventStream, FakeBroker
from aiorocketmq_fake.core.values.events import Stored

from sdk.tests.clients import simple_consumer


async def until(events: EventStream, kind: type) -> None:
    async for event in events:
        if isinstance(event, kind):
            return


async def test_a_sent_message_is_stored_with_all_that_it_carries(
    broker: FakeBroker, producer: Producer
) -> None:
    receipt = await producer.send(
        Message("orders", b"body", tag="paid", keys=["42", "43"], properties={"source": "web"})
    )
    (stored,) = broker.messages("orders")
    assert (stored.message_id, stored.body, stored.tag) == (receipt.message_id, b"body", "paid")
    assert (tuple(stored.keys), dict(stored.properties)) == (("42", "43"), {"source": "web"})
    assert (receipt.topic, receipt.offset, receipt.attempts, receipt.endpoint) == (
        "orders",
        0,
        1,
        broker.endpoint,
    )
    assert stored.born_at is not None
    assert stored.born_at > 1_600_000_000


async def test_every_priority_arrives_also_the_lowest(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("urgent", type="PRIORITY")
    for priority in (0, 2):
        await producer.send(Message("urgent", b"x", priority=priority))
    async with simple_consumer(broker.endpoint, subscriptions=["urgent"]) as consumer:
        messages = [*await consumer.receive(wait=5), *await consumer.receive(wait=5)]
    assert [message.priority for message in messages] == [2, 0]


async def test_a_topic_that_was_not_declared_is_found_at_its_first_send(broker: FakeBroker) -> None:
    await broker.create_topic("refunds")
    async with Producer(broker.endpoint) as producer:
        with broker.faults.delay("QueryRoute", 0.0) as queries:
            await asyncio.gather(*(producer.send(Message("orders", b"x")) for _ in range(20)))
        assert queries.hits == 1
        (client,) = broker.clients()
        assert client.topics == ("orders",)
        await producer.send(Message("refunds", b"x"))
        (client,) = broker.clients()
        assert client.topics == ("orders", "refunds")
    assert len(broker.messages("orders")) == 20


async def test_sends_spread_over_all_queues(broker: FakeBroker, producer: Producer) -> None:
    """What the client asks for; this broker, like Apache's, chooses by itself."""
    receipts = [await producer.send(Message("orders", b"x")) for _ in range(8)]
    queues = [receipt.queue.id for receipt in receipts if receipt.queue is not None]
    assert queues[:4] == queues[4:]
    assert set(queues) == {0, 1, 2, 3}


async def test_messages_of_one_group_keep_their_order_and_queue(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.create_topic("fifo", type="FIFO")
    for number in range(8):
        await producer.send(Message("fifo", str(number).encode(), message_group="customer-42"))
    stored = broker.messages("fifo")
    assert [message.body for message in stored] == [str(number).encode() for number in range(8)]
    assert {message.message_group for message in stored} == {"customer-42"}
    assert len({message.queue for message in stored}) == 1


async def test_concurrent_sends_of_one_group_do_not_overtake_each_other_even_when_one_is_tried_again(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.create_topic("fifo", type="FIFO")
    messages = [Message("fifo", b"%d" % number, message_group=f"g{number % 2}") for number in range(20)]
    with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", times=2, skip=4):
        await asyncio.gather(*(producer.send(message) for message in messages))
    for group in ("g0", "g1"):
        stored = [int(message.body) for message in broker.messages("fifo") if message.message_group == group]
        assert stored == sorted(stored)
        assert len(stored) == 10
    assert len(producer._sender._group_locks) == 0


async def test_a_cancelled_send_gives_its_turn_on(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("fifo", type="FIFO")
    with broker.faults.drop_reply("SendMessage", hang=True, times=1):
        async with broker.events.subscribe() as events:
            first, second, third = (
                asyncio.create_task(producer.send(Message("fifo", body, message_group="g")))
                for body in (b"1", b"2", b"3")
            )
            await until(events, Stored)
        second.cancel()
        first.cancel()
        await third
    assert [message.body for message in broker.messages("fifo")] == [b"1", b"3"]


async def test_a_delayed_message_can_be_recalled(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("later", type="DELAY")
    receipt = await producer.send(Message("later", b"x", delay=3600))
    assert receipt.recall_handle
    await producer.recall(receipt)


async def test_both_ways_to_delay_mean_the_same_moment(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("later", type="DELAY")
    moment = datetime.now(UTC) + timedelta(hours=1)
    with_hook = Seen()
    async with Producer(broker.endpoint, hooks=[with_hook]) as watched:
        await watched.send(Message("later", b"x", deliver_at=moment))
        await watched.send(Message("later", b"x", delay=3600))
    first, second = with_hook.dues()
    assert first == round(moment.timestamp() * 1_000_000)
    assert abs(second - first) < 60_000_000


async def test_a_delay_counts_from_the_call_and_not_from_a_later_attempt(broker: FakeBroker) -> None:
    await broker.create_topic("later", type="DELAY")
    with_hook = Seen()
    async with Producer(broker.endpoint, hooks=[with_hook]) as watched:
        with broker.faults.fail("SendMessage", "UNAVAILABLE", times=2):
            await watched.send(Message("later", b"x", delay=3600))
    attempts = [(event.attempt, event.due_us) for event in with_hook.events if isinstance(event, SendEvent)]
    assert {attempt for attempt, _ in attempts} == {1, 2, 3}
    assert len({due for _, due in attempts}) == 1


async def test_an_undelayed_message_cannot_be_recalled(producer: Producer) -> None:
    receipt = await producer.send(Message("orders", b"x"))
    with pytest.raises(UsageError, match="has no recall handle"):
        await producer.recall(receipt)


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("FIFO", {}),
        ("NORMAL", {"message_group": "g"}),
        ("NORMAL", {"delay": 10}),
        ("DELAY", {"message_group": "g"}),
    ],
)
async def test_a_message_of_the_wrong_type_is_refused_before_it_travels(
    broker: FakeBroker, producer: Producer, kind: str, facts: dict[str, object]
) -> None:
    await broker.create_topic("typed", type=kind)
    with pytest.raises(TypeMismatchError, match=f"takes {kind} messages"):
        await producer.send(Message("typed", b"x", **facts))  # type: ignore[arg-type]
    assert broker.messages("typed") == ()


async def test_a_body_over_the_servers_limit_is_refused_before_it_travels(
    broker: FakeBroker, producer: Producer
) -> None:
    await producer.send(Message("orders", b"x" * 4 * 1024 * 1024))
    with pytest.raises(MessageTooLargeError, match="over the server's limit of 4194304 bytes"):
        await producer.send(Message("orders", b"x" * (4 * 1024 * 1024 + 1)))
    assert len(broker.messages("orders")) == 1


async def test_an_unknown_topic_is_reported_within_the_deadline_and_soon_the_second_time(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(broker.endpoint, timeouts=Timeouts(start=1.0)) as producer:
        with pytest.raises(TopicNotFoundError, match="'nothing'"):
            await producer.send(Message("nothing", b"x"))
        assert producer._session.routes.unknown == set()
        assert "yet, retrying" in caplog.text
        caplog.clear()
        with pytest.raises(TopicNotFoundError):
            await producer.send(Message("nothing", b"x"))
        assert "yet, retrying" not in caplog.text
        await broker.create_topic("nothing")
        await producer.send(Message("nothing", b"x"))
        # Once it is gone again, it is waited for as at first.
        await broker.delete_topic("nothing")
        del producer._session.routes.cached["nothing"]
        with pytest.raises(TopicNotFoundError):
            await producer.send(Message("nothing", b"x"))
        assert "yet, retrying" in caplog.text


async def test_a_topic_without_write_permission_is_reported(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("closed", permission="READ")
    with pytest.raises(PermissionDeniedError, match="no writable queue"):
        await producer.send(Message("closed", b"x"))


@pytest.mark.parametrize(
    "code", ["TOO_MANY_REQUESTS", "INTERNAL_SERVER_ERROR", "PROXY_TIMEOUT", "HA_NOT_AVAILABLE"]
)
async def test_what_may_pass_is_tried_again_with_the_same_id(
    broker: FakeBroker, producer: Producer, code: str
) -> None:
    with broker.faults.refuse("SendMessage", code, times=2) as fault:
        receipt = await producer.send(Message("orders", b"x"))
    assert (receipt.attempts, fault.hits) == (3, 2)
    (stored,) = broker.messages("orders")
    assert stored.message_id == receipt.message_id


@pytest.mark.parametrize(
    ("code", "kind"),
    [("TOO_MANY_REQUESTS", BusyError), ("INTERNAL_SERVER_ERROR", ServerError), ("UNAUTHORIZED", None)],
)
async def test_after_the_last_try_the_error_has_its_fields(
    broker: FakeBroker, code: str, kind: type[RocketMQError] | None
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(attempts=3)) as producer:
        with (
            broker.faults.refuse("SendMessage", code, "because") as fault,
            pytest.raises(RocketMQError) as raised,
        ):
            await producer.send(Message("orders", b"x"))
    error = raised.value
    assert isinstance(error, kind or PermissionDeniedError)
    assert fault.hits == (3 if kind else 1)
    assert (error.code_name, error.topic, error.endpoint) == (code, "orders", broker.endpoint)
    assert error.request_id
    assert error.server_text == "because"


async def test_what_cannot_pass_is_tried_once(broker: FakeBroker, producer: Producer) -> None:
    with (
        broker.faults.refuse("SendMessage", "ILLEGAL_MESSAGE_TAG") as fault,
        pytest.raises(IllegalMessageError),
    ):
        await producer.send(Message("orders", b"x"))
    assert fault.hits == 1


async def test_a_lost_answer_is_tried_again_and_may_store_the_message_twice(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.drop_reply("SendMessage", times=1):
        receipt = await producer.send(Message("orders", b"x"))
    assert receipt.attempts == 2
    assert [message.message_id for message in broker.messages("orders")] == [receipt.message_id] * 2


async def test_a_server_that_does_not_answer_is_unreachable_and_the_effect_open(broker: FakeBroker) -> None:
    timeouts = Timeouts(request=0.2)
    async with Producer(broker.endpoint, retry=Retry(attempts=1), timeouts=timeouts) as producer:
        await producer.send(Message("orders", b"x"))
        with broker.faults.drop_reply("SendMessage", hang=True), pytest.raises(UnreachableError) as raised:
            await producer.send(Message("orders", b"x"))
    assert raised.value.timed_out
    assert raised.value.may_have_taken_effect
    assert raised.value.may_retry


async def test_a_send_gives_up_when_its_own_timeout_expires(broker: FakeBroker, producer: Producer) -> None:
    with (
        broker.faults.drop_reply("SendMessage", hang=True),
        pytest.raises(UnreachableError, match=r"'orders' was not stored within the 0.1 s") as raised,
    ):
        await producer.send(Message("orders", b"x"), timeout=0.1)
    error = raised.value
    assert (error.timed_out, error.may_have_taken_effect, error.may_retry) == (True, True, True)
    assert error.topic == "orders"
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout"):
            await producer.send(Message("orders", b"x"), timeout=wrong)


async def test_hooks_see_that_a_sends_own_timeout_expires(broker: FakeBroker) -> None:
    errors: list[BaseException] = []

    class Noting(Hook):
        async def send(self, message: Message, call: SendCall) -> SendReceipt:
            try:
                return await call(message)
            except BaseException as error:
                errors.append(error)
                raise

    async with Producer(broker.endpoint, hooks=[Noting()]) as producer:
        with broker.faults.drop_reply("SendMessage", hang=True), pytest.raises(UnreachableError):
            await producer.send(Message("orders", b"x"), timeout=0.1)
    assert [type(error) for error in errors] == [UnreachableError]


async def test_the_budget_bounds_all_attempts(broker: FakeBroker) -> None:
    retry = Retry(budget=0.5)
    async with Producer(broker.endpoint, retry=retry, topics=["orders"]) as producer:
        for code, kind in (("TOO_MANY_REQUESTS", BusyError), ("INTERNAL_SERVER_ERROR", ServerError)):
            begun = asyncio.get_running_loop().time()
            with broker.faults.refuse("SendMessage", code) as fault, pytest.raises(kind):
                await producer.send(Message("orders", b"x"))
            assert 0.2 < asyncio.get_running_loop().time() - begun < 1.5
            assert fault.hits > 2


async def test_a_server_that_forgot_the_client_gets_its_settings_again(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.refuse("SendMessage", "UNRECOGNIZED_CLIENT_TYPE", times=1):
        receipt = await producer.send(Message("orders", b"x"))
    assert receipt.attempts == 1


async def test_many_messages_give_one_receipt_each_in_order(broker: FakeBroker, producer: Producer) -> None:
    receipts = await producer.send_many([Message("orders", str(number).encode()) for number in range(100)])
    body_of = {message.message_id: message.body for message in broker.messages("orders")}
    assert [body_of[receipt.message_id] for receipt in receipts] == [
        str(number).encode() for number in range(100)
    ]


async def test_many_may_come_from_a_generator_and_may_be_none(broker: FakeBroker, producer: Producer) -> None:
    receipts = await producer.send_many(Message("orders", b"%d" % number) for number in range(3))
    assert [receipt.message_id for receipt in receipts] == [
        message.message_id for message in sorted(broker.messages("orders"), key=lambda each: each.body)
    ]
    assert await producer.send_many([]) == ()


async def test_when_some_of_many_fail_the_error_has_an_outcome_for_each(
    broker: FakeBroker, producer: Producer
) -> None:
    messages = [
        Message("orders", b"good"),
        Message("orders", b"x" * (4 * 1024 * 1024 + 1)),
        Message("orders", b"too"),
    ]
    with pytest.raises(SendManyError, match="1 of 3 messages were not stored") as raised:
        await producer.send_many(messages)
    kinds = [type(outcome) for outcome in raised.value.outcomes]
    assert kinds == [SendReceipt, MessageTooLargeError, SendReceipt]
    assert len(broker.messages("orders")) == 2


async def test_many_messages_of_one_group_keep_their_order(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("fifo", type="FIFO")
    messages = [Message("fifo", str(number).encode(), message_group="g") for number in range(30)]
    await producer.send_many(messages)
    assert [message.body for message in broker.messages("fifo")] == [message.body for message in messages]


async def test_hooks_wrap_a_send_the_first_one_outermost(broker: FakeBroker) -> None:
    order: list[str] = []

    class Noting(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def send(self, message: Message, call: SendCall) -> SendReceipt:
            order.append(f"{self.name} before")
            receipt = await call(Message(message.topic, message.body + self.name.encode()))
            order.append(f"{self.name} after")
            return receipt

    async with Producer(broker.endpoint, hooks=[Noting("a"), Noting("b")]) as producer:
        await producer.send(Message("orders", b"x"))
    assert order == ["a before", "b before", "b after", "a after"]
    assert broker.messages("orders")[0].body == b"xab"


class Seen(Hook):
    """Keeps the events of a producer."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def observe(self, event: object) -> None:
        self.events.append(event)

    def phases(self, kind: type[SendEvent | ClientEvent | RecallEvent]) -> list[str]:
        return [event.phase.value for event in self.events if isinstance(event, kind)]

    def dues(self) -> list[int]:
        return [event.due_us or 0 for event in self.events if isinstance(event, SendEvent) and event.receipt]


async def test_observers_see_every_try_as_a_pair_of_events(broker: FakeBroker) -> None:
    hook = Seen()
    async with Producer(broker.endpoint, hooks=[hook]) as producer:
        await producer.send(Message("orders", b"x"))
        with broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", times=1):
            await producer.send(Message("orders", b"x"))
        with broker.faults.drop_reply("SendMessage", times=1):
            await producer.send(Message("orders", b"x"))
    assert hook.phases(SendEvent) == [
        *("invoke", "ok"),
        *("invoke", "fail", "invoke", "ok"),
        *("invoke", "info", "invoke", "ok"),
    ]
    assert hook.phases(ClientEvent) == ["invoke", "ok", "single"]
    sends = [event for event in hook.events if isinstance(event, SendEvent)]
    assert [event.attempt for event in sends] == [1, 1, 1, 1, 2, 2, 1, 1, 2, 2]
    assert len({event.operation for event in sends}) == 5


async def test_observers_see_a_recall(broker: FakeBroker) -> None:
    await broker.create_topic("later", type="DELAY")
    hook = Seen()
    async with Producer(broker.endpoint, hooks=[hook]) as producer:
        await producer.recall(await producer.send(Message("later", b"x", delay=3600)))
    assert hook.phases(RecallEvent) == ["invoke", "ok"]


async def test_a_recall_without_an_answer_may_have_taken_effect_and_one_that_is_refused_has_not(
    broker: FakeBroker,
) -> None:
    await broker.create_topic("later", type="DELAY")
    hook = Seen()
    async with Producer(broker.endpoint, hooks=[hook]) as producer:
        receipt = await producer.send(Message("later", b"x", delay=3600))
        with (
            broker.faults.drop_reply("RecallMessage", times=1),
            pytest.raises(UnreachableError) as unanswered,
        ):
            await producer.recall(receipt)
        with (
            broker.faults.refuse("RecallMessage", "FORBIDDEN"),
            pytest.raises(PermissionDeniedError) as refused,
        ):
            await producer.recall(receipt)
    assert hook.phases(RecallEvent) == ["invoke", "info", "invoke", "fail"]
    assert [each.value.may_have_taken_effect for each in (unanswered, refused)] == [True, False]


async def test_a_hook_that_fails_to_observe_disturbs_nothing(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Hook):
        def observe(self, event: object) -> None:
            raise RuntimeError("a fault of the hook")

    async with Producer(broker.endpoint, hooks=[Broken()]) as producer:
        await producer.send(Message("orders", b"x"))
    assert "a hook failed to observe SendEvent" in caplog.text


async def test_a_send_in_flight_when_the_producer_closes_ends_with_closed_and_not_with_a_cancellation(
    broker: FakeBroker,
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], timeouts=Timeouts(stop=0.2)) as producer:
        with broker.faults.drop_reply("SendMessage", hang=True):
            async with broker.events.subscribe() as events:
                sending = asyncio.create_task(producer.send(Message("orders", b"x")))
                await until(events, Stored)
            await producer.__aexit__(None, None, None)
            with pytest.raises(ClosedError):
                await sending


async def test_a_cancelled_send_ends_as_cancelled(broker: FakeBroker, producer: Producer) -> None:
    with broker.faults.drop_reply("SendMessage", hang=True):
        async with broker.events.subscribe() as events:
            sending = asyncio.create_task(producer.send(Message("orders", b"x")))
            await until(events, Stored)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    await producer.send(Message("orders", b"y"))


async def test_closing_twice_is_harmless(broker: FakeBroker) -> None:
    producer = Producer(broker.endpoint)
    async with producer:
        pass
    await producer.__aexit__(None, None, None)
    assert broker.clients() == ()


def test_topics_given_as_text_are_refused() -> None:
    with pytest.raises(TypeError, match=r"write \['orders'\]"):
        Producer("localhost:8081", topics="orders")
    with pytest.raises(ValueError, match="topic 'a b'"):
        Producer("localhost:8081", topics=["a b"])
