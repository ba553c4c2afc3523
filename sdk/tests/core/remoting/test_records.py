"""The record decoder: vectors of Java and of a real broker, round trips, and bytes that are no records."""

from __future__ import annotations

import pickle
import struct

import pytest
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.records import MalformedRecordError, Record, read_records
from hypothesis import example, given, strategies as st

from sdk.tests.core.remoting.encoding import checksum, encode_record, encode_records, records

JAVA_116 = bytes.fromhex(
    "00000074daa320a73610a6860000000300000000000000000000002a00000000075bcd15000000000000018bcfe568000a01"
    "02030000c3500000018bcfe5687b0a00000900002a9f0000000100000000000000000000000568656c6c6f01540013544147"
    "53014102554e49515f4b455901553102"
)
"""remoting-protocol.md 7."""

REAL_230 = bytes.fromhex(
    "000000e6daa320a73610a68600000000000000000000000000000000000000000000000000000000000001a1fcb0a1197f00"
    "000100009cfe000001a1fcb0a1297f00000100005d670000000000000000000000000000000568656c6c6f02544100844d53"
    "475f524547494f4e0144656661756c74526567696f6e02554e49515f4b455901374630303030303133353642313444414435"
    "444346434230413131393030303102434c55535445520144656661756c74436c757374657202544147530141024b45595301"
    "6b31206b32025741495401747275650254524143455f4f4e017472756502"
)
"""live-broker-remoting.md 14, from a pull body of 5.5.0."""

JAVA_RECORD = Record(
    queue_id=3,
    queue_offset=42,
    topic="T",
    body=b"hello",
    property_text="TAGS\x01A\x02UNIQ_KEY\x01U1\x02",
    commit_log_offset=123456789,
    born_ms=1_700_000_000_000,
    born_address=bytes([10, 1, 2, 3, 0, 0, 0xC3, 0x50]),
    stored_ms=1_700_000_000_123,
    store_address=bytes([10, 0, 0, 9, 0, 0, 0x2A, 0x9F]),
    reconsume_times=1,
    crc=907060870,
)
IPV6_RECORD = Record(
    queue_id=1,
    queue_offset=2,
    topic="t" * 128,
    body=b"",
    sysflag=0x30,
    commit_log_offset=0xABC,
    born_address=bytes(15) + b"\x01" + struct.pack(">i", 50000),
    store_address=b"\x20\x01" + bytes(13) + b"\x09" + struct.pack(">i", 10911),
)
"""A topic of 128 bytes makes it V2."""
NON_ASCII_RECORD = Record(0, 0, "größe", b"\xff", "schlüssel\x01größe\x02")


def messages_before_damage(data: bytes) -> tuple[list[Record], MalformedRecordError | None]:
    """Return what `data` yields, and the error that ended it."""
    received: list[Record] = []
    try:
        received.extend(read_records(data))
    except MalformedRecordError as error:
        return received, error
    return received, None


def test_record_of_the_java_encoder() -> None:
    (record,) = read_records(JAVA_116)
    assert record == JAVA_RECORD
    assert record.is_intact
    assert record.offset_message_id == "0A00000900002A9F00000000075BCD15"
    assert record.born_host == Address("10.1.2.3", 50000)
    assert record.born_host_text == "10.1.2.3:50000"
    assert record.store_host == Address("10.0.0.9", 10911)
    assert record.properties() == {"TAGS": "A", "UNIQ_KEY": "U1"}


def test_record_of_a_real_broker() -> None:
    (record,) = read_records(REAL_230)
    assert (record.topic, record.body, record.queue_id, record.queue_offset) == ("TA", b"hello", 0, 0)
    assert (record.born_ms, record.stored_ms) == (0x1A1FCB0A119, 0x1A1FCB0A129)
    assert record.is_intact
    assert record.offset_message_id == "7F00000100005D670000000000000000"
    assert record.properties() == {
        "MSG_REGION": "DefaultRegion",
        "UNIQ_KEY": "7F000001356B14DAD5DCFCB0A1190001",
        "CLUSTER": "DefaultCluster",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "TRACE_ON": "true",
    }


@pytest.mark.parametrize("vector", [JAVA_116, REAL_230], ids=["116", "230"])
def test_the_encoder_of_these_tests_writes_the_vectors(vector: bytes) -> None:
    assert encode_records(read_records(vector)) == vector


def test_record_with_ipv6_hosts_and_a_long_topic() -> None:
    encoded = encode_record(IPV6_RECORD)
    assert encoded[4:8].hex() == "daa320ab"
    (record,) = read_records(encoded)
    assert record == IPV6_RECORD
    assert record.born_host == Address("::1", 50000)
    assert record.born_host_text == "[::1]:50000"
    assert record.store_host == Address("2001::9", 10911)
    assert record.offset_message_id == "2001" + "0" * 26 + "09" + "00002A9F" + "0000000000000ABC"


def test_a_negative_offset_is_its_twos_complement_in_the_id() -> None:
    assert JAVA_RECORD._replace(commit_log_offset=-1).offset_message_id == "0A00000900002A9F" + "F" * 16


def test_a_changed_body_is_not_intact() -> None:
    (record,) = read_records(JAVA_116.replace(b"hello", b"hallo"))
    assert record.body == b"hallo"
    assert not record.is_intact


def test_no_bytes_are_no_records() -> None:
    assert list(read_records(b"")) == []


@given(given_records=st.lists(records(), max_size=4))
@example([NON_ASCII_RECORD, IPV6_RECORD])
def test_records_survive_the_round_trip(given_records: list[Record]) -> None:
    received = list(read_records(encode_records(given_records)))
    assert received == given_records
    for each in received:
        assert each.is_intact == (checksum(each.body) == each.crc)
        assert len(each.offset_message_id) == 2 * len(each.store_address) + 16
        assert each.born_host.port == int.from_bytes(each.born_address[-4:], "big", signed=True)


@pytest.mark.parametrize(
    "record", [JAVA_RECORD, IPV6_RECORD, NON_ASCII_RECORD], ids=["v1", "v2", "not ASCII"]
)
def test_every_truncation_yields_the_messages_before_it(record: Record) -> None:
    whole = encode_record(record)
    for length in range(1, len(whole)):
        received, error = messages_before_damage(whole + whole[:length])
        assert received == [record]
        assert error is not None
        assert error.position == len(whole)


@pytest.mark.parametrize("record", [JAVA_RECORD, IPV6_RECORD], ids=["v1", "v2"])
def test_a_flipped_bit_is_a_different_message_or_malformed(record: Record) -> None:
    whole = encode_record(record)
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        received, error = messages_before_damage(whole + bytes(damaged) + whole)
        assert received[0] == record
        if error is None:
            assert [each == record for each in received] == [True, False, True], bit
        else:
            assert (received, error.position) == ([record], len(whole)), bit


@given(data=st.binary(max_size=300))
def test_random_bytes_are_records_or_malformed(data: bytes) -> None:
    received, error = messages_before_damage(data)
    assert encode_records(received) == data[: len(data) if error is None else error.position]


@given(record=records(), changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4))
def test_changed_bytes_are_records_or_malformed(record: Record, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(encode_record(record))
    for position, value in changes:
        damaged[position % len(damaged)] = value
    received, error = messages_before_damage(bytes(damaged))
    assert received or error is not None
    for each in received:
        assert isinstance(each.properties(), dict)
        assert isinstance(each.born_host, Address)
        assert each.born_host_text == str(each.born_host)


def patched(position: int, replacement: bytes) -> bytes:
    return JAVA_116[:position] + replacement + JAVA_116[position + len(replacement) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (JAVA_116[:90], "90 bytes are too few"),
        (patched(4, bytes.fromhex("cbd43194")), "magic number 0xcbd43194 is unknown"),
        (patched(0, b"\xff\xff\xff\xff"), "a body of 5 bytes does not fit its -1 bytes"),
        (patched(0, b"\x00\x00\x00\x00"), "does not fit its 0 bytes"),
        (patched(0, b"\x7f\xff\xff\xff"), "116 of its 2147483647 bytes are there"),
        (patched(0, struct.pack(">i", 115)), "do not add up to its size of 115 bytes"),
        (patched(84, struct.pack(">i", -1)), "a body of -1 bytes does not fit"),
        (patched(84, struct.pack(">i", 2**31 - 1)), "a body of 2147483647 bytes does not fit"),
        (patched(0, struct.pack(">i", 93))[:93], "a body of 5 bytes does not fit its 93 bytes"),
        (patched(93, b"\xff"), "do not add up"),
        (patched(95, struct.pack(">h", -1)), "do not add up"),
        (patched(94, b"\xff"), "text at byte 94 is not UTF-8"),
        (patched(97, b"\xff"), "text at byte 97 is not UTF-8"),
        (patched(36, struct.pack(">i", 0x30)), "does not fit"),
        (patched(36, struct.pack(">i", 0x30))[:95], "it is cut short"),
    ],
)
def test_a_malformed_record_names_the_damage(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedRecordError, match=reason):
        list(read_records(data))


def test_a_malformed_record_says_where_it_begins() -> None:
    received, error = messages_before_damage(REAL_230 + JAVA_116 + b"\0" * 100)
    assert len(received) == 2
    assert str(error) == "message at byte 346: magic number 0x00000000 is unknown"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
