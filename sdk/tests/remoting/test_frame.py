"""The frame codec: vectors of the released Java encoder, round trips, and bytes that are no frames."""

from __future__ import annotations

import contextlib
import struct

import pytest
from aiorocketmq._remoting.frame import (
    MAX_FRAME,
    RESPONSE,
    Frame,
    FrameReader,
    MalformedFrame,
    Serialization,
    decode,
    encode,
)
from hypothesis import given, strategies as st


def frame(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    return Frame(code=code, opaque=7, fields=fields or {}, body=body, version=407)


# live-broker-remoting.md section 14: whole frames made by the released Java encoder.
BINARY_VECTORS = [
    (frame(105, {"topic": "T"}), "000000250100002100690301970000000700000000000000000000000c0005746f7069630000000154"),
    (
        frame(34, body=b'{"clientID":"c"}'),
        "00000029010000150022030197000000070000000000000000000000007b22636c69656e744944223a2263227d",
    ),
    (
        frame(38, {"consumerGroup": "g"}),
        "0000002d01000029002603019700000007000000000000000000000014000d636f6e73756d657247726f75700000000167",
    ),
    (
        frame(14, {"queueId": "1", "bname": "b", "topic": "T", "consumerGroup": "g"}),
        "000000530100004f000e0301970000000700000000000000000000003a00077175657565496400000001310005626e616d65"
        "00000001620005746f7069630000000154000d636f6e73756d657247726f75700000000167",
    ),
    (
        frame(15, {"queueId": "1", "bname": "b", "commitOffset": "42", "topic": "T", "consumerGroup": "g"}),
        "0000006701000063000f0301970000000700000000000000000000004e00077175657565496400000001310005626e616d65"
        "0000000162000c636f6d6d69744f66667365740000000234320005746f7069630000000154000d636f6e73756d657247726f"
        "75700000000167",
    ),
    (
        frame(30, {"queueId": "1", "committed": "true", "bname": "b", "topic": "T"}),
        "000000520100004e001e0301970000000700000000000000000000003900077175657565496400000001310009636f6d6d69"
        "747465640000000474727565"
        "0005626e616d6500000001620005746f7069630000000154",
    ),
    (
        frame(29, {"queueId": "1", "bname": "b", "topic": "T", "timestamp": "1700000000000"}),
        "0000005b01000057001d0301970000000700000000000000000000004200077175657565496400000001310005626e616d65"
        "00000001620005746f7069630000000154000974696d657374616d700000000d31373030303030303030303030",
    ),
    (
        frame(
            36,
            {
                "maxReconsumeTimes": "16", "offset": "100", "bname": "b", "delayLevel": "0", "originTopic": "T",
                "originMsgId": "M", "unitMode": "false", "group": "g",
            },
        ),
        "000000a10100009d00240301970000000700000000000000000000008800116d61785265636f6e73756d6554696d65730000"
        "0002313600066f6666736574000000033130300005626e616d650000000162000a64656c61794c6576656c0000000130000b"
        "6f726967696e546f7069630000000154000b6f726967696e4d73674964000000014d0008756e69744d6f646500000005"
        "66616c7365000567726f75700000000167",
    ),
    (
        frame(35, {"clientID": "c", "consumerGroup": "g"}),
        "0000003c010000380023030197000000070000000000000000000000230008636c69656e7449440000000163000d636f6e73"
        "756d657247726f75700000000167",
    ),
    (
        frame(
            41,
            body=b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":1,"topic":"T"}],'
            b'"onlyThisBroker":false}',
        ),
        "00000089010000150029030197000000070000000000000000000000007b22636c69656e744964223a2263222c22636f6e73"
        "756d657247726f7570223a2267222c226d71536574223a5b7b2262726f6b65724e616d65223a2262222c2271756575654964"
        "223a312c22746f706963223a2254227d5d2c226f6e6c795468697342726f6b6572223a66616c73657d",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "vector"), BINARY_VECTORS, ids=lambda value: getattr(value, "code", ""))
def test_a_binary_frame_is_byte_for_byte_that_of_the_java_encoder(wanted: Frame, vector: str) -> None:
    assert encode(wanted, Serialization.BINARY).hex() == vector


@pytest.mark.parametrize(("wanted", "vector"), BINARY_VECTORS, ids=lambda value: getattr(value, "code", ""))
def test_a_binary_frame_of_the_java_encoder_is_read(wanted: Frame, vector: str) -> None:
    assert list(FrameReader().feed(bytes.fromhex(vector))) == [wanted]


def test_a_json_frame_is_byte_for_byte_that_of_the_java_encoder() -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    )
    assert encode(frame(105, {"topic": "T"})) == struct.pack(">ii", 0x81, 0x7D) + header


def test_control_characters_of_property_texts_are_escaped_in_json() -> None:
    assert b'"i":"TAGS\\u0001A\\u0002"' in encode(frame(310, {"i": "TAGS\x01A\x02"}))


def test_an_answer_of_a_real_5_5_0_is_read() -> None:
    header = (
        b'{"code":0,"extFields":{"offset":"12"},"flag":1,"language":"JAVA","opaque":30,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )
    read = decode(struct.pack(">i", len(header)) + header + b"body")
    assert read == Frame(
        code=0, opaque=30, flag=RESPONSE, fields={"offset": "12"}, body=b"body", language="JAVA", version=513
    )
    assert read.is_response
    assert not read.is_one_way


def test_a_binary_answer_with_a_remark_is_read() -> None:
    vector = "0000001a01000016001300 01df000000090000000100000001780000 0000".replace(" ", "")
    (read,) = FrameReader().feed(bytes.fromhex(vector))
    assert read == Frame(code=19, opaque=9, flag=1, remark="x", language="JAVA", version=479)


def test_numbers_and_booleans_among_the_fields_become_text_as_java_writes_it() -> None:
    header = b'{"code":1,"opaque":2,"extFields":{"a":5,"b":true,"c":null,"d":"x"},"language":3,"unknown":[]}'
    read = decode(struct.pack(">i", len(header)) + header)
    assert dict(read.fields) == {"a": "5", "b": "true", "d": "x"}
    assert read.language == "PYTHON"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FRAMES = st.builds(
    Frame,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=st.integers(-(2**31), 2**31 - 1),
    flag=st.integers(0, 3),
    fields=st.dictionaries(TEXT, TEXT, max_size=5),
    body=st.binary(max_size=50),
    # The binary header cannot tell empty text from none.
    remark=st.none() | TEXT.filter(bool),
    language=st.sampled_from(["JAVA", "PYTHON", "GO", "NODE_JS"]),
    version=st.integers(0, 2**15 - 1),
)


@given(wanted=FRAMES, serialization=st.sampled_from(Serialization))
def test_every_frame_survives_the_round_trip(wanted: Frame, serialization: Serialization) -> None:
    assert list(FrameReader().feed(encode(wanted, serialization))) == [wanted]


@given(frames=st.lists(FRAMES, max_size=4), data=st.data())
def test_frames_are_found_however_the_network_cuts_them(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(encode, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader, found = FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == frames


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_malformed_and_nothing_else(content: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        assert type(decode(content)) is Frame


@given(wanted=FRAMES, position=st.integers(8, 60), byte=st.integers(0, 255))
def test_a_damaged_header_is_a_frame_or_malformed_and_nothing_else(
    wanted: Frame, position: int, byte: int
) -> None:
    damaged = bytearray(encode(wanted, Serialization.BINARY))
    damaged[min(position, len(damaged) - 1)] = byte
    with contextlib.suppress(MalformedFrame):
        assert {type(found) for found in FrameReader().feed(bytes(damaged))} <= {Frame}


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "cannot be"),
        (struct.pack(">i", 0), "cannot be 0 bytes"),
        (struct.pack(">i", -1), "cannot be -1 bytes"),
        (struct.pack(">i", MAX_FRAME - 3), "cannot be"),
        (struct.pack(">ii", 4, 5), "header of 5 bytes"),
        (struct.pack(">iBBBB", 4, 7, 0, 0, 0), "serialization 7"),
        (struct.pack(">ii", 6, 2) + b"{]", "not JSON"),
        (struct.pack(">ii", 6, 2) + b"[]", "not an object"),
        (struct.pack(">ii", 16, 12) + b'{"code":"x"}', "no 32-bit integer"),
        (struct.pack(">ii", 21, 17) + b'{"extFields":[1]}', "extFields"),
        (struct.pack(">ii", 8, 1 << 24 | 4) + b"abcd", "too short"),
    ],
)  # fmt: skip
def test_a_stream_that_is_none_of_frames_is_malformed(stream: bytes, told: str) -> None:
    with pytest.raises(MalformedFrame, match=told):
        list(FrameReader().feed(stream))


def test_the_largest_frame_is_taken_and_one_byte_more_is_refused() -> None:
    around = len(encode(frame(1)))
    assert len(encode(frame(1, body=bytes(MAX_FRAME - around)))) == MAX_FRAME
    with pytest.raises(ValueError, match="larger than"):
        encode(frame(1, body=bytes(MAX_FRAME - around + 1)))


def test_a_code_that_the_binary_header_would_cut_short_is_refused() -> None:
    with pytest.raises(ValueError, match="send it as JSON"):
        encode(frame(200050), Serialization.BINARY)
    assert decode(encode(frame(200050))[4:]).code == 200050


def test_a_field_name_longer_than_the_binary_header_allows_is_refused() -> None:
    with pytest.raises(ValueError, match="32,767"):
        encode(frame(1, {"x" * 32768: ""}), Serialization.BINARY)
