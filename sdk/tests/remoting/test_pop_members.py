"""Groups with members that are handed messages: refused at the start, and when one joins later, unless allowed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest
from aiorocketmq import MessageQueue, PullConsumer, PushConsumer
from aiorocketmq._core.remoting.frame import Frame, encode
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq.errors import UsageError
from aiorocketmq.message import ReceivedMessage

from sdk.tests.remoting.script import NOTICE, QUEUE, Script, Server, Start, answer, consumer, requests, seen

GRPC = "host@17@0@dlz9d5zyz"
REFUSAL = rf"group 'g' has members that receive messages over gRPC \({GRPC}\).*allow_pop_members=True"


async def handle(message: ReceivedMessage) -> None:
    raise AssertionError("there are no messages")


def push(server: Server, *, allow_pop_members: bool = False) -> PushConsumer:
    return PushConsumer(
        f"namesrv://{server.address}",
        group="g",
        subscriptions=["T"],
        handler=handle,
        allow_pop_members=allow_pop_members,
    )


@pytest.mark.parametrize("kind", ["pull", "push"])
async def test_a_group_with_grpc_members_is_not_joined(start: Start, kind: str) -> None:
    server = await start(Script(consumers=[GRPC]))
    client: PullConsumer | PushConsumer
    client = consumer(server, topics=["T"]) if kind == "pull" else push(server)
    with pytest.raises(UsageError, match=REFUSAL):
        async with client:
            raise AssertionError("it has started")
    assert not requests(server, RequestCode.HEART_BEAT), "brokers would give it queues"


def joining(script: Script) -> None:
    """Let a gRPC client join after the first pull."""

    def join(frame: Frame) -> bytes | None:
        if GRPC in script.consumers:
            return None
        script.consumers.append(GRPC)
        return encode(NOTICE)

    script.answers[RequestCode.PULL_MESSAGE] = join


async def test_a_grpc_member_that_joins_later_ends_a_pull_consumer(start: Start) -> None:
    script = Script(offsets={0: 5})
    joining(script)
    revoked: list[MessageQueue] = []

    class Listener:
        async def assigned(self, queues: Sequence[MessageQueue]) -> None: ...

        async def revoked(self, queues: Sequence[MessageQueue]) -> None:
            revoked.extend(queues)

    async with consumer(await start(script), topics=["T"], on_rebalance=Listener()) as reader:
        with pytest.raises(UsageError, match=REFUSAL):
            await asyncio.wait_for(anext(reader), 10)
        assert revoked == [QUEUE]
        assert reader.assigned == ()
        assert isinstance(reader.health().failure, UsageError)


async def test_a_grpc_member_that_joins_later_ends_a_push_consumer(start: Start) -> None:
    script = Script(offsets={0: 5})
    joining(script)
    async with push(await start(script)) as client:
        with pytest.raises(UsageError, match=REFUSAL):
            await asyncio.wait_for(client.run(), 10)


@pytest.mark.parametrize("kind", ["pull", "push"])
async def test_grpc_members_may_be_allowed(start: Start, kind: str) -> None:
    server = await start(Script(consumers=[GRPC], queues=2))
    client: PullConsumer | PushConsumer
    client = (
        consumer(server, topics=["T"], allow_pop_members=True)
        if kind == "pull"
        else push(server, allow_pop_members=True)
    )
    async with client:
        # Others count it as the owner of a queue, and so must this member.
        (first, *_) = await seen(server, RequestCode.PULL_MESSAGE)
        assert first.fields["queueId"] == "1"


async def test_members_of_unknown_protocol_are_logged_once(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    script = Script(consumers=["reader-7"], queues=2)
    server = await start(script)
    async with consumer(server, topics=["T"]):
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        await seen(server, RequestCode.PULL_MESSAGE)
    assert [each for each in caplog.messages if "unknown protocol" in each] == [
        "group 'g' has members of unknown protocol (reader-7): over gRPC, they move its offsets, too"
    ]


async def test_a_member_of_unknown_protocol_that_joins_later_is_logged_alone(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    script = Script(consumers=["reader-7"])
    server = await start(script)
    async with consumer(server, topics=["T"]) as reader:
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        script.consumers.append("reader-8")
        assert reader._rebalancing is not None
        for _ in range(3):
            count = len(requests(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP))
            reader._rebalancing.look()
            await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, count + 1)
    assert [each.partition("(")[2].partition(")")[0] for each in caplog.messages if "unknown" in each] == [
        "reader-7",
        "reader-8",
    ]


async def test_a_broker_that_lists_no_member_to_strangers_is_joined(start: Start) -> None:
    script = Script()
    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: (
        script._usual(frame) if script.consumers else answer(frame, 16, remark="no right")
    )
    server = await start(script)
    async with consumer(server, topics=["T"]) as member:
        await seen(server, RequestCode.PULL_MESSAGE)
        assert member.assigned == (QUEUE,)
    codes = [frame.code for frame in server.seen]
    lists = codes.index(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    assert lists < codes.index(RequestCode.HEART_BEAT), "the list was refused before the first heartbeat"


def test_only_members_of_a_group_may_allow_them() -> None:
    with pytest.raises(ValueError, match="allow_pop_members belong to topics="):
        PullConsumer("namesrv://localhost:9876", group="g", allow_pop_members=True)
    with pytest.raises(ValueError, match="allow_pop_members are for name servers"):
        PushConsumer("localhost:8081", group="g", subscriptions=["T"], handler=handle, allow_pop_members=True)
