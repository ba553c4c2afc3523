"""Limits of messages: inventory 4.15. Each case sends the last legal and the first illegal value."""

from __future__ import annotations

from collections.abc import Mapping

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of

# UTF-8 bytes of user properties, tag and keys together (broker-semantics.md 4.1 row 10).
PROPERTY_BYTES = 16_384
# System keys of all versions from 5.2 on (4.2).
RESERVED = (
    *(
        "TRACE_ON",
        "MSG_REGION",
        "KEYS",
        "TAGS",
        "WAIT",
        "DELAY",
        "RETRY_TOPIC",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
    ),
    *(
        "PGROUP",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "BUYER_ID",
        "ORIGIN_MESSAGE_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
    ),
    *("MQ2_FLAG", "RECONSUME_TIME", "UNIQ_KEY", "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "POP_CK"),
    *(
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "DUP_INFO",
        "EXTEND_UNIQ_INFO",
        "INSTANCE_ID",
    ),
    *("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE"),
    *(
        "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_ENQUEUE_MS",
    ),
    *("TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL"),
    *("__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"),
)
CONTROLS = {"nul": "\x00", "one": "\x01", "newline": "a\nb"}


async def judge(fixture: Fixture, *messages: pb.Message, code: str = "OK", together: bool = False) -> None:
    """Send messages one by one (or in one request) with a fresh client; assert that all are answered with `code`."""
    client = await fixture.client()
    for sent in [messages] if together else [(message,) for message in messages]:
        reply = await client.send(*sent)
        answer_code = code_of(reply)
        assert answer_code == code, f"answered with {answer_code} ({reply.status.message}), not {code}"


async def boundary(fixture: Fixture, legal: pb.Message, illegal: pb.Message, code: str) -> None:
    """Assert that the legal message is accepted and delivered, and the illegal one refused with `code` and not
    delivered."""
    topic = legal.topic.name
    consumer = await fixture.consumer(topic)
    await judge(fixture, legal)
    await judge(fixture, illegal, code=code)
    others = await fixture.sentinel(consumer)
    delivered = {delivery.id for delivery in others} | {delivery.id for delivery in consumer.deliveries}
    assert legal.system_properties.message_id in delivered, "the legal message was not delivered"
    assert illegal.system_properties.message_id not in delivered, "the refused message was delivered"


def of_bytes(topic: str, size: int, **fields: object) -> pb.Message:
    """Return a message with one property of `size` bytes, including its key."""
    return requests.message(topic, "p", properties={"k": "v" * (size - 1)}, **fields)  # type: ignore[arg-type]  # fields of a message


@case(
    "limit.body",
    rules=("13.2", "4.1"),
    needs=("large-delays",),
    prepared=("@topic",),
    params={"delay": "DELAY"},
)
@case(
    "limit.body",
    rules=("13.2", "4.1"),
    prepared=("@topic",),
    params={kind.lower(): kind for kind in ("NORMAL", "FIFO", "TRANSACTION")},
)
async def body(fixture: Fixture, kind: str) -> None:
    """A {} message of the largest advertised body is accepted, one byte more is MESSAGE_BODY_TOO_LARGE."""
    topic = await fixture.topic(type=kind)
    client = await fixture.client()
    largest = (await client.send_settings(requests.producer_settings(topic))).publishing.max_body_size
    for size, expected in ((largest, "OK"), (largest + 1, "MESSAGE_BODY_TOO_LARGE")):
        message = fixture.message_of_type(topic, bytes(size), kind, delay=3600.0)
        reply = await client.send(message)
        assert code_of(reply) == expected, f"{size} bytes were answered with {code_of(reply)}"


@case("limit.body-empty", rules=("4.1",), level=SHOULD)
async def body_empty(fixture: Fixture) -> None:
    """A message of one byte is accepted, an empty one is MESSAGE_BODY_EMPTY."""
    topic = await fixture.topic()
    legal, illegal = requests.message(topic, b"1"), requests.message(topic, b"")
    await boundary(fixture, legal, illegal, "MESSAGE_BODY_EMPTY")


@case("limit.body-and-props", rules=("4.1", "13.2"), level=SHOULD, prepared=("@topic",))
async def body_and_props(fixture: Fixture) -> None:
    """The largest body can be combined with the largest properties."""
    topic = await fixture.topic()
    message = of_bytes(topic, PROPERTY_BYTES)
    message.body = bytes(int(fixture.number("body.max")))
    await judge(fixture, message)


@case("limit.grpc-frame", rules=("13.2", "R5.5"), level=SHOULD, timeout=90.0)
async def grpc_frame(fixture: Fixture) -> None:
    """Several messages of the largest body are received without a transport error."""
    topic, consumer = await fixture.subscribed(queues=1)
    largest = bytes(int(fixture.number("body.max")))
    sent = await fixture.send(topic, largest, largest, largest, largest)
    taken = await consumer.take(len(sent))
    assert {delivery.id for delivery in taken} == {one.id for one in sent}
    assert all(len(delivery.message.body) == len(largest) for delivery in taken)


@case("limit.props-bytes", rules=("4.1", "13.2"), level=SHOULD)
async def props_bytes(fixture: Fixture) -> None:
    """User properties, tag and keys of 16 KiB together are accepted, one byte more is
    MESSAGE_PROPERTIES_TOO_LARGE."""
    topic = await fixture.topic()
    rest = {"tag": "t" * 10, "keys": ["k" * 20]}
    legal, illegal = (of_bytes(topic, PROPERTY_BYTES - 30 + more, **rest) for more in (0, 1))
    await boundary(fixture, legal, illegal, "MESSAGE_PROPERTIES_TOO_LARGE")


@case("limit.props-bytes-utf8", rules=("4.1", "13.2"), level=SHOULD)
async def props_bytes_utf8(fixture: Fixture) -> None:
    """The limit of properties counts bytes of UTF-8, not characters."""
    topic = await fixture.topic()
    characters = (PROPERTY_BYTES - 1) // 3
    legal = requests.message(topic, "p", properties={"k": "語" * characters})
    illegal = requests.message(topic, "p", properties={"k": "語" * (characters + 1)})
    await boundary(fixture, legal, illegal, "MESSAGE_PROPERTIES_TOO_LARGE")


@case("limit.props-count", rules=("4.1", "13.2"), level=SHOULD)
async def props_count(fixture: Fixture) -> None:
    """128 user properties are accepted, 129 are MESSAGE_PROPERTIES_TOO_LARGE."""
    topic = await fixture.topic()
    legal, illegal = (
        requests.message(topic, "p", properties={f"k{number}": "v" for number in range(count)})
        for count in (128, 129)
    )
    await boundary(fixture, legal, illegal, "MESSAGE_PROPERTIES_TOO_LARGE")


@case("limit.props-reserved", rules=("4.2",), level=SHOULD, prepared=("@topic",))
async def props_reserved(fixture: Fixture) -> None:
    """User properties named like the server's own are ILLEGAL_MESSAGE_PROPERTY_KEY."""
    topic = await fixture.topic()
    for key in RESERVED:
        message = requests.message(topic, "p", properties={key: "v"})
        await judge(fixture, message, code="ILLEGAL_MESSAGE_PROPERTY_KEY")


@case(
    "limit.props-control-char",
    rules=("4.1",),
    level=SHOULD,
    prepared=("@topic",),
    params={"key": "key", "value": "value"},
)
async def props_control_char(fixture: Fixture, part: str) -> None:
    """A control character in the {} of a user property is ILLEGAL_MESSAGE_PROPERTY_KEY."""
    topic = await fixture.topic()
    for text in CONTROLS.values():
        properties = {text: "v"} if part == "key" else {"k": text}
        message = requests.message(topic, "p", properties=properties)
        await judge(fixture, message, code="ILLEGAL_MESSAGE_PROPERTY_KEY")


@case("limit.props-visible", rules=("4.1",))
async def props_visible(fixture: Fixture) -> None:
    """Keys and values of user properties may contain visible characters of any script."""
    topic, consumer = await fixture.subscribed()
    properties: Mapping[str, str] = {
        "_": "%",
        "%。": "|| &&",
        "\U0001f600": "\U0001f680 语言",
        "a-b.c": "x=y;z",
    }
    await fixture.send(topic, "visible", properties=properties)
    delivery = (await consumer.take(1))[0]
    received = {key: delivery.message.user_properties.get(key) for key in properties}
    assert received == properties, f"delivered with {received}"


@case("limit.tag-bytes", rules=("4.1", "13.2"), level=SHOULD)
async def tag_bytes(fixture: Fixture) -> None:
    """A tag of 16 KiB is accepted, one byte more is MESSAGE_PROPERTIES_TOO_LARGE."""
    topic = await fixture.topic()
    legal, illegal = (requests.message(topic, "t", tag="t" * (PROPERTY_BYTES + more)) for more in (0, 1))
    await boundary(fixture, legal, illegal, "MESSAGE_PROPERTIES_TOO_LARGE")


@case(
    "limit.tag-illegal",
    rules=("4.1", "13.2"),
    prepared=("@topic",),
    params={"pipe": "a|b", "blank": " ", "control": "a\x01b"},
)
async def tag_illegal(fixture: Fixture, tag: str) -> None:
    """A tag with a {} character, or nothing but blanks, is ILLEGAL_MESSAGE_TAG."""
    topic = await fixture.topic()
    await judge(fixture, requests.message(topic, "t", tag=tag), code="ILLEGAL_MESSAGE_TAG")


@case("limit.key-bytes", rules=("4.1", "13.2"), level=SHOULD)
async def key_bytes(fixture: Fixture) -> None:
    """A key of 16 KiB is accepted, one byte more is MESSAGE_PROPERTIES_TOO_LARGE, however few characters it has."""
    for start in ("", "\u20ac" * 1000):
        topic, rest = await fixture.topic(), PROPERTY_BYTES - len(start.encode())
        legal, illegal = (requests.message(topic, "k", keys=[start + "k" * (rest + more)]) for more in (0, 1))
        await boundary(fixture, legal, illegal, "MESSAGE_PROPERTIES_TOO_LARGE")


@case(
    "limit.key-illegal",
    rules=("4.1", "13.2"),
    level=SHOULD,
    prepared=("@topic",),
    params={"blank": " ", "control": "a\x01b"},
)
async def key_illegal(fixture: Fixture, key: str) -> None:
    """A key that is {} or holds such a character is ILLEGAL_MESSAGE_KEY."""
    topic = await fixture.topic()
    await judge(fixture, requests.message(topic, "k", keys=[key]), code="ILLEGAL_MESSAGE_KEY")


@case("limit.message-id-blank", rules=("4.1",))
async def message_id_blank(fixture: Fixture) -> None:
    """A message without an id is ILLEGAL_MESSAGE_ID."""
    topic = await fixture.topic()
    for blank in ("", " "):
        await judge(fixture, requests.message(topic, "i", id=blank), code="ILLEGAL_MESSAGE_ID")


@case("limit.message-group-bytes", rules=("4.1", "13.2"), level=SHOULD, prepared=("@topic",))
async def message_group_bytes(fixture: Fixture) -> None:
    """A message group of 63 bytes is accepted, one of 65 is ILLEGAL_MESSAGE_GROUP, also if they are fewer
    characters; the response to 64 is recorded."""
    topic = await fixture.topic(type="FIFO")
    for legal in ("g" * 63, "\u20ac" * 21):
        await judge(fixture, requests.message(topic, "g", group=legal))
    for illegal in ("g" * 65, "\u20ac" * 21 + "gg"):
        await judge(fixture, requests.message(topic, "g", group=illegal), code="ILLEGAL_MESSAGE_GROUP")
    client = await fixture.client()
    # 64 is legal by the documentation and refused by the server.
    reply = await client.send(requests.message(topic, "g", group="g" * 64))
    fixture.note("64 bytes", code_of(reply))


@case(
    "limit.message-group-illegal",
    rules=("4.1",),
    level=SHOULD,
    prepared=("@topic",),
    params={"blank": " ", "control": "a\x01b"},
)
async def message_group_illegal(fixture: Fixture, group: str) -> None:
    """A message group that is {} or holds such a character is ILLEGAL_MESSAGE_GROUP."""
    topic = await fixture.topic(type="FIFO")
    await judge(fixture, requests.message(topic, "g", group=group), code="ILLEGAL_MESSAGE_GROUP")
