"""Sends messages: finds their queue, and tries again where that can help."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import anyio.to_thread

from aiorocketmq._core.bodies import packed
from aiorocketmq._core.codes import Code
from aiorocketmq._core.retries import send_delay
from aiorocketmq._core.route import QueueChoice, Route, RouteQueue
from aiorocketmq._produce.batch_sending import BatchSending, Parcel
from aiorocketmq._produce.sending import Half, Sending
from aiorocketmq._produce.turns import Turns
from aiorocketmq._retrying import retried
from aiorocketmq._session import Session
from aiorocketmq.config import Compression, SendRetry
from aiorocketmq.connection import loop_time, process_message_ids
from aiorocketmq.errors import (
    Busy,
    MessageTooLarge,
    PermissionDenied,
    QuotaExceeded,
    Refused,
    RocketMQError,
    TopicNotFound,
    TypeMismatch,
    Unreachable,
)
from aiorocketmq.message import Message, MessageType, SendReceipt

logger = logging.getLogger(__name__)

PACKED_ASIDE = 256 * 1024
"""Bytes from which a body is compressed in a worker thread: it would hold up the event loop for milliseconds."""


Outcome = TypeVar("Outcome", covariant=True)


class OnItsWay(Protocol[Outcome]):
    """A request to store one message or many, over all its tries."""

    attempts: int

    @property
    def message_group(self) -> str | None:
        """What binds it to one queue."""

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another try does no harm after `error`."""

    async def attempt(self, chosen: RouteQueue) -> Outcome:
        """Try once at `chosen`."""


class Sender:
    """The way of every request of one producer; at most `max_in_flight` are under way at a time."""

    def __init__(
        self, session: Session, retry: SendRetry, max_in_flight: int, compression: Compression | None
    ) -> None:
        self._session = session
        self._retry = retry
        self._compression = compression
        self._queues = QueueChoice(session.surroundings.random)
        self._places = asyncio.Semaphore(max_in_flight)
        self._turns = Turns()

    async def send(
        self,
        message: Message,
        half: Half | None = None,
        message_id: str | None = None,
        began: Callable[[Sending], None] | None = None,
    ) -> SendReceipt:
        """Send `message`: with `half` as the half message of a transaction, with a `message_id` that it has already.

        `began` is told when the message is about to travel. Messages of one message group go one after the other."""
        if message.message_group is None:
            return await self._send_now(message, half, message_id, began)
        async with self._turns.of(message.topic, message.message_group):
            return await self._send_now(message, half, message_id, began)

    async def _send_now(
        self,
        message: Message,
        half: Half | None,
        message_id: str | None,
        began: Callable[[Sending], None] | None,
    ) -> SendReceipt:
        kind = message.message_type if half is None else MessageType.TRANSACTION
        await self._places.acquire()
        try:
            route = await self._route(message.topic)
            packed = (
                None if self._compression is None else await self._packed(message.body, self._compression)
            )
            self._check(message, kind, route, packed)
            if half is not None:
                message_id = half.message_id
            sending = Sending(
                self._session, message, kind, message_id or self.next_message_id(), half, packed
            )
            if began is not None:
                began(sending)
            return await self._carry_out(sending, route)
        finally:
            self._places.release()

    async def send_within(self, message: Message, seconds: float) -> SendReceipt:
        """Send, and give up after `seconds`, waiting for a place and all tries included."""
        began: list[Sending] = []
        try:
            async with asyncio.timeout(seconds):
                return await self.send(message, began=began.append)
        except TimeoutError as error:
            raise gave_up(message, seconds, may_have_taken_effect=bool(began)) from error

    async def send_batch(self, parcels: Sequence[Parcel]) -> Sequence[SendReceipt | RocketMQError]:
        """Send many in one request and tell what became of each.

        A batch that is refused for what one of them is goes in single requests, so that only that one fails."""
        try:
            async with self._places:
                route = await self._session.route(parcels[0].message.topic)
                return await self._carry_out(BatchSending(self._session, parcels), route)
        except RocketMQError as error:
            if error.may_retry or error.may_have_taken_effect or not _is_about_one(error):
                return [error] * len(parcels)
            logger.info("a batch was refused, its messages go one by one: %s", error)
        outcomes: list[SendReceipt | RocketMQError] = []
        for parcel in parcels:
            try:
                outcomes.append(await self.send(parcel.message, message_id=parcel.message_id))
            except RocketMQError as error:
                outcomes.append(error)
        return outcomes

    def next_message_id(self) -> str:
        """A fresh id, unique among all clients."""
        return process_message_ids().next(self._session.surroundings.wall())

    async def parcel(self, message: Message) -> Parcel:
        """A plain message, made ready to travel in a batch; raises what forbids it to travel at all."""
        route = await self._route(message.topic)
        packed = None if self._compression is None else await self._packed(message.body, self._compression)
        self._check(message, MessageType.NORMAL, route, packed)
        return Parcel(message, self.next_message_id(), packed)

    def parcel_at_once(self, message: Message) -> Parcel | None:
        """What `parcel` gives, where nothing has to be waited for; None otherwise."""
        session = self._session
        session.check_usable()
        route = session.routes.cached.get(message.topic)
        if route is None or self._compression is not None:
            return None
        self._check(message, MessageType.NORMAL, route, None)
        return Parcel(message, self.next_message_id())

    async def _route(self, topic: str) -> Route:
        session = self._session
        session.check_usable()
        route = session.routes.cached.get(topic)
        if route is None:
            route = await session.route(topic)
            await self._declare(topic)
        return route

    @staticmethod
    async def _packed(body: bytes, compression: Compression) -> bytes | None:
        if len(body) < compression.threshold:
            return None
        if len(body) < PACKED_ASIDE:
            return packed(body, compression.level)
        return await anyio.to_thread.run_sync(packed, body, compression.level)

    async def _carry_out(self, way: OnItsWay[Outcome], route: Route) -> Outcome:
        """The first try stands by itself, because nearly every send ends with it."""
        # Only asked where it matters: the loop's clock costs a syscall on Python before 3.12.
        begun = 0.0 if self._retry.total is None else loop_time()
        turn = 0
        chosen: RouteQueue | None
        if way.message_group is not None:
            chosen = self._queues.of_message_group(route, way.message_group)
        else:
            first = self._queues.first(route, self._session.isolated)
            chosen, turn = first if first is not None else (None, 0)
        if chosen is None:
            raise PermissionDenied(
                f"topic {route.topic!r} has no writable queue; check its permission and that its brokers run",
                endpoint=str(self._session.access),
                topic=route.topic,
            )
        try:
            return await way.attempt(chosen)
        except RocketMQError as error:
            return await self._try_again(way, route, chosen, turn, begun, error)

    async def _try_again(
        self,
        way: OnItsWay[Outcome],
        route: Route,
        chosen: RouteQueue,
        turn: int,
        begun: float,
        error: RocketMQError,
    ) -> Outcome:
        """Carry out the retries that `_core/retries.py` decides on, after the first try has failed with `error`."""
        session = self._session
        failed: RocketMQError | None = error
        until = None if self._retry.total is None else begun + self._retry.total

        async def attempt() -> Outcome:
            nonlocal chosen, failed
            if failed is not None:
                earlier, failed = failed, None
                raise earlier
            if way.message_group is None:
                candidates = self._queues.candidates(route, turn, self._retry.attempts, session.isolated)
                chosen = candidates[way.attempts % len(candidates)]
            return await way.attempt(chosen)

        def delay_after(error: RocketMQError) -> float | None:
            if error.may_retry:
                session.isolated.add(chosen.endpoint)
            delay = send_delay(
                attempt=way.attempts,
                may_retry=error.may_retry and way.may_repeat(error),
                throttled=isinstance(error, Busy),
                unreachable=isinstance(error, Unreachable),
                backoff=replace(session.settings.backoff, max_attempts=self._retry.attempts),
                random=session.surroundings.random,
            )
            if delay is None or (until is not None and loop_time() + delay >= until):
                return None
            logger.info(
                "send %d of %s failed, trying again: %s", way.attempts, way, error, extra=session.log_facts()
            )
            return delay

        return await retried(attempt, delay_after)

    def _check(self, message: Message, kind: MessageType, route: Route, packed: bytes | None) -> None:
        """Refuse what the server's settings say it would refuse, before it travels."""
        settings = self._session.settings
        size = len(message.body if packed is None else packed)
        if size > settings.max_body:
            raise MessageTooLarge(
                f"the body of {size} bytes for topic {message.topic!r} is over the server's limit of "
                f"{settings.max_body} bytes; send less, or raise the server's limit",
                code=Code.MESSAGE_BODY_TOO_LARGE,
                topic=message.topic,
            )
        accepts = route.accepts
        if accepts and settings.validate_message_type and kind.value not in accepts:
            raise TypeMismatch(
                f"topic {message.topic!r} takes {' or '.join(sorted(accepts))} messages, not {kind.value}; "
                "send to a topic of the right type",
                code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                endpoint=str(self._session.access),
                topic=message.topic,
            )

    async def _declare(self, topic: str) -> None:
        """Tell the servers of a topic that was not declared, because they look producers up by topic."""
        declaration = self._session.declaration
        if topic not in declaration.topics:
            self._session.declaration = replace(declaration, topics=(*declaration.topics, topic))
            await self._session.write_settings()


def _is_about_one(error: RocketMQError) -> bool:
    """Whether a batch may have been refused for one of its messages, as opposed to its topic or its sender."""
    return isinstance(error, Refused) and not isinstance(
        error, TopicNotFound | PermissionDenied | QuotaExceeded
    )


def gave_up(message: Message, seconds: float, *, may_have_taken_effect: bool) -> Unreachable:
    """The error of a send whose own time is over."""
    return Unreachable(
        f"a message for topic {message.topic!r} was not stored within the {seconds:g} s that it was given; "
        "allow more time, or send less at a time",
        timed_out=True,
        may_have_taken_effect=may_have_taken_effect,
        topic=message.topic,
    )
