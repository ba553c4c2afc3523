"""Recovers a broker from its data file: the last checkpoint, and a replay of the journal."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.edge.storage.codec import UNREADABLE, load_state, shape
from aiorocketmq_fake.edge.storage.commands import in_order, redo
from aiorocketmq_fake.edge.storage.database import FORMAT, Database
from aiorocketmq_fake.edge.storage.errors import (
    DamagedDataError,
    ForeignDataError,
    IncompatibleStateError,
)
from aiorocketmq_fake.edge.storage.journal import Journal
from aiorocketmq_fake.edge.storage.pages import Pager
from aiorocketmq_fake.edge.storage.repair import cut, rebuild, set_aside

__all__ = ["MakeCore", "open_data"]

logger = logging.getLogger("aiorocketmq_fake.data")

MakeCore = Callable[[float], Broker]
"""Makes an empty core that starts at the given time."""

CHECKED = 256 * 1024 * 1024
"""Files up to this size are checked entirely when they are opened; larger ones in parts as they are read."""


def open_data(
    path: Path, make: MakeCore, now: float, *, memory: int, repair: bool = False
) -> tuple[Broker, Journal]:
    """Return the core of the file, or a new one, with its journal.

    `memory` bounds the bytes of written messages in memory. Raises DataInUseError, ForeignDataError, and without
    `repair` DamagedDataError; `repair` keeps what can be read, and a copy of the damaged file.
    """
    try:
        return _begin(_read(path, make, now, memory), now, memory)
    except (DamagedDataError, IncompatibleStateError) as damage:
        if not repair:
            raise
        return _repair(path, make, now, memory, damage)


@dataclass(frozen=True, slots=True)
class _Found:
    """A core with its open file."""

    core: Broker
    pager: Pager
    database: Database
    repaired: str | None = None


def _read(path: Path, make: MakeCore, now: float, memory: int) -> _Found:
    database = Database(path)
    try:
        pager = Pager(database.messages, memory)
        core = make(now)
        is_empty = database.is_empty()
        if not is_empty:
            _check_origin(database, core)
        database.check_complete()
        if not is_empty:
            core = _recover(database, pager, core)
        return _Found(core, pager, database)
    except BaseException:
        database.close()
        raise


def _begin(found: _Found, now: float, memory: int) -> tuple[Broker, Journal]:
    """Continue with a recovered core, and write its first checkpoint."""
    core, pager, database = found.core, found.pager, found.database
    core.set_entries_factory(pager.new_entries)
    core.restart(now=max(now, core.now))
    core.take_events()
    core.clear_deliveries()
    journal = Journal(database, core, pager, checkpoint=min(8 * 1024 * 1024, memory // 4))
    journal.repaired = found.repaired
    try:
        database.describe(_about(core))
        journal.checkpoint()
    except sqlite3.DatabaseError as error:
        database.close()
        raise database.failure(error) from error
    except BaseException:
        database.close()
        raise
    return core, journal


def _repair(
    path: Path, make: MakeCore, now: float, memory: int, damage: DamagedDataError | IncompatibleStateError
) -> tuple[Broker, Journal]:
    """Continue with what can be read; in the worst case nothing."""
    copy = set_aside(path)

    def begin(found: _Found) -> tuple[Broker, Journal]:
        report = f"{damage} Repaired: {found.repaired}. The damaged file is kept as {copy}."
        begun = _begin(replace(found, repaired=report), now, memory)
        logger.warning("the data folder was damaged: %s", report)
        return begun

    if isinstance(damage, DamagedDataError):
        with suppress(DamagedDataError, IncompatibleStateError):
            return begin(_cut(path, make, now, memory))
    return begin(_rebuild(path, copy, make, now, memory))


def _cut(path: Path, make: MakeCore, now: float, memory: int) -> _Found:
    """Keep the file without the damaged end of its journal; DamagedDataError if more is damaged."""
    database = Database(path)
    try:
        pager = Pager(database.messages, memory)
        fresh = make(now)
        _check_origin(database, fresh)
        core, kept = cut(database, pager, fresh)
    except BaseException:
        database.close()
        raise
    return _Found(core, pager, database, kept)


def _rebuild(path: Path, copy: Path, make: MakeCore, now: float, memory: int) -> _Found:
    """Start a new file with what can be read of the copy."""
    for suffix in ("", "-wal", "-shm", "-mark"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    database = Database(path)
    pager = Pager(database.messages, memory)
    core = make(now)
    core.set_entries_factory(pager.new_entries)
    try:
        old = Database(copy)
    except DamagedDataError:
        return _Found(core, pager, database, "nothing of it could be read")
    try:
        kept = rebuild(old, core)
    finally:
        old.close()
    return _Found(core, pager, database, kept)


def _about(core: Broker) -> Mapping[str, str]:
    return {
        "format": FORMAT,
        "shape": shape(),
        "version": version("aiorocketmq"),
        "profile": core.profile.name,
        "broker": core.name,
    }


def _check_origin(database: Database, fresh: Broker) -> None:
    """Refuse a file that this broker would misread."""
    theirs, ours = database.about(), _about(fresh)
    if not theirs:
        raise DamagedDataError(database.path, "it has no description of its writer")
    for name in ("profile", "broker"):
        if theirs.get(name) != ours[name]:
            raise ForeignDataError(
                f"{database.path} was written with {name} {theirs.get(name)!r}, and this broker has {ours[name]!r}: "
                f"start with that {name}, or give another --data folder."
            )
    if theirs.get("shape") != ours["shape"]:
        raise IncompatibleStateError(
            f"{database.path} was written by aiorocketmq {theirs.get('version')}, whose state differs from that of "
            f"{ours['version']}: start with that version, or with --repair to keep topics, groups, messages, progress."
        )


def _recover(database: Database, pager: Pager, fresh: Broker) -> Broker:
    """Read the checkpoint and replay the journal after it."""
    is_small = database.path.stat().st_size <= CHECKED
    if is_small:
        database.check()
    saved = database.saved()
    if saved is None:
        raise DamagedDataError(database.path, "it has no checkpoint")
    try:
        core = load_state(saved.state, {"pager": pager, **fresh.transient()}, type(fresh))
    except UNREADABLE as error:
        raise DamagedDataError(database.path, f"its checkpoint cannot be read ({error})") from error
    if is_small:
        for number, first, until in pager.on_disk():
            database.check_messages(number, first, until)
    done = 0
    try:
        for commands in in_order(database.journal(), saved.upto):
            redo(core, commands)
            done += len(commands)
    except UNREADABLE as error:
        raise DamagedDataError(database.path, f"its journal cannot be replayed ({error})") from error
    logger.info("replayed %s commands after the checkpoint of %s", done, database.path)
    return core
