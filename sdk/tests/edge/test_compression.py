"""Compressed bodies on their way through a broker."""

import gzip
import os
import pickle
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from functools import partial

import lz4.frame
import pytest
import zstandard
from aiorocketmq._aio.decompression import unpack_with_extra, unpacked_body
from aiorocketmq.config import Compression
from aiorocketmq.errors import MessageTooLargeError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from hypothesis import given, strategies as st

from sdk.tests.clients import simple_consumer

MIB = 1024 * 1024
LIMIT = 4 * MIB
TEXT = b"the same again and " * 1000


@pytest.fixture(params=["documented", "apache-5.5"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    async with FakeBroker(profile=request.param) as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        yield broker


@pytest.mark.parametrize(
    "body", [TEXT, b"short", os.urandom(10_000), TEXT * 20], ids=["text", "short", "noise", "long"]
)
async def test_a_body_arrives_as_it_was_sent_whether_it_was_worth_packing_or_not(
    broker: FakeBroker, body: bytes
) -> None:
    async with (
        Producer(broker.endpoint, compression=Compression(threshold=1024)) as producer,
        simple_consumer(broker.endpoint) as consumer,
    ):
        await producer.send(Message("orders", body))
        (message,) = await consumer.receive(max_messages=1, invisible=30, wait=5)
    assert (message.body, message.corruption) == (body, None)
    (stored,) = broker.messages("orders")
    assert len(stored.body) == len(body) if len(body) in (5, 10_000) else len(stored.body) < len(body) / 10


@pytest.mark.parametrize(("size", "is_packed"), [(99, False), (100, True)])
async def test_a_body_is_packed_from_the_threshold_on(broker: FakeBroker, size: int, is_packed: bool) -> None:
    async with Producer(broker.endpoint, compression=Compression(threshold=100)) as producer:
        await producer.send(Message("orders", b"x" * size))
    (stored,) = broker.messages("orders")
    assert (len(stored.body) < size) is is_packed


async def test_the_limit_is_for_what_travels(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, compression=Compression()) as producer:
        await producer.send(Message("orders", b"x" * (LIMIT + 1)))
        with pytest.raises(MessageTooLargeError):
            await producer.send(Message("orders", os.urandom(LIMIT + 1)))
    async with Producer(broker.endpoint) as producer:
        with pytest.raises(MessageTooLargeError):
            await producer.send(Message("orders", b"x" * (LIMIT + 1)))


async def test_packed_and_plain_bodies_do_not_share_a_batch(broker: FakeBroker) -> None:
    """A server takes the flag of the first message for all (live-broker-session.md, 4.7)."""
    async with (
        Producer(broker.endpoint, linger=0, compression=Compression(threshold=100)) as producer,
        simple_consumer(broker.endpoint) as consumer,
    ):
        with broker.faults.delay("SendMessage", 0.0) as requests:
            await producer.send_many([Message("orders", body) for body in (b"a", TEXT, b"b", TEXT + b"c")])
        assert requests.hits == 2
        received: list[ReceivedMessage] = []
        while len(received) < 4:
            received += await consumer.receive(max_messages=4, invisible=30, wait=5)
    assert {message.body for message in received} == {b"a", b"b", TEXT, TEXT + b"c"}
    assert {message.corruption for message in received} == {None}


@pytest.mark.parametrize(
    ("name", "pack"), [("lz4", lz4.frame.compress), ("zstd", zstandard.ZstdCompressor().compress)]
)
def test_what_other_clients_pack_is_unpacked(name: str, pack: Callable[[bytes], bytes]) -> None:
    small = pack(TEXT)
    assert unpack_with_extra(name, small, 1_000_000) == TEXT
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        unpack_with_extra(name, small, 1000)
    for broken in (small[:-7], small[:8], small[:6] + b"garbage" + small[13:]):
        with pytest.raises(ValueError, match=r".+"):
            unpack_with_extra(name, broken, 1_000_000)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": lz4.frame.compress,
    "lz4 of unknown size": lambda body: lz4.frame.compress(body, store_size=False),
    "zstd": zstandard.ZstdCompressor().compress,
    "zstd of unknown size": zstandard.ZstdCompressor(write_content_size=False).compress,
}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@given(body=st.binary(max_size=2000), times=st.integers(1, 200))
def test_every_compression_comes_out_as_it_went_in(
    pack: Callable[[bytes], bytes], body: bytes, times: int
) -> None:
    plain = b"." + body * times
    packed = pack(plain)
    assert unpacked_body(packed, len(plain)) == (plain, None)
    body, corruption = unpacked_body(packed, len(plain) - 1 or 1)
    assert (body, corruption is None) == ((packed, False) if len(plain) > 1 else (plain, True))


@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_what_continues_after_its_end_is_corrupted(name: str) -> None:
    one = PACKERS[name](TEXT)
    for body in (one + one, one + b"garbage"):
        kept, corruption = unpacked_body(body, MIB)
        assert kept == body
        assert corruption is not None


def zstd_bomb(size: int) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


@pytest.mark.parametrize(
    "make",
    [
        lambda: zstd_bomb(200 * MIB),
        lambda: zstandard.ZstdCompressor().compress(bytes(200 * MIB)),
        lambda: lz4.frame.compress(bytes(200 * MIB)),
    ],
    ids=["zstd of unknown size", "zstd", "lz4"],
)
def test_a_bomb_takes_no_more_memory_than_about_the_limit(make: Callable[[], bytes]) -> None:
    body = make()
    unpacked_body(PACKERS["zstd"](b""), MIB)  # its module is loaded
    tracemalloc.start()
    try:
        assert "decompresses to more than" in str(unpacked_body(body, 8 * MIB)[1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 17 * MIB


def test_a_zstd_body_that_demands_a_huge_window_is_corrupted() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = stream.compress(TEXT) + stream.flush()
    assert "too much memory" in str(unpacked_body(body, 8 * MIB)[1])


def test_the_work_of_unpacking_can_go_to_another_process() -> None:
    work = pickle.loads(pickle.dumps(partial(unpacked_body, gzip.compress(TEXT), MIB)))
    assert pickle.loads(pickle.dumps(work())) == (TEXT, None)


@pytest.mark.parametrize(("name", "module"), [("lz4", "lz4.frame"), ("zstd", "zstandard")])
def test_without_the_extra_the_reason_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=r"install aiorocketmq\[compression\]"):
        unpack_with_extra(name, b"", 1000)


@pytest.mark.parametrize("facts", [{"threshold": 0}, {"level": 0}, {"level": 10}, {"level": True}])
def test_what_to_compress_is_checked_when_it_is_said(facts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Compression"):
        Compression(**facts)
