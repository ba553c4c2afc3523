"""Transactions against a broker on a real port: blocks that commit, roll back, or leave it open."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiorocketmq.config import Retry
from aiorocketmq.errors import (
    BusyError,
    ServerError,
    TransactionUnconfirmedError,
    TypeMismatchError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import Hook, SendCall, SendEvent, TransactionEndEvent
from aiorocketmq.message import Message, ReceivedMessage, SendReceipt
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import EventStream, FakeBroker
from aiorocketmq_fake.core.values.events import Prepared, TransactionEnded

from sdk.tests.waiting import until

PAYMENT = Message("payments", b"42", tag="paid", keys=["k"], properties={"source": "web"})


async def check(message: ReceivedMessage) -> Resolution:
    return Resolution.UNKNOWN


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    async with FakeBroker(profile=request.param) as broker:
        await broker.create_topic("payments", type="TRANSACTION")
        yield broker


@pytest.fixture
async def producer(broker: FakeBroker) -> AsyncIterator[Producer]:
    async with Producer(
        broker.endpoint, topics=["payments"], transaction_checker=check, retry=Retry(attempts=3)
    ) as producer:
        yield producer


def bodies(broker: FakeBroker) -> list[bytes]:
    return [message.body for message in broker.messages("payments")]


async def test_a_block_that_succeeds_delivers_its_message_and_not_before(
    broker: FakeBroker, producer: Producer
) -> None:
    async with producer.transaction(PAYMENT) as tx:
        assert tx.receipt.message_id
        assert broker.messages("payments") == ()
    (stored,) = broker.messages("payments")
    assert (stored.message_id, stored.body, stored.tag) == (tx.receipt.message_id, b"42", "paid")
    assert (tuple(stored.keys), stored.properties["source"]) == (("k",), "web")
    assert stored.born_at is not None
    assert stored.born_at > 1_600_000_000


async def test_an_exception_rolls_back_and_propagates(broker: FakeBroker, producer: Producer) -> None:
    async with broker.events.subscribe() as events:
        with pytest.raises(LookupError, match="no such account"):
            async with producer.transaction(PAYMENT):
                raise LookupError("no such account")
        assert (await ended(events)).resolution.name == "ROLLBACK"
    assert bodies(broker) == []


async def test_what_is_left_unknown_is_not_ended(broker: FakeBroker, producer: Producer) -> None:
    with broker.faults.delay("EndTransaction", 0.0) as counting:
        async with producer.transaction(PAYMENT) as tx:
            tx.leave_unknown()
        with pytest.raises(LookupError):  # noqa: PT012 - the block is what raises
            async with producer.transaction(PAYMENT) as tx:
                tx.leave_unknown()
                raise LookupError
    assert counting.hits == 0
    assert bodies(broker) == []


async def test_a_block_that_is_cancelled_is_left_to_the_checker(
    broker: FakeBroker, producer: Producer
) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with producer.transaction(PAYMENT):
            inside.set()
            await asyncio.Event().wait()

    with broker.faults.delay("EndTransaction", 0.0) as counting:
        working = asyncio.create_task(work())
        await inside.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert counting.hits == 0


async def test_a_commit_whose_answer_is_lost_is_not_repeated_and_says_so(
    broker: FakeBroker, producer: Producer
) -> None:
    with (
        broker.faults.drop_reply("EndTransaction") as fault,
        pytest.raises(TransactionUnconfirmedError) as raised,
    ):
        async with producer.transaction(PAYMENT):
            pass
    error = raised.value
    assert fault.hits == 1
    assert (error.topic, error.endpoint, error.may_have_taken_effect) == ("payments", broker.endpoint, True)
    assert not error.may_retry
    assert isinstance(error.__cause__, UnreachableError)
    assert "do not repeat the transaction" in str(error)
    assert bodies(broker) == [b"42"]


async def test_a_commit_that_the_server_refuses_has_the_servers_fields(
    broker: FakeBroker, producer: Producer
) -> None:
    with (
        broker.faults.refuse("EndTransaction", "INTERNAL_SERVER_ERROR", "cannot found transaction data"),
        pytest.raises(TransactionUnconfirmedError, match="cannot found transaction data") as raised,
    ):
        async with producer.transaction(PAYMENT):
            pass
    assert raised.value.code_name == "INTERNAL_SERVER_ERROR"
    assert raised.value.request_id


@pytest.mark.parametrize(("code", "is_open"), [("FORBIDDEN", False), ("INTERNAL_SERVER_ERROR", True)])
async def test_an_unconfirmed_commit_may_have_taken_effect_if_its_call_may(
    broker: FakeBroker, producer: Producer, code: str, is_open: bool
) -> None:
    with broker.faults.refuse("EndTransaction", code), pytest.raises(TransactionUnconfirmedError) as raised:
        async with producer.transaction(PAYMENT):
            pass
    assert raised.value.may_have_taken_effect is is_open


async def test_the_blocks_own_error_is_seen_when_its_rollback_is_lost(
    broker: FakeBroker, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.faults.drop_reply("EndTransaction"), pytest.raises(LookupError):
        async with producer.transaction(PAYMENT):
            raise LookupError
    assert "the rollback of message" in caplog.text


async def test_a_cancellation_during_the_commit_does_not_stop_it(
    broker: FakeBroker, producer: Producer
) -> None:
    async def work() -> None:
        async with producer.transaction(PAYMENT):
            pass

    with broker.faults.drop_reply("EndTransaction", hang=True, times=1):
        async with broker.events.subscribe() as events:
            working = asyncio.create_task(work())
            await ended(events)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
    assert bodies(broker) == [b"42"]


async def test_a_commit_on_its_way_is_not_stopped_by_a_cancellation(
    broker: FakeBroker, producer: Producer
) -> None:
    async def work() -> None:
        async with producer.transaction(PAYMENT):
            pass

    with broker.faults.delay("EndTransaction", 0.1) as late:
        working = asyncio.create_task(work())
        await until(lambda: late.hits)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert bodies(broker) == []
        await until(lambda: bodies(broker))
    assert bodies(broker) == [b"42"]


async def test_closing_the_producer_during_a_commit_leaves_it_unconfirmed(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["payments"], transaction_checker=check) as producer:

        async def work() -> None:
            async with producer.transaction(PAYMENT):
                pass

        with broker.faults.drop_reply("EndTransaction", hang=True, times=1):
            async with broker.events.subscribe() as events:
                working = asyncio.create_task(work())
                await ended(events)
            await producer.__aexit__(None, None, None)
            with pytest.raises(TransactionUnconfirmedError, match="was closed"):
                await working


async def test_a_half_message_whose_answer_is_lost_is_not_sent_again(
    broker: FakeBroker, producer: Producer
) -> None:
    ran = False
    async with broker.events.subscribe() as events:
        with broker.faults.drop_reply("SendMessage") as fault, pytest.raises(UnreachableError):
            async with producer.transaction(PAYMENT):
                ran = True
        assert fault.hits == 1
        await first(events, Prepared)
    assert not ran
    assert bodies(broker) == []


@pytest.mark.parametrize(
    ("code", "tries", "kind"), [("TOO_MANY_REQUESTS", 3, BusyError), ("HA_NOT_AVAILABLE", 1, ServerError)]
)
async def test_a_half_message_is_tried_again_only_where_it_cannot_be_stored_already(
    broker: FakeBroker, producer: Producer, code: str, tries: int, kind: type[Exception]
) -> None:
    with broker.faults.refuse("SendMessage", code) as fault, pytest.raises(kind):
        async with producer.transaction(PAYMENT):
            pass
    assert fault.hits == tries


class Watching(Hook):
    """Tags what is sent, and keeps all events."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def send(self, message: Message, call: SendCall) -> SendReceipt:
        return await call(Message(message.topic, message.body, tag="hooked"))

    def observe(self, event: object) -> None:
        self.events.append(event)


async def test_hooks_wrap_the_half_message_and_see_its_end(broker: FakeBroker) -> None:
    watching = Watching()
    async with (
        Producer(broker.endpoint, hooks=[watching], transaction_checker=check) as producer,
        producer.transaction(PAYMENT) as tx,
    ):
        pass
    assert broker.messages("payments")[0].tag == "hooked"
    assert [event.is_half for event in watching.events if isinstance(event, SendEvent)] == [True, True]
    ends = [event for event in watching.events if isinstance(event, TransactionEndEvent)]
    assert [event.phase.value for event in ends] == ["invoke", "ok"]
    assert (ends[1].message_id, ends[1].transaction_id) == (tx.receipt.message_id, tx.receipt.transaction_id)
    assert (ends[1].resolution, ends[1].from_check) == (Resolution.COMMIT, False)


async def test_transactions_need_a_checker(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        with pytest.raises(UsageError, match="give the Producer transaction_checker="):
            producer.transaction(PAYMENT)
    with pytest.raises(TypeError, match="must be a coroutine function"):
        Producer(broker.endpoint, transaction_checker="check")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "facts", [{"message_group": "g"}, {"delay": 3}, {"priority": 1}, {"lite_topic": "l"}]
)
async def test_only_plain_messages_can_be_transactional(producer: Producer, facts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot be transactional"):
        producer.transaction(Message("payments", b"x", **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5, 3601, float("nan"), -1])
async def test_the_time_before_the_first_check_is_whole_seconds(producer: Producer, seconds: float) -> None:
    with pytest.raises(ValueError, match="check_after"):
        producer.transaction(PAYMENT, check_after=seconds)


async def test_a_transaction_is_entered_once_and_has_its_receipt_inside(producer: Producer) -> None:
    tx = producer.transaction(PAYMENT)
    with pytest.raises(UsageError, match="no receipt"):
        _ = tx.receipt
    async with tx:
        pass
    with pytest.raises(UsageError, match="entered twice"):
        await tx.__aenter__()


async def test_a_topic_of_another_type_is_refused_before_the_block_runs(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.create_topic("orders")
    with pytest.raises(TypeMismatchError, match="takes NORMAL messages, not TRANSACTION"):
        async with producer.transaction(Message("orders", b"x")):
            raise AssertionError("the block ran")


async def ended(events: EventStream) -> TransactionEnded:
    event = await first(events, TransactionEnded)
    assert isinstance(event, TransactionEnded)
    return event


async def first(events: EventStream, kind: type) -> object:
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError("the broker's events ended")
