"""Runs a command of `aiorocketmq fake ctl`: connects, does the work, prints the result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.core.commands.access import User

__all__ = ["Connection", "on_broker", "other_side"]


@dataclass(frozen=True, slots=True)
class Connection:
    """Options of `fake ctl` itself."""

    control: str
    """The control endpoint."""
    as_json: bool
    broker: str | None = None
    """The broker of a cluster to control; None for all."""
    user: User | None = None
    """The administrator who signs, if the broker has users."""


def on_broker(
    connection: Connection, work: Callable[[FakeBrokerClient], Coroutine[Any, Any, object]]
) -> None:
    """Do `work` on the broker and print its result; expected errors are one sentence."""
    import asyncio

    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.core.values.codes import Refusal
    from aiorocketmq_fake.printing import show

    async def connected() -> object:
        async with FakeBrokerClient(
            connection.control, broker=connection.broker, user=connection.user
        ) as broker:
            return await work(broker)

    try:
        show(asyncio.run(connected()), as_json=connection.as_json)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong
    except (ConnectionError, Refusal) as failed:
        raise other_side(str(failed)) from failed


def other_side(sentence: str) -> click.ClickException:
    """Return the error for an endpoint that cannot be reached or is no control service."""
    return _OtherSide(sentence)


class _OtherSide(click.ClickException):
    exit_code = 4
