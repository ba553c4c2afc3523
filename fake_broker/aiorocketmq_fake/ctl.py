"""`aiorocketmq fake ctl`: control and inspect a running fake broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aiorocketmq_fake.ctl_brokers import COMMANDS
from aiorocketmq_fake.ctl_clients import client
from aiorocketmq_fake.ctl_connection import Connection, connected, on_broker as _run
from aiorocketmq_fake.ctl_rates import rate
from aiorocketmq_fake.ctl_retention import retention
from aiorocketmq_fake.ctl_users import user

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient

__all__ = ["ctl"]

DISTURBANCES = ("refuse", "fail", "delay", "lose", "drop_reply", "duplicate", "cut_stream")


@click.group()
def ctl() -> None:
    """Control and inspect a running fake broker: clock, faults, brokers, and what it holds.

    Topics, groups and messages are administered as those of servers: `aiorocketmq topic`, `group`, `client`, `message`.

    Example: aiorocketmq fake ctl clock advance --hours 2 --control 127.0.0.1:8082
    """


@ctl.command()
@connected
def describe(connection: Connection) -> None:
    """Show version, profile, endpoint and clock of the broker.

    Example: aiorocketmq fake ctl describe
    """

    async def query(broker: FakeBrokerClient) -> object:
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(await broker.describe(), preserving_proto_field_name=True)

    _run(connection, query)


@ctl.group()
def clock() -> None:
    """Show the broker's clock, or move it.

    Example: aiorocketmq fake ctl clock advance --hours 2
    """


@clock.command("show")
@connected
def show_clock(connection: Connection) -> None:
    """Show the broker's time, and the next deadline.

    Example: aiorocketmq fake ctl clock show
    """

    async def query(broker: FakeBrokerClient) -> object:
        return {"now": await broker.clock.now(), "next_deadline": await broker.clock.next_deadline()}

    _run(connection, query)


@clock.command()
@click.option("--seconds", default=0.0)
@click.option("--minutes", default=0.0)
@click.option("--hours", default=0.0)
@click.option("--patience", default=0.0, help="Real seconds to wait for consumers after each delivery.")
@click.option("--forget-clients", is_flag=True, help="Clients with an open stream expire, too.")
@connected
def advance(connection: Connection, /, **step: Any) -> None:
    """Move a manual clock; all timers due fire in order.

    Example: aiorocketmq fake ctl clock advance --minutes 30
    """

    # Any: click passes the options by name.
    async def move(broker: FakeBrokerClient) -> object:
        await broker.clock.advance(**step)
        return {"now": await broker.clock.now()}

    _run(connection, move)


@clock.command()
@click.argument("seconds", type=float)
@connected
def jump(connection: Connection, seconds: float) -> None:
    """Set the clock forward or back by SECONDS, as a machine's clock is set.

    Example: aiorocketmq fake ctl clock jump 3600
    """

    async def move(broker: FakeBrokerClient) -> object:
        await broker.clock.jump(seconds)
        return {"now": await broker.clock.now()}

    _run(connection, move)


@ctl.group()
def fault() -> None:
    """Inject faults into calls.

    Example: aiorocketmq fake ctl fault add AckMessage drop_reply --times 1
    """


@fault.command("add")
@click.argument("rpc")
@click.argument("disturbance", type=click.Choice(DISTURBANCES))
@click.option("--client-id")
@click.option("--topic")
@click.option("--group")
@click.option("--times", type=int, help="How many calls; by default all until removed.")
@click.option("--skip", default=0, help="How many matching calls to spare first.")
@click.option("--chance", type=click.FloatRange(0, 1), help="Probability for each call; by default always.")
@click.option("--code", help="refuse: a code by name or number.")
@click.option(
    "--status",
    default="UNAVAILABLE",
    help="fail, drop_reply, cut_stream: a gRPC status; over remoting connections break.",
)
@click.option("--seconds", default=0.0, help="delay: on the broker's clock.")
@click.option("--frames", default=0, help="cut_stream: how many frames to send first.")
@click.option("--hang", is_flag=True, help="drop_reply: no answer until the caller's own deadline.")
@connected
def add_fault(connection: Connection, /, rpc: str, disturbance: str, code: str | None, **rule: Any) -> None:
    """Inject a fault into calls of RPC (a name such as SendMessage or Remoting.PULL_MESSAGE, '*' or 'Remoting.*').

    Example: aiorocketmq fake ctl fault add SendMessage refuse --code TOO_MANY_REQUESTS --times 3
    """

    # Any: click passes the options by name.
    async def add(broker: FakeBrokerClient) -> object:
        from aiorocketmq_fake.edge.faults import Disturbance, FaultRule, code_number

        if (code is None) == (disturbance == "refuse"):
            raise ValueError(
                "refuse needs --code, and only refuse takes it: for example --code TOO_MANY_REQUESTS."
            )
        number = code_number(int(code) if code.isdigit() else code, rpc) if code else 0
        added = await broker.faults.add(FaultRule(rpc, Disturbance(disturbance), code=number, **rule))
        return {"number": added.number}

    _run(connection, add)


@fault.command("remove")
@click.argument("number", type=int)
@connected
def remove_fault(connection: Connection, number: int) -> None:
    """Remove a fault by its number.

    Example: aiorocketmq fake ctl fault remove 1
    """
    _run(connection, lambda broker: broker.faults.remove(number))


@fault.command("clear")
@connected
def clear_faults(connection: Connection) -> None:
    """Remove all faults.

    Example: aiorocketmq fake ctl fault clear
    """
    _run(connection, lambda broker: broker.faults.clear())


@fault.command("list")
@connected
def list_faults(connection: Connection) -> None:
    """List the active faults.

    Example: aiorocketmq fake ctl fault list
    """

    async def query(broker: FakeBrokerClient) -> object:
        from dataclasses import asdict

        return [
            {"number": number, "hits": hits, **asdict(rule)}
            for number, rule, hits in await broker.faults.at_work()
        ]

    _run(connection, query)


@fault.command("cut-streams")
@click.option("--client-id", help="Only this client's.")
@connected
def cut_streams(connection: Connection, client_id: str | None) -> None:
    """Break the open telemetry streams now.

    Example: aiorocketmq fake ctl fault cut-streams
    """

    async def cut(broker: FakeBrokerClient) -> object:
        return {"streams": await broker.cut_streams(client_id)}

    _run(connection, cut)


@ctl.group()
def inspect() -> None:
    """Inspect what the broker holds.

    Example: aiorocketmq fake ctl inspect deliveries --topic orders --json
    """


@inspect.command()
@click.option("--topic")
@click.option("--group")
@connected
def deliveries(connection: Connection, topic: str | None, group: str | None) -> None:
    """List past deliveries, oldest first.

    Example: aiorocketmq fake ctl inspect deliveries --group billing
    """
    _run(connection, lambda broker: broker.deliveries(topic, group=group), hidden=("message",))


@inspect.command("dead-letters")
@click.argument("group")
@connected
def dead_letters(connection: Connection, group: str) -> None:
    """List the dead letters of a group.

    Example: aiorocketmq fake ctl inspect dead-letters billing
    """
    _run(connection, lambda broker: broker.dead_letters(group))


@inspect.command()
@click.argument("topic")
@connected
def messages(connection: Connection, topic: str) -> None:
    """List the stored messages of a topic.

    Example: aiorocketmq fake ctl inspect messages orders
    """
    _run(connection, lambda broker: broker.messages(topic))


@inspect.command("lite-topics")
@click.argument("topic")
@connected
def lite_topics(connection: Connection, topic: str) -> None:
    """List the lite topics below a parent, with the number of messages in each.

    Example: aiorocketmq fake ctl inspect lite-topics chats
    """
    _run(connection, lambda broker: broker.lite_topics(topic))


@inspect.command()
@connected
def clients(connection: Connection) -> None:
    """List the clients with stored settings.

    Example: aiorocketmq fake ctl inspect clients
    """
    _run(connection, lambda broker: broker.clients())


@inspect.command()
@click.option("--group")
@connected
def leases(connection: Connection, group: str | None) -> None:
    """List the messages in flight.

    Example: aiorocketmq fake ctl inspect leases
    """
    _run(connection, lambda broker: broker.leases(group))


@inspect.command()
@click.option("--group")
@connected
def progress(connection: Connection, group: str | None) -> None:
    """List the progress of groups, queue by queue.

    Example: aiorocketmq fake ctl inspect progress --group billing
    """
    _run(connection, lambda broker: broker.progress(group))


@inspect.command()
@click.option("--group")
@connected
def orders(connection: Connection, group: str | None) -> None:
    """List what blocks ordered groups.

    Example: aiorocketmq fake ctl inspect orders
    """
    _run(connection, lambda broker: broker.order_records(group))


@inspect.command()
@connected
def totals(connection: Connection) -> None:
    """Count what the broker holds.

    Example: aiorocketmq fake ctl inspect totals
    """

    async def count(broker: FakeBrokerClient) -> object:
        from dataclasses import asdict

        return asdict(await broker.totals())

    _run(connection, count)


for command in COMMANDS:
    ctl.add_command(command)
ctl.add_command(client)
ctl.add_command(retention)
ctl.add_command(rate)
ctl.add_command(user)
