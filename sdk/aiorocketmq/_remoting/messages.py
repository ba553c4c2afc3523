"""Messages as users receive them, made of the records of a pull; remoting-protocol.md 7."""

from __future__ import annotations

import asyncio
from functools import partial
from types import MappingProxyType

from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core.bodies import unpacked_at_once
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
        "__CRC32#",
    )
)  # fmt: skip
"""Properties that clients and brokers add to the sender's."""

_DELAYS = frozenset(("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS"))


def received(record: Record, queue: MessageQueue, group: str, limit: int) -> tuple[ReceivedMessage, bool]:
    """The message of `record`, which was read from `queue`, and whether its body is still to be decompressed.

    A body of more than a few KiB is left as it came: `plain` is for another thread. Nobody counts attempts where
    queues are pulled. The rest of its fields is read when somebody asks for one."""
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
    """The decompressed body, at most `limit` bytes, and None; or the body as it came, and why it is corrupted."""
    return plain_body(record, limit, unpack_with_extra)


async def unpack(message: ReceivedMessage, record: Record, network: Network) -> None:
    """Decompress what `received` has left as it came, in another thread."""
    loop = asyncio.get_running_loop()
    message.body, message.corruption = await loop.run_in_executor(
        network.executor, plain, record, network.max_decompressed_body
    )


def _read_rest(record: Record, message: ReceivedMessage) -> None:
    """Read what `received` has left out."""
    message._rest = None
    found = record.properties()
    message.raw_properties = MappingProxyType(found)
    message.properties = MappingProxyType(
        {name: value for name, value in found.items() if name not in SYSTEM_PROPERTIES}
    )
    message.message_id = found.get("UNIQ_KEY") or record.offset_message_id
    message.tag = found.get("TAGS")
    message.keys = tuple(found.get("KEYS", "").split())
    message.message_group = found.get("__SHARDINGKEY")
    message.priority = None
    message.trace_context = found.get("TRACE_CONTEXT")
    is_transaction = found.get("TRAN_MSG", "").lower() == "true"
    message.transaction_id = found.get("__transactionId__") or (
        message.message_id if is_transaction else None
    )
    if is_transaction:
        message.message_type = MessageType.TRANSACTION
    elif message.message_group is not None:
        message.message_type = MessageType.FIFO
    else:
        message.message_type = MessageType.NORMAL if _DELAYS.isdisjoint(found) else MessageType.DELAY
    message.born_host = record.born_host_text
    message._born_us = record.born_ms * 1000
    message._stored_us = record.stored_ms * 1000
    due = found.get("TIMER_DELIVER_MS") or found.get("TIMER_OUT_MS")
    message._deliver_us = int(due) * 1000 if due is not None and due.isascii() and due.isdigit() else None
