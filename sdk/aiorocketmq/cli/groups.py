"""`aiorocketmq group`: create, list, describe, alter and delete consumer groups, and see and reset their progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from aiorocketmq.cli.admin_options import (
    Masters,
    group_name,
    if_not_exists_option,
    moment,
    print_names,
    server_options,
    show_done,
    topic_name,
)
from aiorocketmq.cli.server import json_option

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin
    from aiorocketmq.message import MessageQueue


@click.group()
def group() -> None:
    """Create, list, describe, alter and delete consumer groups of a server; see and reset their progress.

    Example: aiorocketmq group create billing --ordered --max-attempts 17 --endpoint namesrv://localhost:9876
    """


@group.command(name="create")
@click.argument("name", callback=group_name)
@click.option("--ordered", is_flag=True, help="Deliver in order; for FIFO topics.")
@click.option(
    "--max-attempts",
    type=click.IntRange(min=1),
    default=17,
    show_default=True,
    help="Deliveries, the first one included, before a message becomes a dead letter.",
)
@click.option(
    "--backoff",
    type=click.FloatRange(min=0),
    multiple=True,
    metavar="SECONDS",
    help="Before a redelivery; once for each, the last one repeats. Default: the server's list.",
)
@click.option("--no-consume", "consume_enabled", flag_value=False, default=True, help="It receives nothing.")
@click.option(
    "--lite-topic",
    callback=topic_name,
    help="The parent topic of the lite topics that the group consumes.",
)
@click.option(
    "--lite-quota",
    type=click.IntRange(min=0),
    default=0,
    help="Lite topics that one client may subscribe to. Default: the server's number.",
)
@click.option("--lite-exclusive", is_flag=True, help="A lite topic has one subscriber at a time.")
@if_not_exists_option
@json_option
@server_options
def create_group(
    name: str,
    ordered: bool,
    max_attempts: int,
    backoff: Sequence[float],
    lite_topic: str | None,
    if_not_exists: bool,
    as_json: bool,
    server: Masters,
    **settings: Any,
) -> None:
    """Create consumer group NAME on every master, or replace all of its settings.

    Example: aiorocketmq group create billing --max-attempts 5
    """

    # Any: click passes the options by name.
    async def create(admin: Admin) -> bool:
        if if_not_exists and name in await admin.groups():
            return False
        await admin.create_group(
            name,
            ordered=ordered,
            max_attempts=max_attempts,
            backoff=backoff or None,
            lite_topic=lite_topic or "",
            **settings,
        )
        return True

    if server.ask(create):
        facts = {"group": name, "ordered": ordered, "max_attempts": max_attempts}
        order = "ordered" if ordered else "unordered"
        show_done(f"group {name} exists: {order}, {max_attempts} attempts", facts, as_json=as_json)
    else:
        show_done(f"group {name} exists already, and stays as it is", {"group": name}, as_json=as_json)


@group.command(name="alter")
@click.argument("name", callback=group_name)
@click.option("--ordered/--unordered", default=None, help="Whether to deliver in order.")
@click.option("--max-attempts", type=click.IntRange(min=1), help="Deliveries, the first one included.")
@click.option(
    "--backoff",
    type=click.FloatRange(min=0),
    multiple=True,
    metavar="SECONDS",
    help="Before a redelivery; once for each, the last one repeats.",
)
@click.option("--consume/--no-consume", "consume_enabled", default=None, help="Whether it receives messages.")
@json_option
@server_options
def alter_group(name: str, backoff: Sequence[float], as_json: bool, server: Masters, **settings: Any) -> None:
    """Change the given settings of consumer group NAME on every master that has it.

    Example: aiorocketmq group alter billing --max-attempts 5 --backoff 1 --backoff 30
    """
    # Any: click hands the options over by name.
    server.ask(lambda admin: admin.alter_group(name, backoff=backoff or None, **settings))
    show_done(f"group {name} is altered", {"group": name}, as_json=as_json)


@group.command(name="delete")
@click.argument("name", callback=group_name)
@json_option
@server_options
def delete_group(name: str, as_json: bool, server: Masters) -> None:
    """Delete consumer group NAME with its offsets; an unknown group is no error.

    Example: aiorocketmq group delete billing
    """
    server.ask(lambda admin: admin.delete_group(name))
    show_done(f"group {name} is deleted", {"group": name}, as_json=as_json)


@group.command(name="list")
@click.option("--all", "all_names", is_flag=True, help="Also system names that servers create themselves.")
@json_option
@server_options
def list_groups(all_names: bool, as_json: bool, server: Masters) -> None:
    """List the names of all consumer groups.

    Example: aiorocketmq group list --endpoint namesrv://localhost:9876
    """
    names = server.ask(lambda admin: admin.groups())
    print_names(names, all_names=all_names, as_json=as_json)


@group.command(name="describe")
@click.argument("name", callback=group_name)
@json_option
@server_options
def describe_group(name: str, as_json: bool, server: Masters) -> None:
    """Show the settings of consumer group NAME on each broker.

    Example: aiorocketmq group describe billing
    """
    from aiorocketmq.cli.tables import show

    show(server.ask(lambda admin: admin.describe_group(name)), as_json=as_json)


@group.command()
@click.argument("name", callback=group_name)
@click.option("--topic", callback=topic_name, help="Only this topic; also if nothing was consumed yet.")
@json_option
@server_options
def progress(name: str, topic: str | None, as_json: bool, server: Masters) -> None:
    """Show committed offset and lag of consumer group NAME in each queue, and the member that owns the queue.

    Members at gRPC addresses own no queues.

    Example: aiorocketmq group progress billing --topic orders
    """
    from aiorocketmq.cli.tables import show

    show(server.ask(lambda admin: admin.progress(name, topic)), as_json=as_json)


@group.command()
@click.argument("name", callback=group_name)
@click.argument("topic", callback=topic_name)
@click.option(
    "--to",
    "place",
    metavar="beginning|end|TIME",
    help="TIME is such as 2026-01-31T18:00, or 2026-01-31T18:00Z.",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    metavar="BROKER/QUEUE=OFFSET",
    help="Only this queue, to this offset; may be repeated.",
)
@click.option("--only-back", is_flag=True, help="Move no queue forward.")
@json_option
@server_options
def reset(
    name: str,
    topic: str,
    place: str | None,
    offsets: Sequence[str],
    only_back: bool,
    as_json: bool,
    server: Masters,
) -> None:
    """Move consumer group NAME in the queues of TOPIC: to an end, to a time, or single queues to offsets.

    Prints the new offsets of the queues that were moved.

    \b
    Examples:
      aiorocketmq group reset billing orders --to 2026-01-31T18:00
      aiorocketmq group reset billing orders --offset broker-a/0=1500
    """
    from aiorocketmq.cli.tables import show

    if (place is None) == (not offsets):
        raise click.UsageError("give either --to or --offset")
    to = _place(place) if place is not None else _offsets(topic, offsets)
    moved = server.ask(lambda admin: admin.reset_offset(name, topic, to=to, force=not only_back))
    rows = [
        {"topic": queue.topic, "broker": queue.broker, "queue": queue.id, "offset": offset}
        for queue, offset in sorted(moved.items())
    ]
    show(rows, as_json=as_json)


@group.command()
@click.argument("name", callback=group_name)
@click.option("--to", callback=topic_name, help="Send all to this topic, not where they came from.")
@click.option("--topic", callback=topic_name, help="Only what came from this topic.")
@click.option("--tag", help="Only what has this tag.")
@click.option("--key", help="Only what has this key.")
@click.option("--since", callback=moment, metavar="TIME", help="Only dead letters since this time.")
@click.option("--until", callback=moment, metavar="TIME", help="Only dead letters before this time.")
@click.option("--limit", type=click.IntRange(min=1), help="Send so many at most.")
@click.option("--dry-run", is_flag=True, help="Only count; nothing is sent.")
@json_option
@server_options
def redrive(
    name: str,
    to: str | None,
    limit: int | None,
    dry_run: bool,
    as_json: bool,
    server: Masters,
    **chosen: Any,
) -> None:
    """Send the dead letters of consumer group NAME back to the topics that they came from.

    Called again, it continues where it ended: nothing is sent twice. Each choice of --topic, --tag, --key, --since and
    --until has a progress of its own.

    \b
    Examples:
      aiorocketmq group redrive billing --dry-run
      aiorocketmq group redrive billing --tag paid --limit 100
    """
    from aiorocketmq.cli.tables import show
    from aiorocketmq.redrive import DeadLetterFilter

    # Any: click hands the options over by name.
    done = server.ask_with_progress(
        lambda admin, report: admin.redrive(
            name,
            to=to,
            chosen=DeadLetterFilter(**chosen),
            limit=limit,
            dry_run=dry_run,
            on_progress=lambda done: report(f"{done.read} dead letters read, {done.total} sent"),
        )
    )
    if as_json:
        show([done], as_json=True)
        return
    verb = "would be sent" if dry_run else "sent"
    for topic, count in sorted(done.sent.items()):
        click.echo(f"{count} {verb} to {topic}")
    click.echo(
        f"{done.total} of {done.read} dead letters {verb}, {done.filtered} filtered out, {len(done.unusable)} unusable"
    )


def _place(text: str) -> datetime | Literal["beginning", "end"]:
    if text == "beginning":
        return "beginning"
    if text == "end":
        return "end"
    read = moment(click.get_current_context(), click.Option(["--to"]), text)
    assert read is not None
    return read


def _offsets(topic: str, texts: Sequence[str]) -> Mapping[MessageQueue, int]:
    from aiorocketmq.message import MessageQueue

    offsets = {}
    for text in texts:
        place, _, offset = text.rpartition("=")
        broker, _, number = place.rpartition("/")
        if not (broker and number.isdecimal() and offset.isdecimal()):
            raise click.UsageError(
                f"--offset takes BROKER/QUEUE=OFFSET, such as broker-a/0=1500, not {text!r}"
            )
        offsets[MessageQueue(topic, broker, int(number))] = int(offset)
    return offsets
