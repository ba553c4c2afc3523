"""Frames against bytes of the released Java encoder (live-broker-remoting.md 14), and against any bytes."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_fake.edge.remoting.frames import Frame, FrameError, decode, encode
from hypothesis import example, given, strategies as st

LOCK = (
    b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}],'
    b'"onlyThisBroker":false}'
)

JAVA: dict[str, tuple[str, int, dict[str, str], bytes]] = {
    "route": (
        "000000250100002100690301970000000700000000000000000000000c0005746f7069630000000154",
        105,
        {"topic": "T"},
        b"",
    ),
    "heartbeat": (
        "00000029010000150022030197000000070000000000000000000000007b22636c69656e744944223a2263227d",
        34,
        {},
        b'{"clientID":"c"}',
    ),
    "members": (
        "0000002d01000029002603019700000007000000000000000000000014000d636f6e73756d657247726f75700000000167",
        38,
        {"consumerGroup": "g"},
        b"",
    ),
    "commit": (
        "0000006701000063000f0301970000000700000000000000000000004e00077175657565496400000001310005626e616d65000000"
        "0162000c636f6d6d69744f66667365740000000234320005746f7069630000000154000d636f6e73756d657247726f757000000001"
        "67",
        15,
        {"queueId": "1", "bname": "b", "commitOffset": "42", "topic": "T", "consumerGroup": "g"},
        b"",
    ),
    "send": (
        "000000a7010000a101360301970000000700000000000000000000008c0001610000000270670001620000000154000163000000"
        "065442573130320001640000000134000165000000013100016600000001300001670000000d31373030303030303030303030000168"
        "0000000130000169000000075441475301410200016a000000013000016b0000000566616c736500016d0000000566616c7365000562"
        "6e616d6500000001626869",
        310,
        {
            "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
            "i": "TAGS\x01A\x02", "j": "0", "k": "false", "m": "false", "bname": "b",
        },
        b"hi",
    ),
    "lock": (
        "00000089010000150029030197000000070000000000000000000000007b22636c69656e744964223a2263222c22636f6e73756d6572"
        "47726f7570223a2267222c226d71536574223a5b7b2262726f6b65724e616d65223a2262222c2271756575654964223a312c22746f70"
        "6963223a2254227d5d2c226f6e6c795468697342726f6b6572223a66616c73657d",
        41,
        {},
        LOCK,
    ),
}  # fmt: skip
VECTORS = pytest.mark.parametrize(("hexadecimal", "code", "fields", "body"), JAVA.values(), ids=JAVA)

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)
frames = st.builds(
    Frame,
    code=st.integers(-(2**15), 2**15 - 1),
    fields=st.dictionaries(texts, texts, max_size=5),
    body=st.binary(max_size=50),
    opaque=numbers,
    flag=st.integers(0, 3),
    remark=st.none() | texts,
    language=st.sampled_from(["JAVA", "PYTHON", "OTHER"]),
    version=st.integers(0, 2**15 - 1),
)


@VECTORS
def test_java_frames_are_read(hexadecimal: str, code: int, fields: dict[str, str], body: bytes) -> None:
    frame = decode(bytes.fromhex(hexadecimal)[4:])
    assert frame == Frame(code, fields, body, opaque=7, language="PYTHON", version=407)


@VECTORS
def test_frames_are_written_as_java_does(
    hexadecimal: str, code: int, fields: dict[str, str], body: bytes
) -> None:
    frame = Frame(code, fields, body, opaque=7, language="PYTHON", version=407)
    assert encode(frame, binary=True).hex() == hexadecimal


@pytest.mark.parametrize(
    ("code", "language"),
    [
        *enumerate(
            [
                "JAVA",
                "CPP",
                "DOTNET",
                "PYTHON",
                "DELPHI",
                "ERLANG",
                "RUBY",
                "OTHER",
                "HTTP",
                "GO",
                "PHP",
                "OMS",
                "RUST",
                "NODE_JS",
            ]
        )
    ],
)
def test_languages_have_javas_numbers(code: int, language: str) -> None:
    encoded = encode(Frame(105, {}, language=language), binary=True)
    assert encoded[10] == code
    assert decode(encoded[4:]).language == language


def test_an_unknown_language_is_written_as_another_one() -> None:
    assert decode(encode(Frame(105, {}, language="KOTLIN"), binary=True)[4:]).language == "OTHER"


def test_json_headers_have_the_keys_and_sizes_of_java() -> None:
    frame = Frame(105, {"topic": "T"}, opaque=7, language="PYTHON", version=407)
    header = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    )
    assert encode(frame) == bytes.fromhex("000000810000007d") + header


def test_the_answer_of_a_binary_server_is_read() -> None:
    """Bytes of 4.9.7 for an unknown code (live 1)."""
    remark = b" request type 9999 not supported"
    head = bytes.fromhex("010000350003000197000000040000000100000020")
    frame = decode(head + remark + bytes(4))
    assert (frame.code, frame.opaque, frame.is_response, frame.remark) == (3, 4, True, remark.decode())


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"a": "1", "b": ""}, {"a": "1"}),
        ({"": "1", "b": "2"}, {"b": "2"}),
        ({"": ""}, {}),
        ({"a": "0"}, {"a": "0"}),
    ],
)
def test_an_empty_text_in_a_binary_header_is_none(fields: dict[str, str], read: dict[str, str]) -> None:
    assert decode(encode(Frame(105, fields), binary=True)[4:]).fields == read


@given(frames, st.booleans())
def test_frames_survive_both_serializations(frame: Frame, binary: bool) -> None:
    encoded = encode(frame, binary=binary)
    assert int.from_bytes(encoded[:4]) == len(encoded) - 4
    assert decode(encoded[4:]) == frame


@given(st.binary(max_size=200) | st.builds(lambda head, text: head + text, st.just(bytes(3)), st.binary()))
@example(b"")
@example(b"\x01\x00\x00\x03abc")
@example(b"\x00\x00\x00\x04null")
@example(b"\x07\x00\x00\x00")
@example(b'\x00\x00\x00\x0d{"opaque":9e99}')
def test_any_bytes_are_a_frame_or_one_error(payload: bytes) -> None:
    try:
        frame = decode(payload)
    except FrameError:
        return
    assert isinstance(frame, Frame)


@given(st.data())
def test_a_damaged_frame_is_a_frame_or_one_error(data: Any) -> None:
    whole = bytearray(encode(data.draw(frames), binary=data.draw(st.booleans()))[4:])
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        frame = decode(bytes(whole))
    except FrameError:
        return
    assert isinstance(frame, Frame)


def test_half_characters_become_question_marks() -> None:
    header = rb'{"code":1,"extFields":{"a\ud800":"x\udfffy","b":"\ud83d\ude00"},"remark":"\ud800"}'.replace(
        b"\\\\", b"\\"
    )
    frame = decode(len(header).to_bytes(4) + header)
    assert (frame.fields, frame.remark) == ({"a?": "x?y", "b": "\U0001f600"}, "?")


def test_numbers_and_booleans_are_fields_and_old_senders_have_version_0() -> None:
    header = b'{"code":30,"extFields":{"queueId":3,"lo":false,"none":null},"language":3,"opaque":1,"more":[]}'
    frame = decode(len(header).to_bytes(4) + header)
    assert (frame.fields, frame.language, frame.version) == ({"queueId": "3", "lo": "false"}, "PYTHON", 0)
