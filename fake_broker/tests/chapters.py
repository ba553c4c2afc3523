"""Chapters of a broker's life, told call by call with answers, events and what is sent to others."""

from __future__ import annotations

import dataclasses
import hmac
import inspect
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.commands.access import FrameSignature, Need, Right, Signature, User
from aiorocketmq_fake.core.commands.salvage import Salvaged
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import Classic, Heartbeat, Membership, SendBack, Subscribed
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Encoding,
    FilterType,
    LiteAction,
    MessageType,
    OffsetPolicy,
    Permission,
    Refusal,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.events import Event
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ChangeRequest,
    ClientSettings,
    EndTransactionRequest,
    FilterExpression,
    ForwardRequest,
    GroupConfig,
    LiteStart,
    LiteSyncRequest,
    OffsetQuery,
    OutgoingMessage,
    Parked,
    Pulled,
    PullRequest,
    RetryPolicy,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

from fake_broker.tests.core.conftest import START, Desk
from fake_broker.tests.story import shown


class Told:
    """A desk whose commands are written down with their answers, the events they caused and what was sent."""

    def __init__(self, profile: Profile, **options: Any) -> None:
        self.desk = Desk(profile, **options)
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.desk.broker.take_events()

    def __call__(self, command: str, *arguments: Any, **fields: Any) -> Any:
        """Run a command at the time of the desk; return its answer, None if it was refused."""
        call = getattr(self.desk.broker, command)
        if "now" in inspect.signature(call).parameters:
            fields["now"] = self.desk.now
        answer = None
        try:
            answer = call(*arguments, **fields)
        except (Refusal, ValueError) as error:
            said = f"refused, {error}"
            if isinstance(error, Refusal):
                said += f" [{error.surface.name}]"
        else:
            said = shown(answer)
        self.tell(f"{command}: {said}")
        return answer

    def tell(self, line: str) -> None:
        self.lines.append(line)
        events = self.desk.broker.take_events()
        self.events += events
        self.lines += [f"  event {shown(event)}" for event in events]
        self.lines += [f"  output {shown(output)}" for output in self.desk.broker.take_outputs()]

    def wait(self, seconds: float, *, heartbeats: bool = True) -> None:
        self.desk.wait(seconds, heartbeats=heartbeats)
        self.tell(f"after {seconds:g} s")

    def send(self, *messages: OutgoingMessage, client_id: str = "p") -> Any:
        return self("send", messages, client_id=client_id)

    def one(self, message_id: str = "m", **fields: Any) -> Any:
        return self.send(self.desk.message(message_id, **fields))

    def receive(self, batch_size: int = 32, **fields: Any) -> Any:
        return self("receive", self.desk.request(batch_size, **fields))


def routes(told: Told) -> None:
    for number, permission in enumerate(Permission):
        for read, write in ((0, 0), (3, 1), (1, 3), (2, 2)):
            name = f"r{number}{read}{write}"
            told("create_topic", TopicConfig(name, TopicType.FIFO, read, write, permission))
            told("query_route", name, client_id="c")
            told("query_assignment", "c", name, "g")
    told.desk.add_group("ordered", ordered=True)
    told("query_assignment", "c", "r421", "ordered")
    told("query_assignment", "c", "r431", "ordered")
    for client in ("x", "a", "m"):
        settings = ClientSettings(ClientType.PULL_CONSUMER, subscription=Subscription("g"))
        told("settings", client, settings)
        for puller in ("a", "m", "x", "c"):
            told("query_assignment", puller, "r431", "g")
    for topic, group in (("", "g"), ("none", "g"), ("t", ""), ("t", "unknown")):
        told("query_route", topic)
        told("query_assignment", "c", topic, group)


def pulls(told: Told) -> None:
    told("create_topic", TopicConfig("two", TopicType.NORMAL, 2, 2))
    told("create_topic", TopicConfig("mute", TopicType.NORMAL, 1, 1, Permission.WRITE))
    for number in range(5):
        told.one(f"m{number}", tag="ab"[number % 2])

    def pull(offset: int, topic: str = "t", group: str = "g", queue_id: int = 0, **fields: Any) -> Any:
        return told("pull", PullRequest("c", group, topic, queue_id, offset, **fields))

    for offset in (-1, 0, 4, 5, 6):
        pull(offset)
        pull(offset, polling=7.0)
    pull(0, batch_size=2, filter=FilterExpression("b"))
    pull(0, filter=FilterExpression("none"))
    pull(4, filter=FilterExpression("b"), polling=7.0)
    pull(0, filter=FilterExpression("a = 1", FilterType.SQL))
    pull(0, batch_size=0)
    pull(0, batch_size=-1)
    pull(0, batch_size=1000)
    for queue_id in (-1, 1, 2):
        pull(0, "two", queue_id=queue_id)
    pull(0, "none")
    pull(0, "mute")
    pull(0, group="")
    pull(0, group="unknown")
    pull(5, polling=7.0, remaining_deadline=3.0)
    told.wait(3.0)
    pull(5, polling=100.0)
    waiting = pull(5, polling=100.0)
    if waiting is not None and hasattr(waiting, "poll_id"):
        told("cancel_poll", waiting.poll_id)
        told("cancel_poll", waiting.poll_id)
    waiting = pull(5, polling=100.0)
    if waiting is not None and hasattr(waiting, "poll_id"):
        told("end_poll", waiting.poll_id)
        told("end_poll", waiting.poll_id)
    pull(5, polling=100.0, filter=FilterExpression("b"))
    told.one("late", tag="a")
    told.one("later", tag="b")
    pull(7, polling=100.0)
    told("terminate", "c", "g")
    pull(7, polling=100.0)
    told("delete_topic", "t")
    big = replace(told.desk.message("big", topic="two"), body=bytes(limits.CLASSIC_ANSWER_MAX))
    queues = [0] * 3
    for number in range(3):
        (sent,) = told.desk.broker.send((replace(big, message_id=f"big{number}"),), now=told.desk.now)
        queues[number] = sent.queue_id
    told.desk.broker.take_events()
    for classic in (False, True):
        request = PullRequest("c", "g", "two", queues[0], 0, classic=classic)
        answer = told.desk.broker.pull(request, now=told.desk.now)
        assert isinstance(answer, Pulled)
        told.tell(f"of big messages: {len(answer.messages)}")


def offsets(told: Told) -> None:
    told("create_topic", TopicConfig("two", TopicType.NORMAL, 2, 2))
    for number in range(3):
        told.one(f"m{number}")
        told.wait(10.0)
    for policy in OffsetPolicy:
        told("query_offset", OffsetQuery("t", 0, policy))
        for after in (-1.0, 0.0, 10.0, 15.0, 1000.0):
            told("query_offset", OffsetQuery("t", 0, policy, START + after))
    for topic, queue_id in (("none", 0), ("t", 1), ("t", -1), ("two", 1)):
        told("query_offset", OffsetQuery(topic, queue_id, OffsetPolicy.END))
        told("get_offset", "g", topic, queue_id)
        told("update_offset", "g", topic, queue_id, 2)
        told("get_offset", "g", topic, queue_id)
    for offset in (-1, 0, 3, 99):
        told("update_offset", "g", "t", 0, offset)
        told("get_offset", "g", "t", 0)
        told.lines += map(shown, told.desk.broker.offsets("g"))
    for group in ("", "unknown", "g"):
        told("get_offset", group, "t", 0)
        told("update_offset", group, "t", 0, 1)
        told("reset_offset", group, "t", OffsetPolicy.TIMESTAMP)
    told("reset_offset", "g", "none", OffsetPolicy.END)
    told.receive(2)
    told("reset_offset", "g", "two", OffsetPolicy.END)
    told("reset_offset", "g", "t", OffsetPolicy.TIMESTAMP, timestamp=START + 10.0)
    told.receive()
    told("receive", told.desk.request())
    told("reset_offset", "g", "t", OffsetPolicy.BEGINNING)
    told.lines += map(shown, told.desk.broker.group_positions())
    for name in ("t", "two", "none"):
        told.lines.append(shown([len(entries) for entries in told.desk.broker.entries(name)]))
        told.lines += [shown(told.desk.broker.queue(name, queue_id)) for queue_id in (-1, 0, 1, 2)]
    told.lines += [
        shown(told.desk.broker.message("t", *place)) for place in ((0, 1), (0, 3), (1, 0), (-1, 0))
    ]
    told.lines += [shown(told.desk.broker.message("none", 0, 0)), shown(told.desk.broker.topic("none"))]
    told.lines += [shown(told.desk.broker.message_at(position)) for position in range(6)]


def rates(told: Told) -> None:
    for rate in (0.0, 0.5, 1.0, 3.0, 2.5, None, -1.0, 1e9):
        told("limit_rate", "QueryRoute", rate)
        told.lines.append(shown(dict(told.desk.broker.throttle.rates)))
        for seconds in (0.0, 0.4, 0.6, 1.0):
            told.wait(seconds)
            for _ in range(4):
                told("query_route", "t")
    told("limit_rate", "Unknown", 1.0)
    told("limit_rate", "SendMessage", 0.0)
    told.one()


def rights(told: Told) -> None:
    def call(user: str, secret: str, date: str = "19700112T134640Z", needs: Any = (), **fields: Any) -> None:
        proof = hmac.digest(secret.encode(), date.encode(), "sha1").hex()
        text = f"MQv2-HMAC-SHA1 Credential={user}/region/service, SignedHeaders=x-mq-date-time, Signature={proof}"
        signature = Signature(fields.pop("authorization", text), date, fields.pop("token", ""), "10.0.0.1")
        told("check_access", "Call", "c", signature, needs)
        content = b"all fields"
        sign = b64encode(hmac.digest(secret.encode(), content, "sha1")).decode()
        told("check_access", "Call", "c", FrameSignature(user, sign, content, "", "10.0.0.1"), needs)

    told("put_user", User("root", "secret"))
    told("put_user", User("some", "secret", ("a*", "b"), ("c",), ("g*",), session_token="token"))
    told("put_user", User("off", "secret", enabled=False))
    told.lines += [shown(user.without_secrets()) for user in told.desk.broker.access.users()]
    for user in ("root", "some", "off", "none", ""):
        for secret in ("secret", "wrong"):
            call(user, secret)
    for right in Right:
        for name in ("a", "ab", "b", "bb", "c", "g", "group", "", " ", "z"):
            call("some", "secret", needs=[Need(right, name)], token="token")
    call("some", "secret", needs=[Need(Right.PUBLISH, "a"), Need(Right.PUBLISH, "z")], token="token")
    for text in (
        "",
        " ",
        "MQv2-HMAC-SHA1",
        "x Credential=root/a, Signature=zz",
        "x Credential=root, Signature=00",
    ):
        call("root", "secret", authorization=text)
    for date in ("", "19700112T134640", "19701312T134640Z", "19700112T135140Z", "19700112T135141Z"):
        call("root", "secret", date)
    told("remove_user", "root")
    told("remove_user", "root")
    call("root", "secret")


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


def classic(told: Told) -> None:
    desk = told.desk
    for channel in (1, 2):
        subscribed = (Subscribed("t", "a", version=channel), Subscribed("u"))
        member = Membership(
            "cg", subscribed, "CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET"
        )
        beat = Heartbeat(f"c{channel}", (member,), ("pg",), "JAVA", 400 + channel, f"10.0.0.{channel}:5")
        told("beat", channel, beat)
        told("beat", channel, beat)
    told.lines.append(shown(desk.broker.members("cg")))
    told.lines.append(shown(desk.broker.subscription("cg", "t")))
    told.lines.append(shown(desk.broker.producers("pg")))
    told("beat", 3, Heartbeat("bad", (Membership(""),)))
    told("beat", 3, Heartbeat("late", (), ("pg", "pg2"), "PYTHON", 9, "10.0.0.3:5"))

    def message(message_id: str, **fields: Any) -> OutgoingMessage:
        own = {name: fields.pop(name) for name in tuple(fields) if name in Classic.__dataclass_fields__}
        return desk.message(message_id, classic=Classic(**own), **fields)

    def send(*messages: OutgoingMessage, new_queues: int = 0) -> Any:
        return told("send_classic", messages, client_id="c1", new_queues=new_queues)

    send()
    send(message("q0", queue_id=0, flag=7, sys_flag=1), message("q1", queue_id=0))
    send(message("q9", queue_id=9))
    send(message("new", topic="made"))
    for queues in (0, 1, 3, 20):
        send(message("new", topic=f"made{queues}"), new_queues=queues)
    send(message("new", topic="bad name"), new_queues=2)
    send(replace(message("big", topic="never"), body=bytes(desk.profile.body_max + 1)), new_queues=2)
    send(message("late", delay=5.0))
    send(message("retried", topic="%RETRY%cg", reconsume_times=3, max_reconsume_times=5))
    send(message("given up", topic="%RETRY%cg", reconsume_times=5, max_reconsume_times=5))
    send(message("internal", topic="%RETRY%none"), new_queues=4)
    told.wait(6.0)
    position = desk.broker.messages("t")[0].position
    for level in (-1, 0, 1, 3, 18, 19, 99):
        told("send_back", SendBack("cg", position, delay_level=level), client_id="c1")
    told("send_back", SendBack("cg", position, max_reconsume_times=0, origin_id="origin"), client_id="c1")
    told("send_back", SendBack("unknown", position), client_id="c1")
    told("send_back", SendBack("cg", 12_345), client_id="c1")
    told("lock_queues", "cg", "c1", (("t", 0), ("u", 1)))
    told("lock_queues", "cg", "c2", (("t", 0), ("u", 2)))
    told("lock_queues", "", "c2", (("t", 0),))
    told("unlock_queues", "cg", "c2", (("t", 0),))
    told("lock_queues", "cg", "c2", (("t", 0),))
    told.wait(60.0)
    told("lock_queues", "cg", "c2", (("t", 0),))
    told("unlock_queues", "", "c2", (("t", 0),))
    for group in ("cg", "newly", ""):
        told("pull_classic", PullRequest("c1", group, "t", 0, 0, classic=True), commit=1)
        told("commit_classic", group, "t", 0, 2)
    told("commit_classic", "cg", "t", 0, -1)
    told("reset_queue", "cg", "t", 0, 0)
    told("commit_classic", "cg", "t", 0, 2)
    told("pull_classic", PullRequest("c1", "cg", "t", 0, 2, classic=True), commit=2)
    told("pull_classic", PullRequest("c1", "cg", "t", 0, 2, classic=True))
    told("commit_classic", "cg", "t", 0, 2)
    told("reset_queue", "cg", "t", 7, 0)
    told("create_group", GroupConfig("off", consume_enabled=False))
    told("pull_classic", PullRequest("c1", "off", "t", 0, 2, classic=True))
    told("create_topic", TopicConfig("x", TopicType.TRANSACTION, 2, 2))
    told("create_topic", TopicConfig("y", TopicType.TRANSACTION, 1, 1))
    for group in ("pg", "nobody", "pg"):
        half = message(f"half-{group}", topic="x", properties={"PGROUP": group}, queue_id=1)
        send(replace(half, message_type=MessageType.TRANSACTION))
    told(
        "send", (desk.message("over grpc", topic="y", message_type=MessageType.TRANSACTION),), client_id="gp"
    )
    told.lines += map(shown, desk.broker.half_messages())
    told("end_half", 1, Resolution.UNSPECIFIED, client_id="c1")
    told("end_half", 1, Resolution.COMMIT, client_id="c1")
    told("end_half", 1, Resolution.COMMIT, client_id="c1", from_check=True)
    told.wait(40.0)
    told("end_half", 0, Resolution.ROLLBACK, client_id="c1", from_check=True)
    told.wait(90.0)
    told.lines += map(shown, desk.broker.half_messages("x"))
    told("unregister", 2, "c2", "cg", "pg")
    told("unregister", 2, "c2", "", "")
    told("close_channel", 1)
    told("close_channel", 99)
    told.lines.append(shown(desk.broker.members("cg")))
    told.wait(200.0, heartbeats=False)
    told("restart")


def sessions(told: Told) -> None:
    desk = told.desk
    long = {"k": "v" * limits.CLIENT_PROPERTY_VALUE_MAX}
    full = {f"k{number:02}": "v" * 253 for number in range(16)}
    properties: list[dict[str, str]] = [
        {"k": "v"},
        long,
        {"k": long["k"] + "v"},
        {f"k{number}": "v" for number in range(limits.CLIENT_PROPERTIES_MAX)},
        {f"k{number}": "v" for number in range(limits.CLIENT_PROPERTIES_MAX + 1)},
        full,
        {**full, "k00": "v" * 254},
        {"a" * 64: "v"},
        {"a" * 65: "v"},
        {"1": "v"},
        {"": "v"},
    ]
    for number, each in enumerate(properties):
        told("settings", f"p{number}", ClientSettings(ClientType.PRODUCER, topics=("t",), properties=each))
    policy = RetryPolicy((1.0, 7.0))
    told("create_group", GroupConfig("own", True, 5, policy))
    told("create_group", GroupConfig("grows", retry_policy=RetryPolicy((), 1.0, 9.0, 3.0)))
    for group in ("g", "own", "grows", "unknown", "", "CID_RMQ_SYS_x"):
        for kind in ClientType:
            subscription = Subscription(group, (("t", FilterExpression("a")),))
            settings = ClientSettings(
                kind, None, subscription, 4.0, True, 9, 11.0, policy, 3, {}, "PYTHON", "10.0.0.1:1"
            )
            told("settings", f"c-{group}-{kind.name}", settings)
    for text in ("", "a = ", "a = 1"):
        subscription = Subscription("g", (("t", FilterExpression(text, FilterType.SQL)),))
        told("settings", "sql", ClientSettings(ClientType.PUSH_CONSUMER, subscription=subscription))
    told("settings", "none", ClientSettings(ClientType.PRODUCER))
    told("settings", "bad", ClientSettings(ClientType.PRODUCER, topics=("t", "bad name")))
    for client, group in (("c", "g"), ("c", ""), ("c", "unknown"), ("c", "own"), ("nobody", "g"), ("p0", "")):
        told("heartbeat", client, group)
    told.lines += [shown(each) for each in desk.broker.groups()]
    for client in ("c", "nobody"):
        told("keep_alive", client)
        told("lose_stream", client)
        told("print_stack_trace", client)
        told("reconnect_endpoints", client)
    told.one()
    told("verify_message", "c", desk.broker.messages("t")[0])
    told("terminate", "p0", "")
    told.wait(500.0, heartbeats=False)
    told.lines += [shown(each) for each in desk.broker.clients()]


def catalogue(told: Told) -> None:
    most, span = limits.QUEUES_MAX, limits.SPAN_MAX
    for config in (
        TopicConfig("t"),
        TopicConfig("a" * limits.TOPIC_NAME_MAX),
        TopicConfig("a" * (limits.TOPIC_NAME_MAX + 1)),
        TopicConfig("bad name"),
        TopicConfig("rmq_sys_x"),
        TopicConfig("broker-a"),
        TopicConfig("many", read_queues=most, write_queues=0),
        TopicConfig("more", read_queues=most + 1),
        TopicConfig("less", write_queues=-1),
        TopicConfig("lite", TopicType.LITE, lite_expiration=span),
        TopicConfig("lite2", TopicType.LITE, lite_expiration=span + 1.0),
        TopicConfig("lite3", TopicType.LITE, lite_expiration=-0.1),
        TopicConfig("lite4", TopicType.LITE, lite_limit=-1),
        TopicConfig("mixed", TopicType.MIXED),
    ):
        told("create_topic", config)
        told("update_topic", config)
    for group in (
        GroupConfig("g"),
        GroupConfig("a" * limits.GROUP_NAME_MAX),
        GroupConfig("a" * (limits.GROUP_NAME_MAX + 1)),
        GroupConfig(" "),
        GroupConfig("once", max_attempts=1),
        GroupConfig("never", max_attempts=0),
        GroupConfig("p1", retry_policy=RetryPolicy()),
        GroupConfig("p2", retry_policy=RetryPolicy((), 1.0, 5.0, 2.0)),
        GroupConfig("p3", retry_policy=RetryPolicy((), 0.0, 5.0, 2.0)),
        GroupConfig("p4", retry_policy=RetryPolicy((), 1.0, 5.0, 0.0)),
        GroupConfig("p5", retry_policy=RetryPolicy((0.0, span))),
        GroupConfig("p6", retry_policy=RetryPolicy((1.0, span + 1.0))),
        GroupConfig("p7", retry_policy=RetryPolicy((-1.0,))),
        GroupConfig("l1", lite_bind_topic="lite", lite_quota=3, lite_exclusive=True),
        GroupConfig("l2", lite_quota=-1),
    ):
        told("create_group", group)
        told("update_group", group)
    told.one("m0")
    told.receive(polling=0.0)
    told.one("m1")
    told("set_retention", retention=0.0)
    for used in (-0.1, 0.0, 0.75, 0.76, 0.86, 0.91, 1.0, 1.1):
        told("set_retention", disk_used=used)
        told.lines.append(shown(told.desk.broker.retention()))
        told.one(f"at {used}")
        told("delete_expired")
        told.wait(11.0)
    told("set_retention", retention=5.0, disk_used=0.0)
    told.one("m2")
    told.wait(5.0)
    told("delete_expired")
    told.wait(1.0)
    told("delete_expired")
    told.receive()
    told("delete_topic", "none")
    told("delete_topic", "t")
    told("delete_group", "none")
    told("delete_group", "g")


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


def lite(told: Told) -> None:
    desk = told.desk
    told("create_topic", TopicConfig("l", TopicType.LITE, 1, 1, lite_expiration=600.0, lite_limit=4))
    told("create_group", GroupConfig("lg", lite_bind_topic="l", lite_quota=3, lite_exclusive=True))
    told("create_group", GroupConfig("free", lite_bind_topic="l"))
    for client, group in (("a", "lg"), ("b", "lg"), ("s", "free"), ("w", "g")):
        told(
            "settings",
            client,
            ClientSettings(ClientType.LITE_PUSH_CONSUMER, subscription=Subscription(group)),
        )
    for number in range(4):
        told.one(f"m{number}", topic="l", lite_topic=("ann", "bob")[number % 2])

    def sync(client: str, action: LiteAction | None, *names: str, **fields: Any) -> None:
        group = fields.pop("group", "lg")
        told(
            "sync_lite_subscription",
            LiteSyncRequest(client, group, fields.pop("topic", "l"), action, names, **fields),
        )

    sync("a", LiteAction.PARTIAL_ADD, "ann")
    sync("a", LiteAction.PARTIAL_ADD, "bob", "cid")
    sync("a", LiteAction.PARTIAL_ADD, "dan")
    sync("a", LiteAction.COMPLETE_ADD, "1", "2", "3", "4")
    sync("a", LiteAction.PARTIAL_REMOVE, "cid", "none")
    sync("b", LiteAction.COMPLETE_ADD, "bob", "dan", version=3)
    sync("b", LiteAction.COMPLETE_ADD, "ann", version=2)
    sync("a", None, "ann")
    sync("a", LiteAction.PARTIAL_ADD, "bad name")
    for wrong in ({"topic": "t"}, {"topic": ""}, {"group": "g"}, {"group": ""}, {"group": "unknown"}):
        sync("a", LiteAction.PARTIAL_ADD, "ann", **wrong)
    starts = (
        None,
        LiteStart(is_last=True),
        LiteStart(offset=0),
        LiteStart(offset=1),
        LiteStart(tail=1),
        LiteStart(timestamp=START),
        LiteStart(timestamp=START + 100.0),
    )
    for number, start in enumerate(starts):
        sync("s", LiteAction.COMPLETE_REMOVE, group="free")
        sync("s", LiteAction.COMPLETE_ADD, "ann", "bob", group="free", start=start)
        answer = told.receive(1, client="s", group="free", topic="l", polling=0.0)
        for delivery in () if number % 2 else getattr(answer, "deliveries", ()):
            entry = AckEntry("m", delivery.receipt_handle)
            told("ack", AckRequest("s", "free", "l", (entry,)))
    told.receive(8, client="a", group="lg", topic="l", polling=0.0)
    told.receive(8, client="w", group="g", topic="l", polling=0.0)
    for name in ("cid", "dan", "eve"):
        told.one(name, topic="l", lite_topic=name)
    told.receive(8, client="b", group="lg", topic="l", polling=0.0)
    sync("b", LiteAction.COMPLETE_REMOVE)
    told.receive(8, client="b", group="lg", topic="l", polling=0.0)
    told.wait(400.0)
    told.one("kept", topic="l", lite_topic="ann")
    told.wait(400.0)
    told.lines.append(shown(desk.broker.lite_topics("l")))
    told.lines.append(shown(desk.broker.lite_topics("none")))
    told("delete_group", "free")
    told("update_topic", TopicConfig("l", TopicType.LITE, 1, 1))
    told("delete_topic", "l")


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


def expressions(told: Told) -> None:
    """SQL at the ends of numbers, with blanks, letters of types, and truth values at either side."""
    numbers = (
        *(
            "2147483647",
            "2147483648",
            "-2147483648",
            "-2147483649",
            "9223372036854775807",
            "-9223372036854775808",
        ),
        *(
            "9223372036854775808",
            "1",
            " 1 ",
            "+1",
            "-0",
            "0.0",
            "-0.0",
            "1.5",
            "1.5f",
            "1.5D",
            "1e3",
            ".5",
            "5.",
        ),
        *(
            "NaN",
            "Infinity",
            "-Infinity",
            "0x1p3",
            "-0x1p-1f",
            "0x1p2000",
            "-0x1p2000",
            "x",
            "true",
            "TRUE",
            "False",
        ),
    )
    for number, text in enumerate(numbers):
        told.desk.broker.send(
            (told.desk.message(f"<{text}>", properties={"a": text, "b": str(number)}),), now=told.desk.now
        )
    told.desk.broker.take_events()
    stored = told.desk.broker.messages("t")
    for text in (
        *(
            "a = 1",
            "1 = a",
            "a <> 1",
            "a > 0",
            "a >= 1.5",
            "a < 1.5",
            "a <= -0.5",
            "a = 1.0",
            "a > 2147483646",
        ),
        *("a > 2147483648", "a < 9223372036854775807", "a = 8.0", "a = 0.0", "-a = -1", "a = -1", "0 <> a"),
        *(
            "a = TRUE",
            "TRUE = a",
            "a = FALSE",
            "a IS NULL",
            "a IS NOT NULL",
            "c IS NULL",
            "c = 1",
            "NOT c = 1",
        ),
        *("a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2", "a BETWEEN 2 AND 1", "a BETWEEN 1 AND 1"),
        *("a IN ('1', 'x')", "a NOT IN ('1', 'x')", "c NOT IN ('1')", "'x' IN ('x')", "a IN (1)"),
        *("a CONTAINS '1'", "a NOT STARTSWITH '-'", "a ENDSWITH '0'", "a CONTAINS 1", "c CONTAINS '1'"),
        *(
            "a > b",
            "b > 3 AND b < 6",
            "b < 2 OR b > 20 AND b < 23",
            "NOT b > 2 AND b < 4",
            "a = b",
            "TRUE",
            "NULL",
        ),
        *(
            "a",
            "a = 'x' OR a = 'x y'",
            'a = "x"',
            "1 = 1",
            "1 > 2",
            "'a' > 'b'",
            "a = NULL",
            "TRUE = 1",
            "(a = 1",
        ),
        *(
            "a = 9223372036854775807",
            "a = 9223372036854775808",
            "a = 1L",
            "a = 1e400",
            "a = 0e0",
            "a == 1",
            "a = 1 1",
        ),
    ):
        request = PullRequest("c", "g", "t", 0, 0, FilterExpression(text, FilterType.SQL), batch_size=64)
        try:
            answer = told.desk.broker.pull(request, now=told.desk.now)
        except Refusal as refusal:
            told.lines.append(f"{text}: refused, {refusal}")
        else:
            found = () if isinstance(answer, Parked) else answer.messages
            told.lines.append(f"{text}: {' '.join(each.content.message_id for each in found)}")
    assert len(stored) == len(numbers)


def salvaged(told: Told) -> None:
    """A broker that is filled with what another one held, less a lost message."""
    desk = told.desk
    for number in range(4):
        told.one(f"m{number}")
    first, *_ = told.receive(3).deliveries
    told("ack", AckRequest("c", "g", "t", (AckEntry("m", first.receipt_handle),)))
    told.wait(40.0)
    told.receive(1)
    held = desk.broker.messages("t")
    topics = [
        Salvaged(topic.config, topic.system, (desk.broker.messages(topic.config.name),))
        for topic in desk.broker.topics()
    ]
    positions = desk.broker.group_positions()
    told.lines += map(shown, positions)
    second = Told(desk.profile)
    second.desk.broker.delete_topic("t", now=START)
    second.desk.broker.delete_group("g", now=START)
    topics = [
        replace(each, queues=(tuple(one for one in each.queues[0] if one != held[1]),)) for each in topics
    ]
    second.desk.broker.rebuild(topics, [GroupConfig("g")], positions)
    second.desk.now = desk.now
    second.desk.join("c")
    for topic in second.desk.broker.topics():
        second.lines += [shown(topic), *map(shown, second.desk.broker.messages(topic.config.name))]
    second.lines += map(shown, second.desk.broker.offsets())
    second.one("after")
    second.receive()
    second.receive()
    told.lines += second.lines


CHAPTERS: tuple[Callable[[Told], None], ...] = (
    routes,
    pulls,
    offsets,
    rates,
    rights,
    messages,
    batches,
    receives,
    settling,
    order,
    classic,
    sessions,
    catalogue,
    delays,
    transactions,
    lite,
    renewals,
    tries,
    expressions,
    salvaged,
)


def read(profile: Profile, chapter: Callable[[Told], None]) -> Told:
    """Run a chapter under a profile."""
    ordered = {"ordered": True, "type": TopicType.FIFO} if chapter is order else {}
    told = Told(replace(profile, half_lifetime=200.0) if chapter is transactions else profile, **ordered)
    chapter(told)
    told.lines = [line if len(line) <= 600 else f"{line[:560]} ... {line[-40:]}" for line in told.lines]
    return told


def _turned() -> Profile:
    choices = ((field.name, getattr(DOCUMENTED, field.name)) for field in dataclasses.fields(DOCUMENTED))
    opposite: dict[str, Any] = {name: not choice for name, choice in choices if isinstance(choice, bool)}
    return replace(DOCUMENTED, **opposite)


TURNED = _turned()
"""The opposite of all that the documented profile decides by yes or no."""
