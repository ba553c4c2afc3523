"""Salvages what can be read of a damaged data file."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.salvage import Salvaged
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.model import StoredMessage, TopicConfig
from aiorocketmq_fake.edge.storage.codec import UNREADABLE, load_state
from aiorocketmq_fake.edge.storage.commands import Command, in_order, redo, unpack
from aiorocketmq_fake.edge.storage.database import Database
from aiorocketmq_fake.edge.storage.errors import DamagedDataError
from aiorocketmq_fake.edge.storage.outline import Outline, read
from aiorocketmq_fake.edge.storage.pages import Pager

__all__ = ["cut", "rebuild", "set_aside"]

logger = logging.getLogger("aiorocketmq_fake.data")

NOTHING = Outline((), (), ())


def set_aside(path: Path) -> Path:
    """Copy a data file with its companions into the same folder; return the copy's name."""
    number = 1
    while (copy := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-mark"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            shutil.copy2(part, copy.with_name(copy.name + suffix))
    return copy


def cut(database: Database, pager: Pager, fresh: Broker) -> tuple[Broker, str]:
    """Read the checkpoint and the journal up to its first damage; DamagedDataError if the checkpoint is damaged."""
    database.check()
    saved = database.saved()
    if saved is None:
        raise DamagedDataError(database.path, "it has no checkpoint")
    try:
        core = load_state(saved.state, {"pager": pager, **fresh.transient()}, type(fresh))
        for topic in core.topics():
            for entries in core.entries(topic.config.name):
                for _ in entries:
                    pass
    except UNREADABLE as error:
        raise DamagedDataError(database.path, f"its checkpoint cannot be read ({error})") from error
    batches = done = 0
    try:
        for commands in in_order(database.journal(), saved.upto):
            redo(core, commands)
            batches += 1
            done += len(commands)
    except (DamagedDataError, *UNREADABLE) as error:
        lost = database.batches() - batches
        return core, f"{done} commands after the checkpoint were kept, {lost} later writes are lost ({error})"
    return core, f"all of it could be read, {done} commands after the checkpoint included"


def rebuild(database: Database, fresh: Broker) -> str:
    """Fill an empty core with the readable messages, their topics, and the progress of groups."""
    outline = _outline(database)
    topics = [*_by_outline(database, outline)] if outline.topics else [*_by_messages(database)]
    fresh.rebuild(topics, outline.groups, outline.group_positions)
    commands = [*_readable(database)]
    astray = redo(fresh, commands, strict=False)
    messages = sum(len(queue) for topic in topics for queue in topic.queues)
    return (
        f"{messages} messages, {len(topics)} topics and {len(outline.groups)} groups were kept, and "
        f"{len(commands) - astray} of {len(commands)} later commands; leases, timers and open transactions of the "
        "checkpoint are lost, and messages in flight are redelivered"
    )


def _outline(database: Database) -> Outline:
    try:
        text = database.outline()
        return NOTHING if text is None else read(text)
    except (DamagedDataError, *UNREADABLE) as error:
        logger.warning("the outline of %s cannot be read: %s", database.path, error)
        return NOTHING


def _by_outline(database: Database, outline: Outline) -> Iterator[Salvaged]:
    for topic in outline.topics:
        queues = tuple(
            tuple(message for _, message in database.salvage(number)) if number else ()
            for number in topic.queues
        )
        yield Salvaged(topic.config, topic.system, queues)


def _by_messages(database: Database) -> Iterator[Salvaged]:
    """Yield synthetic topics for messages without an outline."""
    by_topic: dict[str, dict[int, list[StoredMessage]]] = {}
    for number in database.queue_numbers():
        for _, message in database.salvage(number):
            by_topic.setdefault(message.topic, {}).setdefault(message.queue_id, []).append(message)
    for name, queues in by_topic.items():
        count = max(queues) + 1
        config = TopicConfig(name, TopicType.NORMAL, count, count)
        yield Salvaged(
            config, name.startswith("%"), tuple(tuple(queues.get(id_, ())) for id_ in range(count))
        )


def _readable(database: Database) -> Iterator[Command]:
    """Iterate over the commands of all readable batches."""
    try:
        for _, batch in database.journal(strict=False):
            try:
                yield from unpack(batch)
            except UNREADABLE as error:
                logger.warning("a batch of the journal of %s cannot be read: %s", database.path, error)
    except (DamagedDataError, sqlite3.DatabaseError) as error:
        logger.warning("the journal of %s cannot be read: %s", database.path, error)
