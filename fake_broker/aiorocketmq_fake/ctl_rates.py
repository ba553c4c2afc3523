"""`aiorocketmq fake ctl rate`: how many calls a fake broker that runs lets through."""

from __future__ import annotations

import click

from aiorocketmq_fake.ctl_connection import Connection, on_broker

__all__ = ["rate"]


@click.group()
def rate() -> None:
    """Limit how many calls are let through; others are refused as by a busy server.

    Example: aiorocketmq fake ctl rate limit SendMessage 50
    """


@rate.command()
@click.argument("rpc")
@click.argument("per_second", type=float)
@click.pass_obj
def limit(connection: Connection, rpc: str, per_second: float) -> None:
    """Let at most PER_SECOND calls of RPC through; 0 lets none.

    Example: aiorocketmq fake ctl rate limit ReceiveMessage 5
    """
    on_broker(connection, lambda broker: broker.limit_rate(rpc, per_second))


@rate.command()
@click.argument("rpc")
@click.pass_obj
def lift(connection: Connection, rpc: str) -> None:
    """Let all calls of RPC through again.

    Example: aiorocketmq fake ctl rate lift SendMessage
    """
    on_broker(connection, lambda broker: broker.limit_rate(rpc, None))


@rate.command(name="list")
@click.pass_obj
def list_rates(connection: Connection) -> None:
    """List the RPCs that are limited, with their calls per second.

    Example: aiorocketmq fake ctl rate list
    """
    on_broker(connection, lambda broker: broker.rates())
