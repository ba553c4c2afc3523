"""Message records, batches and property texts against bytes of Java (remoting-protocol.md 7), and against any bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiorocketmq_fake.edge.remoting import properties
from aiorocketmq_fake.edge.remoting.bodies import dump, dump_loose, load
from aiorocketmq_fake.edge.remoting.frames import FrameError
from aiorocketmq_fake.edge.remoting.records import (
    Member,
    Record,
    host,
    message_id,
    read_batch,
    write_batch,
    write_record,
)
from hypothesis import given, strategies as st

RECORD = Record(
    topic="T",
    body=b"hello",
    queue_id=3,
    queue_offset=42,
    log_offset=123456789,
    born_timestamp=1700000000000,
    born_host=host("10.1.2.3:50000"),
    store_timestamp=1700000000123,
    store_host=host("10.0.0.9:10911"),
    properties={"TAGS": "A", "UNIQ_KEY": "U1"},
    reconsume_times=1,
)
BYTES = (
    "00000074daa320a73610a6860000000300000000000000000000002a00000000075bcd15000000000000018bcfe568000a010203"
    "0000c3500000018bcfe5687b0a00000900002a9f0000000100000000000000000000000568656c6c6f0154001354414753014102"
    "554e49515f4b455901553102"
)
BATCH = "0000002900000000000000000000000000000002010200115741495401747275650254414753014102"

names = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=10)
property_maps = st.dictionaries(names, names, max_size=4)


def test_a_record_is_written_as_java_does() -> None:
    assert write_record(RECORD).hex() == BYTES
    assert message_id(RECORD.store_host, RECORD.log_offset) == "0A00000900002A9F00000000075BCD15"


def test_the_checksum_has_no_sign() -> None:
    record = write_record(replace(RECORD, body=b"a"))  # its CRC-32 is E8B7BE43
    assert record[8:12].hex() == "68b7be43"


def test_hosts_of_ipv6_set_their_bits_and_long_topics_the_second_magic() -> None:
    long = Record("t" * 200, b"", 0, 0, 0, 0, host("[::1]:9"), 0, host("[::1]:8"), {})
    record = write_record(long)
    assert record[4:8].hex() == "daa320ab"
    assert int.from_bytes(record[36:40]) == 0x30
    assert len(record) == 91 + 2 * 12 + 1 + 200
    assert len(message_id(long.store_host, 1)) == 56


@pytest.mark.parametrize("endpoint", ["", "broker.example:80", "nonsense"])
def test_a_host_without_an_address_counts_as_this_machine(endpoint: str) -> None:
    assert host(endpoint)[:4] == bytes((127, 0, 0, 1))


def test_a_batch_of_java_is_read_and_written() -> None:
    members = (Member(b"\x01\x02", 0, {"WAIT": "true", "TAGS": "A"}),)
    assert read_batch(bytes.fromhex(BATCH)) == members
    assert write_batch(members).hex() == BATCH


@given(st.lists(st.builds(Member, st.binary(max_size=30), st.integers(-9, 9), property_maps), max_size=4))
def test_batches_survive(members: list[Member]) -> None:
    assert read_batch(write_batch(tuple(members))) == tuple(members)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_batch_or_one_error(body: bytes) -> None:
    try:
        members = read_batch(body)
    except FrameError:
        return
    assert read_batch(write_batch(members)) == members


@given(st.integers(0, len(BATCH) // 2 - 1), st.integers(1, 255))
def test_a_damaged_batch_is_a_batch_or_one_error(place: int, change: int) -> None:
    body = bytearray(bytes.fromhex(BATCH))
    body[place] ^= change
    try:
        members = read_batch(bytes(body))
    except FrameError:
        return
    assert read_batch(write_batch(members)) == members


@given(property_maps)
def test_properties_survive(given_properties: dict[str, str]) -> None:
    assert properties.split(properties.join(given_properties)) == given_properties


def test_incomplete_properties_are_dropped_and_the_last_mark_may_be_missing() -> None:
    assert properties.split("a\x01b\x02\x01x\x02c\x01\x02d\x02e\x01f") == {"a": "b", "e": "f"}


def test_loose_json_leaves_keys_of_numbers_and_objects_without_quotes() -> None:
    queue = {"topic": "T", "queueId": 0}
    body = {"table": [(queue, {"max": 1})], "addresses": [(0, "h:1")], "names": ["x"], "none": []}
    assert dump_loose(body) == (
        b'{"addresses":{0:"h:1"},"names":["x"],"none":[],"table":{{"queueId":0,"topic":"T"}:{"max":1}}}'
    )
    assert dump({"b": 1, "a": None}) == b'{"a":null,"b":1}'


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_one_error(body: bytes) -> None:
    with pytest.raises(FrameError):
        load(body)
