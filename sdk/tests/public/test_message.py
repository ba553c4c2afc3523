"""Messages are checked when they are made."""

from datetime import UTC, datetime

import pytest
from aiorocketmq._core.lease import Lease
from aiorocketmq.errors import UsageError
from aiorocketmq.message import Message, MessageQueue, MessageType, ReceivedMessage
from hypothesis import given, strategies as st

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def received(**facts: object) -> ReceivedMessage:
    fields = {"topic": "t", "body": b"x", "message_id": "m", "queue": MessageQueue("t", "b", 0), "offset": 1}
    return ReceivedMessage(**{**fields, **facts})  # type: ignore[arg-type]


def test_a_message_keeps_what_it_was_given() -> None:
    message = Message("orders", b"x", tag="paid", keys=["1", "2"], properties={"a": "b"})
    assert (message.topic, message.body, message.tag, message.keys) == ("orders", b"x", "paid", ("1", "2"))
    assert message.properties == {"a": "b"}
    assert message == Message("orders", b"x", tag="paid", keys=("1", "2"), properties={"a": "b"})


def test_a_single_key_may_be_given_as_text() -> None:
    assert Message("t", b"x", keys="order-1").keys == ("order-1",)


def test_what_a_message_is_given_is_copied() -> None:
    body, properties = bytearray(b"abc"), {"a": "b"}
    message = Message("t", body, keys=iter(["1", "2"]), properties=properties)
    body[:] = b"xyz"
    properties["a"] = "c"
    assert (message.body, message.keys, message.properties) == (b"abc", ("1", "2"), {"a": "b"})


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"message_group": "g"}, MessageType.FIFO),
        ({"delay": 0}, MessageType.DELAY),
        ({"deliver_at": NOW}, MessageType.DELAY),
        ({"priority": 0}, MessageType.PRIORITY),
        ({"lite_topic": "l"}, MessageType.LITE),
    ],
)
def test_the_type_follows_from_what_is_given(facts: dict[str, object], kind: MessageType) -> None:
    assert Message("t", b"x", **facts).message_type is kind  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"topic": ""}, "topic '' must consist of"),
        ({"topic": "a b"}, "topic 'a b' must consist of"),
        ({"topic": "t" * 128}, "at most 127"),
        ({"body": b""}, "body must not be empty"),
        ({"tag": " "}, "tag ' ' must not be blank"),
        ({"tag": ""}, "tag '' must not be blank"),
        ({"tag": "a|b"}, "must not contain '|'"),
        ({"tag": "a\nb"}, "control characters"),
        ({"keys": ["ok", " "]}, "key ' ' must not be blank"),
        ({"properties": {"": "v"}}, "property key '' must not be blank"),
        ({"properties": {"k": ""}}, "property 'k' '' must not be blank"),
        ({"properties": {"k": "\x01"}}, "control characters"),
        ({"message_group": " "}, "message_group ' ' must not be blank"),
        ({"delay": -1}, "delay must be a number of seconds from 0"),
        ({"delay": float("nan")}, "delay must be a number of seconds from 0"),
        ({"delay": float("inf")}, "delay must be a number of seconds from 0"),
        ({"deliver_at": datetime(2026, 1, 1)}, "with a time zone"),  # that it has none is the point
        ({"priority": -1}, "priority must be an integer from 0"),
        ({"priority": 2**31}, "priority must be an integer from 0"),
        ({"tag": "\ud800"}, "control characters"),
        ({"message_group": "g", "delay": 1}, "at most one of"),
        ({"delay": 1, "deliver_at": NOW}, "not delay and deliver_at"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(facts: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=r".+") as error:
        Message(**{"topic": "t", "body": b"x", **facts})  # type: ignore[arg-type]
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "facts",
    [
        *(
            {"body": "text"},
            {"body": None},
            {"tag": 1},
            {"keys": [1]},
            {"properties": {"a": 1}},
            {"topic": None},
        ),
        *({"delay": "5"}, {"delay": True}, {"deliver_at": 5}, {"priority": 1.5}, {"priority": "1"}),
        *({"message_group": 1}, {"lite_topic": b"l"}),
    ],
)
def test_a_value_of_the_wrong_type_is_a_type_error(facts: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="must be"):
        Message(**{"topic": "t", "body": b"x", **facts})  # type: ignore[arg-type]


@given(st.text(max_size=20))
def test_any_tag_is_taken_or_a_value_error(tag: str) -> None:
    try:
        assert Message("t", b"x", tag=tag).tag == tag
    except ValueError:
        assert not tag.strip() or "|" in tag or not tag.isprintable()


def test_times_of_a_received_message_are_instants_with_a_zone() -> None:
    message = received(born_us=1_500_000, stored_us=None, lease=Lease("h", 0.0), lease_ends_us=2_000_000)
    assert message.born_at == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert message.stored_at is None
    assert message.lease_ends_at == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)


async def test_a_message_without_a_lease_says_so_when_it_is_settled() -> None:
    message = received()
    assert message.is_settled
    assert message.receipt_handle is None
    for call in (message.ack, message.release, message.__aenter__):
        with pytest.raises(UsageError, match="has no lease to settle"):
            await call()
    with pytest.raises(UsageError, match="has no lease to settle"):
        await message.extend(10)


def test_two_deliveries_of_one_message_are_not_equal() -> None:
    assert received() != received()
    assert "attempt 1" in repr(received())
