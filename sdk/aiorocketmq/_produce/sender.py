"""Sends messages: chooses their queue, and retries after transient errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio.to_thread

from aiorocketmq._core.bodies import packed
from aiorocketmq._core.codes import Code
from aiorocketmq._core.retries import send_delay
from aiorocketmq._core.route import QueueChoice, Route, RouteQueue
from aiorocketmq._produce.group_locks import GroupLocks, acquired
from aiorocketmq._produce.interface import Half, SendCalls
from aiorocketmq._produce.outages import Outages
from aiorocketmq._produce.requests import BatchMember, BatchRequest, SingleRequest
from aiorocketmq._session.retrying import retried
from aiorocketmq._transport.network import process_message_ids
from aiorocketmq.config import Compression, Retry
from aiorocketmq.errors import (
    BusyError,
    MessageTooLargeError,
    PermissionDeniedError,
    QuotaExceededError,
    RefusedError,
    RocketMQError,
    TopicNotFoundError,
    TypeMismatchError,
    UnreachableError,
)
from aiorocketmq.message import Message, MessageType, SendReceipt

logger = logging.getLogger("aiorocketmq.producer")

PACKED_ASIDE = 256 * 1024
"""Bytes from which a body is compressed in a worker thread: it would block the event loop for milliseconds."""


Outcome = TypeVar("Outcome", covariant=True)


class Request(Protocol[Outcome]):
    """A request to store one message or many, over all its attempts."""

    attempts: int
    may_be_stored: bool
    """Whether an attempt is in flight, or has failed with an unknown outcome."""
    has_slot: bool
    """Whether it has one of the slots for requests in flight."""

    @property
    def message_group(self) -> str | None:
        """The message group that binds it to one queue."""

    def may_repeat(self, error: RocketMQError) -> bool:
        """Whether another attempt does no harm after `error`."""

    async def attempt(self, chosen: RouteQueue) -> Outcome:
        """Make one attempt at `chosen`."""


class Sender:
    """Performs the requests of one producer; at most `max_in_flight` are in flight at a time.

    Times named `until` are those of the event loop's clock at which the budget of a send ends."""

    def __init__(
        self, calls: SendCalls, retry: Retry, max_in_flight: int, compression: Compression | None
    ) -> None:
        self.retry = retry
        self._calls = calls
        self._client = client = calls.client
        self._compression = compression
        self._queues = QueueChoice(client.environment.random)
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._group_locks = GroupLocks()
        self._outages = Outages(retry, client.environment.random, client.log_fields, calls.routes)
        client.on_failure.append(self._outages.close)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop, looked up once: that costs a system call on Python before 3.12."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return loop

    def until(self) -> float:
        """When the budget of a send that begins now ends."""
        return self.loop.time() + self.retry.budget

    def close(self) -> None:
        """Wake waiting sends, which raise that the producer is closed."""
        self._outages.close()

    async def send(
        self,
        message: Message,
        half: Half | None = None,
        message_id: str | None = None,
        began: Callable[[SingleRequest], None] | None = None,
        until: float | None = None,
    ) -> SendReceipt:
        """Send `message`: with `half` as the half message of a transaction, with a `message_id` if it has one already.

        `began` is called before the first attempt; `until` is by default the end of the budget. Messages of one message
        group are sent one after the other."""
        until = until or self.until()
        if message.message_group is None:
            return await self._send_now(message, half, message_id, began, until)
        async with self._group_locks.of(message.topic, message.message_group, until) as has_lock:
            if not has_lock:
                raise self.kept_waiting(
                    message.topic, f"earlier sends of message group {message.message_group!r} have not ended"
                )
            return await self._send_now(message, half, message_id, began, until)

    async def _send_now(
        self,
        message: Message,
        half: Half | None,
        message_id: str | None,
        began: Callable[[SingleRequest], None] | None,
        until: float,
    ) -> SendReceipt:
        kind = message.message_type if half is None else MessageType.TRANSACTION
        route = await self.route(message.topic, until)
        packed = None if self._compression is None else await self._packed(message.body, self._compression)
        self._check(message, kind, route, packed)
        if half is not None:
            message_id = half.message_id
        sending = SingleRequest(
            self._calls, message, kind, message_id or self.next_message_id(), half, packed
        )
        if began is not None:
            began(sending)
        return await self._carry_out(sending, route, until)

    async def send_within(self, message: Message, seconds: float) -> SendReceipt:
        """Send, and give up after `seconds`, including the wait for a slot and all attempts."""
        began: list[SingleRequest] = []
        try:
            async with asyncio.timeout(seconds):
                return await self.send(message, began=began.append)
        except TimeoutError as error:
            may_be_stored = any(sending.may_be_stored for sending in began)
            raise self.gave_up(message.topic, seconds, may_be_stored) from error

    def batch(self, members: Sequence[BatchMember]) -> BatchRequest:
        """Create the request for messages of one topic and encoding."""
        return BatchRequest(self._calls, members)

    async def send_batch(self, batch: BatchRequest, until: float) -> Sequence[SendReceipt | RocketMQError]:
        """Send many in one request and return the outcome of each of `batch.members`, which are those still wanted.

        If a batch is refused because of one of its messages, they are sent in single requests, so that only that one
        fails."""
        topic = batch.members[0].message.topic
        try:
            return await self._carry_out(batch, await self.route(topic, until), until)
        except RocketMQError as error:
            if error.may_retry or error.may_have_taken_effect or not _is_about_one(error):
                return [error] * len(batch.members)
            logger.info("a batch was refused, its messages are sent one by one: %s", error)
            refused = error
        batch.may_be_stored = True  # some will be, and it is unknown which
        outcomes: list[SendReceipt | RocketMQError] = []
        for member in batch.members:
            if not member.is_wanted:
                outcomes.append(refused)
                continue
            if self.loop.time() >= until:
                why = f"its batch was refused, and no time was left to send it alone: {refused.text}"
                outcomes.append(self.kept_waiting(topic, why))
                continue
            try:
                receipt = await self.send(member.message, message_id=member.message_id, until=until)
            except RocketMQError as error:
                outcomes.append(error)
            else:
                outcomes.append(receipt)
        return outcomes

    async def _wait_for_slot(self, topic: str, until: float) -> None:
        """Acquire a slot; raises UnreachableError if none becomes free in time."""
        if not await acquired(self._slots, until):
            raise self.kept_waiting(
                topic, f"all {self._max_in_flight} slots for requests in flight are taken"
            )

    def next_message_id(self) -> str:
        """Return a new id, unique among all clients."""
        environment = self._client.environment
        return (environment.message_ids or process_message_ids()).next(environment.wall())

    async def member(self, message: Message, until: float) -> BatchMember:
        """Prepare a plain message for a batch; raises if it cannot be sent."""
        route = await self.route(message.topic, until)
        packed = None
        if self._compression is not None and self._calls.packs_batches:
            packed = await self._packed(message.body, self._compression)
        self._check(message, MessageType.NORMAL, route, packed)
        return BatchMember(message, self.next_message_id(), packed)

    def member_at_once(self, message: Message) -> BatchMember | None:
        """Do the same as `member` if nothing has to be waited for; return None otherwise."""
        self._client.check_usable()
        route = self._calls.routes.get(message.topic)
        if route is None or self._compression is not None:
            return None
        self._check(message, MessageType.NORMAL, route, None)
        return BatchMember(message, self.next_message_id())

    def has_route(self, topic: str) -> bool:
        """Whether `topic` has a cached route."""
        return topic in self._calls.routes

    async def route(self, topic: str, until: float) -> Route:
        """Return the route of `topic`; if it is not cached, look it up until the budget ends."""
        self._client.check_usable()
        route = self._calls.routes.get(topic)
        if route is not None:
            return route
        try:
            return await self._look_up(topic, until)
        except RocketMQError as error:
            error.may_have_taken_effect = False  # a look-up stores nothing
            raise

    async def _look_up(self, topic: str, until: float) -> Route:
        calls, retry, failures = self._calls, self.retry, 0
        last: RocketMQError | None = None

        def delay_after(error: RocketMQError) -> float | None:
            nonlocal failures, last
            failures += 1
            last = error
            if not error.may_retry or failures == retry.attempts:
                return None
            return self._delay(failures, error, can_switch=False, until=until)

        try:
            async with asyncio.timeout_at(until):
                route = await retried(partial(calls.route, topic), delay_after)
                await calls.declare(topic)
        except TimeoutError:
            if not calls.is_unknown(topic):
                raise last or self.kept_waiting(
                    topic, f"{self._client.access} has not answered where its queues are"
                ) from None
            # The server is available. It may report for up to 20 s that a new topic does not exist (live-lessons.md,
            # 13), for which `Timeouts.start` applies.
            route = await calls.route(topic)
            await calls.declare(topic)
        finally:
            last = None  # or error and frame would keep each other alive
        return route

    @staticmethod
    async def _packed(body: bytes, compression: Compression) -> bytes | None:
        if len(body) < compression.threshold:
            return None
        if len(body) < PACKED_ASIDE:
            return packed(body, compression.level)
        return await anyio.to_thread.run_sync(packed, body, compression.level)

    async def _carry_out(self, request: Request[Outcome], route: Route, until: float) -> Outcome:
        """Perform a request within a slot, which is released while a server is unavailable."""
        has_waited = self._slots.locked()
        if has_waited:
            await self._wait_for_slot(route.topic, until)
        else:
            await self._slots.acquire()
        request.has_slot = True
        try:
            if has_waited:
                route = await self.route(route.topic, until)
            return await self._carry_out_in_slot(request, route, until)
        finally:
            if request.has_slot:
                self._slots.release()

    async def _carry_out_in_slot(self, request: Request[Outcome], route: Route, until: float) -> Outcome:
        """The first attempt is separate, because nearly every send ends with it."""
        turn = 0
        chosen: RouteQueue | None
        if request.message_group is not None:
            chosen = self._queues.of_message_group(route, request.message_group)
        else:
            first = self._queues.first(route, self._calls.isolated)
            chosen, turn = first if first is not None else (None, 0)
        if chosen is None:
            raise PermissionDeniedError(
                f"topic {route.topic!r} has no writable queue; check its permission and that its brokers run",
                endpoint=str(self._client.access),
                topic=route.topic,
            )
        try:
            if self._outages and self.retry.attempts != 1:
                chosen = await self._available(request, route, chosen, turn, until)
            return await self._attempt(request, chosen)
        except RocketMQError as error:
            return await self._try_again(request, route, chosen, turn, until, error)

    async def _attempt(self, request: Request[Outcome], chosen: RouteQueue) -> Outcome:
        """Make one attempt at `chosen`, and record its result."""
        earlier, request.may_be_stored = request.may_be_stored, True
        try:
            outcome = await request.attempt(chosen)
        except RocketMQError as error:
            request.may_be_stored = earlier or error.may_have_taken_effect
            if error.may_retry:
                self._calls.isolated.add(chosen.endpoint)
            self._outages.failed(chosen.endpoint, error, request)
            raise
        if self._outages:
            self._outages.over(chosen.endpoint)
            self._outages.follow(chosen.queue.topic)
        if earlier and isinstance(outcome, Sequence):  # single messages of a batch may have been refused
            for each in outcome:
                if isinstance(each, RocketMQError):
                    each.may_have_taken_effect = True
        return outcome

    async def _try_again(
        self,
        request: Request[Outcome],
        route: Route,
        chosen: RouteQueue,
        turn: int,
        until: float,
        error: RocketMQError,
    ) -> Outcome:
        """Perform the retries that `_core/retries.py` decides on, after the first attempt failed with `error`."""

        async def attempt() -> Outcome:
            nonlocal chosen
            chosen = await self._available(
                request, route, self._next_queue(request, route, chosen, turn), turn, until
            )
            return await self._attempt(request, chosen)

        def delay_after(error: RocketMQError) -> float | None:
            if (
                not error.may_retry
                or not request.may_repeat(error)
                or request.attempts == self.retry.attempts
            ):
                return None
            if not request.has_slot:  # the budget ended in an outage
                return None
            if chosen.endpoint in self._outages:  # the outage's schedule decides
                return 0.0 if self.loop.time() < until else None
            return self._delay(
                request.attempts, error, can_switch=self._can_switch(request, route, chosen), until=until
            )

        try:
            return await retried(attempt, delay_after, failed=error)
        except RocketMQError as last:
            if request.may_be_stored:  # by an earlier attempt
                last.may_have_taken_effect = True
            raise

    def _delay(self, failures: int, error: RocketMQError, *, can_switch: bool, until: float) -> float | None:
        return send_delay(
            attempt=failures,
            throttled=isinstance(error, BusyError),
            can_switch=can_switch,
            initial=self.retry.initial,
            maximum=self.retry.maximum,
            remaining=until - self.loop.time(),
            server=self._calls.settings.backoff,
            random=self._client.environment.random,
        )

    async def _available(
        self, request: Request[Outcome], route: Route, chosen: RouteQueue, turn: int, until: float
    ) -> RouteQueue:
        """Return `chosen`, or another queue, once its server may be tried; UnreachableError after the budget."""
        outages, topic = self._outages, route.topic
        while chosen.endpoint in outages:
            other = self._next_queue(request, route, chosen, turn)
            if other.endpoint not in outages:
                return other
            self._client.check_usable()
            outages.follow(topic)
            if chosen.endpoint not in outages:
                continue
            # Waiting needs no slot: sends to other servers may use it.
            request.has_slot = False
            self._slots.release()
            try:
                is_probe = await outages.turn(chosen.endpoint, until)
            except TimeoutError:
                raise UnreachableError(
                    f"{request} for topic {topic!r} was not stored within {self.retry.budget:g} s (Retry.budget), "
                    f"because {outages.reason(chosen.endpoint)}",
                    may_have_taken_effect=request.may_be_stored,
                    endpoint=str(chosen.endpoint),
                    topic=topic,
                ) from None
            self._client.check_usable()
            await self._wait_for_slot(topic, until)
            request.has_slot = True
            if is_probe:
                return chosen
            if chosen not in self._calls.routes.get(topic, route).queues:
                chosen = self._next_queue(request, route, chosen, turn)
        return chosen

    def _next_queue(
        self, request: Request[Outcome], route: Route, chosen: RouteQueue, turn: int
    ) -> RouteQueue:
        """Return the queue of the next attempt: that of its message group, or the next broker's, if it can be
        reached."""
        route = self._calls.routes.get(route.topic, route)
        if request.message_group is not None:
            if chosen in route.queues:
                return chosen
            return self._queues.of_message_group(route, request.message_group) or chosen
        candidates = self._queues.candidates(route, turn, self._calls.isolated)
        if not candidates:
            return chosen
        following = candidates[request.attempts % len(candidates)]
        if following.endpoint in self._outages:
            return next((each for each in candidates if each.endpoint not in self._outages), following)
        return following

    def _can_switch(self, request: Request[Outcome], route: Route, chosen: RouteQueue) -> bool:
        return request.message_group is None and any(
            each.endpoint != chosen.endpoint and each.endpoint not in self._calls.isolated
            for each in route.writable
        )

    def gave_up(self, topic: str, seconds: float, may_be_stored: bool) -> UnreachableError:
        """The error of a send whose `timeout` has expired."""
        return UnreachableError(
            f"a message for topic {topic!r} was not stored within the {seconds:g} s that it was given; "
            "allow more time, or send less at a time",
            timed_out=True,
            may_have_taken_effect=may_be_stored,
            topic=topic,
        )

    def kept_waiting(self, topic: str, why: str) -> UnreachableError:
        """The error of a send without an attempt, because its budget ended before."""
        return UnreachableError(
            f"a message for topic {topic!r} was not sent within {self.retry.budget:g} s (Retry.budget), because {why}; "
            "check that its brokers run, or send less at a time",
            timed_out=True,
            topic=topic,
        )

    def _check(self, message: Message, kind: MessageType, route: Route, packed: bytes | None) -> None:
        """Raise for a message that the server would refuse by its settings."""
        settings = self._calls.settings
        size = len(message.body if packed is None else packed)
        if size > settings.max_body:
            raise MessageTooLargeError(
                f"the body of {size} bytes for topic {message.topic!r} is over the server's limit of "
                f"{settings.max_body} bytes; send less, or raise the server's limit",
                code=Code.MESSAGE_BODY_TOO_LARGE,
                topic=message.topic,
            )
        accepts = route.accepts
        if accepts and settings.validate_message_type and kind.value not in accepts:
            raise TypeMismatchError(
                f"topic {message.topic!r} takes {' or '.join(sorted(accepts))} messages, not {kind.value}; "
                "send to a topic of the right type",
                code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                endpoint=str(self._client.access),
                topic=message.topic,
            )


def _is_about_one(error: RocketMQError) -> bool:
    """Whether a batch may have been refused for one of its messages, as opposed to its topic or its sender."""
    return isinstance(error, RefusedError) and not isinstance(
        error, TopicNotFoundError | PermissionDeniedError | QuotaExceededError
    )
