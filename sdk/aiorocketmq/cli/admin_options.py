"""Options of administration commands, and their calls of an `Admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click

from aiorocketmq.cli.server import SECURITY_OPTIONS, Security, gathering

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

# Names that brokers create for themselves; hidden by default.
_SYSTEM = (
    "%RETRY%", "%DLQ%", "rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC",
    "TBW102", "BenchmarkTest", "CID_", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Masters(Security):
    """The brokers of a command, by their name server or directly, and the options of their connections."""

    namesrv: str | None
    broker: str | None

    def ask(self, call: Callable[[Admin], Awaitable[T]]) -> T:
        """Run `call` on an open Admin; invalid values end with one sentence."""
        import asyncio

        from aiorocketmq.admin import Admin

        if self.namesrv and self.broker:
            raise click.UsageError("give --namesrv or --broker, not both")
        endpoint = (
            f"broker://{self.broker}" if self.broker else f"namesrv://{self.namesrv or 'localhost:9876'}"
        )
        credentials = self.credentials()

        async def run() -> T:
            async with Admin(endpoint, credentials=credentials, tls=self.tls_config()) as admin:
                return await call(admin)

        try:
            return asyncio.run(run())
        except ValueError as error:
            raise click.UsageError(str(error)) from error


def server_options(function: Command) -> Command:
    """Add the options that name the brokers; the command gets them as one parameter `server`, `Masters`."""
    return gathering(Masters, (*_OPTIONS, *SECURITY_OPTIONS), function)


_OPTIONS = (
    click.option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers, usually port 9876. Default: localhost:9876.",
    ),
    click.option("--broker", metavar="HOST:PORT", help="A broker's classic port, usually 10911."),
)


def json_option(function: Command) -> Command:
    """Add `--json`, the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def topic_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return a callback that refuses invalid topic names; None passes as None."""
    from aiorocketmq._core.names import check_topic

    return _checked(name, check_topic)


def group_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return a callback that refuses invalid group names; None passes as None."""
    from aiorocketmq._core.names import check_group

    return _checked(name, check_group)


def moment(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Return a callback that parses a time in ISO 8601 with its zone."""
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
    """Print one name per line; system names only if `all_names`."""
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
