"""What becomes of the properties of a stored message that was pulled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq import MessageQueue, MessageType
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import Record, masked_crc
from aiorocketmq._remoting.messages import received
from aiorocketmq.message import ReceivedMessage

QUEUE = MessageQueue("orders", "broker-a", 3)


def pulled(properties: dict[str, str] | None = None, **changes: Any) -> ReceivedMessage:
    record = Record(3, 7, "orders", b"x", write_properties(properties or {}), crc=masked_crc(b"x"))
    message, is_packed = received(record._replace(**changes), QUEUE, "billing", 1000)
    assert not is_packed
    return message


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"TRAN_MSG": "false"}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO),
        ({"__SHARDINGKEY": "g", "DELAY": "3"}, MessageType.FIFO),
        ({"__SHARDINGKEY": "g", "TRAN_MSG": "true"}, MessageType.TRANSACTION),
        ({"TRAN_MSG": "TRUE"}, MessageType.TRANSACTION),
        ({"_SYS_MSG_PRIORITY_": "3"}, MessageType.PRIORITY),
        ({"_SYS_MSG_PRIORITY_": "3", "DELAY": "3"}, MessageType.DELAY),
        ({"_SYS_MSG_PRIORITY_": "3", "__SHARDINGKEY": "g"}, MessageType.FIFO),
        *(
            ({name: "3"}, MessageType.DELAY)
            for name in ("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS")
        ),
    ],
)
def test_properties_tell_the_type_of_a_message(properties: dict[str, str], kind: MessageType) -> None:
    assert pulled(properties).message_type is kind


def test_a_message_without_a_senders_id_is_named_by_its_place() -> None:
    host = bytes((127, 0, 0, 1, 0, 0, 42, 159))
    message = pulled(store_address=host, commit_log_offset=255)
    assert message.message_id == "7F00000100002A9F00000000000000FF"
    assert pulled({"UNIQ_KEY": "M1"}, store_address=host).message_id == "M1"


@pytest.mark.parametrize(
    ("properties", "transaction_id"),
    [
        ({"UNIQ_KEY": "M1"}, None),
        ({"UNIQ_KEY": "M1", "TRAN_MSG": "true"}, "M1"),
        ({"UNIQ_KEY": "M1", "TRAN_MSG": "true", "__transactionId__": "T1"}, "T1"),
    ],
)
def test_a_transaction_is_named_by_its_message_unless_it_has_a_name_of_its_own(
    properties: dict[str, str], transaction_id: str | None
) -> None:
    assert pulled(properties).transaction_id == transaction_id


@pytest.mark.parametrize(
    ("properties", "due"),
    [
        ({"TIMER_DELIVER_MS": "1700000000123"}, 123_000),
        ({"TIMER_OUT_MS": "1700000000123"}, 123_000),
        ({"TIMER_DELIVER_MS": "1700000000123", "TIMER_OUT_MS": "1700000000999"}, 123_000),
        ({"TIMER_DELIVER_MS": "soon"}, None),
        ({"TIMER_DELIVER_MS": "²"}, None),
        ({"TIMER_DELIVER_MS": "9" * 18}, None),
        ({"TIMER_DELIVER_MS": "9" * 5000}, None),
        ({"DELAY": "3"}, None),
    ],
)
def test_a_delayed_message_knows_when_it_was_due(properties: dict[str, str], due: int | None) -> None:
    expected = None if due is None else datetime(2023, 11, 14, 22, 13, 20, due, UTC)
    assert pulled(properties).deliver_at == expected


@pytest.mark.parametrize(
    ("text", "priority"),
    [("0", 0), (f"{2**31 - 1}", 2**31 - 1), (f"{2**31}", None), ("-1", None), ("", None), ("²", None)],
)
def test_a_priority_is_a_number_of_32_bits(text: str, priority: int | None) -> None:
    message = pulled({"_SYS_MSG_PRIORITY_": text})
    assert (message.priority, message.properties) == (priority, {})


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63), 253_402_300_800_000])
def test_a_time_beyond_the_years_1_to_9999_is_unknown(milliseconds: int) -> None:
    message = pulled(born_ms=milliseconds, stored_ms=milliseconds)
    assert (message.born_at, message.stored_at) == (None, None)


def test_the_properties_of_the_sender_are_those_that_no_system_has_added() -> None:
    properties = {"UNIQ_KEY": "M1", "TAGS": "paid", "KEYS": "a  b", "color": "red", "TRACE_CONTEXT": "00-1"}
    message = pulled(properties)
    assert (message.properties, message.raw_properties) == ({"color": "red"}, properties)
    assert (message.tag, message.keys, message.trace_context) == ("paid", ("a", "b"), "00-1")
    assert (message.queue, message.offset, message.group, message.attempt) == (QUEUE, 7, "billing", 0)
