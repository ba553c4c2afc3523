"""Typed payloads: what one side encodes, the other decodes, and nothing else."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import pydantic
import pytest
from aiorocketmq import (
    Codec,
    JsonCodec,
    Message,
    MessageQueue,
    MsgspecCodec,
    PayloadError,
    Producer,
    PydanticCodec,
    ReceivedMessage,
    UsageError,
)
from aiorocketmq_fake import FakeBroker

from sdk.tests.clients import push_consumer, simple_consumer


@dataclasses.dataclass
class Order:
    number: int
    note: str = ""


class OrderModel(pydantic.BaseModel):
    number: int


class OrderStruct(msgspec.Struct):
    number: int


def received(message: Message, **changes: Any) -> ReceivedMessage:
    """The message as a consumer gets it."""
    fields = {"body": message.body, "properties": message.properties, **changes}
    return ReceivedMessage(
        topic=message.topic, message_id="01AB", queue=MessageQueue("orders", "a", 0), offset=0, **fields
    )


@pytest.mark.parametrize("value", [{"a": [1, "ü", None]}, [], "text", 3, 1.5, True, None])
def test_json_values_come_back_equal(value: object) -> None:
    message = Message.json("orders", value, tag="paid", properties={"source": "web"})
    assert message.properties == {"source": "web", "content-type": "application/json"}
    assert message.tag == "paid"
    assert received(message).json() == value


def test_dataclasses_are_objects_of_their_fields() -> None:
    message = Message.json("orders", {"orders": [Order(1), Order(2, "gift")]})
    assert message.body == b'{"orders":[{"number":1,"note":""},{"number":2,"note":"gift"}]}'
    assert Message.json("orders", "ü€").body == '"ü€"'.encode()
    assert received(Message.json("orders", Order(3))).json(Order) == Order(3)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, b"raw", object(), Order])
def test_values_that_json_lacks_are_refused_before_sending(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Message.json("orders", value)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (PydanticCodec(OrderModel), OrderModel(number=3)),
        (PydanticCodec(list[OrderModel]), [OrderModel(number=3)]),
        (MsgspecCodec(OrderStruct), OrderStruct(3)),
        (MsgspecCodec(OrderStruct, "msgpack"), OrderStruct(3)),
        (MsgspecCodec(dict[str, int], "msgpack"), {"a": 1}),
    ],
)
def test_codecs_of_libraries_give_their_types_back(codec: Codec[Any], value: object) -> None:
    message = Message.encoded("orders", value, codec)
    decoded = received(message).decode(codec)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("body", "expected", "why"),
    [
        (b"{", object, "cannot be decoded"),
        (b"\xff", object, "cannot be decoded"),
        (b"[" * 200_000, object, "cannot be decoded"),
        (b"[]", dict, "expected dict, got list"),
        (b"true", int, "expected int, got bool"),
        (b"[]", Order, "list is no object with the fields of Order"),
        (b'{"numbr":1}', Order, "numbr"),
    ],
)
def test_bodies_that_do_not_fit_are_named(body: bytes, expected: type, why: str) -> None:
    with pytest.raises(PayloadError, match=why) as raised:
        received(Message("orders", body)).json(expected)
    assert "01AB of topic 'orders'" in str(raised.value)


@pytest.mark.parametrize("codec", [PydanticCodec(OrderModel), MsgspecCodec(OrderStruct)])
def test_values_that_libraries_refuse_are_payload_errors_on_one_line(codec: Codec[Any]) -> None:
    with pytest.raises(PayloadError) as raised:
        received(Message.json("orders", {"number": "three"})).decode(codec)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)


def test_another_content_type_is_refused_without_decoding() -> None:
    packed = Message.encoded("orders", {"number": 1}, MsgspecCodec(dict[str, int], "msgpack"))
    with pytest.raises(PayloadError, match="is application/msgpack, not application/json"):
        received(packed).json()
    with_charset = Message("orders", b"1", properties={"content-type": "Application/JSON; charset=utf-8"})
    assert received(with_charset).json(int) == 1


def test_damaged_bodies_are_not_decoded() -> None:
    with pytest.raises(PayloadError, match="is damaged: its CRC32 digest"):
        received(Message.json("orders", 1), corruption="its CRC32 digest is not 0x1").json()


def test_a_content_type_of_the_callers_own_is_refused() -> None:
    with pytest.raises(ValueError, match="'content-type' is the codec's"):
        Message.json("orders", 1, properties={"content-type": "text/plain"})
    with pytest.raises(UsageError, match="'json' or 'msgpack', got 'yaml'"):
        MsgspecCodec(OrderStruct, "yaml")  # type: ignore[arg-type]


async def test_json_travels_through_a_broker() -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing")
        async with Producer(broker.endpoint) as producer:
            await producer.send(Message.encoded("orders", Order(7, "ü"), JsonCodec(Order)))
        async with simple_consumer(broker.endpoint) as consumer:
            (message,) = await consumer.receive(max_messages=1, invisible=30, wait=5)
            assert message.json(Order) == Order(7, "ü")
            assert message.properties["content-type"] == "application/json"


async def test_a_payload_of_the_wrong_type_fails_its_handler_and_is_redelivered() -> None:
    attempts: list[int] = []
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders")
        await broker.create_group("billing", backoff=[1.0])

        async def handle(message: ReceivedMessage) -> None:
            attempts.append(message.attempt)
            message.json(dict)

        async with Producer(broker.endpoint) as producer:
            await producer.send(Message.json("orders", [1]))
        async with push_consumer(broker.endpoint, handler=handle):
            while len(attempts) < 2:
                await broker.clock.advance(seconds=1)
    assert attempts == [1, 2]
