"""Frames of the classic protocol, byte by byte: both formats of their headers."""

from __future__ import annotations

import asyncio

from aiorocketmq._core.remoting.frame import Frame, FrameReader, Serialization, encode
from aiorocketmq._remoting.codes import RequestCode, ResponseCode

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.remoting import pull_fields, send_fields

REFUSED = (ResponseCode.SYSTEM_ERROR, 29)
"""Codes for malformed fields; 5.5 has another one for some requests."""
TEXTS = ("plain", "é 中 😀", 'a "quoted" \\ text')


@case("remoting.headers", rules=("remoting-protocol.md 1",), level=EXTENSION, needs=REMOTING)
async def headers(fixture: Fixture) -> None:
    """A request with a header in JSON or in binary is read alike, and answered under its own number, also if several
    arrive at once."""
    reader = await over_remoting(fixture)
    address = (await reader.probe.broker_of(reader.topic)).master
    assert address is not None
    requests = [
        _send(number, reader.topic, text)
        for number, text in enumerate(TEXTS * len(Serialization), start=1000)
    ]
    formats = [serialization for serialization in Serialization for _ in TEXTS]
    receiving, sending = await asyncio.open_connection(address.host, address.port)
    try:
        sent = b"".join(map(encode, requests, formats))
        # In the middle of a frame, and more than one at once.
        sending.write(sent[:7])
        await sending.drain()
        sending.write(sent[7:])
        frames, answers = FrameReader(), list[Frame]()
        while len(answers) < len(requests) and (data := await receiving.read(1 << 16)):
            answers += frames.feed(data)
    finally:
        sending.close()
    assert sorted(answer.opaque for answer in answers) == [request.opaque for request in requests]
    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
    assert all(answer.is_response for answer in answers)
    await reader.wait_visible(len(requests))
    pulled = (await reader.probe.pull(reader.topic, reader.group, 0)).records
    found = sorted((record.body.decode(), record.properties()["own"]) for record in pulled)
    assert found == sorted((text, text) for text in TEXTS * len(Serialization))


def _send(number: int, topic: str, text: str) -> Frame:
    fields = send_fields(topic, {"UNIQ_KEY": f"{topic}{number}", "own": text}, born=1_000_000_000.0)
    texts = {name: str(value) for name, value in fields.items()}
    return Frame(RequestCode.SEND_MESSAGE_V2, number, fields=texts, body=text.encode())


@case("remoting.numbers", rules=("remoting-protocol.md 1",), level=EXTENSION, needs=REMOTING, timeout=120.0)
async def numbers(fixture: Fixture) -> None:
    """A number that does not fit its field, or is none, is refused; the largest that fits is read."""
    reader = await over_remoting(fixture)
    topic, group, probe = reader.topic, reader.group, reader.probe
    await reader.send(1)
    send = send_fields(topic, {"UNIQ_KEY": fixture.fresh("id")}, fixture.clock.wall())
    queue: dict[str, object] = {"topic": topic, "queueId": 0}
    member = {**queue, "consumerGroup": group}
    # Fields of 32 and of 64 bits.
    rows: tuple[tuple[RequestCode, dict[str, object], str, str], ...] = (
        (RequestCode.SEND_MESSAGE_V2, send, "d e f h j", "g"),
        (RequestCode.PULL_MESSAGE, pull_fields(topic, group, 0), "queueId maxMsgNums sysFlag", "queueOffset"),
        (RequestCode.QUERY_CONSUMER_OFFSET, member, "queueId", ""),
        (RequestCode.UPDATE_CONSUMER_OFFSET, {**member, "commitOffset": 0}, "queueId", "commitOffset"),
        (RequestCode.GET_MAX_OFFSET, queue, "queueId", ""),
        (RequestCode.GET_MIN_OFFSET, queue, "queueId", ""),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**queue, "timestamp": 0}, "queueId", "timestamp"),
    )
    for code, fields, narrow, wide in rows:
        names = [(name, 31) for name in narrow.split()]
        names += [(name, 63) for name in wide.split()]
        for name, bits in names:
            for wrong in (1 << bits, -(1 << bits) - 1, "one", ""):
                answer = await probe.ask(topic, code, {**fields, name: wrong}, b"m")
                assert answer.code in REFUSED, (
                    f"{code.name} with {name} = {wrong!r} was answered with {answer.code}"
                )
    last = await probe.ask(topic, RequestCode.SEND_MESSAGE_V2, {**send, "h": (1 << 31) - 1}, b"m")
    assert last.code == ResponseCode.SUCCESS
