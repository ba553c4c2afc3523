"""Chapters about sends: messages of each kind, batches, delays and transactions."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Encoding,
    MessageType,
    Permission,
    Refusal,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    EndTransactionRequest,
    TopicConfig,
)

from fake_broker.tests.chapters.told import Told
from fake_broker.tests.story import shown


def messages(told: Told) -> None:
    profile = told.desk.profile
    for kind in TopicType:
        told("create_topic", TopicConfig(kind.value.lower(), kind, 1, 1))
    told("create_topic", TopicConfig("closed", TopicType.NORMAL, 1, 1, Permission.READ))
    told("create_topic", TopicConfig("queueless", TopicType.NORMAL, 1, 0))
    longest, group = profile.property_bytes_max, "g" * (profile.message_group_limit - 1)
    many = {f"k{number}": "v" for number in range(profile.property_count_max)}
    later, longest_delay = told.desk.now + 60.0, told.desk.now + profile.max_delay
    texts = ("a", "a b", " ", "a|b", "a\nb", "é" * 20)
    kinds: list[dict[str, Any]] = [
        {},
        {"message_type": MessageType.TRANSACTION},
        {"message_type": MessageType.TRANSACTION, "delivery_timestamp": later},
        {"message_type": MessageType.TRANSACTION, "recovery_duration": profile.recovery_duration_max},
        {"message_type": MessageType.TRANSACTION, "recovery_duration": profile.recovery_duration_max + 1},
        {"delivery_timestamp": later},
        {"delivery_timestamp": later, "message_group": "g"},
        {"delivery_timestamp": told.desk.now},
        {"delivery_timestamp": longest_delay},
        {"delivery_timestamp": longest_delay + 1.0},
        {"message_group": "g"},
        {"message_group": group},
        {"message_group": group + "g"},
        {"message_group": "é" * 32},
        {"message_group": " "},
        {"priority": 0},
        {"priority": -1},
        {"priority": 100},
        {"lite_topic": "ann"},
        {"lite_topic": "a" * 64},
        {"lite_topic": "a" * 65},
    ]
    for kind in TopicType:
        for fields in kinds:
            told.one(topic=kind.value.lower(), **fields)
    values: list[dict[str, Any]] = [
        {"body": b""},
        {"topic": ""},
        {"topic": "TBW102"},
        {"topic": "a" * 128},
        {"topic": "none"},
        {"topic": "closed"},
        {"topic": "queueless"},
        {"topic": "%RETRY%g"},
        {"topic": "%DLQ%g"},
        {"message_id": " "},
        {"properties": many},
        {"properties": {**many, "more": "v"}},
        {"properties": {"": "empty", "kept": "", "full": "v"}},
        {"properties": {"k": "v" * (longest - 1)}},
        {"properties": {"k": "v" * longest}},
        {"properties": {"k": "v" * (longest - 2)}, "tag": "é"},
        {"keys": ("k" * (longest - 1), "k", "k")},
        *({"properties": {"k": text}} for text in texts),
        *({"properties": {text: "v"}} for text in ("a\x7f", "KEYS")),
        *({"tag": text} for text in texts),
        *({"keys": (text, "", "second")} for text in texts),
        {"trace_context": "trace"},
        {"trace_context": "t" * limits.ENCODED_PROPERTY_BYTES_MAX},
        {"born_timestamp": None},
        {"encoding": Encoding.GZIP},
        {"namespace": "elsewhere"},
    ]
    for fields in values:
        told.one(**{"message_id": "m", **fields})
    room = limits.ENCODED_PROPERTY_BYTES_MAX - 160 - 1
    for size in (room, room + 1):
        told.one(trace_context="t" * size)


def batches(told: Told) -> None:
    desk = told.desk
    told("create_topic", TopicConfig("f", TopicType.FIFO, 3, 3))
    told("create_topic", TopicConfig("d", TopicType.DELAY, 3, 3))
    told("create_topic", TopicConfig("x", TopicType.TRANSACTION, 3, 3))
    told("create_topic", TopicConfig("l", TopicType.LITE, 1, 1, lite_limit=2))
    groups = [desk.message(f"f{number}", topic="f", message_group=f"g{number % 2}") for number in range(5)]
    later = [
        desk.message(f"d{number}", topic="d", delivery_timestamp=desk.now + number) for number in range(3)
    ]
    halves = [
        desk.message(f"x{number}", topic="x", message_type=MessageType.TRANSACTION) for number in range(2)
    ]
    lite = [desk.message(f"l{number}", topic="l", lite_topic=f"n{number}") for number in range(3)]
    half = desk.profile.body_max // 2
    for batch in (
        [desk.message("a"), desk.message("b", encoding=Encoding.GZIP), desk.message("c")],
        groups,
        later,
        halves,
        lite,
        lite[:2],
        lite[2:],
        [desk.message("a"), replace(desk.message("b"), topic="f")],
        [desk.message("a"), replace(desk.message("b"), namespace="other")],
        [desk.message("a"), replace(desk.message("b"), body=b"")],
        [
            replace(desk.message("a"), body=bytes(half - 100)),
            replace(desk.message("b"), body=bytes(half - 100)),
        ],
        [
            replace(desk.message("a"), body=bytes(half - 100)),
            replace(desk.message("b"), body=bytes(half - 99)),
        ],
        [],
    ):
        told.lines.append(f"{len(batch)} messages")
        try:
            outcomes = desk.broker.send(tuple(batch), now=desk.now, client_id="p")
        except Refusal as refusal:
            told.tell(f"refused, {refusal}")
        else:
            events = list(desk.broker.take_events())
            told.lines.append(shown(outcomes))
            told.lines += [shown(event)[:300] for event in events]
    told.lines.append(shown(desk.broker.lite_topics("l")))


def delays(told: Told) -> None:
    desk = told.desk
    told("create_topic", TopicConfig("d", TopicType.DELAY, 2, 2))
    handles = []
    for seconds in (-5.0, 0.0, 0.001, 0.4, 1.0, 60.0, 60.0):
        (sent,) = told.one(f"d{seconds}", topic="d", delivery_timestamp=desk.now + seconds)
        handles.append(sent.recall_handle)
    for topic in ("", "none", "t", "d"):
        for handle in ("", "no handle", handles[-1]):
            told("recall", topic, handle, client_id="p")
    told("recall", "d", handles[-1], client_id="p")
    pieces = (
        urlsafe_b64decode(handles[-2]).decode().split(" ", 4) if handles[-2] else ["v1", "d", "b", "1", "m"]
    )
    for place, value in (
        (0, "v2"),
        (1, "other"),
        (2, "broker-b"),
        (3, "x"),
        (3, "1000099999"),
        (4, "strange"),
    ):
        strange = " ".join([*pieces[:place], value, *pieces[place + 1 :]])
        told("recall", "d", urlsafe_b64encode(strange.encode()).decode(), client_id="p")
    told.wait(2.5)
    told("recall", "d", handles[4], client_id="p")
    told.wait(60.0)
    told.lines += map(shown, desk.broker.messages("d"))


def transactions(told: Told) -> None:
    desk = told.desk
    told("create_topic", TopicConfig("x", TopicType.TRANSACTION, 2, 2))
    told("create_topic", TopicConfig("z", TopicType.TRANSACTION, 2, 2))
    for client in ("p1", "p2", "p3"):
        told("settings", client, ClientSettings(ClientType.PRODUCER, topics=("x",)))
    told("lose_stream", "p2")
    ids = []
    for number, recovery in enumerate((None, 1.5, 30.0, None, None)):
        fields = {"topic": "x", "message_type": MessageType.TRANSACTION, "recovery_duration": recovery}
        if number == 4:
            fields["born_timestamp"] = None
        (sent,) = told.one(f"x{number}", **fields)
        ids.append(sent.transaction_id)
    told.one("z", topic="z", message_type=MessageType.TRANSACTION)
    for topic, transaction, resolution in (
        ("", ids[0], Resolution.COMMIT),
        ("z", ids[0], Resolution.COMMIT),
        ("x", "", Resolution.COMMIT),
        ("x", "none", Resolution.COMMIT),
        ("x", ids[0], Resolution.UNSPECIFIED),
        ("x", ids[0], Resolution.COMMIT),
        ("x", ids[0], Resolution.COMMIT),
        ("x", ids[1], Resolution.ROLLBACK),
        ("x", ids[1], Resolution.COMMIT),
    ):
        told("end_transaction", EndTransactionRequest("p1", topic, transaction, resolution, "m", False))
    for seconds in (5.9, 0.2, 29.0, 60.0, 60.0):
        told.wait(seconds)
        told.lines += map(shown, desk.broker.half_messages())
    told("end_transaction", EndTransactionRequest("p3", "x", ids[3], Resolution.COMMIT, "m", True))
    told("delete_topic", "z")
    told.wait(200.0)
    told.lines += map(shown, desk.broker.half_messages())
    told.lines += map(shown, desk.broker.messages("x"))
