"""`aiorocketmq fake ctl rate`: rate limits of a running fake broker."""

from __future__ import annotations

import click

from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker

__all__ = ["rate"]


@click.group()
def rate() -> None:
    """Limit the rate of calls; others are refused as by a busy server.

    Example: aiorocketmq fake ctl rate limit SendMessage 50
    """


@rate.command()
@click.argument("rpc")
@click.argument("per_second", type=float)
@connected
def limit(connection: Connection, rpc: str, per_second: float) -> None:
    """Limit RPC to PER_SECOND calls; 0 refuses all.

    Example: aiorocketmq fake ctl rate limit ReceiveMessage 5
    """
    on_broker(connection, lambda broker: broker.limit_rate(rpc, per_second))


@rate.command()
@click.argument("rpc")
@connected
def lift(connection: Connection, rpc: str) -> None:
    """Lift the limit of RPC.

    Example: aiorocketmq fake ctl rate lift SendMessage
    """
    on_broker(connection, lambda broker: broker.limit_rate(rpc, None))


@rate.command(name="list")
@connected
def list_rates(connection: Connection) -> None:
    """List the limited RPCs with their calls per second.

    Example: aiorocketmq fake ctl rate list
    """
    on_broker(connection, lambda broker: broker.rates())
