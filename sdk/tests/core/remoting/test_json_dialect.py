"""The JSON of brokers: strict, with bare numbers as keys, with objects as keys."""

from __future__ import annotations

import contextlib
import json

import pytest
from aiorocketmq._core.remoting.json_dialect import JsonValue, loads
from hypothesis import given, strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=VALUES)
def test_strict_json_reads_as_the_standard_library_reads_it(value: JsonValue) -> None:
    assert loads(json.dumps(value).encode()) == value


@given(value=VALUES)
def test_json_inside_an_object_with_a_bare_key_reads_the_same(value: JsonValue) -> None:
    assert loads(b"{ 0 : %s , 1:[]}" % json.dumps(value).encode()) == {"0": value, "1": []}


def test_bare_numbers_may_be_keys() -> None:
    text = b'{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"}}'
    assert loads(text) == {"brokerAddrs": {"0": "127.0.0.1:10911", "1": "127.0.0.1:10921"}}


def test_objects_may_be_keys_and_are_read_again_from_the_key() -> None:
    table = loads(b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:100,{"queueId":1}:-1}}')
    assert table == {"offsetTable": {'{"brokerName":"b","queueId":0,"topic":"T"}': 100, '{"queueId":1}': -1}}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{0:1",
        b"{0 1}",
        b"{0:1}x",
        b"{0:}",
        b"[1 2",
        b"{0:1,,1:2}",
        b"{0:1 1:2}",
        b"{0:[1 2]}",
        b"{" * 5000,
        b"{0:" + b"[" * 5000,
        b"nope",
        b"{0:" * 5000,
        b"[" * 100_000,
        b'["\\ud800"]',
        b'{0:"\\uDFFF"}',
        b'{"\\ud800":1}',
    ],
)
def test_text_of_neither_kind_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any reason will do
        loads(text)


def test_characters_of_two_escapes_are_read() -> None:
    assert loads(b'{0:"\\ud83d\\ude00"}') == {"0": "😀"}


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        loads(b"\xff{}")


@given(text=st.text('{}[]:,"0123e.-\\ truefalsn', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        read = loads(text.encode())
        assert loads(json.dumps(read).encode()) == read
