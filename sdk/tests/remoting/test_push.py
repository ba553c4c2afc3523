"""A push consumer over the remoting protocol: what it commits, sends back, and gives up."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq import Broadcast, CacheLimits, DeadLetter, PushConsumer, RetryLater, Sql, Timeouts
from aiorocketmq._core.remoting.frame import Frame, encode
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import Record
from aiorocketmq._core.settings import Backoff
from aiorocketmq._push import queue_consumption
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.errors import PermissionDeniedError, UsageError
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.pull_consumer import Offset

from sdk.tests.core.remoting.encoding import checksum, encode_record
from sdk.tests.edge.test_lease_times import Hand
from sdk.tests.remoting.script import (
    NOTICE,
    QUEUE,
    Script,
    Server,
    Start,
    answer,
    requests,
    resetting,
    seen,
    start_two,
)
from sdk.tests.waiting import until

RETRIES = "%RETRY%g"


class Broker:
    """Topics of one queue or more whose messages are read from the offset that a pull names."""

    def __init__(self, queues: int = 1, **answers: Any) -> None:
        self.logs: dict[tuple[str, int], list[Record]] = {}
        self.script = Script({RequestCode.PULL_MESSAGE: self.pull}, queues=queues)
        self.server: Server

    async def start(self, start: Start) -> Broker:
        self.server = await start(self.script)
        return self

    def add(
        self, *bodies: bytes, topic: str = "T", queue: int = 0, again: int = 0, **properties: str
    ) -> None:
        """Store messages, which were sent back `again` times before."""
        log = self.logs.setdefault((topic, queue), [])
        for body in bodies:
            log.append(
                Record(
                    queue_id=queue,
                    queue_offset=len(log),
                    topic=topic,
                    body=body,
                    property_text=write_properties({"UNIQ_KEY": f"ID-{body.decode()}", **properties}),
                    commit_log_offset=1000 + len(log),
                    reconsume_times=again,
                    crc=checksum(body),
                )
            )

    def pull(self, frame: Frame) -> Frame | None:
        topic, queue = frame.fields["topic"], int(frame.fields["queueId"])
        offset = int(frame.fields["queueOffset"])
        batch = self.logs.get((topic, queue), [])[offset : offset + int(frame.fields["maxMsgNums"])]
        if not batch:
            return None  # held
        fields = {"nextBeginOffset": str(offset + len(batch)), "minOffset": "0", "maxOffset": "99"}
        return answer(frame, fields=fields, body=b"".join(map(encode_record, batch)))

    def commits(self, topic: str = "T", queue: int = 0) -> list[int]:
        """All offsets that were committed."""
        return [
            int(frame.fields["commitOffset"])
            for frame in requests(self.server, RequestCode.UPDATE_CONSUMER_OFFSET)
            if (frame.fields["topic"], frame.fields["queueId"]) == (topic, str(queue))
        ]

    def committed(self, topic: str = "T", queue: int = 0) -> int | None:
        """What was committed last."""
        return next(reversed(self.commits(topic, queue)), None)


class Handler:
    """Notes what it is called with, and ends as `end` says."""

    def __init__(self, end: Callable[[ReceivedMessage], Any] = lambda message: None) -> None:
        self.calls: list[tuple[bytes, int]] = []
        self.messages: list[ReceivedMessage] = []
        self._end = end
        self._called = asyncio.Event()

    async def __call__(self, message: ReceivedMessage) -> None:
        self.calls.append((message.body, message.attempt))
        self.messages.append(message)
        self._called.set()
        ending = self._end(message)
        if ending is not None:
            await ending

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.calls) < count:
                self._called.clear()
                await self._called.wait()


@asynccontextmanager
async def consuming(broker: Broker, handler: Handler, **options: Any) -> AsyncIterator[PushConsumer]:
    options.setdefault("subscriptions", ["T"])
    options.setdefault("start", Offset.BEGIN)
    async with PushConsumer(
        f"namesrv://{broker.server.address}", group="g", handler=handler, **options
    ) as it:
        yield it


async def heard(broker: Broker, consumer: PushConsumer) -> None:
    """Wait until the broker has heard from the consumer once more: whatever it had to do by itself is done."""
    count = len(requests(broker.server, RequestCode.HEART_BEAT))
    consumer._session.send_heartbeats()
    await seen(broker.server, RequestCode.HEART_BEAT, count + 1)


def fails(message: ReceivedMessage) -> None:
    raise RuntimeError(message.body)


async def test_a_member_declares_to_brokers_its_topics_and_that_of_its_retries(start: Start) -> None:
    broker = await Broker().start(start)
    async with consuming(broker, Handler(), subscriptions={"T": "A || B"}) as consumer:
        assert consumer.is_ready
        *_, beat = await seen(broker.server, RequestCode.HEART_BEAT, 2)
        (group,) = json.loads(beat.body)["consumerDataSet"]
        assert (group["groupName"], group["consumeType"], group["messageModel"]) == (
            "g",
            "CONSUME_PASSIVELY",
            "CLUSTERING",
        )
        assert {each["topic"]: each["subString"] for each in group["subscriptionDataSet"]} == {
            "T": "A || B",
            RETRIES: "*",
        }
        await until(lambda: {queue.topic for queue in consumer.assigned_queues} == {"T", RETRIES})


@pytest.mark.parametrize(("start_at", "told"), [(None, None), (Offset.END, "false")])
async def test_brokers_decide_where_a_young_queue_begins_unless_configured(
    start: Start, start_at: Offset | None, told: str | None
) -> None:
    broker = await Broker().start(start)
    async with consuming(broker, Handler(), start=start_at):
        frame, *_ = await seen(broker.server, RequestCode.QUERY_CONSUMER_OFFSET)
        assert frame.fields.get("setZeroIfNotFound") == told


async def test_what_arrives_while_a_new_group_finds_the_end_is_not_skipped(start: Start) -> None:
    broker = await Broker().start(start)

    def query(frame: Frame) -> Frame:
        if frame.fields["topic"] == "T":
            broker.add(b"just now")
        return answer(frame, ResponseCode.QUERY_NOT_FOUND)

    broker.script.answers[RequestCode.QUERY_CONSUMER_OFFSET] = query
    broker.script.answers[RequestCode.GET_MAX_OFFSET] = lambda frame: answer(
        frame, fields={"offset": str(len(broker.logs.get((frame.fields["topic"], 0), [])))}
    )
    handler = Handler()
    async with consuming(broker, handler, start=None):
        await handler.until(1)
    assert handler.calls == [(b"just now", 1)]


async def test_what_is_handled_is_committed_when_the_consumer_ends(start: Start) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"b", b"c")
    broker.add(b"d", queue=1)
    handler = Handler()
    async with consuming(broker, handler) as consumer:
        await handler.until(4)
        await until(lambda: not consumer.messages_in_flight)
        statistics = consumer.statistics
    assert sorted(handler.calls) == [(b"a", 1), (b"b", 1), (b"c", 1), (b"d", 1)]
    assert (broker.committed(), broker.committed(queue=1)) == (3, 1)
    assert (statistics.received, statistics.handled, statistics.acknowledged) == (4, 4, 4)


async def test_nothing_behind_a_message_in_hand_is_committed(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumption, "COMMIT_EVERY", 0.01)
    broker = await Broker().start(start)
    broker.add(b"a", b"slow", b"c")
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait() if message.body == b"slow" else None)
    async with consuming(broker, handler):
        await handler.until(3)
        await until(lambda: broker.committed() == 1)
        done.set()
        await until(lambda: broker.committed() == 3)
    # Before its first message was handled, the queue's start may have been committed.
    assert [offset for offset, _ in groupby([0, *broker.commits()])] == [0, 1, 3]


async def test_an_offset_that_one_queue_could_not_commit_is_due_again_and_holds_up_no_other(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumption, "COMMIT_EVERY", 0.01)
    broker = await Broker(queues=2).start(start)
    broker.add(b"a")
    broker.add(b"b", queue=1)
    broker.script.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda frame: answer(
        frame, ResponseCode.SYSTEM_ERROR if frame.fields["queueId"] == "0" else 0, remark="not this one"
    )
    async with consuming(broker, Handler()) as consumer:
        await until(lambda: "not this one" in consumer.health().degraded.get("committing offsets", ""))
        await until(lambda: broker.committed(queue=1) == 1)
        refused = len(broker.commits())
        del broker.script.answers[RequestCode.UPDATE_CONSUMER_OFFSET]
        await until(lambda: len(broker.commits()) > refused)
        await until(lambda: not consumer.health().is_degraded)
    assert (broker.committed(), broker.committed(queue=1)) == (1, 1)
    # Before its message was handled, a queue's start may have been committed.
    assert broker.commits(queue=1) in ([1], [0, 1])


async def test_what_a_handler_did_not_end_within_the_grace_is_not_committed(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"a", b"slow", b"c")
    handler = Handler(lambda message: asyncio.Event().wait() if message.body == b"slow" else None)
    async with consuming(broker, handler, shutdown_timeout=0):
        await handler.until(3)
    assert broker.committed() == 1
    assert not requests(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)


async def test_a_failed_message_is_sent_back_for_the_brokers_own_delay(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"a", b"bad", b"c")
    handler = Handler(lambda message: fails(message) if message.body == b"bad" else None)
    async with consuming(broker, handler) as consumer:
        (frame,) = await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: not consumer.messages_in_flight)
        assert consumer.statistics.released == 1
    assert frame.fields == {
        "offset": "1001",
        "group": "g",
        "delayLevel": "0",
        "originMsgId": "ID-bad",
        "originTopic": "T",
        "unitMode": "false",
        "bname": "broker-a",
    }
    assert broker.committed() == 3


async def test_a_failed_message_is_sent_back_to_the_broker_that_has_it(start: Start) -> None:
    first, second = Broker(), Broker()
    first.server, second.server = await start_two(start, first.script, second.script)
    second.add(b"bad")
    async with consuming(first, Handler(fails)) as consumer:
        (frame,) = await seen(second.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: not consumer.messages_in_flight)
        assert (consumer.statistics.body_bytes, consumer.statistics.released) == (0, 1)
    assert (frame.fields["bname"], frame.fields["offset"]) == ("broker-b", "1000")
    assert not requests(first.server, RequestCode.CONSUMER_SEND_MSG_BACK)


@pytest.mark.parametrize(
    ("error", "level"),
    [(RetryLater(0), "1"), (RetryLater(7), "3"), (RetryLater(40_000), "18"), (DeadLetter("no"), "-1")],
)
async def test_a_handler_chooses_the_delay_or_the_dead_letters(
    start: Start, error: Exception, level: str
) -> None:
    broker = await Broker().start(start)
    broker.add(b"a")

    def end(message: ReceivedMessage) -> None:
        raise error

    async with consuming(broker, Handler(end)) as consumer:
        (frame,) = await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: not consumer.messages_in_flight)
        statistics = consumer.statistics
    assert frame.fields["delayLevel"] == level
    assert (statistics.dead_lettered, statistics.released) == ((1, 0) if level == "-1" else (0, 1))


async def test_a_message_that_cannot_be_sent_back_is_tried_again_and_holds_up_the_commit(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._push.sending_back.failure_pause", lambda *_, **__: 0.01)
    broker = await Broker().start(start)
    broker.add(b"bad", b"b")
    refuses = [True]
    broker.script.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda frame: answer(
        frame, ResponseCode.SYSTEM_ERROR if refuses else 0
    )
    handler = Handler(lambda message: fails(message) if message.body == b"bad" else None)
    async with consuming(broker, handler) as consumer:
        await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK, 3)
        assert consumer.messages_in_flight == 1
        assert "sending messages back" in consumer.health().degraded
        refuses.clear()
        await until(lambda: not consumer.messages_in_flight)
        assert not consumer.health().degraded
    assert broker.committed() == 2


async def test_a_message_that_could_not_be_sent_back_before_the_end_is_read_again(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"bad", b"b")
    broker.script.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda frame: answer(
        frame, ResponseCode.SYSTEM_ERROR
    )
    handler = Handler(lambda message: fails(message) if message.body == b"bad" else None)
    async with consuming(broker, handler, timeouts=Timeouts(stop=0.1)):
        await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await handler.until(2)
    assert broker.committed() in (0, None)


async def test_the_largest_number_of_attempts_is_that_of_the_wire(start: Start) -> None:
    """One more would end a recording, whose column has 32 bits."""
    broker = await Broker().start(start)
    broker.add(b"0", again=2**31 - 1)
    handler = Handler()
    async with consuming(broker, handler):
        await handler.until(1)
    assert handler.calls == [(b"0", 2**31 - 1)]


async def test_a_retry_comes_with_its_topic_and_its_attempt(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"again", topic=RETRIES, again=2, RETRY_TOPIC="T")
    # Whatever the group starts at: what has failed is never skipped.
    broker.script.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda frame: answer(
        frame, ResponseCode.QUERY_NOT_FOUND
    )
    broker.script.answers[RequestCode.GET_MAX_OFFSET] = lambda frame: answer(frame, fields={"offset": "1"})
    handler = Handler(fails)
    async with consuming(broker, handler, start=Offset.END):
        (frame,) = await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
    assert handler.calls == [(b"again", 3)]
    (message,) = handler.messages
    assert (message.topic, message.queue.topic) == ("T", RETRIES)
    assert (frame.fields["originTopic"], frame.fields["offset"]) == ("T", "1000")


async def test_messages_have_no_lease_to_settle(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"a")
    errors: list[Exception] = []

    async def end(message: ReceivedMessage) -> None:
        try:
            await message.ack()
        except UsageError as error:
            errors.append(error)

    handler = Handler(end)
    async with consuming(broker, handler) as consumer:
        await handler.until(1)
        await until(lambda: not consumer.messages_in_flight)
    assert len(errors) == 1


async def test_in_order_a_failed_message_runs_again_before_those_behind_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumption, "BACKOFF", Backoff(3, steps=(0.01,)))
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"bad", b"c")
    broker.add(b"x", b"y", queue=1)
    handler = Handler(lambda message: fails(message) if message.body == b"bad" else None)
    async with consuming(broker, handler, ordered=True) as consumer:
        (frame,) = await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: not consumer.messages_in_flight and consumer.statistics.handled == 4)
    of_first = [call for call in handler.calls if call[0] not in (b"x", b"y")]
    assert of_first == [(b"a", 1), (b"bad", 1), (b"bad", 2), (b"bad", 3), (b"c", 1)]
    assert [body for body, _ in handler.calls if body in (b"x", b"y")] == [b"x", b"y"]
    assert frame.fields["delayLevel"] == "-1"
    assert (broker.committed(), broker.committed(queue=1)) == (3, 2)
    assert len(requests(broker.server, RequestCode.LOCK_BATCH_MQ)) >= 1
    assert len(requests(broker.server, RequestCode.UNLOCK_BATCH_MQ)) == 1


def joining(broker: Broker, other: str) -> None:
    """Let another member join, and notify the first one at its next heartbeat."""
    broker.script.consumers.append(other)

    def beat(frame: Frame) -> bytes:
        return encode(answer(frame)) + encode(NOTICE)

    broker.script.answers[RequestCode.HEART_BEAT] = beat


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_queue_is_given_up_once_its_handlers_have_ended_and_was_committed(
    start: Start, ordered: bool
) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"b", b"c", queue=1)
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait())
    async with consuming(broker, handler, concurrency=1, ordered=ordered) as consumer:
        await handler.until(1)
        await until(lambda: len(consumer.assigned_queues) == 4)
        joining(broker, "~")  # it is the last one, and gets the second queue of each topic
        consumer._session.send_heartbeats()
        await until(lambda: consumer._running._leaving)
        assert broker.committed(queue=1) is None
        done.set()
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
        assert broker.committed(queue=1) == 1
        await until(lambda: not consumer.messages_in_flight)
    # Those behind it are left to the new owner.
    assert handler.calls == [(b"a", 1)]
    assert consumer._running is None


async def test_a_queue_that_was_given_up_and_came_back_is_handled_again(start: Start) -> None:
    broker = await Broker(queues=2).start(start)
    handler = Handler()
    async with consuming(broker, handler) as consumer:
        await until(lambda: len(consumer.assigned_queues) == 4)
        joining(broker, "~")
        consumer._session.send_heartbeats()
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
        broker.add(b"a", queue=1)
        broker.script.consumers.remove("~")
        consumer._session.send_heartbeats()
        await handler.until(1)
    assert (handler.calls, broker.committed(queue=1)) == ([(b"a", 1)], 1)


async def test_a_queue_that_comes_back_is_read_and_committed_from_where_its_other_owner_was(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever waited here, and however far it was read ahead, when it was given up."""
    monkeypatch.setattr(queue_consumption, "MOST_AHEAD", 1)
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"b", b"c", b"d", queue=1)
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait())
    async with consuming(broker, handler, concurrency=1) as consumer:
        await handler.until(1)
        await until(lambda: len(consumer.assigned_queues) == 4)
        joining(broker, "~")
        consumer._session.send_heartbeats()
        await until(lambda: consumer._running._leaving)
        done.set()
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
        broker.script.offsets[1] = 3
        consumer.pause("T")
        broker.script.consumers.remove("~")
        consumer._session.send_heartbeats()
        positions = consumer._running._fetching.positions
        second = QUEUE._replace(id=1)
        await until(lambda: second in positions.queues and positions.position(second) == 3)
        await consumer._running._commit([second])
        assert broker.commits(queue=1) == [1]
        consumer.resume("T")
        await handler.until(2)
    assert (handler.calls, broker.committed(queue=1)) == ([(b"a", 1), (b"d", 1)], 4)


async def test_a_rebalance_leaves_uncommitted_what_is_in_hand_of_a_queue_that_stays(start: Start) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"slow")
    handler = Handler(lambda message: asyncio.Event().wait() if message.body == b"slow" else None)
    async with consuming(broker, handler, shutdown_timeout=0) as consumer:
        await handler.until(2)
        await until(lambda: len(consumer.assigned_queues) == 4)
        joining(broker, "~")
        consumer._session.send_heartbeats()
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
    assert broker.committed() == 1


async def test_a_queue_whose_handler_fails_while_it_is_given_up_goes_at_once(start: Start) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"b", queue=1)
    done = asyncio.Event()

    async def end(message: ReceivedMessage) -> None:
        await done.wait()
        fails(message)

    handler = Handler(end)
    async with consuming(broker, handler, ordered=True, timeouts=Timeouts(stop=60)) as consumer:
        await handler.until(1)
        joining(broker, "~")
        consumer._session.send_heartbeats()
        await until(lambda: consumer._running._leaving)
        done.set()
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
    assert handler.calls == [(b"a", 1)]
    assert broker.committed(queue=1) == 0


async def test_a_queue_is_given_up_once_what_failed_has_been_sent_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._push.sending_back.failure_pause", lambda *_, **__: 0.01)
    broker = await Broker(queues=2).start(start)
    broker.add(b"bad", queue=1)
    broker.script.answers[RequestCode.CONSUMER_SEND_MSG_BACK] = lambda frame: answer(
        frame, ResponseCode.SYSTEM_ERROR
    )
    async with consuming(broker, Handler(fails), timeouts=Timeouts(stop=60)) as consumer:
        await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: len(consumer.assigned_queues) == 4)
        joining(broker, "~")
        consumer._session.send_heartbeats()
        await until(lambda: consumer._running._leaving)
        count = len(requests(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK))
        await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK, count + 3)
        assert len(consumer.assigned_queues) == 4
        del broker.script.answers[RequestCode.CONSUMER_SEND_MSG_BACK]
        await until(lambda: {queue.id for queue in consumer.assigned_queues} == {0})
    assert broker.committed(queue=1) == 1


async def test_a_stop_leaves_no_local_retry_behind(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"bad", b"b")
    hand = Hand()
    handler = Handler(fails)
    async with consuming(broker, handler, ordered=True, clock=hand) as consumer:
        await handler.until(1)
        await until(lambda: hand.due)
        assert [when for when, _ in hand.due] == [hand.now + 10.0]
        assert consumer.messages_in_flight == 2
    assert (handler.calls, hand.due) == ([(b"bad", 1)], [])


@pytest.mark.parametrize(
    "limits",
    [CacheLimits(messages=40), CacheLimits(messages=64), CacheLimits(bytes=1000), CacheLimits(bytes=1600)],
)
async def test_reading_waits_while_too_much_is_in_hand(start: Start, limits: CacheLimits) -> None:
    broker = await Broker().start(start)
    broker.add(*(b"%025d" % n for n in range(200)))
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait())
    async with consuming(broker, handler, cache=limits) as consumer:
        await until(lambda: consumer.messages_in_flight == 64)
        await seen(broker.server, RequestCode.PULL_MESSAGE, 3)
        assert consumer.messages_in_flight == 64
        done.set()
        await handler.until(200)


async def test_a_queue_is_not_read_far_ahead_of_its_oldest_message(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumption, "MOST_AHEAD", 50)
    broker = await Broker().start(start)
    broker.add(b"slow", *(b"%d" % n for n in range(200)))
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait() if message.body == b"slow" else None)
    async with consuming(broker, handler) as consumer:
        await until(lambda: consumer.statistics.handled >= 63)
        await heard(broker, consumer)
        assert consumer.statistics.received == 64
        consumer.pause("T")
        consumer.resume("T")
        await heard(broker, consumer)
        assert consumer.statistics.received == 64
        consumer.pause("T")
        done.set()
        await until(lambda: not consumer.messages_in_flight)
        await heard(broker, consumer)
        assert consumer.statistics.received == 64
        consumer.resume("T")
        await handler.until(201)
        await until(lambda: not consumer.messages_in_flight)
    assert broker.committed() == 201


async def test_a_paused_topic_is_not_handled_until_it_is_resumed(start: Start) -> None:
    broker = await Broker().start(start)
    handler = Handler()
    async with consuming(broker, handler) as consumer:
        consumer.pause("T")
        assert consumer.paused == {"T"}
        broker.add(b"a")
        await until(lambda: len(consumer.assigned_queues) == 2)
        await seen(broker.server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert not handler.calls
        consumer.resume()
        await handler.until(1)


async def test_topics_come_and_go(start: Start) -> None:
    broker = await Broker().start(start)
    handler, other = Handler(), Handler()
    broker.add(b"a", topic="U")
    async with consuming(broker, handler) as consumer:
        await consumer.subscribe("U", "A || B", handler=other)
        broker.add(b"b", topic="U", TAGS="B")
        await other.until(1)
        assert other.calls == [(b"b", 1)]
        *_, beat = requests(broker.server, RequestCode.HEART_BEAT)
        (group,) = json.loads(beat.body)["consumerDataSet"]
        assert {each["topic"]: each["subString"] for each in group["subscriptionDataSet"]} == {
            "T": "*",
            "U": "A || B",
            RETRIES: "*",
        }
        await consumer.unsubscribe("U")
        await until(lambda: {queue.topic for queue in consumer.assigned_queues} == {"T", RETRIES})
    assert broker.committed("U") == 2


def reset_at_a_heartbeat(broker: Broker, offset: int) -> None:
    """Let the broker reset the queue at the next heartbeat."""

    def beat(frame: Frame) -> bytes:
        del broker.script.answers[RequestCode.HEART_BEAT]
        return encode(answer(frame)) + resetting({QUEUE: offset})

    broker.script.answers[RequestCode.HEART_BEAT] = beat


async def test_a_reset_queue_that_was_read_far_ahead_is_read_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_consumption, "MOST_AHEAD", 50)
    broker = await Broker(queues=2).start(start)
    done = asyncio.Event()
    broker.add(b"slow", queue=1)
    handler = Handler(lambda message: done.wait() if message.body == b"slow" else None)
    async with consuming(broker, handler, concurrency=1) as consumer:
        await handler.until(1)
        broker.add(*(b"%d" % number for number in range(200)))
        reset_at_a_heartbeat(broker, 0)  # ends the pull that waits
        await heard(broker, consumer)
        await until(lambda: consumer.statistics.received >= 65)
        await heard(broker, consumer)
        reset_at_a_heartbeat(broker, 100)
        await heard(broker, consumer)
        await until(lambda: broker.committed() == 100)
        done.set()
        await until(lambda: handler.calls[-1][0] == b"199")


async def test_a_paused_topic_that_is_unsubscribed_and_subscribed_again_is_read(start: Start) -> None:
    """Also before a rebalance has released its queues."""
    broker = await Broker().start(start)
    handler = Handler()
    async with consuming(broker, handler) as consumer:
        consumer.pause("T")
        await until(lambda: len(consumer.assigned_queues) == 2)
        broker.add(b"a")
        async with consumer._running._rebalancing._turn:
            await consumer.unsubscribe("T")
            await consumer.subscribe("T")
        assert not consumer.paused
        await handler.until(1)


async def test_an_unsubscribed_topic_is_not_read_on_while_its_queues_are_released(start: Start) -> None:
    """Its filter is gone, so that messages would be handled which it had left out."""
    broker = await Broker().start(start)
    async with consuming(broker, Handler(), subscriptions={"T": "A", "U": "A"}) as consumer:
        await until(lambda: len(consumer.assigned_queues) == 3)
        await seen(broker.server, RequestCode.PULL_MESSAGE, 3)
        broker.script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: None
        await consumer.unsubscribe("T")
        reset_at_a_heartbeat(broker, 0)  # ends the pull that waits
        await heard(broker, consumer)
        await until(lambda: broker.committed() == 0)
        await heard(broker, consumer)
        assert len(requests(broker.server, RequestCode.PULL_MESSAGE)) == 3


async def test_each_sql_expression_of_a_topic_is_checked(start: Start) -> None:
    """A broker delivers everything where it cannot read one."""
    broker = await Broker().start(start)

    def has_pulled(times: int) -> bool:
        frames = requests(broker.server, RequestCode.PULL_MESSAGE)
        return sum(frame.fields["topic"] == "U" for frame in frames) == times

    async with consuming(broker, Handler()) as consumer:
        for count, expression in enumerate(("a > 1", "a > 2", "a > 1"), start=1):
            await consumer.subscribe("U", Sql(expression))
            await until(partial(has_pulled, count))
            await consumer.unsubscribe("U")
    checks = [json.loads(each.body) for each in requests(broker.server, RequestCode.CHECK_CLIENT_CONFIG)]
    assert [each["subscriptionData"]["subString"] for each in checks] == ["a > 1", "a > 2"]


async def test_a_reset_by_an_administrator_is_followed(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await Broker().start(start)
    broker.add(b"a", b"b", b"c")
    handler = Handler()
    async with consuming(broker, handler) as consumer:
        await handler.until(3)
        reset_at_a_heartbeat(broker, 1)
        await heard(broker, consumer)
        await handler.until(5)
    assert [body for body, _ in handler.calls] == [b"a", b"b", b"c", b"b", b"c"]
    assert "is reset to offset 1" in caplog.text
    assert broker.committed() == 3


@pytest.mark.parametrize("ordered", [False, True])
async def test_what_waits_while_its_queue_is_reset_is_handled_once(start: Start, ordered: bool) -> None:
    broker = await Broker().start(start)
    broker.add(b"a", b"b", b"c")
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait())
    async with consuming(broker, handler, concurrency=1, ordered=ordered) as consumer:
        await handler.until(1)
        reset_at_a_heartbeat(broker, 1)
        await heard(broker, consumer)
        await until(lambda: broker.committed() == 1)
        done.set()
        await until(lambda: not consumer.messages_in_flight)
    assert [body for body, _ in handler.calls] == [b"a", b"b", b"c"]
    assert broker.committed() == 3


async def test_a_reset_past_what_is_in_hand_is_committed_at_once(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"a")
    done = asyncio.Event()
    handler = Handler(lambda message: done.wait())
    async with consuming(broker, handler) as consumer:
        await handler.until(1)
        reset_at_a_heartbeat(broker, 7)
        await heard(broker, consumer)
        await until(lambda: broker.committed() == 7)
        done.set()
    assert broker.committed() == 7


async def test_a_corrupted_message_is_sent_back_unseen(start: Start) -> None:
    broker = await Broker().start(start)
    broker.add(b"a", b"b")
    (log,) = broker.logs.values()
    log[0] = log[0]._replace(crc=1)
    handler = Handler()
    async with consuming(broker, handler):
        (frame,) = await seen(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
        await handler.until(1)
    assert (handler.calls, frame.fields["offset"]) == ([(b"b", 1)], "1000")


async def test_a_broadcast_reads_everything_keeps_a_file_and_repeats_nothing(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await Broker(queues=2).start(start)
    broker.add(b"a", b"bad")
    broker.add(b"c", queue=1)
    handler = Handler(lambda message: fails(message) if message.body == b"bad" else None)
    caplog.set_level(logging.WARNING)
    async with consuming(broker, handler, broadcast=Broadcast("me", tmp_path)) as consumer:
        await handler.until(3)
        await until(lambda: not consumer.messages_in_flight)
        assert {queue.topic for queue in consumer.assigned_queues} == {"T"}
    assert not requests(broker.server, RequestCode.CONSUMER_SEND_MSG_BACK)
    assert not requests(broker.server, RequestCode.UPDATE_CONSUMER_OFFSET)
    assert "failed" in caplog.text
    again = Handler()
    broker.add(b"new")
    async with consuming(broker, again, broadcast=Broadcast("me", tmp_path)):
        await again.until(1)
    assert again.calls == [(b"new", 1)]


async def test_what_ends_the_reading_of_a_queue_ends_run(start: Start) -> None:
    broker = await Broker().start(start)
    broker.script.answers[RequestCode.PULL_MESSAGE] = lambda frame: answer(
        frame, ResponseCode.NO_PERMISSION, remark="not for you"
    )
    with pytest.raises(PermissionDeniedError, match="not for you"):
        async with consuming(broker, Handler()) as consumer, asyncio.timeout(10):
            await consumer.run()


async def test_what_run_has_raised_is_not_raised_again_by_leaving_the_block(start: Start) -> None:
    broker = await Broker().start(start)
    broker.script.answers[RequestCode.PULL_MESSAGE] = lambda frame: answer(frame, ResponseCode.NO_PERMISSION)
    async with consuming(broker, Handler()) as consumer, asyncio.timeout(10):
        with pytest.raises(PermissionDeniedError):
            await consumer.run()


async def test_what_has_stopped_a_consumer_is_raised_by_leaving_the_block_if_run_has_not(
    start: Start,
) -> None:
    broker = await Broker().start(start)
    broker.script.answers[RequestCode.PULL_MESSAGE] = lambda frame: answer(frame, ResponseCode.NO_PERMISSION)
    with pytest.raises(PermissionDeniedError):
        async with consuming(broker, Handler()) as consumer:
            await until(lambda: consumer.health().failure)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lite_topics": ["l"]}, "over gRPC only"),
        ({"broadcast": Broadcast(), "ordered": True}, "share no queues"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PushConsumer("namesrv://localhost:9876", group="g", subscriptions=["T"], handler=Handler(), **options)


@pytest.mark.parametrize("options", [{"ordered": True}, {"broadcast": Broadcast()}, {"start": Offset.END}])
def test_what_the_server_decides_over_grpc_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="over gRPC the server decides"):
        PushConsumer("localhost:8081", group="g", subscriptions=["T"], handler=Handler(), **options)
