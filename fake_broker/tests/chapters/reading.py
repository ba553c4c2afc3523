"""Chapters about queues and offsets: routes, pulls, resets and expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    FilterType,
    OffsetPolicy,
    Permission,
    Refusal,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    FilterExpression,
    OffsetQuery,
    Parked,
    Pulled,
    PullRequest,
    Subscription,
    TopicConfig,
)

from fake_broker.tests.chapters.told import Told
from fake_broker.tests.core.conftest import START
from fake_broker.tests.story import shown


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
