"""The frame codec: round trips, and bytes that are no frames."""

from __future__ import annotations

import contextlib
import itertools
import struct

import pytest
from aiorocketmq._core.remoting.frame import (
    MAX_FRAME,
    RESPONSE,
    Frame,
    FrameReader,
    MalformedFrameError,
    OtherProtocol,
    Serialization,
    decode,
    encode,
)
from hypothesis import given, strategies as st


def frame(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    return Frame(code=code, opaque=7, fields=fields or {}, body=body, version=407)


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
    header = b'{"code":1,"opaque":2,"extFields":{"a":5,"b":true,"c":null,"d":"x"},"language":3,"remark":7,"unknown":[]}'
    read = decode(struct.pack(">i", len(header)) + header)
    assert dict(read.fields) == {"a": "5", "b": "true", "d": "x"}
    assert (read.language, read.remark) == ("PYTHON", "7")


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
    reader = FrameReader()
    decoded: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += reader.feed(stream[start:end])
    assert decoded == frames


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_malformed_and_nothing_else(content: bytes) -> None:
    with contextlib.suppress(MalformedFrameError):
        assert type(decode(content)) is Frame


@given(wanted=FRAMES, position=st.integers(8, 60), byte=st.integers(0, 255))
def test_a_damaged_header_is_a_frame_or_malformed_and_nothing_else(
    wanted: Frame, position: int, byte: int
) -> None:
    damaged = bytearray(encode(wanted, Serialization.BINARY))
    damaged[min(position, len(damaged) - 1)] = byte
    with contextlib.suppress(MalformedFrameError):
        assert {type(each) for each in FrameReader().feed(bytes(damaged))} <= {Frame}


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (b"-ERR unknown command\r\n", "cannot be"),
        (struct.pack(">i", 0), "cannot be 0 bytes"),
        (struct.pack(">i", -1), "cannot be -1 bytes"),
        (struct.pack(">i", MAX_FRAME - 3), "cannot be"),
        (struct.pack(">ii", 4, 5), "header of 5 bytes"),
        (struct.pack(">ii", 6, 3) + b"{}", "header of 3 bytes"),
        (struct.pack(">iBBBB", 4, 7, 0, 0, 0), "serialization 7"),
        (struct.pack(">ii", 6, 2) + b"{]", "not JSON"),
        (struct.pack(">ii", 6, 2) + b"[]", "not an object"),
        (struct.pack(">ii", 8, 4) + b"{}{}", "more than JSON text"),
        (struct.pack(">ii", 16, 12) + b'{"code":"x"}', "no 32-bit integer"),
        (struct.pack(">ii", 23, 19) + b'{"remark":"\\ud800"}', "not JSON"),
        (struct.pack(">ii", 21, 17) + b'{"extFields":[1]}', "extFields"),
        (struct.pack(">ii", 8, 1 << 24 | 4) + b"abcd", "too short"),
        (struct.pack(">ii21sx", 26, 1 << 24 | 22, bytes(21)), "ends 1 bytes after its fields"),
        (struct.pack(">ii13sii", 25, 1 << 24 | 21, bytes(13), -1, 0), "cut short"),
        (struct.pack(">ii17si", 25, 1 << 24 | 21, bytes(17), 1), "cut short"),
    ],
)  # fmt: skip
def test_a_stream_that_is_none_of_frames_is_malformed(stream: bytes, told: str) -> None:
    with pytest.raises(MalformedFrameError, match=told):
        list(FrameReader().feed(stream))


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        (b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04", "HTTP/2"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", "HTTP/2"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
    ],
)
def test_other_protocols_are_recognised_by_their_first_bytes(stream: bytes, name: str) -> None:
    for size in (1, len(stream)):
        reader = FrameReader()
        parts = (stream[start : start + size] for start in range(0, len(stream), size))
        with pytest.raises(OtherProtocol, match=f"^{name}$"):
            list(itertools.chain.from_iterable(map(reader.feed, parts)))


@pytest.mark.parametrize(
    "text", [None, "", "x", "-1", "+1", "1 ", "1.0", "\N{SUPERSCRIPT TWO}", str(2**63), "9" * 5000]
)
def test_what_is_no_number_of_64_bits_is_refused_in_short(text: str | None) -> None:
    answer = frame(1, {} if text is None else {"offset": text})
    with pytest.raises(ValueError, match=r"^its offset is ") as raised:
        answer.number("offset")
    assert len(str(raised.value)) < 60
    assert frame(1, {"offset": str(2**63 - 1)}).number("offset") == 2**63 - 1
    assert frame(1, {"offset": "-1"}).number("offset", least=-1) == -1
    for wrong in ("", "x", "-2"):
        with pytest.raises(ValueError, match=r"^its offset is "):
            frame(1, {"offset": wrong}).number("offset", least=-1)


@pytest.mark.parametrize(
    ("flag", "kinds"), [(0, (False, False)), (1, (True, False)), (2, (False, True)), (3, (True, True))]
)
def test_the_bits_of_the_flag_are_independent(flag: int, kinds: tuple[bool, bool]) -> None:
    marked = frame(1)._replace(flag=flag)
    assert (marked.is_response, marked.is_one_way) == kinds


@pytest.mark.parametrize("name", ["code", "opaque", "flag", "version"])
def test_the_numbers_of_a_json_header_have_32_bits(name: str) -> None:
    def decoded(number: str) -> Frame:
        header = f'{{"{name}":{number}}}'.encode()
        return decode(struct.pack(">i", len(header)) + header)

    for number in (2**31 - 1, -(2**31)):
        assert getattr(decoded(f"{number}"), name) == number
    for wrong in (f"{2**31}", f"{-(2**31) - 1}", "true", "1.0", "null"):
        with pytest.raises(MalformedFrameError, match="no 32-bit integer"):
            decoded(wrong)


@pytest.mark.parametrize(("number", "language"), [(0, "JAVA"), (13, "NODE_JS"), (14, "OTHER"), (-1, "OTHER")])
def test_an_unknown_language_is_another_one(number: int, language: str) -> None:
    binary = struct.pack(">ihbhiiii", 1 << 24 | 21, 0, number, 0, 0, 0, 0, 0)
    header = b'{"language":%d}' % number
    for frame_bytes in (binary, struct.pack(">i", len(header)) + header):
        assert decode(frame_bytes).language == language


def test_a_frame_has_begun_with_its_first_byte() -> None:
    whole, reader = encode(frame(1)), FrameReader()
    begun = []
    for start, end in ((0, 0), (0, 1), (1, 5), (5, len(whole)), (0, len(whole))):
        list(reader.feed(whole[start:end]))
        begun.append(reader.has_begun)
    assert begun == [False, True, True, False, False]


def test_json_distinguishes_an_empty_remark_from_none() -> None:
    for remark in ("", None):
        assert decode(encode(frame(1)._replace(remark=remark))[4:]).remark == remark


def test_what_only_begins_like_tls_is_malformed() -> None:
    for start in (b"\x15\x02\x03\x00", b"\x13\x03\x03\x00", b"\x18\x03\x03\x00"):
        with pytest.raises(MalformedFrameError, match="cannot be") as error:
            list(FrameReader().feed(start))
        assert type(error.value) is MalformedFrameError


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
