"""TLS on the remoting port (remoting-protocol.md 8)."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq import Admin, Message, Producer, PullConsumer, Tls
from aiorocketmq.errors import UnreachableError
from aiorocketmq_fake import FakeBroker, ServerTls
from aiorocketmq_fake.edge.remoting.frames import Frame, encode

from fake_broker.tests.edge.remoting.conftest import dial

PATIENCE = 10.0
NAMES = Frame(206, {}, opaque=1)


def port_of(broker: FakeBroker) -> int:
    assert broker.remoting_endpoint is not None
    return int(broker.remoting_endpoint.rpartition(":")[2])


def trusting(tls: ServerTls) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=tls.trust.decode())


async def names(broker: FakeBroker, context: ssl.SSLContext | None) -> bytes:
    """Ask for the names of topics over one connection, and return what came back until it ended or was complete."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("localhost", port_of(broker), ssl=context)
        try:
            writer.write(encode(NAMES))
            return await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        finally:
            writer.transport.abort()


async def test_a_tls_port_answers_tls_alone() -> None:
    made = ServerTls.self_made()
    tls = ServerTls(made.certificate_chain, made.private_key, made.trust)
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        await broker.create_topic("t")
        assert b'"t"' in await names(broker, trusting(tls))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await names(broker, None)
        with pytest.raises(ssl.SSLError):
            await names(broker, trusting(ServerTls.self_made()))


async def test_one_port_serves_plain_and_tls_clients() -> None:
    tls = ServerTls.self_made(also_plain=True)
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        await broker.create_topic("t")
        before = port_of(broker)
        for context in (None, trusting(tls)):
            assert b'"t"' in await names(broker, context)
        await broker.restart()
        assert port_of(broker) == before
        for context in (None, trusting(tls)):
            assert b'"t"' in await names(broker, context)
        await broker.crash()
        with pytest.raises(ConnectionRefusedError):
            await names(broker, None)


async def test_required_client_certificates_are_checked(tmp_path: Path) -> None:
    tls = ServerTls.self_made(ask_clients=True)
    file = tmp_path / "client.pem"
    file.write_bytes(tls.client_certificate)
    shown = trusting(tls)
    shown.load_cert_chain(file)
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        assert b"topicList" in await names(broker, shown)
        # With TLS 1.3 the client's side is ready before the server has looked at the certificate.
        with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
            await names(broker, trusting(tls))


@pytest.mark.parametrize("is_asked", [True, False])
async def test_files_say_whether_clients_must_show_a_certificate(tmp_path: Path, is_asked: bool) -> None:
    made = ServerTls.self_made(ask_clients=True)
    for name, content in (
        ("chain", made.certificate_chain),
        ("key", made.private_key),
        ("trust", made.trust),
    ):
        (tmp_path / name).write_bytes(content)
    trust = tmp_path / "trust" if is_asked else None
    tls = ServerTls.from_files(tmp_path / "chain", tmp_path / "key", client_trust=trust)
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        if is_asked:
            with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
                await names(broker, trusting(made))
        else:
            assert b"topicList" in await names(broker, trusting(made))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere loopback has one address")
async def test_a_client_behind_a_front_has_its_own_address() -> None:
    tls = ServerTls.self_made(also_plain=True)
    async with FakeBroker(listen="0.0.0.0:0", remoting_port=0, tls=tls) as broker:
        await broker.create_topic("t", queues=1)
        async with dial(broker, "127.0.0.2") as wire:
            own = wire.writer.get_extra_info("sockname")
            await wire.beat("c", "g", "t")
            (member,) = json.loads((await wire.ask(203, consumerGroup="g")).body)["connectionSet"]
            assert member["clientAddr"] == f"{own[0]}:{own[1]}"
            route = json.loads((await wire.ask(105, topic="t")).body)
            assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"127.0.0.2:{port_of(broker)}"}


async def test_a_client_behind_a_front_leaves_with_its_connection() -> None:
    tls = ServerTls.self_made(also_plain=True)
    async with FakeBroker(remoting_port=0, tls=tls) as broker, dial(broker) as stays:
        await broker.create_topic("t", queues=1)
        await stays.beat("c1", "g", "t")
        await stays.next_push()
        async with dial(broker) as leaves:
            await leaves.beat("c2", "g", "t")
            await stays.next_push()
        await stays.next_push()
        assert json.loads((await stays.ask(38, consumerGroup="g")).body) == {"consumerIdList": ["c1"]}


async def test_a_front_goes_on_when_a_slow_reader_does() -> None:
    tls = ServerTls.self_made(also_plain=True)
    async with FakeBroker(remoting_port=0, tls=tls) as broker, dial(broker) as wire:
        await broker.create_topic("t", queues=1)
        for number in range(4):
            await wire.produce("t", bytes(4_000_000), f"UNIQ_KEY\x01{number}\x02")
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        answers = [wire.pull("t", offset) for offset in range(4)]
        other = await names(broker, None)
        assert b'"t"' in other
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            assert [len((await answer).body) > 4_000_000 for answer in answers] == [True] * 4


async def test_a_shared_port_survives_silence_and_garbage() -> None:
    tls = ServerTls.self_made(also_plain=True)
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        _, silent = await asyncio.open_connection("127.0.0.1", port_of(broker))
        for noise in (b"", b"\x16", b"\x16" + bytes(100_000), bytes(100_000)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
            try:
                writer.write(noise)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), PATIENCE)
            except OSError:  # a server may well hang up in the middle of it
                pass
            writer.close()
        assert b"topicList" in await names(broker, trusting(tls))
        silent.close()


@pytest.mark.parametrize("start", [b"", b"\x16\x03\x01"])
@pytest.mark.parametrize("also_plain", [False, True])
async def test_a_crash_ends_handshakes(also_plain: bool, start: bytes) -> None:
    async with FakeBroker(remoting_port=0, tls=ServerTls.self_made(also_plain=also_plain)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
        writer.write(start)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            # It is behind the silent one, which has been accepted then.
            await names(broker, trusting(ServerTls.self_made()))
        await broker.crash()
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()


async def test_many_clients_begin_handshakes_at_once() -> None:
    tls = ServerTls.self_made()
    async with FakeBroker(remoting_port=0, tls=tls) as broker:
        context = trusting(tls)
        results = await asyncio.gather(*(names(broker, context) for _ in range(100)))
        assert all(b"topicList" in each for each in results)


@pytest.mark.parametrize("also_plain", [False, True])
async def test_our_clients_speak_tls_with_it(also_plain: bool) -> None:
    tls = ServerTls.self_made(also_plain=also_plain)
    options: dict[str, Any] = {"tls": Tls(ca=tls.trust)}
    async with FakeBroker(remoting_port=0, tls=tls) as broker, asyncio.timeout(PATIENCE):
        namesrv = f"namesrv://{broker.remoting_endpoint}"
        async with Admin(namesrv, **options) as admin:
            await admin.create_topic("t", queues=1)
        large = bytes(range(256)) * 4_000
        async with (
            Producer(namesrv, **options) as producer,
            PullConsumer(namesrv, group="g", topics=["t"], **options) as consumer,
        ):
            await producer.send(Message("t", large))
            batch = await anext(aiter(consumer))
            assert [message.body for message in batch] == [large]
        if not also_plain:
            with pytest.raises(UnreachableError):
                async with Admin(namesrv, timeout=2.0):
                    pass
        with pytest.raises(UnreachableError, match="check tls= and the server's certificate"):
            async with Admin(namesrv, tls=Tls(ca=ServerTls.self_made().trust)):
                pass
