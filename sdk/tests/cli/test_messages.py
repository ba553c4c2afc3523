"""`aiorocketmq send` and `receive` against a fake broker, as they are typed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from aiorocketmq import Message, Producer
from aiorocketmq.cli.program import run
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.edge.tls import ServerTls

from sdk.tests.waiting import until


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(remoting_port=0) as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_topic("fifo", type="FIFO", queues=1)
        await broker.create_topic("reminders", type="DELAY", queues=1)
        await broker.create_group("billing")
        await broker.create_group("numbers")
        yield broker


@dataclass(frozen=True)
class Result:
    exit_code: int
    output: str
    error: str


async def invoke(*arguments: str, typed: bytes | None = None) -> Result:
    """Run the program in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "from aiorocketmq.cli import main; main()", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, error = await process.communicate(typed)
    return Result(process.returncode or 0, output.decode(), error.decode())


async def test_a_message_is_sent_with_all_that_it_carries(broker: FakeBroker) -> None:
    result = await invoke(
        *(
            "send",
            "orders",
            "shoes",
            "--tag",
            "paid",
            "--key",
            "42",
            "--key",
            "43",
            "--property",
            "source=web=1",
        ),
        *("--endpoint", broker.endpoint),
    )
    assert result.exit_code == 0, result.error
    (stored,) = broker.messages("orders")
    assert (stored.body, stored.tag, stored.keys) == (b"shoes", "paid", ("42", "43"))
    assert stored.properties == {"source": "web=1"}
    assert result.output == f"{stored.message_id} offset 0 at {broker.endpoint}\n"


async def test_the_body_may_come_from_standard_input_whole_or_by_lines(broker: FakeBroker) -> None:
    await invoke("send", "orders", "--endpoint", broker.endpoint, typed=b"\xff\n1")
    lines = ("send", "orders", "--lines", "--tag", "paid", "--key", "42", "--endpoint", broker.endpoint)
    await invoke(*lines, typed=b" a \n\nb\r\n")
    whole, *each = broker.messages("orders")
    assert (whole.body, whole.tag) == (b"\xff\n1", "")
    assert [(line.body, line.tag, line.keys) for line in each] == [
        (b" a ", "paid", ("42",)),
        (b"b", "paid", ("42",)),
    ]


async def test_every_kind_of_message_can_be_sent_and_often(broker: FakeBroker) -> None:
    for arguments in (
        ("fifo", "x", "--message-group", "a", "--count", "3"),
        ("reminders", "x", "--delay", "60"),
    ):
        result = await invoke("send", *arguments, "--json", "--endpoint", broker.endpoint)
        assert result.exit_code == 0, result.error
    assert len(broker.messages("fifo")) == 3
    (receipt,) = [json.loads(line) for line in result.output.splitlines()]
    assert receipt["recall_handle"]


async def test_a_receipt_in_json_counts_the_attempts(broker: FakeBroker) -> None:
    with broker.faults.refuse("SendMessage", "INTERNAL_ERROR", times=1):
        result = await invoke("send", "orders", "x", "--json", "--endpoint", broker.endpoint)
    (stored,) = broker.messages("orders")
    assert json.loads(result.output) == {
        "message_id": stored.message_id,
        "topic": "orders",
        "offset": 0,
        "attempts": 2,
        "recall_handle": None,
        "endpoint": broker.endpoint,
    }


async def test_priority_and_lite_topic_are_options(broker: FakeBroker) -> None:
    await broker.create_topic("urgent", type="PRIORITY", queues=1)
    await broker.create_topic("chats", type="LITE", queues=1)
    for arguments in (("urgent", "x", "--priority", "7"), ("chats", "x", "--lite-topic", "ann")):
        result = await invoke("send", *arguments, "--endpoint", broker.endpoint)
        assert result.exit_code == 0, result.error
    (urgent,), (chat,) = broker.messages("urgent"), broker.messages("chats")
    assert (urgent.type, chat.type) == ("PRIORITY", "LITE")


async def test_received_messages_are_hidden_for_as_long_as_is_given(broker: FakeBroker) -> None:
    await invoke("send", "orders", "shoes", "--endpoint", broker.endpoint)
    broker.faults.refuse("AckMessage", "FORBIDDEN")
    receive = ("receive", "orders", "--group", "billing", "--invisible", "600")
    result = await invoke(*receive, "--endpoint", broker.endpoint)
    assert result.exit_code == 4
    (lease,) = broker.leases("billing")
    assert 500 < lease.ends_at - broker.clock.now() <= 600


async def test_messages_are_received_printed_and_acknowledged(broker: FakeBroker) -> None:
    await invoke(
        *("send", "orders", "shoes", "--tag", "paid", "--key", "42", "--key", "43", "--property", "a=b"),
        *("--endpoint", broker.endpoint),
    )
    result = await invoke("receive", "orders", "--group", "billing", "--endpoint", broker.endpoint)
    assert result.exit_code == 0, result.error
    (message_id,) = [message.message_id for message in broker.messages("orders")]
    assert result.output == f"{message_id} attempt 1, queue 0 offset 0, tag paid, keys 42 43, a=b\nshoes\n"
    assert broker.leases("billing") == ()


async def test_an_ordered_message_is_printed_with_its_group(broker: FakeBroker) -> None:
    await broker.create_group("steps", ordered=True)
    await invoke("send", "fifo", "x", "--message-group", "g", "--endpoint", broker.endpoint)
    receive = ("receive", "fifo", "--group", "steps", "--no-ack", "--endpoint", broker.endpoint)
    result = await invoke(*receive)
    (stored,) = broker.messages("fifo")
    assert result.output == f"{stored.message_id} attempt 1, queue 0 offset 0, group g\nx\n"
    row = json.loads((await invoke(*receive, "--json")).output)
    assert (row["message_id"], row["message_group"]) == (stored.message_id, "g")


async def test_json_has_what_the_sender_added_and_when(broker: FakeBroker) -> None:
    broker.clock.jump(3600)
    sending = ("send", "orders", "x", "--tag", "paid", "--key", "42", "--property", "a=b")
    await invoke(*sending, "--endpoint", broker.endpoint)
    result = await invoke("receive", "orders", "--group", "billing", "--json", "--endpoint", broker.endpoint)
    (stored,) = broker.messages("orders")
    row = json.loads(result.output)
    assert (row["tag"], row["keys"], row["properties"]) == ("paid", ["42"], {"a": "b"})
    assert stored.stored_at - datetime.fromisoformat(row["born_at"]).timestamp() > 3000


async def test_json_holds_bodies_that_are_no_text(broker: FakeBroker) -> None:
    await invoke("send", "orders", "--count", "2", "--endpoint", broker.endpoint, typed=b"\xff")
    result = await invoke(
        "receive", "orders", "--group", "billing", "--max", "2", "--json", "--endpoint", broker.endpoint
    )
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert [(each["body_base64"], each["attempt"], each["topic"]) for each in rows] == [
        ("/w==", 1, "orders")
    ] * 2


async def test_no_more_messages_are_taken_than_asked_for_and_silence_after_some_is_no_news(
    broker: FakeBroker,
) -> None:
    await invoke("send", "orders", "shoes", "--count", "3", "--endpoint", broker.endpoint)
    receive = ("receive", "orders", "--group", "billing", "--json", "--endpoint", broker.endpoint)
    first = await invoke(*receive, "--max", "2")
    rest = await invoke(*receive[:4], *receive[5:], "--max", "2", "--wait", "0.1")
    assert [json.loads(line)["offset"] for line in first.output.splitlines()] == [0, 1]
    assert ("attempt 1, queue 0 offset 2" in rest.output, rest.error) == (True, "")
    assert broker.leases("billing") == ()


@pytest.mark.parametrize(
    ("wire", "wait", "call", "calls"),
    [("grpc", "0.1", "ReceiveMessage", 2), ("namesrv", "0", "Remoting.PULL_MESSAGE", 1)],
)
async def test_a_receive_that_follows_outlasts_silence(
    broker: FakeBroker, wire: str, wait: str, call: str, calls: int
) -> None:
    following = ("receive", "orders", "--group", "billing", "--follow", "--wait", wait)
    endpoint = broker.endpoint if wire == "grpc" else f"namesrv://{broker.remoting_endpoint}"
    # Jobs in the background of a shell ignore SIGINT, and so would this program.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"{heeds}; from aiorocketmq.cli import main; main()"),
        *(*following, "--endpoint", endpoint),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        with broker.faults.delay(call, 0.0) as polls:
            await until(lambda: polls.hits >= calls, within=30)
        async with Producer(broker.endpoint) as producer, asyncio.timeout(30):
            receipt = await producer.send(Message("orders", b"x"))
            assert (await process.stdout.readline()).decode().startswith(receipt.message_id)
    finally:
        process.send_signal(signal.SIGINT)
        code = await process.wait()
    assert code == 130


async def test_what_is_given_back_is_redelivered(broker: FakeBroker) -> None:
    await invoke("send", "orders", "shoes", "--count", "2", "--endpoint", broker.endpoint)
    for attempt in (1, 2):
        result = await invoke(
            *("receive", "orders", "--group", "billing", "--max", "2", "--no-ack", "--json"),
            *("--endpoint", broker.endpoint),
        )
        assert [json.loads(line)["attempt"] for line in result.output.splitlines()] == [attempt] * 2


async def test_filters_choose(broker: FakeBroker) -> None:
    for tag in ("paid", "open"):
        await invoke("send", "orders", tag, "--tag", tag, "--endpoint", broker.endpoint)
    result = await invoke(
        "receive", "orders", "--group", "billing", "--tags", "open", "--json", "--endpoint", broker.endpoint
    )
    assert json.loads(result.output)["body"] == "open"
    await invoke("send", "orders", "paid", "--property", "n=1", "--endpoint", broker.endpoint)
    result = await invoke(
        *("receive", "orders", "--group", "numbers", "--sql", "n > 0", "--json"),
        *("--endpoint", broker.endpoint),
    )
    assert json.loads(result.output)["properties"] == {"n": "1"}


async def test_no_terminal_obeys_what_was_received(broker: FakeBroker) -> None:
    hostile = "\x1b]0;owned\x07\r\n::error::\x9b2J"
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", f"first line\n{hostile}".encode()))
    received = await invoke("receive", "orders", "--group", "billing", "--endpoint", broker.endpoint)
    broker.faults.refuse("SendMessage", "FORBIDDEN", hostile)
    refused = await invoke("send", "orders", "shoes", "--endpoint", broker.endpoint)
    assert (received.exit_code, refused.exit_code) == (0, 4)
    assert received.output.splitlines()[1:] == [
        "first line",
        r"\u001b]0;owned\u0007",
        r"\u003a\u003aerror::\u009b2J",
    ]
    for printed in (received.output, refused.error):
        assert "owned" in printed
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|^\s*::", printed, re.MULTILINE)


async def test_commands_of_administration_sign_and_speak_tls() -> None:
    users = [User("admin", "secret", publish=("*",), subscribe=("*",), groups=("*",))]
    async with FakeBroker(remoting_port=0, tls=ServerTls.self_made(), users=users) as broker:
        await broker.create_topic("orders")
        assert broker.remoting_endpoint is not None
        names = (
            "topic",
            "describe",
            "orders",
            "--endpoint",
            f"namesrv://{broker.remoting_endpoint}",
            "--insecure",
        )
        signed = await invoke(*names, "--access-key", "admin", "--secret-key", "secret")
        wrong = await invoke(*names, "--access-key", "admin", "--secret-key", "other")
        half = await invoke(*names, "--access-key", "admin")
    assert (signed.exit_code, wrong.exit_code, half.exit_code) == (0, 4, 2), signed.error
    assert "orders" in signed.output
    assert wrong.error.count("\n") == 1
    assert "give --access-key and --secret-key together" in half.error


async def test_tls_and_credentials_are_options_or_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    users = [User("shop", "secret", publish=("*",))]
    async with FakeBroker(tls=ServerTls.self_made(), users=users) as secure:
        await secure.create_topic("orders")
        send = ("send", "orders", "x", "--endpoint", secure.endpoint, "--insecure")
        by_option = await invoke(*send, "--access-key", "shop", "--secret-key", "secret")
        unsigned = await invoke(*send)
        monkeypatch.setenv("AIOROCKETMQ_ACCESS_KEY", "shop")
        monkeypatch.setenv("AIOROCKETMQ_SECRET_KEY", "secret")
        by_variable = await invoke(*send)
        assert (by_option.exit_code, unsigned.exit_code, by_variable.exit_code) == (0, 4, 0)
        assert len(secure.messages("orders")) == 2


async def test_a_server_of_tls_is_trusted_by_the_roots_in_a_file(tmp_path: Path) -> None:
    certificate = ServerTls.self_made()
    roots, others = tmp_path / "roots.pem", tmp_path / "others.pem"
    roots.write_bytes(certificate.trust)
    others.write_bytes(ServerTls.self_made().trust)
    async with FakeBroker(tls=certificate) as secure:
        await secure.create_topic("orders")
        send = ("send", "orders", "x", "--endpoint", secure.endpoint)
        trusted = await invoke(*send, "--ca", str(roots))
        refused = await invoke(*send, "--ca", str(others), "--timeout", "1")
    assert (trusted.exit_code, refused.exit_code) == (0, 4), trusted.error


async def test_tls_is_not_left_out_at_a_server_without_it(broker: FakeBroker) -> None:
    result = await invoke("send", "orders", "x", "--endpoint", broker.endpoint, "--tls", "--timeout", "1")
    assert (result.exit_code, broker.messages("orders")) == (4, ())


async def test_addresses_are_mapped_and_names_are_in_the_namespace(broker: FakeBroker) -> None:
    await broker.create_topic("shop%orders")
    port = broker.endpoint.rpartition(":")[2]
    result = await invoke(
        *("send", "orders", "x", "--endpoint", broker.endpoint, "--namespace", "shop"),
        *("--map", f"{broker.endpoint}=localhost:{port}", "--map", "10.0.0.1:8081=127.0.0.1:1"),
    )
    assert result.output.endswith(f" at localhost:{port}\n"), result.error
    assert (len(broker.messages("shop%orders")), broker.messages("orders")) == (1, ())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["send", "a b", "x"], "must consist of"),
        (["send", "orders", "", "--lines"], "not both"),
        (["send", "orders", "--lines", "--count", "2"], "not both"),
        (["send", "orders", "x", "--property", "a=b", "--property", "p"], "NAME=VALUE"),
        (["send", "orders", "x", "--delay", "1", "--message-group", "g"], "at most one of"),
        (["send", "orders", "x", "--endpoint", "localhost"], "has no port"),
        (["send", "orders", "x", "--access-key", "k"], "--secret-key together"),
        (["send", "orders", "x", "--map", "a:1=b:1", "--map", "c:1"], "HOST:PORT=HOST:PORT"),
        (["receive", "orders", "--group", "g", "--tags", "a", "--sql", "b"], "not both"),
        (["receive", "orders", "--group", "b g"], "must consist of"),
        (["receive", "orders"], "--group"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("send", "orders", "x"), ("receive", "orders", "--group", "billing")])
async def test_a_server_that_cannot_be_reached_is_one_sentence_and_exit_code_4(
    arguments: tuple[str, ...],
) -> None:
    result = await invoke(*arguments, "--endpoint", "127.0.0.1:1", "--timeout", "0.5")
    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.error
    assert "within 0.5 s" in result.error
    assert result.error.splitlines()[-1].startswith("aiorocketmq: ")
