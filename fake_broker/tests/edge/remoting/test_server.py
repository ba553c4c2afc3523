"""The port: what is no frame, what is no request, and how it opens and closes (live-broker-remoting.md 1)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.remoting.frames import Frame, encode
from aiorocketmq_fake.edge.remoting_codes import RequestCode
from hypothesis import HealthCheck, given, settings, strategies as st

from fake_broker.tests.edge.remoting.conftest import dial

GOOD = encode(Frame(105, {"topic": "t"}))


@pytest.mark.parametrize(
    "payload",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        bytes(4),
        b"\xff\xff\xff\xff",
        (17 * 2**20).to_bytes(4),
        (2**24 - 3).to_bytes(4),
        b"\x00\x00\x00\x08\x00\x00\x00\x05null",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x08\x07\x00\x00\x04null",
        b"\x00\x00\x00\x08\x01\x00\x00\x04null",
        b"\x00\x00\x00\x03abc",
    ],
)
async def test_what_is_no_frame_closes_the_connection(broker: Any, connect: Any, payload: bytes) -> None:
    bad, good = await connect(), await connect()
    bad.writer.write(payload)
    assert await bad.is_closed()
    assert bad.raw == []
    assert (await good.ask(105, topic="t")).code == 0


@pytest.mark.parametrize("start", [GOOD[:11], (2**24 - 4).to_bytes(4)])
async def test_the_server_waits_for_the_rest_of_a_frame(connect: Any, start: bytes) -> None:
    slow, other = await connect(), await connect()
    slow.writer.write(start)
    assert (await other.ask(105, topic="t")).code == 0
    assert not slow.ended.is_set()


async def test_any_bytes_leave_the_server_serving(broker: FakeBroker, connect: Any) -> None:
    good = await connect()
    assert broker.remoting_endpoint is not None
    host, _, port = broker.remoting_endpoint.rpartition(":")
    payloads: list[bytes] = []

    @settings(max_examples=150, database=None, suppress_health_check=list(HealthCheck))
    @given(
        st.binary(max_size=80) | st.tuples(st.integers(0, len(GOOD) - 1), st.integers(1, 255)).map(damaged)
    )
    def draw(payload: bytes) -> None:
        payloads.append(payload)

    draw()
    for payload in payloads:
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(payload)
        writer.close()
        await writer.wait_closed()
    assert (await good.ask(105, topic="t")).code == 0


FIELDS = """
topic=t consumerGroup=g group=g groupName=g clientID=c subscription=* queueId=0 sysFlag=4 queueOffset=0 maxMsgNums=32
commitOffset=0 offset=1 expressionType=TAG subVersion=0 timestamp=1 delayLevel=1 commitOrRollback=8 perm=6 attributes=
tranStateTableOffset=0 readQueueNums=2 writeQueueNums=2 defaultTopic=TBW102 defaultTopicQueueNums=4 bornTimestamp=1
flag=0 batch=false properties= a=pg b=t c=TBW102 d=4 e=0 f=0 g=1 h=0 i= j=0 m=false
"""
GOOD_FIELDS = dict(pair.split("=") for pair in FIELDS.split())
WORDS = "|t|g|0|1|-1|4|8|99|true|x|TBW102|%RETRY%g|\ud800|é|SQL92|a > 1|+message.type=LITE|DELAY\x013\x02"
PROPERTIES = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02|KEYS\x01a b\x02UNIQ_KEY\x01 \x02|DELAY\x01x\x02"
LONG = ("||", "9" * 30, "TIMER_DELIVER_MS\x01" + "9" * 400 + "\x02")
TEXTS = st.sampled_from([*WORDS.split("|"), *PROPERTIES.split("|"), *LONG])
CODES = sorted(set(RequestCode) - {RequestCode.DELETE_TOPIC_IN_BROKER, RequestCode.DELETE_SUBSCRIPTIONGROUP})
"""The others find nothing after these."""
BODIES = st.sampled_from([b"", b"x", b"{}", b"[]", b'{"groupName":"g"}', b'{"clientID":"c"}', bytes(30)])


async def test_no_request_makes_the_broker_fail(broker: FakeBroker, wire: Any) -> None:
    requests: list[tuple[int, dict[str, str], bytes]] = []

    @settings(max_examples=400, database=None, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(CODES),
        st.dictionaries(st.sampled_from(list(GOOD_FIELDS)), TEXTS, max_size=3),
        BODIES,
    )
    def draw(code: RequestCode, fields: dict[str, str], body: bytes) -> None:
        requests.append((code.value, {**GOOD_FIELDS, **fields}, body))

    draw()
    answers = [wire.send(code, body, **fields) for code, fields, body in requests]
    assert (await wire.ask(105, topic="TBW102")).code == 0
    remarks = [each.result().remark or "" for each in answers if each.done()]
    assert len(remarks) > len(answers) / 2
    assert not [remark for remark in remarks if "failed in request" in remark]


def damaged(change: tuple[int, int]) -> bytes:
    whole = bytearray(GOOD)
    whole[change[0]] ^= change[1]
    return bytes(whole)


async def test_unknown_codes_are_answered_unless_one_way(wire: Any) -> None:
    answer = await wire.ask(9999)
    assert (answer.code, answer.remark, answer.version) == (3, " request type 9999 not supported", 513)
    unheard = wire.send_one_way(9999)
    assert (await wire.ask(105, topic="t")).code == 0
    assert not unheard.done()


async def test_a_binary_request_is_answered_in_json(wire: Any) -> None:
    answer = wire.send_one_way(105, topic="t")  # its number waits for an answer, and this gets none
    wire.writer.write(encode(Frame(105, {"topic": "t"}, opaque=1), binary=True))
    assert (await asyncio.wait_for(answer, 10)).code == 0
    assert [payload[0] for payload in wire.raw] == [0]


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        (30, {"topic": "t"}, b""),
        (30, {"topic": "t", "queueId": "abc"}, b""),
        (11, {"topic": "t", "consumerGroup": "g", "sysFlag": 4, "queueId": 0, "queueOffset": "x"}, b""),
        (310, {"a": "pg", "b": "t", "e": 0}, b"body"),
        (34, {}, b"no json"),
        (34, {}, b'{"clientID":5}'),
        (34, {}, b'{"clientID":"c","consumerDataSet":[1]}'),
        (41, {}, b'{"mqSet":"queues"}'),
        (46, {}, b"{}"),
        (200, {}, b'{"groupName":5}'),
    ],
)
async def test_what_cannot_be_read_is_code_1(
    wire: Any, code: int, fields: dict[str, Any], body: bytes
) -> None:
    assert (await wire.ask(code, body, **fields)).code == 1


async def test_the_port_stays_over_a_restart_and_members_do_not(broker: FakeBroker, connect: Any) -> None:
    endpoint = broker.remoting_endpoint
    before = await connect()
    await before.beat("c", "g", "t")
    held = before.pull("t", sysFlag=6, suspendTimeoutMillis=60_000)
    await before.ask(105, topic="t")
    await broker.restart()
    assert (await held).code == 19
    assert await before.is_closed()
    assert broker.remoting_endpoint == endpoint
    after = await connect()
    assert (await after.ask(38, consumerGroup="g")).code == 1


async def test_a_crash_closes_every_connection(broker: FakeBroker, connect: Any) -> None:
    wire = await connect()
    held = wire.pull("t", sysFlag=6, suspendTimeoutMillis=60_000)
    await wire.ask(105, topic="t")
    await broker.crash()
    assert await wire.is_closed()
    assert not held.done()
    assert broker.brokers[0]._driver.in_progress.count == 0


async def test_a_partition_holds_requests_until_it_heals(broker: FakeBroker, wire: Any) -> None:
    await wire.ask(105, topic="t")
    with broker.partition():
        sent = wire.send(310, b"x", a="pg", b="t", c="", d=4, e=0, f=0, g=1, h=0)
        # A connection is opened behind the request, so that the server has read that by then.
        other = await asyncio.open_connection(*broker.remoting_endpoint.split(":"))
        other[1].close()
        await other[1].wait_closed()
        assert broker.messages("t") == ()
    assert (await asyncio.wait_for(sent, 10)).code == 0


@pytest.mark.parametrize("end", [b"", bytes(4)], ids=["closed", "no frame"])
async def test_what_was_sent_before_the_end_is_carried_out(connect: Any, end: bytes) -> None:
    """The last commit of a consumer is one-way, and its connection ends right behind it."""
    wire, other = await connect(), await connect()
    await wire.beat("c", "g", "t")
    wire.send_one_way(15, consumerGroup="g", topic="t", queueId=0, commitOffset=7)
    wire.writer.write(end)
    wire.writer.write_eof()
    assert await wire.is_closed()
    assert (await other.ask(14, consumerGroup="g", topic="t", queueId=0)).fields == {"offset": "7"}


async def test_without_a_port_for_it_the_protocol_is_not_spoken() -> None:
    async with FakeBroker() as broker:
        assert broker.remoting_endpoint is None


async def test_a_taken_port_opens_nothing(broker: FakeBroker) -> None:
    assert broker.remoting_endpoint is not None
    port = int(broker.remoting_endpoint.rpartition(":")[2])
    fake = FakeBroker(remoting_port=port)
    with pytest.raises(OSError, match="cannot listen on"):
        await fake.__aenter__()
    assert not fake.is_running


async def test_what_is_kept_on_disk_is_there_again_and_members_are_not(tmp_path: Path) -> None:
    options: dict[str, Any] = {"remoting_port": 0, "clock": "manual", "data": tmp_path / "data"}
    async with FakeBroker(**options) as broker, dial(broker) as wire:
        await broker.create_topic("t", queues=1)
        await wire.beat("c", "g", "t")
        sent = await wire.produce("t", b"kept")
        position = int(sent.fields["msgId"][-16:], 16)
        assert (await wire.ask(36, group="g", offset=position, delayLevel=1)).code == 0
        await wire.ask(15, consumerGroup="g", topic="t", queueId=0, commitOffset=1)
    async with FakeBroker(**options) as broker, dial(broker) as wire:
        assert (await wire.ask(38, consumerGroup="g")).code == 1
        assert (await wire.ask(14, consumerGroup="g", topic="t", queueId=0)).fields == {"offset": "1"}
        assert (await wire.pulled("t")).body.count(b"kept") == 1
        await broker.clock.advance(seconds=1)
        retried = await wire.pulled("%RETRY%g")
        assert (retried.code, retried.body.count(b"RETRY_TOPIC\x01t\x02")) == (0, 1)


async def test_everything_that_watches_a_broker_watches_this_port_too(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    watched = FakeBroker(remoting_port=0, record=tmp_path, event_log=log, metrics="127.0.0.1:0")
    async with watched as broker, dial(broker) as wire:
        await broker.create_topic("t", queues=1)
        await wire.beat("c", "g", "t")
        sent = await wire.produce("t", b"x")
        await wire.ask(36, group="g", offset=int(sent.fields["msgId"][-16:], 16), delayLevel=1)
        queue = {"topic": "t", "brokerName": "broker-a", "queueId": 0}
        await wire.ask(41, {"consumerGroup": "g", "clientId": "c", "mqSet": [queue]})
        await wire.pulled("t")
        await wire.ask(35, clientID="c", consumerGroup="g")
    kinds = {json.loads(line)["event"] for line in log.read_text().splitlines()}
    assert {"ClientJoined", "Stored", "SentBack", "QueueLocked", "ReceiveEnded", "ClientLeft"} <= kinds
