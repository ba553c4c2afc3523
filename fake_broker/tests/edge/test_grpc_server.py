"""The port itself: addresses, TLS, and callers that do not speak the protocol."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import DOCUMENTED, FakeBroker, ServerTls
from aiorocketmq_fake.edge.grpc_server import MESSAGE_CAP, STREAMS_MAX, GrpcServer

Running = Callable[..., Awaitable[FakeBroker]]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


async def is_well(client: Any) -> bool:
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    return bool(response.status.code == pb.Code.OK)


async def test_ipv6_is_served_and_announced(running: Running, connect: Callable[..., Any]) -> None:
    broker = await running(listen="[::1]:0")
    assert broker.endpoint.startswith("[::1]:")
    client = connect(broker)
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    endpoints = response.message_queues[0].broker.endpoints
    assert endpoints.scheme == pb.AddressScheme.IPv6
    assert endpoints.addresses[0].host == "::1"


async def test_a_host_name_stays_a_name(running: Running, connect: Callable[..., Any]) -> None:
    broker = await running(listen="localhost:0")
    client = connect(broker)
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="t")))
    assert response.message_queues[0].broker.endpoints.scheme == pb.AddressScheme.DOMAIN_NAME


async def test_tls_is_served_with_a_certificate_made_for_it(
    running: Running, connect: Callable[..., Any]
) -> None:
    tls = ServerTls.self_made()
    broker = await running(tls=tls)
    assert await is_well(connect(broker, credentials=grpc.ssl_channel_credentials(tls.trust)))


async def test_tls_is_served_with_a_certificate_from_files(
    running: Running, connect: Callable[..., Any], tmp_path: Path
) -> None:
    certificate = ServerTls.self_made("localhost")
    (tmp_path / "chain.pem").write_bytes(certificate.certificate_chain)
    (tmp_path / "key.pem").write_bytes(certificate.private_key)
    broker = await running(tls=ServerTls.from_files(tmp_path / "chain.pem", tmp_path / "key.pem"))
    assert await is_well(connect(broker, credentials=grpc.ssl_channel_credentials(certificate.trust)))


async def test_a_client_that_does_not_trust_the_certificate_gets_no_answer(
    running: Running, connect: Callable[..., Any]
) -> None:
    broker = await running(tls=ServerTls.self_made())
    other = ServerTls.self_made()
    client = connect(broker, credentials=grpc.ssl_channel_credentials(other.trust))
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await is_well(client)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_plain_client_gets_no_answer_from_a_tls_port_and_the_reverse(
    running: Running, connect: Callable[..., Any]
) -> None:
    tls = ServerTls.self_made()
    secret, plain = await running(tls=tls), await running()
    for client in (connect(secret), connect(plain, credentials=grpc.ssl_channel_credentials(tls.trust))):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await is_well(client)
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_one_port_serves_plain_and_tls_clients(running: Running, connect: Callable[..., Any]) -> None:
    tls = ServerTls.self_made(also_plain=True)
    broker = await running(tls=tls)
    clients = [
        connect(broker, credentials=credentials)
        for credentials in (None, grpc.ssl_channel_credentials(tls.trust)) * 2
    ]
    assert all(await asyncio.gather(*(is_well(client) for client in clients)))
    large = bytes(3_000_000)
    for client in clients[:2]:
        assert (await client.send("t", large)).status.code == pb.Code.OK
    await clients[0].subscribe("g", "t")
    assert (await clients[0].receive("g", "t")).bodies == [large, large]


async def test_a_port_of_both_kinds_keeps_its_number_over_a_restart(
    running: Running, connect: Callable[..., Any]
) -> None:
    tls = ServerTls.self_made(also_plain=True)
    broker = await running(tls=tls)
    before = broker.endpoint
    client = connect(broker)
    assert await is_well(client)
    await broker.restart()
    assert broker.endpoint == before
    assert await is_well(connect(broker, credentials=grpc.ssl_channel_credentials(tls.trust)))
    await broker.crash()
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await is_well(client)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_shared_port_survives_silence_and_garbage(
    running: Running, connect: Callable[..., Any]
) -> None:
    broker = await running(tls=ServerTls.self_made(also_plain=True))
    host, _, port = broker.endpoint.rpartition(":")
    _, silent = await asyncio.open_connection(host, int(port))
    for noise in (b"", b"\x16", b"\x16" + bytes(100_000), bytes(100_000)):
        reader, writer = await asyncio.open_connection(host, int(port))
        # A server may well hang up in the middle of it.
        with suppress(OSError):
            writer.write(noise)
            writer.write_eof()
            await reader.read()
        writer.close()
    assert await is_well(connect(broker))
    silent.close()


async def test_required_client_certificates_are_checked(
    running: Running, connect: Callable[..., Any]
) -> None:
    tls = ServerTls.self_made(ask_clients=True)
    broker = await running(tls=tls)
    shown = grpc.ssl_channel_credentials(tls.trust, tls.client_certificate, tls.client_certificate)
    assert await is_well(connect(broker, credentials=shown))
    other = ServerTls.self_made(ask_clients=True).client_certificate
    for credentials in (
        grpc.ssl_channel_credentials(tls.trust),
        grpc.ssl_channel_credentials(tls.trust, other, other),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await is_well(connect(broker, credentials=credentials))
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_shared_port_cannot_require_certificates() -> None:
    with pytest.raises(ValueError, match="choose one"):
        ServerTls.self_made(ask_clients=True, also_plain=True)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        bytes([0, 0, 0, 95])
        + b'{"code":105,"flag":0,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON"}',
        PREFACE + b"\xff" * 64,
        PREFACE
        + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        + b"\x7f\xff\xff\x01\x04\x00\x00\x00\x01"
        + b"\x00" * 512,
        random.Random(1).randbytes(65_536),
        PREFACE + random.Random(2).randbytes(65_536),
    ],
    ids=[
        "a byte",
        "http/1",
        "a tls hello",
        "the classic wire",
        "bad frames",
        "a huge frame",
        "noise",
        "noise in h2",
    ],
)
async def test_garbage_on_the_port_has_no_effect_on_others(
    broker: FakeBroker, client: Any, noise: bytes
) -> None:
    host, _, port = broker.endpoint.rpartition(":")
    stream, _ = await client.publish("t")
    for _ in range(3):
        reader, writer = await asyncio.open_connection(host, int(port))
        # A server may well hang up in the middle of it.
        with suppress(OSError):
            writer.write(noise)
            writer.write_eof()
            await reader.read()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    assert await is_well(client)
    await stream.write(pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing())))
    assert (await stream.read()).status.code == pb.Code.OK


@pytest.mark.parametrize("name", sorted(DOCUMENTED.served_rpcs))
async def test_a_request_that_is_no_message_is_an_error_of_its_caller(
    broker: FakeBroker, client: Any, name: str
) -> None:
    method = METHODS[name]

    async def ask() -> None:
        if method.client_streaming:
            stream = client.telemetry()
            await stream.write(b"\xff\xff\xff\xff")
            await stream.read()
        elif method.server_streaming:
            await client.stream(name, b"\xff\xff\xff\xff").read()
        else:
            await client.call(name, b"\xff\xff\xff\xff")

    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await ask()
    assert failed.value.code() == grpc.StatusCode.INTERNAL
    assert await is_well(client)


async def test_random_requests_are_answered_or_refused(broker: FakeBroker, client: Any) -> None:
    """Bytes that parse by chance, and messages cut or bent anywhere, reach every unary call."""
    chance = random.Random(3)
    names = sorted(name for name, method in METHODS.items() if not method.server_streaming)
    good = pb.SendMessageRequest(
        messages=[
            pb.Message(
                topic=pb.Resource(name="t"),
                body=b"1",
                user_properties={"a": "b"},
                system_properties=pb.SystemProperties(message_id="m", tag="x", keys=["k"], priority=7),
            )
        ]
    ).SerializeToString()
    allowed = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED}
    failures: list[grpc.aio.AioRpcError] = []
    for turn in range(400):
        if turn % 2:
            bent = bytearray(good)
            bent[chance.randrange(len(bent))] = chance.randrange(256)
            payload = bytes(bent[: chance.randrange(1, len(bent) + 1)])
        else:
            payload = chance.randbytes(chance.randrange(1, 40))
        try:
            await client.call(chance.choice(names), payload)
        except grpc.aio.AioRpcError as error:
            failures.append(error)
    assert {error.code() for error in failures} <= allowed
    assert [error for error in failures if "the fake broker failed" in str(error.details())] == []
    assert await is_well(client)


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63)])
async def test_numbers_at_the_ends_of_their_range_are_no_fault_of_the_broker(
    broker: FakeBroker, client: Any, consumer: Any, requests: Any, seconds: int
) -> None:
    await broker.create_topic("later", type="DELAY")
    sent = await client.send("t", b"1", born_timestamp=pb.Timestamp(seconds=seconds, nanos=-1))
    assert sent.status.code == pb.Code.OK
    later = await client.send("later", b"1", delivery_timestamp=pb.Timestamp(seconds=seconds))
    assert later.status.code == (pb.Code.ILLEGAL_DELIVERY_TIME if seconds > 0 else pb.Code.OK)
    request = requests.receive("g", "t", batch=2**31 - 1)
    request.invisible_duration.seconds = seconds
    stream = consumer.stream("ReceiveMessage", request)
    assert (await stream.read()).status.code == pb.Code.ILLEGAL_INVISIBLE_TIME
    request = requests.receive("g", "t", batch=2**31 - 1)
    request.long_polling_timeout.seconds = seconds
    frames = await requests.collect(consumer.stream("ReceiveMessage", request))
    assert frames.bodies == [b"1"]
    change = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="g"),
        topic=pb.Resource(name="t"),
        receipt_handle=frames.messages[0].system_properties.receipt_handle,
    )
    change.invisible_duration.seconds = seconds
    changed = await consumer.call("ChangeInvisibleDuration", change)
    assert changed.status.code == pb.Code.ILLEGAL_INVISIBLE_TIME


async def test_a_message_above_the_cap_is_refused_by_the_transport() -> None:
    """R1.4; with a small cap, because the real one takes seconds to fill."""

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(echo)
    server = GrpcServer((grpc.method_handlers_generic_handler("s", {"Echo": handler}),), message_cap=1000)
    port = await server.open("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary("/s/Echo")
        assert len(await call(bytes(1000))) == 1000
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(bytes(1001))
        assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(await call(bytes(1000))) == 1000
    await server.close()
    assert MESSAGE_CAP == 130 * 1024 * 1024


async def test_a_body_above_the_limit_is_refused_by_the_broker(client: Any) -> None:
    """4.1 row 5: read completely, and answered."""
    response = await client.send("t", bytes(5 * 1024 * 1024))
    assert response.status.code == pb.Code.MESSAGE_BODY_TOO_LARGE


async def test_headers_above_the_limit_fail_the_call_alone(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    """Session §10: 8 KiB."""
    assert await is_well(connect(broker, "big", padding="x" * 7000))
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await is_well(connect(broker, "bigger", padding="x" * 9000))
    assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await is_well(client)


async def test_a_connection_may_park_a_thousand_receives(
    running: Running, connect: Callable[..., Any], until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    broker = await running()
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    polls = [asyncio.create_task(consumer.receive("g", "t", batch=1, wait=60)) for _ in range(1000)]
    await until(lambda: broker.clock.parked == len(polls))
    for number in range(0, len(polls), 20):
        await consumer.send("t", *(b"%d" % each for each in range(number, number + 20)))
    answers = await asyncio.wait_for(asyncio.gather(*polls), 60)
    bodies = [message.body for answer in answers for message in answer.messages]
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(1000)]

    reader, writer = await asyncio.open_connection(*broker.endpoint.rsplit(":", 1))
    writer.write(PREFACE + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    head = await asyncio.wait_for(reader.readexactly(9), 10)
    assert head[3] == 4, "an HTTP/2 server begins with its settings"
    settings = await reader.readexactly(int.from_bytes(head[:3]))
    writer.close()
    codes = {
        int.from_bytes(settings[at : at + 2]): int.from_bytes(settings[at + 2 : at + 6])
        for at in range(0, len(settings), 6)
    }
    assert codes[3] == STREAMS_MAX


async def test_a_port_that_is_taken_is_said_to_be(broker: FakeBroker) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {broker.endpoint}"):
        async with FakeBroker(listen=broker.endpoint):
            pass


@pytest.mark.parametrize("listen", ["", "8081", "localhost", "::1:8081", "host:port", "host:99999", ":1"])
def test_an_address_that_is_none_is_refused_where_it_is_given(listen: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        FakeBroker(listen=listen)
