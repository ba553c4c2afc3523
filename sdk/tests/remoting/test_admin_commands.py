"""`aiorocketmq topic` and `aiorocketmq group` against a scripted server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Protocol

import click
import pytest
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import RESPONSE, Frame
from aiorocketmq.admin import TopicType
from aiorocketmq.cli.admin import TYPES, group, topic
from aiorocketmq.cli.clients import client
from aiorocketmq.cli.program import run
from click.testing import CliRunner, Result


class Server(Protocol):
    address: Address
    seen: list[Frame]


Serve = Callable[[Callable[[Frame], "Frame | bytes | None"]], Awaitable[Server]]
BODIES: dict[int, object] = {
    106: {"brokerAddrTable": {}},
    105: {
        "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 3, "writeQueueNums": 2}],
        "brokerDatas": [],
    },
    201: {"subscriptionGroupTable": {"billing": {}, "CID_RMQ_SYS_TRANS": {}}},
    203: {
        "connectionSet": [
            {"clientAddr": "10.0.0.7:4711", "clientId": "host@1@a", "language": "PYTHON", "version": 513}
        ],
        "subscriptionTable": {},
    },
    206: {"topicList": ["orders", "TBW102", "%RETRY%billing", "rmq_sys_wheel_timer"]},
}


async def invoke(command: click.Command, *arguments: str) -> Result:
    # The command runs its own event loop, so it must not run on the server's.
    return await asyncio.to_thread(CliRunner().invoke, command, arguments)


@pytest.fixture
async def server(serve: Serve) -> Server:
    """A name server that is its own only broker."""
    made: list[Server] = []

    def reply(frame: Frame) -> Frame:
        body = BODIES.get(frame.code)
        if frame.code == 106:
            broker = {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": {"0": str(made[0].address)}}
            body = {"brokerAddrTable": {"broker-a": broker}}
        text = b"" if body is None else json.dumps(body).encode()
        return Frame(code=0, opaque=frame.opaque, flag=RESPONSE, body=text)

    made.append(await serve(reply))
    return made[0]


async def test_a_topic_is_created_with_type_and_queues(server: Server) -> None:
    result = await invoke(
        topic, "create", "orders", "--type", "fifo", "--queues", "3", "--namesrv", str(server.address)
    )
    assert (result.exit_code, result.output) == (0, "topic orders is there: FIFO, 3 queues on every broker\n")
    (request,) = [frame for frame in server.seen if frame.code == 17]
    assert (request.fields["attributes"], request.fields["readQueueNums"]) == ("+message.type=FIFO", "3")


async def test_a_group_is_created_on_a_broker_directly(server: Server) -> None:
    result = await invoke(
        group, "create", "billing", "--ordered", "--max-attempts", "3", "--broker", str(server.address)
    )
    assert (result.exit_code, result.output) == (0, "group billing is there: ordered, 3 attempts\n")
    assert [frame.code for frame in server.seen] == [200]


async def test_what_servers_make_for_themselves_is_listed_only_when_asked_for(server: Server) -> None:
    address = str(server.address)
    assert (await invoke(topic, "list", "--namesrv", address)).output == "orders\n"
    shown = await invoke(topic, "list", "--all", "--json", "--namesrv", address)
    assert json.loads(shown.output) == sorted(["orders", "TBW102", "%RETRY%billing", "rmq_sys_wheel_timer"])
    assert (await invoke(group, "list", "--namesrv", address)).output == "billing\n"


async def test_a_topic_is_described_by_its_queues(server: Server) -> None:
    address = str(server.address)
    told = (await invoke(topic, "describe", "orders", "--namesrv", address)).output
    assert told == "broker-a (no master): 3 queues to read, 2 to write\n"
    document = json.loads((await invoke(topic, "describe", "orders", "--json", "--namesrv", address)).output)
    assert document["queues"] == [{"broker": "broker-a", "address": "", "readable": 3, "writable": 2}]


async def test_topics_and_groups_are_deleted(server: Server) -> None:
    address = str(server.address)
    assert (await invoke(topic, "delete", "orders", "--namesrv", address)).output == "topic orders is gone\n"
    assert (
        await invoke(group, "delete", "billing", "--namesrv", address)
    ).output == "group billing is gone\n"
    assert [frame.code for frame in server.seen if frame.code != 106] == [215, 216, 207]


async def test_the_consumers_of_a_group_are_listed(server: Server) -> None:
    address = str(server.address)
    told = (await invoke(client, "list", "--group", "billing", "--namesrv", address)).output
    assert told == f"host@1@a from 10.0.0.7:4711, PYTHON, on broker {address}\n"
    document = json.loads(
        (await invoke(client, "list", "--group", "billing", "--json", "--broker", address)).output
    )
    (member,) = document
    assert (member["client_id"], member["address"], member["language"]) == (
        "host@1@a", "10.0.0.7:4711", "PYTHON"
    )  # fmt: skip
    assert (member["broker"], member["version"], member["subscriptions"]) == (address, 513, {})


async def test_a_group_without_consumers_is_no_error(serve: Serve) -> None:
    server = await serve(lambda frame: Frame(code=206, opaque=frame.opaque, flag=RESPONSE, remark="offline"))
    result = await invoke(client, "list", "--group", "billing", "--broker", str(server.address))
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topic", "create", "a b", "--broker", "h:1"], "topic 'a b' must consist of"),
        (["topic", "list", "--namesrv", "h:1", "--broker", "h:1"], "--namesrv or --broker, not both"),
        (["topic", "list", "--namesrv", "localhost"], "has no port"),
        (["topic", "create", "orders", "--type", "WRONG"], "WRONG"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_server_that_cannot_be_reached_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["group", "list", "--namesrv", "127.0.0.1:1"]) == 4
    assert "no connection to 127.0.0.1:1" in capsys.readouterr().err


def test_the_types_on_the_command_line_are_those_of_the_library() -> None:
    assert list(TYPES) == [each.value for each in TopicType]
