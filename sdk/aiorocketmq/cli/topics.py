"""`aiorocketmq topic`: create, list, describe, alter and delete topics of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aiorocketmq.cli.admin_options import (
    Masters,
    if_not_exists_option,
    print_names,
    server_options,
    show_done,
    topic_name,
)
from aiorocketmq.cli.server import json_option

if TYPE_CHECKING:
    from aiorocketmq.admin import Admin

TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE")


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics of a server.

    Example: aiorocketmq topic create orders --type FIFO --queues 4 --endpoint namesrv://localhost:9876
    """


@topic.command(name="create")
@click.argument("name", callback=topic_name)
@click.option(
    "--type", "kind", type=click.Choice(TYPES, case_sensitive=False), default="NORMAL", show_default=True
)
@click.option(
    "--queues", type=click.IntRange(1, 65535), default=8, show_default=True, help="Queues on every broker."
)
@click.option(
    "--lite-expiration",
    type=click.FloatRange(min=60),
    metavar="SECONDS",
    help="LITE: when lite topics expire after their last message; whole minutes. Default: never.",
)
@if_not_exists_option
@json_option
@server_options
def create_topic(
    name: str,
    kind: str,
    queues: int,
    lite_expiration: float | None,
    if_not_exists: bool,
    as_json: bool,
    server: Masters,
) -> None:
    """Create topic NAME on every master, or replace its settings.

    Example: aiorocketmq topic create orders --type FIFO
    """
    kind = kind.upper()

    async def create(admin: Admin) -> bool:
        if if_not_exists and name in await admin.topics():
            return False
        await admin.create_topic(name, type=kind, queues=queues, lite_expiration=lite_expiration)
        return True

    if server.ask(create):
        facts = {"topic": name, "type": kind, "queues": queues}
        show_done(f"topic {name} exists: {kind}, {queues} queues on every broker", facts, as_json=as_json)
    else:
        show_done(f"topic {name} exists already, and stays as it is", {"topic": name}, as_json=as_json)


@topic.command(name="alter")
@click.argument("name", callback=topic_name)
@click.option("--queues", type=click.IntRange(1, 65535), help="Queues on every broker.")
@click.option("--readable/--not-readable", default=None, help="Whether consumers may read it.")
@click.option("--writable/--not-writable", default=None, help="Whether producers may send to it.")
@json_option
@server_options
def alter_topic(
    name: str,
    queues: int | None,
    readable: bool | None,
    writable: bool | None,
    as_json: bool,
    server: Masters,
) -> None:
    """Change the given settings of topic NAME on every master that has it.

    Example: aiorocketmq topic alter orders --queues 16
    """
    server.ask(
        lambda admin: admin.alter_topic(name, queues=queues, readable=readable, writable=writable),
    )
    show_done(f"topic {name} is altered", {"topic": name}, as_json=as_json)


@topic.command(name="delete")
@click.argument("name", callback=topic_name)
@json_option
@server_options
def delete_topic(name: str, as_json: bool, server: Masters) -> None:
    """Delete topic NAME with its messages; an unknown topic is no error.

    Example: aiorocketmq topic delete orders
    """
    server.ask(lambda admin: admin.delete_topic(name))
    show_done(f"topic {name} is deleted", {"topic": name}, as_json=as_json)


@topic.command(name="list")
@click.option("--all", "all_names", is_flag=True, help="Also system names that servers create themselves.")
@json_option
@server_options
def list_topics(all_names: bool, as_json: bool, server: Masters) -> None:
    """List the names of all topics.

    Example: aiorocketmq topic list --endpoint namesrv://localhost:9876
    """
    names = server.ask(lambda admin: admin.topics())
    print_names(names, all_names=all_names, as_json=as_json)


@topic.command(name="describe")
@click.argument("name", callback=topic_name)
@json_option
@server_options
def describe_topic(name: str, as_json: bool, server: Masters) -> None:
    """Show the settings of topic NAME on each broker, and the offsets and times of its queues.

    Example: aiorocketmq topic describe orders
    """
    from aiorocketmq.cli.tables import show

    description = server.ask(lambda admin: admin.describe_topic(name))
    if as_json:
        show(description, as_json=True)
        return
    show(description.settings, as_json=False)
    click.echo()
    show(description.queues, as_json=False)
