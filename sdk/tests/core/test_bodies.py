"""Bodies of received messages are checked and decompressed, within bounds."""

import gzip
import hashlib
import tracemalloc
import zlib
from collections.abc import Callable, Sequence

import pytest
from aiorocketmq._core.bodies import (
    AT_ONCE,
    AT_ONCE_PACKED,
    DEFAULT_MAX_UNPACKED,
    answer_limit,
    mismatch,
    packed,
    unpacked,
    unpacked_at_once,
)
from hypothesis import given, strategies as st

BODY = b"some body " * 20
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("digest", "checksum"),
    [
        ("MD5", hashlib.md5(BODY).hexdigest().upper()),
        ("MD5", hashlib.md5(BODY).hexdigest()),
        ("SHA1", hashlib.sha1(BODY).hexdigest().upper()),
        ("SHA1", hashlib.sha1(BODY).hexdigest()),
        ("CRC32", f"{zlib.crc32(BODY):X}"),
        ("CRC32", f"{zlib.crc32(BODY):08X}"),
        ("CRC32", f"{zlib.crc32(BODY):016x}"),
        ("SOMETHING_NEW", "whatever"),
    ],
)
def test_a_body_that_fits_its_digest_is_taken(digest: str, checksum: str) -> None:
    assert mismatch(BODY, digest, checksum) is None


@pytest.mark.parametrize("digest", ["MD5", "SHA1", "CRC32"])
def test_a_body_that_does_not_fit_its_digest_is_corrupted(digest: str) -> None:
    assert mismatch(BODY, digest, "0123") == f"its {digest} digest is not 0123"


def test_a_checksum_that_is_no_number_is_a_corruption() -> None:
    assert mismatch(BODY, "CRC32", "xyz") is not None


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_both_things_that_senders_call_gzip_are_unpacked(pack: Callable[[bytes], bytes]) -> None:
    assert unpacked(pack(BODY)) == (BODY, None)


@given(st.lists(st.binary(max_size=500), min_size=1, max_size=8))
def test_all_members_of_a_gzip_body_are_unpacked(parts: Sequence[bytes]) -> None:
    body = b"".join(map(gzip.compress, parts))
    assert unpacked(body) == (b"".join(parts), None)
    assert unpacked_at_once(body, MIB) == b"".join(parts)


def test_members_may_be_larger_than_any_step_of_unpacking() -> None:
    parts = (bytes(3 * MIB), bytes(range(256)) * 1000, b"", hashlib.sha256(b"").digest() * 4096)
    assert unpacked(b"".join(gzip.compress(part, 1, mtime=0) for part in parts)) == (b"".join(parts), None)


def test_the_limit_is_for_all_members_together() -> None:
    two = gzip.compress(bytes(600)) + gzip.compress(bytes(600))
    assert unpacked(two, 1200) == (bytes(1200), None)
    body, corruption = unpacked(two, 1199)
    assert (body, corruption) == (two, "it cannot be unpacked: it decompresses to more than 1199 bytes")


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"plain",
        gzip.compress(BODY, mtime=0)[:-9],
        b"\x78\x9cgarbage",
        b"\x1f\x8b",
        zlib.compress(BODY)[:10],
        gzip.compress(BODY, mtime=0) + b"garbage",
        gzip.compress(BODY, mtime=0) + b"\x1f",
        gzip.compress(BODY, mtime=0) + gzip.compress(BODY, mtime=0)[:-1],
        gzip.compress(BODY, mtime=0) + bytes(4),
        zlib.compress(BODY) + b"garbage",
        zlib.compress(BODY) + zlib.compress(BODY),
    ],
)
def test_what_cannot_be_unpacked_is_corrupted_and_handed_on_as_it_came(broken: bytes) -> None:
    body, corruption = unpacked(broken)
    assert body == broken
    assert corruption is not None
    assert corruption.startswith("it cannot be unpacked")
    assert unpacked_at_once(broken, MIB) is None


@given(st.binary(min_size=1, max_size=3000), st.integers(1, 9))
def test_what_is_packed_is_smaller_and_unpacks_to_the_same(body: bytes, level: int) -> None:
    smaller = packed(body, level)
    if smaller is not None:
        assert len(smaller) < len(body)
        assert unpacked(smaller) == (body, None)
        assert unpacked_at_once(smaller, MIB) == body


def test_what_does_not_get_smaller_is_not_packed() -> None:
    assert packed(bytes(range(256)), 9) is None


def bomb(size: int, wbits: int) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, 16 + zlib.MAX_WBITS], ids=["zlib", "gzip"])
def test_a_bomb_takes_no_more_memory_than_about_the_limit(wbits: int) -> None:
    body = bomb(200 * MIB, wbits)
    tracemalloc.start()
    try:
        assert (
            unpacked(body, 8 * MIB)[1]
            == f"it cannot be unpacked: it decompresses to more than {8 * MIB} bytes"
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 17 * MIB


def test_the_default_limit_is_eight_times_that_of_the_protocol() -> None:
    assert DEFAULT_MAX_UNPACKED == 32 * MIB
    assert unpacked(bomb(32 * MIB, zlib.MAX_WBITS))[1] is None
    assert unpacked(bomb(33 * MIB, zlib.MAX_WBITS))[1] is not None


def test_only_small_bodies_are_unpacked_at_once() -> None:
    assert unpacked_at_once(zlib.compress(bytes(AT_ONCE)), MIB) == bytes(AT_ONCE)
    assert unpacked_at_once(zlib.compress(bytes(AT_ONCE + 1)), MIB) is None
    assert unpacked_at_once(zlib.compress(bytes(101)), 100) is None
    assert unpacked_at_once(bytes(AT_ONCE_PACKED + 1), MIB) is None


@pytest.mark.parametrize(("name", "magic"), [("lz4", b"\x04\x22\x4d\x18"), ("zstd", b"\x28\xb5\x2f\xfd")])
def test_what_other_clients_pack_goes_to_the_unpacker_or_is_corrupted(name: str, magic: bytes) -> None:
    def unpacker(asked: str, body: bytes, limit: int) -> bytes:
        return f"{asked} up to {limit}".encode()

    packed_body = magic + b"..."
    assert unpacked(packed_body, 7, unpacker) == (f"{name} up to 7".encode(), None)
    body, corruption = unpacked(packed_body)
    assert (body, corruption) == (
        packed_body,
        f"it cannot be unpacked: it is compressed with {name}, which cannot be decompressed here",
    )


@given(st.integers(1, 1000))
def test_an_answer_may_bring_what_was_requested_within_128_mib(max_messages: int) -> None:
    assert answer_limit(max_messages) == min(max_messages * 4, 128) * MIB
