"""Chapters about receives: leases, order, renewals and attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.values.codes import (
    ClientType,
    FilterType,
    Permission,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ChangeRequest,
    ClientSettings,
    FilterExpression,
    ForwardRequest,
    GroupConfig,
    RetryPolicy,
    Subscription,
    TopicConfig,
)

from fake_broker.tests.chapters.told import Told
from fake_broker.tests.story import shown


def receives(told: Told) -> None:
    desk = told.desk
    told("create_topic", TopicConfig("unread", TopicType.NORMAL, 0, 1))
    told("create_topic", TopicConfig("mute", TopicType.NORMAL, 1, 1, Permission.WRITE))
    told("create_group", GroupConfig("off", consume_enabled=False))
    told("settings", "off", ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription("off")))
    shortest, longest = desk.profile.invisible_min, desk.profile.invisible_max
    fields: list[dict[str, Any]] = [
        {"client": "nobody"},
        {"topic": ""},
        {"topic": "none"},
        {"topic": "unread"},
        {"topic": "mute"},
        {"group": ""},
        {"group": "unknown"},
        {"group": "off", "client": "off"},
        {"batch_size": -1},
        {"batch_size": 0},
        {"invisible": None},
        {"invisible": shortest},
        {"invisible": shortest - 0.001},
        {"invisible": longest},
        {"invisible": longest + 0.001},
        {"polling": None},
        {"polling": None, "remaining_deadline": None},
        {"polling": 0.0},
        {"polling": 1.0},
        {"polling": 1000.0},
        {"polling": 1000.0, "remaining_deadline": 1000.0},
        {"polling": 20.0, "remaining_deadline": 4.999},
        {"polling": 20.0, "remaining_deadline": 5.0},
        {"polling": 20.0, "remaining_deadline": 4.0, "client_version": "4.0.0"},
        {"polling": 20.0, "remaining_deadline": 4.0, "client_version": "9.0.0"},
        {"tag": "a || b"},
        {"tag": ""},
    ]
    for one in fields:
        answer = told("receive", desk.request(**{"batch_size": 32, **one}))
        if hasattr(answer, "poll_id"):
            told("cancel_poll", answer.poll_id)
            told("cancel_poll", answer.poll_id)
    for text in ("", "a = 1", "a = ", "(" * 200):
        request = replace(desk.request(polling=0.0), filter=FilterExpression(text, FilterType.SQL))
        told("receive", request)
    told.one("m1", tag="a", properties={"a": "1"})
    told.receive(polling=0.0, tag="b")
    told.receive(polling=0.0, tag="a")


def settling(told: Told) -> None:
    desk = told.desk
    desk.add_group("other")
    desk.join("c2", "other")
    for number in range(6):
        told.one(f"m{number}")
    answer = told.receive(6)
    handles = [delivery.receipt_handle for delivery in answer.deliveries]

    def ack(*entries: str, **fields: Any) -> None:
        fields = {"client_id": "c", "group": "g", "topic": "t", **fields}
        told("ack", AckRequest(entries=tuple(AckEntry("m", handle) for handle in entries), **fields))

    def change(handle: str, seconds: float | None, **fields: Any) -> str:
        fields = {"client_id": "c", "group": "g", "topic": "t", **fields}
        changed: str = told(
            "change_invisible", ChangeRequest(receipt_handle=handle, invisible=seconds, **fields)
        )
        return changed

    def forward(handle: str, **fields: Any) -> None:
        fields = {"client_id": "c", "group": "g", "topic": "t", **fields}
        told("forward_to_dead_letter_queue", ForwardRequest(receipt_handle=handle, **fields))

    ack()
    for wrong in (
        {"topic": ""},
        {"topic": "none"},
        {"group": ""},
        {"group": "other"},
        {"client_id": "nobody"},
    ):
        ack(handles[0], **wrong)
        change(handles[0], 5.0, **wrong)
        forward(handles[0], **wrong)
    ack(handles[0], handles[1], "no handle", handles[0])
    pieces = handles[2].split(" ")
    for place, value in ((0, "5"), (1, "999999"), (5, "broker-b"), (6, "9"), (7, "77"), (7, "-1")):
        strange = " ".join([*pieces[:place], value, *pieces[place + 1 :]])
        ack(strange)
        change(strange, 5.0)
        forward(strange)
    ack(" ".join(pieces[:7]))
    for seconds in (None, -1.0, 0.5, desk.profile.invisible_max, desk.profile.invisible_max + 1.0):
        change(handles[3], seconds)
    changed = change(handles[4], 5.0)
    change(handles[4], 6.0)
    ack(handles[4])
    forward(changed)
    change(handles[0], 5.0)
    change(handles[5], 3.0, suspend=True)
    told("release_deliveries", (handles[2], "none"))
    told.wait(20.0)
    retried = [delivery.receipt_handle for delivery in told.receive().deliveries]
    told.wait(100.0)
    told.receive()
    for handle in retried:
        ack(handle)
        change(handle, 5.0)
        forward(handle)
    told.lines += map(shown, desk.broker.dead_letters("g"))
    told.lines += map(shown, desk.broker.leases())
    told.lines += map(shown, desk.broker.deliveries("t", "g"))
    told("terminate", "c2", "wrong name!")
    told("terminate", "c2", "other")


def order(told: Told) -> None:
    """An ordered group: repeated attempts, settled ones in the middle, ends of leases, changes to a normal one."""
    desk = told.desk
    for number in range(7):
        told.one(f"f{number}", message_group=f"g{number % 2}")
    answer = told.receive(4, attempt_id="one")
    again = told.receive(4, attempt_id="one", polling=0.0)
    told.receive(4, attempt_id="two", polling=0.0)
    told.lines += map(shown, desk.broker.order_records())
    held = [delivery.receipt_handle for delivery in (again or answer).deliveries] or [
        delivery.receipt_handle for delivery in answer.deliveries
    ]
    for handle in held[1:3]:
        told("ack", AckRequest("c", "g", "t", (AckEntry("m", handle),)))
    told(
        "ack",
        AckRequest("c", "g", "t", tuple(AckEntry("m", one.receipt_handle) for one in answer.deliveries)),
    )
    told.receive(4, polling=0.0)
    told.lines += map(shown, desk.broker.order_records())
    pieces = held[0].split(" ")
    for offset in range(7):
        other = " ".join([str(offset), *pieces[1:7], str(offset), *pieces[8:]])
        told("ack", AckRequest("c", "g", "t", (AckEntry("m", other),)))
    told.wait(10.0)
    told.receive(4, attempt_id="three", polling=0.0)
    told.wait(300.0)
    told.receive(4, attempt_id="four", polling=0.0)
    told.lines += map(shown, desk.broker.order_records("g"))
    told("update_offset", "g", "t", 0, 2)
    told.receive(2, polling=0.0)
    told("update_group", GroupConfig("g", ordered=False))
    told.receive(4, polling=0.0)
    told.wait(100.0)
    told("delete_group", "g")


def renewals(told: Told) -> None:
    """Leases that the server renews: their lengths, their end, and what ends them before it."""
    desk = told.desk
    desk.join("c2")
    for number in range(6):
        told.one(f"m{number}")
    for client, count in (("c", 2), ("c2", 2)):
        told.receive(count, client=client, auto_renew=True, polling=0.0)
    told.wait(51.0)
    first, second = (lease.receipt_handle for lease in desk.broker.leases()[:2])
    told("ack", AckRequest("c", "g", "t", (AckEntry("m", first), AckEntry("m", second))))
    told.wait(700.0)
    told.lines += map(shown, desk.broker.leases())
    told("terminate", "c2", "g")
    told.wait(100.0)
    told.receive(1, auto_renew=True, polling=0.0)
    told.receive(1, auto_renew=True, polling=0.0)
    held = [lease.receipt_handle for lease in desk.broker.leases()]
    for handle in held[:1]:
        told("change_invisible", ChangeRequest("c", "g", "t", handle, 30.0))
    told.wait(11_000.0)
    told.lines += map(shown, desk.broker.leases())
    told("restart")
    told.wait(4_000.0)
    told.lines += map(shown, desk.broker.leases())
    told.lines += map(shown, desk.broker.offsets())


def tries(told: Told) -> None:
    """Messages that fail until they are dead letters, and the settings that decide when."""
    desk = told.desk
    told("create_group", GroupConfig("twice", max_attempts=2, retry_policy=RetryPolicy((3.0, 7.0))))
    told("settings", "two", ClientSettings(ClientType.PUSH_CONSUMER, subscription=Subscription("twice")))
    told("create_topic", TopicConfig("f", TopicType.FIFO, 1, 1))
    told("create_group", GroupConfig("row", ordered=True, max_attempts=2))
    told(
        "settings",
        "row",
        ClientSettings(ClientType.PUSH_CONSUMER, subscription=Subscription("row"), fifo=True),
    )
    for number in range(3):
        told.one(f"m{number}", tag="a")
        told.one(f"f{number}", topic="f", message_group="one")
    for client, group, topic in (
        ("two", "twice", "t"),
        ("row", "row", "f"),
        ("row", "twice", "t"),
        ("p", "twice", "t"),
    ):
        for _ in range(4):
            answer = told.receive(2, client=client, group=group, topic=topic, polling=0.0)
            for delivery in getattr(answer, "deliveries", ())[1:]:
                request = ChangeRequest(client, group, topic, delivery.receipt_handle, 1.0, suspend=True)
                told("change_invisible", request)
            told.wait(20.0)
        told.lines += map(shown, desk.broker.dead_letters(group))
        told.lines += map(shown, desk.broker.order_records(group))
    told.one("AaAa", tag="AaAa")
    told.one("BBBB", tag="BBBB")
    told.receive(8, client="two", group="twice", polling=0.0, tag="BBBB")
    told.receive(8, client="two", group="twice", polling=0.0, tag="BBBB")
