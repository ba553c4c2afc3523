"""Frames of the released Java encoder, byte for byte, in both header serializations."""

from __future__ import annotations

import struct

import pytest
from aiorocketmq._core.remoting.frame import Frame, FrameReader, Serialization, encode


def frame(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Frame:
    return Frame(code=code, opaque=7, fields=fields or {}, body=body, version=407)


SEND = frame(
    310,
    {
        "a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
        "i": "TAGS\x01A\x02", "j": "0", "k": "false", "m": "false", "bname": "b",
    },
    b"hi",
)  # fmt: skip

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
        frame(
            37,
            {
                "producerGroup": "g", "bname": "b", "commitLogOffset": "100", "topic": "T", "msgId": "M",
                "tranStateTableOffset": "3", "commitOrRollback": "8", "transactionId": "M",
                "fromTransactionCheck": "false",
            },
        ),
        "000000ce010000ca0025030197000000070000000000000000000000b5000d70726f647563657247726f7570000000016700"
        "05626e616d650000000162000f636f6d6d69744c6f674f6666736574000000033130300005746f706963000000015400056d"
        "73674964000000014d00147472616e53746174655461626c654f666673657400000001330010636f6d6d69744f72526f6c6c"
        "6261636b0000000138000d7472616e73616374696f6e4964000000014d001466726f6d5472616e73616374696f6e43686563"
        "6b0000000566616c7365",
    ),
    (
        SEND,
        "000000a7010000a101360301970000000700000000000000000000008c000161000000027067000162000000015400016300"
        "0000065442573130320001640000000134000165000000013100016600000001300001670000000d31373030303030303030"
        "3030300001680000000130000169000000075441475301410200016a000000013000016b0000000566616c736500016d0000"
        "000566616c73650005626e616d6500000001626869",
    ),
    (
        # remoting-protocol.md 1.3, as the next one.
        frame(105, {"topic": "T"})._replace(opaque=9, version=401),
        "000000250100002100690301910000000900000000000000000000000c0005746f7069630000000154",
    ),
    (
        frame(
            11,
            {
                "consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "5", "maxMsgNums": "32",
                "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "20000", "subscription": "*",
                "subVersion": "0", "expressionType": "TAG", "bname": "broker-a",
            },
        )._replace(version=401),
        "000000f9010000f5000b030191000000070000000000000000000000e0000d636f6e73756d657247726f7570000000016700"
        "05746f70696300000001540007717565756549640000000130000b71756575654f66667365740000000135000a6d61784d73"
        "674e756d730000000233320007737973466c61670000000136000c636f6d6d69744f66667365740000000130001473757370"
        "656e6454696d656f75744d696c6c6973000000053230303030000c737562736372697074696f6e000000012a000a73756256"
        "657273696f6e0000000130000e65787072657373696f6e54797065000000035441470005626e616d650000000862726f6b65"
        "722d61",
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


@pytest.mark.parametrize(
    ("wanted", "start", "header"),
    [
        (
            frame(105, {"topic": "T"}),
            (0x81, 0x7D),
            b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
            b'"serializeTypeCurrentRPC":"JSON","version":407}',
        ),
        (
            frame(
                15, {"queueId": "1", "bname": "b", "commitOffset": "42", "topic": "T", "consumerGroup": "g"}
            ),
            (0xC2, 0xBE),
            b'{"code":15,"extFields":{"queueId":"1","bname":"b","commitOffset":"42","topic":"T",'
            b'"consumerGroup":"g"},"flag":0,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON",'
            b'"version":407}',
        ),
    ],
)
def test_a_json_frame_is_byte_for_byte_that_of_the_java_encoder(
    wanted: Frame, start: tuple[int, int], header: bytes
) -> None:
    assert encode(wanted) == struct.pack(">ii", *start) + header
    assert list(FrameReader().feed(encode(wanted))) == [wanted]


def test_a_json_send_is_as_long_as_that_of_the_java_encoder() -> None:
    """Only its lengths were recorded, and that control characters are escaped."""
    assert encode(SEND)[:8] == struct.pack(">ii", 0x10D, 0x107)
    assert list(FrameReader().feed(encode(SEND))) == [SEND]


def test_a_binary_answer_of_a_real_4_9_7_is_read() -> None:
    """live-broker-remoting.md 1: the answer to an unknown code, whose remark has 32 bytes."""
    remark = b" request type 9999 not supported"
    vector = bytes.fromhex("00000039010000350003000197000000040000000100000020") + remark + bytes(4)
    expected = Frame(code=3, opaque=4, flag=1, remark=remark.decode(), language="JAVA", version=407)
    assert list(FrameReader().feed(vector)) == [expected]
    assert encode(expected, Serialization.BINARY) == vector
