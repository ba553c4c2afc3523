"""The telemetry streams over a real port: settings, errors that end a stream, orders to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker

CONSUMER = pb.ClientType.SIMPLE_CONSUMER


async def ending(stream: Any) -> tuple[list[Any], grpc.StatusCode]:
    """Return the frames up to the end of a stream, and its gRPC status."""
    frames = []
    try:
        async with asyncio.timeout(10):
            while (frame := await stream.read()) is not grpc.aio.EOF:
                frames.append(frame)
    except grpc.aio.AioRpcError:
        pass
    return frames, await stream.code()


async def test_producers_learn_their_limits(client: Any) -> None:
    """2.2."""
    _, reply = await client.publish("t")
    assert reply.status.code == pb.Code.OK
    settings = reply.settings
    assert settings.publishing.max_body_size == 4 * 1024 * 1024
    assert settings.publishing.validate_message_type
    assert [topic.name for topic in settings.publishing.topics] == ["t"]
    assert settings.backoff_policy.max_attempts == 3
    assert settings.backoff_policy.exponential_backoff.multiplier == 2
    assert settings.HasField("metric")


async def test_consumers_learn_the_rules_of_their_group(broker: FakeBroker, client: Any) -> None:
    """2.2."""
    await broker.create_group("og", ordered=True, max_attempts=5, backoff=(1.5, 10))
    _, reply = await client.subscribe("og", "t")
    settings = reply.settings
    assert settings.client_type == CONSUMER
    assert settings.subscription.fifo
    assert settings.subscription.receive_batch_size == 32
    assert settings.subscription.long_polling_timeout.seconds == 20
    assert [entry.topic.name for entry in settings.subscription.subscriptions] == ["t"]
    assert settings.backoff_policy.max_attempts == 5
    steps = settings.backoff_policy.customized_backoff.next
    assert [step.seconds + step.nanos / 1e9 for step in steps] == [1.5, 10]


async def test_what_the_server_does_not_decide_is_echoed(client: Any) -> None:
    """2.2."""
    sent = pb.Settings(
        client_type=pb.ClientType.PRODUCER,
        publishing=pb.Publishing(topics=[pb.Resource(name="t")]),
        access_point=pb.Endpoints(
            scheme=pb.AddressScheme.DOMAIN_NAME, addresses=[pb.Address(host="h", port=1)]
        ),
        request_timeout=pb.Duration(seconds=3),
        user_agent=pb.UA(language=pb.Language.PYTHON, version="1", platform="p", hostname="h"),
    )
    _, reply = await client.settings(sent)
    assert reply.settings.access_point == sent.access_point
    assert reply.settings.request_timeout == sent.request_timeout
    assert reply.settings.user_agent == sent.user_agent


async def test_every_further_settings_gets_a_fresh_answer(client: Any) -> None:
    """R2.2."""
    stream, first = await client.publish("t")
    await stream.write(pb.TelemetryCommand(settings=first.settings))
    assert (await stream.read()).status.code == pb.Code.OK


async def test_a_stream_without_a_client_id_gets_one_status_and_a_normal_end(
    broker: FakeBroker, connect: Callable[..., Any]
) -> None:
    """R1.2."""
    stream, first = await connect(broker, "").publish("t")
    assert first.status.code == pb.Code.CLIENT_ID_REQUIRED
    assert await ending(stream) == ([], grpc.StatusCode.OK)


@pytest.mark.parametrize("language", ["", "python", "GOLANG", "DOT_NET", "KOTLIN"])
async def test_settings_in_an_unknown_language_end_the_stream(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], language: str
) -> None:
    """R1.1, session §1.2: the contract's own names are not all usable."""
    broker = await running(profile="apache-5.5")
    stream = connect(broker, language=language).telemetry()
    await stream.write(pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing())))
    assert await ending(stream) == ([], grpc.StatusCode.INTERNAL)


@pytest.mark.parametrize("language", ["PYTHON", "JAVA", "GO", "DOTNET", "RUST", "NODE_JS", "CPP", "PHP"])
async def test_settings_in_a_known_language_are_welcome(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], language: str
) -> None:
    broker = await running(profile="apache-5.5")
    _, reply = await connect(broker, language=language).publish("t")
    assert reply.status.code == pb.Code.OK


@pytest.mark.parametrize(
    "settings",
    [
        pb.Settings(client_type=pb.ClientType.PRODUCER),
        pb.Settings(publishing=pb.Publishing(topics=[pb.Resource(name="not a topic!")])),
        pb.Settings(client_type=CONSUMER, subscription=pb.Subscription()),
        pb.Settings(
            client_type=CONSUMER, subscription=pb.Subscription(group=pb.Resource(name="not a group!"))
        ),
    ],
    ids=["nothing", "topic name", "no group", "group name"],
)
async def test_wrong_settings_end_the_stream_as_an_invalid_argument(
    client: Any, settings: pb.Settings
) -> None:
    """R1.6, session §2.2."""
    stream = client.telemetry()
    await stream.write(pb.TelemetryCommand(settings=settings))
    assert await ending(stream) == ([], grpc.StatusCode.INVALID_ARGUMENT)


async def test_a_group_that_the_profile_must_know_ends_the_stream(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    """Session §2.4: 5.5.0 in local mode."""
    client = connect(await running(profile="apache-5.5"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.subscribe("unknown", "t")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "unknown" in str(refused.value.details())


async def test_what_is_no_settings_is_ignored(client: Any) -> None:
    """Session §2.2."""
    stream, first = await client.publish("t")
    await stream.write(pb.TelemetryCommand())
    await stream.write(
        pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(nonce="17", thread_stack_trace="x"))
    )
    await stream.write(pb.TelemetryCommand(settings=first.settings))
    assert (await stream.read()).settings == first.settings


async def test_a_client_that_ends_its_half_gets_a_normal_end(client: Any) -> None:
    """R2.8."""
    stream, _ = await client.publish("t")
    await stream.done_writing()
    assert await ending(stream) == ([], grpc.StatusCode.OK)


async def test_a_client_stays_registered_when_its_stream_ends(broker: FakeBroker, client: Any) -> None:
    """R2.8."""
    stream, _ = await client.publish("t")
    await stream.done_writing()
    await ending(stream)
    assert [each.client_id for each in broker.clients()] == ["raw-1"]


async def test_orders_go_to_the_newest_stream_of_a_client(broker: FakeBroker, client: Any) -> None:
    """R2.3."""
    old, _ = await client.subscribe("g", "t")
    new, _ = await client.subscribe("g", "t")
    await broker.reconnect_endpoints("raw-1")
    order = await asyncio.wait_for(new.read(), 10)
    assert order.WhichOneof("command") == "reconnect_endpoints_command"
    await old.done_writing()
    assert await ending(old) == ([], grpc.StatusCode.OK)


async def test_a_message_is_consumed_on_trial(broker: FakeBroker, client: Any) -> None:
    """2.3."""
    await client.send("t", b"1", message_id="m")
    stream, _ = await client.subscribe("g", "t")
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(broker.verify_message("raw-1", "t", "m"))
        order = await asyncio.wait_for(stream.read(), 10)
        command = order.verify_message_command
        assert command.message.body == b"1"
        reply = pb.TelemetryCommand(
            status=pb.Status(code=pb.Code.FAILED_TO_CONSUME_MESSAGE),
            verify_message_result=pb.VerifyMessageResult(nonce=command.nonce),
        )
        await stream.write(reply)
    answer = asking.result()
    assert answer is not None
    assert answer.code == pb.Code.FAILED_TO_CONSUME_MESSAGE


async def test_stack_traces_are_requested(broker: FakeBroker, client: Any) -> None:
    """2.3."""
    stream, _ = await client.subscribe("g", "t")
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(broker.print_stack_trace("raw-1"))
        order = await asyncio.wait_for(stream.read(), 10)
        trace = pb.ThreadStackTrace(
            nonce=order.print_thread_stack_trace_command.nonce, thread_stack_trace="main: idle"
        )
        await stream.write(pb.TelemetryCommand(status=pb.Status(code=pb.Code.OK), thread_stack_trace=trace))
    answer = asking.result()
    assert answer is not None
    assert answer.text == "main: idle"


async def test_open_streams_can_be_cut(broker: FakeBroker, client: Any, connect: Callable[..., Any]) -> None:
    mine, _ = await client.publish("t")
    other, _ = await connect(broker, "other").publish("t")
    assert broker.cut_streams("raw-1") == 1
    assert await ending(mine) == ([], grpc.StatusCode.UNAVAILABLE)
    assert broker.cut_streams(status="INTERNAL") == 1
    assert await ending(other) == ([], grpc.StatusCode.INTERNAL)
