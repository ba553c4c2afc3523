"""The options of commands for administration, and how they ask an `Admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

# What brokers make for themselves; hidden unless asked for.
_SYSTEM = (
    "%RETRY%", "%DLQ%", "rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC",
    "TBW102", "BenchmarkTest", "CID_", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER",
)  # fmt: skip


def server_options(function: Command) -> Command:
    """Add the options that say which server is meant."""
    broker = click.option("--broker", metavar="HOST:PORT", help="A broker's classic port, usually 10911.")
    namesrv = click.option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers, usually port 9876. Default: localhost:9876.",
    )
    return namesrv(broker(function))


def json_option(function: Command) -> Command:
    """Add `--json`, the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def ask(namesrv: str | None, broker: str | None, call: Callable[[Admin], Awaitable[T]]) -> T:
    """Run `call` on an open Admin of the server that the options name; wrong values end with one sentence."""
    import asyncio

    from aiorocketmq.admin import Admin

    if namesrv and broker:
        raise click.UsageError("give --namesrv or --broker, not both")

    async def run() -> T:
        async with Admin(
            f"broker://{broker}" if broker else f"namesrv://{namesrv or 'localhost:9876'}"
        ) as admin:
            return await call(admin)

    try:
        return asyncio.run(run())
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def topic_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """A callback that refuses what can name no topic; nothing is let through, as nothing."""
    from aiorocketmq._core.names import check_topic

    return _checked(name, check_topic)


def group_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """A callback that refuses what can name no group; nothing is let through, as nothing."""
    from aiorocketmq._core.names import check_group

    return _checked(name, check_group)


def moment(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """A callback that reads a time as ISO 8601 writes it, with its zone."""
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
        if read.tzinfo is None:
            raise ValueError
    except ValueError:
        raise click.UsageError(f"{text!r} is no time with a zone, such as 2026-01-31T18:00:00Z") from None
    return read


def print_names(names: tuple[str, ...], *, all_names: bool, as_json: bool) -> None:
    """Print one name a line; those of the servers themselves only if `all_names`."""
    import json

    from aiorocketmq._core.bounds import one_line

    shown = [name for name in names if all_names or not name.startswith(_SYSTEM)]
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name in shown:
        click.echo(one_line(name))


def _checked(name: str, check: Callable[[str], None]) -> str:
    if name is not None:
        try:
            check(name)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    return name
