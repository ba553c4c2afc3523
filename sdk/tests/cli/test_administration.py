"""`aiorocketmq topic`, `group`, `client`, `message`, `send` and `receive` at the remoting port of a fake."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone

import click
import pytest
from aiorocketmq import Message, Producer
from aiorocketmq.cli.program import program, run
from aiorocketmq_fake import FakeBroker

from sdk.tests.cli.test_messages import Result, invoke


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeBroker]:
    """A fake that the variable of the command line names."""
    async with FakeBroker(remoting_port=0) as broker:
        monkeypatch.setenv("AIOROCKETMQ_ENDPOINT", f"namesrv://{broker.remoting_endpoint}")
        yield broker


async def done(*arguments: str) -> str:
    result = await invoke(*arguments)
    assert (result.exit_code, result.error) == (0, ""), result.error
    return result.output


def sentence(result: Result) -> str:
    (line,) = result.error.splitlines()
    return line


async def test_one_variable_serves_all_commands(broker: FakeBroker) -> None:
    await done("topic", "create", "orders", "--queues", "1")
    created = await done("group", "create", "billing", "--max-attempts", "3")
    assert created == "group billing exists: unordered, 3 attempts\n"
    await done("send", "orders", "a pair of shoes", "--tag", "paid", "--count", "3")
    (stored, *_) = broker.messages("orders")
    assert await done(
        "receive", "orders", "--group", "billing", "--max", "2", "--tags", "paid || open"
    ) == "".join(
        f"{message.message_id} queue 0 offset {message.offset}, tag paid\na pair of shoes\n"
        for message in broker.messages("orders")[:2]
    )
    (progress,) = json.loads(await done("group", "progress", "billing", "--json"))
    assert (progress["offset"], progress["lag"]) == (2, 1)
    assert (
        json.loads(await done("message", "describe", "orders", stored.message_id, "--json"))["tag"] == "paid"
    )
    assert await done("client", "list", "--group", "billing") == ""
    assert (await done("topic", "list"), await done("group", "list")) == ("orders\n", "billing\n")


async def test_progress_and_messages_are_narrowed_by_what_is_given(broker: FakeBroker) -> None:
    for topic in ("orders", "refunds"):
        await broker.create_topic(topic, queues=1)
        await done("send", topic, "x", "--count", "3")
        await done("receive", topic, "--group", "billing")
    for words, topics in ((), {"orders", "refunds"}), (("--topic", "refunds"), {"refunds"}):
        rows = json.loads(await done("group", "progress", "billing", *words, "--json"))
        assert {row["topic"] for row in rows} == topics
    first, second, _ = (message.message_id for message in broker.messages("orders"))
    listed = ("message", "list", "orders", "--json")
    rows = json.loads(await done(*listed, "--max", "2"))
    assert [row["message_id"] for row in rows] == [first, second]
    assert "attempt" not in rows[0], "nobody receives them"
    assert json.loads(await done(*listed, "--until", "2001-01-01T00:00")) == []
    assert len(json.loads(await done(*listed, "--since", "2001-01-01T00:00"))) == 3


async def test_what_is_read_at_name_servers_without_ack_is_read_again(broker: FakeBroker) -> None:
    await broker.create_topic("orders", queues=1)
    await done("send", "orders", "x", "--count", "2")
    for _ in range(2):
        await done("receive", "orders", "--group", "billing", "--max", "2", "--no-ack")
    assert await done("receive", "orders", "--group", "billing", "--max", "2") != ""
    silence = await invoke("receive", "orders", "--group", "billing", "--wait", "0.1")
    assert (silence.output, silence.error) == ("", "no message arrived within 0.1 s\n")


async def test_a_tag_passes_over_other_messages_at_name_servers(broker: FakeBroker) -> None:
    await broker.create_topic("orders", queues=1)
    for tag in ("paid", "open"):
        await done("send", "orders", tag, "--tag", tag)
    receive = ("receive", "orders", "--group", "billing", "--tags", "paid", "--max", "2", "--wait", "0.1")
    assert (await done(*receive)).splitlines()[1:] == ["paid"]
    (progress,) = json.loads(await done("group", "progress", "billing", "--json"))
    assert (progress["offset"], progress["lag"]) == (2, 0)


async def test_lite_topics_are_administered_through_the_remoting_port(broker: FakeBroker) -> None:
    await done("topic", "create", "chats", "--type", "lite", "--lite-expiration", "900")
    await done("topic", "alter", "chats", "--queues", "2")
    bound = ("--lite-topic", "chats", "--lite-quota", "3", "--lite-exclusive")
    await done("group", "create", "phones", *bound, "--no-consume", "--backoff", "1")
    await done("group", "alter", "phones", "--max-attempts", "5")
    (topic,), (group,) = broker.topics(), broker.groups()
    assert (topic.type, topic.lite_expiration, topic.read_queues) == ("LITE", 900.0, 2)
    assert (group.lite_topic, group.lite_quota, group.lite_exclusive) == ("chats", 3, True)
    assert (group.consume_enabled, group.backoff, group.max_attempts) == (False, (1.0,), 5)
    assert "chats" in await done("group", "describe", "phones")
    (settings,) = json.loads(await done("topic", "describe", "chats", "--json"))["settings"]
    assert settings["lite_expiration"] == 900


async def test_an_existing_one_is_left_alone_or_replaced(broker: FakeBroker) -> None:
    for kind, settings in (("topic", "--queues"), ("group", "--max-attempts")):
        await done(kind, "create", "new", settings, "2")
        assert "stays as it is" in await done(kind, "create", "new", settings, "3", "--if-not-exists")
    (topic,), (group,) = broker.topics(), broker.groups()
    assert (topic.read_queues, group.max_attempts) == (2, 2)
    for kind, settings in (("topic", "--queues"), ("group", "--max-attempts")):
        await done(kind, "create", "new", settings, "3")
    (topic,), (group,) = broker.topics(), broker.groups()
    assert (topic.read_queues, group.max_attempts) == (3, 3)
    for kind in ("topic", "group"):
        assert json.loads(await done(kind, "delete", "new", "--json")) == {kind: "new"}
    assert (broker.topics(), broker.groups()) == ((), ())


async def test_a_proxy_given_for_a_name_server_is_one_sentence(broker: FakeBroker) -> None:
    by_scheme = await invoke("topic", "create", "orders", "--endpoint", broker.endpoint)
    assert by_scheme.exit_code == 2
    assert f"endpoint '{broker.endpoint}' must be a name server, such as 'namesrv://" in sentence(by_scheme)
    by_protocol = await invoke("topic", "create", "orders", "--endpoint", f"namesrv://{broker.endpoint}")
    assert by_protocol.exit_code == 4
    assert "give the port of a name server (usually 9876)" in sentence(by_protocol)
    assert broker.topics() == ()


async def test_a_name_server_given_for_a_proxy_is_one_sentence(broker: FakeBroker) -> None:
    assert broker.remoting_endpoint is not None
    for words in (("send", "orders", "x"), ("receive", "orders", "--group", "billing")):
        result = await invoke(*words, "--endpoint", broker.remoting_endpoint)
        assert result.exit_code == 4
        assert "give the proxy's port, usually 8081" in sentence(result)


async def test_a_broker_given_for_name_servers_is_one_sentence(broker: FakeBroker) -> None:
    result = await invoke("topic", "list", "--endpoint", f"broker://{broker.remoting_endpoint}")
    assert (result.exit_code, "name servers answer this" in sentence(result)) == (2, True)


@pytest.mark.parametrize("scheme", ["", "namesrv://"])
async def test_a_server_that_cannot_be_reached_is_reported_once(scheme: str) -> None:
    result = await invoke("send", "orders", "x", "--endpoint", f"{scheme}127.0.0.1:1", "--timeout", "0.1")
    assert (result.exit_code, "127.0.0.1:1" in sentence(result)) == (4, True)


async def test_a_port_that_is_taken_is_reported_once(broker: FakeBroker) -> None:
    ports = ("--listen", broker.endpoint, "--control", "127.0.0.1:0")
    result = await invoke("fake", "serve", *ports, "--remoting-port", "0")
    assert (result.exit_code, "cannot listen on" in sentence(result)) == (4, True)
    assert broker.remoting_endpoint is not None
    port = broker.remoting_endpoint.rpartition(":")[2]
    result = await invoke(
        *("fake", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--remoting-port", port)
    )
    assert (result.exit_code, "give another remoting_port" in sentence(result)) == (4, True)


def leaves(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield names, command
        return
    assert "--json" not in [option for each in command.params for option in each.opts], names
    context = click.Context(command, **command.context_settings)
    for name in command.list_commands(context):
        member = command.get_command(context, name)
        assert member is not None
        yield from leaves(member, *names, name)


def test_every_command_that_prints_results_takes_json_itself() -> None:
    without = {
        names
        for names, command in leaves(program)
        if "--json" not in [option for each in command.params for option in each.opts]
    }
    assert without == {("demo",)}


def test_one_option_and_one_variable_name_the_server() -> None:
    servers = [
        option
        for names, command in leaves(program)
        for option in command.params
        if isinstance(option, click.Option) and option.name in {"endpoint", "namesrv", "proxy"}
        if names[0] != "conformance"
    ]
    assert {tuple(option.opts) for option in servers} == {("--endpoint",)}
    assert {option.envvar for option in servers} == {"AIOROCKETMQ_ENDPOINT"}


async def test_times_without_a_zone_are_local(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    await broker.create_topic("orders")
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    monkeypatch.setenv("TZ", "UTC-14")  # fourteen hours ahead
    (stored,) = broker.messages("orders")
    local = datetime.fromtimestamp(stored.stored_at, timezone(timedelta(hours=14))).replace(tzinfo=None)
    before, after = (local - timedelta(hours=1)).isoformat(), (local + timedelta(hours=1)).isoformat()
    assert len(json.loads(await done("message", "list", "orders", "--since", before, "--json"))) == 1
    assert json.loads(await done("message", "list", "orders", "--since", after, "--json")) == []


@pytest.mark.parametrize("text", ["yesterday", "0001-01-01T00:00+23:00"])
def test_a_time_that_cannot_be_read_is_one_sentence(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(["message", "list", "orders", "--since", text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"'{text}' is no time: write 2026-01-31T18:00, which is local" in line
