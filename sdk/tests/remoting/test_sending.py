"""A producer over the remoting protocol: what it asks of brokers, and what their answers and questions do to it."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from aiorocketmq import Message, Producer, Resolution, Retry, SendReceipt
from aiorocketmq._core.remoting.batches import read_batch
from aiorocketmq._core.remoting.frame import ONE_WAY, Frame, encode
from aiorocketmq._core.remoting.properties import read_properties, write_properties
from aiorocketmq._core.remoting.records import COMPRESSED, Record
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.errors import (
    IllegalMessageError,
    MalformedAnswerError,
    MessageTooLargeError,
    NotSupportedError,
    ServerError,
    TransactionUnconfirmedError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.message import ReceivedMessage

from sdk.tests.core.remoting.encoding import checksum, encode_record
from sdk.tests.remoting.script import QUEUE, Reply, Script, Server, Start, answer, requests, seen

OLD, NEW = 407, 513
"""Versions of brokers: 4.9.7 and 5.5.0."""


def stored(body: bytes, **properties: str) -> bytes:
    return encode_record(
        Record(0, 3, "T", body, property_text=write_properties(properties), crc=checksum(body))
    )


def stores(offset: int = 7) -> Reply:
    def reply(frame: Frame) -> Frame:
        # As of a broker whose address is one of IPv6: the offset in its log is the end.
        fields = {"msgId": f"{'20' * 20}{100:016X}", "queueId": "0", "queueOffset": str(offset)}
        return answer(frame, fields=fields)

    return reply


def producer(server: Server, **options: Any) -> Producer:
    return Producer(f"namesrv://{server.address}", **options)


def scripted(reply: Reply | None = None, *, version: int = NEW) -> Script:
    def beat(frame: Frame) -> Frame:
        return Frame(code=0, opaque=frame.opaque, flag=1, version=version)

    reply = reply or stores()
    return Script(
        answers={
            RequestCode.SEND_MESSAGE_V2: reply,
            RequestCode.SEND_BATCH_MESSAGE: reply,
            RequestCode.HEART_BEAT: beat,
        }
    )


async def test_a_message_travels_with_all_that_it_has(start: Start) -> None:
    server = await start(scripted())
    async with producer(server) as sender:
        receipt = await sender.send(
            Message("T", b"hello", tag="A", keys=["k", "l"], properties={"p": "v"}, message_group="g")
        )
    (frame,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    assert frame.body == b"hello"
    assert read_properties(frame.fields["i"]) == {
        "UNIQ_KEY": receipt.message_id,
        "TAGS": "A",
        "KEYS": "k l",
        "WAIT": "true",
        "p": "v",
        "__SHARDINGKEY": "g",
    }
    assert {name: frame.fields[name] for name in "bcefhjkmn"} == {
        **dict.fromkeys("bc", "T"),
        **dict.fromkeys("efhj", "0"),
        **dict.fromkeys("km", "false"),
        "n": "broker-a",
    }
    assert (receipt.offset, receipt.endpoint, receipt.attempts) == (7, str(server.address), 1)


@pytest.mark.parametrize("priority", [0, 9])
async def test_a_priority_travels_also_the_lowest(start: Start, priority: int) -> None:
    server = await start(scripted())
    async with producer(server) as sender:
        await sender.send(Message("T", b"x", priority=priority))
    (frame,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    assert read_properties(frame.fields["i"])["_SYS_MSG_PRIORITY_"] == str(priority)


@pytest.mark.parametrize("writable", [1, 3, 5])
async def test_messages_go_to_the_writable_queues_whatever_is_readable(start: Start, writable: int) -> None:
    """A topic that shrinks has more readable queues for a while, one that grows has fewer."""
    script = scripted()
    script.queues, script.writable = 3, writable
    server = await start(script)
    async with producer(server) as sender:
        for number in range(2 * max(3, writable)):
            await sender.send(Message("T", b"%d" % number))
    queues = {int(frame.fields["e"]) for frame in requests(server, RequestCode.SEND_MESSAGE_V2)}
    assert queues == set(range(writable))


async def test_a_producer_is_known_to_the_brokers_of_every_topic(start: Start) -> None:
    server = await start(scripted())
    async with producer(server, group="payers") as sender:
        assert sender.is_ready
        assert not requests(server, RequestCode.HEART_BEAT)
        await sender.send(Message("T", b"x"))
        (beat,) = requests(server, RequestCode.HEART_BEAT)
        assert b'"producerDataSet": [{"groupName": "payers"}]' in beat.body
        await sender.send(Message("T", b"y"))
        assert len(requests(server, RequestCode.HEART_BEAT)) == 1
    (goodbye,) = requests(server, RequestCode.UNREGISTER_CLIENT)
    assert goodbye.fields == {"clientID": sender.client_id, "producerGroup": "payers"}


async def test_a_batch_is_one_request_whose_messages_keep_their_own_ids(start: Start) -> None:
    server = await start(scripted())
    async with producer(server, linger=0.001) as sender:
        receipts = await sender.send_many([Message("T", b"%d" % n, keys=[f"k{n}"]) for n in range(3)])
    (frame,) = requests(server, RequestCode.SEND_BATCH_MESSAGE)
    assert frame.fields["m"] == "true"
    members = list(read_batch(frame.body))
    assert [member.body for member in members] == [b"0", b"1", b"2"]
    properties = [read_properties(member.property_text) for member in members]
    assert [(each["UNIQ_KEY"], each["KEYS"]) for each in properties] == [
        (receipt.message_id, f"k{n}") for n, receipt in enumerate(receipts)
    ]
    assert [receipt.offset for receipt in receipts] == [7, 8, 9]


@pytest.mark.parametrize(("delay", "level"), [(1, "1"), (30, "4"), (60.0, "5"), (600, "14"), (7200, "18")])
async def test_an_old_broker_delays_by_levels(start: Start, delay: float, level: str) -> None:
    server = await start(scripted(version=OLD))
    async with producer(server) as sender:
        await sender.send(Message("T", b"x", delay=delay))
    (frame,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    properties = read_properties(frame.fields["i"])
    assert properties["DELAY"] == level
    assert "TIMER_DELIVER_MS" not in properties


async def test_what_an_old_broker_would_deliver_at_once_is_refused(start: Start) -> None:
    server = await start(scripted(version=OLD))
    async with producer(server) as sender:
        with pytest.raises(
            NotSupportedError, match=r"older than 5\.0 and delays messages by 1, 5, 10 or 30 seconds"
        ):
            await sender.send(Message("T", b"x", delay=3))
    assert not requests(server, RequestCode.SEND_MESSAGE_V2)


async def test_a_new_broker_gets_the_delivery_time(start: Start) -> None:
    server = await start(scripted())
    async with producer(server) as sender:
        await sender.send(Message("T", b"x", delay=3))
    (frame,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    due = int(read_properties(frame.fields["i"])["TIMER_DELIVER_MS"])
    assert abs(due - int(frame.fields["g"]) - 3000) <= 1000


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        (
            Message("T", b"x", properties={"UNIQ_KEY": "mine"}),
            IllegalMessageError,
            "'UNIQ_KEY' is the system's own",
        ),
        (Message("T", b"x", properties={"p": "v" * 32_768}), IllegalMessageError, "has at most 32,767"),
        (Message("T", b"x", lite_topic="l"), NotSupportedError, "travel over gRPC only"),
    ],
)
async def test_what_cannot_travel_is_refused_and_not_sent(
    start: Start, message: Message, error: type[Exception], text: str
) -> None:
    server = await start(scripted())
    async with producer(server) as sender:
        with pytest.raises(error, match=text):
            await sender.send(message)
    assert not requests(server, RequestCode.SEND_MESSAGE_V2)


@pytest.mark.parametrize(
    "fields", [{}, {"queueOffset": "x"}, {"queueOffset": "1", "msgId": "short, not hex"}]
)
async def test_a_receipt_that_cannot_be_read_is_an_error(start: Start, fields: dict[str, str]) -> None:
    server = await start(scripted(lambda frame: answer(frame, fields=fields)))

    async def check(_: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    async with producer(server, retry=Retry(attempts=1), group="g", transaction_checker=check) as sender:
        with pytest.raises(MalformedAnswerError) as caught:
            async with sender.transaction(Message("T", b"x")):
                pytest.fail("nothing is known to be stored")
    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize("linger", [None, 0.0])
async def test_a_send_whose_connection_broke_goes_again_with_the_same_id(
    start: Start, linger: float | None
) -> None:
    attempts: list[Frame] = []

    def store(frame: Frame) -> Frame | bytes:
        attempts.append(frame)
        return b"" if len(attempts) == 1 else answer(frame, fields={"queueOffset": "0", "msgId": "00"})

    server = await start(scripted(store))
    async with producer(server, retry=Retry(initial=0.01), linger=linger) as sender:
        receipt = await sender.send(Message("T", b"x"))
    first, second = ((read_properties(frame.fields["i"]), frame.body) for frame in attempts)
    assert (first, receipt.attempts) == (second, 2)


async def test_a_half_message_whose_connection_broke_is_not_sent_again(start: Start) -> None:
    server = await start(scripted(lambda _: b""))

    async def check(_: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    async with producer(server, group="g", transaction_checker=check) as sender:
        with pytest.raises(UnreachableError):
            async with sender.transaction(Message("T", b"x")):
                pytest.fail("nothing is known to be stored")
    assert len(requests(server, RequestCode.SEND_MESSAGE_V2)) == 1


@pytest.mark.parametrize(
    ("is_committed", "number"),
    [pytest.param(True, "8", id="commit"), pytest.param(False, "12", id="rollback")],
)
async def test_a_transaction_ends_where_its_half_message_is_stored(
    start: Start, is_committed: bool, number: str
) -> None:
    server = await start(scripted())

    async def check(_: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    async with producer(server, group="payers", transaction_checker=check) as sender:
        try:
            async with sender.transaction(Message("T", b"x"), check_after=30) as transaction:
                if not is_committed:
                    raise LookupError
        except LookupError:
            pass
    (half,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    properties = read_properties(half.fields["i"])
    assert (half.fields["f"], properties["TRAN_MSG"], properties["PGROUP"]) == ("4", "true", "payers")
    assert properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "30"
    (end,) = requests(server, RequestCode.END_TRANSACTION)
    assert end.fields == {
        "topic": "T",
        "producerGroup": "payers",
        "tranStateTableOffset": "7",
        "commitLogOffset": "100",
        "commitOrRollback": number,
        "fromTransactionCheck": "false",
        "msgId": transaction.receipt.message_id,
        "transactionId": transaction.receipt.message_id,
        "bname": "broker-a",
    }


async def test_a_commit_that_was_not_confirmed_is_not_made_twice(start: Start) -> None:
    script = scripted()
    script.answers[RequestCode.END_TRANSACTION] = lambda _: b""
    server = await start(script)

    async def check(_: ReceivedMessage) -> Resolution:
        return Resolution.COMMIT

    async with producer(server, group="g", transaction_checker=check) as sender:
        with pytest.raises(TransactionUnconfirmedError) as caught:
            async with sender.transaction(Message("T", b"x")):
                pass
    assert caught.value.may_have_taken_effect
    assert len(requests(server, RequestCode.END_TRANSACTION)) == 1


def _asking(body: bytes, **fields: str) -> Callable[[Frame], bytes]:
    """Answers a heartbeat, and asks about a transaction behind it."""
    question = Frame(
        code=RequestCode.CHECK_TRANSACTION_STATE, opaque=1, flag=ONE_WAY, fields=fields, body=body
    )
    return lambda frame: encode(answer(frame)) + encode(question)


async def test_a_check_of_a_broker_is_answered_as_the_checker_decides(start: Start) -> None:
    script = scripted()
    record = stored(b"half", UNIQ_KEY="ID", TRAN_MSG="true")
    script.answers[RequestCode.HEART_BEAT] = _asking(
        record, tranStateTableOffset="3", commitLogOffset="44", transactionId="TX", bname="broker-a"
    )
    server = await start(script)
    checked: list[ReceivedMessage] = []

    async def check(message: ReceivedMessage) -> Resolution:
        checked.append(message)
        return Resolution.COMMIT

    async with producer(server, topics=["T"], group="payers", transaction_checker=check):
        (end,) = await seen(server, RequestCode.END_TRANSACTION)
    assert [(each.body, each.message_id) for each in checked] == [(b"half", "ID")]
    assert end.fields == {
        "topic": "T",
        "producerGroup": "payers",
        "tranStateTableOffset": "3",
        "commitLogOffset": "44",
        "commitOrRollback": "8",
        "fromTransactionCheck": "true",
        "msgId": "ID",
        "transactionId": "TX",
        "bname": "broker-a",
    }


async def test_a_checker_reads_a_compressed_half_message(start: Start) -> None:
    script, body = scripted(), b"x" * 100_000
    packed, properties = zlib.compress(body), write_properties({"UNIQ_KEY": "ID"})
    record = Record(0, 3, "T", packed, properties, sysflag=COMPRESSED, crc=checksum(packed))
    script.answers[RequestCode.HEART_BEAT] = _asking(
        encode_record(record), tranStateTableOffset="3", commitLogOffset="44"
    )
    server = await start(script)
    checked: list[ReceivedMessage] = []

    async def check(message: ReceivedMessage) -> Resolution:
        checked.append(message)
        return Resolution.ROLLBACK

    async with producer(server, topics=["T"], group="payers", transaction_checker=check):
        (end,) = await seen(server, RequestCode.END_TRANSACTION)
    assert [(each.body, each.corruption) for each in checked] == [(body, None)]
    assert (end.fields["transactionId"], end.fields["commitOrRollback"]) == ("ID", "12")


@pytest.mark.parametrize("body", [b"", b"garbage", stored(b"a") * 2])
async def test_a_question_that_cannot_be_read_is_logged_and_left(
    start: Start, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    script = scripted()
    script.answers[RequestCode.HEART_BEAT] = _asking(body, tranStateTableOffset="3", commitLogOffset="44")
    server = await start(script)

    async def check(_: ReceivedMessage) -> Resolution:
        raise AssertionError

    caplog.set_level(logging.WARNING)
    async with producer(server, topics=["T"], group="g", transaction_checker=check) as sender:
        assert isinstance(await sender.send(Message("T", b"x")), SendReceipt)
    assert "in a malformed request" in caplog.text


async def test_a_broker_that_fails_is_tried_again_and_its_text_reaches_the_user(start: Start) -> None:
    server = await start(
        scripted(lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR, remark="disk on fire"))
    )
    async with producer(server, retry=Retry(attempts=2, initial=0.01)) as sender:
        with pytest.raises(ServerError, match="disk on fire"):
            await sender.send(Message("T", b"x"))
    assert len(requests(server, RequestCode.SEND_MESSAGE_V2)) == 2


async def test_sends_follow_a_route_that_changes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiorocketmq._remoting.session.ROUTES", 0.01)
    script = scripted()
    server = await start(script)
    async with producer(server) as sender:
        assert (await sender.send(Message("T", b"x"))).queue == QUEUE
        script.queues = 3
        async with asyncio.timeout(10):
            while {(await sender.send(Message("T", b"x"))).queue.id for _ in range(3)} != {0, 1, 2}:
                pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group": "no blanks"}, "group"),
        ({"transaction_checker": lambda message: message}, "need group="),
    ],
)
def test_a_wrong_group_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Producer("namesrv://localhost:9876", **options)


def test_a_group_of_producers_over_grpc_is_refused() -> None:
    with pytest.raises(ValueError, match="gRPC has no producer groups"):
        Producer("localhost:8081", group="g")


async def test_a_receipt_without_queue_cannot_be_recalled(start: Start) -> None:
    server = await start(scripted())
    async with producer(server) as sender:
        receipt = SendReceipt(
            message_id="ID", topic="T", queue=None, offset=0, attempts=1, recall_handle="h", endpoint=""
        )
        with pytest.raises(UsageError, match="names no queue"):
            await sender.recall(receipt)


async def test_the_largest_body_leaves_room_for_the_largest_properties(start: Start) -> None:
    server = await start(scripted())
    largest = 16 * 1024 * 1024 - 64 * 1024
    async with producer(server) as sender:
        with pytest.raises(MessageTooLargeError, match=f"over the server's limit of {largest} bytes"):
            await sender.send(Message("T", bytes(largest + 1)))
        await sender.send(Message("T", bytes(largest), properties={"p": "v" * 32_600}))
    (frame,) = requests(server, RequestCode.SEND_MESSAGE_V2)
    assert len(frame.body) == largest
