"""Settings are checked when they are made."""

import subprocess
import sys
from pathlib import Path

import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.route import MessageQueue, Route, RouteQueue
from aiorocketmq._transport.network import Network
from aiorocketmq.config import CacheLimits, Credentials, Retry, Timeouts, Tls
from aiorocketmq.connection import Connection
from aiorocketmq.errors import ClosedError
from aiorocketmq.producer import Producer


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number_of_seconds(bad: float) -> None:
    for name in ("start", "request", "stop"):
        with pytest.raises(ValueError, match=rf"Timeouts\.{name} must be a positive number of seconds"):
            Timeouts(**{name: bad})


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3"])
def test_counts_are_integers_from_one(bad: object) -> None:
    with pytest.raises(ValueError, match=r"Retry\.attempts must be an integer of at least 1"):
        Retry(attempts=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"CacheLimits\.messages must be an integer of at least 1"):
        CacheLimits(messages=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"CacheLimits\.bytes must be an integer of at least 1"):
        CacheLimits(bytes=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["budget", "initial", "maximum"])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
def test_times_of_retries_are_positive_seconds(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match=rf"Retry\.{name} must be a positive number of seconds"):
        Retry(**{name: bad})  # type: ignore[arg-type]


def test_bounds_of_retries_fit_together() -> None:
    assert (Retry().budget, Retry().attempts) == (15.0, None)
    with pytest.raises(ValueError, match=r"Retry\.maximum must be at least Retry\.initial \(3 s\), not 2"):
        Retry(initial=3, maximum=2)
    with pytest.raises(ValueError, match=r"Retry\.attempts must be at most 1000, not 1001"):
        Retry(attempts=1001)


def test_a_secret_is_never_printed() -> None:
    printed = repr(Credentials("key", "hush-hush", session_token="whisper"))
    assert "key" in printed
    assert "hush" not in printed
    assert "whisper" not in printed


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "é", None])
def test_credentials_are_printable_ascii(bad: str | None) -> None:
    with pytest.raises(ValueError, match="access_key must be printable ASCII"):
        Credentials(bad, "secret")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="secret_key must be printable ASCII"):
        Credentials("key", bad)  # type: ignore[arg-type]
    if bad is not None:
        with pytest.raises(ValueError, match="session_token must be printable ASCII"):
            Credentials("key", "secret", session_token=bad)


def test_tls_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="certificate and key together"):
        Tls(certificate=b"pem")
    with pytest.raises(ValueError, match="either ca or insecure"):
        Tls(ca=b"pem", insecure=True)
    with pytest.raises(ValueError, match="does not exist"):
        Tls(ca=tmp_path / "nothing.pem")
    with pytest.raises(ValueError, match=r"key file .* does not exist"):
        Tls(certificate=b"pem", key=str(tmp_path / "nothing.pem"))


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({f"k{number}": "v" for number in range(33)}, "at most 32"),
        ({"1a": "v"}, "must be a letter"),
        ({"rocketmq.x": "v"}, "must not start with 'rocketmq.'"),
        ({"k" * 65: "v"}, "must be a letter"),
        ({"k": "v" * 257}, "longer than 256"),
        ({f"k{number}": "v" * 250 for number in range(17)}, "larger than 4096 bytes"),
        ({f"k{number:063}": "v" * 200 for number in range(17)}, "larger than 4096 bytes"),
    ],
)
def test_client_properties_keep_to_their_limits(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Connection("localhost:8081", client_properties=properties)


def test_a_connection_refuses_bad_parameters_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="has no port"):
        Connection("localhost")
    with pytest.raises(ValueError, match="must not start with 'http://'"):
        Connection("http://localhost:8081")
    with pytest.raises(ValueError, match="has no port"):
        Connection("localhost:8081", address_map={"10.0.0.1:8081": "localhost"})
    with pytest.raises(ValueError, match="transport must be"):
        Connection("localhost:8081", transport="carrier pigeon")  # type: ignore[arg-type]


def test_an_address_map_replaces_what_it_knows_and_keeps_the_rest() -> None:
    mapped = Network("localhost:8081", address_map={"10.0.0.5:8081": "localhost:18081"})
    known, other = parse_endpoint("10.0.0.5:8081"), parse_endpoint("10.0.0.6:8081")
    assert str(mapped.mapped(known)) == "localhost:18081"
    assert mapped.mapped(other) == other
    several = Network("localhost:8081", address_map={"10.0.0.6:8081": "10.1.0.6:8081"})
    assert str(several.mapped(parse_endpoint("10.0.0.5:8081;10.0.0.6:8081"))) == "10.0.0.5:8081;10.1.0.6:8081"
    to_one = Network(
        "localhost:8081", address_map=dict.fromkeys(("10.0.0.5:8081", "10.0.0.6:8081"), "tunnel:18081")
    )
    assert str(to_one.mapped(parse_endpoint("10.0.0.5:8081;10.0.0.6:8081"))) == "tunnel:18081"
    by_function = Network(
        "localhost:8081", address_map=lambda address: address.replace("10.0.0.", "127.0.0.")
    )
    assert str(by_function.mapped(known)) == "127.0.0.5:8081"


def test_clients_share_a_route_while_it_is_the_same_and_not_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("aiorocketmq._transport.network.loop_time", lambda: now)
    network, endpoint = Network("localhost:8081"), parse_endpoint("localhost:8081")

    def route(topic: str, count: int) -> Route:
        return Route(
            topic, [RouteQueue(MessageQueue(topic, "b", number), endpoint) for number in range(count)]
        )

    first, other = network.shared(route("orders", 1)), network.shared(route("refunds", 1))
    assert network.shared(route("orders", 1)) is first
    now += 15.0
    grown = network.shared(route("orders", 2))
    assert len(grown.queues) == 2
    now += 10.0
    assert network.fresh_route("orders", age=20.0) is grown
    assert network.fresh_route("orders", age=10.0) is None
    assert network.fresh_route("refunds", age=20.0) is None
    assert network.fresh_route("refunds", age=30.0) is other
    assert network.fresh_route("unknown", age=30.0) is None


@pytest.mark.parametrize("endpoint", ["localhost:8081", "namesrv://localhost:9876"])
async def test_a_closed_connection_says_so(anyio_backend: str, endpoint: str) -> None:
    connection = Connection(f" {endpoint} ")
    async with connection:
        assert (connection.endpoint, connection.is_closed) == (endpoint.removeprefix("namesrv://"), False)
    assert connection.is_closed
    with pytest.raises(ClosedError, match="the connection was closed; create a new one"):
        await connection.__aenter__()
    with pytest.raises(ClosedError, match="the connection was closed; create a new one"):
        await Producer(connection).__aenter__()
    await connection.close()


def test_a_forked_child_mints_other_message_ids_than_its_parent() -> None:
    program = """
import os
from aiorocketmq._transport.network import process_message_ids
process_message_ids().next(0)
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, process_message_ids().next(0).encode())
    os._exit(0)
os.wait()
print(os.read(reader, 100).decode(), process_message_ids().next(0))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    child, parent = done.stdout.split()
    assert child[:14] == parent[:14]
    assert child[14:18] != parent[14:18]
    assert (child[-8:], parent[-8:]) == ("00000000", "00000001")
