"""Brings a broker back from its data file: the last checkpoint, and the journal done again."""

from __future__ import annotations

import logging
import pickle
import sqlite3
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.edge.storage.codec import load_state, shape
from aiorocketmq_fake.edge.storage.commands import redo, unpack
from aiorocketmq_fake.edge.storage.database import FORMAT, Database
from aiorocketmq_fake.edge.storage.errors import DamagedData, ForeignData
from aiorocketmq_fake.edge.storage.journal import Journal
from aiorocketmq_fake.edge.storage.pages import Pager

__all__ = ["MakeCore", "open_data"]

logger = logging.getLogger(__name__)

MakeCore = Callable[[float], Broker]
"""Makes an empty core whose time begins at the given moment."""

# What pickle raises for bytes that are something else than expected.
UNREADABLE = (pickle.UnpicklingError, ValueError, TypeError, KeyError, AttributeError, EOFError, IndexError)
CHECKED = 256 * 1024 * 1024
"""Files up to this size are looked through as a whole when they are opened; of larger ones each part as it is read."""


def open_data(
    path: Path, make: MakeCore, now: float, *, memory: int, repair: bool = False
) -> tuple[Broker, Journal]:
    """Return the core that the file holds, or a new one, with the journal that keeps it from now on.

    `memory` bounds what written messages take in memory, in bytes. DataInUse, ForeignData, and DamagedData unless
    `repair` says to go on with what can be read; the damaged file is kept beside it then.
    """
    database = Database(path)
    pager = Pager(database.messages, memory)
    fresh = make(now)
    try:
        if database.saved() is None:
            core = fresh
        else:
            _check_origin(database, fresh)
            core = _recover(database, pager, fresh)
    except BaseException:
        database.close()
        raise
    core.keep_entries(pager.new_entries)
    core.restart(now=max(now, core.now))
    core.take_events()
    core.forget_deliveries()
    journal = Journal(database, core, pager, checkpoint=min(8 * 1024 * 1024, memory // 4))
    try:
        database.describe(_about(core))
        journal.checkpoint()
    except sqlite3.Error as error:
        database.close()
        raise OSError(f"cannot keep data in {path}: {error}.") from error
    return core, journal


def _about(core: Broker) -> Mapping[str, str]:
    return {
        "format": FORMAT,
        "shape": shape(),
        "version": version("aiorocketmq"),
        "profile": core.profile.name,
        "broker": core.name,
    }


def _check_origin(database: Database, fresh: Broker) -> None:
    """Refuse a file that this broker would read wrongly."""
    theirs, ours = database.about(), _about(fresh)
    for name in ("profile", "broker"):
        if theirs.get(name) != ours[name]:
            raise ForeignData(
                f"{database.path} was written with {name} {theirs.get(name)!r}, and this broker has {ours[name]!r}: "
                f"start with that {name}, or give another --data folder."
            )
    if (theirs.get("format"), theirs.get("shape")) != (ours["format"], ours["shape"]):
        raise ForeignData(
            f"{database.path} was written by aiorocketmq {theirs.get('version')}, whose state differs from that of "
            f"{ours['version']}: start with that version, or with --repair to keep topics, groups, messages, progress."
        )


def _recover(database: Database, pager: Pager, fresh: Broker) -> Broker:
    """Read the checkpoint and do again what came after it."""
    if database.path.stat().st_size <= CHECKED:
        database.check()
    saved = database.saved()
    assert saved is not None
    kind = type(fresh)
    classes = {f"{kind.__module__}.{kind.__qualname__}": kind}
    try:
        core: Broker = load_state(saved.state, {"pager": pager, **fresh.transient()}, classes)
    except UNREADABLE as error:
        raise DamagedData(database.path, f"its checkpoint cannot be read ({error})") from error
    done = 0
    for batch in database.journal():
        try:
            commands = unpack(batch)
            redo(core, commands)
        except UNREADABLE as error:
            raise DamagedData(database.path, f"its journal cannot be done again ({error})") from error
        done += len(commands)
    logger.info("%s: %s commands done again after the checkpoint", database.path, done)
    return core
