"""Bodies of received messages are checked and unpacked."""

import gzip
import hashlib
import zlib

import pytest
from aiorocketmq._core.bodies import unpacked

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
