"""A push consumer over the remoting protocol: it owns queues, pulls, and commits offsets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from aiorocketmq._core.offset import Offset
from aiorocketmq._core.settings import FilterText
from aiorocketmq._pull.interface import RETRY, Broadcast, PullSettings
from aiorocketmq._pull.wires import remoting
from aiorocketmq._push.interface import Parts
from aiorocketmq._push.queue_consumption import QueueConsumption
from aiorocketmq._session.retrying import retried
from aiorocketmq._transport.network import loop_time
from aiorocketmq.allocation import Allocation
from aiorocketmq.errors import GroupNotFoundError, RocketMQError, TopicNotFoundError

ROUTE_APPEARS = 5.0
"""Seconds that name servers have to know the retry topic of a group that brokers have just created."""
_LOOK_EVERY = 0.05
MAX_MESSAGES, WAIT = 32, 15.0
"""Messages and seconds of one pull, as in Java's clients."""


class RemotingPush:
    """A member of a group that shares queues."""

    lite = None

    def __init__(
        self,
        parts: Parts,
        *,
        start: Offset | datetime | None,
        allocation: Allocation,
        ordered: bool,
        broadcast: Broadcast | None,
        allow_pop_members: bool,
    ) -> None:
        self._group = parts.group
        self._retry = None if broadcast is not None else f"{RETRY}{parts.group}"
        settings = PullSettings(
            parts.group,
            tuple(parts.filters),
            parts.filters,
            Offset.END if start is None else start,
            MAX_MESSAGES,
            WAIT,
            broadcast,
            is_young_whole=start is None,
            is_push=True,
            allow_pop_members=allow_pop_members,
        )
        self._session, calls = remoting(parts.endpoint, settings, hooks=parts.hooks, options=parts.options)
        self.client = self._session
        self._make = partial(
            QueueConsumption, parts, self._session, calls, settings, allocation=allocation, ordered=ordered
        )

    async def begin(self, until: float) -> QueueConsumption:
        """Join the group, and read the queues that are assigned to this member."""
        session = self._session
        await session.start()
        try:
            if self._retry is not None:
                await self._find_retries(self._retry, min(until, loop_time() + ROUTE_APPEARS))
            running = self._make()
            await running.start()
        except BaseException:
            await session.stop()
            raise
        return running

    async def _find_retries(self, topic: str, until: float) -> None:
        """Share the group's retry topic, which brokers create when they accept the group's first heartbeat."""

        def delay_after(error: RocketMQError) -> float | None:
            return _LOOK_EVERY if isinstance(error, TopicNotFoundError) and loop_time() < until else None

        try:
            await retried(partial(self._session.add_topic, topic), delay_after)
        except TopicNotFoundError as error:
            raise GroupNotFoundError(
                f"consumer group {self._group!r} has no retry topic, so that brokers have not taken it in; "
                f"{GroupNotFoundError.remedy}",
                endpoint=error.endpoint,
                group=self._group,
            ) from error

    async def check(self, topic: str) -> None:
        """Do nothing: attempts of dead letters are not counted here before a handler has failed."""

    async def declare(self, filters: Mapping[str, FilterText]) -> None:
        """Look the topics up; brokers get the subscriptions with the next heartbeat."""
        for topic in filters:
            await self._session.route(topic)
