"""What a pull consumer asks of name servers and brokers, and what it makes of their answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq import AveragelyByCircle, Credentials, MessageQueue, PullConsumer, Recorder, Sql, Timeouts
from aiorocketmq._core.remoting.bodies import java_hash
from aiorocketmq._core.remoting.frame import ONE_WAY, RESPONSE, Frame, encode
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.errors import (
    IllegalFilter,
    NotServed,
    PermissionDenied,
    ServerFault,
    TopicNotFound,
    Unreachable,
)
from aiorocketmq.hooks import Event, Hook, SeekEvent
from aiorocketmq.pull_consumer import Offset

from sdk.tests.core.remoting.test_records import JAVA_116 as FROM_JAVA, REAL_230 as FROM_5_5_0

Serve = Callable[[Callable[[Frame], Any]], Awaitable[Any]]
Answer = Callable[[Frame], "Frame | bytes | None"]
QUEUE = MessageQueue("T", "broker-a", 0)


def answer(
    frame: Frame, code: int = 0, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = ""
) -> Frame:
    return Frame(
        code=code, opaque=frame.opaque, flag=RESPONSE, fields=fields or {}, body=body, remark=remark or None
    )


@dataclass
class Script:
    """A name server and broker in one, for one topic with some queues; `answers` by request come first."""

    answers: dict[int, Answer] = field(default_factory=dict)
    queues: int = 1
    offsets: dict[int, int] = field(default_factory=dict)
    consumers: list[str] = field(default_factory=list)
    address: str = ""

    def __call__(self, frame: Frame) -> Frame | bytes | None:
        if frame.is_response:
            return None
        given = self.answers.get(frame.code)
        return given(frame) if given is not None else self._usual(frame)

    def _usual(self, frame: Frame) -> Frame | None:
        fields, queue = frame.fields, int(frame.fields.get("queueId", 0))
        match frame.code:
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                return answer(frame, body=self.route())
            case RequestCode.GET_BROKER_CLUSTER_INFO:
                return answer(frame, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
            case RequestCode.QUERY_CONSUMER_OFFSET:
                if queue in self.offsets:
                    return answer(frame, fields={"offset": str(self.offsets[queue])})
                return answer(frame, ResponseCode.QUERY_NOT_FOUND)
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                self.offsets[queue] = int(fields["commitOffset"])
                return answer(frame)
            case RequestCode.GET_MIN_OFFSET | RequestCode.GET_MAX_OFFSET:
                return answer(frame, fields={"offset": "0"})
            case RequestCode.PULL_MESSAGE:
                return None  # held
            case RequestCode.HEART_BEAT:
                client = json.loads(frame.body)["clientID"]
                if client not in self.consumers:
                    self.consumers.append(client)
                return answer(frame)
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return answer(frame, body=json.dumps({"consumerIdList": self.consumers}).encode())
            case RequestCode.LOCK_BATCH_MQ:
                return answer(
                    frame, body=json.dumps({"lockOKMQSet": json.loads(frame.body)["mqSet"]}).encode()
                )
            case _:
                return answer(frame)

    def route(self) -> bytes:
        return json.dumps(
            {
                "brokerDatas": [
                    {"brokerAddrs": {"0": self.address}, "brokerName": "broker-a", "cluster": "c"}
                ],
                "queueDatas": [
                    {
                        "brokerName": "broker-a",
                        "perm": 6,
                        "readQueueNums": self.queues,
                        "writeQueueNums": self.queues,
                    }
                ],
            }
        ).encode()


@pytest.fixture
def start(serve: Serve) -> Callable[[Script], Awaitable[Any]]:
    async def begin(script: Script) -> Any:
        server = await serve(script)
        script.address = str(server.address)
        return server

    return begin


Start = Callable[[Script], Awaitable[Any]]


def consumer(server: Any, **options: Any) -> PullConsumer:
    return PullConsumer(f"namesrv://{server.address}", group="g", **options)


def requests(server: Any, code: RequestCode) -> list[Frame]:
    return [frame for frame in server.seen if frame.code == code and not frame.is_response]


async def seen(server: Any, code: RequestCode, count: int = 1) -> list[Frame]:
    """The requests of this kind, once there are so many."""
    async with asyncio.timeout(10):
        while len(requests(server, code)) < count:
            server.arrived.clear()
            await server.arrived.wait()
    return requests(server, code)


def found(*bodies: bytes, next_offset: int) -> Answer:
    """Answers a pull once; the next ones are held."""
    left = [True]

    def reply(frame: Frame) -> Frame | None:
        if not left:
            return None
        left.clear()
        fields = {"nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "9"}
        return answer(frame, fields=fields, body=b"".join(bodies))

    return reply


async def test_a_pull_asks_as_javas_lite_consumer_does_and_goes_on_where_it_is_told(start: Start) -> None:
    script = Script({RequestCode.PULL_MESSAGE: found(FROM_JAVA, FROM_5_5_0, next_offset=50)})
    server = await start(script)
    async with consumer(server, filters={"T": "A || B"}, max_messages=10, wait=7.0) as reader:
        reader.assign([QUEUE])
        batch = await reader.poll(10)
        assert batch is not None
        # The tag is compared exactly, as brokers compare hashes.
        assert [(message.body, message.tag) for message in batch] == [(b"hello", "A"), (b"hello", "A")]
        assert (batch.next_offset, batch.queue) == (50, QUEUE)
        first, second = await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert first.fields == {
            "topic": "T",
            "queueId": "0",
            "bname": "broker-a",
            "consumerGroup": "g",
            "queueOffset": "0",
            "maxMsgNums": "10",
            "sysFlag": "6",
            "commitOffset": "0",
            "suspendTimeoutMillis": "7000",
            "subscription": "A || B",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        assert second.fields["queueOffset"] == "50"
        await reader.commit(batch)
    assert script.offsets == {0: 50}
    # Whoever assigns queues itself is no member, whose heartbeat would change the subscription of the group.
    assert not requests(server, RequestCode.HEART_BEAT)


async def test_a_recorder_takes_down_what_was_read(start: Start, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    script = Script({RequestCode.PULL_MESSAGE: found(FROM_JAVA, FROM_5_5_0, next_offset=50)})
    server = await start(script)
    with Recorder(tmp_path) as recorder:
        async with consumer(server, hooks=[recorder]) as reader:
            reader.assign([QUEUE])
            batch = await reader.poll(10)
            assert batch is not None
            await reader.commit(batch)
    rows = parquet.read_table(tmp_path).to_pylist()
    (first, second) = (row for row in rows if row["kind"] == "deliver")
    names = ("topic", "broker", "queue", "offset", "message_id", "tag", "group", "attempt", "delivery")
    assert [first[name] for name in names] == ["T", "broker-a", 0, 42, "U1", "A", "g", 0, None]
    assert (first["born_us"], first["store_us"]) == (1_700_000_000_000_000, 1_700_000_000_123_000)
    assert (second["message_id"], second["offset"]) == ("7F000001356B14DAD5DCFCB0A1190001", 0)
    assert [row["commit_offset"] for row in rows if row["kind"] == "commit"] == [50]


async def test_messages_of_another_tag_with_the_same_hash_are_left_out(start: Start) -> None:
    assert java_hash("Aa") == java_hash("BB")
    assert (java_hash("TagA"), java_hash("\N{GRINNING FACE}")) == (2598919, 1772899)
    script = Script({RequestCode.PULL_MESSAGE: found(FROM_JAVA, next_offset=50)})
    server = await start(script)
    async with consumer(server, filters={"T": "B"}) as reader:
        reader.assign([QUEUE])
        await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert await reader.position(QUEUE) == 50


async def test_a_damaged_record_is_an_error_that_is_tried_again_and_skips_nothing(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script({RequestCode.PULL_MESSAGE: found(FROM_JAVA[:-1], next_offset=50)})
    server = await start(script)
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        _, again = await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert again.fields["queueOffset"] == "0"
    assert "message at byte 0" in caplog.text


async def test_an_offset_that_the_broker_moves_is_an_event_and_logged(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def moved(frame: Frame) -> Frame | None:
        if frame.fields["queueOffset"] != "3":
            return None
        return answer(
            frame, ResponseCode.PULL_OFFSET_MOVED, {"nextBeginOffset": "7"}, remark="OFFSET_TOO_SMALL"
        )

    server = await start(Script({RequestCode.PULL_MESSAGE: moved}, offsets={0: 3}))
    events: list[Event] = []

    class Seen(Hook):
        def observe(self, event: Event) -> None:
            events.append(event)

    async with consumer(server, hooks=[Seen()]) as reader:
        reader.assign([QUEUE])
        await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert await reader.position(QUEUE) == 7
    (told,) = (event for event in events if isinstance(event, SeekEvent))
    assert (told.queue, told.offset, told.instead_of) == (QUEUE, 7, 3)
    assert "has no offset 3 (OFFSET_TOO_SMALL), reading goes on at 7" in caplog.text


@pytest.mark.parametrize(
    ("code", "error"),
    [(ResponseCode.NO_PERMISSION, PermissionDenied), (ResponseCode.SUBSCRIPTION_PARSE_FAILED, IllegalFilter)],
)
async def test_what_is_refused_for_good_ends_the_reading(
    start: Start, code: int, error: type[Exception]
) -> None:
    server = await start(Script({RequestCode.PULL_MESSAGE: lambda frame: answer(frame, code)}))
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        with pytest.raises(error):
            await reader.poll(10)


async def test_an_sql_expression_is_checked_before_the_first_pull(start: Start) -> None:
    """A broker delivers everything where it cannot read it."""
    refuse = {RequestCode.CHECK_CLIENT_CONFIG: lambda frame: answer(frame, 23, remark="line 1")}
    server = await start(Script(refuse))
    async with consumer(server, filters={"T": Sql("a >")}) as reader:
        reader.assign([QUEUE])
        with pytest.raises(IllegalFilter, match="line 1"):
            await reader.poll(10)
    assert not requests(server, RequestCode.PULL_MESSAGE)
    (asked,) = requests(server, RequestCode.CHECK_CLIENT_CONFIG)
    assert json.loads(asked.body)["subscriptionData"]["expressionType"] == "SQL92"


@pytest.mark.parametrize("fields", [{}, {"nextBeginOffset": "x"}, {"nextBeginOffset": "-1"}])
async def test_an_answer_without_a_usable_offset_is_tried_again(start: Start, fields: dict[str, str]) -> None:
    server = await start(Script({RequestCode.PULL_MESSAGE: lambda frame: answer(frame, 19, fields)}))
    async with consumer(server) as reader:
        reader.assign([QUEUE])
        await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert reader.health().is_degraded


async def test_offsets_by_place_ask_the_broker(start: Start) -> None:
    script = Script(
        {
            RequestCode.GET_MIN_OFFSET: lambda frame: answer(frame, fields={"offset": "3"}),
            RequestCode.GET_MAX_OFFSET: lambda frame: answer(frame, fields={"offset": "-1"}),
        }
    )
    server = await start(script)
    async with consumer(server, start=Offset.END) as reader:
        reader.assign([QUEUE])
        assert await reader.position(QUEUE) == 0  # of a queue that never had a message
        await reader.seek(QUEUE, Offset.BEGIN)
        assert await reader.position(QUEUE) == 3
        assert await reader.committed(QUEUE) is None


async def test_requests_are_signed_where_there_are_credentials(start: Start) -> None:
    server = await start(Script())
    async with consumer(server, credentials=Credentials("key", "secret")) as reader:
        await reader.queues("T")
    assert {frame.fields["AccessKey"] for frame in server.seen} == {"key"}
    assert all(frame.fields["Signature"] for frame in server.seen)


async def test_a_member_is_known_again_as_soon_as_its_connection_is(start: Start) -> None:
    script = Script(queues=2)
    server = await start(script)
    hang_up = [True]

    def pull(frame: Frame) -> bytes | None:
        if hang_up:
            hang_up.clear()
            return b""
        return None

    script.answers[RequestCode.PULL_MESSAGE] = pull
    async with consumer(server, topics=["T"]) as reader:
        first, again, *_ = await seen(server, RequestCode.HEART_BEAT, 2)
        assert first.body == again.body
        told = json.loads(first.body)
        (group,) = told["consumerDataSet"]
        assert (group["groupName"], group["messageModel"], group["consumeType"]) == (
            "g",
            "CLUSTERING",
            "CONSUME_ACTIVELY",
        )
        assert group["subscriptionDataSet"][0]["topic"] == "T"
        # It looks at its group once more when it is known again.
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert reader.health().connected
    (goodbye,) = requests(server, RequestCode.UNREGISTER_CLIENT)
    assert goodbye.fields == {"clientID": told["clientID"], "consumerGroup": "g"}


async def test_a_notification_moves_queues(start: Start) -> None:
    script = Script(queues=3)
    server = await start(script)
    notify = Frame(
        code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONE_WAY, fields={"consumerGroup": "g"}
    )

    def list_then_notify(frame: Frame) -> bytes:
        """The other member joins after the first answer."""
        body = json.dumps({"consumerIdList": script.consumers}).encode()
        told = encode(answer(frame, body=body))
        if len(script.consumers) == 1:
            script.consumers.append("~last")
            return told + encode(notify)
        return told

    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = list_then_notify
    moves: list[tuple[str, list[int]]] = []
    moved = asyncio.Event()

    class Listener:
        async def assigned(self, queues: Any) -> None:
            moves.append(("assigned", [queue.id for queue in queues]))

        async def revoked(self, queues: Any) -> None:
            moves.append(("revoked", [queue.id for queue in queues]))
            moved.set()

    async with consumer(server, topics=["T"], on_rebalance=Listener()) as reader:
        await asyncio.wait_for(moved.wait(), 10)
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert moves == [("assigned", [0, 1, 2]), ("revoked", [2])]
        assert [queue.id for queue in reader.assigned] in ([0, 1, 2], [0, 1])


async def test_what_an_administrator_asks_of_a_member_is_answered(start: Start) -> None:
    script = Script(offsets={0: 5})
    server = await start(script)
    table = '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}}'
    asking = [
        Frame(code=RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=1, fields={"consumerGroup": "g"}),
        Frame(code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, opaque=2, fields={"group": "g"}),
        Frame(code=309, opaque=3),
        Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=4, flag=ONE_WAY, body=b"none"),
        Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=5, flag=ONE_WAY, body=table.encode()),
    ]

    def ask(frame: Frame) -> bytes | None:
        """The first pull is held, and the broker asks on the same connection."""
        questions = b"".join(map(encode, asking))
        asking.clear()
        return questions or None

    script.answers[RequestCode.PULL_MESSAGE] = ask
    async with consumer(server, topics=["T"]) as reader:
        _, again = await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert again.fields["queueOffset"] == "3"
        await seen(server, RequestCode.UPDATE_CONSUMER_OFFSET)
        assert await reader.position(QUEUE) == 3
    assert script.offsets == {0: 3}
    running, status, unknown = (frame for frame in server.seen if frame.is_response)
    key = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
    assert json.loads(running.body)["mqTable"] == {key: {"commitOffset": 5}}
    assert json.loads(status.body)["messageQueueTable"] == {key: 5}
    assert (running.opaque, status.opaque, unknown.opaque, unknown.code) == (1, 2, 3, 3)


async def test_who_is_not_listed_has_no_queue_and_looks_again_soon(start: Start) -> None:
    script = Script()
    server = await start(script)
    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: answer(
        frame, body=b'{"consumerIdList":["other"]}'
    )
    async with consumer(server, topics=["T"]) as reader:
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert reader.assigned == ()
        del script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
        await seen(server, RequestCode.PULL_MESSAGE)
        assert reader.assigned == (QUEUE,)


async def test_only_what_is_locked_is_read_in_order(start: Start) -> None:
    script = Script(queues=2)
    server = await start(script)
    mine = {"brokerName": "broker-a", "queueId": 1, "topic": "T"}
    script.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(
        frame, body=json.dumps({"lockOKMQSet": [mine]}).encode()
    )
    async with consumer(server, topics=["T"], ordered=True) as reader:
        (pull,) = await seen(server, RequestCode.PULL_MESSAGE)
        assert pull.fields["queueId"] == "1"
        _, again, *_ = await seen(server, RequestCode.LOCK_BATCH_MQ, 2)
        asked = json.loads(again.body)
        assert (asked["consumerGroup"], asked["onlyThisBroker"]) == ("g", False)
        assert asked["mqSet"] == [{"brokerName": "broker-a", "queueId": 0, "topic": "T"}]
        assert reader.assigned == (MessageQueue("T", "broker-a", 1),)
    (unlock,) = requests(server, RequestCode.UNLOCK_BATCH_MQ)
    assert json.loads(unlock.body)["mqSet"] == [mine]


async def test_what_was_given_up_is_read_again_although_a_lock_failed_in_between(start: Start) -> None:
    script = Script(queues=3)
    server = await start(script)
    notify = Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONE_WAY)
    groups: list[Callable[[str], list[str]]] = [
        lambda me: [me, "~last"],
        lambda me: ["!first", me],
        lambda me: [me],
    ]
    refused: list[bytes] = []

    def members(frame: Frame) -> bytes:
        (me,) = script.consumers
        body = json.dumps({"consumerIdList": groups[0](me)}).encode()
        told = encode(answer(frame, body=body))
        if len(groups) == 1:
            return told
        return told + (encode(notify) if groups.pop(0)(me)[0] == me else b"")

    def lock(frame: Frame) -> Frame:
        queues = [each["queueId"] for each in json.loads(frame.body)["mqSet"]]
        if queues == [1] and not refused:
            refused.append(frame.body)
            return answer(frame, ResponseCode.SYSTEM_ERROR)
        return answer(frame, body=json.dumps({"lockOKMQSet": json.loads(frame.body)["mqSet"]}).encode())

    script.answers |= {RequestCode.GET_CONSUMER_LIST_BY_GROUP: members, RequestCode.LOCK_BATCH_MQ: lock}
    async with consumer(server, topics=["T"], ordered=True, allocation=AveragelyByCircle()) as reader:
        *_, last = await seen(server, RequestCode.LOCK_BATCH_MQ, 3)
        assert [each["queueId"] for each in json.loads(last.body)["mqSet"]] == [0, 1, 2]
        begin = server.seen.index(last)
        async with asyncio.timeout(10):
            while {
                frame.fields["queueId"]
                for frame in server.seen[begin:]
                if frame.code == RequestCode.PULL_MESSAGE
            } != {"0", "1", "2"}:
                server.arrived.clear()
                await server.arrived.wait()
        assert sorted(queue.id for queue in reader.assigned) == [0, 1, 2]


async def test_a_server_that_is_no_name_server_is_one_clear_error(start: Start, serve: Serve) -> None:
    broker = await start(
        Script({RequestCode.GET_BROKER_CLUSTER_INFO: lambda frame: answer(frame, 3, remark="not supported")})
    )
    with pytest.raises(NotServed, match="is no name server"):
        async with consumer(broker):
            pass
    silent = await serve(lambda frame: None)
    with pytest.raises(Unreachable, match=r"no answer from|no name server could be reached"):
        async with consumer(silent, timeouts=Timeouts(start=0.2, request=0.1)):
            pass
    assert silent.seen


async def test_a_topic_that_stays_unknown_is_told_within_the_start(start: Start) -> None:
    server = await start(
        Script({RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda frame: answer(frame, 17, remark="No topic route")})
    )
    with pytest.raises(TopicNotFound, match="No topic route"):
        async with consumer(server, topics=["T"], timeouts=Timeouts(start=0.3)):
            pass
    assert len(requests(server, RequestCode.GET_ROUTEINFO_BY_TOPIC)) > 1


async def test_the_next_name_server_is_asked_when_one_does_not_answer(start: Start) -> None:
    server = await start(Script())
    async with PullConsumer(f"namesrv://127.0.0.1:1;{server.address}", group="g") as reader:
        assert await reader.queues("T") == (QUEUE,)


async def test_a_broker_without_an_address_is_away(start: Start) -> None:
    script = Script()
    server = await start(script)
    async with consumer(server) as reader:
        with pytest.raises(Unreachable, match="know no address of broker 'broker-b'"):
            await reader.committed(replace(QUEUE, broker="broker-b"))


async def test_a_failing_listener_is_logged_and_queues_move_all_the_same(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start(Script())

    class Failing:
        async def assigned(self, queues: Any) -> None:
            raise RuntimeError("of the application")

        async def revoked(self, queues: Any) -> None:
            raise RuntimeError("of the application")

    with caplog.at_level(logging.ERROR):
        async with consumer(server, topics=["T"], on_rebalance=Failing()):
            await seen(server, RequestCode.PULL_MESSAGE)
    assert caplog.text.count("the rebalance listener failed") == 2


async def test_a_server_fault_is_tried_again(start: Start) -> None:
    tries: list[Frame] = []

    def fail_once(frame: Frame) -> Frame:
        tries.append(frame)
        return answer(frame, 1 if len(tries) == 1 else 0, {"offset": "4"})

    server = await start(Script({RequestCode.QUERY_CONSUMER_OFFSET: fail_once}))
    async with consumer(server) as reader:
        with pytest.raises(ServerFault):
            await reader.committed(QUEUE)
        assert await reader.committed(QUEUE) == 4
