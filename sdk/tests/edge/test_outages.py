"""Sends while servers are unavailable: bounded waits, exact errors, few attempts, and back when a server is."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.route import QueueChoice, Route, RouteQueue
from aiorocketmq._produce.many_sends import ManySends
from aiorocketmq._produce.outages import Outages
from aiorocketmq._produce.requests import BatchRequest, SingleRequest
from aiorocketmq._session.session import Session
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import (
    BackgroundTaskError,
    BusyError,
    ClosedError,
    CredentialsProviderError,
    IllegalMessageError,
    RocketMQError,
    ServerError,
    UnreachableError,
)
from aiorocketmq.hooks import SendEvent
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from aiorocketmq.producer import Producer
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Stored

SHORT = Retry(budget=0.4)
ORDER = Message("orders", b"x")


async def sends_wait(producer: Producer, count: int) -> None:
    """Wait until so many sends of a producer wait for a server."""
    async with asyncio.timeout(10):
        while producer._sender._outages.waiting < count:  # noqa: ASYNC110  # nothing reports it
            await asyncio.sleep(0)


@pytest.fixture
async def hanging(broker: FakeBroker) -> AsyncIterator[FakeBroker]:
    """A broker that stores the next message and does not answer."""
    await broker.create_topic("fifo", type="FIFO")
    with broker.faults.drop_reply("SendMessage", hang=True, times=1):
        yield broker


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_the_wait_for_a_slot_is_bounded_by_the_budget(
    hanging: FakeBroker, linger: float | None
) -> None:
    async with Producer(
        hanging.endpoint, topics=["orders"], retry=SHORT, max_in_flight=1, linger=linger
    ) as producer:
        async with hanging.events.subscribe() as events:
            first = asyncio.create_task(producer.send(ORDER))
            async for event in events:
                if isinstance(event, Stored):
                    break
        with pytest.raises(UnreachableError, match="all 1 slots for requests in flight are taken") as raised:
            async with asyncio.timeout(2):
                await producer.send(ORDER)
        assert raised.value.timed_out
        assert raised.value.may_retry
        assert not raised.value.may_have_taken_effect
        first.cancel()
        await asyncio.wait([first])
    assert len(hanging.messages("orders")) == 1


async def test_the_wait_for_a_turn_is_bounded_by_the_budget(hanging: FakeBroker) -> None:
    async with Producer(hanging.endpoint, topics=["fifo"], retry=SHORT) as producer:
        async with hanging.events.subscribe() as events:
            first = asyncio.create_task(producer.send(Message("fifo", b"1", message_group="a")))
            async for event in events:
                if isinstance(event, Stored):
                    break
        with pytest.raises(UnreachableError, match="earlier sends of message group 'a'") as raised:
            async with asyncio.timeout(2):
                await producer.send(Message("fifo", b"2", message_group="a"))
        assert not raised.value.may_have_taken_effect
        await producer.send(Message("fifo", b"3", message_group="b"))
        first.cancel()
        await asyncio.wait([first])
        assert len(producer._sender._group_locks) == 0


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_many_are_given_up_after_one_budget(broker: FakeBroker, linger: float | None) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=SHORT, linger=linger) as producer:
        await broker.crash()
        with pytest.raises(SendManyError) as raised:
            async with asyncio.timeout(5):
                await producer.send_many([ORDER] * 1000, max_in_flight=2)
    assert len(raised.value.errors) == 1000
    assert {type(error) for error in raised.value.errors} == {UnreachableError}
    last = raised.value.errors[-1]
    assert "none of this send_many was stored meanwhile" in last.text
    assert not last.may_have_taken_effect


@pytest.mark.parametrize(
    ("stored", "attempted"),
    [("ynynynyn", 8), ("nnnnn", 2), ("ynnnn", 3), ("yyyyynnn", 7), ("nynnn", 4)],
)
async def test_many_are_given_up_when_none_was_stored_for_a_budget(
    broker: FakeBroker, stored: str, attempted: int
) -> None:
    """Each attempt takes ten seconds, of fifteen that one may take."""
    now, attempts = 100.0, 0

    async def send(message: Message) -> SendReceipt:
        nonlocal now, attempts
        now, attempts = now + 10.0, attempts + 1
        if stored[attempts - 1] == "n":
            raise ServerError("not now")
        return SendReceipt("M", "orders", None, 0)

    async with Producer(broker.endpoint, retry=Retry(budget=15)) as producer:
        sender = producer._sender
        sender._loop = cast(asyncio.AbstractEventLoop, SimpleNamespace(time=lambda: now))
        outcomes = await ManySends([ORDER] * len(stored), send, sender, None).run(1)
    assert (attempts, len(outcomes)) == (attempted, len(stored))
    for outcome, letter in zip(outcomes[:attempted], stored, strict=False):
        assert isinstance(outcome, SendReceipt) is (letter == "y")
    for outcome in outcomes[attempted:]:
        assert isinstance(outcome, UnreachableError)
        assert "none of this send_many was stored meanwhile: not now" in outcome.text
        assert (outcome.timed_out, outcome.topic, outcome.may_have_taken_effect) == (True, "orders", False)


async def test_retries_of_a_message_group_keep_its_queue_while_the_route_has_it(broker: FakeBroker) -> None:
    """In another queue it could overtake, or be overtaken by, what is stored in the first."""
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        sender, session = producer._sender, producer._session
        assert isinstance(session, Session)
        route = session.routes.cached["orders"]
        more = [replace(each, queue=each.queue._replace(id=each.queue.id + 100)) for each in route.queues]
        session.routes.cached["orders"] = Route("orders", [*route.queues, *more])
        for group in map(str, range(20)):
            chosen = QueueChoice.of_message_group(route, group)
            assert chosen is not None
            message = Message("orders", b"x", message_group=group)
            request = SingleRequest(sender._calls, message, message.message_type, "M")
            assert sender._next_queue(request, route, chosen, 0) == chosen


async def test_a_batch_that_is_stored_in_part_counts_as_progress(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0

    async def send_batch(batch: BatchRequest, until: float) -> list[SendReceipt | RocketMQError]:
        nonlocal now
        now += 10.0
        return [SendReceipt("M", "orders", None, 0), ServerError("not now")]

    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(budget=15)) as producer:
        sender = producer._sender
        sender._loop = cast(asyncio.AbstractEventLoop, SimpleNamespace(time=lambda: now))
        monkeypatch.setattr(sender, "send_batch", send_batch)
        outcomes = await ManySends([ORDER] * 8, sender.send, sender, 2).run(1)
    assert [isinstance(outcome, SendReceipt) for outcome in outcomes] == [True, False] * 4


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (9, 5)])
async def test_so_many_of_many_are_sent_at_once(broker: FakeBroker, at_once: int, most: int) -> None:
    """Of nine messages, four are of one message group, and two of another topic's group of that name: those of a group
    are sent one after the other."""
    running: list[int] = []
    under_way = 0

    async def send(message: Message) -> SendReceipt:
        nonlocal under_way
        under_way += 1
        running.append(under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        under_way -= 1
        return SendReceipt("M", "orders", None, 0)

    messages = [ORDER] * 3 + [Message("orders", b"x", message_group="g")] * 4
    messages += [Message("refunds", b"x", message_group="g")] * 2
    async with Producer(broker.endpoint) as producer:
        assert len(await ManySends(messages, send, producer._sender, None).run(at_once)) == 9
    assert (max(running), len(running)) == (most, 9)


async def test_sends_share_the_attempts_of_an_outage(broker: FakeBroker, watching: Any) -> None:
    async with Producer(
        broker.endpoint, topics=["orders"], retry=Retry(budget=1.0), hooks=[watching]
    ) as producer:
        await broker.crash()
        with pytest.raises(UnreachableError):
            await producer.send(ORDER)
        before = watching.told(SendEvent).count("invoke")
        outcomes = await asyncio.gather(*(producer.send(ORDER) for _ in range(200)), return_exceptions=True)
        attempts = watching.told(SendEvent).count("invoke") - before
    assert {type(outcome) for outcome in outcomes} == {UnreachableError}
    assert attempts <= 20
    waited = [outcome for outcome in outcomes if "Retry.budget" in str(outcome)]
    assert len(waited) >= 180
    assert "has been unavailable for" in str(waited[0])


async def test_an_outage_is_logged_once_and_so_is_its_end(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq.producer")
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        await broker.crash()
        sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(50)]
        await sends_wait(producer, 49)
        await broker.start()
        await asyncio.gather(*sends)
    records = [record for record in caplog.records if record.name == "aiorocketmq.producer"]
    texts = [record.getMessage() for record in records]
    assert [record.levelno for record in records].count(logging.WARNING) == 1
    assert sum("is unavailable, sends wait" in text for text in texts) == 1
    assert sum("is available again after" in text for text in texts) == 1
    assert len(texts) <= 3


async def test_a_topic_is_looked_up_as_long_as_the_budget_lasts(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        await broker.crash()
        send = asyncio.create_task(producer.send(ORDER))
        with broker.faults.fail("QueryRoute", times=4) as lookups:
            await broker.start()
            await send
        assert lookups.hits == 4


async def test_an_earlier_attempt_that_may_be_stored_stays_in_the_error(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        with (
            broker.faults.drop_reply("SendMessage", times=1),
            broker.faults.refuse("SendMessage", "ILLEGAL_MESSAGE_TAG"),
            pytest.raises(IllegalMessageError) as raised,
        ):
            await producer.send(ORDER)
    assert len(broker.messages("orders")) == 1
    assert raised.value.may_have_taken_effect


async def test_a_time_out_before_any_attempt_leaves_nothing_open(broker: FakeBroker) -> None:
    # The second attempt at the server is due after both time-outs.
    seldom = Retry(initial=2.0, maximum=2.0)
    async with Producer(broker.endpoint, topics=["orders"], retry=seldom) as producer:
        await broker.crash()
        with pytest.raises(UnreachableError):
            await producer.send(ORDER, timeout=0.5)
        with pytest.raises(UnreachableError, match=r"within the 0.1 s that it was given") as raised:
            await producer.send(ORDER, timeout=0.1)
    assert not raised.value.may_have_taken_effect


async def test_one_attempt_waits_for_no_other(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(attempts=1)) as producer:
        await broker.crash()
        for _ in range(3):
            async with asyncio.timeout(5):
                with pytest.raises(UnreachableError):
                    await producer.send(ORDER)
        await broker.start()


async def test_sends_that_wait_for_a_server_end_when_the_producer_closes(broker: FakeBroker) -> None:
    timeouts = Timeouts(stop=0.2)
    async with Producer(broker.endpoint, topics=["orders"], timeouts=timeouts) as producer:
        await broker.crash()
        sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(20)]
        await sends_wait(producer, 19)
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClosedError}


async def test_another_broker_takes_the_message_at_once() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=1)
        async with Producer(cluster.endpoint, topics=["orders"]) as producer:
            await cluster.brokers[1].crash()
            receipts = [await producer.send(Message("orders", b"%d" % number)) for number in range(20)]
            assert producer._sender._outages or producer._session.isolated
    assert max(receipt.attempts for receipt in receipts) <= 3
    assert sum(receipt.attempts - 1 for receipt in receipts) <= 3


async def test_a_half_message_that_never_left_waits_out_an_outage(broker: FakeBroker) -> None:
    async def check(message: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    await broker.create_topic("payments", type="TRANSACTION")
    topics = ["orders", "payments"]
    async with Producer(broker.endpoint, topics=topics, transaction_checker=check) as producer:
        await broker.crash()
        # Until the connection is known to be gone: a half message on it may have left.
        with pytest.raises(UnreachableError):
            await producer.send(ORDER, timeout=0.5)

        async def pay() -> None:
            async with producer.transaction(Message("payments", b"42")):
                pass

        paying = asyncio.create_task(pay())
        await sends_wait(producer, 1)
        await broker.start()
        async with asyncio.timeout(10):
            await paying
    assert [message.body for message in broker.messages("payments")] == [b"42"]


async def test_errors_of_many_given_up_do_not_nest(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=SHORT) as producer:
        await broker.crash()
        with pytest.raises(SendManyError) as raised:
            await producer.send_many([ORDER] * 200, max_in_flight=1)
    last = raised.value.errors[-1]
    assert last.text.count("none of this send_many was stored meanwhile") == 1
    assert len(last.text) < 2000


async def test_a_fault_of_a_look_up_stays_when_the_next_hangs(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, retry=SHORT) as producer:
        with (
            broker.faults.refuse("QueryRoute", "INTERNAL_SERVER_ERROR", times=1),
            broker.faults.drop_reply("QueryRoute", hang=True),
            pytest.raises(ServerError, match="INTERNAL_SERVER_ERROR") as raised,
        ):
            await producer.send(ORDER)
    assert not raised.value.may_have_taken_effect


async def test_a_look_up_holds_no_slot(broker: FakeBroker) -> None:
    timeouts = Timeouts(start=5.0)
    async with Producer(broker.endpoint, topics=["orders"], max_in_flight=1, timeouts=timeouts) as producer:
        lookup = asyncio.create_task(producer.send(Message("unknown", b"x")))
        async with asyncio.timeout(2):
            while "unknown" not in producer._session.routes.unknown:  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0)
            await producer.send(ORDER)
        assert not lookup.done()
        lookup.cancel()
        await asyncio.wait([lookup])
    assert [message.body for message in broker.messages("orders")] == [ORDER.body]


def bound_to(route: Route, broker: str) -> list[str]:
    """Message groups whose queue is one of `broker`."""
    groups = [f"g{number}" for number in range(30)]
    queues = [QueueChoice.of_message_group(route, group) for group in groups]
    return [
        group for group, queue in zip(groups, queues, strict=True) if queue and queue.queue.broker == broker
    ]


async def test_one_dead_broker_leaves_the_slots_to_the_others() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("fifo", type="FIFO", queues=1)
        async with Producer(cluster.endpoint, topics=["fifo"], max_in_flight=2) as producer:
            route = producer._session.routes.cached["fifo"]
            healthy, dead = (queue.queue.broker for queue in route.writable)
            await cluster.brokers[1].crash()
            sends = [
                asyncio.create_task(producer.send(Message("fifo", b"x", message_group=group)))
                for group in bound_to(route, dead)[:5]
            ]
            await sends_wait(producer, 4)
            async with asyncio.timeout(2):
                for group in bound_to(route, healthy)[:3]:
                    await producer.send(Message("fifo", b"x", message_group=group))
            await cluster.brokers[1].start()
            receipts = await asyncio.gather(*sends)
            assert {receipt.queue.broker for receipt in receipts} == {dead}
            assert producer._sender._slots._value == 2


async def test_a_send_that_is_cancelled_while_it_waits_for_its_slot_again_frees_no_other() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("fifo", type="FIFO", queues=1)
        retry = Retry(initial=0.1, maximum=0.1)
        async with Producer(cluster.endpoint, topics=["fifo"], max_in_flight=1, retry=retry) as producer:
            route, slots = producer._session.routes.cached["fifo"], producer._sender._slots
            healthy, dead = (queue.queue.broker for queue in route.writable)
            here, there = bound_to(route, healthy)[0], bound_to(route, dead)[0]
            await cluster.brokers[1].crash()
            with pytest.raises(UnreachableError):  # it may go out before the connection is known to be broken
                await producer.send(Message("fifo", b"scout", message_group=there), timeout=0.3)
            waiting = asyncio.create_task(producer.send(Message("fifo", b"x", message_group=there)))
            await sends_wait(producer, 1)
            with cluster.brokers[0].faults.delay("SendMessage", 3600.0):
                holding = asyncio.create_task(producer.send(Message("fifo", b"x", message_group=here)))
                async with asyncio.timeout(10):
                    while not slots._waiters:  # noqa: ASYNC110  # nothing reports it
                        await asyncio.sleep(0.001)
                waiting.cancel()
                await asyncio.wait([waiting])
                assert slots._value == 0
                holding.cancel()
                await asyncio.wait([holding])
            assert (slots._value, producer._sender._outages.waiting) == (1, 0)


async def test_waiting_sends_follow_a_topic_that_moves() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("fifo", type="FIFO", queues=1)
        async with Producer(
            cluster.endpoint, topics=["fifo"], retry=Retry(initial=30, maximum=30)
        ) as producer:
            route = producer._session.routes.cached["fifo"]
            healthy, dead = route.writable
            moved, other = bound_to(route, dead.queue.broker)[:2]
            await cluster.brokers[1].crash()
            with pytest.raises(UnreachableError):  # it may go out before the connection is known to be broken
                await producer.send(Message("fifo", b"scout", message_group=moved), timeout=0.3)
            sends = [
                asyncio.create_task(producer.send(Message("fifo", b"x", message_group=moved)))
                for _ in range(2)
            ]
            await sends_wait(producer, 1)
            producer._session.routes.cached["fifo"] = Route("fifo", [healthy])
            async with asyncio.timeout(5):
                await producer.send(Message("fifo", b"x", message_group=other))
                receipts = await asyncio.gather(*sends)
            assert {receipt.queue for receipt in receipts} == {healthy.queue}
            assert not producer._sender._outages


async def test_waiting_sends_of_no_message_group_follow_their_topic_once_it_can_be_written_to() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=1)
        async with Producer(
            cluster.endpoint, topics=["orders"], retry=Retry(initial=30, maximum=30)
        ) as producer:
            routes = producer._session.routes.cached
            healthy, dead = routes["orders"].writable
            routes["orders"] = Route("orders", [dead])
            await cluster.brokers[1].crash()
            with pytest.raises(UnreachableError):  # it may go out before the connection is known to be broken
                await producer.send(ORDER, timeout=0.3)
            sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(2)]
            await sends_wait(producer, 2)
            routes["orders"] = Route("orders", [replace(dead, writable=False)])
            producer._sender._outages.follow("orders")
            await sends_wait(producer, 2)
            routes["orders"] = Route("orders", [healthy])
            producer._sender._outages.follow("orders")
            async with asyncio.timeout(5):
                receipts = await asyncio.gather(*sends)
            assert {receipt.queue for receipt in receipts} == {healthy.queue}
            assert (producer._sender._slots._value, producer._sender._outages.waiting) == (1024, 0)


HERE, THERE = parse_endpoint("127.0.0.1:1"), parse_endpoint("127.0.0.1:2")


def outages_of(routes: dict[str, Route]) -> Outages:
    """Outages of a producer with these routes."""
    return Outages(Retry(), random.Random(1), dict, routes)


def at(*endpoints: object) -> Route:
    """A route of topic `orders` with a queue at each of `endpoints`."""
    return Route(
        "orders",
        [
            RouteQueue(MessageQueue("orders", "b", number), each)  # type: ignore[arg-type]
            for number, each in enumerate(endpoints)
        ],
    )


async def test_an_outage_ends_when_no_route_names_its_server() -> None:
    routes = {"orders": at(HERE)}
    outages = outages_of(routes)
    outages.failed(HERE, UnreachableError("refused"), "x")
    outages.follow("orders")
    assert HERE in outages
    routes["orders"] = at(THERE)
    outages.follow("orders")
    assert not outages


async def test_one_waiting_send_at_a_time_probes_and_an_answer_wakes_the_others() -> None:
    routes = {"orders": at(HERE, THERE)}
    outages = Outages(Retry(initial=0.001, maximum=0.001), random.Random(1), dict, routes)
    outages.failed(HERE, UnreachableError("refused"), "x")
    until = asyncio.get_running_loop().time() + 20
    sends = [asyncio.create_task(outages.turn(HERE, until)) for _ in range(4)]
    done, _ = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    assert [send in done for send in sends] == [True, False, False, False]
    assert sends[0].result() is True
    assert outages.waiting == 3
    sends[1].cancel()
    await asyncio.wait([sends[1]])
    assert outages.waiting == 2
    outages.over(THERE)
    assert (outages.waiting, HERE in outages) == (2, True)
    outages.over(HERE)
    assert await asyncio.gather(*sends[2:]) == [False, False]
    assert (outages.waiting, bool(outages)) == (0, False)


async def test_a_waiting_send_ends_with_its_budget_and_with_another_route_of_its_topic() -> None:
    routes = {"orders": at(HERE)}
    outages = Outages(Retry(initial=60, maximum=60), random.Random(1), dict, routes)
    outages.failed(HERE, UnreachableError("refused"), "x")
    outages.follow("orders")
    now = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await outages.turn(HERE, now + 0.01)
    assert outages.waiting == 0
    sends = [asyncio.create_task(outages.turn(HERE, now + 20)) for _ in range(2)]
    await asyncio.sleep(0)
    outages.follow("orders")
    assert outages.waiting == 2
    routes["orders"] = at(HERE, THERE)
    outages.follow("orders")
    assert await asyncio.gather(*sends) == [False, False]
    assert HERE in outages
    outages.close()
    assert not outages


@pytest.mark.parametrize("error", [ClosedError("x"), CredentialsProviderError("x"), BackgroundTaskError("x")])
async def test_only_answers_of_a_server_end_its_outage(error: RocketMQError) -> None:
    outages = outages_of({"orders": at(HERE)})
    outages.failed(HERE, UnreachableError("refused"), "x")
    outages.failed(HERE, error, "x")
    assert HERE in outages
    outages.failed(HERE, BusyError("x"), "x")
    assert HERE not in outages


async def test_sends_that_wait_raise_at_once_what_ends_the_client(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(initial=10, maximum=10)) as producer:
        await broker.crash()
        sends = [asyncio.create_task(producer.send(ORDER)) for _ in range(20)]
        await sends_wait(producer, 19)
        producer._session.fail(BackgroundTaskError("a loop failed"))
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {BackgroundTaskError}


async def test_a_send_that_gives_up_hears_the_newest_reason_and_the_age_of_the_outage() -> None:
    outages = outages_of({"orders": at(HERE)})
    outages.failed(HERE, UnreachableError("refused"), "x")
    outages.failed(HERE, UnreachableError("no route to host"), "x")
    assert outages.reason(HERE).endswith(" s: no route to host")
    outages.failed(HERE, BusyError("x"), "x")
    assert outages.reason(HERE) == f"{HERE} was unavailable"


async def test_the_end_of_an_outage_is_logged_with_its_attempts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq.producer")
    outages = Outages(Retry(initial=0.001, maximum=0.001), random.Random(1), dict, {"orders": at(HERE)})
    outages.failed(HERE, UnreachableError("refused"), "x")
    for _ in range(2):
        assert await outages.turn(HERE, asyncio.get_running_loop().time() + 20)
        outages.failed(HERE, UnreachableError("refused"), "x")
    outages.over(HERE)
    outages.over(HERE)
    warned, ended = [record.getMessage() for record in caplog.records]
    assert warned.startswith(f"{HERE} is unavailable, sends wait for it up to 15 s: ")
    assert ended.endswith(" s and 3 attempts")


async def test_failures_that_are_no_outage_are_logged_once_for_each_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq.producer")
    outages, loop = outages_of({"orders": at(HERE, THERE)}), asyncio.get_running_loop()
    now = loop.time()
    for after, endpoint in [
        (0, HERE),
        (4, THERE),
        (5, HERE),
        (6, THERE),
        (11, HERE),
        (12, THERE),
        (15, THERE),
    ]:
        monkeypatch.setattr(loop, "time", lambda after=after: now + after)
        outages.failed(endpoint, ServerError("overloaded"), f"{after}")
    monkeypatch.undo()
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [f"attempt to send {after} failed: overloaded" for after in (0, 4, 11, 15)]


async def test_a_send_that_waited_for_its_slot_goes_where_its_topic_is_by_then() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=1)
        async with Producer(cluster.endpoint, topics=["orders"], max_in_flight=1) as producer:
            routes, slots = producer._session.routes.cached, producer._sender._slots
            old, new = routes["orders"].writable
            routes["orders"] = Route("orders", [old])
            with cluster.brokers[0].faults.delay("SendMessage", 3600.0):
                holding = asyncio.create_task(producer.send(ORDER))
                waiting = asyncio.create_task(producer.send(ORDER))
                async with asyncio.timeout(10):
                    while not slots._waiters:  # noqa: ASYNC110  # nothing reports it
                        await asyncio.sleep(0)
                routes["orders"] = Route("orders", [new])
                holding.cancel()
                receipt = await waiting
            assert (receipt.queue, receipt.attempts) == (new.queue, 1)


class TwoAttempts:
    """A batch whose first attempt may be stored, and whose second one is refused for its only message."""

    message_group = None

    def __init__(self) -> None:
        self.attempts = 0
        self.may_be_stored = self.has_slot = False

    def may_repeat(self, error: RocketMQError) -> bool:
        return True

    async def attempt(self, chosen: RouteQueue) -> Sequence[SendReceipt | RocketMQError]:
        self.attempts += 1
        if self.attempts == 1:
            raise UnreachableError("no answer", timed_out=True, may_have_taken_effect=True)
        return [BusyError("throttled")]


async def test_errors_of_single_messages_keep_what_earlier_attempts_left_open(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        sender = producer._sender
        route = await sender.route("orders", sender.until())
        (outcome,) = await sender._carry_out(TwoAttempts(), route, sender.until())
    assert isinstance(outcome, BusyError)
    assert outcome.may_have_taken_effect
