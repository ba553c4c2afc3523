"""Bodies of received messages are checked and unpacked."""

import gzip
import hashlib
import zlib

import pytest
from aiorocketmq._core.bodies import packed, unpacked
from hypothesis import given, strategies as st

BODY = b"some body " * 20


def check(
    body: bytes, *, packed: bool = False, digest: str = "", checksum: str = ""
) -> tuple[bytes, str | None]:
    return unpacked(body, packed=packed, digest=digest, checksum=checksum)


@pytest.mark.parametrize(
    ("digest", "checksum"),
    [
        ("MD5", hashlib.md5(BODY).hexdigest().upper()),
        ("MD5", hashlib.md5(BODY).hexdigest()),
        ("SHA1", hashlib.sha1(BODY).hexdigest().upper()),
        ("CRC32", f"{zlib.crc32(BODY):X}"),
        ("CRC32", f"{zlib.crc32(BODY):08X}"),
        ("CRC32", f"{zlib.crc32(BODY):016x}"),
        ("SOMETHING_NEW", "whatever"),
        ("", ""),
    ],
)
def test_a_body_that_fits_its_digest_is_taken(digest: str, checksum: str) -> None:
    assert check(BODY, digest=digest, checksum=checksum) == (BODY, None)


@pytest.mark.parametrize("digest", ["MD5", "SHA1", "CRC32"])
def test_a_body_that_does_not_fit_its_digest_is_corrupted_and_kept(digest: str) -> None:
    body, corruption = check(BODY, digest=digest, checksum="0123")
    assert body == BODY
    assert corruption == f"its {digest} digest is not 0123"


def test_a_checksum_that_is_no_number_is_a_corruption() -> None:
    assert check(BODY, digest="CRC32", checksum="xyz")[1] is not None


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_both_things_that_senders_call_gzip_are_unpacked(pack: object) -> None:
    assert check(pack(BODY), packed=True) == (BODY, None)  # type: ignore[operator]


@pytest.mark.parametrize(
    "broken",
    [b"", b"plain", gzip.compress(BODY)[:-9], b"\x78\x9cgarbage", b"\x1f\x8b", zlib.compress(BODY)[:10]],
)
def test_what_cannot_be_unpacked_is_corrupted_and_handed_on_as_it_came(broken: bytes) -> None:
    body, corruption = check(broken, packed=True)
    assert body == broken
    assert corruption is not None
    assert corruption.startswith("it cannot be unpacked")


def test_the_digest_covers_the_packed_bytes() -> None:
    packed = zlib.compress(BODY)
    assert check(packed, packed=True, digest="MD5", checksum=hashlib.md5(packed).hexdigest()) == (BODY, None)


@given(st.binary(min_size=1, max_size=3000), st.integers(1, 9))
def test_what_is_packed_is_smaller_and_unpacks_to_the_same(body: bytes, level: int) -> None:
    smaller = packed(body, level)
    if smaller is not None:
        assert len(smaller) < len(body)
        assert check(smaller, packed=True) == (body, None)


def test_what_does_not_get_smaller_is_not_packed() -> None:
    assert packed(bytes(range(256)), 9) is None


@pytest.mark.parametrize(("name", "magic"), [("lz4", b"\x04\x22\x4d\x18"), ("zstd", b"\x28\xb5\x2f\xfd")])
def test_what_other_clients_pack_goes_to_the_unpacker_or_is_corrupted(name: str, magic: bytes) -> None:
    def unpacker(asked: str, body: bytes, limit: int) -> bytes:
        return asked.encode()

    given = magic + b"..."
    assert unpacked(given, packed=True, digest="", checksum="", unpacker=unpacker) == (name.encode(), None)
    body, corruption = check(given, packed=True)
    assert (body, corruption) == (
        given,
        f"it cannot be unpacked: it is packed with {name}, which cannot be undone here",
    )
