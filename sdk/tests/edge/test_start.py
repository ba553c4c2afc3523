"""Whatever is wrong with an endpoint, the start ends in time with one clear sentence, and leaves nothing behind."""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._session.start import _Attempt
from aiorocketmq._transport.diagnosis import diagnose
from aiorocketmq._transport.interface import Diagnosis
from aiorocketmq.config import Credentials, Timeouts, Tls
from aiorocketmq.connection import Connection
from aiorocketmq.errors import (
    ClosedError,
    GroupNotFoundError,
    MessageTooLargeError,
    NotSupportedError,
    PermissionDeniedError,
    RefusedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import ClientEvent
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker, ServerTls
from aiorocketmq_fake.core.values.events import Refused as CommandRefused

from sdk.tests.clients import simple_consumer
from sdk.tests.edge.watching import Watching
from sdk.tests.waiting import until

Awaiting = Callable[[type[object]], AbstractAsyncContextManager[None]]

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Answer], AbstractAsyncContextManager[str]]
ServeGrpc = Callable[..., AbstractAsyncContextManager[str]]

GARBAGE = b"\xff\xff\xff"


def route_to(port: int | None = None) -> bytes:
    """The answer of a server whose topic `orders` has one queue, served by itself or by a port of this machine."""
    answer = pb.QueryRouteResponse(status=pb.Status(code=pb.Code.OK))
    queue = answer.message_queues.add(permission=pb.Permission.READ_WRITE)
    queue.broker.name = "broker-a"
    if port is not None:
        queue.broker.endpoints.addresses.add(host="127.0.0.1", port=port)
    return answer.SerializeToString()


PRODUCER_SETTINGS = pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing())).SerializeToString()


async def start_error(endpoint: str, timeouts: Timeouts, **options: object) -> RocketMQError:
    """The error of a consumer's start, which must come within the deadline and leave no task behind."""
    begun = time.monotonic()
    consumer = simple_consumer(
        endpoint,
        timeouts=timeouts,
        **options,  # type: ignore[arg-type]
    )
    with pytest.raises(RocketMQError) as raised:
        await consumer.__aenter__()
    assert time.monotonic() - begun < timeouts.start + 1.0
    assert tasks_of_clients() == []
    with pytest.raises(ClosedError):
        await consumer.receive()
    error = raised.value
    assert not isinstance(error, ClosedError)
    assert endpoint in str(error)
    assert "\n" not in str(error)
    return error


def tasks_of_clients() -> list[str]:
    """The names of tasks that a client has left behind; a server in this process has tasks of its own."""
    names = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
    return [name for name in names if name.startswith(("producer", "simple"))]


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


async def test_an_unknown_host(soon: Timeouts) -> None:
    error = await start_error("no-such-host.invalid:8081", soon)
    assert isinstance(error, UnreachableError)
    assert "unknown" in str(error)
    assert "'orders'" in str(error)
    assert "'billing'" in str(error)
    assert (error.endpoint, error.topic, error.group) == ("no-such-host.invalid:8081", "orders", "billing")
    assert error.may_retry
    assert not error.may_have_taken_effect
    assert error.tried


async def test_a_port_without_a_listener(soon: Timeouts) -> None:
    error = await start_error(f"127.0.0.1:{closed_port()}", soon)
    assert isinstance(error, UnreachableError)
    assert "nothing listens there" in str(error)


async def test_observers_see_that_a_start_has_failed(soon: Timeouts, watching: Watching) -> None:
    error = await start_error(f"127.0.0.1:{closed_port()}", soon, hooks=[watching])
    assert watching.told(ClientEvent) == ["invoke", "fail"]
    assert watching.events[-1].error is error


async def test_an_ipv6_address_without_a_listener(soon: Timeouts) -> None:
    error = await start_error(f"[::1]:{closed_port()}", soon)
    assert isinstance(error, UnreachableError)


async def name_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close on HTTP/2, because the greeting looks like the length of a frame, and answer the remoting protocol."""
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    if length < 1 << 24:
        await reader.readexactly(length)
        header = json.dumps({"code": 17, "opaque": 1, "flag": 1}).encode()
        writer.write(struct.pack(">II", 4 + len(header), len(header)) + header)
        await writer.drain()
    writer.close()


async def test_the_port_of_a_name_server(serve: Serve, soon: Timeouts) -> None:
    async with serve(name_server) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError)
    assert "it is a name server or broker port of the classic protocol" in str(error)
    assert "8081" in str(error)


async def test_the_port_of_a_name_server_when_tls_is_asked_for(serve: Serve, soon: Timeouts) -> None:
    async with serve(name_server) as endpoint:
        error = await start_error(endpoint, soon, tls=Tls())
    assert "classic protocol" in str(error)


async def test_a_web_server(serve: Serve, soon: Timeouts) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with serve(web) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError)
    assert "not the gRPC port of a RocketMQ proxy" in str(error)


async def test_an_undecodable_route_is_named_at_the_timeout(serve_grpc: ServeGrpc, soon: Timeouts) -> None:
    async with serve_grpc(QueryRoute=[GARBAGE]) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, ServerError)
    assert "the answer of" in str(error)
    assert "to QueryRoute (topic 'orders', group 'billing')" in str(error)
    assert "could not be decoded" in str(error)


async def test_an_undecodable_telemetry_frame_is_named_at_the_timeout(
    serve_grpc: ServeGrpc, soon: Timeouts
) -> None:
    async with serve_grpc(QueryRoute=[route_to()], Telemetry=[GARBAGE]) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, ServerError)
    assert "settings" in str(error)
    assert "could not be decoded" in str(error)


async def test_a_route_beyond_the_bounds_is_refused_in_one_sentence(
    serve_grpc: ServeGrpc, soon: Timeouts
) -> None:
    async with serve_grpc(QueryRoute=[route_to(port=65536)]) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, ServerError)
    assert "'127.0.0.1:65536' has the port '65536'; a port is a number from 1 to 65535" in str(error)


async def test_a_start_continues_after_answers_that_could_not_be_decoded(serve_grpc: ServeGrpc) -> None:
    async with (
        serve_grpc(
            QueryRoute=[GARBAGE, route_to(port=0), route_to()],
            Telemetry=[GARBAGE, b"", PRODUCER_SETTINGS],
        ) as endpoint,
        Producer(endpoint, topics=["orders"], timeouts=Timeouts(start=10.0, request=0.5)) as producer,
    ):
        assert producer._session.is_running


async def test_a_send_that_its_entry_alone_refuses_raises_that_refusal(serve_grpc: ServeGrpc) -> None:
    """The call itself is answered with OK."""
    response = pb.SendMessageResponse(status=pb.Status(code=pb.Code.OK))
    refused = response.entries.add()
    refused.status.code = pb.Code.MESSAGE_BODY_TOO_LARGE
    refused.status.message = "too much"
    async with (
        serve_grpc(
            QueryRoute=[route_to()],
            Telemetry=[PRODUCER_SETTINGS],
            SendMessage=[response.SerializeToString()],
        ) as endpoint,
        Producer(
            endpoint,
            topics=["orders"],
            address_map=lambda _: endpoint,
            timeouts=Timeouts(start=10.0, request=0.5),
        ) as producer,
    ):
        with pytest.raises(MessageTooLargeError, match="too much") as raised:
            await producer.send(Message("orders", b"x"))
        assert raised.value.code_name == "MESSAGE_BODY_TOO_LARGE"
        assert producer.health().last_success is None


async def test_a_server_of_another_grpc_service(serve_grpc: ServeGrpc, soon: Timeouts) -> None:
    async with serve_grpc() as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, NotSupportedError)


async def test_a_server_that_greets_in_http2_and_then_sends_garbage(serve: Serve, soon: Timeouts) -> None:
    async def garbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\xff" * 64)
        await writer.drain()
        await reader.read()

    async with serve(garbled) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError | ServerError)


async def test_a_server_that_sends_garbage_at_once(serve: Serve, soon: Timeouts) -> None:
    async def garbled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\xde\xad\xbe\xef" * 64)
        await writer.drain()
        await reader.read()

    async with serve(garbled) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError)


async def test_a_server_that_accepts_and_stays_silent(serve: Serve, soon: Timeouts) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve(silent) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError)


async def test_an_address_that_does_not_answer_at_all_is_diagnosed_as_such() -> None:
    diagnosis = await diagnose(parse_endpoint("127.0.0.1:1"), None, step=0.0)
    assert diagnosis == Diagnosis("it does not answer; check host, port and firewall", is_final=False)


async def test_an_answer_in_pieces_is_diagnosed_as_a_whole(serve: Serve) -> None:
    async def settings(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)):
            writer.write(bytes((byte,)))
            for _ in range(5):
                await asyncio.sleep(0)
        await reader.read()

    async with serve(settings) as endpoint:
        diagnosis = await diagnose(parse_endpoint(endpoint), None, step=5.0)
    text = "it accepts connections but does not answer; look at the server's log"
    assert diagnosis == Diagnosis(text, is_final=False)


async def test_a_server_that_hangs_up_at_once(serve: Serve, soon: Timeouts) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serve(hangs_up) as endpoint:
        error = await start_error(endpoint, soon)
    assert isinstance(error, UnreachableError)


async def test_a_server_that_speaks_tls_when_plain_text_is_asked_for(soon: Timeouts) -> None:
    async with FakeBroker(tls=ServerTls.self_made()) as broker:
        error = await start_error(broker.endpoint, soon)
        # There is no use in waiting for it.
        assert (await diagnose(parse_endpoint(broker.endpoint), None, step=5.0)).is_final
    assert isinstance(error, UnreachableError)
    assert "it speaks TLS; give tls=Tls()" in str(error)


async def test_a_server_that_speaks_plain_text_when_tls_is_asked_for(
    broker: FakeBroker, soon: Timeouts
) -> None:
    error = await start_error(broker.endpoint, soon, tls=Tls())
    assert isinstance(error, UnreachableError)
    assert "it speaks plain text, not TLS; leave tls out" in str(error)


async def test_a_certificate_that_no_authority_signed(soon: Timeouts) -> None:
    async with FakeBroker(tls=ServerTls.self_made()) as broker:
        error = await start_error(broker.endpoint, soon, tls=Tls())
    assert isinstance(error, UnreachableError)
    assert "certificate is not trusted" in str(error)


async def test_a_certificate_for_another_name(soon: Timeouts) -> None:
    tls = ServerTls.self_made("mq.example.org")
    async with FakeBroker(tls=tls) as broker:
        error = await start_error(broker.endpoint, soon, tls=Tls(ca=tls.trust))
        endpoint, named = parse_endpoint(broker.endpoint), Tls(ca=tls.trust, server_name="mq.example.org")
        diagnosis = await diagnose(endpoint, named, step=5.0)
    assert "certificate is not trusted" in str(error)
    assert "it accepts TLS but does not answer" in diagnosis.text


@pytest.mark.parametrize("how", ["own root", "insecure", "other name", "insecure, other name"])
async def test_tls_works_with_what_it_was_given(how: str) -> None:
    server = ServerTls.self_made("mq.example.org") if "other name" in how else ServerTls.self_made()
    tls = {
        "own root": Tls(ca=server.trust),
        "insecure": Tls(insecure=True),
        "other name": Tls(ca=server.trust, server_name="mq.example.org"),
        "insecure, other name": Tls(insecure=True),
    }[how]
    async with FakeBroker(tls=server) as broker:
        await broker.create_topic("orders")
        async with Producer(broker.endpoint, tls=tls) as producer:
            assert (await producer.send(Message("orders", b"x"))).topic == "orders"


@pytest.mark.parametrize("endpoint", ["http://localhost:8081", "localhost", "::1:8081", "a:1;b:2", ""])
def test_a_malformed_endpoint_is_refused_by_the_line_that_wrote_it(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        Producer(endpoint)
    with pytest.raises(ValueError, match="endpoint"):
        SimpleConsumer(endpoint, group="g", subscriptions=["t"])


async def test_an_unknown_topic(broker: FakeBroker, soon: Timeouts) -> None:
    await broker.delete_topic("orders")
    error = await start_error(broker.endpoint, soon)
    assert isinstance(error, TopicNotFoundError)
    assert error.topic == "orders"
    assert "create the topic first" in str(error)


async def test_an_unknown_topic_of_a_producer(broker: FakeBroker, soon: Timeouts) -> None:
    with pytest.raises(TopicNotFoundError, match="'nothing'"):
        async with Producer(broker.endpoint, topics=["orders", "nothing"], timeouts=soon):
            pass


async def test_an_unknown_group_where_the_server_refuses_it() -> None:
    async with FakeBroker(profile="apache-5.5") as broker:
        await broker.create_topic("orders")
        error = await start_error(broker.endpoint, Timeouts(start=5.0, request=2.0))
    assert isinstance(error, GroupNotFoundError)
    assert error.group == "billing"
    assert "create the consumer group first" in str(error)


def test_other_failures_do_not_count_for_a_group_that_may_appear() -> None:
    session = SimpleConsumer("127.0.0.1:8081", group="billing", subscriptions=["orders"])._session
    attempt = _Attempt(session, session.routes, None)
    away, unknown = UnreachableError("away"), GroupNotFoundError("unknown")
    failures = (away, away, unknown, unknown, away, unknown)
    assert [attempt._delay_after(each) is None for each in failures] == [False] * 5 + [True]


async def test_credentials_that_the_server_refuses(broker: FakeBroker, soon: Timeouts) -> None:
    with broker.faults.refuse("QueryRoute", "UNAUTHORIZED", "no such user"):
        error = await start_error(broker.endpoint, soon, credentials=Credentials("key", "secret"))
    assert isinstance(error, PermissionDeniedError)
    assert "no such user" in str(error)


async def test_settings_that_the_server_refuses(broker: FakeBroker, soon: Timeouts) -> None:
    with broker.faults.fail("Telemetry", "INVALID_ARGUMENT"):
        error = await start_error(broker.endpoint, soon)
    assert isinstance(error, RefusedError)


async def test_a_topic_that_appears_while_the_client_starts_is_waited_for(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    async def create_later() -> None:
        async with awaiting(CommandRefused):
            pass
        await broker.create_topic("later")

    creating = asyncio.create_task(create_later())
    async with Producer(broker.endpoint, topics=["later"]) as producer:
        await producer.send(Message("later", b"x"))
    await creating
    assert [message.body for message in broker.messages("later")] == [b"x"]


async def test_a_server_that_comes_up_while_the_client_starts_is_found(broker: FakeBroker) -> None:
    await broker.stop()

    async def start_later() -> None:
        await asyncio.sleep(0.5)
        await broker.start()

    starting = asyncio.create_task(start_later())
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        await producer.send(Message("orders", b"x"))
    await starting
    assert [message.body for message in broker.messages("orders")] == [b"x"]


async def test_a_producer_without_topics_still_shows_that_there_is_no_server(soon: Timeouts) -> None:
    with pytest.raises(UnreachableError, match="nothing listens there"):
        async with Producer(f"127.0.0.1:{closed_port()}", timeouts=soon):
            pass


async def test_a_cancelled_start_leaves_nothing_behind(serve: Serve) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve(silent) as endpoint:
        producer = Producer(endpoint)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await producer.__aenter__()
    assert tasks_of_clients() == []
    with pytest.raises(ClosedError):
        await producer.send(Message("orders", b"x"))


async def test_a_client_is_started_once(broker: FakeBroker) -> None:
    producer = Producer(broker.endpoint)
    async with producer:
        with pytest.raises(UsageError, match="was started before"):
            await producer.__aenter__()
    with pytest.raises(UsageError, match="was started before"):
        await producer.__aenter__()


async def test_a_client_that_is_not_open_says_so(broker: FakeBroker) -> None:
    producer = Producer(broker.endpoint)
    with pytest.raises(ClosedError, match="is not open yet"):
        await producer.send(Message("orders", b"x"))
    async with producer:
        pass
    with pytest.raises(ClosedError, match="was closed"):
        await producer.send(Message("orders", b"x"))


@pytest.mark.parametrize("scheme", ["", "namesrv://"])
async def test_a_client_may_be_left_while_another_task_starts_it(serve: Serve, scheme: str) -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serve(never_answer) as endpoint:
        producer = Producer(f"{scheme}{endpoint}", topics=["orders"], timeouts=Timeouts(start=5.0, stop=0.2))
        starting = asyncio.create_task(producer.__aenter__())
        await until(lambda: producer._session.started_at)
        await producer.__aexit__(None, None, None)
        with pytest.raises(ClosedError):
            await starting
    assert not producer.health().running


async def test_an_address_that_only_the_server_can_reach_is_named_with_its_remedy(broker: FakeBroker) -> None:
    port = closed_port()
    wrong = Connection(
        broker.endpoint, timeouts=Timeouts(start=1.5, request=0.5), address_map=lambda _: f"127.0.0.1:{port}"
    )
    async with wrong:
        with pytest.raises(UnreachableError, match="address_map=") as raised:
            async with Producer(wrong, topics=["orders"]):
                pass
    assert f"127.0.0.1:{port}" in str(raised.value)


async def test_an_address_map_leads_to_where_the_server_can_be_reached(broker: FakeBroker) -> None:
    host, _, port = broker.endpoint.partition(":")
    connection = Connection(broker.endpoint, address_map={broker.endpoint: f"localhost:{port}"})
    async with connection, Producer(connection, topics=["orders"]) as producer:
        receipt = await producer.send(Message("orders", b"x"))
    assert receipt.endpoint == f"localhost:{port}"
    assert host != "localhost"


async def test_options_of_a_connection_are_not_given_twice(broker: FakeBroker) -> None:
    with pytest.raises(TypeError, match="namespace, tls belong to the Connection"):
        Producer(Connection(broker.endpoint), tls=Tls(), namespace="shop")


async def test_a_server_that_answers_settings_with_a_status_says_why(
    broker: FakeBroker, soon: Timeouts
) -> None:
    with broker.faults.refuse("Telemetry", "UNAUTHORIZED", "no such user"):
        error = await start_error(broker.endpoint, soon)
    assert isinstance(error, PermissionDeniedError)
    assert "no such user" in str(error)


async def test_a_credentials_provider_that_fails_ends_the_start_with_its_own_error(
    broker: FakeBroker,
) -> None:
    async def provider() -> Credentials:
        raise LookupError("the vault is locked")

    with pytest.raises(LookupError, match="the vault is locked"):
        async with Producer(broker.endpoint, credentials=provider):
            pass
    assert tasks_of_clients() == []
