"""`aiorocketmq fake ctl retention`: retention of a running fake broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient

__all__ = ["retention"]


@click.group()
def retention() -> None:
    """Set retention and simulated disk usage, or clean up now.

    Example: aiorocketmq fake ctl retention set --retention 3600
    """


@retention.command(name="set")
@click.option("--retention", type=float, help="Seconds from a message's store time.")
@click.option("--disk-used", type=float, help="Simulated disk usage, 0 to 1: above 0.9 sends are refused.")
@connected
def set_(connection: Connection, retention: float | None, disk_used: float | None) -> None:
    """Set how long messages are kept, or the simulated disk usage.

    Example: aiorocketmq fake ctl retention set --disk-used 0.95
    """
    on_broker(connection, lambda broker: _set(broker, retention, disk_used))


@retention.command()
@connected
def show(connection: Connection) -> None:
    """Show how long messages are kept, and the simulated disk usage.

    Example: aiorocketmq fake ctl retention show
    """
    on_broker(connection, lambda broker: _set(broker, None, None))


@retention.command()
@connected
def clean(connection: Connection) -> None:
    """Delete expired messages, at any hour.

    Example: aiorocketmq fake ctl retention clean
    """

    async def query(broker: FakeBrokerClient) -> object:
        return {"deleted": await broker.delete_expired()}

    on_broker(connection, query)


async def _set(broker: FakeBrokerClient, retention: float | None, disk_used: float | None) -> object:
    settings = await broker.set_retention(retention=retention, disk_used=disk_used)
    return {"retention": settings.retention, "disk_used": settings.disk_used, "stage": settings.stage.name}
