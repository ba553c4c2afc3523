"""`aiorocketmq fake ctl user`: users of a running fake broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient

__all__ = ["user"]


@click.group()
def user() -> None:
    """Manage the users of the broker. From the first user on every call must be signed.

    Example: aiorocketmq fake ctl user put users.toml
    """


@user.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@connected
def put(connection: Connection, file: Path) -> None:
    """Add the users of a TOML file, or replace those with the same access keys.

    Example: aiorocketmq fake ctl user put users.toml
    """

    async def each(broker: FakeBrokerClient) -> object:
        from aiorocketmq_fake.user_files import read_users

        for one in read_users(file):
            await broker.put_user(one)
        return None

    on_broker(connection, each)


@user.command()
@click.argument("key", metavar="ACCESS_KEY")
@connected
def remove(connection: Connection, key: str) -> None:
    """Remove a user; calls stay checked.

    Example: aiorocketmq fake ctl user remove app
    """
    on_broker(connection, lambda broker: broker.remove_user(key))


@user.command(name="list")
@connected
def list_users(connection: Connection) -> None:
    """List the users without their secrets.

    Example: aiorocketmq fake ctl user list
    """
    on_broker(connection, lambda broker: broker.users())
