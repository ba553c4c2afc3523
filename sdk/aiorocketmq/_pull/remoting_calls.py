"""Pulls and offsets over the remoting protocol; remoting-protocol.md 6.4 to 6.10, live-broker-remoting.md 4 and 5."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

from aiorocketmq._aio.decompression import unpack_with_extra
from aiorocketmq._core.bounds import MAX_INT32
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.pop_members import pop_members, unclear_members
from aiorocketmq._core.remoting.batches import unwrapped
from aiorocketmq._core.remoting.bodies import check_body, parse_consumers
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.records import MalformedRecordError, Record, read_records
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.tags import matches_tags, parse_tags
from aiorocketmq._pull.interface import RETRY, Pulled, PullSettings, check_offset
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.messages import received, unpack
from aiorocketmq._remoting.replicas import goes_on
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import BusyError, OffsetNotFoundError, RefusedError, UnreachableError, UsageError
from aiorocketmq.message import MessageQueue, ReceivedMessage

Parsed = TypeVar("Parsed")

logger = logging.getLogger("aiorocketmq.pull_consumer")

HOLD_MARGIN = 10.0
"""Seconds that a pull may take beyond its wait: brokers check held pulls every 5 s."""
AT_REPLICA = 5.0
"""Maximum seconds of a pull at a replica."""

_SUSPEND, _SUBSCRIPTION = 2, 4
"""Flags of a pull: the broker may hold it; it has a filter."""


class RemotingPullCalls:
    """Pulls and offsets of one group; every pull carries its filter, so that nothing depends on the state of
    brokers."""

    def __init__(self, session: RemotingSession, settings: PullSettings) -> None:
        self._session = session
        self._group = settings.group
        self._filters = settings.filters
        self._max_messages = settings.max_messages
        self._wait = settings.wait
        self._is_handed = settings.is_push
        self._if_new = {} if settings.is_young_whole else {"setZeroIfNotFound": "false"}
        self._tags: dict[FilterText, frozenset[str]] = {}
        """The tags of each filter that occurred."""
        self._topics = settings.topics
        self._allow_pop_members = settings.allow_pop_members
        self._unclear: set[str] = set()
        """Members whose protocol is unknown, each of which is logged once."""
        self._checked: set[tuple[str, FilterText]] = set()
        """Topics with the SQL expressions that a broker has accepted."""

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`."""
        return await self._session.queues(topic)

    async def consumers(self, topic: str) -> tuple[str, ...]:
        """The client ids of the group's members, as a broker of `topic` knows them, sorted.

        Raises UsageError for members that receive messages without owning queues, unless these are allowed."""
        answer = await self._session.call_any(
            topic, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self._group}
        )
        consumers = self._parsed(parse_consumers, answer, "the members of the group")
        if not self._allow_pop_members:
            self._check_members(consumers)
        return consumers

    async def check_group(self, queue: MessageQueue) -> None:
        """Raise GroupNotFoundError if the broker of `queue` does not have the group, and creates none on demand.

        Other requests hide that: heartbeats succeed, and a group without members is a server error."""
        # An offset that no queue has, so that nothing is read.
        await self._request_pull(queue, 2**62, FilterText(), wait=0.0, timeout=self._session.timeouts.request)

    async def check_members(self) -> None:
        """Raise UsageError if the group has members that receive messages without owning queues."""
        for topic in self._topics:
            # There is no member, or members are unknown for now: the next rebalance checks again.
            with suppress(RefusedError, UnreachableError):
                await self.consumers(topic)

    def _check_members(self, consumers: Sequence[str]) -> None:
        unclear = set(unclear_members(consumers)) - self._unclear
        if unclear:
            self._unclear |= unclear
            logger.warning(
                "group %r has members of unknown protocol (%s): over gRPC, they move its offsets, too",
                self._group,
                ", ".join(sorted(unclear)),
                extra=self._session.log_fields(),
            )
        if popping := pop_members(consumers):
            raise UsageError(
                f"group {self._group!r} has members that receive messages over gRPC ({', '.join(popping[:3])}) and "
                "move the same offsets, so that messages would be skipped or read twice; use another group, or "
                "allow_pop_members=True",
                group=self._group,
            )

    async def pull(self, queue: MessageQueue, offset: int, poll_length: Callable[[float], float]) -> Pulled:
        """Read from `offset`, waiting for messages for the configured time after `poll_length`."""
        filter_ = self._filters.get(queue.topic, FilterText())
        if filter_.is_sql:
            await self._check(queue, filter_)
        # Messages reach the replica as well as the master; a short wait soon brings reading back to the master.
        wait = poll_length(min(self._wait, AT_REPLICA) if self.is_at_replica(queue) else self._wait)
        timeout = wait + max(HOLD_MARGIN, self._session.timeouts.request)
        answer = await self._request_pull(queue, offset, filter_, wait=wait, timeout=timeout)
        next_offset = self._number(answer, "nextBeginOffset", "a pull")
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and next_offset == offset:
            raise BusyError(
                f"the broker wants {queue} to be pulled again from the same offset {offset}; {BusyError.remedy}",
                topic=queue.topic,
                group=self._group,
            )
        matching = self._records(queue, answer, offset, next_offset)
        continued_at = next_offset
        if matching:
            # Messages of a static topic, and of a batch stored as one, have other offsets of their own.
            first = matching[0].queue_offset
            continued_at = first if offset < first < next_offset else offset
        is_gap = continued_at != offset and self._is_gap(answer, offset, continued_at, filter_)
        if is_gap:
            logger.warning(
                "%s has no offset %d (%s), reading continues at %d",
                queue,
                offset,
                answer.remark,
                continued_at,
                extra=self._session.log_fields(),
            )
        messages, log_offsets = await self._messages(queue, matching, filter_)
        return Pulled(messages, next_offset, continued_at if is_gap else None, log_offsets)

    def _records(self, queue: MessageQueue, answer: Frame, offset: int, next_offset: int) -> list[Record]:
        """Parse the messages of a pull, those of batches one by one; MalformedAnswerError if it makes no sense."""
        if answer.code != ResponseCode.SUCCESS:
            return []
        if next_offset <= offset or not answer.body:
            why = f"it leads from offset {offset} to {next_offset} with {len(answer.body)} bytes of messages"
            raise self._session.malformed(f"a pull from {queue}", ValueError(why))
        limit = self._session.network.max_decompressed_body
        try:
            return [
                each
                for record in read_records(answer.body)
                for each in unwrapped(record, limit, unpack_with_extra)
            ]
        except MalformedRecordError as error:
            raise self._session.malformed(f"a message of {queue}", error) from error

    def _is_gap(self, answer: Frame, offset: int, continued_at: int, wanted: FilterText) -> bool:
        """Whether reading continues elsewhere than at `offset` because the broker has nothing there.

        Messages that were filtered out are no such gap, but messages that were deleted meanwhile are: all that are
        passed over without a filter, and those below the smallest offset with one."""
        is_searched = answer.code in (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
        is_filtered = wanted.is_sql or bool(self._tags_of(wanted))
        if is_searched and is_filtered and answer.remark != "MESSAGE_WAS_REMOVING" and continued_at > offset:
            return "minOffset" in answer.fields and self._number(answer, "minOffset", "a pull") > offset
        return True

    async def _request_pull(
        self, queue: MessageQueue, offset: int, wanted: FilterText, *, wait: float, timeout: float
    ) -> Frame:
        return await self._session.read(
            queue,
            RequestCode.PULL_MESSAGE,
            {
                "consumerGroup": self._group,
                "queueOffset": str(offset),
                "maxMsgNums": str(self._max_messages),
                # A wait of 0 would be held all the same, until the broker checks held pulls.
                "sysFlag": str(_SUBSCRIPTION | (_SUSPEND if wait > 0 else 0)),
                "commitOffset": "0",
                "suspendTimeoutMillis": str(round(wait * 1000)),
                "subscription": wanted.expression,
                "subVersion": "0",
                "expressionType": "SQL92" if wanted.is_sql else "TAG",
            },
            timeout=timeout,
            accept=(
                ResponseCode.PULL_NOT_FOUND,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
                ResponseCode.PULL_OFFSET_MOVED,
            ),
            is_usable=partial(goes_on, offset=offset),
        )

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset, None if unset.

        Brokers before 5.0 return 0 instead for a young queue, and for an unknown one."""
        try:
            answer = await self._session.read(
                queue,
                RequestCode.QUERY_CONSUMER_OFFSET,
                {"consumerGroup": self._group, **self._if_new},
                # Old brokers return 0 for an unknown group as well.
                is_usable=lambda answer: answer.fields.get("offset") != "0",
            )
        except OffsetNotFoundError:
            return None
        offset = self._number(answer, "offset", "a committed offset", least=-1)
        return offset if offset >= 0 else None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's next offset; GroupNotFoundError until a member of the group has pulled (from 5.3 on)."""
        await self._session.call(
            queue,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": self._group, "commitOffset": str(offset)},
        )

    def is_at_replica(self, queue: MessageQueue) -> bool:
        """Whether `queue` is currently read from a replica, since its master is unavailable."""
        return self._session.replicas.is_away(queue.broker)

    async def resolve(self, queue: MessageQueue, offset: Offset | int | datetime) -> int:
        """The number of a symbolic offset or a time; see `PullConsumer.seek`."""
        check_offset(offset)
        if isinstance(offset, int):
            return offset
        if isinstance(offset, datetime):
            milliseconds = max(0, round(offset.timestamp() * 1000))
            fields = {"timestamp": str(milliseconds), "boundaryType": "LOWER"}
            answer = await self._session.read(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        elif offset is Offset.BEGIN:
            answer = await self._session.read(queue, RequestCode.GET_MIN_OFFSET)
        else:
            answer = await self._session.read(queue, RequestCode.GET_MAX_OFFSET)
        # Brokers have no offset of a queue that never had a message.
        return max(0, self._number(answer, "offset", "an offset", least=-1))

    async def _check(self, queue: MessageQueue, wanted: FilterText) -> None:
        """Raise IllegalFilterError for an SQL expression that the broker cannot parse: it would deliver everything."""
        if (queue.topic, wanted) not in self._checked:
            body = check_body(self._session.client_id, self._group, queue.topic, wanted)
            await self._session.read(queue, RequestCode.CHECK_CLIENT_CONFIG, body=body)
            self._checked.add((queue.topic, wanted))

    async def _messages(
        self, queue: MessageQueue, found: Sequence[Record], wanted: FilterText
    ) -> tuple[tuple[ReceivedMessage, ...], tuple[int, ...]]:
        network = self._session.network
        limit = network.max_decompressed_body
        tags = self._tags_of(wanted)
        messages: list[ReceivedMessage] = []
        log_offsets: list[int] = []
        for record in found:
            message, is_packed = received(record, queue, self._group, limit)
            # Without a filter, the tag is not parsed yet, which takes as long as all the rest.
            if tags and not matches_tags(tags, message.tag):
                continue
            if is_packed:
                await unpack(message, record, network)
            if self._is_handed:
                message.attempt = min(record.reconsume_times + 1, MAX_INT32)
                if queue.topic.startswith(RETRY):
                    message.topic = message.raw_properties.get("RETRY_TOPIC", queue.topic)
            messages.append(message)
            log_offsets.append(record.commit_log_offset)
        return tuple(messages), tuple(log_offsets)

    def _tags_of(self, wanted: FilterText) -> frozenset[str]:
        if wanted.is_sql:
            return frozenset()
        tags = self._tags.get(wanted)
        if tags is None:
            tags = self._tags[wanted] = frozenset(parse_tags(wanted.expression))
        return tags

    def _parsed(self, parse: Callable[[bytes], Parsed], answer: Frame, what: str) -> Parsed:
        try:
            return parse(answer.body)
        except ValueError as error:
            raise self._session.malformed(what, error) from error

    def _number(self, answer: Frame, name: str, what: str, *, least: int = 0) -> int:
        try:
            return answer.number(name, least=least)
        except ValueError as error:
            raise self._session.malformed(what, error) from error
