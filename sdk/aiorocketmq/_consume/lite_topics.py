"""Lite topics of one consumer, synchronised periodically with every server of their parent topic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TypeAlias

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.names import check_lite_topic
from aiorocketmq._core.offset import Offset
from aiorocketmq._session.calls import SYNC_LITE
from aiorocketmq._session.conversion import microseconds_of
from aiorocketmq._session.session import Session
from aiorocketmq.errors import QuotaExceededError, RocketMQError, UsageError
from aiorocketmq.hooks import LiteChange, LiteSyncEvent, Phase
from aiorocketmq.wire import messages as pb

logger = logging.getLogger("aiorocketmq.consumer")

PERIOD = 30.0
"""Seconds between two full lists: servers forget one after some minutes (client-behaviour.md, 1.3 and 13)."""

LiteFrom: TypeAlias = Offset | int | datetime
"""The oldest message, messages stored from now on, an offset, or the first message stored at or after a time."""

_ACTIONS: Mapping[LiteChange, pb.LiteSubscriptionAction.ValueType] = MappingProxyType(
    {
        LiteChange.ADD: pb.LiteSubscriptionAction.PARTIAL_ADD,
        LiteChange.REMOVE: pb.LiteSubscriptionAction.PARTIAL_REMOVE,
        LiteChange.ALL: pb.LiteSubscriptionAction.COMPLETE_ADD,
    }
)


class LiteTopics:
    """The lite topics of one client; changes are made one after the other."""

    def __init__(self, session: Session, parent: str, names: Iterable[str]) -> None:
        if isinstance(names, str):  # it would be one lite topic for each letter
            raise TypeError(f"lite_topics must be a list of lite topics; write [{names!r}]")
        self._session = session
        self._parent = parent
        # A dict keeps the order of subscription.
        self._names = dict.fromkeys(names)
        for name in self._names:
            check_lite_topic(name)
        self._version = 0
        self._changing = asyncio.Lock()

    @property
    def names(self) -> frozenset[str]:
        """What is wanted now."""
        return frozenset(self._names)

    async def begin(self) -> None:
        """Send the first list to the servers, and then periodically; raises the refusal of any of them."""
        self._check_quota(len(self._names))
        if self._names:
            await self._sync(LiteChange.ALL, tuple(self._names))
        else:
            self._emit(Phase.SINGLE, LiteChange.ALL)
        self._session.every(PERIOD, self._repeat, name="lite topics")

    async def add(self, names: Collection[str], start: LiteFrom | None) -> None:
        """Add lite topics; raises the server's refusal, and adds none of them then."""
        for name in names:
            check_lite_topic(name, longest=self._session.settings.lite_topic_limit)
        async with self._changing:
            fresh = [name for name in dict.fromkeys(names) if name not in self._names]
            self._check_quota(len(self._names) + len(fresh))
            if fresh:
                await self._sync(LiteChange.ADD, fresh, start)
                self._names.update(dict.fromkeys(fresh))

    async def remove(self, names: Collection[str]) -> None:
        """Remove lite topics; raises UsageError for one that is not subscribed."""
        async with self._changing:
            for name in names:
                if name not in self._names:
                    raise UsageError(f"lite topic {name!r} is not subscribed", topic=self._parent)
            await self._sync(LiteChange.REMOVE, names)
            for name in names:
                self._names.pop(name, None)

    def revoked_by_server(self, name: str) -> None:
        """Remove a lite topic that the server has assigned to another consumer."""
        if name in self._names:
            del self._names[name]
            self._emit(Phase.SINGLE, LiteChange.TAKEN, (name,))
            logger.warning("the server revoked lite topic %r of %r", name, self._parent)

    async def _repeat(self) -> None:
        async with self._changing:
            if not self._names:
                return
            await self._sync(LiteChange.ALL, tuple(self._names))

    def _check_quota(self, count: int) -> None:
        quota = self._session.settings.lite_quota
        if quota and count > quota:
            raise QuotaExceededError(
                f"{count} lite topics are more than the {quota} that the server allows a client; unsubscribe some",
                topic=self._parent,
                group=self._session.group,
            )

    async def _sync(self, change: LiteChange, names: Collection[str], start: LiteFrom | None = None) -> None:
        """Send a change to all servers, and emit its outcome."""
        session = self._session
        self._version += 1
        request = pb.SyncLiteSubscriptionRequest(
            action=_ACTIONS[change],
            topic=session.resource(self._parent),
            group=session.group_resource,
            lite_topic_set=names,
            version=self._version,
        )
        if start is not None:
            _fill_start(request.offset_option, start)
        operation = session.next_operation() if session.emitter.is_watched else None
        reached: list[Endpoint] = []
        self._emit(Phase.INVOKE, change, names, operation)
        try:
            await self._call_all(request, reached)
        except RocketMQError as error:
            is_unknown = bool(reached) or error.may_have_taken_effect
            self._emit(Phase.INFO if is_unknown else Phase.FAIL, change, names, operation, error)
            raise
        except BaseException:
            self._emit(Phase.INFO, change, names, operation)
            raise
        self._emit(Phase.OK, change, names, operation)

    async def _call_all(self, request: pb.SyncLiteSubscriptionRequest, reached: list[Endpoint]) -> None:
        """Send the request to every server of the parent, as each keeps lists of its own (client-behaviour.md, 13).

        Servers that have executed it are added to `reached`."""
        session = self._session
        for endpoint in (await session.route(self._parent)).endpoints:
            await session.call(endpoint, SYNC_LITE, request, topic=self._parent, group=session.group)
            reached.append(endpoint)

    def _emit(
        self,
        phase: Phase,
        change: LiteChange,
        names: Iterable[str] = (),
        operation: str | None = None,
        error: RocketMQError | None = None,
    ) -> None:
        if self._session.emitter.is_watched:
            self._session.emitter.event(
                LiteSyncEvent(
                    client=self._session.emitter.client,
                    phase=phase,
                    operation=operation,
                    error=error,
                    topic=self._parent,
                    change=change,
                    lite_topics=tuple(names),
                )
            )


def _fill_start(option: pb.OffsetOption, start: LiteFrom) -> None:
    if isinstance(start, Offset):
        option.policy = pb.OffsetOption.Policy.MIN if start is Offset.BEGIN else pb.OffsetOption.Policy.MAX
    elif isinstance(start, datetime):
        if start.tzinfo is None:
            raise ValueError("start must be a datetime with a time zone")
        # A time before 1970 means the beginning; servers give some negative numbers meanings of their own.
        option.timestamp = max(microseconds_of(start) // 1000, 0)
    elif start < 0:
        raise ValueError(f"start must be an offset from 0, not {start!r}")
    else:
        option.offset = start
