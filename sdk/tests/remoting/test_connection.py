"""One connection of the classic protocol, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import RESPONSE, Frame, encode
from aiorocketmq._remoting.connection import RemotingConnection
from aiorocketmq.errors import BusyError, ClosedError, TopicNotFoundError, UnreachableError


class Server(Protocol):
    address: Address
    seen: list[Frame]
    arrived: asyncio.Event


Serve = Callable[[Callable[[Frame], "Frame | bytes | None"]], Awaitable[Server]]


def ok(frame: Frame, body: bytes = b"") -> Frame:
    return Frame(code=0, opaque=frame.opaque, flag=RESPONSE, body=body)


async def test_an_answer_reaches_who_asked(serve: Serve) -> None:
    server = await serve(lambda frame: ok(frame, frame.body.upper()))
    async with RemotingConnection(server.address) as connection:
        answers = await asyncio.gather(
            *(connection.request(1, {"n": str(n)}, b"text %d" % n, timeout=5) for n in range(20))
        )
    assert [answer.body for answer in answers] == [b"TEXT %d" % n for n in range(20)]
    assert [frame.fields["n"] for frame in server.seen] == [str(n) for n in range(20)]


async def test_answers_may_come_in_another_order(serve: Serve) -> None:
    first: list[Frame] = []

    def reply(frame: Frame) -> bytes | None:
        if not first:
            first.append(frame)
            return None
        return encode(ok(frame, b"second")) + encode(ok(first[0], b"first"))

    server = await serve(reply)
    async with RemotingConnection(server.address) as connection:
        one, two = await asyncio.gather(connection.request(1, timeout=5), connection.request(1, timeout=5))
    assert (one.body, two.body) == (b"first", b"second")


async def test_no_answer_in_time_is_an_error_and_the_connection_stays_usable(serve: Serve) -> None:
    late: list[Frame] = []

    def reply(frame: Frame) -> bytes | Frame | None:
        if frame.code == 1:
            late.append(frame)
            return None
        return encode(ok(late[0], b"late")) + encode(ok(frame, b"good"))

    server = await serve(reply)
    async with RemotingConnection(server.address) as connection:
        with pytest.raises(
            UnreachableError, match=r"no answer from .* to request 1 within 0\.02 s"
        ) as caught:
            await connection.request(1, timeout=0.02)
        assert caught.value.timed_out
        assert caught.value.may_have_taken_effect
        assert (await connection.request(2, timeout=5)).body == b"good"


async def test_a_connection_that_stays_silent_is_given_up_and_who_waits_is_reported(serve: Serve) -> None:
    lost: list[str] = []
    server = await serve(lambda frame: None)
    async with RemotingConnection(server.address, on_lost=lambda: lost.append("lost")) as connection:
        held = asyncio.create_task(connection.request(11, timeout=60))
        await asyncio.gather(*(unanswered(connection) for _ in range(3)))
        assert connection.is_open, "three at the same time are one silence"
        await unanswered(connection)
        assert not connection.is_open
        assert lost == ["lost"]
        with pytest.raises(
            UnreachableError, match=r"is silent: it answered nothing for two requests"
        ) as caught:
            await held
        assert not caught.value.timed_out
    assert lost == ["lost"]


async def test_requests_that_wait_to_be_written_end_with_the_connection(serve: Serve) -> None:
    server = await serve(lambda frame: b"")
    async with RemotingConnection(server.address) as connection, asyncio.timeout(20):
        asking = asyncio.create_task(connection.request(1, timeout=60))
        await server.arrived.wait()
        assert connection._wire is not None
        connection._wire.pause_writing()
        with pytest.raises(UnreachableError, match="closed the connection"):
            await connection.request(2, timeout=60)
        with pytest.raises(UnreachableError):
            await asking


async def test_a_request_without_an_answer_ends_no_connection_on_which_others_are_answered(
    serve: Serve,
) -> None:
    server = await serve(lambda frame: None if frame.code == 1 else ok(frame))
    async with RemotingConnection(server.address) as connection:
        for _ in range(3):
            await unanswered(connection)
            await connection.request(2, timeout=5)
        assert connection.is_open


async def unanswered(connection: RemotingConnection) -> None:
    with pytest.raises(UnreachableError, match="no answer") as caught:
        await connection.request(1, timeout=0.02)
    assert caught.value.timed_out


async def test_a_refusal_is_raised_by_call_and_returned_by_request(serve: Serve) -> None:
    server = await serve(lambda frame: Frame(code=17, opaque=frame.opaque, flag=RESPONSE, remark="no route"))
    async with RemotingConnection(server.address) as connection:
        assert (await connection.request(105, timeout=5)).code == 17
        with pytest.raises(TopicNotFoundError, match="no route"):
            await connection.call(105, timeout=5, topic="orders")


async def test_throttling_is_raised_as_busy(serve: Serve) -> None:
    server = await serve(lambda frame: Frame(code=2, opaque=frame.opaque, flag=RESPONSE, remark="[OVERLOAD]"))
    async with RemotingConnection(server.address) as connection:
        with pytest.raises(BusyError, match="OVERLOAD"):
            await connection.call(105, timeout=5)


async def test_a_connection_that_ends_fails_everybody_who_waits(serve: Serve) -> None:
    server = await serve(lambda frame: b"" if frame.code == 2 else None)
    async with RemotingConnection(server.address) as connection:
        outcomes = await asyncio.gather(
            connection.request(1, timeout=5), connection.request(2, timeout=5), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [UnreachableError, UnreachableError]
        assert not connection.is_open
        with pytest.raises(UnreachableError, match="closed the connection before any answer; give the port"):
            await connection.request(1, timeout=5)


async def test_a_peer_that_speaks_something_else_is_distinguished_from_a_silent_one(serve: Serve) -> None:
    server = await serve(lambda frame: b"SSH-2.0-OpenSSH_9.6\r\n")
    async with RemotingConnection(server.address) as connection:
        with pytest.raises(UnreachableError, match="does not speak the classic RocketMQ protocol"):
            await connection.request(1, timeout=5)


async def test_a_port_without_a_listener_is_named() -> None:
    with pytest.raises(
        UnreachableError, match=r"no connection to 127\.0\.0\.1:1 .*is the server running there"
    ) as caught:
        async with RemotingConnection(Address("127.0.0.1", 1)):
            raise AssertionError("entered")
    assert caught.value.endpoint == "127.0.0.1:1"
    assert not caught.value.may_have_taken_effect


async def test_a_request_of_the_peer_is_handed_on_and_answered_as_unknown(serve: Serve) -> None:
    answered = asyncio.Event()

    def reply(frame: Frame) -> Frame | bytes | None:
        if frame.is_response:
            answered.set()
            return None
        # The peer's number is that of our own request: they differ by the flag alone.
        return encode(Frame(code=307, opaque=frame.opaque)) + encode(ok(frame))

    server = await serve(reply)
    peer_requests: list[Frame] = []
    async with RemotingConnection(server.address, on_request=peer_requests.append) as connection:
        assert (await connection.request(1, timeout=5)).code == 0
        await asyncio.wait_for(answered.wait(), 5)
    assert [frame.code for frame in peer_requests] == [307]
    assert [(frame.code, frame.flag) for frame in server.seen] == [(1, 0), (3, RESPONSE)]


async def test_a_connection_outside_its_block_is_closed(serve: Serve) -> None:
    server = await serve(ok)
    connection = RemotingConnection(server.address)
    with pytest.raises(ClosedError, match="async with"):
        await connection.request(1, timeout=5)
    async with connection:
        await connection.request(1, timeout=5)
    with pytest.raises(ClosedError, match="was closed"):
        await connection.request(1, timeout=5)


async def test_a_cancelled_request_leaves_the_connection_usable(serve: Serve) -> None:
    server = await serve(lambda frame: None if frame.code == 1 else ok(frame))
    async with RemotingConnection(server.address) as connection:
        waiting = asyncio.ensure_future(connection.request(1, timeout=5))
        await asyncio.wait_for(server.arrived.wait(), 5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await connection.request(2, timeout=5)).code == 0
