"""What a push consumer lets one do at run time, and what it refuses: subscriptions, commands, hooks, wrong use."""

import asyncio
from typing import Any

import pytest
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._push.commands import VERIFICATIONS_AT_ONCE
from aiorocketmq._session.session import MOST_COMMANDS, Session
from aiorocketmq.config import CacheLimits, Compression, Timeouts
from aiorocketmq.errors import ClosedError, PermissionDeniedError, TopicNotFoundError, UsageError
from aiorocketmq.hooks import AckEvent, Event, HandleEvent, Hook, Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Acked, Delivered, LeaseChanged

from sdk.tests.clients import push_consumer
from sdk.tests.waiting import until

# Wrong use


async def test_what_is_wrong_is_said_where_it_is_written() -> None:
    async def handle(message: ReceivedMessage) -> None: ...

    def consumer(**changed: Any) -> PushConsumer:
        arguments: dict[str, Any] = {"group": "g", "subscriptions": ["t"], "handler": handle, **changed}
        return PushConsumer("localhost:8081", **arguments)

    with pytest.raises(ValueError, match=r"%RETRY%billing.*must not be consumed"):
        consumer(subscriptions=["%RETRY%billing"])
    with pytest.raises(ValueError, match="at least one topic"):
        consumer(subscriptions=[])
    with pytest.raises(ValueError, match="concurrency must be an integer"):
        consumer(concurrency=0)
    with pytest.raises(ValueError, match="shutdown_timeout must be seconds"):
        consumer(shutdown_timeout=-1)
    with pytest.raises(ValueError, match="handler_timeout must be seconds"):
        consumer(handler_timeout=0)
    with pytest.raises(ValueError, match="invisible must be 10 to 43200"):
        consumer(invisible=5)
    with pytest.raises(ValueError, match="either handler="):
        consumer(handler=None)


async def test_an_unknown_topic_is_an_error_that_names_it(broker: FakeBroker, seen: Any) -> None:
    consumer = PushConsumer(
        broker.endpoint,
        group="billing",
        subscriptions=["nowhere"],
        handler=seen,
        timeouts=Timeouts(start=0.5),  # a new topic may become known late, so that long it is asked for
    )
    with pytest.raises(TopicNotFoundError, match="nowhere"):
        async with consumer:
            pass


async def test_a_consumer_runs_once_and_only_inside_its_block(broker: FakeBroker, seen: Any) -> None:
    consumer = push_consumer(broker.endpoint, handler=seen)
    with pytest.raises(ClosedError, match="inside its `async with`"):
        await consumer.run()
    async with consumer:
        pass
    with pytest.raises(UsageError, match="started before"):
        async with consumer:
            pass


# Commands and hooks


async def test_the_server_may_have_a_message_handled_on_trial(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    receipt = await producer.send(Message("orders", b"1"))
    async with push_consumer(broker.endpoint, handler=seen):
        await history.shows(Acked)
        [client] = [each for each in broker.clients() if each.type == "PUSH_CONSUMER"]
        good = await broker.verify_message(client.client_id, "orders", receipt.message_id)
        seen.failures[b"1"] = [ValueError("no")]
        bad = await broker.verify_message(client.client_id, "orders", receipt.message_id)
        stacks = await broker.print_stack_trace(client.client_id)

    assert good is not None
    assert good.code == 20000
    assert bad is not None
    assert bad.code == 60000
    assert stacks is not None
    assert "receiving from orders/broker-a" in stacks.text
    thread, _, _ = stacks.text.partition("\ntask ")
    assert thread.startswith("thread ")
    assert "thread MainThread\n" in thread
    assert ", in stacks\n" in thread
    assert seen.bodies == [b"1"] * 3


async def test_hooks_wrap_handlers_and_see_their_end(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.events: list[Event] = []

        def observe(self, event: Event) -> None:
            self.events.append(event)

    watch = Watch()
    seen.failures[b"bad"] = [ValueError("no")]
    await producer.send_many([Message("orders", b"good"), Message("orders", b"bad")])
    async with push_consumer(broker.endpoint, handler=seen, hooks=[watch]):
        await history.shows(Acked)
        await history.shows(LeaseChanged)

    handled = {(event.message.body, event.phase) for event in watch.events if isinstance(event, HandleEvent)}
    assert handled == {
        (b"good", Phase.INVOKE),
        (b"good", Phase.OK),
        (b"bad", Phase.INVOKE),
        (b"bad", Phase.FAIL),
    }
    assert [event.phase for event in watch.events if isinstance(event, AckEvent)] == [Phase.INVOKE, Phase.OK]


# Subscriptions at run time


async def test_a_topic_may_be_subscribed_and_unsubscribed_while_running(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await broker.create_topic("refunds")
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        await consumer.subscribe("refunds")
        await producer.send(Message("refunds", b"r1"))
        await seen.ends(1)
        await consumer.unsubscribe("refunds")
        assert {queue.topic for queue in consumer.assigned_queues} == {"orders"}
        await producer.send(Message("refunds", b"r2"))
        await producer.send(Message("orders", b"o1"))
        await seen.ends(2)
        [client] = [each for each in broker.clients() if each.type == "PUSH_CONSUMER"]

    assert seen.bodies == [b"r1", b"o1"]
    assert client.topics == ("orders",)


async def test_subscriptions_that_change_at_a_time_are_all_kept(broker: FakeBroker, seen: Any) -> None:
    topics = ["refunds", "returns", "reviews"]
    for topic in topics:
        await broker.create_topic(topic)
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        await asyncio.gather(consumer.unsubscribe("orders"), *map(consumer.subscribe, topics))
        assert {queue.topic for queue in consumer.assigned_queues} == set(topics)
        [client] = [each for each in broker.clients() if each.type == "PUSH_CONSUMER"]
        assert sorted(client.topics) == topics


async def test_a_subscription_that_the_server_refuses_changes_nothing(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        with (
            broker.faults.refuse("QueryRoute", "FORBIDDEN", topic="secrets"),
            pytest.raises(PermissionDeniedError, match="secrets"),
        ):
            await consumer.subscribe("secrets")
        await producer.send(Message("orders", b"1"))
        await seen.ends(1)

        assert {queue.topic for queue in consumer.assigned_queues} == {"orders"}


async def test_a_topic_that_is_not_assigned_is_not_declared_either(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    await broker.create_topic("refunds")
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        with (
            broker.faults.refuse("QueryAssignment", "FORBIDDEN", topic="refunds"),
            pytest.raises(PermissionDeniedError),
        ):
            await consumer.subscribe("refunds")
        assert consumer._session.declaration.all_topics == ("orders",)


async def test_a_refused_change_of_a_subscription_leaves_its_handler_and_a_later_one_replaces_it(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    replaced: list[bytes] = []

    async def other(message: ReceivedMessage) -> None:
        replaced.append(message.body)

    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        with broker.faults.refuse("QueryAssignment", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
            await consumer.subscribe("orders", handler=other)
        await producer.send(Message("orders", b"1"))
        await seen.ends(1)
        await consumer.subscribe("orders", handler=other)
        await producer.send(Message("orders", b"2"))
        await until(lambda: replaced)
    assert (seen.bodies, replaced) == ([b"1"], [b"2"])


async def test_messages_are_handled_on_trial_a_few_at_a_time(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    receipt = await producer.send(Message("orders", b"1"))
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        await history.shows(Acked)
        gate = seen.hold(b"1")
        trials = [
            asyncio.create_task(broker.verify_message(consumer.client_id, "orders", receipt.message_id))
            for _ in range(VERIFICATIONS_AT_ONCE + 1)
        ]
        (refused,), others = await asyncio.wait(trials, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        replies = [refused.result(), *await asyncio.gather(*others)]

    assert [reply and reply.code for reply in replies] == [42900, *[20000] * VERIFICATIONS_AT_ONCE]
    assert seen.most_running == VERIFICATIONS_AT_ONCE


async def test_of_many_commands_only_some_wait_for_their_end(
    broker: FakeBroker, seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = asyncio.Event()
    carried_out: list[Endpoint] = []

    async def wait(endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await go_on.wait()
        carried_out.append(endpoint)
        if len(carried_out) % 100 == 0:
            raise asyncio.CancelledError

    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        session = consumer._session
        assert isinstance(session, Session)
        session._commands["print_thread_stack_trace_command"] = wait
        command = pb.TelemetryCommand()
        for _ in (1, 2):
            for _ in range(MOST_COMMANDS + 10):
                session.take_command(session.access, "print_thread_stack_trace_command", command)
            go_on.set()
            await until(lambda: len(carried_out) == MOST_COMMANDS)
            go_on.clear()
            carried_out.clear()
    assert caplog.text.count("sends more commands than can be executed") == 1


class OddError(Exception):
    """A failure that no UTF-8 can encode."""

    def __repr__(self) -> str:
        return "about \udcff"


async def test_a_trial_replies_with_any_failure(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    receipt = await producer.send(Message("orders", b"1"))
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        await history.shows(Acked)
        seen.failures[b"1"] = [OddError()]
        reply = await broker.verify_message(consumer.client_id, "orders", receipt.message_id)

    assert reply is not None
    assert (reply.code, reply.text) == (60000, r"about \udcff")


async def test_a_trial_of_a_topic_without_handler_has_failed(
    broker: FakeBroker, producer: Producer, seen: Any
) -> None:
    await broker.create_topic("refunds")
    receipt = await producer.send(Message("refunds", b"1"))
    async with push_consumer(broker.endpoint, handler=seen) as consumer:
        reply = await broker.verify_message(consumer.client_id, "refunds", receipt.message_id)

    assert reply is not None
    assert reply.code == 60000


async def test_a_trial_gets_a_large_body_decompressed(
    broker: FakeBroker, seen: Any, history: Any, executor: Any
) -> None:
    body = b"the same again and " * 10_000
    executor.go_on.set()
    async with Producer(broker.endpoint, compression=Compression(threshold=1024)) as packing:
        receipt = await packing.send(Message("orders", body))
    async with push_consumer(broker.endpoint, handler=seen, executor=executor) as consumer:
        await history.shows(Acked)
        reply = await broker.verify_message(consumer.client_id, "orders", receipt.message_id)

    assert reply is not None
    assert reply.code == 20000
    assert seen.bodies == [body, body]
    assert executor.given == 2


async def test_a_queue_that_goes_leaves_its_room_to_the_others(
    broker: FakeBroker, producer: Producer, seen: Any, history: Any
) -> None:
    await broker.create_topic("refunds")
    gate = seen.hold(b"1", b"2")
    await producer.send_many([Message("orders", b"1"), Message("orders", b"2")])
    async with PushConsumer(
        broker.endpoint,
        group="billing",
        subscriptions=["refunds", "orders"],
        handler=seen,
        cache=CacheLimits(messages=2),
    ) as consumer:
        await seen.starts(1)
        assert len(history.of(Delivered)) == 1
        await consumer.unsubscribe("refunds")
        await seen.starts(2)
        gate.set()
