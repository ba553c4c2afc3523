"""`aiorocketmq fake ctl topic` and `group`: topics and groups of a running fake broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aiorocketmq_fake.ctl_connection import Connection, on_broker

if TYPE_CHECKING:
    from aiorocketmq_fake.client import FakeBrokerClient

__all__ = ["group", "topic"]

Command = TypeVar("Command", bound=Callable[..., object])


def _settings(*parameters: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine click parameters into one decorator."""

    def add(command: Command) -> Command:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return add


_TOPIC_SETTINGS: Callable[[Command], Command] = _settings(
    click.argument("name"),
    click.option("--type", default="NORMAL", show_default=True),
    click.option("--queues", default=4, show_default=True),
    click.option(
        "--lite-expiration", type=float, help="LITE: seconds without writes after which lite topics expire."
    ),
    click.option("--lite-limit", default=0, help="LITE: maximal number of lite topics; 0: no limit."),
)
_GROUP_SETTINGS: Callable[[Command], Command] = _settings(
    click.argument("name"),
    click.option("--ordered", is_flag=True),
    click.option("--max-attempts", default=17, show_default=True),
    click.option(
        "--no-consume", "consume_enabled", flag_value=False, default=True, help="The group receives nothing."
    ),
    click.option(
        "--lite-topic", default="", help="The parent topic of the lite topics that the group consumes."
    ),
    click.option(
        "--lite-quota",
        default=0,
        help="Lite topics that one client may subscribe to; 0: the profile's number.",
    ),
    click.option("--lite-exclusive", is_flag=True, help="A lite topic has one subscriber at a time."),
)
_IF_NOT_EXISTS = click.option(
    "--if-not-exists", is_flag=True, help="Leave an existing one of that name as it is."
)


@click.group()
def topic() -> None:
    """Create, delete and list topics.

    Example: aiorocketmq fake ctl topic create orders --type FIFO --queues 8
    """


@topic.command("create")
@_TOPIC_SETTINGS
@_IF_NOT_EXISTS
@click.pass_obj
def create_topic(connection: Connection, /, name: str, if_not_exists: bool, **settings: Any) -> None:
    """Create a topic.

    Example: aiorocketmq fake ctl topic create orders --type FIFO --queues 8 --if-not-exists
    """

    # Any: click passes the options by name.
    async def create(broker: FakeBrokerClient) -> object:
        if not (if_not_exists and name in {topic.name for topic in await broker.topics()}):
            await broker.create_topic(name, **settings)
        return None

    on_broker(connection, create)


@topic.command("update")
@_TOPIC_SETTINGS
@click.pass_obj
def update_topic(connection: Connection, /, name: str, **settings: Any) -> None:
    """Replace a topic's settings; omitted ones get their defaults. Its messages stay.

    Example: aiorocketmq fake ctl topic update orders --type FIFO --queues 16
    """
    # Any: click passes the options by name.
    on_broker(connection, lambda broker: broker.update_topic(name, **settings))


@topic.command("lite")
@click.argument("name")
@click.pass_obj
def list_lite_topics(connection: Connection, name: str) -> None:
    """List the lite topics below a parent, with the number of messages in each.

    Example: aiorocketmq fake ctl topic lite chats
    """
    on_broker(connection, lambda broker: broker.lite_topics(name))


@topic.command("delete")
@click.argument("name")
@click.pass_obj
def delete_topic(connection: Connection, name: str) -> None:
    """Delete a topic and its messages.

    Example: aiorocketmq fake ctl topic delete orders
    """
    on_broker(connection, lambda broker: broker.delete_topic(name))


@topic.command("list")
@click.pass_obj
def list_topics(connection: Connection) -> None:
    """List all topics.

    Example: aiorocketmq fake ctl topic list
    """
    on_broker(connection, lambda broker: broker.topics())


@click.group()
def group() -> None:
    """Create, delete and list consumer groups.

    Example: aiorocketmq fake ctl group create billing --ordered
    """


@group.command("create")
@_GROUP_SETTINGS
@_IF_NOT_EXISTS
@click.pass_obj
def create_group(connection: Connection, /, name: str, if_not_exists: bool, **settings: Any) -> None:
    """Create a consumer group.

    Example: aiorocketmq fake ctl group create billing --max-attempts 3 --if-not-exists
    """

    # Any: click passes the options by name.
    async def create(broker: FakeBrokerClient) -> object:
        if not (if_not_exists and name in {group.name for group in await broker.groups()}):
            await broker.create_group(name, **settings)
        return None

    on_broker(connection, create)


@group.command("update")
@_GROUP_SETTINGS
@click.pass_obj
def update_group(connection: Connection, /, name: str, **settings: Any) -> None:
    """Replace a group's settings; omitted ones get their defaults. Its progress stays.

    Example: aiorocketmq fake ctl group update billing --max-attempts 5
    """
    # Any: click passes the options by name.
    on_broker(connection, lambda broker: broker.update_group(name, **settings))


@group.command("delete")
@click.argument("name")
@click.pass_obj
def delete_group(connection: Connection, name: str) -> None:
    """Delete a consumer group.

    Example: aiorocketmq fake ctl group delete billing
    """
    on_broker(connection, lambda broker: broker.delete_group(name))


@group.command("list")
@click.pass_obj
def list_groups(connection: Connection) -> None:
    """List all consumer groups.

    Example: aiorocketmq fake ctl group list
    """
    on_broker(connection, lambda broker: broker.groups())
