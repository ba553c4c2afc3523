"""Requests of both protocols, whose answers are compared with files, field by field and byte by byte.

After an intended change, remove the file: the test writes it again and fails once; review the difference.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.records import Member, write_batch
from google.protobuf import text_format
from google.protobuf.message import Message

from fake_broker.tests.edge.remoting.conftest import Wire, dial
from fake_broker.tests.story import check

START = datetime(2030, 1, 1, tzinfo=UTC)
PROFILES = ("documented", "apache-5.5")


@pytest.fixture(params=PROFILES)
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A broker of each profile, for which no time passes."""
    options: dict[str, Any] = {"clock": "manual", "start": START, "remoting_port": 0}
    async with FakeBroker(profile=request.param, **options) as fake:
        await fake.create_topic("t", queues=1)
        await fake.create_topic("wide", queues=3)
        await fake.create_topic("f", type="FIFO", queues=1)
        await fake.create_topic("d", type="DELAY", queues=1)
        await fake.create_topic("x", type="TRANSACTION", queues=1)
        await fake.create_group("g")
        await fake.create_group("h")
        await fake.create_group("row", ordered=True)
        yield fake


class Ports:
    """The numbers that differ from run to run, and what stands for them in files."""

    def __init__(self, *numbers: str | int) -> None:
        self.names = {int(number): f"PORT{place}" for place, number in enumerate(numbers)}

    def hidden(self, text: str) -> str:
        for number, name in self.names.items():
            text = text.replace(f"{number:08X}", name).replace(f":{number}", f":{name}")
        return text

    def shown(self, body: bytes) -> str:
        """A body as text; a packed number may be a quote, which is escaped or not as the rest has others."""
        for number, name in self.names.items():
            body = body.replace(struct.pack(">I", number), f"<{name}>".encode())
        return self.hidden(repr(body))


def told(frame: Frame, ports: Ports) -> Iterator[str]:
    remark = "" if frame.remark is None else f" {frame.remark!r}"
    yield f"{frame.code} flag {frame.flag} version {frame.version} {frame.language}{ports.hidden(remark)}"
    yield from (f"  {name}: {ports.hidden(text)}" for name, text in sorted(frame.fields.items()))
    if frame.body:
        yield f"  {ports.shown(frame.body)}"


SHORT = {
    "a": "pg",
    "b": "t",
    "c": "TBW102",
    "d": 4,
    "e": 0,
    "f": 0,
    "g": 1_700_000_000_000,
    "h": 0,
    "i": "UNIQ_KEY\x01S0\x02",
}
LONG = {
    "producerGroup": "pg",
    "topic": "t",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": 2,
    "queueId": 0,
    "sysFlag": 0,
    "bornTimestamp": 1_700_000_000_001,
    "flag": 3,
    "properties": "UNIQ_KEY\x01L\x02",
}
PULL = {
    "consumerGroup": "g",
    "topic": "t",
    "queueId": 0,
    "queueOffset": 0,
    "maxMsgNums": 32,
    "sysFlag": 4,
    "commitOffset": 0,
    "suspendTimeoutMillis": 0,
    "subscription": "*",
}
GROUP = {"groupName": "made", "consumeEnable": True, "retryMaxTimes": 3, "consumeMessageOrderly": True}
LISTED = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2500]}}
GROWING = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1000, "max": 9000, "multiplier": 3}}
BATCH = write_batch(tuple(Member(b"%d" % number, number, {"UNIQ_KEY": f"B{number}"}) for number in range(3)))
TOPIC = {"topic": "made", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6}
HALF = "UNIQ_KEY\x01H1\x02TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
OFFSET = {"consumerGroup": "g", "topic": "t", "queueId": 0}


def beats(client_id: str, version: int) -> dict[str, object]:
    subscription = {"topic": "t", "subString": "A || B", "subVersion": version, "expressionType": "TAG"}
    sql = {"topic": "wide", "subString": "a > 1", "subVersion": version, "expressionType": "SQL92"}
    consumer = {
        "groupName": "members",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription, sql],
    }
    return {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "pg"}]}


LOCKED = {
    "consumerGroup": "members",
    "clientId": "c1",
    "mqSet": [{"topic": "t", "brokerName": "broker-a", "queueId": number} for number in (0, 7)],
}
RECALLED = b64encode(b"v1 t broker-a 1893456020000 S9").decode()

REQUESTS: tuple[tuple[int, Any, Any], ...] = (
    *((105, b"", {"topic": topic}) for topic in ("t", "wide", "TBW102", "none")),
    (105, b"", {"topic": "t", "acceptStandardJsonOnly": "true"}),
    (105, b"", {}),
    (106, b"", {}),
    (206, b"", {}),
    (216, b"", {"topic": "t"}),
    (3, b"", {}),
    (34, beats("c1", 5), {}),
    (34, b"no json", {}),
    (34, [], {}),
    (34, {"clientID": "c1", "consumerDataSet": "text"}, {}),
    (34, {"clientID": "c1", "consumerDataSet": [{"groupName": 7}]}, {}),
    (34, {}, {}),
    *((38, b"", {"consumerGroup": group}) for group in ("members", "none", "g")),
    (38, b"", {}),
    *((203, b"", {"consumerGroup": group}) for group in ("members", "none", "g")),
    *((204, b"", {"producerGroup": group}) for group in ("pg", "none")),
    (
        46,
        {
            "clientId": "c1",
            "subscriptionData": {"topic": "t", "subString": "a > 1", "expressionType": "SQL92"},
        },
        {},
    ),
    (
        46,
        {"clientId": "c1", "subscriptionData": {"topic": "t", "subString": "a >", "expressionType": "SQL92"}},
        {},
    ),
    (
        46,
        {"clientId": "c1", "subscriptionData": {"topic": "t", "subString": "a", "expressionType": "TAG"}},
        {},
    ),
    (46, {}, {}),
    (41, LOCKED, {}),
    (41, {**LOCKED, "clientId": "c2"}, {}),
    (42, LOCKED, {}),
    (41, {**LOCKED, "mqSet": [7]}, {}),
    (310, b"body", {**SHORT, "i": "UNIQ_KEY\x01S1\x02TAGS\x01A\x02KEYS\x01k1 k2\x02a\x012\x02"}),
    (
        310,
        b"body",
        {**SHORT, "i": "UNIQ_KEY\x01S2\x02__SHARDINGKEY\x01row\x02MSG_REGION\x01mine\x02", "h": 9, "f": 1},
    ),
    (310, b"body", {**SHORT, "b": "auto", "i": "UNIQ_KEY\x01S3\x02"}),
    (310, b"body", {**SHORT, "b": "many", "d": 99, "i": "UNIQ_KEY\x01S4\x02"}),
    (310, b"body", {**SHORT, "b": "other", "c": "no default", "i": "UNIQ_KEY\x01S5\x02"}),
    (310, b"body", {**SHORT, "b": "TBW102"}),
    (310, b"body", {**SHORT, "i": "UNIQ_KEY\x01S6\x02DELAY\x012\x02"}),
    (310, b"body", {**SHORT, "i": "UNIQ_KEY\x01S7\x02TIMER_DELAY_SEC\x0130\x02"}),
    (310, b"body", {**SHORT, "i": "UNIQ_KEY\x01S8\x02TIMER_DELAY_MS\x01xx\x02"}),
    (310, b"body", {**SHORT, "i": "UNIQ_KEY\x01S9\x02TIMER_DELIVER_MS\x011893456020000\x02"}),
    (370, b"", {"topic": "t", "recallHandle": RECALLED, "producerGroup": "pg"}),
    (370, b"", {"topic": "t", "recallHandle": RECALLED}),
    (370, b"", {"topic": "t"}),
    (370, b"", {"topic": "d", "recallHandle": RECALLED}),
    (370, b"", {"topic": "none", "recallHandle": RECALLED}),
    (310, b"body", {**SHORT, "j": 3, "l": 5, "i": "UNIQ_KEY\x01SA\x02"}),
    (310, b"body", {**SHORT, "g": -5, "i": "UNIQ_KEY\x01SB\x02"}),
    *((310, b"body", {**SHORT, letter: value}) for letter in "defgh" for value in ("", "x", 2**63)),
    *((310, b"body", {name: SHORT[name] for name in SHORT if name != letter}) for letter in "abcdefgh"),
    (320, BATCH, {**SHORT, "m": "true", "i": "UNIQ_KEY\x01outer\x02"}),
    (320, BATCH[:-1], {**SHORT, "m": "true"}),
    (10, b"body", LONG),
    (10, b"", LONG),
    (10, b"body", {**LONG, "queueId": 5}),
    *((11, b"", {**PULL, "queueOffset": offset}) for offset in (-1, 0, 4, 99)),
    (11, b"", {**PULL, "maxMsgNums": 2}),
    (11, b"", {**PULL, "maxMsgNums": 0}),
    (11, b"", {**PULL, "subscription": "A"}),
    (11, b"", {**PULL, "subscription": "a > 1", "expressionType": "SQL92"}),
    (11, b"", {**PULL, "subscription": "a >", "expressionType": "SQL92"}),
    (11, b"", {**PULL, "subscription": "Z", "expressionType": "OTHER"}),
    *(
        (11, b"", {**PULL, "sysFlag": 0, "consumerGroup": group, "subVersion": 5})
        for group in ("members", "none")
    ),
    (11, b"", {**PULL, "sysFlag": 0, "consumerGroup": "members", "subVersion": 6}),
    (11, b"", {**PULL, "sysFlag": 0, "consumerGroup": "members", "topic": "f"}),
    (361, b"", {**PULL, "queueId": 3}),
    (361, b"", {**PULL, "topic": "none"}),
    (11, b"", {**PULL, "sysFlag": 5, "commitOffset": 2}),
    *((11, b"", {name: PULL[name] for name in PULL if name != field}) for field in PULL),
    (14, b"", OFFSET),
    (14, b"", {**OFFSET, "consumerGroup": "new"}),
    (14, b"", {**OFFSET, "consumerGroup": "new", "setZeroIfNotFound": "false"}),
    (14, b"", {**OFFSET, "topic": "none"}),
    (14, b"", {**OFFSET, "queueId": 9}),
    (15, b"", {**OFFSET, "commitOffset": 3}),
    (15, b"", {**OFFSET, "commitOffset": -3}),
    (15, b"", {**OFFSET, "topic": "none", "commitOffset": 3}),
    (15, b"", OFFSET),
    *((code, b"", {"topic": topic, "queueId": 0}) for code in (30, 31, 32) for topic in ("t", "d", "none")),
    *((29, b"", {"topic": "t", "queueId": 0, "timestamp": at}) for at in (0, 1_893_456_000_000, 2**62)),
    (29, b"", {"topic": "none", "queueId": 0, "timestamp": 0}),
    (36, b"", {"group": "members", "offset": 1, "delayLevel": 0, "originMsgId": "m", "originTopic": "t"}),
    (36, b"", {"group": "members", "offset": 2, "delayLevel": -1, "maxReconsumeTimes": 16}),
    (36, b"", {"group": "members", "offset": 999, "delayLevel": 0}),
    (36, b"", {"group": "none", "offset": 1, "delayLevel": 0}),
    (310, b"half", {**SHORT, "b": "x", "i": HALF}),
    *(
        (37, b"", {"tranStateTableOffset": 0, "commitOrRollback": kind, "producerGroup": "pg"})
        for kind in (5, 12, 8)
    ),
    (33, b"", {"offset": 1}),
    (33, b"", {"offset": 99}),
    (12, b"", {"topic": "t", "key": "k2", "maxNum": 9}),
    (12, b"", {"topic": "t", "key": "k2", "maxNum": 0}),
    (12, b"", {"topic": "t", "key": "S2", "maxNum": 9, "_UNIQUE_KEY_QUERY": "true"}),
    (12, b"", {"topic": "t", "key": "k1", "maxNum": 9, "beginTimestamp": 1_893_456_000_001}),
    (12, b"", {"topic": "none", "key": "k1", "maxNum": 9}),
    *((202, b"", {"topic": topic}) for topic in ("t", "wide", "none")),
    *((208, b"", {"consumerGroup": "g", **topic}) for topic in ({}, {"topic": "t"}, {"topic": "none"})),
    (222, b"", {"group": "g", "topic": "t", "timestamp": -1, "isForce": "true"}),
    (222, b"", {"group": "g", "topic": "wide", "queueId": 1, "offset": 0, "timestamp": 0}),
    (222, b"", {"group": "g", "topic": "wide", "queueId": 1, "offset": 5, "timestamp": 0}),
    (222, b"", {"group": "g", "topic": "wide", "queueId": 3, "offset": 0, "timestamp": 0}),
    (222, b"", {"group": "none", "topic": "t", "timestamp": 0}),
    (222, b"", {"group": "g", "topic": "none", "timestamp": 0}),
    (307, b"", {"consumerGroup": "members", "clientId": "nobody", "jstackEnable": "false"}),
    (17, b"", {**TOPIC, "attributes": "+message.type=FIFO,other,+lite.topic.expiration=5"}),
    (17, b"", {**TOPIC, "perm": 4, "attributes": "+lite.topic.expiration=0"}),
    (17, b"", {**TOPIC, "perm": 0}),
    (17, b"", {**TOPIC, "attributes": "+message.type=NONE"}),
    (17, b"", {**TOPIC, "attributes": "+lite.topic.expiration=soon"}),
    (17, b"", {**TOPIC, "readQueueNums": -1}),
    (351, b"", {"topic": "made"}),
    (351, b"", {"topic": "none"}),
    (21, b"", {}),
    (200, {**GROUP, "groupRetryPolicy": LISTED}, {}),
    (200, {**GROUP, "groupName": "grows", "groupRetryPolicy": GROWING, "consumeEnable": False}, {}),
    (200, {"groupName": "plain"}, {}),
    (200, {"groupName": "bound", "attributes": {"+lite.bind.topic": "l", "+lite.sub.client.quota": 5}}, {}),
    (
        200,
        {"groupName": "bound", "attributes": {"+lite.bind.topic": "l", "+lite.sub.model": "Exclusive"}},
        {},
    ),
    (200, {"groupName": "bound", "attributes": {"+lite.bind.topic": "l", "+lite.sub.client.quota": "x"}}, {}),
    (200, {**GROUP, "groupRetryPolicy": {"customizedRetryPolicy": {}}}, {}),
    (200, {**GROUP, "groupRetryPolicy": {"customizedRetryPolicy": {"next": "x"}}}, {}),
    (200, {**GROUP, "retryMaxTimes": "3"}, {}),
    (200, {**GROUP, "groupName": 3}, {}),
    (201, b"", {}),
    (207, b"", {"groupName": "grows"}),
    (207, b"", {"groupName": "none"}),
    (215, b"", {"topic": "made"}),
    (215, b"", {"topic": "none"}),
    (35, b"", {"clientID": "c1", "producerGroup": "pg", "consumerGroup": "members"}),
    (35, b"", {"clientID": "c1"}),
)


BASES = {10: LONG, 11: PULL, 14: OFFSET, 15: OFFSET, 310: SHORT, 320: SHORT, 361: PULL}
"""The usual fields of a request; pages show what differs."""
OLD = tuple(each for each in REQUESTS if each[0] in (36, 105))
"""What servers answer old clients otherwise."""


def asked(code: int, body: object, fields: dict[str, object]) -> str:
    usual = BASES.get(code, {})
    other = {name: text for name, text in fields.items() if usual.get(name) != text}
    missing = "".join(f" without {name}" for name in usual if name not in fields)
    shown = body if isinstance(body, bytes) else json.dumps(body)
    return f"== {code} {shown!s:.300} {other}{missing}"


async def pushed(wire: Wire, ports: Ports) -> list[str]:
    """Return what the server pushed before its next answer."""
    await wire.ask(30, topic="t", queueId=0)
    frames = [wire.pushed.get_nowait() for _ in range(wire.pushed.qsize())]
    return [f"pushed {line}" for frame in frames for line in told(frame, ports)]


async def test_every_answer_of_the_remoting_protocol(broker: FakeBroker) -> None:
    assert broker.remoting_endpoint is not None
    lines: list[str] = []
    async with dial(broker) as wire:
        server = broker.remoting_endpoint.rpartition(":")[2]
        ports = Ports(server, wire.writer.get_extra_info("sockname")[1])
        for wire.version, requests in ((407, REQUESTS), *((number, OLD) for number in (401, 400, 121, 120))):
            for code, body, fields in requests:
                lines.append(asked(code, body, fields))
                lines += told(await wire.ask(code, body, **fields), ports)
                lines += await pushed(wire, ports)
        await wire.ask(34, beats("c1", 6))
        await wire.ask(310, b"half", **{**SHORT, "b": "x", "i": HALF.replace("H1", "H2")})
        await broker.clock.advance(seconds=70)
        lines += await pushed(wire, ports)
    check(f"wire/remoting-{broker.profile.name}.txt", lines)


# gRPC


made: Any = pb
"""Messages made from mappings, which the types of the messages do not know."""


def resource(name: str) -> Any:
    return made.Resource(name=name)


T, G, NONE = resource("t"), resource("g"), resource("none")
QUEUE = made.MessageQueue(topic=T, id=0)
PLACE = made.Endpoints(scheme=made.AddressScheme.IPv4, addresses=[made.Address(host="127.0.0.1", port=8081)])


def sent(topic: str, body: bytes = b"body", **system: Any) -> Any:
    properties = made.SystemProperties(**{"message_id": "M", **system})
    message = made.Message(
        topic=resource(topic), body=body, system_properties=properties, user_properties={"a": "1"}
    )
    return made.SendMessageRequest(messages=[message])


def received(**fields: Any) -> Any:
    usual: dict[str, Any] = {"group": G, "message_queue": QUEUE, "batch_size": 2}
    request = made.ReceiveMessageRequest(**{**usual, **fields})
    if not request.auto_renew and not request.HasField("invisible_duration"):
        request.invisible_duration.seconds = 30
    if not request.HasField("long_polling_timeout"):
        request.long_polling_timeout.seconds = 0
    return request


def settings(**fields: Any) -> Any:
    return made.TelemetryCommand(settings=made.Settings(**fields))


SUBSCRIPTION = made.Subscription(
    group=G,
    subscriptions=[made.SubscriptionEntry(topic=T, expression=made.FilterExpression(expression="a"))],
    fifo=True,
    receive_batch_size=5,
)
SETTINGS = (
    settings(client_type=made.ClientType.PRODUCER, publishing=made.Publishing(topics=[T], max_body_size=7)),
    settings(client_type=made.ClientType.SIMPLE_CONSUMER, subscription=SUBSCRIPTION, access_point=PLACE),
    settings(
        client_type=made.ClientType.PUSH_CONSUMER, subscription=made.Subscription(group=resource("row"))
    ),
    settings(client_type=made.ClientType.PULL_CONSUMER, subscription=made.Subscription(group=NONE)),
    settings(
        client_type=made.ClientType.PUSH_CONSUMER, subscription=made.Subscription(group=resource("bad name"))
    ),
    settings(client_type=made.ClientType.PRODUCER, publishing=made.Publishing(topics=[resource("a b")])),
    settings(client_type=made.ClientType.PRODUCER),
)
CALLS: tuple[tuple[str, Message], ...] = (
    *(
        ("QueryRoute", made.QueryRouteRequest(topic=resource(name), endpoints=PLACE))
        for name in ("t", "wide", "f", "none")
    ),
    ("QueryRoute", made.QueryRouteRequest(topic=T, endpoints=made.Endpoints(addresses=PLACE.addresses))),
    ("QueryRoute", made.QueryRouteRequest(topic=resource(""))),
    *(
        ("QueryAssignment", made.QueryAssignmentRequest(topic=T, group=group, endpoints=PLACE))
        for group in (G, resource("row"), NONE)
    ),
    ("Heartbeat", made.HeartbeatRequest(client_type=made.ClientType.SIMPLE_CONSUMER, group=G)),
    ("Heartbeat", made.HeartbeatRequest(client_type=made.ClientType.PUSH_CONSUMER)),
    (
        "SendMessage",
        sent("t", tag="a", keys=["k", "l"], trace_context="trace", message_type=made.MessageType.NORMAL),
    ),
    ("SendMessage", sent("t", b"packed", body_encoding=made.Encoding.GZIP, born_host="here", message_id="N")),
    ("SendMessage", sent("t", born_timestamp={"seconds": 7, "nanos": 1_234_567}, message_id="O")),
    ("SendMessage", sent("t", born_timestamp={"seconds": -(10**12)}, message_id="P")),
    ("SendMessage", sent("f", message_group="one")),
    ("SendMessage", sent("d", delivery_timestamp={"seconds": 1_893_456_060})),
    ("SendMessage", sent("d", delivery_timestamp={"seconds": 10**13})),
    (
        "SendMessage",
        sent(
            "x",
            message_type=made.MessageType.TRANSACTION,
            orphaned_transaction_recovery_duration={"seconds": 9},
        ),
    ),
    ("SendMessage", sent("t", message_group="one")),
    ("SendMessage", sent("t", priority=3)),
    ("SendMessage", sent("t", lite_topic="ann")),
    ("SendMessage", sent("t", b"")),
    ("SendMessage", sent("none")),
    ("SendMessage", made.SendMessageRequest()),
    (
        "SendMessage",
        made.SendMessageRequest(
            messages=[*sent("t", message_id="Q").messages, *sent("t", message_id="R").messages]
        ),
    ),
    ("SendMessage", made.SendMessageRequest(messages=[*sent("t").messages, *sent("f").messages])),
    (
        "ReceiveMessage",
        received(filter_expression=made.FilterExpression(expression="a"), group=resource("h")),
    ),
    ("ReceiveMessage", received(attempt_id="attempt")),
    ("ReceiveMessage", received(auto_renew=True)),
    ("ReceiveMessage", received(invisible_duration={"seconds": 1})),
    ("ReceiveMessage", received(group=NONE)),
    ("ReceiveMessage", received(message_queue=made.MessageQueue(topic=NONE))),
    (
        "ReceiveMessage",
        received(filter_expression=made.FilterExpression(type=made.FilterType.SQL, expression="a >")),
    ),
    ("AckMessage", made.AckMessageRequest(group=G, topic=T)),
    (
        "AckMessage",
        made.AckMessageRequest(group=G, topic=T, entries=[{"message_id": "M", "receipt_handle": "none"}]),
    ),
    ("ChangeInvisibleDuration", made.ChangeInvisibleDurationRequest(group=G, topic=T, receipt_handle="none")),
    (
        "ForwardMessageToDeadLetterQueue",
        made.ForwardMessageToDeadLetterQueueRequest(group=G, topic=T, receipt_handle="none"),
    ),
    (
        "EndTransaction",
        made.EndTransactionRequest(
            topic=resource("x"), transaction_id="none", resolution=made.TransactionResolution.COMMIT
        ),
    ),
    ("RecallMessage", made.RecallMessageRequest(topic=resource("d"), recall_handle="none")),
    ("PullMessage", made.PullMessageRequest(group=G, message_queue=QUEUE, offset=1, batch_size=2)),
    ("PullMessage", made.PullMessageRequest(group=G, message_queue=QUEUE, offset=99, batch_size=2)),
    ("PullMessage", made.PullMessageRequest(group=G, message_queue=made.MessageQueue(topic=T, id=5))),
    ("UpdateOffset", made.UpdateOffsetRequest(group=G, message_queue=QUEUE, offset=2)),
    ("UpdateOffset", made.UpdateOffsetRequest(group=G, message_queue=QUEUE, offset=-2)),
    ("GetOffset", made.GetOffsetRequest(group=G, message_queue=QUEUE)),
    ("GetOffset", made.GetOffsetRequest(group=resource("row"), message_queue=QUEUE)),
    *(
        (
            "QueryOffset",
            made.QueryOffsetRequest(
                message_queue=QUEUE, query_offset_policy=policy, timestamp={"seconds": at}
            ),
        )
        for policy in (0, 1, 2, 9)
        for at in (0, 1_893_456_001)
    ),
    ("QueryOffset", made.QueryOffsetRequest(message_queue=QUEUE, query_offset_policy=2)),
    ("SyncLiteSubscription", made.SyncLiteSubscriptionRequest(group=G, topic=T, lite_topic_set=["ann"])),
    ("NotifyClientTermination", made.NotifyClientTerminationRequest(group=G)),
    ("NotifyClientTermination", made.NotifyClientTerminationRequest(group=G)),
)


ANY_PORT = r"(127\.0\.0\.1:|port: )\d+"


def page(message: Message) -> str:
    return text_format.MessageToString(message, as_one_line=True)


async def test_every_answer_over_grpc(broker: FakeBroker, connect: Any) -> None:
    client = connect(broker, "c1")
    lines: list[str] = []
    for number, command in enumerate(SETTINGS):
        stream = connect(broker, f"settings-{number}").telemetry()
        lines.append(f"== {page(command)}")
        try:
            await stream.write(command)
            lines.append(page(await stream.read()))
        except grpc.aio.AioRpcError as error:
            lines.append(f"{error.code().name}: {error.details()}")
    await client.subscribe("g", "t")
    for name, request in CALLS:
        lines.append(f"== {name} {page(request)}")
        try:
            if name in ("ReceiveMessage", "PullMessage"):
                lines += [page(frame) async for frame in client.stream(name, request)]
            else:
                lines.append(page(await client.call(name, request)))
        except grpc.aio.AioRpcError as error:
            lines.append(f"{error.code().name}: {error.details()}")
    check(f"wire/grpc-{broker.profile.name}.txt", (re.sub(ANY_PORT, r"\1PORT", line) for line in lines))
