"""Options of every `fake ctl` command, and its calls of a running fake broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.core.commands.access import User

__all__ = ["Connection", "connected", "on_broker", "other_side"]

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Connection:
    """Options that all commands have."""

    control: str
    """The control endpoint."""
    as_json: bool
    broker: str | None = None
    """The broker of a cluster to control; None for all."""
    user: User | None = None
    """The administrator who signs, if the broker has users."""


def connected(function: Command) -> Command:
    """Add the options of `Connection`; the command gets it as its first parameter."""

    # Any: click passes the options by name.
    def with_connection(
        *,
        control: str,
        as_json: bool,
        broker: str | None,
        access_key: str | None,
        secret_key: str | None,
        **values: Any,
    ) -> object:
        return function(Connection(control, as_json, broker, _user(access_key, secret_key)), **values)

    command = update_wrapper(with_connection, function)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]  # it takes other keywords than the function, as decorators of click do


_OPTIONS = (
    click.option(
        "--control",
        default="127.0.0.1:8082",
        show_default=True,
        envvar="AIOROCKETMQ_FAKE_CONTROL",
        show_envvar=True,
        metavar="HOST:PORT",
        help="The control endpoint that `fake serve` printed.",
    ),
    click.option("--broker", metavar="NAME", help="In a cluster: only this broker, such as broker-b."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    click.option(
        "--access-key",
        envvar="AIOROCKETMQ_ACCESS_KEY",
        show_envvar=True,
        help="If the broker has users: the access key of an administrator.",
    ),
    click.option(
        "--secret-key",
        envvar="AIOROCKETMQ_SECRET_KEY",
        show_envvar=True,
        help="Better set by the variable: arguments are visible to all users of the machine.",
    ),
)


def _user(access_key: str | None, secret_key: str | None) -> User | None:
    if (access_key is None) != (secret_key is None):
        raise click.UsageError("give --access-key and --secret-key together, or neither")
    if access_key is None or secret_key is None:
        return None
    from aiorocketmq_fake.core.commands.access import User

    try:
        return User(access_key, secret_key)
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong


def on_broker(
    connection: Connection,
    work: Callable[[FakeBrokerClient], Coroutine[Any, Any, object]],
    *,
    hidden: tuple[str, ...] = (),
) -> None:
    """Do `work` on the broker and print its result; expected errors are one sentence.

    People do not get `hidden` fields."""
    import asyncio

    from aiorocketmq.cli.progress import progress

    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.core.values.codes import Refusal
    from aiorocketmq_fake.printing import show

    async def run() -> object:
        async with FakeBrokerClient(
            connection.control, broker=connection.broker, user=connection.user
        ) as broker:
            return await work(broker)

    try:
        with progress(f"waiting for {connection.control}"):
            result = asyncio.run(run())
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong
    except (ConnectionError, Refusal) as failed:
        raise other_side(str(failed)) from failed
    show(result, as_json=connection.as_json, hidden=hidden)


def other_side(sentence: str) -> click.ClickException:
    """Return the error for an endpoint that cannot be reached or is no control service."""
    return _OtherSide(sentence)


class _OtherSide(click.ClickException):
    exit_code = 4
