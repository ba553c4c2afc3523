"""`aiorocketmq fake serve` and `fake ctl`, as processes of their own."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake.cli import fake
from aiorocketmq_fake.serving import default_remoting_port
from click import UsageError
from click.testing import CliRunner, Result

PROGRAM = [sys.executable, "-c", "from aiorocketmq.cli import main; main()", "fake"]
ANY_PORTS = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]


class Served:
    """A running `fake serve`, once it has said that it is ready."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", *ANY_PORTS, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        words = self.line.split()
        assert words[:1] == ["ready"], self.process.communicate(timeout=10)
        self.facts = dict(word.split("=", 1) for word in words[1:])

    def end(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=10)
        return self.process.returncode, output, errors

    def ctl(self, *arguments: str) -> Result:
        """Run `fake ctl`; in this process, because a fresh one costs a fifth of a second."""
        return CliRunner().invoke(fake, ["ctl", *arguments, "--control", self.facts["control"]])

    def json(self, *arguments: str) -> Any:
        done = self.ctl(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start `fake serve` with more options; it is ended with the test."""
    started: list[Served] = []

    def start(*options: str) -> Served:
        started.append(Served(*options))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
        served.process.communicate(timeout=10)


def route(endpoint: str, topic: str, credentials: grpc.ChannelCredentials | None = None) -> Any:
    method = METHODS["QueryRoute"]
    channel = (
        grpc.insecure_channel(endpoint)
        if credentials is None
        else grpc.secure_channel(
            endpoint, credentials, options=[("grpc.ssl_target_name_override", "localhost")]
        )
    )
    with channel:
        call: Any = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        request = pb.QueryRouteRequest(topic=pb.Resource(name=topic))
        return call(request, timeout=10, metadata=(("x-mq-client-id", "c"),))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_serves_until_a_signal(serve: Callable[..., Served], number: int) -> None:
    served = serve("--topic", "orders:FIFO:3", "--group", "billing:ordered:5")
    response = route(served.facts["grpc"], "orders")
    assert len(response.message_queues) == 3
    assert served.end(number) == (0, "", "")


def test_one_line_has_the_endpoints(serve: Callable[..., Served]) -> None:
    served = serve("--profile", "apache-5.5", "--clock", "manual")
    ports = " ".join(rf"{name}=127\.0\.0\.1:\d+" for name in ("grpc", "remoting", "control"))
    assert re.fullmatch(rf"ready {ports} profile=apache-5\.5 clock=manual tls=no pid=\d+\n", served.line)
    assert int(served.facts["pid"]) == served.process.pid


def test_the_ready_line_can_be_json() -> None:
    with subprocess.Popen([*PROGRAM, "serve", *ANY_PORTS, "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        facts = json.loads(process.stdout.readline())
        process.terminate()
    assert {"grpc", "remoting", "control"} <= facts.keys()
    assert facts["pid"] == process.pid


def test_remoting_has_the_port_of_name_servers_beside_a_fixed_port() -> None:
    assert default_remoting_port("127.0.0.1:8081") == 9876
    assert default_remoting_port("127.0.0.1:0") == 0


def test_the_remoting_port_is_opened_and_announced(serve: Callable[..., Served]) -> None:
    served = serve("--topic", "orders")
    host, _, port = served.facts["remoting"].rpartition(":")
    header = b'{"code":105,"extFields":{"topic":"orders"},"opaque":1,"version":407}'
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall((4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header)
        assert f'"0":"{served.facts["remoting"]}"'.encode() in connection.recv(4096)


USERS = """
[[users]]
access_key = "app"
secret = "s3cret"
publish = ["orders"]
subscribe = []
"""


def test_users_come_from_files_and_are_changed_while_it_runs(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "users.toml"
    file.write_text(USERS)
    with pytest.raises(UsageError, match="needs an administrator"):
        CliRunner().invoke(
            fake, ["serve", *ANY_PORTS, "--users", str(file)], catch_exceptions=False, standalone_mode=False
        )
    file.write_text(f'{USERS}[[users]]\naccess_key = "admin"\nsecret = "root-s3cret"\n')
    served = serve("--topic", "orders", "--users", str(file))
    assert route(served.facts["grpc"], "orders").status.code == pb.Code.UNAUTHORIZED
    with pytest.raises(AssertionError, match="denied"):
        served.json("user", "list")
    monkeypatch.setenv("AIOROCKETMQ_ACCESS_KEY", "admin")
    with pytest.raises(AssertionError, match="together"):
        served.json("user", "list")
    monkeypatch.setenv("AIOROCKETMQ_SECRET_KEY", "root-s3cret")
    admin, user = served.json("user", "list")
    assert admin["access_key"] == "admin"
    assert (user["access_key"], user["publish"], user["groups"]) == ("app", ["orders"], ["*"])
    assert "s3cret" not in str((admin, user))
    file.write_text(USERS.replace("app", "other"))
    served.json("user", "put", str(file))
    served.json("user", "remove", "app")
    assert [user["access_key"] for user in served.json("user", "list")] == ["admin", "other"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[[users", "not a TOML file"),
        ("", "has no users"),
        ("users = 3", "has no users"),
        ("users = [3]", "access_key and secret"),
        ('[[users]]\naccess_key = "app"', "access_key and secret"),
        (USERS + 'role = "x"', "access_key and secret"),
        (USERS + 'groups = "g"', "not a list of texts"),
        (USERS + "enabled = 3", "not true or false"),
        (USERS.replace('"s3cret"', "3"), "not a text"),
        (USERS.replace("app", "a/b"), "access key without"),
    ],
)
def test_a_file_that_holds_no_users_is_refused_with_the_remedy(
    content: str, complaint: str, tmp_path: Path
) -> None:
    file = tmp_path / "users.toml"
    file.write_text(content)
    done = CliRunner().invoke(fake, ["serve", *ANY_PORTS, "--users", str(file)])
    assert done.exit_code == 2
    assert complaint in " ".join(done.output.split())


def test_the_ready_file_has_the_same_as_json(serve: Callable[..., Served], tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    served = serve("--ready-file", str(file))
    ready = json.loads(file.read_text())
    assert {name: str(value) for name, value in ready.items()} == served.facts
    assert list(tmp_path.iterdir()) == [file]


def test_tls_is_served_with_a_certificate_that_a_file_lets_clients_trust(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve("--tls-self-made", str(tmp_path / "trust.pem"), "--topic", "t")
    credentials = grpc.ssl_channel_credentials((tmp_path / "trust.pem").read_bytes())
    assert route(served.facts["grpc"], "t", credentials).status.code == pb.Code.OK


def test_the_cli_serves_client_certificates_and_plain_connections(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    trust, shown = tmp_path / "trust.pem", tmp_path / "client.pem"
    strict = serve("--tls-self-made", str(trust), "--tls-client-certificate", str(shown), "--topic", "t")
    pair = shown.read_bytes()
    credentials = grpc.ssl_channel_credentials(trust.read_bytes(), pair, pair)
    assert route(strict.facts["grpc"], "t", credentials).status.code == pb.Code.OK
    with pytest.raises(grpc.RpcError):
        route(strict.facts["grpc"], "t", grpc.ssl_channel_credentials(trust.read_bytes()))
    open_to_all = serve("--tls-self-made", str(trust), "--tls-also-plain", "--topic", "t")
    assert route(open_to_all.facts["grpc"], "t").status.code == pb.Code.OK


def test_retention_is_set_from_the_command_line(serve: Callable[..., Served]) -> None:
    served = serve("--topic", "t")
    set_ = served.json("retention", "set", "--retention", "3600", "--disk-used", "0.95")
    assert (
        set_ == served.json("retention", "show") == {"retention": 3600.0, "disk_used": 0.95, "stage": "FULL"}
    )
    assert served.json("retention", "clean") == {"deleted": 0}


def test_rates_are_set_from_the_command_line(serve: Callable[..., Served]) -> None:
    served = serve("--topic", "t", "--rate", "QueryRoute=0")
    assert route(served.facts["grpc"], "t").status.code == pb.Code.TOO_MANY_REQUESTS
    assert served.json("rate", "list") == {"QueryRoute": 0.0}
    served.json("rate", "limit", "SendMessage", "5")
    served.json("rate", "lift", "QueryRoute")
    assert served.json("rate", "list") == {"SendMessage": 5.0}


def test_a_running_broker_is_steered_and_inspected(serve: Callable[..., Served]) -> None:
    served = serve(
        *("--clock", "manual", "--topic", "orders:FIFO", "--topic", "chats:LITE", "--group", "billing")
    )
    assert served.json("describe")["profile"] == "documented"
    before = datetime.fromisoformat(served.json("clock", "show")["now"])
    after = datetime.fromisoformat(served.json("clock", "advance", "--hours", "2", "--seconds", "1")["now"])
    assert after - before == timedelta(seconds=7201)
    assert served.json("inspect", "lite-topics", "chats") == {}
    rule = ["QueryRoute", "refuse", "--code", "TOO_MANY_REQUESTS", "--times", "1"]
    assert served.json("fault", "add", *rule) == {"number": 1}
    assert [(fault["number"], fault["code"]) for fault in served.json("fault", "list")] == [(1, 42900)]
    assert route(served.facts["grpc"], "orders").status.code == pb.Code.TOO_MANY_REQUESTS
    assert served.json("fault", "list") == []
    assert served.json("fault", "cut-streams") == {"streams": 0}
    for what in (
        ["deliveries"],
        ["dead-letters", "billing"],
        ["messages", "orders"],
        ["clients"],
        ["leases"],
    ):
        assert served.json("inspect", *what) == []
    added = served.json("fault", "add", "AckMessage", "drop_reply", "--hang")
    served.json("fault", "remove", str(added["number"]))
    served.json("fault", "clear")
    assert served.json("inspect", "progress") == []
    served.json("restart")
    assert route(served.facts["grpc"], "orders").status.code == pb.Code.OK


def test_settings_of_servers_are_set_and_listed(serve: Callable[..., Served]) -> None:
    served = serve("--profile", "apache-5.5", "--set", "autoCreateTopicEnable=false", "--set", "body_max=9")
    assert served.facts["profile"] == "apache-5.5+auto_create_topics=False+body_max=9"
    listed = json.loads(CliRunner().invoke(fake, ["settings", "--json"]).stdout)
    (row,) = (row for row in listed if row["server"] == "transactionCheckInterval")
    assert (row["field"], row["value"], row["unit"], row["file"]) == (
        "check_interval",
        30_000,
        "ms",
        "broker",
    )
    for options, complaint in (
        (["serve", *ANY_PORTS, "--set", "recall"], "NAME=VALUE"),
        (["serve", *ANY_PORTS, "--set", "recallMessageEnabled=true"], "did you mean recallMessageEnable?"),
        (["settings", "--profile", "apache"], "got 'apache'"),
    ):
        done = CliRunner().invoke(fake, options)
        assert (done.exit_code, complaint in done.output) == (2, True), done.output


def test_people_get_a_table(serve: Callable[..., Served]) -> None:
    served = serve("--topic", "orders:FIFO")
    assert "profile: documented" in served.ctl("describe").stdout
    done = served.ctl("brokers")
    assert (done.exit_code, done.stdout.splitlines()[0].split()[:2]) == (0, ["name", "endpoint"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--listen", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["--topic", "t:FIFO:many"], "is not NAME[:TYPE[:QUEUES]]"),
        (["--topic", "t:ODD"], "type must be one of"),
        (["--topic", "not a topic"], "topic"),
        (["--group", "g:sometimes"], "is not NAME[:ordered][:ATTEMPTS]"),
        (["--profile", "apache-1"], "got 'apache-1'"),
        (["--tls-key", __file__], "belong together"),
        (["--rate", "SendMessage"], "is not RPC=PER_SECOND"),
        (["--rate", "Nothing=1"], "got 'Nothing'"),
        (["--tls-also-plain"], "need a certificate"),
        (["--tls-client-trust", __file__], "need a certificate"),
        (["--tls-client-certificate", "client.pem"], "belongs to --tls-self-made"),
        (["--tls-self-made", "t.pem", "--tls-client-trust", __file__], "leave"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_2(options: list[str], problem: str) -> None:
    done = CliRunner().invoke(fake, ["serve", *ANY_PORTS, *options])
    assert done.exit_code == 2
    assert problem in done.output


def test_a_port_that_is_taken_is_one_sentence_and_exit_4(serve: Callable[..., Served]) -> None:
    command = [*PROGRAM, "serve", "--listen", serve().facts["grpc"], "--control", "127.0.0.1:0"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 4
    assert "cannot listen on" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_broker_ctl_exits_with_4() -> None:
    command = [*PROGRAM, "ctl", "describe", "--control", "127.0.0.1:1"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 4
    assert "no fake broker answers at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_refused_order_is_one_sentence_and_exit_4(serve: Callable[..., Served]) -> None:
    done = serve().ctl("client", "reconnect", "nobody")
    assert done.exit_code == 4
    assert "nobody" in done.output


def test_a_fault_that_cannot_be_is_one_sentence_and_exit_2(serve: Callable[..., Served]) -> None:
    served = serve()
    done = served.ctl("fault", "add", "SendMessage", "refuse")
    assert (done.exit_code, "refuse needs --code" in done.output) == (2, True)
    for words, problem in (
        (("Nothing", "fail"), "got 'Nothing'"),
        (("Remoting.NOTHING", "fail"), "got 'Remoting.NOTHING'"),
        (
            ("SendMessage", "refuse", "--code", "4242"),
            "code of a refused SendMessage must be one of its protocol",
        ),
        (
            ("Remoting.SEND_MESSAGE", "refuse", "--code", "FORBIDDEN"),
            "must be one of its protocol",
        ),
    ):
        done = served.ctl("fault", "add", *words)
        assert (done.exit_code, problem in done.output.replace("\n", " ")) == (2, True)
        assert "Traceback" not in done.output
    served.json("fault", "add", "Remoting.PULL_MESSAGE", "refuse", "--code", "SYSTEM_BUSY")
    assert [(fault["rpc"], fault["code"]) for fault in served.json("fault", "list")] == [
        ("Remoting.PULL_MESSAGE", 2)
    ]


def test_a_served_cluster_is_steered_broker_by_broker(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve("--brokers", "2", "--data", str(tmp_path), "--topic", "t")
    assert served.facts["brokers"].startswith(f"broker-a={served.facts['grpc']},broker-b=127.0.0.1:")
    assert served.json("crash", "--broker", "broker-b") is None
    assert [one["is_running"] for one in served.json("brokers")] == [True, False]
    for command in ("start", "partition"):
        served.json(command, "--broker", "broker-b")
    assert [one["is_partitioned"] for one in served.json("brokers")] == [False, True]
    served.json("heal")
    assert [one["is_partitioned"] for one in served.json("brokers")] == [False, False]
    served.json("fault", "add", "SendMessage", "lose", "--chance", "0.5")
    assert [(fault["disturbance"], fault["chance"]) for fault in served.json("fault", "list")] == [
        ("lose", 0.5)
    ]
    before = datetime.fromisoformat(served.json("clock", "show")["now"])
    jumped = datetime.fromisoformat(served.json("clock", "jump", "3600")["now"])
    assert jumped >= before + timedelta(hours=1)
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["broker-a.db", "broker-b.db"]
    assert served.ctl("stop", "--broker", "broker-x").exit_code == 2
    assert served.end(signal.SIGTERM)[0] == 0
    again = serve("--brokers", "2", "--data", str(tmp_path), "--topic", "t")
    assert route(again.facts["grpc"], "t").status.code == pb.Code.OK


def test_data_that_is_in_use_is_one_sentence_and_exit_4(serve: Callable[..., Served], tmp_path: Path) -> None:
    serve("--data", str(tmp_path))
    done = subprocess.run(
        [*PROGRAM, "serve", *ANY_PORTS, "--data", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "is used by another broker: stop that one" in done.stderr
    assert "Traceback" not in done.stderr
