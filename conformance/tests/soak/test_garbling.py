"""The proxy damages the selected answers, never into a valid one, and changes nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import grpc.aio
import pytest
from aiorocketmq import Message, Producer, PullConsumer, PushConsumer, ReceivedMessage, SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS, Method
from aiorocketmq_fake import FakeBroker

from tools.soak.garbling import (
    DAMAGES,
    OVERSIZED,
    Garbling,
    damaged,
    stand_in,
    states_nothing,
)

STATUS = pb.Status(code=pb.Code.OK, message="OK")
ANSWERS = {
    "GetOffset": pb.GetOffsetResponse(status=STATUS, offset=7),
    "ReceiveMessage": pb.ReceiveMessageResponse(message=pb.Message(body=b"1")),
    "Telemetry": pb.TelemetryCommand(settings=pb.Settings(access_point=pb.Endpoints())),
    "UpdateOffset": pb.UpdateOffsetResponse(status=STATUS),
}


@asynccontextmanager
async def stood_in(rate: float) -> AsyncIterator[tuple[FakeBroker, str, Garbling]]:
    garbling = Garbling(rate, Random(1))
    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with stand_in(broker.endpoint, garbling) as endpoint:
            yield broker, endpoint, garbling


async def answers(channel: grpc.aio.Channel, method: Method, client_id: str = "tester") -> list[bytes]:
    """What one bare call with an empty request gets."""
    method_of: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method.path)
    call = method_of(metadata=(("x-mq-client-id", client_id), ("x-mq-language", "PYTHON")), timeout=5.0)
    if method.name == "Telemetry":
        settings = pb.Settings(client_type=pb.ClientType.PRODUCER, publishing=pb.Publishing())
        await call.write(pb.TelemetryCommand(settings=settings).SerializeToString())
        first = await call.read()
        call.cancel()
        assert isinstance(first, bytes)
        return [first]
    await call.write(method.request().SerializeToString())
    await call.done_writing()
    return [answer async for answer in call]


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("rpc", METHODS)
def test_no_damage_leaves_an_answer_that_states_anything(kind: str, rpc: str) -> None:
    response, rng = METHODS[rpc].response, Random(1)
    payload = ANSWERS.get(rpc, response(status=STATUS)).SerializeToString()
    for _ in range(20 if kind != "oversized" else 1):
        damage = damaged(DAMAGES[kind], response, payload, rng)
        assert damage != payload
        assert states_nothing(response, damage)
        assert (len(damage) >= OVERSIZED) == (kind == "oversized")


def test_an_answer_with_a_code_or_content_states_something() -> None:
    for rpc, answer in ANSWERS.items():
        assert not states_nothing(METHODS[rpc].response, answer.SerializeToString())
    refused = pb.HeartbeatResponse(status=pb.Status(code=pb.Code.FORBIDDEN))
    assert not states_nothing(pb.HeartbeatResponse, refused.SerializeToString())
    assert states_nothing(pb.HeartbeatResponse, b"")


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_outside_of_0_to_1_is_rejected(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be 0 to 1"):
        Garbling(rate, Random(1))


async def test_with_rate_1_no_answer_of_any_rpc_can_be_used() -> None:
    async with (
        stood_in(1.0) as (_, endpoint, garbling),
        grpc.aio.insecure_channel(endpoint, options=[("grpc.max_receive_message_length", -1)]) as channel,
    ):
        for method in METHODS.values():
            for answer in await answers(channel, method):
                assert states_nothing(method.response, answer)
    assert garbling.garbled == garbling.answers
    assert set(garbling.answers) == set(METHODS)
    assert garbling.kinds.total() == garbling.garbled.total()


async def test_with_rate_0_answers_are_those_of_the_server() -> None:
    async def asked(endpoint: str) -> list[list[bytes]]:
        async with grpc.aio.insecure_channel(endpoint) as channel:
            return [await answers(channel, method) for method in METHODS.values()]

    # Twins of one moment: some calls change what later ones get.
    start = datetime(2026, 1, 1, tzinfo=UTC)
    async with FakeBroker(clock="manual", start=start) as broker:
        direct = await asked(broker.endpoint)
    garbling = Garbling(0.0, Random(1))
    async with (
        FakeBroker(clock="manual", start=start) as broker,
        stand_in(broker.endpoint, garbling) as endpoint,
    ):
        assert await asked(endpoint) == direct
    assert set(garbling.answers) == set(METHODS)
    assert not garbling.garbled


async def test_errors_of_the_server_pass_with_status_and_text() -> None:
    async with (
        stood_in(0.0) as (broker, endpoint, _),
        grpc.aio.insecure_channel(endpoint) as channel,
    ):
        broker.faults.fail("Heartbeat", "RESOURCE_EXHAUSTED")
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await answers(channel, METHODS["Heartbeat"])
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await broker.crash()
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await answers(channel, METHODS["Heartbeat"])
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_all_clients_work_behind_it_and_stay_there() -> None:
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        await handled.put(message.body)

    async with stood_in(0.0) as (broker, endpoint, garbling):
        await broker.create_group("pushing")
        async with (
            Producer(endpoint) as producer,
            PushConsumer(endpoint, group="pushing", subscriptions=["orders"], handler=handle),
            SimpleConsumer(endpoint, group="billing", subscriptions=["orders"]) as simple,
            PullConsumer(endpoint, group="pulling") as pull,
        ):
            await producer.send(Message("orders", b"1"))
            (message,) = await simple.receive(max_messages=1, wait=5.0)
            await simple.ack([message])
            pull.assign(await pull.queues("orders"))
            assert (batch := await pull.poll(5.0)) is not None
            assert [each.body for each in batch] == [b"1"]
            async with asyncio.timeout(10):
                assert await handled.get() == b"1"
        counts = garbling.answers
    assert counts["SendMessage"] == 1
    assert counts["AckMessage"] == 2
    assert counts["PullMessage"] >= 1
    assert counts["NotifyClientTermination"] >= 3
