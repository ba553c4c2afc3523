"""Chapters about rates, rights, sessions, topics and groups, and what is kept of a broker."""

from __future__ import annotations

import hmac
from base64 import b64encode
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.commands.access import FrameSignature, Need, Right, Signature, User
from aiorocketmq_fake.core.commands.salvage import Salvaged
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    FilterType,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ClientSettings,
    FilterExpression,
    GroupConfig,
    RetryPolicy,
    Subscription,
    TopicConfig,
)

from fake_broker.tests.chapters.told import Told
from fake_broker.tests.core.conftest import START
from fake_broker.tests.story import shown


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
