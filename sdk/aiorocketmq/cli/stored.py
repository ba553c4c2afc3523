"""`aiorocketmq message`: look at stored messages without consuming them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from aiorocketmq.cli.admin_options import Masters, json_option, moment, server_options, topic_name

if TYPE_CHECKING:
    from aiorocketmq.message import ReceivedMessage


@click.group()
def message() -> None:
    """Look at stored messages; no group's progress changes.

    Example: aiorocketmq message list orders --key 42 --namesrv localhost:9876
    """


@message.command(name="list")
@click.argument("topic", callback=topic_name)
@click.option("--key", help="Only messages with this key.")
@click.option("--since", callback=moment, metavar="TIME", help="Stored then or later; 2026-01-31T18:00:00Z.")
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
      aiorocketmq message list orders --since 2026-01-31T18:00:00Z --max 100
    """
    from aiorocketmq.cli.tables import print_rows

    messages = server.ask(
        lambda admin: admin.messages(topic, key=key, since=since, until=until, limit=limit),
    )
    rows = [_row(each) for each in messages]
    if not as_json:
        left_out = {"topic", "body", "body_base64", "properties"}
        rows = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    print_rows(rows, as_json=as_json)


@message.command(name="describe")
@click.argument("topic", callback=topic_name)
@click.argument("message_id")
@json_option
@server_options
def describe_message(topic: str, message_id: str, as_json: bool, server: Masters) -> None:
    """Show the message of TOPIC with MESSAGE_ID, the sender's id or the broker's.

    Example: aiorocketmq message describe orders 01AB6E4A5C1F2D1B1E07D5A4F300000000
    """
    from aiorocketmq.cli.tables import printable

    row = _row(server.ask(lambda admin: admin.message(topic, message_id)))
    if as_json:
        click.echo(json.dumps(row))
        return
    for name, value in row.items():
        click.echo(f"{name}: {printable(value)}")


# Any: what JSON can hold has no better type.
def _row(found: ReceivedMessage) -> dict[str, Any]:
    from aiorocketmq.cli.messages import facts
    from aiorocketmq.cli.tables import plain

    fields = facts(found)
    del fields["attempt"]  # stored messages have none
    place = {"message_id": found.message_id, "topic": found.topic, "broker": found.queue.broker}
    row: dict[str, Any] = plain({**place, **fields, "stored_at": found.stored_at})
    return row if found.corruption is None else {**row, "corruption": found.corruption}
