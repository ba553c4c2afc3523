"""Chapters about classic clients and lite topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.values.classic_model import Classic, Heartbeat, Membership, SendBack, Subscribed
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    LiteAction,
    MessageType,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ClientSettings,
    GroupConfig,
    LiteStart,
    LiteSyncRequest,
    OutgoingMessage,
    PullRequest,
    Subscription,
    TopicConfig,
)

from fake_broker.tests.chapters.told import Told
from fake_broker.tests.core.conftest import START
from fake_broker.tests.story import shown


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
    sync("b", LiteAction.COMPLETE_ADD, "bob", "dan")
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
