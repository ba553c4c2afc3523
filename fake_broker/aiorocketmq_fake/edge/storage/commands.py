"""The journal's unit: one command of the core with its time, serialized and replayed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.edge.storage.codec import dump, load
from aiorocketmq_fake.edge.storage.errors import DamagedDataError

__all__ = ["Command", "Mark", "in_order", "pack", "redo", "unpack"]

logger = logging.getLogger("aiorocketmq_fake.data")

Mark = tuple[int, int, int]
# Any: each command of the core has its own arguments.
Command = tuple[str, tuple[Any, ...], Mapping[str, Any], float, Mark]
"""Name, arguments, keywords, time, and the core's mark afterwards."""


def pack(commands: list[Command]) -> bytes:
    """Write a batch of commands."""
    return dump(commands)


def unpack(batch: bytes) -> list[Command]:
    """Read a batch of commands; one of UNREADABLE if it is malformed."""
    commands: list[Command] = load(batch)
    return commands


def in_order(batches: Iterable[tuple[int, bytes]], upto: int) -> Iterator[list[Command]]:
    """Read batches, each with its count of all commands up to it, that must continue after the first `upto` commands.

    ValueError if they do not: they belong to another checkpoint.
    """
    for count, batch in batches:
        commands = unpack(batch)
        upto += len(commands)
        if count != upto:
            raise ValueError(f"command {upto} comes where command {count} should")
        yield commands


def redo(core: Broker, commands: Iterable[Command], *, strict: bool = True) -> int:
    """Replay commands, each at its time; return how many had another effect than the first time.

    `strict` raises ValueError at the first of them. Outputs and events are dropped: they were delivered before.
    """
    astray = 0
    for name, arguments, keywords, now, mark in commands:
        try:
            getattr(core, name)(*arguments, now=now, **keywords)
        except Refusal:
            pass
        except DamagedDataError:
            raise
        except Exception:
            # A command with an internal error failed the first time, too; the mark shows it otherwise.
            logger.exception("replay of %s failed", name)
        core.take_events()
        core.take_outputs()
        if core.mark() != mark:
            if strict:
                raise ValueError(f"replay of {name} at {now:.3f} had another effect")
            astray += 1
    return astray
