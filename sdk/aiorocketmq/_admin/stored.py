"""Stored messages, by id, by key and by the time they were stored; live-broker-remoting.md 12."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from aiorocketmq._admin.bodies import milliseconds
from aiorocketmq._admin.masters import Masters, gathered, number_of, reading
from aiorocketmq._admin.offsets import search
from aiorocketmq._admin.topics import stats
from aiorocketmq._admin.values import QueueSpan
from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core.bodies import DEFAULT_MAX_UNPACKED
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.batches import unwrapped
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.records import Record, read_records
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.messages import plain, received
from aiorocketmq.errors import NotFoundError
from aiorocketmq.message import ReceivedMessage

MOST_OF_A_KEY = 64
"""Messages that a broker returns for one key."""
_TOOLS_GROUP = "TOOLS_CONSUMER"
"""The group of administrators, which every broker has from its start."""
_BATCH = 32
_WITH_FILTER = 4
"""Flag of a pull: it has a filter, and is not held."""
_LATEST_MS = 2**63 - 1
_STORED_ID = re.compile(r"(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{32})([0-9A-Fa-f]{8})([0-9A-Fa-f]{16})")
"""Address, port and commit log offset of a message, as in brokers' message ids; remoting-protocol.md 7.6."""

Found = list[tuple[Record, MessageQueue]]


def check_times(*moments: datetime | None) -> None:
    """Raise ValueError for a time without zone."""
    for moment in moments:
        if moment is not None:
            milliseconds(moment)


async def by_id(masters: Masters, topic: str, message_id: str) -> ReceivedMessage:
    """Return the message of `topic` with this id of its sender or of its broker; raises NotFoundError. Requests 33 and
    12."""
    spans = await stats(masters, topic)
    records = await _by_place(masters, topic, message_id, spans) or [
        each
        for each in await _indexed(
            masters, topic, message_id, spans, {"_UNIQUE_KEY_QUERY": "true"}, limit=_BATCH
        )
        if each[0].properties().get("UNIQ_KEY") == message_id
    ]
    if not records:
        raise NotFoundError(
            f"topic {topic!r} has no message {message_id!r}; brokers delete messages after some days",
            endpoint=str(masters),
            topic=topic,
        )
    return (await _messages(records, 1))[0]


async def by_key(
    masters: Masters, topic: str, key: str, since: datetime | None, until: datetime | None, limit: int
) -> tuple[ReceivedMessage, ...]:
    """Messages of `topic` with `key`, the oldest first. Request 12."""
    fields = {
        "beginTimestamp": str(0 if since is None else milliseconds(since)),
        "endTimestamp": str(_LATEST_MS if until is None else milliseconds(until)),
    }
    records = await _indexed(masters, topic, key, await stats(masters, topic), fields, limit=MOST_OF_A_KEY)
    # Brokers compare hashes.
    fitting = [each for each in records if key in each[0].properties().get("KEYS", "").split()]
    return await _messages(_within(fitting, since, until), limit)


async def by_time(
    masters: Masters, topic: str, since: datetime | None, until: datetime | None, limit: int
) -> tuple[ReceivedMessage, ...]:
    """The oldest messages of `topic` that were stored in this time. Requests 29 and 11."""

    async def of_queue(item: tuple[Address, QueueSpan]) -> Found:
        return await _read_queue(masters, *item, since, until, limit)

    items = [(address, span) for address, own in (await stats(masters, topic)).items() for span in own]
    records = [each for own in await gathered(of_queue, items) for each in own]
    return await _messages(records, limit)


async def _by_place(
    masters: Masters, topic: str, message_id: str, spans: dict[Address, tuple[QueueSpan, ...]]
) -> Found:
    """Return the message at the commit log offset in its id; only known brokers are contacted, whatever its address."""
    place = _STORED_ID.fullmatch(message_id)
    if place is None:
        return []
    port, offset = int(place[1], 16), int(place[2], 16)
    for address in spans:
        if address.port != port:
            continue
        fields = {"offset": str(offset), "topic": topic}
        answer = await masters.call(
            address, RequestCode.VIEW_MESSAGE_BY_ID, fields, topic=topic, accept=(ResponseCode.SYSTEM_ERROR,)
        )
        for record, queue in _records(address, answer, topic, spans[address]):
            if record.offset_message_id == message_id.upper():
                return [(record, queue)]
    return []


async def _indexed(
    masters: Masters,
    topic: str,
    key: str,
    spans: dict[Address, tuple[QueueSpan, ...]],
    fields: dict[str, str],
    *,
    limit: int,
) -> Found:
    records: Found = []
    for address, own in spans.items():
        answer = await masters.call(
            address,
            RequestCode.QUERY_MESSAGE,
            {
                "topic": topic,
                "key": key,
                "maxNum": str(limit),
                "beginTimestamp": "0",
                "endTimestamp": str(_LATEST_MS),
                **fields,
            },
            topic=topic,
            accept=(ResponseCode.QUERY_NOT_FOUND,),
        )
        records += _records(address, answer, topic, own)
    return records


async def _read_queue(
    masters: Masters,
    address: Address,
    span: QueueSpan,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> Found:
    queue, messages = span.queue, Found()
    offset = span.min_offset if since is None else await search(masters, address, queue, since)
    while offset < span.max_offset and len(messages) < limit:
        answer = await _pull(masters, address, queue, offset)
        records = _records(address, answer, queue.topic, (span,))
        messages += _within(records, since, until)
        if until is not None and records and records[-1][0].stored_ms > milliseconds(until):
            break
        next_offset = number_of(address, answer, "nextBeginOffset")
        if next_offset <= offset:
            break
        offset = next_offset
    return messages


async def _pull(masters: Masters, address: Address, queue: MessageQueue, offset: int) -> Frame:
    """Pull from `offset` without changing any group's progress. Request 11."""
    fields = {
        "consumerGroup": _TOOLS_GROUP,
        "topic": queue.topic,
        "queueId": str(queue.id),
        "bname": queue.broker,
        "queueOffset": str(offset),
        "maxMsgNums": str(_BATCH),
        "sysFlag": str(_WITH_FILTER),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    nothing = (
        ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED
    )  # fmt: skip
    return await masters.call(
        address, RequestCode.PULL_MESSAGE, fields, topic=queue.topic, group=_TOOLS_GROUP, accept=nothing
    )


def _records(address: Address, answer: Frame, topic: str, spans: Sequence[QueueSpan]) -> Found:
    """The records of an answer that belong to `topic`, with their queues."""
    if answer.code != ResponseCode.SUCCESS:
        return []
    broker = spans[0].queue.broker if spans else str(address)
    with reading(address, "messages"):
        return [
            (each, MessageQueue(topic, broker, each.queue_id))
            for record in read_records(answer.body)
            for each in unwrapped(record, DEFAULT_MAX_UNPACKED, unpack_with_extra)
            if each.topic == topic
        ]


def _within(found: Found, since: datetime | None, until: datetime | None) -> Found:
    first = 0 if since is None else milliseconds(since)
    last = _LATEST_MS if until is None else milliseconds(until)
    return [each for each in found if first <= each[0].stored_ms <= last]


async def _messages(
    records: Iterable[tuple[Record, MessageQueue]], limit: int
) -> tuple[ReceivedMessage, ...]:
    """Return the oldest of them as messages, each once: brokers return messages with several equal keys twice."""
    once = {(queue, record.queue_offset): (record, queue) for record, queue in records}
    # In the order of each broker's log, where many have the same millisecond.
    oldest = sorted(
        once.values(), key=lambda each: (each[0].stored_ms, each[1].broker, each[0].commit_log_offset)
    )
    messages = []
    for record, queue in oldest[:limit]:
        message, is_packed = received(record, queue, "", DEFAULT_MAX_UNPACKED)
        if is_packed:
            message.body, message.corruption = await asyncio.to_thread(plain, record, DEFAULT_MAX_UNPACKED)
        messages.append(message)
    return tuple(messages)
