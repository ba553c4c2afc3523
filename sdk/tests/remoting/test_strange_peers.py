"""A foreign program in place of a remoting server: one clear error in time, or the client goes on."""

from __future__ import annotations

import asyncio
import re
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias

import pytest
from aiorocketmq import (
    Admin,
    Connection,
    Message,
    Offset,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
    Timeouts,
    Tls,
    UnreachableError,
)
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import MAX_FRAME, ONE_WAY, RESPONSE, Frame, encode
from aiorocketmq._remoting.connection import RemotingConnection
from aiorocketmq.errors import NotSupportedError
from aiorocketmq_fake import FakeBroker, ServerTls

from sdk.tests.clients import push_consumer
from sdk.tests.listening import Peer, listening
from sdk.tests.remoting.script import Serve, answer

SOON = Timeouts(start=0.4, request=0.4, stop=0.5)
IMPATIENT = Timeouts(start=0.4, request=0.1, stop=0.5)

Client: TypeAlias = AbstractAsyncContextManager[Any]
"""Producer, consumer or Admin: what they have in common is how they are opened."""


async def handle(message: ReceivedMessage) -> None:
    raise AssertionError(f"{message!r} from a server that has none")


def address(endpoint: str) -> Address:
    host, port = endpoint.rsplit(":", 1)
    return Address(host, int(port))


async def entered(client: Client) -> None:
    async with client:
        pass


async def asked(admin: Admin) -> None:
    async with admin:
        await admin.create_group("billing")


def over_remoting(endpoint: str, timeouts: Timeouts) -> dict[str, Callable[[], Awaitable[None]]]:
    """The beginning of each client: what it asks first."""
    where, group, topic = f"namesrv://{endpoint}", "billing", "orders"

    def starts(make: Callable[..., Client], *arguments: str, **options: Any) -> Callable[[], Awaitable[None]]:
        return lambda: entered(make(*arguments, timeouts=timeouts, **options))

    return {
        "producer": starts(Producer, where),
        "producer of a topic": starts(Producer, where, topics=[topic]),
        "push": starts(PushConsumer, where, group=group, subscriptions=[topic], handler=handle),
        "pull": starts(PullConsumer, where, group=group, topics=[topic]),
        "admin": lambda: asked(Admin(where, timeout=timeouts.request)),
        "admin of a broker": lambda: asked(Admin(f"broker://{endpoint}", timeout=timeouts.request)),
    }


CLIENTS = tuple(over_remoting("host:1", SOON))


async def error_of(start: Callable[[], Awaitable[None]], endpoint: str, *, within: float) -> RocketMQError:
    """The one error of a client that cannot start: a sentence that names the server and leaves no task behind."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(within):
        with pytest.raises(RocketMQError) as raised:
            await start()
    # A server in this process ends its own tasks a few turns of the loop later.
    left = [task.get_name() for task in asyncio.all_tasks() - before if "client" in task.get_name()]
    assert not left
    text = str(raised.value)
    assert endpoint in text
    assert "\n" not in text
    assert len(text) < 500
    return raised.value


def sends(data: bytes, *, at_once: bool = False, closes: bool = False) -> Peer:
    """A peer that writes `data`, when it is connected or asked, and then closes or reads on."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not at_once:
            await reader.read(65536)
        writer.write(data)
        while not closes and await reader.read(65536):
            pass

    return peer


def begun(length: int, serialization: int, header: int, rest: bytes = b"") -> bytes:
    """The beginning of a frame."""
    return struct.pack(">ii", length, serialization << 24 | header) + rest


async def trickling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte after the other of a frame that never ends."""
    writer.write(begun(MAX_FRAME - 4, 0, 100))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


# What a server of gRPC core says first, and what one of Java's with TLS answers to plain text.
SETTINGS = bytes.fromhex(
    "00001804000000000000040040000000050040000000060000200000fe0300000001000004080000000000003f0001"
)
TLS_ALERT = bytes.fromhex("15030300020246")
OTHER = "does not speak the classic RocketMQ protocol"
PORTS = r"give the port of a name server \(usually 9876\) or broker"
CLOSED = rf"closed the connection before any answer; {PORTS} .*and tls=Tls\(\) if it speaks TLS"

WRONG: dict[str, tuple[Peer, str]] = {
    "closes at once": (sends(b"", at_once=True, closes=True), CLOSED),
    "closes when asked": (sends(b"", closes=True), CLOSED),
    "garbage at once": (sends(b"\xde\xad\xbe\xef" * 64, at_once=True), f"{OTHER}.*; {PORTS}"),
    "ssh": (sends(b"SSH-2.0-OpenSSH_9.6\r\n", at_once=True), f"{OTHER}.*; {PORTS}"),
    "http": (sends(b"HTTP/1.1 400 Bad Request\r\n\r\n", closes=True), f"speaks HTTP: {PORTS}"),
    "http/2": (sends(SETTINGS), r"speaks HTTP/2, as the gRPC port of a proxy does \(usually 8081\): give the port"),
    "http/2 and closes": (sends(SETTINGS, closes=True), "speaks HTTP/2"),
    "empty http/2 settings": (sends(bytes.fromhex("000000040000000000")), "speaks HTTP/2"),
    "tls": (sends(TLS_ALERT, closes=True), r"speaks TLS: give tls=Tls\(\)"),
    "1 GiB": (sends(struct.pack(">i", 1 << 30)), rf"a frame cannot be 1073741824 bytes long\); {PORTS}"),
    "negative": (sends(struct.pack(">i", -5)), "a frame cannot be -5 bytes long"),
    "long header": (sends(begun(20, 0, 1000, bytes(16))), "a header of 1000 bytes does not fit a frame of 20"),
    "strange header": (sends(begun(6, 9, 2, b"{}")), "header serialization 9 is unknown"),
    "no json": (sends(begun(7, 0, 3, b"{x}")), "a header is not JSON text"),
    "deep json": (sends(begun(60_004, 0, 60_000, b"[" * 60_000)), "a header is not JSON text"),
    "half a frame": (sends(begun(1000, 0, 5, b"{"), closes=True), "closed the connection in the middle of an answer"),
}  # fmt: skip
SILENT: dict[str, Peer] = {
    "silent": sends(b""),
    "stops in a frame": sends(begun(1000, 0, 5, b"{")),
    "trickles": trickling,
}


def to(endpoint: str, deliver: Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]) -> Peer:
    """A peer that passes everything on to the server at `endpoint`, and its answers by `deliver`."""
    host, port = endpoint.rsplit(":", 1)

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))

        async def up() -> None:
            while data := await reader.read(65536):
                far_writer.write(data)
            far_writer.close()

        async def down() -> None:
            while data := await far_reader.read(65536):
                await deliver(writer, data)
            writer.close()

        try:
            await asyncio.gather(up(), down())
        finally:
            far_writer.close()

    return passed


async def whole(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)


async def in_single_bytes(writer: asyncio.StreamWriter, data: bytes) -> None:
    for byte in data:
        writer.write(bytes((byte,)))
        await asyncio.sleep(0)


async def in_slow_parts(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 100):
        writer.write(data[start : start + 100])
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("peer", WRONG)
async def test_a_peer_of_another_kind_is_one_clear_error(peer: str, client: str) -> None:
    behaviour, reason = WRONG[peer]
    async with listening(behaviour) as endpoint:
        error = await error_of(over_remoting(endpoint, SOON)[client], endpoint, within=10)
    assert isinstance(error, UnreachableError)
    assert re.search(reason, str(error))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("peer", SILENT)
async def test_a_peer_that_answers_nothing_is_given_up_in_time(peer: str, client: str) -> None:
    async with listening(SILENT[peer]) as endpoint:
        error = await error_of(over_remoting(endpoint, IMPATIENT)[client], endpoint, within=10)
    assert isinstance(error, UnreachableError)
    assert error.timed_out
    assert "within 0.1 s; check that the server runs and its load, or allow more time" in str(error)


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_grpc_port_of_a_server_is_reported_at_once(client: str) -> None:
    """It is useless to try again: `start` is longer than this test may take."""
    async with FakeBroker() as broker:
        start = over_remoting(broker.endpoint, Timeouts(start=60.0, request=5.0))[client]
        error = await error_of(start, broker.endpoint, within=20)
    assert "speaks HTTP/2, as the gRPC port of a proxy does" in str(error)
    assert "address without 'namesrv://'" in str(error)
    assert not error.may_have_taken_effect


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_grpc_port_of_a_server_with_tls_is_one_clear_error(client: str) -> None:
    async with FakeBroker(tls=ServerTls.self_made()) as broker:
        error = await error_of(over_remoting(broker.endpoint, SOON)[client], broker.endpoint, within=20)
    assert "give the port of a name server (usually 9876) or broker (usually 10911), and tls=Tls()" in str(
        error
    )


@pytest.mark.parametrize("client", [each for each in CLIENTS if each != "admin of a broker"])
async def test_a_broker_in_the_place_of_a_name_server_is_reported_at_once(serve: Serve, client: str) -> None:
    server = await serve(lambda frame: answer(frame, 3, remark=" request type 105 not supported"))
    endpoint = str(server.address)
    error = await error_of(over_remoting(endpoint, Timeouts(start=60.0))[client], endpoint, within=20)
    assert isinstance(error, NotSupportedError)
    assert f"is no name server; if it is a broker, give Admin 'broker://{endpoint}', and clients" in str(
        error
    )


@pytest.mark.parametrize("tls", [None, Tls()], ids=["plain", "tls"])
@pytest.mark.parametrize("client", ["producer", "producer of a topic", "simple", "push", "pull"])
async def test_the_port_of_a_name_server_is_reported_at_once_over_grpc(client: str, tls: Tls | None) -> None:
    options: dict[str, Any] = {"tls": tls, "timeouts": Timeouts(start=60.0, request=5.0)}
    async with FakeBroker(remoting_port=0) as broker:
        endpoint = broker.remoting_endpoint
        assert endpoint is not None
        clients: dict[str, Callable[[], Client]] = {
            "producer": partial(Producer, endpoint, **options),
            "producer of a topic": partial(Producer, endpoint, topics=["orders"], **options),
            "simple": partial(SimpleConsumer, endpoint, group="billing", subscriptions=["orders"], **options),
            "push": partial(
                PushConsumer, endpoint, group="billing", subscriptions=["orders"], handler=handle, **options
            ),
            "pull": partial(PullConsumer, endpoint, group="billing", **options),
        }
        error = await error_of(lambda: entered(clients[client]()), endpoint, within=20)
    assert "it is a name server or broker port of the classic protocol (often 9876 or 10911)" in str(error)
    assert "give the proxy's port, usually 8081" in str(error)


# Peers that recover


@pytest.mark.parametrize("deliver", [in_single_bytes, in_slow_parts])
async def test_frames_that_come_in_parts_are_read_as_if_they_came_whole(
    deliver: Callable[[asyncio.StreamWriter, bytes], Awaitable[None]],
) -> None:
    handled: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: ReceivedMessage) -> None:
        handled.put_nowait(message.body)

    async with FakeBroker(remoting_port=0) as broker, asyncio.timeout(30):
        await broker.create_topic("orders", queues=1)
        direct = broker.remoting_endpoint
        assert direct is not None
        async with listening(to(direct, deliver)) as endpoint:
            async with Admin(f"namesrv://{endpoint}") as admin:
                assert (await admin.route("orders")).queues
            async with Connection(f"namesrv://{endpoint}", address_map={direct: endpoint}) as connection:
                async with Producer(connection, topics=["orders"]) as producer:
                    await producer.send(Message("orders", b"first"))
                async with PullConsumer(connection, group="reading") as reader:
                    reader.assign(await reader.queues("orders"))
                    batch = await reader.poll(10)
                    assert batch is not None
                    assert [message.body for message in batch] == [b"first"]
                async with push_consumer(connection, handler=take, start=Offset.BEGIN):
                    assert await handled.get() == b"first"


@pytest.mark.parametrize("client", ["producer", "producer of a topic", "pull"])
@pytest.mark.parametrize("peer", ["closes when asked", "garbage at once", "half a frame", "stops in a frame"])
async def test_a_client_starts_when_a_strange_peer_has_become_a_server(peer: str, client: str) -> None:
    """A server that is still starting, or whose port another program had."""
    strange = SILENT[peer] if peer in SILENT else WRONG[peer][0]
    tries = 0

    async with FakeBroker(remoting_port=0) as broker:
        await broker.create_topic("orders")
        assert broker.remoting_endpoint is not None
        server = to(broker.remoting_endpoint, whole)

        async def changing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal tries
            tries += 1
            await (strange if tries <= 2 else server)(reader, writer)

        async with listening(changing) as endpoint, asyncio.timeout(30):
            await over_remoting(endpoint, Timeouts(start=30.0, request=0.2))[client]()
    assert tries > 2


async def test_a_frame_that_does_not_end_ends_the_connection() -> None:
    """A damaged length would swallow all answers to come, while bytes still arrive."""
    lost: list[None] = []
    async with (
        listening(trickling) as endpoint,
        RemotingConnection(
            address(endpoint), frame_timeout=0.2, on_lost=lambda: lost.append(None)
        ) as connection,
    ):
        held = asyncio.ensure_future(connection.request(11, timeout=60))
        async with asyncio.timeout(20):
            while connection.is_open:
                with pytest.raises(UnreachableError, match=r"no answer|has not ended an answer"):
                    await connection.request(1, timeout=0.1)
            with pytest.raises(UnreachableError, match=r"has not ended an answer within 0\.2 s; try again"):
                await held
    assert lost == [None]


async def test_frames_that_overlap_in_what_arrives_are_no_frame_without_end() -> None:
    """Whatever arrives ends one frame and begins the next, for longer than one frame may take."""
    frame = encode(Frame(code=40, opaque=1, flag=ONE_WAY, body=bytes(100)))
    cut = len(frame) // 2

    async def overlapping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame[:cut])
        while True:
            await asyncio.sleep(0.02)
            writer.write(frame[cut:] + frame[:cut])

    async with (
        listening(overlapping) as endpoint,
        RemotingConnection(address(endpoint), frame_timeout=1.0, on_request=lambda _: None) as connection,
    ):
        for _ in range(6):
            with pytest.raises(UnreachableError, match="no answer"):
                await connection.request(1, timeout=0.25)
        assert connection.is_open


async def test_floods_of_what_was_not_requested_take_no_memory() -> None:
    """Answers without a request are dropped; to a peer that asks and does not read, no answers are kept."""
    flood = 400
    late = encode(Frame(code=0, opaque=7, flag=RESPONSE, body=bytes(32_000)))
    asks = encode(Frame(code=307, opaque=1, body=bytes(1000)))
    orders = encode(Frame(code=40, opaque=1, flag=ONE_WAY, body=bytes(1000)))
    block = late + (asks + orders) * 32
    is_written = asyncio.Event()

    async def flooding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(flood):
            writer.write(block)
            await writer.drain()
        is_written.set()
        await asyncio.sleep(60)

    information = Frame(code=0, opaque=0, body=bytes(20_000))
    async with (
        listening(flooding) as endpoint,
        RemotingConnection(address(endpoint), on_request=lambda _: information),
    ):
        tracemalloc.start()
        try:
            async with asyncio.timeout(60):
                await is_written.wait()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    answers = flood * 32 * len(information.body)
    assert answers > 250_000_000
    assert peak < 20_000_000
