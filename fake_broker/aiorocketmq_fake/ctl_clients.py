"""`aiorocketmq fake ctl client`: send commands to the clients of a running fake broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient
    from aiorocketmq_fake.edge.telemetry import ClientReply

__all__ = ["client"]


@click.group()
def client() -> None:
    """Send commands to connected clients, as servers do.

    Example: aiorocketmq fake ctl client stack-trace billing-1
    """


@client.command("stack-trace")
@click.argument("client_id")
@connected
def stack_trace(connection: Connection, client_id: str) -> None:
    """Ask a client for its stack traces.

    Example: aiorocketmq fake ctl client stack-trace billing-1
    """

    async def query(broker: FakeBrokerClient) -> object:
        return _fields(await broker.print_stack_trace(client_id))

    on_broker(connection, query)


@client.command()
@click.argument("client_id")
@click.argument("topic")
@click.argument("message_id")
@connected
def verify(connection: Connection, client_id: str, topic: str, message_id: str) -> None:
    """Ask a consumer to consume a stored message on trial.

    Example: aiorocketmq fake ctl client verify billing-1 orders 01AB...
    """

    async def query(broker: FakeBrokerClient) -> object:
        return _fields(await broker.verify_message(client_id, topic, message_id))

    on_broker(connection, query)


@client.command()
@click.argument("client_id")
@connected
def reconnect(connection: Connection, client_id: str) -> None:
    """Ask a client to reconnect.

    Example: aiorocketmq fake ctl client reconnect billing-1
    """
    on_broker(connection, lambda broker: broker.reconnect_endpoints(client_id))


def _fields(reply: ClientReply | None) -> object:
    return (
        {"code": reply.code, "text": reply.text} if reply is not None else {"reply": "none came within 5 s"}
    )
