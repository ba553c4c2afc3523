"""The connections of one client: one for each address, one attempt at a time, TLS, and the end."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import RESPONSE, Frame, FrameReader, encode
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.name_servers import NameServers
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.signing import sign
from aiorocketmq._transport.trust import ssl_context
from aiorocketmq.config import Credentials, Tls
from aiorocketmq.errors import ClosedError, UnreachableError

Serve = Callable[[Callable[[Frame], Any]], Awaitable[Any]]


async def nobody() -> Credentials | None:
    return None


def ok(frame: Frame) -> Frame:
    return Frame(code=0, opaque=frame.opaque, flag=RESPONSE)


async def test_all_requests_to_a_server_share_one_connection(serve: Serve) -> None:
    server = await serve(ok)
    pool = Pool(credentials=nobody)
    await asyncio.gather(*(pool.call(server.address, 1, timeout=5) for _ in range(20)))
    assert (server.connections, len(server.seen)) == (1, 20)
    assert pool.is_open(server.address)
    await pool.close()
    with pytest.raises(ClosedError, match="were closed"):
        await pool.call(server.address, 1, timeout=5)


async def test_an_address_that_cannot_be_reached_is_tried_once_for_all_who_wait() -> None:
    """Otherwise each of a thousand queues would wait for the attempts of those before it."""
    tries: list[Address] = []

    def mapped(address: Address) -> Address:
        tries.append(address)
        return Address("127.0.0.1", 1)

    pool = Pool(credentials=nobody, mapped=mapped)
    calls = [pool.call(Address("broker", 10911), 1, timeout=5) for _ in range(50)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, UnreachableError) for error in outcomes)
    assert len(tries) == 1
    with pytest.raises(UnreachableError):
        await pool.call(Address("broker", 10911), 1, timeout=5)
    assert len(tries) == 2


async def test_who_gives_up_waiting_for_a_connection_does_not_end_it_for_others(serve: Serve) -> None:
    server = await serve(ok)
    pool = Pool(credentials=nobody)
    impatient = asyncio.ensure_future(pool.call(server.address, 1, timeout=5))
    patient = asyncio.ensure_future(pool.call(server.address, 2, timeout=5))
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).code == 0
    assert impatient.cancelled()
    await pool.close()


async def test_a_failed_connection_that_nobody_waits_for_any_more_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = Pool(credentials=nobody, mapped=lambda _: Address("127.0.0.1", 1))
    impatient = asyncio.ensure_future(pool.call(Address("broker", 10911), 1, timeout=5))
    await asyncio.sleep(0)
    (opening,) = pool._opening.values()
    impatient.cancel()
    await asyncio.wait((opening, impatient))
    del opening
    gc.collect()
    assert caplog.records == []
    await pool.close()


async def test_a_request_is_made_once_more_when_the_server_has_hung_up(serve: Serve) -> None:
    hang_up = [True]

    def once(frame: Frame) -> Frame | bytes:
        if hang_up:
            hang_up.clear()
            return b""
        return ok(frame)

    lost: list[Address] = []
    server = await serve(once)
    pool = Pool(credentials=nobody, on_lost=lost.append)
    assert (await pool.call(server.address, 1, timeout=5)).code == 0
    assert (server.connections, lost) == (2, [server.address])
    await pool.close()
    assert lost == [server.address]


async def test_behind_a_silent_connection_a_held_request_is_made_once_more_and_one_whose_time_has_ended_is_not(
    serve: Serve,
) -> None:
    server = await serve(lambda frame: ok(frame) if server.connections > 1 else None)
    pool = Pool(credentials=nobody)
    await pool.connect(server.address)
    held = asyncio.ensure_future(pool.call(server.address, 11, timeout=60))
    for _ in range(2):
        with pytest.raises(UnreachableError, match="no answer"):
            await pool.call(server.address, 1, timeout=0.02)
    assert (await held).code == 0
    assert Counter(frame.code for frame in server.seen) == {11: 2, 1: 2}
    await pool.close()


@pytest.mark.parametrize("other", [Credentials("new", "secret"), Credentials("key", "renewed")])
async def test_a_refused_request_is_signed_afresh_with_other_credentials(
    serve: Serve, other: Credentials
) -> None:
    def refuse_once(frame: Frame) -> Frame:
        code = ResponseCode.SUCCESS if len(server.seen) > 1 else ResponseCode.NO_PERMISSION
        return ok(frame)._replace(code=code)

    async def first() -> Credentials:
        return Credentials("key", "secret", session_token="token")

    async def other_than(refused: Credentials | None) -> Credentials:
        assert refused == await first()
        return other

    server = await serve(refuse_once)
    pool = Pool(credentials=first, other_credentials=other_than)
    await pool.call(server.address, 1, {"topic": "T"}, timeout=5)
    signed = sign({"topic": "T"}, b"", access_key=other.access_key, secret_key=other.secret_key)
    assert server.seen[-1].fields == signed
    await pool.close()


async def test_requests_travel_by_tls_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, client_authority = trustme.CA(), trustme.CA()
    # The system trusts the server: with roots of its own, a client does not.
    authority.cert_pem.write_to_path(str(tmp_path / "system.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("broker.test").configure_cert(server_side)
    client_authority.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    ours = client_authority.issue_cert("client.test")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    writer.write(encode(ok(frame)))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side) as listening:
        address = Address(*listening.sockets[0].getsockname())
        tls = Tls(
            ca=authority.cert_pem.bytes(),
            certificate=ours.cert_chain_pems[0].bytes(),
            key=ours.private_key_pem.bytes(),
            server_name="broker.test",
        )
        for trusting in (tls, replace(tls, ca=None), replace(tls, ca=None, insecure=True)):
            pool = Pool(credentials=nobody, ssl=ssl_context(trusting), server_name=trusting.server_name)
            assert (await pool.call(address, 1, timeout=5)).code == 0
            await pool.close()
        stranger = trustme.CA().cert_pem
        stranger.write_to_path(str(tmp_path / "stranger.pem"))
        for wrong in (
            replace(tls, server_name="other.test"),
            replace(tls, ca=stranger.bytes()),
            replace(tls, ca=tmp_path / "stranger.pem"),
        ):
            pool = Pool(credentials=nobody, ssl=ssl_context(wrong), server_name=wrong.server_name)
            with pytest.raises(
                UnreachableError, match=r"no TLS with .*check tls= and the server's certificate"
            ):
                await pool.call(address, 1, timeout=5)
            await pool.close()


async def test_name_servers_are_asked_in_turn_beginning_with_the_last_that_answered(serve: Serve) -> None:
    away: set[int] = set()
    asked: list[int] = []

    def reply(number: int) -> Callable[[Frame], Frame | bytes]:
        def reply(frame: Frame) -> Frame | bytes:
            if asked[-1:] != [number]:  # a connection that breaks is tried once more
                asked.append(number)
            return b"" if number in away else ok(frame)

        return reply

    servers = [await serve(reply(number)) for number in range(3)]
    pool = Pool(credentials=nobody)
    names = NameServers(pool, [server.address for server in servers], timeout=5.0)
    for absent, expected in (
        (set(), [0]), ({0}, [0, 1]), ({0}, [1]), ({1, 2}, [1, 2, 0]), (set(), [0]), ({0, 1}, [0, 1, 2])
    ):  # fmt: skip
        away.clear()
        away.update(absent)
        asked.clear()
        await names.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {})
        assert asked == expected
    await pool.close()
