"""`aiorocketmq topic`, `group`, `client` and `message` against a scripted server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import click
import pytest
from aiorocketmq.admin import TopicType
from aiorocketmq.cli.admin import group, message, topic
from aiorocketmq.cli.clients import client
from aiorocketmq.cli.program import run
from aiorocketmq.cli.topics import TYPES
from click.testing import CliRunner, Result

from sdk.tests.core.remoting.encoding import encode_records
from sdk.tests.remoting.brokers import FIRST, Broker, reply, table
from sdk.tests.remoting.script import Serve, Server
from sdk.tests.remoting.test_admin_messages import stored


async def invoke(command: click.Command, *arguments: str) -> Result:
    # The command runs its own event loop, so it must not run on the server's.
    return await asyncio.to_thread(CliRunner().invoke, command, arguments)


@pytest.fixture
def broker() -> Broker:
    """A broker with a topic and a group, whose changes can be looked at."""
    return Broker(
        members={"host@1@a": table({FIRST: {}}, "mqTable")},
        answers={
            206: lambda frame: reply(
                frame, body={"topicList": ["orders", "TBW102", "%RETRY%billing", "rmq_sys_wheel_timer"]}
            ),
            207: reply,
            215: reply,
            216: reply,
        },
    )


@pytest.fixture
async def server(serve: Serve, broker: Broker) -> Server:
    """A name server that is its own only broker."""
    server = await serve(broker)
    broker.address = str(server.address)
    return server


def lines(result: Result) -> list[list[str]]:
    """The cells of a table, its head included."""
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.output.splitlines()]


async def test_a_topic_is_created_with_type_and_queues(server: Server) -> None:
    result = await invoke(
        topic,
        "create",
        "orders",
        "--type",
        "fifo",
        "--queues",
        "3",
        "--endpoint",
        f"namesrv://{server.address}",
    )
    assert (result.exit_code, result.output) == (0, "topic orders exists: FIFO, 3 queues on every broker\n")
    (request,) = [frame for frame in server.seen if frame.code == 17]
    assert (request.fields["attributes"], request.fields["readQueueNums"]) == ("+message.type=FIFO", "3")


async def test_a_group_is_created_on_a_broker_directly(server: Server) -> None:
    result = await invoke(
        group,
        "create",
        "billing",
        "--ordered",
        "--max-attempts",
        "3",
        "--endpoint",
        f"broker://{server.address}",
    )
    assert (result.exit_code, result.output) == (0, "group billing exists: ordered, 3 attempts\n")
    assert [frame.code for frame in server.seen] == [200]


async def test_what_servers_make_for_themselves_is_listed_only_when_asked_for(
    server: Server, broker: Broker
) -> None:
    address = str(server.address)
    assert (await invoke(topic, "list", "--endpoint", f"namesrv://{address}")).output == "orders\n"
    shown = await invoke(topic, "list", "--json", "--endpoint", f"namesrv://{address}")
    assert json.loads(shown.output) == ["orders"]
    shown = await invoke(topic, "list", "--all", "--json", "--endpoint", f"namesrv://{address}")
    assert json.loads(shown.output) == sorted(["orders", "TBW102", "%RETRY%billing", "rmq_sys_wheel_timer"])
    groups: dict[str, dict[str, object]] = {"billing": {}, "CID_RMQ_SYS_TRANS": {}}
    broker.answers[201] = lambda frame: reply(frame, body={"subscriptionGroupTable": groups})
    assert (await invoke(group, "list", "--endpoint", f"namesrv://{address}")).output == "billing\n"


async def test_a_topic_is_described_by_its_settings_and_queues(server: Server) -> None:
    address = str(server.address)
    assert lines(await invoke(topic, "describe", "orders", "--endpoint", f"namesrv://{address}")) == [
        ["broker", "type", "read_queues", "write_queues", "readable", "writable"],
        [address, "FIFO", "2", "2", "yes", "yes"],
        [],
        ["topic", "broker", "queue", "min_offset", "max_offset", "earliest", "latest"],
        [
            "orders",
            "broker-a",
            "0",
            "1",
            "9",
            "2023-11-14T22:13:20.000+00:00",
            "2023-11-14T22:13:20.500+00:00",
        ],
        ["orders", "broker-a", "1", "0", "0", "-", "-"],
    ]
    document = json.loads(
        (await invoke(topic, "describe", "orders", "--json", "--endpoint", f"broker://{address}")).output
    )
    assert document["settings"][0]["type"] == "FIFO"
    assert document["queues"][1] == {
        "topic": "orders", "broker": "broker-a", "queue": 1, "min_offset": 0, "max_offset": 0,
        "earliest": None, "latest": None,
    }  # fmt: skip


async def test_topics_and_groups_are_altered(server: Server, broker: Broker) -> None:
    address = str(server.address)
    altered = await invoke(
        topic, "alter", "orders", "--queues", "3", "--not-writable", "--endpoint", f"broker://{address}"
    )
    assert altered.output == "topic orders is altered\n"
    backoff = ("--backoff", "1", "--backoff", "30")
    altered = await invoke(
        group, "alter", "billing", "--no-consume", *backoff, "--endpoint", f"broker://{address}"
    )
    assert altered.output == "group billing is altered\n"
    await invoke(topic, "alter", "orders", "--not-readable", "--endpoint", f"broker://{address}")
    first, second, third = broker.changes
    assert (first.fields["readQueueNums"], first.fields["perm"], third.fields["perm"]) == ("3", "5", "1")
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 30000]}}
    assert json.loads(second.body) == {
        "groupName": "billing", "retryMaxTimes": 16, "consumeEnable": False, "groupRetryPolicy": policy
    }  # fmt: skip


async def test_a_group_is_described(server: Server, broker: Broker) -> None:
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2500]}}
    broker.group["groupRetryPolicy"] = policy
    address = str(server.address)
    assert lines(await invoke(group, "describe", "billing", "--endpoint", f"broker://{address}"))[1] == [
        address, "no", "17", "1", "2.5", "yes"
    ]  # fmt: skip


async def test_progress_is_shown_with_owners(server: Server) -> None:
    address = str(server.address)
    assert lines(await invoke(group, "progress", "billing", "--endpoint", f"broker://{address}")) == [
        ["topic", "broker", "queue", "offset", "max_offset", "lag", "consumed_at", "client_id"],
        ["orders", "broker-a", "0", "4", "9", "5", "2023-11-14T22:13:20.250+00:00", "host@1@a"],
        ["orders", "broker-a", "1", "0", "9", "9", "2023-11-14T22:13:20.250+00:00", "-"],
    ]
    shown = await invoke(
        group, "progress", "billing", "--topic", "orders", "--json", "--endpoint", f"broker://{address}"
    )
    assert [row["lag"] for row in json.loads(shown.output)] == [5, 9]


@pytest.mark.parametrize(
    ("arguments", "moved"),
    [
        (["--to", "end"], [["0", "1"], ["1", "2"]]),
        (["--to", "2026-01-31T18:00:00Z"], [["0", "1"], ["1", "2"]]),
        (["--offset", "broker-a/0=7"], [["0", "7"]]),
        (["--offset", "broker-a/1=0", "--offset", "broker-a/0=7"], [["0", "7"], ["1", "0"]]),
        (["--to", "beginning", "--only-back"], [["0", "1"]]),
    ],
)
async def test_a_group_is_reset(server: Server, arguments: Sequence[str], moved: list[list[str]]) -> None:
    address = str(server.address)
    shown = lines(
        await invoke(group, "reset", "billing", "orders", *arguments, "--endpoint", f"broker://{address}")
    )
    assert [row[2:] for row in shown[1:]] == moved


async def test_messages_are_listed_and_described_with_control_characters_escaped(
    server: Server, broker: Broker
) -> None:
    record = stored(3, "KEYS\x01a\x02UNIQ_KEY\x01M\x1b[2J\x02color\x01red\x07", body=b"\x1b[31mhi\nyou")
    broker.answers[12] = lambda frame: reply(frame, body=encode_records([record]))
    address = str(server.address)
    shown = await invoke(message, "list", "orders", "--key", "a", "--endpoint", f"broker://{address}")
    assert lines(shown)[1][:5] == ["M\\u001b[2J", "broker-a", "0", "3", "a"]
    shown = await invoke(message, "describe", "orders", "M\x1b[2J", "--endpoint", f"broker://{address}")
    assert shown.exit_code == 0
    assert "body: \\u001b[31mhi you\n" in shown.output
    assert "properties: color: red\\u0007\n" in shown.output
    assert "corruption: its CRC32 digest" in shown.output
    shown = await invoke(
        message, "list", "orders", "--key", "a", "--json", "--endpoint", f"broker://{address}"
    )
    (row,) = json.loads(shown.output)
    assert (row["message_id"], row["body"]) == ("M\x1b[2J", "\x1b[31mhi\nyou")
    assert row["stored_at"] == "2023-11-14T22:13:23.000+00:00"


async def test_names_of_servers_are_escaped(serve: Serve) -> None:
    names = ["plain", "bad\x1b[31m"]
    server = await serve(
        lambda frame: reply(frame, body={"subscriptionGroupTable": {name: {} for name in names}})
    )
    shown = await invoke(group, "list", "--endpoint", f"broker://{server.address}")
    assert shown.output == "bad\\u001b[31m\nplain\n"


async def test_topics_and_groups_are_deleted(server: Server) -> None:
    address = str(server.address)
    assert (
        await invoke(topic, "delete", "orders", "--endpoint", f"namesrv://{address}")
    ).output == "topic orders is deleted\n"
    assert (
        await invoke(group, "delete", "billing", "--endpoint", f"namesrv://{address}")
    ).output == "group billing is deleted\n"
    assert [frame.code for frame in server.seen if frame.code != 106] == [215, 216, 207]


async def test_the_consumers_of_a_group_are_listed(server: Server) -> None:
    address = str(server.address)
    head, row = lines(
        await invoke(client, "list", "--group", "billing", "--endpoint", f"namesrv://{address}")
    )
    assert (head[0], row[:5]) == ("client_id", ["host@1@a", "10.0.0.7:4711", "JAVA", address, "513"])
    shown = await invoke(client, "list", "--group", "billing", "--json", "--endpoint", f"broker://{address}")
    (member,) = json.loads(shown.output)
    assert member["subscriptions"] == {"orders": "paid || refunded"}


async def test_the_producers_of_a_group_are_listed(server: Server, broker: Broker) -> None:
    connection = {"clientId": "shop-1", "clientAddr": "10.0.0.8:4711", "language": "JAVA", "version": 513}
    broker.answers[204] = lambda frame: reply(frame, body={"connectionSet": [connection]})
    shown = await invoke(
        client, "list", "--producer-group", "shop", "--endpoint", f"broker://{server.address}"
    )
    assert lines(shown)[1][0] == "shop-1"


async def test_a_group_without_consumers_is_no_error(serve: Serve) -> None:
    server = await serve(lambda frame: reply(frame, 206))
    result = await invoke(client, "list", "--group", "billing", "--endpoint", f"broker://{server.address}")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topic", "create", "a b", "--endpoint", "broker://h:1"], "topic 'a b' must consist of"),
        (["topic", "list", "--endpoint", "h:8081"], "a proxy's gRPC port has no administration"),
        (["topic", "list", "--endpoint", "namesrv://localhost"], "9876 a name server's"),
        (["topic", "create", "orders", "--type", "WRONG"], "WRONG"),
        (["group", "progress", "billing", "--topic", "a b"], "topic 'a b' must consist of"),
        (["group", "reset", "billing", "orders"], "either --to or --offset"),
        (
            ["group", "reset", "billing", "orders", "--to", "end", "--offset", "b/0=1"],
            "either --to or --offset",
        ),
        (["group", "reset", "billing", "orders", "--to", "tomorrow"], "'tomorrow' is no time: write 2026"),
        (["group", "reset", "billing", "orders", "--offset", "b/0"], "--offset takes BROKER/QUEUE=OFFSET"),
        (["group", "reset", "billing", "orders", "--offset", "0=5"], "--offset takes BROKER/QUEUE=OFFSET"),
        (["client", "list"], "either --group or --producer-group"),
        (["client", "list", "--group", "a", "--producer-group", "b"], "either --group or --producer-group"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_server_that_cannot_be_reached_is_exit_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["group", "list", "--endpoint", "namesrv://127.0.0.1:1"]) == 4
    assert "no connection to 127.0.0.1:1" in capsys.readouterr().err


def test_the_types_on_the_command_line_are_those_of_the_library() -> None:
    assert list(TYPES) == [each.value for each in TopicType]
