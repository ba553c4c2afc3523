"""`aiorocketmq topic` and `aiorocketmq group`: create, list, describe and delete on a server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., object])

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE")
# What brokers make for themselves; hidden unless asked for.
SYSTEM = (
    "%RETRY%", "%DLQ%", "rmq_sys_", "RMQ_SYS_", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC",
    "TBW102", "BenchmarkTest", "CID_", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER",
)  # fmt: skip


def _server(function: Command) -> Command:
    """Add the options that say which server is meant."""
    broker = click.option("--broker", metavar="HOST:PORT", help="A broker's classic port, usually 10911.")
    namesrv = click.option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers, usually port 9876. Default: localhost:9876.",
    )
    return namesrv(broker(function))


def _as_json(function: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _ask(namesrv: str | None, broker: str | None, call: Callable[[Admin], Awaitable[T]]) -> T:
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


def _topic_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    from aiorocketmq._core.names import check_topic

    try:
        check_topic(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return name


def _group_name(context: click.Context, parameter: click.Parameter, name: str) -> str:
    from aiorocketmq._core.names import check_group

    try:
        check_group(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return name


def _print_names(names: tuple[str, ...], *, all_names: bool, as_json: bool) -> None:
    shown = [name for name in names if all_names or not name.startswith(SYSTEM)]
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name in shown:
        click.echo(name)


@click.group()
def topic() -> None:
    """Create, list, describe and delete topics of a server.

    Example: aiorocketmq topic create orders --type FIFO --queues 4 --namesrv localhost:9876
    """


@topic.command(name="create")
@click.argument("name", callback=_topic_name)
@click.option(
    "--type", "kind", type=click.Choice(TYPES, case_sensitive=False), default="NORMAL", show_default=True
)
@click.option(
    "--queues", type=click.IntRange(1, 65535), default=8, show_default=True, help="Queues on every broker."
)
@_server
def create_topic(name: str, kind: str, queues: int, namesrv: str | None, broker: str | None) -> None:
    """Create topic NAME on every master, or change it to this.

    Example: aiorocketmq topic create orders --type FIFO
    """
    from aiorocketmq.admin import TopicType

    _ask(namesrv, broker, lambda admin: admin.create_topic(name, type=TopicType(kind.upper()), queues=queues))
    click.echo(f"topic {name} is there: {kind.upper()}, {queues} queues on every broker")


@topic.command(name="delete")
@click.argument("name", callback=_topic_name)
@_server
def delete_topic(name: str, namesrv: str | None, broker: str | None) -> None:
    """Delete topic NAME with its messages; one that does not exist is no error.

    Example: aiorocketmq topic delete orders
    """
    _ask(namesrv, broker, lambda admin: admin.delete_topic(name))
    click.echo(f"topic {name} is gone")


@topic.command(name="list")
@click.option("--all", "all_names", is_flag=True, help="Also those that servers make for themselves.")
@_as_json
@_server
def list_topics(all_names: bool, as_json: bool, namesrv: str | None, broker: str | None) -> None:
    """List the names of all topics.

    Example: aiorocketmq topic list --namesrv localhost:9876
    """
    names = _ask(namesrv, broker, lambda admin: admin.topics())
    _print_names(names, all_names=all_names, as_json=as_json)


@topic.command(name="describe")
@click.argument("name", callback=_topic_name)
@_as_json
@_server
def describe_topic(name: str, as_json: bool, namesrv: str | None, broker: str | None) -> None:
    """Say on which brokers topic NAME has how many queues.

    Example: aiorocketmq topic describe orders
    """
    from dataclasses import asdict

    route = _ask(namesrv, broker, lambda admin: admin.route(name))
    if as_json:
        click.echo(json.dumps(asdict(route)))
        return
    for queues in route.queues:
        where = f"{queues.broker} ({queues.address or 'no master'})"
        click.echo(f"{where}: {queues.readable} queues to read, {queues.writable} to write")


@click.group()
def group() -> None:
    """Create, list and delete consumer groups of a server.

    Example: aiorocketmq group create billing --ordered --max-attempts 17 --namesrv localhost:9876
    """


@group.command(name="create")
@click.argument("name", callback=_group_name)
@click.option("--ordered", is_flag=True, help="Deliver in order; for FIFO topics.")
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    default=17,
    show_default=True,
    help="Deliveries, the first one included, before a message becomes a dead letter.",
)
@_server
def create_group(
    name: str, ordered: bool, max_attempts: int, namesrv: str | None, broker: str | None
) -> None:
    """Create consumer group NAME on every master, or replace its settings by these.

    Example: aiorocketmq group create billing --max-attempts 5
    """
    _ask(namesrv, broker, lambda admin: admin.create_group(name, ordered=ordered, max_attempts=max_attempts))
    click.echo(f"group {name} is there: {'ordered' if ordered else 'unordered'}, {max_attempts} attempts")


@group.command(name="delete")
@click.argument("name", callback=_group_name)
@_server
def delete_group(name: str, namesrv: str | None, broker: str | None) -> None:
    """Delete consumer group NAME with its progress; one that does not exist is no error.

    Example: aiorocketmq group delete billing
    """
    _ask(namesrv, broker, lambda admin: admin.delete_group(name))
    click.echo(f"group {name} is gone")


@group.command(name="list")
@click.option("--all", "all_names", is_flag=True, help="Also those that servers make for themselves.")
@_as_json
@_server
def list_groups(all_names: bool, as_json: bool, namesrv: str | None, broker: str | None) -> None:
    """List the names of all consumer groups.

    Example: aiorocketmq group list --namesrv localhost:9876
    """
    names = _ask(namesrv, broker, lambda admin: admin.groups())
    _print_names(names, all_names=all_names, as_json=as_json)
