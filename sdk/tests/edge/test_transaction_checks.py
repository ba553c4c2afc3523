"""Transaction checks by servers, and the answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiorocketmq._core.transactions import Decisions
from aiorocketmq._produce import transactions
from aiorocketmq._produce.transactions import CHECKS_AT_ONCE
from aiorocketmq.errors import TransactionUnconfirmedError, UnreachableError
from aiorocketmq.hooks import Hook, TransactionCheckEvent, TransactionEndEvent
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import EventStream, FakeBroker
from aiorocketmq_fake.core.values.events import Prepared, TransactionChecked, TransactionEnded

from sdk.tests.edge.watching import Watching

PAYMENT = Message("payments", b"42", tag="paid", keys=["k"], properties={"source": "web"})


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    async with FakeBroker(profile=request.param, clock="manual") as broker:
        await broker.create_topic("payments", type="TRANSACTION")
        yield broker


class Checker:
    """Gives its answers one after the other, the last one again and again; an exception is raised."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[ReceivedMessage] = []

    async def __call__(self, message: ReceivedMessage) -> Resolution:
        self.asked.append(message)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]  # wrong answers are tried as well


def checked_producer(
    broker: FakeBroker, checker: Callable[[ReceivedMessage], Awaitable[Resolution]], *hooks: Hook
) -> Producer:
    return Producer(broker.endpoint, topics=["payments"], transaction_checker=checker, hooks=hooks)


async def leave_open(producer: Producer, body: bytes = b"42") -> str:
    async with producer.transaction(Message("payments", body, keys=["k"])) as tx:
        tx.leave_unknown()
    return tx.receipt.message_id


async def next_event(events: EventStream, kind: type) -> object:
    async with asyncio.timeout(10):
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError("the broker's events ended")


async def until_asked(broker: FakeBroker, events: EventStream) -> None:
    """Let time pass until the broker has asked, and no longer: it forgets a question after 30 seconds."""
    for _ in range(60):
        await broker.clock.advance(seconds=5)
        if any(isinstance(event, TransactionChecked) for event in events.take()):
            return
    raise AssertionError("nobody was asked within five minutes")


@asynccontextmanager
async def logging_of(name: str, text: str) -> AsyncIterator[None]:
    """Ends when the logger `name` has logged `text`."""
    logged = asyncio.Event()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if text in record.getMessage():
                logged.set()

    handler = Listening()
    logging.getLogger(name).addHandler(handler)
    try:
        yield
        async with asyncio.timeout(10):
            await logged.wait()
    finally:
        logging.getLogger(name).removeHandler(handler)


async def test_the_checker_decides_about_what_was_left_open(broker: FakeBroker, watching: Watching) -> None:
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker, watching) as producer, broker.events.subscribe() as events:
        message_id = await leave_open(producer)
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
    assert isinstance(ended, TransactionEnded)
    assert (ended.from_check, ended.resolution.name) == (True, "COMMIT")
    (checked,) = checker.asked
    assert (checked.message_id, checked.body, checked.keys) == (message_id, b"42", ("k",))
    assert checked.receipt_handle is None
    assert [message.body for message in broker.messages("payments")] == [b"42"]
    assert watching.told(TransactionCheckEvent) == ["single"]
    ends = [event for event in watching.events if isinstance(event, TransactionEndEvent)]
    assert all(event.from_check for event in ends)
    assert ends[0].phase.value == "invoke"


async def test_the_checker_can_roll_back(broker: FakeBroker) -> None:
    async with (
        checked_producer(broker, Checker(Resolution.ROLLBACK)) as producer,
        broker.events.subscribe() as events,
    ):
        await leave_open(producer)
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
    assert isinstance(ended, TransactionEnded)
    assert ended.resolution.name == "ROLLBACK"
    assert broker.messages("payments") == ()


@pytest.mark.parametrize("answer", [Resolution.UNKNOWN, RuntimeError("database down"), None, "COMMIT"])
async def test_a_checker_that_does_not_know_or_fails_is_asked_again(
    broker: FakeBroker, watching: Watching, answer: object
) -> None:
    checker = Checker(answer, Resolution.COMMIT)
    async with (
        checked_producer(broker, checker, watching) as producer,
        broker.events.subscribe() as events,
    ):
        await leave_open(producer)
        await until_asked(broker, events)
        await watching.until(TransactionCheckEvent, "single")
        await until_asked(broker, events)
        await next_event(events, TransactionEnded)
    assert len(checker.asked) == 2
    assert [message.body for message in broker.messages("payments")] == [b"42"]


async def test_another_producer_of_the_topic_is_asked_about_the_dead(broker: FakeBroker) -> None:
    async with checked_producer(broker, Checker(Resolution.ROLLBACK)) as dying:
        message_id = await leave_open(dying)
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker), broker.events.subscribe() as events:
        await until_asked(broker, events)
        await next_event(events, TransactionEnded)
    assert [message.message_id for message in checker.asked] == [message_id]
    assert [message.body for message in broker.messages("payments")] == [b"42"]


async def test_while_the_block_runs_the_checker_is_not_asked(broker: FakeBroker, watching: Watching) -> None:
    checker = Checker(Resolution.ROLLBACK)
    async with (
        checked_producer(broker, checker, watching) as producer,
        broker.events.subscribe() as events,
        producer.transaction(PAYMENT),
    ):
        await until_asked(broker, events)
        await watching.until(TransactionCheckEvent, "single")
    assert checker.asked == []
    assert [message.body for message in broker.messages("payments")] == [b"42"]


@pytest.mark.parametrize("succeeds", [True, False])
async def test_an_end_that_the_server_refused_is_sent_again_at_the_next_check(
    broker: FakeBroker, succeeds: bool
) -> None:
    checker = Checker(Resolution.ROLLBACK if succeeds else Resolution.COMMIT)
    async with checked_producer(broker, checker) as producer, broker.events.subscribe() as events:
        assert producer._transactions is not None
        producer._transactions._decisions = Decisions(quiet=0.0)  # or the test would take its ten seconds

        async def work() -> None:
            async with producer.transaction(PAYMENT):
                if not succeeds:
                    raise LookupError

        expected = TransactionUnconfirmedError if succeeds else LookupError
        with broker.faults.fail("EndTransaction", times=1), pytest.raises(expected):
            await work()
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
    assert isinstance(ended, TransactionEnded)
    assert (ended.from_check, ended.resolution.name) == (True, "COMMIT" if succeeds else "ROLLBACK")
    assert [message.body for message in broker.messages("payments")] == ([b"42"] if succeeds else [])
    assert checker.asked == []


async def test_a_check_right_after_the_end_is_not_answered(broker: FakeBroker, watching: Watching) -> None:
    """A second commit would deliver the message twice (R9.11)."""
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker, watching) as producer, broker.events.subscribe() as events:
        with broker.faults.fail("EndTransaction", times=1), pytest.raises(TransactionUnconfirmedError):
            async with producer.transaction(PAYMENT):
                pass
        with broker.faults.delay("EndTransaction", 0.0) as ends:
            await until_asked(broker, events)
            await watching.until(TransactionCheckEvent, "single")
    assert (ends.hits, checker.asked) == (0, [])


async def test_a_half_message_whose_block_never_ran_is_rolled_back_without_asking(broker: FakeBroker) -> None:
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker) as producer, broker.events.subscribe() as events:
        with broker.faults.drop_reply("SendMessage"), pytest.raises(UnreachableError):
            async with producer.transaction(PAYMENT):
                raise AssertionError("the block ran")
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
    assert isinstance(ended, TransactionEnded)
    assert ended.resolution.name == "ROLLBACK"
    assert checker.asked == []


async def test_a_half_message_that_is_cancelled_on_its_way_is_rolled_back_without_asking(
    broker: FakeBroker,
) -> None:
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker) as producer, broker.events.subscribe() as events:
        entering = asyncio.create_task(leave_open(producer))
        with broker.faults.drop_reply("SendMessage", hang=True):
            await next_event(events, Prepared)
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
    assert isinstance(ended, TransactionEnded)
    assert ended.resolution.name == "ROLLBACK"
    assert checker.asked == []


async def test_only_some_checkers_run_at_a_time_and_all_are_heard(broker: FakeBroker) -> None:
    running = most = 0
    full, go = asyncio.Event(), asyncio.Event()

    async def check(message: ReceivedMessage) -> Resolution:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == CHECKS_AT_ONCE:
            full.set()
        await go.wait()
        running -= 1
        return Resolution.COMMIT

    count = CHECKS_AT_ONCE + 10
    async with checked_producer(broker, check) as producer, broker.events.subscribe() as events:
        for number in range(count):
            await leave_open(producer, b"%d" % number)
        await until_asked(broker, events)
        async with asyncio.timeout(10):
            await full.wait()
        go.set()
        for _ in range(count):
            await next_event(events, TransactionEnded)
    assert most == CHECKS_AT_ONCE == 16
    assert len(broker.messages("payments")) == count


@pytest.mark.parametrize("at_once", [1, CHECKS_AT_ONCE])
async def test_while_a_check_runs_or_waits_it_is_not_made_again(
    broker: FakeBroker, watching: Watching, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(transactions, "CHECKS_AT_ONCE", at_once)
    go, asked = asyncio.Event(), 0

    async def check(message: ReceivedMessage) -> Resolution:
        nonlocal asked
        asked += 1
        await go.wait()
        return Resolution.COMMIT

    async with checked_producer(broker, check, watching) as producer, broker.events.subscribe() as events:
        for body in (b"1", b"2"):
            await leave_open(producer, body)
        for checks in range(2):
            await until_asked(broker, events)
            await watching.more(TransactionCheckEvent, 2 * checks + 1)
        go.set()
        for _ in range(2):
            await next_event(events, TransactionEnded)
    assert asked == 2
    assert {message.body for message in broker.messages("payments")} == {b"1", b"2"}


async def test_what_the_checker_has_decided_is_sent_again_without_asking_it(broker: FakeBroker) -> None:
    checker = Checker(Resolution.COMMIT)
    async with checked_producer(broker, checker) as producer, broker.events.subscribe() as events:
        assert producer._transactions is not None
        producer._transactions._decisions = decisions = Decisions(quiet=0.0)
        await leave_open(producer)
        with broker.faults.fail("EndTransaction", times=1):
            async with logging_of("aiorocketmq.producer", "the server will check again"):
                await until_asked(broker, events)
        await until_asked(broker, events)
        ended = await next_event(events, TransactionEnded)
        assert (len(decisions._open), len(decisions._decided)) == (0, 1)
    assert isinstance(ended, TransactionEnded)
    assert (ended.from_check, ended.resolution.name, len(checker.asked)) == (True, "COMMIT", 1)


async def test_checks_beyond_those_that_may_wait_are_answered_when_they_come_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transactions.CHECKS_WAITING == 1000
    monkeypatch.setattr(transactions, "CHECKS_WAITING", 2)
    go, asked = asyncio.Event(), []

    async def check(message: ReceivedMessage) -> Resolution:
        asked.append(message.body)
        await go.wait()
        return Resolution.COMMIT

    async with checked_producer(broker, check) as producer, broker.events.subscribe() as events:
        for number in range(3):
            await leave_open(producer, b"%d" % number)
        async with logging_of("aiorocketmq.producer", "2 checks are waiting"):
            await until_asked(broker, events)
        assert len(asked) == 2
        go.set()
        for _ in range(2):
            await next_event(events, TransactionEnded)
        await until_asked(broker, events)
        await next_event(events, TransactionEnded)
        assert producer._transactions is not None
        assert (producer._transactions._waiting, producer._transactions._places._value) == (0, 16)
    assert sorted(message.body for message in broker.messages("payments")) == [b"0", b"1", b"2"]


async def test_a_checker_that_takes_too_long_is_cancelled_and_asked_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert transactions.CHECK_SECONDS == 25.0
    monkeypatch.setattr(transactions, "CHECK_SECONDS", 0.01)
    asked = 0

    async def check(message: ReceivedMessage) -> Resolution:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.Event().wait()
        return Resolution.COMMIT

    async with checked_producer(broker, check) as producer, broker.events.subscribe() as events:
        await leave_open(producer)
        async with logging_of("aiorocketmq.producer", "took over 0.01 s"):
            await until_asked(broker, events)
        await until_asked(broker, events)
        await next_event(events, TransactionEnded)
    assert asked == 2


async def test_an_answer_that_the_server_does_not_take_is_logged(broker: FakeBroker) -> None:
    async with (
        checked_producer(broker, Checker(Resolution.COMMIT)) as producer,
        broker.events.subscribe() as events,
    ):
        await leave_open(producer)
        with broker.faults.refuse("EndTransaction", "INTERNAL_SERVER_ERROR") as fault:
            async with logging_of("aiorocketmq.producer", "the server will check again"):
                await until_asked(broker, events)
    assert fault.hits == 1


async def test_a_producer_without_checker_says_that_it_is_asked(broker: FakeBroker) -> None:
    async with checked_producer(broker, Checker(Resolution.COMMIT)) as dying:
        await leave_open(dying)
    async with (
        Producer(broker.endpoint, topics=["payments"]),
        broker.events.subscribe() as events,
        logging_of("aiorocketmq.producer", "has no transaction_checker"),
    ):
        await until_asked(broker, events)
    assert broker.messages("payments") == ()
