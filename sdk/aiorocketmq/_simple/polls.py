"""Polls of a simple consumer: one source is polled directly, several concurrently, and the first answer is returned."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace

from aiorocketmq._consume.receive import receive
from aiorocketmq._consume.settler import LeaseSettler
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._session.session import Session
from aiorocketmq.errors import PermissionDeniedError, RocketMQError, UsageError
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger("aiorocketmq.simple_consumer")

_KEPT_PART = 0.5
"""A message that waited here for more than this part of its lease is released instead of returned."""


class Polls:
    """Polls every broker of every subscribed topic; a source is a whole broker, since servers spread over its
    queues."""

    def __init__(self, session: Session, settler: LeaseSettler) -> None:
        self._session = session
        self._settler = settler
        self._running: dict[tuple[str, str], asyncio.Task[_Arrived]] = {}
        self._refusal: RocketMQError | None = None
        """A permanent refusal of one source while another had messages: the next receive raises it."""
        self._kept: deque[tuple[ReceivedMessage, float]] = deque()
        """Messages that arrived after the receive had returned, each with the time until which it may be returned."""

    async def receive(self, *, max_messages: int, invisible: float, wait: float) -> list[ReceivedMessage]:
        """Return up to `max_messages` of the source that answers first with some."""
        self._session.check_running()
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        kept = await self._take_prefetched(max_messages)
        if kept:
            return kept
        sources = await self._sources()
        if len(sources) == 1 and not self._running:
            source, filter_ = sources[0]
            return await receive(
                self._session,
                source,
                filter_,
                max_messages=max_messages,
                poll=wait,
                invisible=invisible,
                settler=self._settler,
            )
        for source, filter_ in sources:
            key = (source.queue.topic, source.queue.broker)
            if key not in self._running:
                self._running[key] = self._session.spawn(
                    self._poll, source, filter_, max_messages, invisible, wait, name=f"poll {key}"
                )
        return await self._first(max_messages)

    async def release(self) -> None:
        """Release messages that were not returned; polls that are still parked are left to their server."""
        kept = [message for message, _ in self._kept]
        self._kept.clear()
        for poll in self._running.values():
            if poll.done() and not poll.cancelled() and poll.exception() is None:
                kept += poll.result().messages
        await self._settler.abandon_all(kept)

    async def _first(self, max_messages: int) -> list[ReceivedMessage]:
        waiting = dict(self._running)
        error: RocketMQError | None = None
        while waiting:
            done, _ = await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
            for key, task in tuple(waiting.items()):
                if task not in done:
                    continue
                del waiting[key]
                if self._running.get(key) is task:
                    del self._running[key]
                    if task.cancelled():
                        self._session.check_running()
                        continue
                    arrived = task.result()
                    self._kept.extend((message, arrived.good_until) for message in arrived.messages)
                    error = error or arrived.error
            messages = await self._take_prefetched(max_messages)
            if messages:
                if error is not None and not error.may_retry:
                    self._refusal = error
                return messages
        if error is not None:
            raise error
        return []

    async def _poll(
        self, source: RouteQueue, wanted: FilterText, max_messages: int, invisible: float, wait: float
    ) -> _Arrived:
        try:
            messages = await receive(
                self._session,
                source,
                wanted,
                max_messages=max_messages,
                poll=wait,
                invisible=invisible,
                settler=self._settler,
            )
        except RocketMQError as error:
            return _Arrived([], 0.0, error)
        return _Arrived(messages, self._session.clock.time() + invisible * _KEPT_PART, None)

    async def _take_prefetched(self, max_messages: int) -> list[ReceivedMessage]:
        messages: list[ReceivedMessage] = []
        stale: list[ReceivedMessage] = []
        now = self._session.clock.time()
        while self._kept and len(messages) < max_messages:
            message, good_until = self._kept.popleft()
            (messages if now < good_until else stale).append(message)
        if stale:
            logger.info("releasing %d prefetched messages", len(stale))
            await self._settler.abandon_all(stale)
        return messages

    async def _sources(self) -> list[tuple[RouteQueue, FilterText]]:
        session = self._session
        sources: list[tuple[RouteQueue, FilterText]] = []
        subscriptions = session.declaration.subscriptions
        if not subscriptions:
            raise UsageError("nothing is subscribed; call subscribe first", group=session.group)
        for topic, filter_ in subscriptions.items():
            route = await session.route(topic)
            if not route.readable:
                raise PermissionDeniedError(
                    f"topic {topic!r} has no readable queue; check its permission and that its brokers run",
                    endpoint=str(session.access),
                    topic=topic,
                    group=session.group,
                )
            sources.extend((_whole_broker(each), filter_) for each in route.readable_brokers)
        return sources


def _whole_broker(queue: RouteQueue) -> RouteQueue:
    return replace(queue, queue=queue.queue._replace(id=-1))


class _Arrived:
    """The messages of a poll, and until when they may be returned."""

    __slots__ = ("error", "good_until", "messages")

    def __init__(
        self, messages: list[ReceivedMessage], good_until: float, error: RocketMQError | None
    ) -> None:
        self.messages = messages
        self.good_until = good_until
        self.error = error
