"""The journal: every command of the core is on disk before its effect becomes visible.

Commands are queued as they happen; return wait in `durable`. One thread writes: commands queued meanwhile share one
fsync (group commit).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.edge.storage import outline
from aiorocketmq_fake.edge.storage.codec import dump_state
from aiorocketmq_fake.edge.storage.commands import Command, pack
from aiorocketmq_fake.edge.storage.database import Checkpoint, Database
from aiorocketmq_fake.edge.storage.pages import Pager

__all__ = ["Journal"]

logger = logging.getLogger("aiorocketmq_fake.data")

CHECKPOINT = 8 * 1024 * 1024
"""Bytes of journal after which a checkpoint is made; more if the state itself is larger."""
RETRY = 0.25
"""Seconds after which a write that failed is tried again."""


class Journal:
    """The commands of one core on their way to disk."""

    def __init__(
        self, database: Database, core: Broker, pager: Pager, *, checkpoint: int = CHECKPOINT
    ) -> None:
        self._database = database
        self._core = core
        self._pager = pager
        self._pending: list[Command] = []
        self._noted = 0
        self._flushed = 0
        self._bytes = 0
        self._least = self._threshold = checkpoint
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._thread = ThreadPoolExecutor(1, "aiorocketmq-fake-data")
        self._writing: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._abandoned = False
        self.repaired: str | None = None
        """What was damaged, and what of it was kept; None without damage."""
        self.flushes = 0
        """Number of fsyncs."""

    @property
    def failure(self) -> str | None:
        """The error that prevents writing at present; None without one."""
        return self._failure

    def checkpoint(self) -> None:
        """Write a checkpoint in place of all commands before; sqlite3.Error propagates."""
        checkpoint = self._checkpoint(len(self._pending))
        self._database.checkpoint(checkpoint)
        self._pending = []
        self._flushed = self._noted
        self._wrote(checkpoint)

    def flush(self) -> None:
        """Write the queued commands; sqlite3.Error propagates."""
        if self._pending:
            self._bytes += self._append(self._pending)
            self._pending = []
            self._flushed = self._noted

    def admit(self, command: str) -> None:
        """Refuse a command while the journal cannot be written."""
        if self._failure is not None and command not in _GO_ON:
            raise self._refusal()

    def note(self, command: str, arguments: tuple[Any, ...], keywords: dict[str, Any], now: float) -> None:
        """Queue a command that was just run, also a refused one. Any: each has its own arguments."""
        self._pending.append((command, arguments, keywords, now, self._core.mark()))
        self._noted += 1

    async def durable(self) -> None:
        """Return when all queued commands are on disk; Refusal if they cannot be written."""
        if self._flushed >= self._noted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._noted, future))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="journal")
        elif self._failure is not None:
            self._answer_all()
        await future

    def close(self) -> None:
        """Write a last checkpoint for the next start, and close the file."""
        if self._abandoned:
            return
        self._thread.shutdown()
        try:
            if self._noted > self._flushed or self._bytes:
                self.checkpoint()
        except sqlite3.Error as error:
            logger.error("the last checkpoint could not be written to %s: %s", self._database.path, error)
        finally:
            self._database.close()

    def abandon(self) -> None:
        """Close the file as it is, as if the process were killed now."""
        self._abandoned = True
        self._thread.shutdown()
        self._database.close()

    # Writing

    async def _write(self) -> None:
        """Write until there are no waiters. While writing fails, retry, and fail the waiters."""
        try:
            while self._waiting or self._failure is not None:
                await self._flush()
                if self._failure is not None:
                    await asyncio.sleep(RETRY)
        finally:
            self._writing = None

    async def _flush(self) -> None:
        if self._failure is not None:
            await self._in_thread(lambda _: self._database.truncate_log(), None)
        # A checkpoint captures the state after these commands: no await in between.
        batch, self._pending = self._pending, []
        upto = self._noted
        try:
            if self._bytes >= self._threshold:
                await self._checkpoint_now(len(batch))
            else:
                self._bytes += await self._in_thread(self._append, batch)
        except sqlite3.Error as error:
            # Nothing of it is on disk; it stays first in the queue.
            self._pending = batch + self._pending
            self._failed(error)
            return
        self.flushes += 1
        self._flushed = upto
        if self._failure is not None:
            logger.warning("%s can be written again", self._database.path)
            self._failure = None
        self._answer()

    def _append(self, batch: list[Command]) -> int:
        packed = pack(batch)
        self._database.append(packed, len(batch))
        return len(packed)

    async def _checkpoint_now(self, commands: int) -> None:
        checkpoint = self._checkpoint(commands)
        try:
            await self._in_thread(self._database.checkpoint, checkpoint)
        except sqlite3.Error:
            # The journal continues; the next checkpoint is attempted after as many bytes again.
            self._threshold = self._bytes + self._least
            raise
        self._wrote(checkpoint)

    def _wrote(self, checkpoint: Checkpoint) -> None:
        self._pager.wrote(checkpoint.rows, checkpoint.dead, checkpoint.floors)
        self._bytes = 0
        self._threshold = max(self._least, 2 * len(checkpoint.state))

    def _checkpoint(self, commands: int) -> Checkpoint:
        pager = self._pager
        pager.seen.clear()
        state = dump_state(self._core, {"pager": pager, **self._core.transient()})
        drawn = outline.draw(self._core)
        return Checkpoint(state, drawn, commands, pager.unwritten(), pager.dead(), pager.floors())

    async def _in_thread(self, work: Any, argument: Any) -> Any:
        """Any: arguments and results are those of the work."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, argument)

    # Answers

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for number, future in waiting:
            if number > self._flushed:
                self._waiting.append((number, future))
            elif not future.done():
                future.set_result(None)

    def _failed(self, error: sqlite3.Error) -> None:
        if self._failure is None:
            logger.error("%s cannot be written: %s", self._database.path, error)
        self._failure = str(error)
        self._answer_all()

    def _answer_all(self) -> None:
        """Fail all waiters: writing is impossible now."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(self._refusal())

    def _refusal(self) -> Refusal:
        text = f"The broker's disk cannot be written ({self._failure}); try again when there is room."
        return Refusal(Code.INTERNAL_SERVER_ERROR, text)


_GO_ON = frozenset(
    {
        "query_route",
        "get_offset",
        "query_offset",
        "query_assignment",
        "advance",
        "leap",
        "restart",
        "settings",
        "heartbeat",
        "keep_alive",
        "terminate",
        "cancel_poll",
        "end_poll",
        "release_deliveries",
        *("beat", "unregister", "close_channel", "lose_stream"),
    }
)
"""Commands allowed while the journal cannot be written: they neither store nor deliver messages."""
