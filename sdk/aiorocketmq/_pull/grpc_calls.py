"""The four calls of a pull consumer, in domain words; Apache's proxies up to 5.5 serve none of them (R10.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from aiorocketmq._consume.collect import Collecting
from aiorocketmq._consume.receive import MARGIN
from aiorocketmq._core.offset import Offset
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._pull.interface import Pulled, PullSettings, check_offset
from aiorocketmq._session.calls import GET_OFFSET, PULL, QUERY_OFFSET, UPDATE_OFFSET
from aiorocketmq._session.conversion import (
    filter_to_wire,
    microseconds_of,
    queue_to_wire,
    seconds_to_wire,
    set_microseconds,
)
from aiorocketmq._session.session import Session
from aiorocketmq._session.transport_errors import malformed_answer
from aiorocketmq.errors import (
    NotSupportedError,
    OffsetNotFoundError,
    RocketMQError,
    UnreachableError,
    UsageError,
    refusal,
)
from aiorocketmq.message import MessageQueue, ReceivedMessage
from aiorocketmq.wire import messages as pb

logger = logging.getLogger("aiorocketmq.pull_consumer")


class GrpcPullCalls:
    """Pulls and offsets of one group."""

    def __init__(self, session: Session, settings: PullSettings) -> None:
        self._session = session
        self._group = settings.group
        self._filters = settings.filters
        self._max_messages = settings.max_messages
        self._wait = settings.wait

    async def probe(self) -> None:
        """Raise NotSupportedError, with the remedy, unless the server knows the calls; any other refusal shows that it
        does.

        Made before our settings are sent: servers without pull consumers end the stream of those."""
        endpoint = self._session.network.endpoint
        request = pb.GetOffsetRequest(group=self._session.resource(self._group))
        try:
            await self._session.call_early(endpoint, GET_OFFSET, request, group=self._group)
        except NotSupportedError as error:
            raise NotSupportedError(
                f"the server at {endpoint} does not serve pull consumers (group {self._group!r}): it does not know "
                "GetOffset, as all of Apache's proxies up to 5.5; use a SimpleConsumer or PushConsumer there, or a "
                "server that serves the pull calls",
                code=error.code,
                server_text=error.server_text,
                request_id=error.request_id,
                endpoint=str(endpoint),
                group=self._group,
            ) from error
        except UnreachableError:
            raise
        except RocketMQError as error:
            logger.debug("the probe for pull calls was refused, so they are served: %s", error)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The readable queues of `topic`."""
        route = await self._session.route(topic)
        return tuple(source.queue for source in route.readable)

    async def pull(self, queue: MessageQueue, offset: int, poll_length: Callable[[float], float]) -> Pulled:
        """Read from `offset`, waiting for messages for the configured time after `poll_length`."""
        wait = poll_length(self._wait)
        source = await self._source(queue)
        request = pb.PullMessageRequest(
            group=self._session.resource(self._group),
            message_queue=queue_to_wire(queue, self._session.namespace),
            offset=offset,
            batch_size=self._max_messages,
            filter_expression=filter_to_wire(self._filters.get(queue.topic, FilterText())),
            long_polling_timeout=seconds_to_wire(wait),
        )
        collecting = Collecting(self._session, source.endpoint, queue.broker, max_messages=self._max_messages)
        next_offset: int | None = None
        status = pb.Status(code=pb.Code.OK)

        def take(answer: pb.PullMessageResponse) -> None:
            nonlocal next_offset, status
            if answer.HasField("message"):
                collecting.add(answer.message)
            elif answer.HasField("status"):
                status = answer.status
            elif answer.HasField("next_offset"):
                next_offset = answer.next_offset
            else:
                # It may have been a message, which would be skipped.
                raise malformed_answer(
                    "one of its messages has no content",
                    what=PULL.name,
                    endpoint=source.endpoint,
                    topic=queue.topic,
                    group=self._group,
                )

        await collecting.stream(
            PULL,
            request,
            timeout=wait + max(MARGIN, self._session.timeouts.request),
            topic=queue.topic,
            take=take,
        )
        if next_offset is not None:
            self._checked(next_offset, queue, source, PULL.name)
        if collecting.is_cut:
            next_offset = None  # the server's is behind what was not read
        return self._pulled(source, offset, tuple(collecting.messages), next_offset, status)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset, None if unset."""
        source = await self._source(queue)
        request = pb.GetOffsetRequest(
            group=self._session.resource(self._group),
            message_queue=queue_to_wire(queue, self._session.namespace),
        )
        try:
            answer = await self._session.call(
                source.endpoint, GET_OFFSET, request, topic=queue.topic, group=self._group
            )
        except OffsetNotFoundError:
            return None
        # The classic protocol returns -1 for "nothing committed".
        return answer.offset if answer.offset >= 0 else None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commit the group's next offset."""
        source = await self._source(queue)
        request = pb.UpdateOffsetRequest(
            group=self._session.resource(self._group),
            message_queue=queue_to_wire(queue, self._session.namespace),
            offset=offset,
        )
        await self._session.call(
            source.endpoint, UPDATE_OFFSET, request, topic=queue.topic, group=self._group
        )

    def is_at_replica(self, queue: MessageQueue) -> bool:
        """False: proxies choose whom they read from."""
        return False

    async def resolve(self, queue: MessageQueue, offset: Offset | int | datetime) -> int:
        """The number of a symbolic offset or a time."""
        check_offset(offset)
        if isinstance(offset, int):
            return offset
        source = await self._source(queue)
        request = pb.QueryOffsetRequest(message_queue=queue_to_wire(queue, self._session.namespace))
        if isinstance(offset, datetime):
            request.query_offset_policy = pb.QueryOffsetPolicy.TIMESTAMP
            set_microseconds(request.timestamp, microseconds_of(offset))
        elif offset is Offset.BEGIN:
            request.query_offset_policy = pb.QueryOffsetPolicy.BEGINNING
        else:
            request.query_offset_policy = pb.QueryOffsetPolicy.END
        answer = await self._session.call(
            source.endpoint, QUERY_OFFSET, request, topic=queue.topic, group=self._group
        )
        return self._checked(answer.offset, queue, source, QUERY_OFFSET.name)

    async def _source(self, queue: MessageQueue) -> RouteQueue:
        route = await self._session.route(queue.topic)
        for source in route.readable:
            if source.queue == queue:
                return source
        raise UsageError(
            f"topic {queue.topic!r} has no readable queue {queue.broker}/{queue.id}; see consumer.queues(topic)",
            topic=queue.topic,
            group=self._group,
        )

    def _checked(self, offset: int, queue: MessageQueue, source: RouteQueue, what: str) -> int:
        """Return a server's offset; ServerError for a negative one, from which nothing can be read."""
        if offset < 0:
            raise malformed_answer(
                f"its offset for queue {queue.broker}/{queue.id} is {offset}, which must be 0 or more",
                what=what,
                endpoint=source.endpoint,
                topic=queue.topic,
                group=self._group,
            )
        return offset

    def _pulled(
        self,
        source: RouteQueue,
        offset: int,
        messages: tuple[ReceivedMessage, ...],
        next_offset: int | None,
        status: pb.Status,
    ) -> Pulled:
        is_moved = status.code == pb.Code.ILLEGAL_OFFSET and next_offset is not None
        if is_moved:
            # Retention has passed the offset, or a seek went beyond the end: continue where the server specifies.
            logger.warning(
                "%s has no offset %d, reading continues at %d",
                source.queue,
                offset,
                next_offset,
                extra=self._session.log_fields(),
            )
        elif status.code not in (pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND):
            raise refusal(
                status.code,
                status.message,
                what=PULL.name,
                endpoint=str(source.endpoint),
                topic=source.queue.topic,
                group=self._group,
            )
        if next_offset is None:
            next_offset = messages[-1].offset + 1 if messages else offset
        return Pulled(messages, next_offset, next_offset if is_moved else None)
