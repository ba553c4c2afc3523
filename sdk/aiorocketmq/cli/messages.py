"""`aiorocketmq send` and `aiorocketmq receive`: one-liners for trying things out."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from aiorocketmq._core.plain_text import plain, plain_lines
from aiorocketmq.cli.progress import progress
from aiorocketmq.cli.server import Server, json_option, server_options

if TYPE_CHECKING:
    from aiorocketmq.message import Message, ReceivedMessage, SendReceipt
    from aiorocketmq.subscription import Sql, Tags


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--tag", help="A label that consumers can filter by.")
@click.option(
    "--key", "keys", multiple=True, help="A word by which the message can be found; may be repeated."
)
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="May be repeated.")
@click.option("--message-group", help="Makes it a FIFO message.")
@click.option(
    "--delay", type=click.FloatRange(min=0.0), metavar="SECONDS", help="Makes it a delayed message."
)
@click.option("--priority", type=click.IntRange(min=0), help="Makes it a priority message.")
@click.option("--lite-topic", help="Makes it a message of a lite topic.")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send it this many times."
)
@click.option("--lines", is_flag=True, help="Send each line of standard input as a message.")
@json_option
@server_options
def send(
    topic: str,
    body: str | None,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    message_group: str | None,
    delay: float | None,
    priority: int | None,
    lite_topic: str | None,
    count: int,
    lines: bool,
    as_json: bool,
    server: Server,
) -> None:
    """Send BODY to TOPIC; without BODY, standard input is the body.

    Prints one receipt per message, one object for each with --json. Exit code 4 if the server cannot be reached or
    refuses.

    \b
    Examples:
      aiorocketmq send orders 'one pair of shoes' --tag paid --key 42
      aiorocketmq send reminders 'call back' --delay 60
      tail -f log.txt | aiorocketmq send log --lines
    """
    from aiorocketmq.message import Message

    pairs = [pair.partition("=") for pair in properties]
    if any(not sign for _, sign, _ in pairs):
        raise click.UsageError("--property takes NAME=VALUE")
    if lines and (body is not None or count > 1):
        raise click.UsageError("give --lines, or BODY or --count, not both")

    def message(content: bytes) -> Message:
        try:
            return Message(
                topic,
                content,
                tag=tag,
                keys=keys,
                properties={name: value for name, _, value in pairs},
                message_group=message_group,
                delay=delay,
                priority=priority,
                lite_topic=lite_topic,
            )
        except ValueError as error:
            raise click.UsageError(str(error)) from error

    if lines:
        asyncio.run(_send_lines(server, message(b"-"), as_json))
        return
    content = sys.stdin.buffer.read() if body is None else body.encode()
    asyncio.run(_send_many(server, [message(content)] * count, as_json))


async def _send_many(server: Server, messages: list[Message], as_json: bool) -> None:
    from aiorocketmq.producer import Producer

    async with server.open(lambda connection: Producer(connection, topics=[messages[0].topic])) as producer:
        for message in messages:
            _print_receipt(await producer.send(message), as_json)


async def _send_lines(server: Server, pattern: Message, as_json: bool) -> None:
    from dataclasses import replace

    from aiorocketmq.producer import Producer

    async with server.open(lambda connection: Producer(connection, topics=[pattern.topic])) as producer:
        # Read in a thread: a line may take long to arrive, and heartbeats continue meanwhile.
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            if content := line.rstrip(b"\r\n"):
                _print_receipt(await producer.send(replace(pattern, body=content)), as_json)


def _print_receipt(receipt: SendReceipt, as_json: bool) -> None:
    from aiorocketmq.cli.tables import show

    if not as_json:
        click.echo(plain(f"{receipt.message_id} offset {receipt.offset} at {receipt.endpoint}"))
        return
    fields = {
        "message_id": receipt.message_id,
        "topic": receipt.topic,
        "offset": receipt.offset,
        "attempts": receipt.attempts,
        "recall_handle": receipt.recall_handle,
        "endpoint": receipt.endpoint,
    }
    show(fields, as_json=True)


@click.command()
@click.argument("topic")
@click.option("--group", required=True, help="The consumer group; it must exist on the server.")
@click.option("--tags", metavar="'A || B'", help="Only messages with one of these tags.")
@click.option("--sql", metavar="EXPRESSION", help="Only messages that match this SQL expression.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="End after this many messages.",
)
@click.option("--follow", is_flag=True, help="Do not end: receive until interrupted.")
@click.option(
    "--wait",
    type=click.FloatRange(min=0.0),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="End if nothing arrives for this long; Apache's servers wait 5 to 20.",
)
@click.option(
    "--invisible",
    type=click.FloatRange(10.0, 43_200.0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long received messages are hidden from others of the group.",
)
@click.option(
    "--no-ack",
    is_flag=True,
    help="Release messages instead of acknowledging them; each counts an attempt. At name servers: commit nothing.",
)
@json_option
@server_options
def receive(
    topic: str,
    group: str,
    tags: str | None,
    sql: str | None,
    most: int,
    follow: bool,
    wait: float,
    invisible: float,
    no_ack: bool,
    as_json: bool,
    server: Server,
) -> None:
    """Receive messages of TOPIC, print and acknowledge them.

    At name servers, the queues are shared with other members of the group, offsets are committed, and --invisible has
    no effect.

    Ends after --max messages, or if nothing arrives for --wait seconds. --json prints one object for each message.
    Exit code 4 if the server cannot be reached or refuses.

    \b
    Examples:
      aiorocketmq receive orders --group billing --max 10
      aiorocketmq receive orders --group billing --tags 'paid || refunded' --follow --json
    """
    from aiorocketmq.subscription import Sql, Tags

    if tags is not None and sql is not None:
        raise click.UsageError("give --tags or --sql, not both")
    filter_ = Sql(sql) if sql is not None else Tags(tags or "*")
    limit = None if follow else most
    if server.endpoint.startswith("namesrv://"):
        asyncio.run(_read_queues(server, topic, group, filter_, limit, wait, no_ack, as_json))
    else:
        asyncio.run(_receive(server, topic, group, filter_, limit, wait, invisible, no_ack, as_json))


async def _receive(
    server: Server,
    topic: str,
    group: str,
    wanted: Sql | Tags,
    limit: int | None,
    wait: float,
    invisible: float,
    no_ack: bool,
    as_json: bool,
) -> None:
    from aiorocketmq.simple_consumer import SimpleConsumer

    left = limit
    async with server.open(
        lambda connection: SimpleConsumer(connection, group=group, subscriptions={topic: wanted})
    ) as consumer:
        while left is None or left > 0:
            with progress(f"waiting for messages of {topic}"):
                messages = await consumer.receive(
                    max_messages=32 if left is None else min(left, 32), invisible=invisible, wait=wait
                )
            if not messages and limit is not None:
                _report_silence(left == limit, wait, as_json)
                return
            for message in messages:
                _print_message(message, as_json)
            if no_ack:
                await asyncio.gather(*(message.release() for message in messages))
            else:
                await consumer.ack(messages)
            left = None if left is None else left - len(messages)


async def _read_queues(
    server: Server,
    topic: str,
    group: str,
    wanted: Sql | Tags,
    limit: int | None,
    wait: float,
    no_ack: bool,
    as_json: bool,
) -> None:
    """Receive over the remoting protocol: as a member that shares the queues of the group and commits offsets."""
    from aiorocketmq.pull_consumer import PullConsumer

    left = limit
    async with server.open(
        lambda connection: PullConsumer(connection, group=group, topics=[topic], filters={topic: wanted})
    ) as consumer:
        while left is None or left > 0:
            with progress(f"waiting for messages of {topic}"):
                batch = await consumer.poll(wait)
            if batch is None and limit is not None:
                _report_silence(left == limit, wait, as_json)
                return
            if batch is None:
                continue
            messages = batch.messages[:left]
            for message in messages:
                _print_message(message, as_json)
            if not no_ack:
                # A whole batch ends behind what the filter left out.
                is_whole = len(messages) == len(batch.messages)
                await consumer.commit(batch if is_whole else {batch.queue: messages[-1].offset + 1})
            left = None if left is None else left - len(messages)


def _report_silence(is_first: bool, wait: float, as_json: bool) -> None:
    if is_first and not as_json:
        click.echo(f"no message arrived within {wait:g} s", err=True)


def _print_message(message: ReceivedMessage, as_json: bool) -> None:
    from aiorocketmq.cli.tables import show

    if as_json:
        show(facts(message), as_json=True)
        return
    parts = [f"queue {message.queue.id} offset {message.offset}"]
    if message.attempt:  # unknown over the remoting protocol
        parts.insert(0, f"attempt {message.attempt}")
    if message.tag is not None:
        parts.append(f"tag {message.tag}")
    if message.keys:
        parts.append(f"keys {' '.join(message.keys)}")
    if message.message_group is not None:
        parts.append(f"group {message.message_group}")
    parts += [f"{name}={value}" for name, value in message.properties.items()]
    click.echo(plain(f"{message.message_id} {', '.join(parts)}"))
    click.echo(plain_lines(message.body.decode(errors="replace")))


def facts(message: ReceivedMessage) -> dict[str, object]:
    """The fields of a message that are printed."""
    return {
        "message_id": message.message_id,
        "topic": message.topic,
        "queue": message.queue.id,
        "offset": message.offset,
        "attempt": message.attempt,
        "tag": message.tag,
        "keys": message.keys,
        "properties": message.properties,
        "message_group": message.message_group,
        "born_at": message.born_at,
        "body": message.body,
    }
