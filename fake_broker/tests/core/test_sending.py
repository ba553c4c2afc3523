"""Sending: every row of the validation table, types, queues, batches, receipts."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Encoding, MessageType, Permission, Refusal, TopicType
from aiorocketmq_fake.core.values.events import Stored
from aiorocketmq_fake.core.values.model import TopicConfig

ROWS: list[tuple[str, dict[str, Any], Code]] = [
    ("topic blank", {"topic": " "}, Code.ILLEGAL_TOPIC),
    ("topic too long", {"topic": "t" * 128}, Code.ILLEGAL_TOPIC),
    ("topic with a dot", {"topic": "a.b"}, Code.ILLEGAL_TOPIC),
    ("topic of the system", {"topic": "TBW102"}, Code.ILLEGAL_TOPIC),
    ("topic named as the broker", {"topic": "broker-a"}, Code.ILLEGAL_TOPIC),
    ("topic named as the cluster", {"topic": "DefaultCluster"}, Code.ILLEGAL_TOPIC),
    ("body empty", {"body": b""}, Code.MESSAGE_BODY_EMPTY),
    ("body too large", {"body": bytes(4_194_305)}, Code.MESSAGE_BODY_TOO_LARGE),
    ("129 properties", {"properties": {f"k{i}": "" for i in range(129)}}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ("property reserved", {"properties": {"KEYS": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    (
        "property of priorities",
        {"properties": {"_SYS_MSG_PRIORITY_": "1"}},
        Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ),
    ("control in property key", {"properties": {"a\x01": "x"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("control in property value", {"properties": {"a": "x\x9f"}}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
    ("tag blank", {"tag": " "}, Code.ILLEGAL_MESSAGE_TAG),
    ("tag with a bar", {"tag": "a|b"}, Code.ILLEGAL_MESSAGE_TAG),
    ("tag with control", {"tag": "a\n"}, Code.ILLEGAL_MESSAGE_TAG),
    ("key blank", {"keys": ("a", " ")}, Code.ILLEGAL_MESSAGE_KEY),
    ("key with control", {"keys": ("\x7f",)}, Code.ILLEGAL_MESSAGE_KEY),
    ("16385 bytes of tag", {"tag": "x" * 16_385}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    ("16386 bytes of keys", {"keys": ("é" * 8193,)}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
    (
        "16385 bytes in all",
        {"tag": "x", "properties": {"a": "x" * 16_383}},
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
    ),
    ("id empty", {"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
    ("id blank", {"message_id": " "}, Code.ILLEGAL_MESSAGE_ID),
    (
        "recovery too long",
        {"message_type": MessageType.TRANSACTION, "recovery_duration": 3601.0},
        Code.BAD_REQUEST,
    ),
    ("delivery too far", {"delivery_timestamp": 1_000_000.0 + 86_400.001}, Code.ILLEGAL_DELIVERY_TIME),
    ("message group blank", {"message_group": " "}, Code.ILLEGAL_MESSAGE_GROUP),
    ("message group of 64 bytes", {"message_group": "x" * 64}, Code.ILLEGAL_MESSAGE_GROUP),
    ("message group of 32 two-byte characters", {"message_group": "é" * 32}, Code.ILLEGAL_MESSAGE_GROUP),
    ("message group with control", {"message_group": "a\tb"}, Code.ILLEGAL_MESSAGE_GROUP),
    ("lite topic illegal", {"lite_topic": "a b"}, Code.ILLEGAL_LITE_TOPIC),
    ("type not taken", {"message_group": "a"}, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
]


@pytest.mark.parametrize(("fields", "code"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_each_row_of_the_table_has_its_code_and_stores_nothing(
    desk: Any, fields: dict[str, Any], code: Code
) -> None:
    """Table 4.1."""
    fields = {"message_id": "m", **fields}
    with pytest.raises(Refusal) as caught:
        desk.send(fields.pop("message_id"), **fields)
    assert caught.value.code is code
    assert caught.value.message[0].isupper()
    assert caught.value.message.endswith(".")
    assert desk.broker.messages("t") == ()


ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("body of 4 MiB", {"body": bytes(4_194_304)}),
    ("128 properties", {"properties": {f"k{i}": "v" for i in range(128)}}),
    ("16384 bytes in all", {"tag": "x", "properties": {"a": "x" * 16_382}}),
    ("tag with a space", {"tag": "a b"}),
    ("tag of a star", {"tag": "*"}),
    ("empty key among others", {"keys": ("a", "", "a")}),
    ("id of any text", {"message_id": "é\x01 x"}),
    ("recovery duration without transaction", {"recovery_duration": 9999.0}),
]


@pytest.mark.parametrize("fields", [row[1] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_what_just_fits_is_accepted(desk: Any, fields: dict[str, Any]) -> None:
    fields = {"message_id": "m", **fields}
    assert desk.send(fields.pop("message_id"), **fields).code is Code.OK


def test_the_longest_message_group_is_accepted(make_desk: Any) -> None:
    desk = make_desk(type=TopicType.FIFO)
    assert desk.send("m", message_group="x" * 63).code is Code.OK


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"body": b"", "tag": "|"}, Code.MESSAGE_BODY_EMPTY),
        ({"tag": "|", "keys": (" ",)}, Code.ILLEGAL_MESSAGE_TAG),
        ({"properties": {"KEYS": ""}, "tag": "|"}, Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"keys": (" ",), "tag": "x" * 16_385}, Code.ILLEGAL_MESSAGE_KEY),
        ({"tag": "x" * 16_385, "message_id": ""}, Code.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"message_id": "", "message_group": " "}, Code.ILLEGAL_MESSAGE_ID),
        ({"delivery_timestamp": 2e6, "message_group": " "}, Code.ILLEGAL_DELIVERY_TIME),
        ({"message_group": " ", "message_type": MessageType.TRANSACTION}, Code.ILLEGAL_MESSAGE_GROUP),
        ({"topic": "missing", "body": b""}, Code.MESSAGE_BODY_EMPTY),
    ],
)
def test_of_two_faults_the_earlier_row_decides(desk: Any, fields: dict[str, Any], code: Code) -> None:
    """Pairs tried on a real server (session §4.1)."""
    fields = {"message_id": "m", **fields}
    with pytest.raises(Refusal) as caught:
        desk.send(fields.pop("message_id"), **fields)
    assert caught.value.code is code


def test_no_message_is_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.broker.send((), now=desk.now)
    assert caught.value.code is Code.MESSAGE_CORRUPTED


def test_an_unknown_topic_is_refused_and_not_created(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.send("m", topic="missing")
    assert caught.value.code is desk.profile.unknown_topic_send_code
    assert [topic.config.name for topic in desk.broker.topics()] == ["t"]


def test_an_unknown_retry_topic_is_refused_by_the_store(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.send("m", topic="%RETRY%x")
    assert caught.value.code is desk.profile.unknown_internal_topic_code


def test_a_topic_without_writable_queue_is_refused(desk: Any) -> None:
    desk.broker.update_topic(TopicConfig("t", permission=Permission.READ), now=desk.now)
    with pytest.raises(Refusal) as caught:
        desk.send("m")
    assert caught.value.code is Code.FORBIDDEN


@pytest.mark.parametrize(
    "fields",
    [{"message_id": "x" * 33_000}, {"trace_context": "é" * 20_000}, {"priority": -1}],
    ids=["long id", "long trace context", "negative priority"],
)
def test_what_the_store_cannot_take_is_refused(make_desk: Any, fields: dict[str, Any]) -> None:
    desk = make_desk(type=TopicType.PRIORITY if "priority" in fields else TopicType.NORMAL)
    fields = {"message_id": "m", **fields}
    with pytest.raises(Refusal) as caught:
        desk.send(fields.pop("message_id"), **fields)
    assert caught.value.code is desk.profile.store_refusal_code


CARRIES: list[tuple[str, dict[str, Any], TopicType]] = [
    ("nothing", {}, TopicType.NORMAL),
    ("a claimed type", {"message_type": MessageType.FIFO}, TopicType.NORMAL),
    ("group", {"message_group": "a"}, TopicType.FIFO),
    ("time", {"delivery_timestamp": 1.0}, TopicType.DELAY),
    ("time and group", {"delivery_timestamp": 1.0, "message_group": "a"}, TopicType.DELAY),
    ("transaction", {"message_type": MessageType.TRANSACTION}, TopicType.TRANSACTION),
    (
        "transaction and group",
        {"message_type": MessageType.TRANSACTION, "message_group": "a"},
        TopicType.TRANSACTION,
    ),
    ("priority", {"priority": 1}, TopicType.PRIORITY),
    ("priority and lite", {"priority": 1, "lite_topic": "l"}, TopicType.PRIORITY),
    ("lite", {"lite_topic": "l"}, TopicType.LITE),
    ("lite and group", {"lite_topic": "l", "message_group": "a"}, TopicType.FIFO),
]


@pytest.mark.parametrize(("fields", "fitting"), [row[1:] for row in CARRIES], ids=[row[0] for row in CARRIES])
def test_a_message_fits_only_topics_of_its_type(
    make_desk: Any, fields: dict[str, Any], fitting: TopicType
) -> None:
    """Matrix of session §4.3; the type follows from the content (R4.5)."""
    for topic_type in TopicType:
        if topic_type is TopicType.MIXED:
            continue
        desk = make_desk(type=topic_type)
        if topic_type is fitting:
            assert desk.send("m", **fields).code is Code.OK
        else:
            with pytest.raises(Refusal) as caught:
                desk.send("m", **fields)
            assert caught.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_a_mixed_topic_takes_the_four_classic_types(make_documented: Any) -> None:
    desk = make_documented(type=TopicType.MIXED)
    for fields in (
        {},
        {"message_group": "a"},
        {"delivery_timestamp": 1.0},
        {"message_type": MessageType.TRANSACTION},
    ):
        assert desk.send("m", **fields).code is Code.OK
    with pytest.raises(Refusal):
        desk.send("m", priority=1)


def test_dead_letter_topics_take_every_type(make_desk: Any) -> None:
    desk = make_desk(max_attempts=1)
    desk.send("m")
    desk.one()
    desk.wait_for_return()
    desk.ids()
    assert desk.send("n", topic="%DLQ%g", message_group="a").code is Code.OK


def test_messages_of_one_group_share_the_queue_of_its_hash(make_desk: Any) -> None:
    desk = make_desk(type=TopicType.FIFO, queues=4)
    assert {desk.send("m", message_group="order-1001").queue_id for _ in range(5)} == {2}


def test_messages_without_group_spread_over_all_queues(make_desk: Any) -> None:
    desk = make_desk(queues=4)
    assert {desk.send("m").queue_id for _ in range(100)} == {0, 1, 2, 3}


def test_priorities_choose_the_queue(make_desk: Any) -> None:
    """R4.28."""
    desk = make_desk(type=TopicType.PRIORITY, queues=4)
    assert [desk.send("m", priority=priority).queue_id for priority in (0, 2, 3, 100)] == [0, 2, 3, 3]


def test_a_receipt_has_the_id_and_the_offset(desk: Any) -> None:
    first, second = desk.send("a"), desk.send("b")
    assert (first.message_id, first.offset, second.offset) == ("a", 0, 1)
    assert first.recall_handle == ""
    assert first.transaction_id == ("a" if desk.profile.transaction_id_always else "")


def test_one_id_may_be_stored_twice(desk: Any) -> None:
    desk.send("same", "same")
    assert desk.ids() == ["same", "same"]


def test_storing_is_an_event(desk: Any) -> None:
    desk.broker.send((desk.message("m"),), now=desk.now, client_id="p")
    (stored,) = desk.seen(Stored)
    assert (stored.message.content.message_id, stored.client_id, stored.at) == ("m", "p", desk.now)


# What consumers see


def test_a_message_arrives_as_it_was_sent(desk: Any) -> None:
    desk.send(
        "m",
        body=b"\x00\xff",
        tag="t1",
        keys=("a", "b"),
        properties={"x": "1"},
        encoding=Encoding.GZIP,
        born_host="here:1",
    )
    content = desk.one().message.content
    assert (content.body, content.tag, content.keys, content.encoding) == (
        b"\x00\xff",
        "t1",
        ("a", "b"),
        Encoding.GZIP,
    )
    assert (dict(content.properties), content.born_timestamp, content.born_host) == (
        {"x": "1"},
        1_000_000.0,
        "here:1",
    )


def test_a_real_server_splits_keys_drops_empty_values_and_leaks_the_group(make_apache: Any) -> None:
    """R4.2, R4.4, session §4.5."""
    desk = make_apache(type=TopicType.FIFO)
    desk.send(
        "m",
        keys=("k 1", "k2", ""),
        properties={"a": "", "": "x", " ": "y"},
        message_group="A",
        trace_context="tc",
        born_timestamp=None,
        encoding=Encoding.UNSPECIFIED,
        namespace="n",
    )
    content = desk.one().message.content
    assert content.keys == ("k", "1", "k2")
    assert content.properties == {" ": "y", "__SHARDINGKEY": "A", "TRACE_CONTEXT": "tc"}
    assert (content.born_timestamp, content.encoding, content.namespace) == (0.0, Encoding.IDENTITY, "")


def test_the_contract_keeps_keys_and_properties(make_documented: Any) -> None:
    desk = make_documented(type=TopicType.FIFO)
    desk.send("m", keys=("k 1", ""), properties={"a": ""}, message_group="A", born_timestamp=None)
    content = desk.one().message.content
    assert content.keys == ("k 1",)
    assert content.properties == {"a": ""}
    assert content.born_timestamp == desk.now


# Batches


def batch(desk: Any, *ids: str, **fields: Any) -> tuple[Any, ...]:
    broker: Broker = desk.broker
    return broker.send(tuple(desk.message(message_id, **fields) for message_id in ids), now=desk.now)


def test_a_batch_over_two_topics_is_refused_as_a_whole(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.broker.send((desk.message("a"), desk.message("b", topic="u")), now=desk.now)
    assert caught.value.code is Code.MESSAGE_CORRUPTED
    assert desk.broker.messages("t") == ()


def test_a_batch_over_two_namespaces_is_refused(desk: Any) -> None:
    with pytest.raises(Refusal) as caught:
        desk.broker.send((desk.message("a"), desk.message("b", namespace="n")), now=desk.now)
    assert caught.value.code is Code.MESSAGE_CORRUPTED


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"message_id": ""}, Code.ILLEGAL_MESSAGE_ID),
        ({"topic": "u"}, Code.MESSAGE_CORRUPTED),
        ({"namespace": "n"}, Code.MESSAGE_CORRUPTED),
        ({"body": b""}, Code.MESSAGE_BODY_EMPTY),
    ],
)
def test_one_bad_message_refuses_the_whole_batch(
    desk: Any, place: int, fields: dict[str, Any], code: Code
) -> None:
    messages = [desk.message(message_id) for message_id in "abc"]
    messages[place] = replace(messages[place], **fields)
    with pytest.raises(Refusal) as caught:
        desk.broker.send(tuple(messages), now=desk.now)
    assert caught.value.code is code
    assert desk.broker.messages("t") == ()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_contract_checks_the_type_of_every_message(documented: Any, place: int) -> None:
    messages = [documented.message(message_id) for message_id in "abc"]
    messages[place] = replace(messages[place], message_group="x")
    with pytest.raises(Refusal) as caught:
        documented.broker.send(tuple(messages), now=documented.now)
    assert caught.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


@pytest.mark.parametrize("place", [1, 2])
def test_a_real_server_refuses_a_delayed_message_anywhere_in_a_batch(apache: Any, place: int) -> None:
    messages = [apache.message(message_id) for message_id in "abc"]
    messages[place] = replace(messages[place], delivery_timestamp=apache.now + 2.0)
    with pytest.raises(Refusal) as caught:
        apache.broker.send(tuple(messages), now=apache.now)
    assert caught.value.code is Code.INTERNAL_SERVER_ERROR


@pytest.mark.parametrize(("surplus", "is_accepted"), [(-1, True), (0, True), (1, False)])
def test_the_bodies_of_a_real_servers_batch_fit_together(
    apache: Any, surplus: int, is_accepted: bool
) -> None:
    """Each message takes 100 bytes beside its body."""
    room = apache.profile.body_max - 300
    messages = [apache.message(f"m{size}", body=bytes(size)) for size in (1000, room - 1001 + surplus, 1)]
    with suppress(Refusal):
        apache.broker.send(tuple(messages), now=apache.now)
    assert len(apache.broker.messages("t")) == 3 * is_accepted


@pytest.mark.parametrize("seconds", [3599.0, 3600.0])
def test_a_recovery_duration_up_to_an_hour_is_accepted(make_desk: Any, seconds: float) -> None:
    desk = make_desk(type=TopicType.TRANSACTION)
    outcome = desk.send("m", message_type=MessageType.TRANSACTION, recovery_duration=seconds)
    assert outcome.code is Code.OK


def test_a_batch_is_stored_in_one_queue_in_order(make_desk: Any) -> None:
    desk = make_desk(queues=4)
    batch(desk, *(f"m{index}" for index in range(10)))
    stored = desk.broker.messages("t")
    assert [message.content.message_id for message in stored] == [f"m{index}" for index in range(10)]
    assert len({message.queue_id for message in stored}) == 1


def test_the_contract_answers_one_entry_per_message(documented: Any) -> None:
    assert [outcome.message_id for outcome in batch(documented, "a", "b")] == ["a", "b"]


def test_a_real_server_answers_one_entry_with_an_id_of_its_own(apache: Any) -> None:
    """R4.15, session §4.7."""
    (entry,) = batch(apache, "a", "b")
    assert entry.message_id.startswith("FD")
    assert len(entry.message_id) == 32
    assert (entry.transaction_id, entry.offset) == ("a", 0)


def test_a_cluster_answers_one_entry_with_all_ids(make_apache: Any) -> None:
    from aiorocketmq_fake.core.values.choices import BatchReceipt

    desk = make_apache(fields={"batch_receipt": BatchReceipt.SINGLE_JOINED_IDS})
    (entry,) = batch(desk, "a", "b")
    assert entry.message_id == "a,b"


def test_the_contract_sends_each_message_of_a_batch_to_the_queue_of_its_group(make_documented: Any) -> None:
    desk = make_documented(type=TopicType.FIFO, queues=4)
    messages = tuple(desk.message(group, message_group=group) for group in ("group-0", "order-1001", "A"))
    assert [outcome.queue_id for outcome in desk.broker.send(messages, now=desk.now)] == [1, 2, 0]


def test_a_real_server_ignores_message_groups_in_a_batch(
    make_apache: Any,
) -> None:
    desk = make_apache(type=TopicType.FIFO, queues=4)
    messages = tuple(desk.message(group, message_group=group) for group in ("group-0", "order-1001", "A"))
    desk.broker.send((desk.message("z", message_group="z", encoding=Encoding.GZIP), *messages), now=desk.now)
    stored = desk.broker.messages("t")
    assert len({message.queue_id for message in stored}) == 1
    assert {message.content.encoding for message in stored} == {Encoding.GZIP}


def test_only_the_contract_checks_the_type_of_every_message(documented: Any, apache: Any) -> None:
    """R4.6."""
    for desk, refused in ((documented, True), (apache, False)):
        messages = (desk.message("a"), desk.message("b", message_group="x"))
        if refused:
            with pytest.raises(Refusal):
                desk.broker.send(messages, now=desk.now)
        else:
            desk.broker.send(messages, now=desk.now)


@pytest.mark.parametrize(
    ("topic_type", "fields"),
    [
        (TopicType.NORMAL, {"body": bytes(2_200_000)}),
        (TopicType.DELAY, {"delivery_timestamp": 2.0}),
        (TopicType.TRANSACTION, {"message_type": MessageType.TRANSACTION}),
    ],
    ids=["too large together", "delayed", "transactional"],
)
def test_a_real_server_refuses_some_batches(
    make_apache: Any, topic_type: TopicType, fields: dict[str, Any]
) -> None:
    desk = make_apache(type=topic_type)
    with pytest.raises(Refusal) as caught:
        batch(desk, "a", "b", **fields)
    assert caught.value.code is Code.INTERNAL_SERVER_ERROR


def test_who_waits_gets_a_batch_at_once(desk: Any) -> None:
    poll_id = desk.park()
    batch(desk, "a", "b", "c")
    assert [delivery.message.content.message_id for delivery in desk.answers()[poll_id].deliveries] == [
        "a",
        "b",
        "c",
    ]


def test_real_servers_give_every_send_a_transaction_id(documented: Any, apache: Any) -> None:
    for desk, expected in ((documented, ""), (apache, "m")):
        assert desk.send("m").transaction_id == expected
