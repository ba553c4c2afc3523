"""The text of properties: what readers drop, and what the writer refuses."""

from __future__ import annotations

import pytest
from aiorocketmq._core.remoting.properties import encode_text, read_properties, write_properties
from hypothesis import given, strategies as st

from sdk.tests.core.remoting.encoding import TEXT

PLAIN = TEXT.filter(lambda text: "\x01" not in text and "\x02" not in text)


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("TAGS\x01A\x02UNIQ_KEY\x01U1\x02", {"TAGS": "A", "UNIQ_KEY": "U1"}),
        ("TAGS\x01A\x02WAIT\x01true", {"TAGS": "A", "WAIT": "true"}),
        ("a\x011\x02", {"a": "1"}),
        ("a\x01\x02\x011\x02b\x012\x02", {"b": "2"}),
        ("ab\x02\x02\x01\x02x", {}),
        ("a\x011\x01b\x02", {"a": "1\x01b"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
    ],
    ids=[
        "none",
        "two",
        "no final separator",
        "three characters",
        "empty",
        "no separator",
        "second 0x01",
        "twice",
    ],
)
def test_properties_of_a_text(text: str, properties: dict[str, str]) -> None:
    assert read_properties(text) == properties


def test_the_writer_ends_every_entry_as_java_5_5_0_does() -> None:
    """live-broker-remoting.md 0: 4.9.7 leaves the last separator out."""
    assert write_properties({"TAGS": "A", "UNIQ_KEY": "U1"}) == "TAGS\x01A\x02UNIQ_KEY\x01U1\x02"


def test_the_writer_leaves_out_what_readers_drop() -> None:
    assert write_properties({"": "a", "b": "", "c": "d"}) == "c\x01d\x02"
    assert write_properties({}) == ""


@given(properties=st.dictionaries(PLAIN, PLAIN, max_size=6))
def test_properties_survive_the_round_trip_without_empty_ones(properties: dict[str, str]) -> None:
    expected = {name: value for name, value in properties.items() if name and value}
    assert read_properties(write_properties(properties)) == expected


@given(text=st.text("\x01\x02ab", max_size=30))
def test_any_text_has_properties(text: str) -> None:
    properties = read_properties(text)
    assert all(name and value for name, value in properties.items())
    assert read_properties(text + "\x02") == properties


@pytest.mark.parametrize(
    "properties", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "\x01"}, {"a": "b\x02"}, {"\x01": ""}]
)
def test_control_characters_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must not contain the control characters 0x01 and 0x02"):
        write_properties(properties)


def test_the_longest_text_is_written_and_one_byte_more_refused() -> None:
    assert len(encode_text(write_properties({"n": "v" * 32764}))) == 32767
    with pytest.raises(ValueError, match=r"take 32,768 bytes; a message has at most 32,767"):
        write_properties({"n": "v" * 32765})


def test_bytes_and_not_characters_are_limited() -> None:
    with pytest.raises(ValueError, match="at most 32,767"):
        write_properties({"n": "ü" * 16383})
