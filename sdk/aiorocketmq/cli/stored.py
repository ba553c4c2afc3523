"""`aiorocketmq message`: look at stored messages without consuming them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from aiorocketmq.cli.admin_options import Masters, moment, server_options, topic_name
from aiorocketmq.cli.server import json_option

if TYPE_CHECKING:
    from aiorocketmq.message import ReceivedMessage


@click.group()
def message() -> None:
    """Look at stored messages; no group's progress changes.

    Example: aiorocketmq message list orders --key 42 --endpoint namesrv://localhost:9876
    """


@message.command(name="list")
@click.argument("topic", callback=topic_name)
@click.option("--key", help="Only messages with this key.")
@click.option(
    "--since", callback=moment, metavar="TIME", help="Stored then or later, such as 2026-01-31T18:00."
)
@click.option("--until", callback=moment, metavar="TIME", help="Stored then or earlier.")
@click.option(
    "--max",
    "limit",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="At most this many, the oldest ones.",
)
@json_option
@server_options
def list_messages(
    topic: str,
    key: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
    server: Masters,
) -> None:
    """List messages of TOPIC, the oldest first.

    \b
    Examples:
      aiorocketmq message list orders --key 42
      aiorocketmq message list orders --since 2026-01-31T18:00 --max 100
    """
    from aiorocketmq.cli.tables import show

    messages = server.ask(
        lambda admin: admin.messages(topic, key=key, since=since, until=until, limit=limit),
    )
    show([_facts(each) for each in messages], as_json=as_json, hidden=("topic", "born_at"))


@message.command(name="describe")
@click.argument("topic", callback=topic_name)
@click.argument("message_id")
@json_option
@server_options
def describe_message(topic: str, message_id: str, as_json: bool, server: Masters) -> None:
    """Show the message of TOPIC with MESSAGE_ID, the sender's id or the broker's.

    Example: aiorocketmq message describe orders 01AB6E4A5C1F2D1B1E07D5A4F300000000
    """
    from aiorocketmq.cli.tables import show

    show(_facts(server.ask(lambda admin: admin.message(topic, message_id))), as_json=as_json)


def _facts(message: ReceivedMessage) -> dict[str, object]:
    from aiorocketmq.cli.messages import facts

    fields = facts(message)
    del fields["attempt"]  # stored messages have none
    place = {"message_id": message.message_id, "topic": message.topic, "broker": message.queue.broker}
    row = {**place, **fields, "stored_at": message.stored_at}
    return row if message.corruption is None else {**row, "corruption": message.corruption}
