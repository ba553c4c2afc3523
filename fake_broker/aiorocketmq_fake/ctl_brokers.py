"""`aiorocketmq fake ctl`: stop, start, crash and partition the brokers of a running fake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient

__all__ = ["COMMANDS"]


@click.command()
@connected
def brokers(connection: Connection) -> None:
    """List the brokers of the cluster, their endpoints and states.

    Example: aiorocketmq fake ctl brokers
    """

    async def query(broker: FakeBrokerClient) -> object:
        return [
            {
                "name": one.name,
                "endpoint": one.endpoint,
                "is_running": one.is_running,
                "is_partitioned": one.is_partitioned,
                "is_paused": one.is_paused,
            }
            for one in await broker.brokers()
        ]

    on_broker(connection, query)


@click.command()
@connected
def restart(connection: Connection) -> None:
    """Stop and start the broker on its port; stored data is kept.

    Example: aiorocketmq fake ctl restart --broker broker-b
    """
    on_broker(connection, lambda broker: broker.restart())


@click.command()
@connected
def stop(connection: Connection) -> None:
    """Stop the broker gracefully; stored data is kept.

    Example: aiorocketmq fake ctl stop --broker broker-b
    """
    on_broker(connection, lambda broker: broker.stop())


@click.command()
@connected
def start(connection: Connection) -> None:
    """Start a broker that was stopped or has crashed, on the same port.

    Example: aiorocketmq fake ctl start --broker broker-b
    """
    on_broker(connection, lambda broker: broker.start())


@click.command()
@connected
def crash(connection: Connection) -> None:
    """Close the broker's port at once, in the middle of calls.

    Example: aiorocketmq fake ctl crash --broker broker-b
    """
    on_broker(connection, lambda broker: broker.crash())


@click.command()
@connected
def partition(connection: Connection) -> None:
    """Cut the broker off from all its clients: calls and frames hang until `heal`.

    Example: aiorocketmq fake ctl partition --broker broker-b
    """
    on_broker(connection, lambda broker: broker.partition())


@click.command()
@connected
def heal(connection: Connection) -> None:
    """End a partition.

    Example: aiorocketmq fake ctl heal
    """
    on_broker(connection, lambda broker: broker.heal())


@click.command()
@connected
def pause(connection: Connection) -> None:
    """Pause the broker, like a process after SIGSTOP, until `resume`.

    Example: aiorocketmq fake ctl pause --broker broker-b
    """
    on_broker(connection, lambda broker: broker.pause())


@click.command()
@connected
def resume(connection: Connection) -> None:
    """End a pause: timers that became due fire now.

    Example: aiorocketmq fake ctl resume
    """
    on_broker(connection, lambda broker: broker.resume())


COMMANDS = (brokers, restart, stop, start, crash, partition, heal, pause, resume)
