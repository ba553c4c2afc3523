"""Pulls and offsets (6.6 to 6.9)."""

from __future__ import annotations

from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.values.codes import Code, FilterType, OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.model import FilterExpression, OffsetQuery, Parked, Pulled, PullRequest
from aiorocketmq_fake.core.values.snapshots import QueueSnapshot
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.groups import SQL
from aiorocketmq_fake.edge.remoting.messages import record
from aiorocketmq_fake.edge.remoting.records import host, write_record
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, RequestError, ResponseCode

__all__ = ["Reading"]

_COMMIT, _SUSPEND, _INLINE = 1, 2, 4
"""Bits of a pull: store the offset it carries; it may be held; its filter is in the request."""
_NO_OFFSET = (Code.OFFSET_NOT_FOUND, Code.TOPIC_NOT_FOUND, Code.BAD_REQUEST)
"""Refusals of an offset query that mean that there is none."""
_EVERYTHING = FilterExpression()
_NO_QUEUE = QueueSnapshot(0, 0, None)


class Reading:
    """The requests of consumers about one queue."""

    def __init__(self, driver: Driver, address: Address) -> None:
        self._driver = driver
        self._core = driver.core
        self._address = address

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code, except for pulls, which may wait."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.committed,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.commit,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_at,
            RequestCode.GET_MAX_OFFSET: lambda request: answer({"offset": self._queue(request).max_offset}),
            RequestCode.GET_MIN_OFFSET: lambda request: answer({"offset": self._queue(request).min_offset}),
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest,
        }

    # Pulls

    async def pull(self, request: Request) -> Frame:
        """Read from an offset; at the end of the queue, wait as long as the request allows."""
        flags = request.number("sysFlag", bits=32)
        wait = request.number("suspendTimeoutMillis", 0) / 1000 if flags & _SUSPEND else None
        pull = PullRequest(
            client_id=request.peer.client_id or request.peer.address,
            group=request.text("consumerGroup"),
            topic=request.text("topic"),
            queue_id=request.number("queueId", bits=32),
            offset=request.number("queueOffset"),
            filter=self._filter(request, flags),
            batch_size=max(request.number("maxMsgNums", bits=32), 1),
            polling=wait,
            classic=True,
        )
        commit = max(request.number("commitOffset", 0), 0) if flags & _COMMIT else None
        result = self._driver.run(self._core.pull_classic, pull, commit=commit)
        if isinstance(result, Parked):
            # With a manual clock the answer would never come.
            real_timeout = wait if self._driver.clock.is_manual else None
            waited = await self._driver.poll(result.poll_id, real_timeout)
            assert isinstance(waited, Pulled)
            result = waited
        return self._pulled(pull, result)

    def _filter(self, request: Request, flags: int) -> FilterExpression:
        """Return the filter of the request, or the one that the group's heartbeats declare."""
        if flags & _INLINE:
            fields = request.frame.fields
            kind = fields.get("expressionType") or "TAG"
            if kind not in ("TAG", SQL):
                return _EVERYTHING
            expression = FilterExpression(
                fields.get("subscription") or "*", FilterType.SQL if kind == SQL else FilterType.TAG
            )
        else:
            expression = self._declared(request)
        if expression.type is FilterType.SQL:
            try:
                parse(expression, self._core.profile)
            except Refusal:
                # An expression that cannot be compiled filters nothing (live 4).
                return _EVERYTHING
        return expression

    def _declared(self, request: Request) -> FilterExpression:
        group, topic = request.text("consumerGroup"), request.text("topic")
        subscription = self._core.subscription(group, topic)
        if subscription is None:
            is_known = self._core.members(group) is not None
            text = (
                f"the consumer's subscription not exist: {topic}"
                if is_known
                else f"group info not exist: {group}"
            )
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if subscription.version < request.number("subVersion", 0):
            raise RequestError(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        return FilterExpression(subscription.expression, subscription.type)

    def _pulled(self, pull: PullRequest, found: Pulled) -> Frame:
        queue = self._core.queue(pull.topic, pull.queue_id) or _NO_QUEUE
        code, status = _status(pull, found, queue)
        fields = {
            "suggestWhichBrokerId": 0,
            "nextBeginOffset": found.next_offset,
            "minOffset": queue.min_offset,
            "maxOffset": queue.max_offset,
            "topicSysFlag": 0,
            "groupSysFlag": 0,
        }
        store_host, cluster = host(self._address.endpoint), self._core.cluster
        body = b"".join(write_record(record(message, store_host, cluster)) for message in found.messages)
        return answer(fields, body, code, status)

    # Offsets

    def committed(self, request: Request) -> Frame:
        """Return a group's offset; a new group of a young queue starts at its beginning (live 5)."""
        group, topic = request.text("consumerGroup"), request.text("topic")
        queue_id = request.number("queueId", bits=32)
        try:
            return answer({"offset": self._driver.run(self._core.get_offset, group, topic, queue_id)})
        except Refusal as refused:
            if refused.code not in _NO_OFFSET:
                raise
            queue = self._core.queue(topic, queue_id)
            is_young = queue is not None and queue.min_offset == 0 and queue.max_offset > 0
            if (
                is_young
                and refused.code is Code.OFFSET_NOT_FOUND
                and request.truth("setZeroIfNotFound", True)
            ):
                return answer({"offset": 0})
            text = "Not found, maybe this group consumer boot first"
            return answer(code=ResponseCode.QUERY_NOT_FOUND, remark=text)

    def commit(self, request: Request) -> Frame:
        """Store a group's offset; any number is accepted, a negative one counts as 0 (live 5)."""
        group, topic = request.text("consumerGroup"), request.text("topic")
        if not self._core.has_group(group):
            text = f"Group {group} not exist!"
            return answer(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=text)
        if "commitOffset" not in request.frame.fields:
            return answer(code=ResponseCode.INVALID_PARAMETER, remark="the commitOffset is missing")
        queue_id, offset = request.number("queueId", bits=32), max(request.number("commitOffset"), 0)
        if self._core.topic(topic) is not None and self._core.queue(topic, queue_id) is None:
            return answer()
        if not self._driver.run(self._core.commit_classic, group, topic, queue_id, offset):
            return answer(remark="Offset has been previously reset")
        return answer()

    def offset_at(self, request: Request) -> Frame:
        """Return the first offset stored at a time or later, or with UPPER the last one stored until then."""
        topic, queue_id = request.text("topic"), request.number("queueId", bits=32)
        timestamp = request.number("timestamp")
        is_upper = request.frame.fields.get("boundaryType", "").upper() == "UPPER"
        queue = self._queue(request)
        if queue is _NO_QUEUE:
            return answer({"offset": 0})
        since = (timestamp + is_upper) / 1000
        query = OffsetQuery(topic, queue_id, OffsetPolicy.TIMESTAMP, since)
        offset = self._driver.run(self._core.query_offset, query) - is_upper
        return answer({"offset": max(offset, queue.min_offset)})

    def earliest(self, request: Request) -> Frame:
        """Return when the oldest message of a queue was stored; -1 without one."""
        stored = self._queue(request).earliest
        return answer({"timestamp": -1 if stored is None else int(stored * 1000 + 0.5)})

    def _queue(self, request: Request) -> QueueSnapshot:
        """Return a queue; unknown ones count as empty."""
        queue_id = request.number("queueId", bits=32)
        return self._core.queue(request.text("topic"), queue_id) or _NO_QUEUE


def _status(pull: PullRequest, found: Pulled, queue: QueueSnapshot) -> tuple[ResponseCode, str]:
    if found.code is Code.OK:
        return ResponseCode.SUCCESS, "FOUND"
    is_empty = queue.max_offset == 0
    if found.code is Code.ILLEGAL_OFFSET:
        if found.message == "OFFSET_RESET":
            return ResponseCode.PULL_OFFSET_MOVED, found.message
        if pull.offset < queue.min_offset:
            return ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"
        status = "NO_MESSAGE_IN_QUEUE" if is_empty else "OFFSET_OVERFLOW_BADLY"
        return ResponseCode.PULL_OFFSET_MOVED, status
    if found.next_offset > pull.offset:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"
    return ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE" if is_empty else "OFFSET_OVERFLOW_ONE"
