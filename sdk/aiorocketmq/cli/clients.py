"""`aiorocketmq client`: list the consumers and producers of a group."""

from __future__ import annotations

from collections.abc import Sequence

import click

from aiorocketmq.cli.admin_options import Masters, group_name, server_options
from aiorocketmq.cli.server import json_option


@click.group()
def client() -> None:
    """Look at the clients of a server.

    Example: aiorocketmq client list --group billing --endpoint namesrv://localhost:9876
    """


@client.command(name="list")
@click.option("--group", callback=group_name, help="The consumer group.")
@click.option(
    "--producer-group",
    callback=group_name,
    help="The producer group; for producers at gRPC addresses, the name of one of their topics.",
)
@json_option
@server_options
def list_clients(group: str | None, producer_group: str | None, as_json: bool, server: Masters) -> None:
    """List the consumers, or the producers, of a group that are connected to brokers; none is no error.

    Those behind a separate proxy (cluster mode) are known to that proxy only, and are not listed.

    \b
    Examples:
      aiorocketmq client list --group billing
      aiorocketmq client list --producer-group orders
    """
    from aiorocketmq.cli.tables import show

    if (group is None) == (producer_group is None):
        raise click.UsageError("give either --group or --producer-group")
    clients: Sequence[object]
    if group is not None:
        clients = server.ask(lambda admin: admin.clients(group))
    else:
        clients = server.ask(lambda admin: admin.producers(producer_group or ""))
    show(clients, as_json=as_json)
