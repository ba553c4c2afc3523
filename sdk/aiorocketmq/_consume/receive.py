"""One poll: receives from a broker, and gives each message a lease that this client owns."""

from __future__ import annotations

import logging
from collections.abc import Coroutine

from aiorocketmq._consume.collect import Collecting
from aiorocketmq._core.codes import Code
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import RECEIVE
from aiorocketmq._session.events import Answer
from aiorocketmq._session.retrying import SHORT_POLL
from aiorocketmq._session.session import Session
from aiorocketmq.errors import (
    MalformedAnswerError,
    PermissionDeniedError,
    RocketMQError,
    ServerError,
    SessionLostError,
    UnreachableError,
    UsageError,
    refusal,
)
from aiorocketmq.hooks import Phase, ReceiveEvent
from aiorocketmq.message import ReceivedMessage, Settler
from aiorocketmq.subscription import Sql, Tags
from aiorocketmq.wire import messages as pb

logger = logging.getLogger("aiorocketmq.consumer")

MARGIN = 3.0
"""Seconds of the deadline beyond the poll, so that an answer with messages is not lost (live-lessons.md, 4)."""
_LAST_BODIES = 1.0
"""Seconds that bodies in decompression have when their poll is cancelled."""
_AUTO_LEASE = 60.0
"""The lease that servers grant if they renew it themselves."""


async def receive(
    session: Session,
    source: RouteQueue,
    wanted: FilterText,
    *,
    max_messages: int,
    poll: float,
    invisible: float | None,
    auto_renew: bool = False,
    attempt_id: str | None = None,
    settler: Settler | None = None,
    answer: list[ReceivedMessage] | None = None,
) -> list[ReceivedMessage]:
    """Receive up to `max_messages` from `source`, waiting up to `poll` seconds for the first; empty if none arrived.

    Each message is leased for `invisible` seconds and settled through `settler`. Raises server and network errors. A
    server that has lost our settings fails in odd ways, so they are sent again and the poll is repeated once
    (client-behaviour.md, 2.1). Cancelled or timed out, it may have leased messages, which are redelivered after their
    lease. Messages are added to `answer` as they arrive, for callers that need them even after a cancellation; it then
    waits at most a second for bodies in decompression."""
    one = _Poll(
        session, source, wanted, max_messages, poll, invisible, auto_renew, attempt_id, settler, answer
    )
    signed_with = session.credentials
    try:
        return await one.run()
    except (SessionLostError, ServerError) as error:
        if error.code not in (Code.UNRECOGNIZED_CLIENT_TYPE, Code.INTERNAL_SERVER_ERROR):
            raise
        await session.resync(source.endpoint)
    except PermissionDeniedError as error:
        if not await session.sign_anew(error, signed_with):
            raise
    return await one.run()


class _Poll:
    """One ReceiveMessage call and its events."""

    __slots__ = (
        "_attempt_id",
        "_auto_renew",
        "_collecting",
        "_filter",
        "_filter_text",
        "_invisible",
        "_lease_ends",
        "_max_messages",
        "_poll",
        "_request",
        "_server_us",
        "_session",
        "_settler",
        "_source",
        "_status",
    )

    def __init__(
        self,
        session: Session,
        source: RouteQueue,
        wanted: FilterText,
        max_messages: int,
        poll: float,
        invisible: float | None,
        auto_renew: bool,
        attempt_id: str | None,
        settler: Settler | None,
        answer: list[ReceivedMessage] | None,
    ) -> None:
        self._session = session
        self._collecting = Collecting(
            session,
            source.endpoint,
            source.queue.broker,
            max_messages=max_messages,
            messages=answer,
            grace=0.0 if answer is None else _LAST_BODIES,
        )
        self._source = source
        self._poll = poll
        self._invisible = invisible
        self._auto_renew = auto_renew
        self._attempt_id = attempt_id
        self._filter_text = wanted
        self._max_messages = max_messages
        self._settler = settler
        self._server_us: int | None = None
        self._status: pb.Status | None = None
        self._filter: Tags | Sql | None = None
        self._lease_ends = 0.0, 0
        """When the leases of the answer expire, by the loop's clock and in microseconds since 1970."""
        self._request = pb.ReceiveMessageRequest(
            group=session.group_resource,
            message_queue=conversion.queue_to_wire(source.queue, session.namespace),
            filter_expression=conversion.filter_to_wire(wanted),
            batch_size=max_messages,
            invisible_duration=None if invisible is None else conversion.seconds_to_wire(invisible),
            auto_renew=auto_renew,
            long_polling_timeout=conversion.seconds_to_wire(poll),
            attempt_id=attempt_id,
        )

    def run(self) -> Coroutine[object, None, list[ReceivedMessage]]:
        """Make the call, and emit its events if there are observers."""
        return self._watched() if self._session.emitter.is_watched else self._messages()

    async def _watched(self) -> list[ReceivedMessage]:
        self._filter = (
            Sql(self._filter_text.expression)
            if self._filter_text.is_sql
            else Tags(self._filter_text.expression)
        )
        operation = self._session.next_operation()
        self._emit(operation, Phase.INVOKE)
        try:
            messages = await self._messages()
        except RocketMQError as error:
            self._emit(operation, Phase.INFO if error.may_have_taken_effect else Phase.FAIL, error=error)
            raise
        except BaseException:
            self._emit(operation, Phase.INFO)
            raise
        answer = Answer(
            operation=operation,
            broker=self._source.queue.broker,
            filter=self._filter,
            is_leased=self._settler is not None,
            invisible=self._invisible,
            auto_renew=self._auto_renew,
            attempt_id=self._attempt_id,
            server_us=self._server_us,
        )
        self._session.emitter.delivered(messages, answer)
        self._emit(operation, Phase.OK, count=len(messages))
        return messages

    async def _messages(self) -> list[ReceivedMessage]:
        session, source = self._session, self._source
        topic = source.queue.topic
        messages = self._collecting.messages
        self._status = None
        deadline = max(self._poll, SHORT_POLL) + max(MARGIN, session.timeouts.request)
        try:
            await self._collecting.stream(
                RECEIVE, self._request, timeout=deadline, topic=topic, take=self._take
            )
        except (UnreachableError, MalformedAnswerError, UsageError) as error:
            if not messages:
                raise
            # What has arrived is leased to us; the rest of the answer is redelivered.
            logger.warning("a poll returned %d messages before it failed: %s", len(messages), error)
            return messages
        if messages:
            return messages
        if self._status is None:
            raise ServerError(
                f"{source.endpoint} ended a poll of topic {topic!r} without a status; look at the server's log",
                endpoint=str(source.endpoint),
                topic=topic,
                group=session.group,
            )
        refused = self._refusal(self._status)
        if refused is not None:
            raise refused
        return messages

    def _take(self, answer: pb.ReceiveMessageResponse) -> None:
        content = answer.WhichOneof("content")
        if content == "message":
            if not self._collecting.messages:
                self._begin_leases()
            self._collecting.add(answer.message, self._settler, *self._lease_ends)
        elif content == "status":
            self._status = answer.status
        elif content == "delivery_timestamp":
            self._server_us = conversion.timestamp_us(answer.delivery_timestamp)
        else:
            raise ValueError("one of its messages has no content")

    def _begin_leases(self) -> None:
        """Count from the first message of an answer: the server leases all of them before it writes the first."""
        lease = _AUTO_LEASE if self._invisible is None else self._invisible
        wall_us = int((self._session.environment.wall() + lease) * 1_000_000)
        self._lease_ends = self._session.clock.time() + lease, wall_us

    def _refusal(self, status: pb.Status) -> RocketMQError | None:
        if int(status.code) in (Code.OK, Code.MESSAGE_NOT_FOUND):
            return None
        return refusal(
            status.code,
            status.message,
            what=RECEIVE.name,
            endpoint=str(self._source.endpoint),
            topic=self._source.queue.topic,
            group=self._session.group,
            topic_known=True,
        )

    def _emit(
        self, operation: str, phase: Phase, *, error: RocketMQError | None = None, count: int = 0
    ) -> None:
        topic = self._source.queue.topic
        route = self._session.routes.cached.get(topic)
        self._session.emitter.event(
            ReceiveEvent(
                client=self._session.emitter.client,
                phase=phase,
                operation=operation,
                error=error,
                queue=self._source.queue,
                max_messages=self._max_messages,
                invisible=self._invisible,
                auto_renew=self._auto_renew,
                attempt_id=self._attempt_id,
                count=count,
                filter=self._filter,
                readable=() if route is None else route.readable_queues,
            )
        )
