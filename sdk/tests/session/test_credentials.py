"""Credentials that end: asked for in time, once for all clients, and at once when a server refuses those in use."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from aiorocketmq._core.codes import Code
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.headers import HeaderSource
from aiorocketmq._transport.credentials import FRESH, MARGIN, CredentialSource, Signing
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.config import Credentials, CredentialsProvider
from aiorocketmq.connection import Connection
from aiorocketmq.errors import CredentialsProviderError, PermissionDeniedError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.faults import Fault

from sdk.tests.clients import simple_consumer

NOW = datetime(2027, 1, 15, tzinfo=UTC)


class Vault:
    """A provider that gives new credentials each time."""

    def __init__(self, lasts: timedelta | None = None) -> None:
        self.asked = 0
        self.lasts = lasts
        self.wall = NOW

    async def __call__(self) -> Credentials:
        self.asked += 1
        await asyncio.sleep(0)
        until = None if self.lasts is None else self.wall + self.lasts
        return Credentials(f"key{self.asked}", "secret", session_token=f"token{self.asked}", expires_at=until)

    def source(self) -> CredentialSource:
        return CredentialSource(self, wall=self._now)

    def _now(self) -> float:
        return self.wall.timestamp()


async def test_many_clients_of_a_connection_ask_once(broker: FakeBroker) -> None:
    vault = Vault()
    async with Connection(broker.endpoint, credentials=vault) as rocketmq:
        producers = [Producer(rocketmq, topics=["orders"]) for _ in range(10)]
        await asyncio.gather(*(producer.__aenter__() for producer in producers))
        await asyncio.gather(*(producer.__aexit__(None, None, None) for producer in producers))
    assert vault.asked == 1


async def test_temporary_credentials_are_renewed_before_they_end_and_not_earlier() -> None:
    vault = Vault(timedelta(hours=1))
    source = vault.source()
    first = await source.now()
    vault.wall += timedelta(seconds=3600 - MARGIN - 1)
    assert await source.now() == first
    vault.wall += timedelta(seconds=2)
    renewed = await source.now()
    assert renewed is not None
    assert renewed.access_key == "key2"


async def test_an_answer_without_an_end_is_good_for_less_than_a_minute() -> None:
    assert FRESH < 60
    vault = Vault()
    source = vault.source()
    first = await source.now()
    assert await source.now() == first
    source._asked_at -= FRESH
    assert await source.now() != first


def provider_of(*answers: Credentials | Exception) -> CredentialsProvider:
    remaining = iter(answers)

    async def provider() -> Credentials:
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return provider


async def test_a_provider_that_failed_is_called_again_by_the_next_look() -> None:
    old, new = Credentials("key", "old"), Credentials("key", "new")
    source = CredentialSource(provider_of(old, OSError("unavailable"), new), wall=lambda: 0.0)
    await source.now()
    source._asked_at -= FRESH
    with pytest.raises(CredentialsProviderError):
        await source.now()
    assert await source.now() == new


@pytest.mark.parametrize(
    "renewed", [Credentials("key", "new", session_token="t"), Credentials("key", "old", session_token="new")]
)
async def test_what_is_renewed_for_a_refused_key_counts_as_other_credentials(renewed: Credentials) -> None:
    source = CredentialSource(
        provider_of(Credentials("key", "old", session_token="t"), renewed), wall=lambda: 0.0
    )
    refused = await source.now()
    source._asked_at -= 10
    assert await source.other_than(refused) == renewed
    source._asked_at -= 10
    assert await source.other_than(refused) == renewed  # without another call, which would fail


async def test_credentials_that_a_server_refuses_are_replaced_and_the_call_is_made_again(
    broker: FakeBroker,
) -> None:
    faults: list[Fault] = []
    vault = Vault()

    async def provider() -> Credentials:
        for fault in faults:
            fault.remove()
        return await vault()

    async with (
        Connection(broker.endpoint, credentials=provider) as rocketmq,
        Producer(rocketmq) as producer,
        simple_consumer(rocketmq) as consumer,
    ):
        rocketmq._network.credential_source._asked_at -= 10
        faults.append(broker.faults.refuse("SendMessage", "UNAUTHORIZED", "the token has expired"))
        await producer.send(Message("orders", b"x"))
        assert vault.asked == 2
        # The consumer still signs with what it had; the newer answer is there already, so no provider is called again.
        rocketmq._network.credential_source._asked_at -= 10
        faults.append(broker.faults.refuse("ReceiveMessage", "UNAUTHORIZED", "expired", times=1))
        (message,) = await consumer.receive(wait=5)
        await message.ack()
    assert vault.asked == 2


class LateAnswer(GrpcioTransport):
    """Withholds the first answer of one method."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method
        self.arrived, self.released = asyncio.Event(), asyncio.Event()

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        answer = await super().unary(endpoint, path, payload, metadata, timeout)
        await self._withheld(path)
        return answer

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        await super().server_stream(endpoint, path, payload, metadata, timeout, take)
        await self._withheld(path)

    async def _withheld(self, path: str) -> None:
        if path.endswith(self._method) and not self.arrived.is_set():
            self.arrived.set()
            await self.released.wait()


@pytest.mark.parametrize("method", ["SendMessage", "ReceiveMessage"])
async def test_a_late_refusal_of_replaced_credentials_is_answered_with_the_new_ones(
    broker: FakeBroker, method: str
) -> None:
    vault, transport = Vault(), LateAnswer(method)
    async with (
        Connection(broker.endpoint, credentials=vault, transport=transport) as rocketmq,
        Producer(rocketmq) as producer,
        simple_consumer(rocketmq) as consumer,
    ):

        async def call() -> object:
            if method == "ReceiveMessage":
                return await consumer.receive(wait=1)
            return await producer.send(Message("orders", b"x"))

        rocketmq._network.credential_source._asked_at -= 10
        broker.faults.refuse(method, "UNAUTHORIZED", "expired", times=2)
        late = asyncio.create_task(call())
        await transport.arrived.wait()
        await call()
        transport.released.set()
        await late
    assert vault.asked == 2


async def test_credentials_that_stay_refused_are_an_error_and_no_storm_of_questions(
    broker: FakeBroker,
) -> None:
    vault = Vault()

    async def same() -> Credentials:
        await vault()
        return Credentials("key", "wrong")

    async with Producer(broker.endpoint, credentials=same) as producer:
        with broker.faults.refuse("SendMessage", "UNAUTHORIZED") as refused:
            for _ in range(20):
                with pytest.raises(PermissionDeniedError):
                    await producer.send(Message("orders", b"x"))
    assert vault.asked <= 2
    assert refused.hits == 20


async def test_what_may_not_be_done_is_no_question_of_credentials(broker: FakeBroker) -> None:
    vault = Vault()
    async with Producer(broker.endpoint, credentials=vault) as producer:
        producer._session.network.credential_source._asked_at -= 10
        with broker.faults.refuse("SendMessage", "FORBIDDEN"), pytest.raises(PermissionDeniedError):
            await producer.send(Message("orders", b"x"))
    assert vault.asked == 1


@pytest.fixture
def headers() -> HeaderSource:
    return HeaderSource(client_id="c", version="v", namespace="", request_prefix="r")


def key_of(headers: HeaderSource) -> str:
    """The access key that the next call names."""
    sent, _ = headers.next(0.0)
    return dict(sent)["authorization"].partition("Credential=")[2].partition(",")[0]


@pytest.mark.parametrize(
    ("renewed", "header"),
    [
        (Credentials("key", "renewed", session_token="token"), "authorization"),
        (Credentials("key", "secret", session_token="renewed"), "x-mq-session-token"),
    ],
)
async def test_what_is_renewed_for_the_same_key_signs_later_calls(
    headers: HeaderSource, renewed: Credentials, header: str
) -> None:
    given = Credentials("key", "secret", session_token="token")
    source = CredentialSource(provider_of(given, renewed), wall=lambda: 0.0)
    signing = Signing(source)
    await signing.sign(headers)
    before, _ = headers.next(0.0)
    source._asked_at -= FRESH
    await signing.sign(headers)
    after, _ = headers.next(0.0)
    assert dict(after)[header] != dict(before)[header]


async def test_calls_are_signed_with_the_newest_credentials(headers: HeaderSource) -> None:
    vault = Vault(timedelta(hours=1))
    signing = Signing(vault.source())
    for key in ("key1", "key2", "key3"):
        await signing.sign(headers)
        await signing.sign(headers)
        assert key_of(headers) == key
        vault.wall += timedelta(hours=1)


@pytest.mark.parametrize(
    ("code", "is_asked"), [(None, True), (Code.UNAUTHORIZED, True), (Code.FORBIDDEN, False)]
)
async def test_a_refusal_by_the_server_or_by_grpc_is_answered_with_other_credentials(
    headers: HeaderSource, code: int | None, is_asked: bool
) -> None:
    """A proxy that authenticates refuses calls with a status of gRPC, which has none of the contract's codes."""
    vault = Vault()
    source = vault.source()
    signing = Signing(source)
    await signing.sign(headers)
    source._asked_at -= 10
    error = PermissionDeniedError("no", code=code)
    assert await signing.sign_anew(headers, error, signing.current) is is_asked
    assert key_of(headers) == ("key2" if is_asked else "key1")


def test_an_end_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Credentials("key", "secret", expires_at=datetime(2027, 1, 1))


def test_the_token_is_not_printed() -> None:
    assert "token" not in repr(Credentials("key", "hidden", session_token="token1")).replace(
        "session_token", ""
    )
