"""What a pull consumer asks of name servers and brokers, and what it makes of their answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiorocketmq import Credentials, PullConsumer, Recorder, Sql, Timeouts
from aiorocketmq._core.remoting.bodies import java_hash
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting import session
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._transport import credentials
from aiorocketmq.errors import (
    IllegalFilterError,
    NotSupportedError,
    PermissionDeniedError,
    ServerError,
    TopicNotFoundError,
    UnreachableError,
)
from aiorocketmq.hooks import Event, Hook, SeekEvent
from aiorocketmq.pull_consumer import Offset

from sdk.tests.core.remoting.test_records import JAVA_116 as FROM_JAVA, REAL_230 as FROM_5_5_0
from sdk.tests.remoting.script import (
    QUEUE,
    Reply,
    Script,
    Serve,
    Start,
    answer,
    consumer,
    found,
    requests,
    seen,
)
from sdk.tests.waiting import until


async def test_a_pull_asks_as_javas_lite_consumer_does_and_continues_where_it_is_sent(start: Start) -> None:
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
    # A consumer that assigns queues itself is no member: a heartbeat would change the subscription of the group.
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
    (seek,) = (event for event in events if isinstance(event, SeekEvent))
    assert (seek.queue, seek.offset, seek.instead_of) == (QUEUE, 7, 3)
    assert "has no offset 3 (OFFSET_TOO_SMALL), reading continues at 7" in caplog.text


@pytest.mark.parametrize(
    ("filters", "least", "remark", "gap"),
    [
        pytest.param({}, "0", "", True, id="nothing is filtered out"),
        pytest.param({"T": "*"}, "0", "", True, id="nor by a filter that lets everything through"),
        pytest.param({"T": "A"}, "0", "", False, id="filtered out"),
        pytest.param({"T": "A"}, "3", "", False, id="filtered out from the first one on"),
        pytest.param({"T": "A"}, "4", "", True, id="the first ones were deleted"),
        pytest.param({"T": "A"}, "0", "MESSAGE_WAS_REMOVING", True, id="they are being deleted"),
        pytest.param({"T": Sql("a > 1")}, "0", "", False, id="filtered out by SQL"),
    ],
)
@pytest.mark.parametrize("code", [ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY])
async def test_messages_that_are_passed_over_are_a_gap_unless_the_filter_leaves_them_out(
    start: Start, filters: dict[str, str | Sql], least: str, remark: str, gap: bool, code: ResponseCode
) -> None:
    """The first message that comes has offset 42; a search without result goes on at 50."""
    body = FROM_JAVA if code == ResponseCode.SUCCESS else b""

    def passed_over(frame: Frame) -> Frame | None:
        if frame.fields["queueOffset"] != "3":
            return None
        fields = {"nextBeginOffset": "50", "minOffset": least, "maxOffset": "90"}
        return answer(frame, code, fields, body, remark)

    server = await start(Script({RequestCode.PULL_MESSAGE: passed_over}, offsets={0: 3}))
    seeks: list[tuple[int, int | None]] = []

    class Seen(Hook):
        def observe(self, event: Event) -> None:
            if isinstance(event, SeekEvent):
                seeks.append((event.offset, event.instead_of))

    async with consumer(server, hooks=[Seen()], filters=filters) as reader:
        reader.assign([QUEUE])
        await reader.poll(0.0 if code else 10)
        _, again = await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert again.fields["queueOffset"] == "50"
    assert seeks == ([(42 if body else 50, 3)] if gap else [])


async def test_a_pull_without_wait_is_not_held(start: Start) -> None:
    server = await start(Script())
    async with consumer(server, wait=0) as reader:
        reader.assign([QUEUE])
        (pull, *_) = await seen(server, RequestCode.PULL_MESSAGE)
    assert (pull.fields["sysFlag"], pull.fields["suspendTimeoutMillis"]) == ("4", "0")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ResponseCode.NO_PERMISSION, PermissionDeniedError),
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, IllegalFilterError),
    ],
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
    refuse: dict[int, Reply] = {
        RequestCode.CHECK_CLIENT_CONFIG: lambda frame: answer(frame, 23, remark="line 1")
    }
    server = await start(Script(refuse))
    async with consumer(server, filters={"T": Sql("a >")}) as reader:
        reader.assign([QUEUE])
        with pytest.raises(IllegalFilterError, match="line 1"):
            await reader.poll(10)
        await reader.seek(QUEUE, 0)
        with pytest.raises(IllegalFilterError, match="line 1"):
            await reader.poll(10)
    assert not requests(server, RequestCode.PULL_MESSAGE)
    check, _ = requests(server, RequestCode.CHECK_CLIENT_CONFIG)
    assert json.loads(check.body)["subscriptionData"]["expressionType"] == "SQL92"


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


@pytest.mark.parametrize(("offset", "committed"), [("-1", None), ("0", 0), ("7", 7)])
async def test_a_committed_offset_below_zero_is_none(
    start: Start, offset: str, committed: int | None
) -> None:
    server = await start(
        Script({RequestCode.QUERY_CONSUMER_OFFSET: lambda frame: answer(frame, fields={"offset": offset})})
    )
    async with consumer(server) as reader:
        assert await reader.committed(QUEUE) == committed


async def test_requests_are_signed_where_there_are_credentials(start: Start) -> None:
    server = await start(Script())
    async with consumer(server, credentials=Credentials("key", "secret")) as reader:
        await reader.queues("T")
    assert {frame.fields["AccessKey"] for frame in server.seen} == {"key"}
    assert all(frame.fields["Signature"] for frame in server.seen)


class Vault:
    """A provider of credentials whose next result is given."""

    def __init__(self, key: str) -> None:
        self.result: Credentials | Exception = Credentials(key, "secret")
        self.asked = 0

    async def __call__(self) -> Credentials:
        self.asked += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def test_a_provider_that_fails_later_leaves_the_credentials_in_use(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PERIOD", 0.01)
    monkeypatch.setattr(credentials, "FRESH", 0.0)
    server, vault = await start(Script()), Vault("first")

    async def key(reader: PullConsumer) -> str:
        await reader.committed(QUEUE)
        return requests(server, RequestCode.QUERY_CONSUMER_OFFSET)[-1].fields["AccessKey"]

    async with consumer(server, credentials=vault) as reader:
        vault.result = LookupError("locked")
        await until(lambda: "locked" in reader.health().degraded.get("credentials", ""))
        assert await key(reader) == "first"
        vault.result = Credentials("second", "secret")
        await until(lambda: not reader.health().is_degraded)
        assert await key(reader) == "second"


async def test_credentials_that_a_broker_refuses_are_replaced_and_the_request_is_made_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script()

    def know_second(frame: Frame) -> Frame | bytes | None:
        if frame.fields["AccessKey"] != "second":
            return answer(frame, ResponseCode.NO_PERMISSION)
        return script._usual(frame)

    script.answers[RequestCode.QUERY_CONSUMER_OFFSET] = know_second
    server, vault = await start(script), Vault("first")
    async with consumer(server, credentials=vault) as reader:
        for _ in range(2):  # soon after the last time, the provider is not asked
            with pytest.raises(PermissionDeniedError):
                await reader.committed(QUEUE)
        assert vault.asked == 1
        monkeypatch.setattr(credentials, "_REFUSED_PAUSE", 0.0)
        with pytest.raises(PermissionDeniedError):  # they are the same
            await reader.committed(QUEUE)
        vault.result = Credentials("second", "secret")
        assert await reader.committed(QUEUE) is None
        assert vault.asked == 3
    assert [frame.fields["AccessKey"] for frame in requests(server, RequestCode.QUERY_CONSUMER_OFFSET)] == [
        *["first"] * 4, "second",
    ]  # fmt: skip


async def test_what_a_provider_raises_at_the_start_is_raised_there(start: Start) -> None:
    server, vault = await start(Script()), Vault("first")
    vault.result = LookupError("locked")
    with pytest.raises(LookupError, match="locked"):
        async with consumer(server, credentials=vault):
            pass
    assert server.seen == []


async def test_a_server_that_is_no_name_server_is_one_clear_error(start: Start, serve: Serve) -> None:
    broker = await start(
        Script({RequestCode.GET_BROKER_CLUSTER_INFO: lambda frame: answer(frame, 3, remark="not supported")})
    )
    with pytest.raises(NotSupportedError, match="is no name server"):
        async with consumer(broker):
            pass
    silent = await serve(lambda frame: None)
    with pytest.raises(UnreachableError, match=r"no answer from|no name server could be reached"):
        async with consumer(silent, timeouts=Timeouts(start=0.2, request=0.1)):
            pass
    assert silent.seen


async def test_a_topic_that_stays_unknown_is_reported_within_the_start(start: Start) -> None:
    server = await start(
        Script({RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda frame: answer(frame, 17, remark="No topic route")})
    )
    with pytest.raises(TopicNotFoundError, match="No topic route"):
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
        with pytest.raises(UnreachableError, match="know no address of broker 'broker-b'"):
            await reader.committed(QUEUE._replace(broker="broker-b"))


async def test_a_server_fault_is_tried_again(start: Start) -> None:
    tries: list[Frame] = []

    def fail_once(frame: Frame) -> Frame:
        tries.append(frame)
        return answer(frame, 1 if len(tries) == 1 else 0, {"offset": "4"})

    server = await start(Script({RequestCode.QUERY_CONSUMER_OFFSET: fail_once}))
    async with consumer(server) as reader:
        with pytest.raises(ServerError):
            await reader.committed(QUEUE)
        assert await reader.committed(QUEUE) == 4
