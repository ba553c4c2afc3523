"""Hook that calls handlers once per message, although RocketMQ delivers at least once.

    async with SqliteStore("handled.db") as store:
        async with PushConsumer(rocketmq, ..., hooks=[DeduplicationHook(store)]) as consumer: ...

A store remembers which messages were handled: `MemoryStore` in this process, `SqliteStore` on this machine,
`RedisStore` for all machines, or any object with the four methods of `DeduplicationStore`."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import secrets
from collections.abc import Callable
from functools import partial

from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._core.outcomes import RetryLater
from aiorocketmq._deduplication.interface import Claim as Claim, DeduplicationStore as DeduplicationStore
from aiorocketmq._deduplication.memory import MemoryStore as MemoryStore
from aiorocketmq._deduplication.redis import RedisStore as RedisStore
from aiorocketmq._deduplication.sqlite import SqliteStore as SqliteStore
from aiorocketmq.hooks import HandleCall, Hook
from aiorocketmq.message import ReceivedMessage

__all__ = [
    "Claim",
    "DeduplicationHook",
    "DeduplicationStore",
    "MemoryStore",
    "RedisStore",
    "SqliteStore",
    "message_id_key",
]


logger = logging.getLogger("aiorocketmq.deduplication")

_LAST_SECONDS = 3.0
"""Seconds for the store to release a claim, or to record a handled message, once the handler's task is cancelled."""


def message_id_key(message: ReceivedMessage) -> str:
    """The message id: a message is one message, however often it is stored or delivered."""
    return message.message_id


class DeduplicationHook(Hook):
    """Hook that calls the handler only with messages that no handler has handled before.

    Before the handler runs, the message is claimed in `store`; when it returns, the message is recorded as done for
    `keep` seconds (default a week): choose at least the time in which a message may be redelivered. A message that is
    done is acknowledged without calling the handler. One that another consumer is handling is redelivered after
    `busy_wait` seconds. If a handler raises, its claim is released, so that the retry is handled. A claim lasts `claim`
    seconds and is renewed while the handler runs: if a consumer dies, its messages wait that long.

    `key` returns what identifies equal messages of a topic: by default the message id, which a producer's retries
    share. Two sends of one order are two messages; `key=lambda message: message.keys[0]` makes them one. Messages of
    another namespace, topic or consumer group are always different, whatever their key; with `across_groups=True` all
    groups of a topic share its keys, so that one of all groups handles a message.

    If the store fails, the message fails, and is redelivered later. A process that dies between the end of the handler
    and the record has handled a message that will be handled once more. If that matters, let the handler write to a
    database and store the key there, in the same transaction."""

    def __init__(
        self,
        store: DeduplicationStore,
        *,
        key: Callable[[ReceivedMessage], str] = message_id_key,
        across_groups: bool = False,
        keep: float = 7 * 86_400.0,
        claim: float = 60.0,
        busy_wait: float = 10.0,
    ) -> None:
        for name, value in (("keep", keep), ("claim", claim)):
            if not value > 0:
                raise ValueError(f"{name} must be seconds above 0, not {value!r}")
        if not busy_wait >= 0:
            raise ValueError(f"busy_wait must be seconds from 0, not {busy_wait!r}")
        self._store = store
        self._key = key
        self._across_groups = across_groups
        self._keep = keep
        self._claim = claim
        self._busy_wait = busy_wait

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        """Call the handler unless the message is done.

        Cancelled, the claim of a handler that has not returned is released; a message whose handler has returned is
        recorded as done before the cancellation is raised."""
        key, owner = self._stored_key(message), secrets.token_hex(8)
        answer = await self._store.claim(key, owner, self._claim)
        if answer is Claim.DONE:
            logger.info("%r was handled before, its handler is not called", message)
            return
        if answer is Claim.HELD:
            raise RetryLater(self._busy_wait)
        renewal = _Renewal(self._store, key, owner, self._claim)
        renewal.start()
        try:
            await call(message)
        except BaseException:
            await uninterrupted(self._release(renewal, key, owner))
            raise
        limit = Limit(math.inf)
        # The handler has done its work, and a stop of the consumer must not cause it to be repeated.
        await uninterrupted(
            self._record(renewal, message, key, owner, limit), hurry=partial(limit.shorten, _LAST_SECONDS)
        )

    def _stored_key(self, message: ReceivedMessage) -> str:
        """Return the key with its scope; JSON, so that no two scopes and keys give the same text."""
        scope = [message.namespace, message.topic]
        if not self._across_groups:
            scope.append(message.group or "")
        return json.dumps([*scope, self._key(message)])

    async def _record(
        self, renewal: _Renewal, message: ReceivedMessage, key: str, owner: str, limit: Limit
    ) -> None:
        await renewal.end()
        try:
            async with limit:
                await self._store.done(key, owner, self._keep)
        except (
            Exception
        ):  # of the store's code; raising here would certainly cause the message to be handled twice
            logger.exception("%r was handled, but that could not be recorded", message)
        if limit.is_exceeded:
            logger.error("%r was handled, but that could not be recorded within %g s", message, _LAST_SECONDS)

    async def _release(self, renewal: _Renewal, key: str, owner: str) -> None:
        await renewal.end()
        async with Limit(_LAST_SECONDS):
            try:
                await self._store.release(key, owner)
            except Exception:  # the handler's exception matters more; the claim expires
                logger.exception(
                    "the claim of %r could not be released, it expires in at most %g s", key, self._claim
                )


class _Renewal:
    """Renews a claim from `start` to `end`; costs a timer, and one task for a long handler."""

    def __init__(self, store: DeduplicationStore, key: str, owner: str, seconds: float) -> None:
        self._store = store
        self._key = key
        self._owner = owner
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Renew the claim each third of its duration from now on."""
        self._timer = self._loop.call_later(self._seconds / 3, self._begin)

    async def end(self) -> None:
        """End the renewals, also one in progress; must not be cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._keep_renewing(), name="renew a claim")

    async def _keep_renewing(self) -> None:
        third = self._seconds / 3
        due = self._loop.time()
        while True:
            try:
                # One at a time: if the store does not answer, the next renewal is tried when it is due.
                async with asyncio.timeout(third):
                    await self._store.renew(self._key, self._owner, self._seconds)
            except Exception:  # of the store's code; the next renewal may succeed
                logger.exception("the claim of %r could not be renewed", self._key)
            due += third
            await asyncio.sleep(due - self._loop.time())
