"""A store in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.to_thread

from aiorocketmq._deduplication.interface import Claim
from aiorocketmq.errors import ClosedError

Result = TypeVar("Result")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS handled_until ON handled (until);
"""
# `owner` is NULL once the message is done.
_CLAIM = """
INSERT INTO handled VALUES (:key, :owner, :until) ON CONFLICT (key) DO UPDATE
SET owner = excluded.owner, until = excluded.until WHERE handled.until <= :now OR handled.owner = :owner
"""
_SWEEP_EVERY = 1000
"""Claims between two removals of expired entries."""


class SqliteStore:
    """Store in the file `path`, for all processes of this machine and across restarts.

    Open it with `async with`. Each step is a transaction on a worker thread, so the event loop never waits for the
    disk. The file must not be on a network share. `clock` gives Unix seconds and replaces the machine's."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._database: sqlite3.Connection | None = None
        # One connection, one step at a time: SQLite has one writer anyway.
        self._turn = anyio.CapacityLimiter(1)
        self._claims = 0

    async def __aenter__(self) -> Self:
        self._database = await anyio.to_thread.run_sync(self._open, limiter=self._turn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            database, self._database = self._database, None
            if database is not None:
                await anyio.to_thread.run_sync(database.close, limiter=self._turn)

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        """Grant `key` to `owner` as `DeduplicationStore.claim` does, in the file; other processes are waited for."""
        now = self._clock()
        return await self._step(partial(self._claim, key=key, owner=owner, until=now + seconds, now=now))

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        """Extend the claim of `owner` to `seconds` from now; no effect without the claim."""
        await self._change("UPDATE handled SET until = ? WHERE key = ? AND owner = ?", seconds, key, owner)

    async def done(self, key: str, owner: str, seconds: float) -> None:
        """Mark `key` as done for `seconds`; no effect without the claim of `owner`."""
        await self._change(
            "UPDATE handled SET owner = NULL, until = ? WHERE key = ? AND owner = ?", seconds, key, owner
        )

    async def release(self, key: str, owner: str) -> None:
        """Release the claim of `owner`; no effect without it."""
        await self._step(
            lambda database: database.execute("DELETE FROM handled WHERE key = ? AND owner = ?", (key, owner))
        )

    def _open(self) -> sqlite3.Connection:
        # Autocommit: every step is one statement, or begins its transaction itself.
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)
        database.execute("PRAGMA journal_mode = WAL")
        # What a loss of power may undo is handled once more; a crash of the process undoes nothing.
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_SCHEMA)
        return database

    def _claim(
        self, database: sqlite3.Connection, *, key: str, owner: str, until: float, now: float
    ) -> Claim:
        self._claims += 1
        if self._claims % _SWEEP_EVERY == 0:
            database.execute("DELETE FROM handled WHERE until <= ?", (now,))
        values = {"key": key, "owner": owner, "until": until, "now": now}
        if database.execute(_CLAIM, values).rowcount == 1:
            return Claim.GRANTED
        row = database.execute("SELECT owner FROM handled WHERE key = ?", (key,)).fetchone()
        # If it was removed between the two statements, its owner had it until now.
        return Claim.DONE if row is not None and row[0] is None else Claim.HELD

    async def _change(self, statement: str, seconds: float, key: str, owner: str) -> None:
        until = self._clock() + seconds
        await self._step(lambda database: database.execute(statement, (until, key, owner)))

    async def _step(self, step: Callable[[sqlite3.Connection], Result]) -> Result:
        database = self._database
        if database is None:
            raise ClosedError("the SqliteStore is not open; use it inside its `async with`")
        return await anyio.to_thread.run_sync(step, database, limiter=self._turn)
