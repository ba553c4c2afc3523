"""Received messages, made from the records of a pull; remoting-protocol.md 7."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from types import MappingProxyType

from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core.bodies import unpacked_at_once
from aiorocketmq._core.bounds import known_us
from aiorocketmq._core.remoting.compression import plain_body
from aiorocketmq._core.remoting.records import COMPRESSED, Record
from aiorocketmq._transport.network import Network
from aiorocketmq.message import MessageQueue, MessageType, ReceivedMessage

SYSTEM_PROPERTIES = frozenset(
    (
        "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID",
        "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "TRAN_MSG", "PGROUP",
        "__transactionId__", "__SHARDINGKEY", "MIN_OFFSET", "MAX_OFFSET", "CLUSTER", "MSG_REGION",
        "TRACE_ON", "INSTANCE_ID", "POP_CK", "1ST_POP_TIME", "INNER_NUM", "INNER_BASE",
        "INNER_MULTI_DISPATCH", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS",
        "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", "BORN_TIMESTAMP", "__BORNHOST", "TRACE_CONTEXT",
        "CHECK_IMMUNITY_TIME_IN_SECONDS", "TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES",
        "__CRC32#", "_SYS_MSG_PRIORITY_",
    )
)  # fmt: skip
"""Properties that clients and brokers add to the sender's."""

_NUMBER = re.compile("[0-9]{1,19}")

_DELAYS = frozenset(("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS"))


def received(
    record: Record, queue: MessageQueue, group: str | None, limit: int
) -> tuple[ReceivedMessage, bool]:
    """Return the message of `record`, which was read from `queue`, and whether its body is still compressed.

    A body of more than a few KiB is left compressed: `plain` is for another thread. Attempts are not counted for pulled
    queues. The other fields are parsed on first access."""
    message = ReceivedMessage.__new__(ReceivedMessage)
    message.topic = record.topic
    message.body = record.body
    message.corruption = None if record.is_intact else f"its CRC32 digest is not {record.crc:#x}"
    message.queue = queue
    message.offset = record.queue_offset
    message.attempt = 0
    message.group = group
    message.namespace = ""
    message.lite_topic = None
    message._source = message._step_ended = message._wire = None
    message._lease = message._lease_ends_us = message._settler = None
    message._serial = 0
    message._rest = partial(_read_rest, record)
    if not record.sysflag & COMPRESSED or message.corruption is not None:
        return message, False
    body = unpacked_at_once(record.body, limit, unpack_with_extra)
    if body is None:
        return message, True
    message.body = body
    return message, False


def plain(record: Record, limit: int) -> tuple[bytes, str | None]:
    """Return the decompressed body, at most `limit` bytes, and None; or the original body, and why it is corrupted."""
    return plain_body(record, limit, unpack_with_extra)


async def unpack(message: ReceivedMessage, record: Record, network: Network) -> None:
    """Decompress a body that `received` has left compressed, in another thread."""
    loop = asyncio.get_running_loop()
    message.body, message.corruption = await loop.run_in_executor(
        network.executor, plain, record, network.max_decompressed_body
    )


def _read_rest(record: Record, message: ReceivedMessage) -> None:
    """Parse the fields that `received` has deferred."""
    properties = record.properties()
    message.raw_properties = MappingProxyType(properties)
    message.properties = MappingProxyType(
        {name: value for name, value in properties.items() if name not in SYSTEM_PROPERTIES}
    )
    message.message_id = properties.get("UNIQ_KEY") or record.offset_message_id
    message.tag = properties.get("TAGS")
    message.keys = tuple(properties.get("KEYS", "").split())
    message.message_group = properties.get("__SHARDINGKEY")
    priority = properties.get("_SYS_MSG_PRIORITY_", "")
    message.priority = int(priority) if _NUMBER.fullmatch(priority) and int(priority) < 2**31 else None
    message.trace_context = properties.get("TRACE_CONTEXT")
    is_transaction = properties.get("TRAN_MSG", "").lower() == "true"
    message.transaction_id = properties.get("__transactionId__") or (
        message.message_id if is_transaction else None
    )
    if is_transaction:
        message.message_type = MessageType.TRANSACTION
    elif message.message_group is not None:
        message.message_type = MessageType.FIFO
    elif not _DELAYS.isdisjoint(properties):
        message.message_type = MessageType.DELAY
    else:
        message.message_type = MessageType.NORMAL if message.priority is None else MessageType.PRIORITY
    message.born_host = record.born_host_text
    message._born_us = known_us(record.born_ms * 1000)
    message._stored_us = known_us(record.stored_ms * 1000)
    due = properties.get("TIMER_DELIVER_MS") or properties.get("TIMER_OUT_MS") or ""
    message._deliver_us = known_us(int(due) * 1000) if _NUMBER.fullmatch(due) else None
    message._rest = None  # last, as another thread may read the fields meanwhile
