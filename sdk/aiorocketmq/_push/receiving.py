"""Receives messages: queries assignments, and keeps one poll in flight per assigned queue while there is room."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.scheduler import Job
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._consume.receive import receive
from aiorocketmq._core.assignment import assignment_change
from aiorocketmq._core.pauses import poll_length, scan_pause
from aiorocketmq._core.receive_cache import ReceiveCache
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._push.assignments import assignments
from aiorocketmq._session.retrying import REFUSED, SHORT_POLL, Tolerance, retried, tried_until
from aiorocketmq._session.session import Session
from aiorocketmq._transport.network import loop_time
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import AssignEvent, Grain
from aiorocketmq.message import MessageQueue, ReceivedMessage, Settler

logger = logging.getLogger("aiorocketmq.push_consumer")

MOST_POLLS = 4
"""Concurrent polls of one queue with many messages: fewer wake-ups for each message. Never in ordered groups."""
LAST_ANSWERS = 1.0
"""Seconds that answers in progress have to arrive at a stop."""

Arrived: TypeAlias = Callable[[MessageQueue, Sequence[ReceivedMessage]], None]


class Receiving:
    """The polls of one push consumer.

    An idle queue has one parked poll and nothing else (client-behaviour.md 10.3, 10.4)."""

    def __init__(
        self,
        session: Session,
        *,
        filters: Mapping[str, FilterText],
        cache: ReceiveCache[MessageQueue],
        invisible: float,
        settler: Settler,
        arrived: Arrived,
        rng: random.Random,
    ) -> None:
        self._session = session
        self._filters = filters
        self._cache = cache
        self._invisible = invisible
        self._settler = settler
        self._arrived = arrived
        self._rng = rng
        self._assigned: dict[MessageQueue, RouteQueue] = {}
        self._polls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._scans: dict[str, Job] = {}
        self._room: dict[MessageQueue, Signal] = {}
        self._helping = session.watch("receiving much, side by side")
        self._helpers: dict[asyncio.Task[None], MessageQueue] = {}
        """Further polls of a queue in addition to the first."""
        self._answers: dict[asyncio.Task[object], list[ReceivedMessage]] = {}
        """The messages that each poll in flight has received so far."""
        self.paused: set[str] = set()
        """Topics that are paused."""
        self._generation = 0
        self._topics: set[str] = set()
        """The topics that are received; answers about others are outdated."""

    async def start(self, until: float) -> None:
        """Receive the first assignment of every topic, retried until `until` (the loop's time) after transient errors.

        Raises the server's refusal."""
        self._topics.update(self._filters)
        for topic in self._filters:
            await tried_until(until, partial(self._scan, topic), random=self._rng)
        for topic in self._filters:
            self._keep_scanning(topic)

    async def subscribe(self, topic: str) -> None:
        """Receive a topic that was added to the filters; raises the server's refusal."""
        self._topics.add(topic)
        await self._scan(topic)
        if topic not in self._scans:
            self._keep_scanning(topic)

    def unsubscribe(self, topic: str) -> None:
        """Drop a topic: its queries and its polls are cancelled."""
        self._topics.discard(topic)
        self.paused.discard(topic)
        scan = self._scans.pop(topic, None)
        if scan is not None:
            scan.end()
        dropped = [queue for queue in self._assigned if queue.topic == topic]
        for queue in dropped:
            del self._assigned[queue]
            self._cache.close(queue)
            del self._room[queue]
            for poll in (self._polls.pop(queue, None), *self._helpers_of(queue)):
                if poll is not None:
                    poll.cancel()
        self._announce(dropped)

    def pause(self, topics: Collection[str]) -> None:
        """Start no poll for `topics` until resume(); waiting polls are cancelled, as by a stop."""
        self.paused |= set(topics)
        self._cancel(lambda queue: queue.topic in self.paused)

    def resume(self, topics: Collection[str]) -> None:
        """Poll `topics` again."""
        self.paused -= set(topics)
        for queue in self._assigned:
            if queue.topic in topics:
                self._start_poll(queue)

    def _keep_scanning(self, topic: str) -> None:
        unchanged = 0

        async def scan() -> float:
            nonlocal unchanged
            try:
                unchanged = 0 if await self._scan(topic) else unchanged + 1
            except REFUSED as error:
                self._session.fail(error)
                raise
            return scan_pause(unchanged)

        self._scans[topic] = self._session.every(
            scan_pause(0), scan, name=f"the query for assignments of topic {topic!r}"
        )

    def stop(self) -> None:
        """Start no further poll; cancel those that wait, but let those complete whose answer is arriving.

        On 5.5, a poll that is cancelled while it waits leases no messages (what it would have returned is redelivered
        after 3 to 5 s); older servers may lease such messages for the whole duration (live-lessons.md 4)."""
        self._assigned.clear()
        self._topics.clear()
        for scan in self._scans.values():
            scan.end()
        self._cancel(lambda queue: True)

    def _cancel(self, is_meant: Callable[[MessageQueue], bool]) -> None:
        """Cancel the polls of some queues, except for those whose answer is arriving."""
        for queue, poll in (*self._polls.items(), *((queue, poll) for poll, queue in self._helpers.items())):
            if is_meant(queue) and not self._answers.get(poll):
                poll.cancel()

    async def ended(self) -> None:
        """Wait until the last poll has completed, for at most a second; what arrives meanwhile is delivered."""
        polls = (*self._polls.values(), *self._helpers)
        if polls:
            _, late = await asyncio.wait(polls, timeout=LAST_ANSWERS)
            for poll in late:
                poll.cancel()
            if late:
                await asyncio.wait(late)

    def room_made(self, queue: MessageQueue) -> None:
        """Wake the poll that waits for room in its share of the cache."""
        event = self._room.get(queue)
        if event is not None:
            event.set()

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """What is assigned now."""
        return tuple(self._assigned)

    @property
    def polls(self) -> int:
        """Polls in flight, until their answer has been processed."""
        return len(self._answers)

    async def _scan(self, topic: str) -> bool:
        answer = {source.queue: source for source in await assignments(self._session, topic)}
        if topic not in self._topics:
            return False
        held = [queue for queue in self._assigned if queue.topic == topic]
        change = assignment_change(held, list(answer))
        if held and not answer:
            logger.warning("the server assigns nothing of topic %r any more, receiving stops", topic)
        self._assigned.update(answer)
        for queue in change.dropped:
            del self._assigned[queue]
            self._cache.close(queue)
        for queue in change.added:
            self._cache.open(queue)
            self._start_poll(queue)
        if change.added or change.dropped:
            self._announce(change.dropped)
            return True
        return False

    def _start_poll(self, queue: MessageQueue) -> None:
        self._room.setdefault(queue, Signal())
        running = self._polls.get(queue)
        # A poll that is still in flight when its queue is dropped continues for a queue that is assigned again.
        if running is None or running.done() or running.cancelling():
            self._polls[queue] = self._session.supervise(
                self._poll_forever, queue, name=f"receiving from {queue.topic}/{queue.broker}/{queue.id}"
            )

    def _is_polled(self, queue: MessageQueue) -> RouteQueue | None:
        return None if queue.topic in self.paused else self._assigned.get(queue)

    async def _poll_forever(self, watch: Watch, queue: MessageQueue) -> None:
        tolerance = Tolerance(self._session, watch)
        attempt_id = self._new_attempt()
        while self._is_polled(queue) is not None:
            room = self._cache.room(queue, self._session.settings.receive_batch)
            if room < 1:
                await self._wait_for_room(queue)
                continue
            try:
                messages = await retried(
                    partial(self._poll, tolerance, queue, room, attempt_id), tolerance.delay_after
                )
            except RocketMQError as error:
                self._session.fail(error)
                break
            if messages is None:
                continue  # the loop's condition decides whether to continue
            tolerance.worked()
            if messages:
                # Kept while nothing arrives: an ordered group gets the batch of a lost answer again by it (10.3).
                attempt_id = self._new_attempt()
                self._arrived(queue, messages)
                if len(messages) >= room and not self._session.in_order:
                    self._help(queue)
            # A message without a lease is not handled.
            await tolerance.rest(brings=any(message._lease for message in messages))
        self._polls.pop(queue, None)
        if queue not in self._assigned:
            self._room.pop(queue, None)

    def _new_attempt(self) -> str:
        """Return a new attempt id, by which a server recognises a receive that is repeated."""
        return f"{self._rng.getrandbits(128):032x}"

    async def _poll(
        self, tolerance: Tolerance, queue: MessageQueue, room: int, attempt_id: str
    ) -> Sequence[ReceivedMessage] | None:
        """Poll once; None if the queue is not polled any more."""
        source = self._is_polled(queue)  # it may have been dropped, or have moved, since the last attempt
        if source is None:
            return None
        length = tolerance.poll_length(self._session.settings.long_polling)
        return await self._receive(source, room, attempt_id, length)

    def _help(self, queue: MessageQueue) -> None:
        """Start further polls of a queue with many messages, so that the next request does not wait for the end of an
        answer."""
        if len(self._helpers_of(queue)) < MOST_POLLS - 1 and self._cache.room(queue, 1):
            task = self._session.supervise(
                self._poll_while_much, queue, name=self._helping.name, watch=self._helping
            )
            self._helpers[task] = queue
            task.add_done_callback(self._helpers.pop)

    def _helpers_of(self, queue: MessageQueue) -> list[asyncio.Task[None]]:
        return [poll for poll, other in self._helpers.items() if other == queue]

    async def _poll_while_much(self, watch: Watch, queue: MessageQueue) -> None:
        room = came = 0
        while came == room and (source := self._is_polled(queue)) is not None:
            room = self._cache.room(queue, self._session.settings.receive_batch)
            if room < 1:
                return
            try:
                messages = await self._receive(source, room, self._new_attempt(), SHORT_POLL)
            except RocketMQError as error:  # the first poll of the queue gets it as well, and handles it
                logger.debug("one of several polls of %s failed: %s", queue, error)
                return
            watch.worked()
            came = len(messages)
            if messages:
                self._arrived(queue, messages)

    async def _receive(
        self, source: RouteQueue, room: int, attempt_id: str, longest: float
    ) -> Sequence[ReceivedMessage]:
        poll = asyncio.current_task()
        assert poll is not None  # a coroutine runs in a task
        answer = self._answers[poll] = []
        self._cache.ask(source.queue, room)
        try:
            return await receive(
                self._session,
                source,
                self._filters[source.queue.topic],
                max_messages=room,
                poll=poll_length(longest, now=loop_time()),
                invisible=self._invisible,
                attempt_id=attempt_id,
                settler=self._settler,
                answer=answer,
            )
        except asyncio.CancelledError:
            if answer:  # their leases run already
                self._arrived(source.queue, answer)
            raise
        finally:
            self._cache.answered(source.queue, room)
            # What was requested and did not arrive is room for another poll of the queue.
            self.room_made(source.queue)
            del self._answers[poll]

    async def _wait_for_room(self, queue: MessageQueue) -> None:
        event = self._room[queue]
        event.clear()
        await event.wait()

    def _announce(self, revoked: Sequence[MessageQueue]) -> None:
        """Emit a new assignment, and wake polls that wait for room: each queue's share has changed."""
        for event in self._room.values():
            event.set()
        self._generation += 1
        queues = self.queues
        logger.info(
            "assigned queues: %s", ", ".join(f"{q.topic}/{q.broker}/{q.id}" for q in queues) or "none"
        )
        if self._session.emitter.is_watched:
            self._session.emitter.event(
                AssignEvent(
                    client=self._session.emitter.client,
                    queues=queues,
                    generation=self._generation,
                    revoked=tuple(revoked),
                    grain=Grain.MESSAGE,
                )
            )
