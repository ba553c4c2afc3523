"""Answers of servers that fit the protocol and make no sense, or refuse: one clear error each, and no silent moves."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiorocketmq import (
    Admin,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    Retry,
    RocketMQError,
    Timeouts,
)
from aiorocketmq._core import pauses
from aiorocketmq._core.remoting.frame import ONE_WAY, Frame, encode
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.errors import (
    GroupNotFoundError,
    MalformedAnswerError,
    NotSupportedError,
    PermissionDeniedError,
    ServerError,
    TopicNotFoundError,
)
from aiorocketmq.hooks import Event, Hook, SeekEvent

from sdk.tests.core.remoting.test_records import JAVA_116 as MESSAGE
from sdk.tests.remoting.brokers import Broker
from sdk.tests.remoting.script import (
    QUEUE,
    Reply,
    Script,
    Serve,
    Server,
    Start,
    answer,
    consumer,
    requests,
    resetting,
    seen,
)

SOON = Timeouts(start=0.4, request=0.4, stop=0.5, not_found_grace=0.2)
PULL, LIST = RequestCode.PULL_MESSAGE, RequestCode.GET_CONSUMER_LIST_BY_GROUP
ROUTE, BEAT = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.HEART_BEAT


class Moves(Hook):
    """The positions that were changed, and by whom."""

    def __init__(self) -> None:
        self.seen: list[tuple[int | None, int]] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, SeekEvent):
            self.seen.append((event.instead_of, event.offset))


async def handle(message: ReceivedMessage) -> None:
    return None


async def send(server: Server) -> None:
    producer = Producer(f"namesrv://{server.address}", topics=["T"], timeouts=SOON, retry=Retry(budget=0.3))
    async with producer:
        await producer.send(Message("T", b"x"))


async def push(server: Server) -> None:
    async with PushConsumer(
        f"namesrv://{server.address}", group="g", subscriptions=["T"], handler=handle, timeouts=SOON
    ) as consumer:
        await consumer.run()


async def pull(server: Server) -> None:
    async with PullConsumer(
        f"namesrv://{server.address}", group="g", topics=["T"], timeouts=SOON
    ) as consumer:
        async for _ in consumer:
            pass


USES = {"producer": send, "push": push, "pull": pull}


async def error_of(use: Awaitable[None]) -> RocketMQError:
    async with asyncio.timeout(20):
        with pytest.raises(RocketMQError) as raised:
            await use
    assert "\n" not in str(raised.value)
    return raised.value


def refused(code: int) -> Reply:
    return lambda frame: answer(frame, code, remark="the reason\n\tat org.apache.Broker(Broker.java:1)")


REFUSALS = [
    (ResponseCode.NO_PERMISSION, PermissionDeniedError, "check the credentials, their rights"),
    (ResponseCode.VERSION_NOT_SUPPORTED, NotSupportedError, "use a server that serves it|is no name server"),
    (ResponseCode.TOPIC_NOT_EXIST, TopicNotFoundError, "create the topic first, or correct its name"),
    (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, GroupNotFoundError, "create the consumer group first"),
]
STEPS = [
    *((use, at) for use in USES for at in (ROUTE, BEAT)),
    ("producer", RequestCode.SEND_MESSAGE_V2),
    *((use, at) for use in ("push", "pull") for at in (LIST, RequestCode.QUERY_CONSUMER_OFFSET, PULL)),
]


@pytest.mark.parametrize(("code", "kind", "remedy"), REFUSALS, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.parametrize(("use", "at"), STEPS)
async def test_what_is_refused_at_any_step_is_one_clear_error(
    start: Start, use: str, at: RequestCode, code: ResponseCode, kind: type[RocketMQError], remedy: str
) -> None:
    """Missing permission, a wrong protocol version, a missing topic or group."""
    error = await error_of(USES[use](await start(Script({at: refused(code)}))))
    assert isinstance(error, kind)
    assert re.search(remedy, str(error))
    assert error.server_text.startswith("the reason")


ADMINISTRATION: dict[str, Callable[[Admin], Awaitable[object]]] = {
    "create topic": lambda admin: admin.create_topic("orders"),
    "alter topic": lambda admin: admin.alter_topic("orders", queues=3),
    "describe topic": lambda admin: admin.describe_topic("orders"),
    "spans": lambda admin: admin.spans("orders"),
    "route": lambda admin: admin.route("orders"),
    "create group": lambda admin: admin.create_group("billing"),
    "describe group": lambda admin: admin.describe_group("billing"),
    "groups": lambda admin: admin.groups(),
    "clients": lambda admin: admin.clients("billing"),
    "progress": lambda admin: admin.progress("billing", "orders"),
}


@asynccontextmanager
async def administering(serve: Serve, broker: Broker) -> AsyncIterator[tuple[Server, Admin]]:
    server = await serve(broker)
    broker.address = str(server.address)
    async with Admin(f"namesrv://{server.address}", timeout=5) as admin:
        yield server, admin


@pytest.mark.parametrize("call", ADMINISTRATION)
async def test_administration_that_is_refused_or_answered_with_garbage_is_one_clear_error(
    serve: Serve, call: str
) -> None:
    """At each of the requests that a call makes."""
    async with administering(serve, Broker()) as (server, admin):
        await ADMINISTRATION[call](admin)
        codes = {frame.code for frame in server.seen} - {RequestCode.GET_BROKER_CLUSTER_INFO}
    for code in sorted(codes):
        async with administering(serve, Broker(answers={code: refused(16)})) as (_, admin):
            error = await error_of(ADMINISTRATION[call](admin))  # type: ignore[arg-type]  # of any result
            assert isinstance(error, PermissionDeniedError)
            assert "NO_PERMISSION (16): the reason; check the credentials" in str(error)
        garbage = Broker(answers={code: lambda frame: answer(frame, body=b"\xff{")})
        async with administering(serve, garbage) as (_, admin):
            if code in (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP):
                continue  # their answers have no content
            error = await error_of(ADMINISTRATION[call](admin))  # type: ignore[arg-type]
            assert isinstance(error, MalformedAnswerError)
            assert re.search(r"cannot be decoded: .*; try again, and check what lies between", str(error))


async def test_an_unknown_code_is_reported_with_the_servers_reason(start: Start) -> None:
    error = await error_of(send(await start(Script({ROUTE: refused(9999)}))))
    assert "(topic 'T') with code 9999: the reason" in str(error)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "addresses", [{"0": "127.0.0.1:0"}, {"0": "127.0.0.1:99999"}, {"0": "a b:10911"}, {"x": "127.0.0.1:1"}]
)
async def test_a_route_to_what_cannot_be_an_address_is_one_clear_error(
    start: Start, use: str, addresses: dict[str, str]
) -> None:
    def route(frame: Frame) -> Frame:
        broker = {"brokerAddrs": addresses, "brokerName": "broker-a", "cluster": "c"}
        queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        return answer(frame, body=json.dumps({"brokerDatas": [broker], "queueDatas": [queues]}).encode())

    error = await error_of(USES[use](await start(Script({ROUTE: route}))))
    assert isinstance(error, MalformedAnswerError)
    assert "sent a route that cannot be decoded" in str(error)


@pytest.mark.parametrize("use", ["push", "pull"])
async def test_a_group_that_brokers_do_not_create_is_reported_despite_heartbeats(
    start: Start, use: str
) -> None:
    """With autoCreateSubscriptionGroup=false, only a pull says that the group is missing."""
    script = Script({LIST: refused(ResponseCode.SYSTEM_ERROR), PULL: refused(26)})
    error = await error_of(USES[use](await start(script)))
    assert isinstance(error, GroupNotFoundError)
    assert error.group == "g"


async def test_a_server_that_hangs_up_when_asked_for_members_is_not_asked_without_end(start: Start) -> None:
    """Each new connection is a change of the group, which makes the client ask again."""
    server = await start(Script({LIST: lambda frame: b""}))
    loop = asyncio.get_running_loop()
    async with consumer(server, topics=["T"], timeouts=SOON):
        await seen(server, LIST, 3)
        begin = loop.time()
        await seen(server, LIST, 13)
        assert loop.time() - begin > 0.5


async def test_a_broker_that_notifies_of_a_change_in_each_answer_is_not_asked_without_end(
    start: Start,
) -> None:
    notification = encode(Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONE_WAY))
    script = Script()
    script.answers[LIST] = lambda frame: (
        encode(answer(frame, body=json.dumps({"consumerIdList": script.consumers}).encode())) + notification
    )
    server = await start(script)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with consumer(server, topics=["T"], timeouts=SOON):
        await seen(server, LIST, 12)
        assert loop.time() - begin > 0.5


# Offsets


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "²", "9" * 19, "9" * 100, None])
async def test_an_offset_that_cannot_be_is_one_clear_error(start: Start, number: str | None) -> None:
    fields = {} if number is None else {"offset": number, "queueOffset": number, "nextBeginOffset": number}
    problem = "is missing" if number is None else re.escape(f"is {number[:39]!r}"[:30])
    script = Script(
        dict.fromkeys(
            (RequestCode.SEND_MESSAGE_V2, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, PULL),
            lambda frame: answer(frame, fields=fields, body=MESSAGE),
        )
    )
    server = await start(script)
    error = await error_of(send(server))
    assert isinstance(error, MalformedAnswerError)
    assert re.search(f"cannot be used: its queueOffset {problem}", str(error))
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        await seen(server, PULL, 2)
        assert await reader.position(QUEUE) == 0
        (reason,) = reader.health().degraded.values()
    assert re.search(f"cannot be used: its nextBeginOffset {problem}", reason)


MOVED, NOT_FOUND, AGAIN, FOUND = (
    ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.SUCCESS,
)  # fmt: skip


@pytest.mark.parametrize("tags", ["*", "A"])
@pytest.mark.parametrize(
    ("code", "following", "smallest", "remark", "move", "filtered"),
    [
        (MOVED, 9, None, "WHY", 9, 9),
        (MOVED, 2, None, "WHY", 2, 2),
        (NOT_FOUND, 9, None, "WHY", 9, 9),  # a damaged index is passed over
        (NOT_FOUND, 2, None, "WHY", 2, 2),
        (AGAIN, 2, None, "WHY", 2, 2),
        (AGAIN, 9, 7, "WHY", 9, 9),
        (AGAIN, 9, 6, "WHY", 9, 9),
        (AGAIN, 9, 5, "WHY", 9, None),
        (AGAIN, 9, 0, "WHY", 9, None),
        (AGAIN, 9, None, "WHY", 9, None),
        (AGAIN, 9, 0, "MESSAGE_WAS_REMOVING", 9, 9),
        # The message that is found has offset 42.
        (FOUND, 43, 0, "FOUND", 42, None),
        (FOUND, 43, 5, "FOUND", 42, None),
        (FOUND, 43, 6, "FOUND", 42, 42),
        (FOUND, 43, None, "FOUND", 42, None),
    ],
)
async def test_a_position_that_a_broker_moves_is_an_event_and_logged(
    start: Start,
    caplog: pytest.LogCaptureFixture,
    tags: str,
    code: int,
    following: int,
    smallest: int | None,
    remark: str,
    move: int,
    filtered: int | None,
) -> None:
    """But for what it has looked through without finding what is wanted."""
    fields = {"nextBeginOffset": str(following)} | ({} if smallest is None else {"minOffset": str(smallest)})

    def moved(frame: Frame) -> Frame | None:
        is_first = frame.fields["queueOffset"] == "5"
        body = MESSAGE if code == FOUND else b""
        return answer(frame, code, fields, body, remark=remark) if is_first else None

    server = await start(Script({PULL: moved}, offsets={0: 5}))
    moves = Moves()
    async with consumer(server, hooks=[moves], filters={QUEUE.topic: tags}) as reader:
        reader.assign([QUEUE])
        if code == FOUND:
            assert await reader.poll(timeout=5.0) is not None
        _, then = await seen(server, PULL, 2)
        assert then.fields["queueOffset"] == str(following)
    wanted = move if tags == "*" else filtered
    assert moves.seen == ([] if wanted is None else [(5, wanted)])
    assert caplog.text.count("has no offset") == len(moves.seen)
    assert (f"has no offset 5 ({remark}), reading continues at {wanted}" in caplog.text) == bool(moves.seen)


@pytest.mark.parametrize(
    ("offset", "following"),
    [(42, 44), (43, 44), (5, 6), (5, 42)],
    ids=["the offset", "below", "above", "the next"],
)
async def test_what_is_found_there_or_has_another_offset_of_its_own_is_no_gap(
    start: Start, caplog: pytest.LogCaptureFixture, offset: int, following: int
) -> None:
    """Messages of static topics, and of batches that were stored as one, have other offsets of their own."""
    fields = {"nextBeginOffset": str(following), "minOffset": "42"}
    server = await start(
        Script({PULL: lambda frame: answer(frame, fields=fields, body=MESSAGE)}, offsets={0: offset})
    )
    moves = Moves()
    async with consumer(server, hooks=[moves]) as reader:
        reader.assign([QUEUE])
        batch = await reader.poll(timeout=5.0)
    assert batch is not None
    assert [message.offset for message in batch] == [42]
    assert not moves.seen
    assert "has no offset" not in caplog.text


@pytest.mark.parametrize(
    ("following", "body"), [("5", MESSAGE), ("4", MESSAGE), ("9", b"")], ids=["same", "back", "nothing"]
)
async def test_messages_that_lead_nowhere_are_no_answer_and_move_nothing(
    start: Start, following: str, body: bytes
) -> None:
    """Followed, they would be read again without end, or skipped."""
    reply: dict[int, Reply] = {
        PULL: lambda frame: answer(frame, fields={"nextBeginOffset": following}, body=body)
    }
    server = await start(Script(reply, offsets={0: 5}))
    moves = Moves()
    async with consumer(server, hooks=[moves]) as reader:
        reader.assign([QUEUE])
        await seen(server, PULL, 2)
        assert await reader.position(QUEUE) == 5
        (reason,) = reader.health().degraded.values()
    assert f"it leads from offset 5 to {following} with {len(body)} bytes of messages" in reason
    assert {frame.fields["queueOffset"] for frame in requests(server, PULL)} == {"5"}
    assert not moves.seen


async def test_a_broker_that_wants_the_same_pull_again_is_asked_with_pauses(start: Start) -> None:
    again: dict[int, Reply] = {
        PULL: lambda frame: answer(frame, 20, {"nextBeginOffset": frame.fields["queueOffset"]})
    }
    server = await start(Script(again))
    loop = asyncio.get_running_loop()
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        await seen(server, PULL, 1)
        begin = loop.time()
        await seen(server, PULL, 6)
        assert loop.time() - begin > 0.2
        assert "wants" in str(reader.health().degraded)


def onwards(frame: Frame, by: int) -> dict[str, str]:
    return {"nextBeginOffset": str(int(frame.fields["queueOffset"]) + by)}


NOTHING: dict[str, Reply] = {
    "not found": lambda frame: answer(frame, NOT_FOUND, onwards(frame, 0)),
    "found elsewhere": lambda frame: answer(frame, AGAIN, onwards(frame, 1)),
    "moved on": lambda frame: answer(frame, MOVED, onwards(frame, 1)),
}


@pytest.mark.parametrize("reply", NOTHING)
async def test_a_broker_that_does_not_wait_for_messages_is_asked_with_pauses(
    start: Start, reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pauses, "FREE_ANSWERS", 0)
    server = await start(Script({PULL: NOTHING[reply]}))
    loop = asyncio.get_running_loop()
    async with consumer(server) as reader:
        begin = loop.time()
        reader.assign([QUEUE])
        await seen(server, PULL, 9)
        assert loop.time() - begin > 0.3


async def test_what_a_broker_passes_over_by_a_filter_causes_no_pause(start: Start) -> None:
    server = await start(Script({PULL: NOTHING["found elsewhere"]}))
    async with consumer(server, filters={QUEUE.topic: "A"}) as reader:
        reader.assign([QUEUE])
        async with asyncio.timeout(8 * pauses.LONGEST_IDLE):
            await seen(server, PULL, 20 * pauses.FREE_ANSWERS)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"x":1}}',
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:-5}}',
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:"7"}}',
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:9223372036854775808}}',
    ],
)
async def test_a_reset_that_cannot_be_read_moves_nothing_and_is_logged(
    start: Start, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    """Nor does it end the connection: the answer that follows it is read."""
    reset = encode(Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=1, flag=ONE_WAY, body=body))
    check = encode(Frame(code=RequestCode.CHECK_TRANSACTION_STATE, opaque=2, flag=ONE_WAY, body=body))
    script = Script()
    script.answers[RequestCode.QUERY_CONSUMER_OFFSET] = lambda frame: (
        reset + check + encode(answer(frame, fields={"offset": "5"}))
    )
    server = await start(script)
    moves = Moves()
    async with consumer(server, topics=["T"], hooks=[moves]):
        (first, *_) = await seen(server, PULL)
        assert first.fields["queueOffset"] == "5"
    assert "a malformed reset of offsets is ignored" in caplog.text
    assert server.connections == 1
    assert not moves.seen


async def test_a_reset_is_an_event_and_logged(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    reset = resetting({QUEUE: 2})
    script = Script(offsets={0: 5})
    script.answers[PULL] = lambda frame: reset if frame.fields["queueOffset"] == "5" else None
    server = await start(script)
    moves = Moves()
    async with consumer(server, topics=["T"], hooks=[moves]):
        *_, second = await seen(server, PULL, 2)
        assert second.fields["queueOffset"] == "2"
    assert moves.seen == [(None, 2)]
    assert "is reset to offset 2" in caplog.text
    assert script.offsets == {0: 2}


async def test_a_fault_of_the_server_is_tried_again_and_reported_while_it_lasts(start: Start) -> None:
    left = [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE]

    def failing(frame: Frame) -> Frame | None:
        return answer(frame, left.pop(), remark="why") if left else None

    server = await start(Script({PULL: failing}))
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        await seen(server, PULL, 2)
        assert reader.health().is_degraded
        await seen(server, PULL, 4)
    assert {frame.fields["queueOffset"] for frame in requests(server, PULL)} == {"0"}


async def test_a_send_that_every_broker_fails_at_is_one_error_within_its_budget(start: Start) -> None:
    error = await error_of(send(await start(Script({RequestCode.SEND_MESSAGE_V2: refused(1)}))))
    assert isinstance(error, ServerError)
    assert "SYSTEM_ERROR (1): the reason; try again, and look at the server's log" in str(error)
