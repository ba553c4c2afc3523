"""`aiorocketmq client`: who consumes in a group."""

from __future__ import annotations

import json

import click

from aiorocketmq.cli.admin import _as_json, _ask, _group_name, _server


@click.group()
def client() -> None:
    """Look at the clients of a server.

    Example: aiorocketmq client list --group billing --namesrv localhost:9876
    """


@client.command(name="list")
@click.option("--group", callback=_group_name, required=True, help="The consumer group.")
@_as_json
@_server
def list_clients(group: str, as_json: bool, namesrv: str | None, broker: str | None) -> None:
    """List the consumers that brokers know in a group; none is no error.

    Those behind a separate proxy (cluster mode) are known to that proxy only, and are not listed.

    Example: aiorocketmq client list --group billing
    """
    from dataclasses import asdict

    members = _ask(namesrv, broker, lambda admin: admin.clients(group))
    if as_json:
        click.echo(json.dumps([asdict(member) for member in members]))
        return
    for member in members:
        click.echo(f"{member.client_id} from {member.address}, {member.language}, on broker {member.broker}")
