"""`aiorocketmq fake`: run a fake broker, and control a running one (`ctl`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aiorocketmq_fake.ctl import ctl
from aiorocketmq_fake.ctl_connection import other_side

__all__ = ["fake"]


@click.group()
def fake() -> None:
    """Run a fake RocketMQ broker, and control a running one.

    Example: aiorocketmq fake serve --topic orders --group billing
    """


@fake.command()
@click.option(
    "--listen",
    default="127.0.0.1:8081",
    show_default=True,
    metavar="HOST:PORT",
    help="HOST:PORT for clients.",
)
@click.option(
    "--advertise",
    metavar="HOST",
    help="Host in routes, for clients behind NAT or a container's port mapping; ports must be mapped to themselves.",
)
@click.option(
    "--control",
    default="127.0.0.1:8082",
    show_default=True,
    metavar="HOST:PORT",
    help="HOST:PORT of the control service, for `fake ctl`.",
)
@click.option(
    "--profile", default="documented", show_default=True, help="documented, apache-5.5 or apache-5.5-cluster."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a setting, as in a server's broker.conf; may be repeated. `fake settings` lists them.",
)
@click.option("--clock", type=click.Choice(["real", "manual"]), default="real", show_default=True)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME[:TYPE[:QUEUES]]",
    help="Create a topic; may be repeated.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME[:ordered][:ATTEMPTS]",
    help="Create a consumer group; may be repeated.",
)
@click.option(
    "--tls-certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Serve TLS (PEM chain).",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Key of the certificate."
)
@click.option(
    "--tls-self-made",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Serve TLS with a generated certificate; write its root for clients to this file.",
)
@click.option(
    "--tls-also-plain", is_flag=True, help="Accept plain connections on the same port, too, as Apache's does."
)
@click.option(
    "--tls-client-trust",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Require client certificates issued under one of these (PEM).",
)
@click.option(
    "--tls-client-certificate",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="With --tls-self-made: require a client certificate, generated into this file with its key.",
)
@click.option(
    "--users",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML file of users; every call must be signed by one of them.",
)
@click.option(
    "--rate",
    "rates",
    multiple=True,
    metavar="RPC=PER_SECOND",
    help="Limit an RPC to so many calls per second; may be repeated.",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of a recording (Parquet).",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data folder: nothing is acknowledged before it is on disk, and the next start continues from it.",
)
@click.option(
    "--data-memory",
    default=64,
    show_default=True,
    metavar="MIB",
    type=click.IntRange(min=1),
    help="With --data: memory for stored messages; the others are read from disk.",
)
@click.option("--repair", is_flag=True, help="With --data: keep what can be read of damaged data.")
@click.option(
    "--event-log",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Append every event to this file, one line of JSON each.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="HOST:PORT of metrics for Prometheus (needs the extra metrics)."
)
@click.option(
    "--brokers",
    default=1,
    show_default=True,
    type=click.IntRange(1, 26),
    help="Number of brokers in one route; all but the first listen on free ports.",
)
@click.option(
    "--remoting-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Port of the classic remoting protocol, for namesrv://HOST:PORT and `aiorocketmq topic`, `group` …; 0 picks "
    "a free one. Default: 9876, or 0 if --listen has port 0.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of all random choices.")
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the ready line as JSON here.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as JSON.")
def serve(**options: Any) -> None:
    """Serve until SIGINT or SIGTERM; once calls are accepted, print one line.

    It is `ready grpc=HOST:PORT remoting=HOST:PORT control=HOST:PORT …`: addresses of clients, of name server and
    broker, and of `fake ctl`.

    Port 0 picks a free port.

    Example: aiorocketmq fake serve --listen 127.0.0.1:0 --topic orders:FIFO:8 --group billing:ordered
    Example: aiorocketmq fake serve --data ./kept --data-memory 256 --brokers 3
    """
    # Any: click passes the options by name; `serving.Options` types them.
    import asyncio

    from aiorocketmq_fake.serving import Options, run

    try:
        asyncio.run(run(Options(**options)))
    except ValueError as wrong:
        raise click.UsageError(str(wrong)) from wrong
    except OSError as failed:
        raise other_side(str(failed)) from failed


@fake.command()
@click.option("--profile", default="apache-5.5", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settings(profile: str, as_json: bool) -> None:
    """List the settings of `fake serve --set`: server name, name here, allowed values, value in a profile.

    Example: aiorocketmq fake settings --profile apache-5.5
    """
    from aiorocketmq_fake.core.values.profiles import PROFILES
    from aiorocketmq_fake.printing import show
    from aiorocketmq_fake.settings import listed

    if profile not in PROFILES:
        raise click.UsageError(f"--profile must be one of {', '.join(sorted(PROFILES))}, got {profile!r}")
    show(listed(PROFILES[profile]), as_json=as_json)


fake.add_command(ctl)
