"""`Admin.message` and `Admin.messages` against a scripted broker that stores some messages."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq import Admin, MessageQueue
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.records import COMPRESSED, Record, masked_crc
from aiorocketmq.errors import MalformedAnswerError, NotFoundError, PermissionDeniedError

from sdk.tests.core.remoting.encoding import encode_records
from sdk.tests.remoting.brokers import FIRST, NEW, SECOND, Broker, reply, table
from sdk.tests.remoting.script import Serve

BASE = 1_700_000_000_000


def stored(offset: int, text: str = "KEYS\x01a b\x02UNIQ_KEY\x01M1", **changes: Any) -> Record:
    record = Record(
        queue_id=0, queue_offset=offset, topic="orders", body=b"%d" % offset, property_text=text,
        commit_log_offset=100 * offset, stored_ms=BASE + 1000 * offset, born_ms=BASE,
        store_address=bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big"), crc=masked_crc(b"%d" % offset),
    )  # fmt: skip
    return record._replace(**changes)


def at(offset: float) -> datetime:
    return datetime.fromtimestamp((BASE + 1000 * offset) / 1000, UTC)


class Store:
    """Serves records: by place, by index, and by pulls of two at a time from queue 0, whose span is 1 to 9."""

    def __init__(self, *records: Record) -> None:
        self.records = records
        self.broker = Broker(answers={33: self.view, 12: self.query, 11: self.pull})
        self.asked: list[dict[str, str]] = []

    def view(self, frame: Frame) -> Frame:
        place = int(frame.fields["offset"])
        records = [each for each in self.records if each.commit_log_offset == place]
        return reply(frame, 0 if records else 1, encode_records(records))

    def query(self, frame: Frame) -> Frame:
        self.asked.append(dict(frame.fields))
        return reply(frame, 0 if self.records else 22, encode_records(self.records))

    def pull(self, frame: Frame) -> Frame:
        self.asked.append(dict(frame.fields))
        offset = int(frame.fields["queueOffset"])
        records = [each for each in self.records if each.queue_offset >= offset][:2]
        then = records[-1].queue_offset + 1 if records else 9
        return reply(frame, 0 if records else 20, encode_records(records), nextBeginOffset=str(then))


async def test_a_message_is_found_by_its_senders_id_and_reported_as_received(serve: Serve) -> None:
    store = Store(stored(3, "UNIQ_KEY\x01M2"), stored(4, "UNIQ_KEY\x01M1\x02TAGS\x01paid\x02color\x01red"))
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        message = await admin.message("orders", "M1")
    assert (message.queue, message.offset, message.body, message.message_id) == (FIRST, 4, b"4", "M1")
    assert (message.tag, message.properties, message.stored_at) == ("paid", {"color": "red"}, at(4))
    (query,) = store.asked
    assert (query["key"], query["_UNIQUE_KEY_QUERY"]) == ("M1", "true")


async def test_a_message_is_found_by_the_place_in_its_brokers_id(serve: Serve) -> None:
    store = Store()
    server = await serve(store.broker)
    host = bytes((10, 0, 0, 1)) + server.address.port.to_bytes(4, "big")
    store.records = (stored(4, store_address=host),)
    async with Admin(f"broker://{server.address}") as admin:
        message_id = store.records[0].offset_message_id
        assert (await admin.message("orders", message_id.lower())).offset == 4
        with pytest.raises(NotFoundError, match=f"no message '{message_id[:-1]}1'"):
            await admin.message("orders", f"{message_id[:-1]}1")
    assert [frame.code for frame in server.seen if frame.code in (33, 12)] == [33, 33, 12]


async def test_an_id_that_names_another_machine_is_only_looked_up(serve: Serve) -> None:
    server = await serve(Store().broker)
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(NotFoundError):
            await admin.message("orders", "0A0000010000000100000000000000FF")
    assert [frame.code for frame in server.seen if frame.code in (33, 12)] == [12]


async def test_messages_with_a_key_are_reported_once_and_others_of_its_hash_left_out(serve: Serve) -> None:
    store = Store(stored(4), stored(3), stored(3), stored(5, "KEYS\x01c"), stored(6, topic="refunds"))
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.offset for each in await admin.messages("orders", key="b")] == [3, 4]
        assert [each.offset for each in await admin.messages("orders", key="b", limit=1)] == [3]
        messages = await admin.messages("orders", key="b", since=at(3.5), until=at(9))
        assert [each.offset for each in messages] == [4]
    fields = {"beginTimestamp": str(BASE + 3500), "endTimestamp": str(BASE + 9000), "maxNum": "64"}
    assert {**store.asked[-1], **fields} == store.asked[-1]


async def test_no_message_with_a_key_is_no_error(serve: Serve) -> None:
    server = await serve(Store().broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.messages("orders", key="b") == ()


@pytest.mark.parametrize(
    ("asked", "offsets"),
    [
        ({}, [1, 2, 3, 6, 7]),
        ({"limit": 3}, [1, 2, 3]),
        ({"since": at(5)}, [6, 7]),
        ({"until": at(2)}, [1, 2]),
        ({"since": at(5), "until": at(6)}, [6]),
        ({"since": at(8)}, []),
    ],
)
async def test_messages_of_a_time_are_read_on_until_its_end(
    serve: Serve, asked: dict[str, Any], offsets: list[int]
) -> None:
    store = Store(*(stored(offset) for offset in (1, 2, 3, 6, 7)))
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.offset for each in await admin.messages("orders", **asked)] == offsets
    assert all(fields["consumerGroup"] == "TOOLS_CONSUMER" for fields in store.asked)
    assert all(fields["sysFlag"] == "4" for fields in store.asked), "not held, and commits nothing"


async def test_reading_ends_if_the_server_does_not_continue(serve: Serve) -> None:
    store = Store()
    store.broker.answers[11] = lambda frame: reply(frame, 20, nextBeginOffset=frame.fields["queueOffset"])
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.messages("orders") == ()
    assert [frame.code for frame in server.seen].count(11) == 1


async def test_bodies_are_decompressed_and_corruption_is_reported(serve: Serve) -> None:
    packed, broken = zlib.compress(b"x" * 100_000), b"\x78\x5e" + b"y" * 5000
    store = Store(
        stored(1, body=packed, sysflag=COMPRESSED, crc=masked_crc(packed)),
        stored(2, body=broken, sysflag=COMPRESSED, crc=masked_crc(broken)),
        stored(3, crc=1),
    )
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        good, bad, false = await admin.messages("orders")
    assert (good.body, good.corruption) == (b"x" * 100_000, None)
    assert bad.corruption is not None
    assert false.corruption is not None


@pytest.mark.parametrize("code", [33, 12, 11])
async def test_damaged_messages_are_one_error(serve: Serve, code: int) -> None:
    broken = {code: lambda frame: reply(frame, body=b"\0\0\0\x10damaged", nextBeginOffset="2")}
    store = Store()
    store.broker.answers |= broken
    server = await serve(store.broker)
    message_id = f"7F000001{server.address.port:08X}{0:016X}"
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="messages that cannot be decoded"):
            await (admin.messages("orders") if code == 11 else admin.message("orders", message_id))


@pytest.mark.parametrize("fields", [{}, {"nextBeginOffset": "x"}])
async def test_a_pull_without_a_next_offset_is_one_error(serve: Serve, fields: dict[str, str]) -> None:
    store = Store()
    store.broker.answers[11] = lambda frame: reply(frame, 20, None, version=NEW, remark="", **fields)
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="nextBeginOffset"):
            await admin.messages("orders")


async def test_a_refusal_in_one_queue_ends_the_search(serve: Serve) -> None:
    store = Store()
    store.broker.answers[11] = lambda frame: reply(frame, 16)
    spans = {queue: {"minOffset": 0, "maxOffset": 5} for queue in (FIRST, SECOND)}
    store.broker.answers[202] = lambda frame: reply(frame, body=table(spans))
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(PermissionDeniedError):
            await admin.messages("orders")


async def test_arguments_that_cannot_be_are_refused_before_asking(serve: Serve) -> None:
    server = await serve(Store().broker)
    async with Admin(f"broker://{server.address}") as admin:
        for call in (
            lambda: admin.message("orders", ""),
            lambda: admin.messages("orders", limit=0),
            lambda: admin.messages("orders", key=""),
            lambda: admin.messages("orders", key="a b"),
            lambda: admin.messages("orders", since=datetime(2026, 1, 1)),
            lambda: admin.messages("orders", until=datetime(2026, 1, 1), key="a"),
            lambda: admin.messages("a b"),
        ):
            with pytest.raises(ValueError, match=r"."):
                await call()
    assert server.seen == []


async def test_a_queue_has_the_name_of_its_broker_also_without_name_servers(serve: Serve) -> None:
    server = await serve(Store(stored(3)).broker)
    async with Admin(f"broker://{server.address}") as admin:
        (message,) = await admin.messages("orders", key="a")
    assert message.queue == MessageQueue("orders", "broker-a", 0)
