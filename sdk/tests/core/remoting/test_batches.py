"""Batches to send, and inner batches as stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest
from aiorocketmq._core.remoting.batches import Member, encode_batch, read_batch, unwrapped
from aiorocketmq._core.remoting.records import MalformedRecordError, Record
from hypothesis import given, strategies as st

from sdk.tests.core.remoting.encoding import MEMBERS, checksum

# remoting-protocol.md 7.5.
JAVA = bytes.fromhex("0000002900000000000000000000000000000002010200115741495401747275650254414753014102")
JAVA_MEMBER = Member(b"\x01\x02", "WAIT\x01true\x02TAGS\x01A\x02")


def inner_batch(*members: Member, sysflag: int = 0xC0, inner_num: str | None = None) -> Record:
    count = str(len(members)) if inner_num is None else inner_num
    body = encode_batch(members)
    stored = zlib.compress(body) if sysflag & 1 else body
    return Record(
        queue_id=3,
        queue_offset=40,
        topic="T",
        body=stored,
        property_text=f"INNER_NUM\x01{count}\x02",
        sysflag=sysflag,
        commit_log_offset=7,
        born_ms=1,
        stored_ms=2,
        reconsume_times=5,
        crc=checksum(stored),
    )


def members_before_damage(data: bytes) -> tuple[list[Member], MalformedRecordError | None]:
    received: list[Member] = []
    try:
        received.extend(read_batch(data))
    except MalformedRecordError as error:
        return received, error
    return received, None


def test_a_batch_is_byte_for_byte_that_of_the_java_encoder() -> None:
    assert encode_batch([JAVA_MEMBER]) == JAVA
    assert list(read_batch(JAVA)) == [JAVA_MEMBER]


@given(members=st.lists(MEMBERS, min_size=1, max_size=5))
def test_batches_survive_the_round_trip(members: list[Member]) -> None:
    assert list(read_batch(encode_batch(members))) == members


def test_every_truncation_yields_the_members_before_it() -> None:
    for length in range(1, len(JAVA)):
        received, error = members_before_damage(JAVA + JAVA[:length])
        assert received == [JAVA_MEMBER]
        assert error is not None
        assert error.position == len(JAVA)


def test_a_flipped_bit_is_a_different_member_or_malformed() -> None:
    for bit in range(8 * len(JAVA)):
        damaged = bytearray(JAVA)
        damaged[bit // 8] ^= 1 << bit % 8
        received, error = members_before_damage(bytes(damaged) + JAVA)
        is_unused_field = 4 <= bit // 8 < 12
        if error is None:
            assert [each == JAVA_MEMBER for each in received] == [is_unused_field, True], bit
        else:
            assert (received, error.position) == ([], 0), bit


@given(data=st.binary(max_size=200))
def test_random_bytes_are_members_or_malformed(data: bytes) -> None:
    received, error = members_before_damage(data)
    assert received or error is not None or not data


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (JAVA[:19], "19 bytes are too few"),
        (b"\xff" + JAVA[1:], "are not all there|do not add up"),
        (bytes(4) + JAVA[4:], "do not add up"),
        (b"\x7f" + JAVA[1:], "are not all there"),
        (JAVA[:16] + b"\xff" + JAVA[17:], "with a body of -[0-9]+ are not all there"),
        (JAVA[:22] + b"\xff" + JAVA[23:], "do not add up"),
        (JAVA[:24] + b"\xff" + JAVA[25:], "not UTF-8"),
    ],
)
def test_a_malformed_member_names_the_damage(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecordError, match=reason):
        list(read_batch(data))


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        encode_batch([])


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (Member(b"", "n\x01" + "v" * 32766), "at most 32,767"),
        (Member(b"", flag=2**31), "flag 2147483648 is no 32-bit number"),
    ],
)
def test_a_member_that_does_not_fit_is_refused(member: Member, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encode_batch([member])


@pytest.mark.parametrize("sysflag", [0xC0, 0xC1, 0xC1 | 0x300 | 0x10])
def test_an_inner_batch_is_unwrapped(sysflag: int) -> None:
    wrapper = inner_batch(Member(b"one", "TAGS\x01A\x02", 1), Member(b"two", "", 2), sysflag=sysflag)
    left = sysflag & ~0xC1
    first, second = unwrapped(wrapper)
    assert first == wrapper._replace(
        body=b"one", property_text="TAGS\x01A\x02", flag=1, sysflag=left, crc=checksum(b"one")
    )
    assert second == wrapper._replace(
        queue_offset=41, body=b"two", property_text="", flag=2, sysflag=left, crc=checksum(b"two")
    )
    assert first.is_intact
    assert list(unwrapped(first)) == [first]


@pytest.mark.parametrize("sysflag", [0, 0x40, 0x80])
def test_a_record_without_both_bits_is_left_alone(sysflag: int) -> None:
    record = inner_batch(JAVA_MEMBER, sysflag=sysflag)
    assert list(unwrapped(record)) == [record]


def test_members_before_the_damage_of_an_inner_batch_are_yielded() -> None:
    wrapper = inner_batch(JAVA_MEMBER, JAVA_MEMBER)
    members: Iterator[Record] = unwrapped(wrapper._replace(body=wrapper.body[:-1]))
    assert next(members).body == JAVA_MEMBER.body
    with pytest.raises(MalformedRecordError, match="byte 41"):
        next(members)


@pytest.mark.parametrize("declared", ["0", "1", "3", "10"])
def test_an_inner_batch_that_lost_or_won_a_member_is_malformed(declared: str) -> None:
    with pytest.raises(MalformedRecordError, match=f"an inner batch of 2 messages declares '{declared}'"):
        list(unwrapped(inner_batch(JAVA_MEMBER, JAVA_MEMBER, inner_num=declared)))


def test_an_inner_batch_need_not_declare_its_number() -> None:
    wrapper = inner_batch(JAVA_MEMBER, JAVA_MEMBER)._replace(property_text="")
    assert len(list(unwrapped(wrapper))) == 2


def test_an_inner_batch_that_cannot_be_decompressed_is_malformed() -> None:
    wrapper = inner_batch(JAVA_MEMBER, sysflag=0xC1)
    with pytest.raises(MalformedRecordError, match="cut short"):
        list(unwrapped(wrapper._replace(body=wrapper.body[:-1])))
    with pytest.raises(MalformedRecordError, match="decompresses to more than 10 bytes"):
        list(unwrapped(wrapper, limit=10))
