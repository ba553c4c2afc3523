"""The hook that lets a handler see each message once, although RocketMQ delivers at least once.

    async with SqliteStore("handled.db") as store:
        async with PushConsumer(rocketmq, ..., hooks=[DeduplicationHook(store)]) as consumer: ...

A store remembers what was handled: `MemoryStore` in this process, `SqliteStore` on this machine, `RedisStore` for all
machines, or any object with the four methods of `DeduplicationStore`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

import anyio

from aiorocketmq._core.outcomes import RetryLater
from aiorocketmq._deduplication.interface import Claim as Claim, DeduplicationStore as DeduplicationStore
from aiorocketmq._deduplication.memory import MemoryStore as MemoryStore
from aiorocketmq._deduplication.redis import RedisStore as RedisStore
from aiorocketmq._deduplication.sqlite import SqliteStore as SqliteStore
from aiorocketmq.hooks import HandleCall, Hook
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger(__name__)

_RELEASE_SECONDS = 3.0


def message_id_key(message: ReceivedMessage) -> str:
    """Group, topic and message id: a message is one message, however often it is stored or delivered."""
    return f"{message.group}/{message.topic}/{message.message_id}"


class DeduplicationHook(Hook):
    """Calls the handler only with messages that no handler has handled before.

    Before the handler runs the message is claimed in `store`; when it returns, the message is noted as done and
    stays so for `keep` seconds (default a week): give at least as long as a message may come again. A message that is
    done is acknowledged without the handler. One that another consumer is handling comes again after `busy_wait`
    seconds. A handler that raises gives its claim up, so that the retry is handled. A claim lasts `claim` seconds and
    is renewed while the handler runs: that long does a message wait whose consumer died at it.

    `key` says what makes two messages the same: by default the message id, which a producer's retries share. Two
    sends of one order are two messages; `key=lambda message: message.keys[0]` makes them one.

    A store that cannot be asked fails the message, and it comes again later. What no store can do: a process that
    dies between the end of the handler and the note has handled a message that will be handled once more. Where that
    matters, let the handler write to a database and note the key there, in the same transaction."""

    def __init__(
        self,
        store: DeduplicationStore,
        *,
        key: Callable[[ReceivedMessage], str] = message_id_key,
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
        self._keep = keep
        self._claim = claim
        self._busy_wait = busy_wait

    async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
        """Call the handler unless the message is done."""
        key, owner = self._key(message), secrets.token_hex(8)
        answer = await self._store.claim(key, owner, self._claim)
        if answer is Claim.DONE:
            logger.info("%r was handled before, its handler is not called", message)
            return
        if answer is Claim.HELD:
            raise RetryLater(self._busy_wait)
        try:
            async with _Renewal(self._store, key, owner, self._claim):
                await call(message)
        except BaseException:
            await self._release(key, owner)
            raise
        await self._note(message, key, owner)

    async def _note(self, message: ReceivedMessage, key: str, owner: str) -> None:
        # Shielded: the handler has done its work, and a stop of the consumer must not make it be done again.
        with anyio.CancelScope(shield=True):
            try:
                await self._store.done(key, owner, self._keep)
            except (
                Exception
            ):  # a store is foreign code, and raising here would have the message handled twice for sure
                logger.exception("%r was handled, but that could not be noted", message)

    async def _release(self, key: str, owner: str) -> None:
        with anyio.move_on_after(_RELEASE_SECONDS, shield=True):
            try:
                await self._store.release(key, owner)
            except Exception:  # what the handler raised matters more; the claim ends by itself
                logger.exception(
                    "the claim of %r could not be given up, it ends in at most %g s", key, self._claim
                )


class _Renewal:
    """Keeps a claim while its block runs; costs a timer, and a task only where the block is a long one."""

    def __init__(self, store: DeduplicationStore, key: str, owner: str, seconds: float) -> None:
        self._store = store
        self._key = key
        self._owner = owner
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._rearm()

    async def __aexit__(self, *failure: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _rearm(self) -> None:
        self._timer = self._loop.call_later(self._seconds / 3, self._due)

    def _due(self) -> None:
        self._task = self._loop.create_task(self._renew())
        self._rearm()

    async def _renew(self) -> None:
        try:
            await self._store.renew(self._key, self._owner, self._seconds)
        except Exception:  # a store is foreign code; the next renewal may succeed
            logger.exception("the claim of %r could not be renewed", self._key)
