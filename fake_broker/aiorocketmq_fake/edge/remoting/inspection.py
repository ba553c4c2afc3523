"""Administrators' queries of queues, progress and stored messages, and offset resets (6.19, live 12)."""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq_fake.core.values.codes import OffsetPolicy
from aiorocketmq_fake.core.values.model import OffsetQuery, StoredMessage, TopicConfig
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.bodies import dump_loose
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.messages import record
from aiorocketmq_fake.edge.remoting.records import host, write_record
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, RequestError, ResponseCode

__all__ = ["InspectionRequests"]

_ALL_QUEUES, _BY_TIME = -1, -1
"""Marker values of a reset: all queues, and an offset by time."""
_END = -1
"""The timestamp that means the end of a queue."""


class InspectionRequests:
    """The requests about stored messages and progress."""

    def __init__(self, driver: Driver, address: Address) -> None:
        self._driver = driver
        self._core = driver.core
        self._address = address

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.GET_CONSUME_STATS: self.progress,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.QUERY_MESSAGE: self.query,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view,
        }

    # Queues and progress

    def stats(self, request: Request) -> Frame:
        """Return the first and next offset of each queue of a topic."""
        config = self._topic(request)
        table: list[tuple[object, object]] = []
        for queue_id in range(config.read_queues):
            queue = self._core.queue(config.name, queue_id)
            assert queue is not None
            figures = {
                "lastUpdateTimestamp": _milliseconds(queue.latest or 0.0),
                "maxOffset": queue.max_offset,
                "minOffset": queue.min_offset,
            }
            table.append((self._key(config.name, queue_id), figures))
        return answer(body=dump_loose({"offsetTable": table or {}, "topicPutTps": 0.0}))

    def progress(self, request: Request) -> Frame:
        """Return the progress of a group in one topic, or in all topics with an offset."""
        group, topic = request.text("consumerGroup"), request.frame.fields.get("topic", "")
        stored = {
            (each.topic, each.queue): each.offset
            for each in self._core.offsets(group)
            if topic in ("", each.topic)
        }
        config = self._core.topic(topic)
        if config is not None:
            stored = {**{(topic, queue_id): 0 for queue_id in range(config.read_queues)}, **stored}
        table: list[tuple[object, object]] = []
        for (name, queue_id), offset in sorted(stored.items()):
            queue = self._core.queue(name, queue_id)
            if queue is None:
                continue
            figures = {
                "brokerOffset": queue.max_offset,
                "consumerOffset": offset,
                "lastTimestamp": self._stored_at(name, queue_id, offset - 1),
                "pullOffset": offset,
            }
            table.append((self._key(name, queue_id), figures))
        return answer(body=dump_loose({"consumeTps": 0.0, "offsetTable": table or {}}))

    def reset(self, request: Request) -> Frame:
        """Reset a group in one queue, or in all queues of a topic; its members learn it with their next pull."""
        group, config = request.text("group"), self._topic(request)
        if not self._core.has_group(group):
            text = f"Group {group} not exist"
            raise RequestError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        only_queue = request.number("queueId", _ALL_QUEUES, bits=32)
        # Servers ignore the offset of a reset of all queues (6.19).
        offset = _BY_TIME if only_queue == _ALL_QUEUES else request.number("offset", _BY_TIME)
        queues = range(config.read_queues) if only_queue == _ALL_QUEUES else (only_queue,)
        targets = {}
        for queue_id in queues:
            queue = self._core.queue(config.name, queue_id)
            if queue is None:
                raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"no queue {queue_id} of {config.name}")
            targets[queue_id] = offset if offset != _BY_TIME else self._at(request, config.name, queue_id)
            if not queue.min_offset <= targets[queue_id] <= queue.max_offset + 1:
                text = (
                    f"Target offset {targets[queue_id]} not in consume queue range "
                    f"[{queue.min_offset}-{queue.max_offset + 1}]"
                )
                raise RequestError(ResponseCode.SYSTEM_ERROR, text)
        for queue_id, target in targets.items():
            self._driver.run(self._core.reset_queue, group, config.name, queue_id, target)
        table = [(self._key(config.name, queue_id), target) for queue_id, target in targets.items()]
        return answer(body=dump_loose({"offsetTable": table or {}}))

    def _at(self, request: Request, topic: str, queue_id: int) -> int:
        timestamp = request.number("timestamp", 0)
        policy = OffsetPolicy.END if timestamp == _END else OffsetPolicy.TIMESTAMP
        query = OffsetQuery(topic, queue_id, policy, timestamp / 1000)
        return self._driver.run(self._core.query_offset, query)

    # Messages

    def query(self, request: Request) -> Frame:
        """Find the newest messages of a topic by key, or by the client's message id."""
        topic, key = request.text("topic"), request.text("key")
        first, last = request.number("beginTimestamp", 0), request.number("endTimestamp", 2**63 - 1)
        by_id = request.truth("_UNIQUE_KEY_QUERY")
        matches = [
            message
            for message in self._core.messages(topic)
            if (key == message.content.message_id if by_id else key in message.content.keys)
            and first <= message.store_timestamp * 1000 <= last
        ]
        most = max(request.number("maxNum", bits=32), 0)
        newest = sorted(matches, key=lambda message: message.position)[-most:] if most else []
        if not newest:
            text = "can not find message, maybe time range not correct"
            return answer(_index(0, 0.0), code=ResponseCode.QUERY_NOT_FOUND, remark=text)
        return answer(_index(newest[-1].position, newest[-1].store_timestamp), self._records(newest))

    def view(self, request: Request) -> Frame:
        """Find a message by its log position."""
        position = request.number("offset")
        message = self._core.message_at(position)
        if message is None:
            text = f"can not find message by the offset: {position}"
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=text)
        return answer(body=self._records((message,)))

    def _records(self, messages: Iterable[StoredMessage]) -> bytes:
        place, cluster = host(self._address.endpoint), self._core.cluster
        return b"".join(write_record(record(message, place, cluster)) for message in messages)

    # Parts

    def _topic(self, request: Request) -> TopicConfig:
        name = request.text("topic")
        config = self._core.topic(name)
        if config is None:
            raise RequestError(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
        return config

    def _key(self, topic: str, queue_id: int) -> dict[str, object]:
        return {"brokerName": self._core.name, "queueId": queue_id, "topic": topic}

    def _stored_at(self, topic: str, queue_id: int, offset: int) -> int:
        message = self._core.message(topic, queue_id, offset)
        return 0 if message is None else _milliseconds(message.store_timestamp)


def _index(position: int, updated: float) -> dict[str, object]:
    return {"indexLastUpdatePhyoffset": position, "indexLastUpdateTimestamp": _milliseconds(updated)}


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000 + 0.5)
