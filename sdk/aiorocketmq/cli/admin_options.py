"""Options of administration commands, and their calls of an `Admin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import click

from aiorocketmq.cli.server import Security, gathering, security_options

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

    def ask(self, call: Callable[[Admin], Awaitable[T]]) -> T:
        """Run `call` on an open Admin; invalid values end with one sentence."""
        return self.ask_with_progress(lambda admin, _: call(admin))

    def ask_with_progress(self, call: Callable[[Admin, Callable[[str], None]], Awaitable[T]]) -> T:
        """Run `call` as `ask` does, with a function for how far it is."""
        import asyncio

        from aiorocketmq.admin import Admin
        from aiorocketmq.cli.progress import progress

        credentials = self.credentials()

        async def run(report: Callable[[str], None]) -> T:
            async with Admin(self.endpoint, credentials=credentials, tls=self.tls_config()) as admin:
                return await call(admin, report)

        try:
            with progress(f"waiting for {self.endpoint}") as report:
                return asyncio.run(run(report))
        except ValueError as error:
            raise click.UsageError(str(error)) from error


def server_options(function: Command) -> Command:
    """Add the options that name the brokers; the command gets them as one parameter `server`, `Masters`."""
    return gathering(Masters, _OPTIONS, function)


_OPTIONS = security_options(
    "namesrv://localhost:9876", "Name servers: namesrv://HOST:PORT[;...], or a broker: broker://HOST:PORT."
)


def show_done(sentence: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """Print that a change was made: `sentence` for people, `facts` for machines."""
    from aiorocketmq.cli.tables import show

    if as_json:
        show(facts, as_json=True)
    else:
        click.echo(sentence)


def if_not_exists_option(function: Command) -> Command:
    """Add `--if-not-exists`, the parameter `if_not_exists`."""
    return click.option("--if-not-exists", is_flag=True, help="Leave an existing one of that name as it is.")(
        function
    )


def topic_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return a callback that refuses invalid topic names; None passes as None."""
    from aiorocketmq._core.names import check_topic

    return _checked(name, check_topic)


def group_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    """Return a callback that refuses invalid group names; None passes as None."""
    from aiorocketmq._core.names import check_group

    return _checked(name, check_group)


def moment(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Parse a time in ISO 8601, which is local if it has no zone."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"{text!r} is no time: write 2026-01-31T18:00, which is local, or 2026-01-31T18:00Z"
        ) from error


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
