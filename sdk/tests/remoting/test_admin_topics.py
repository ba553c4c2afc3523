"""`Admin` describing and altering topics and groups, against scripted brokers, new and old ones."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq import (
    Admin,
    ExponentialBackoff,
    GroupMember,
    GroupSettings,
    ProducerClient,
    QueueSpan,
    TopicDescription,
    TopicSettings,
    TopicType,
)
from aiorocketmq.errors import (
    GroupNotFoundError,
    MalformedAnswerError,
    NotSupportedError,
    ServerError,
    TopicNotFoundError,
    UnreachableError,
)

from sdk.tests.remoting.brokers import FIRST, NEW, OLD, SECOND, Broker, reply, table
from sdk.tests.remoting.script import Serve

EARLIEST = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
LATEST = datetime(2023, 11, 14, 22, 13, 20, 500_000, UTC)


@pytest.mark.parametrize(("version", "kind"), [(NEW, TopicType.FIFO), (OLD, None)])
async def test_a_topic_is_described_by_settings_and_spans(
    serve: Serve, version: int, kind: TopicType | None
) -> None:
    server = await serve(Broker(version))
    spans = (
        QueueSpan(FIRST, min_offset=1, max_offset=9, earliest=EARLIEST, latest=LATEST),
        QueueSpan(SECOND, min_offset=0, max_offset=0, earliest=None, latest=None),
    )
    settings = TopicSettings(str(server.address), kind, 2, 2, readable=True, writable=True)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.describe_topic("orders") == TopicDescription("orders", (settings,), spans)
        assert await admin.spans("orders") == spans


async def test_a_topic_of_one_broker_of_two_is_described_and_altered_there(serve: Serve) -> None:
    has, lacks = Broker(), Broker()
    lacks.answers = {code: lambda frame: reply(frame, 17) for code in (351, 202)}
    one, two = await serve(lacks), await serve(has)
    async with Admin(f"broker://{one.address};{two.address}") as admin:
        described = await admin.describe_topic("orders")
        assert [each.broker for each in described.settings] == [str(two.address)]
        await admin.alter_topic("orders", queues=3)
    assert (len(lacks.changes), len(has.changes)) == (0, 1)


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_altering_a_topic_leaves_what_is_not_given(serve: Serve, version: int) -> None:
    broker = Broker(version)
    server = await serve(broker)
    broker.address = str(server.address)
    async with Admin(f"namesrv://{server.address}") as admin:
        await admin.alter_topic("orders", queues=4)
        await admin.alter_topic("orders", writable=False)
        await admin.alter_topic("orders", writable=True, readable=False)
    settings = {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "7",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "1", "order": "true",
    }  # fmt: skip
    assert [dict(frame.fields) for frame in broker.changes] == [
        settings, {**settings, "perm": "5"}, {**settings, "perm": "3"}
    ]  # fmt: skip


async def test_a_route_that_does_not_follow_is_reported(serve: Serve) -> None:
    broker = Broker(answers={17: reply})
    server = await serve(broker)
    broker.address = str(server.address)
    async with Admin(f"namesrv://{server.address}", timeout=1.0) as admin:
        with pytest.raises(
            UnreachableError, match="'orders' was altered, but no route shows the change"
        ) as caught:
            await admin.alter_topic("orders", queues=3)
    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize("version", [NEW, OLD])
async def test_an_unknown_topic_is_refused_on_each_way(serve: Serve, version: int) -> None:
    broker = Broker(version)
    broker.answers = {21: lambda frame: reply(frame, body={"topicConfigTable": {}})}
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        for call in (
            lambda: admin.describe_topic("refunds"),
            lambda: admin.alter_topic("refunds", queues=1),
            lambda: admin.spans("refunds"),
            lambda: admin.message("refunds", "1"),
            lambda: admin.messages("refunds"),
            lambda: admin.messages("refunds", key="1"),
        ):
            with pytest.raises(TopicNotFoundError, match="'refunds'"):
                await call()
    assert broker.changes == []


async def test_a_name_server_in_the_place_of_a_broker_serves_no_topics(serve: Serve) -> None:
    server = await serve(lambda frame: reply(frame, 3))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(NotSupportedError):
            await admin.describe_topic("orders")


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (351, b""),
        (351, b"[]"),
        (351, {"perm": "6", "readQueueNums": 1, "writeQueueNums": 1}),
        (351, {"perm": 6, "readQueueNums": True, "writeQueueNums": 1}),
        (351, {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1, "attributes": {"message.type": []}}),
        (202, b""),
        (202, {"offsetTable": []}),
        (202, table({FIRST: {"minOffset": 0}})),
        (202, table({FIRST: {"minOffset": 0, "maxOffset": 1, "lastUpdateTimestamp": 10**20}})),
        (32, b""),
    ],
)
async def test_a_damaged_answer_about_a_topic_is_one_error(serve: Serve, code: int, body: Any) -> None:
    server = await serve(Broker(answers={code: lambda frame: reply(frame, body=body)}))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="cannot be decoded"):
            await admin.describe_topic("orders")


@pytest.mark.parametrize(
    ("policy", "backoff"),
    [
        (None, None),
        ({"type": "CUSTOMIZED"}, None),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2500]}}, (1.0, 2.5)),
        (
            {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 500, "max": 6000, "multiplier": 3},
            },
            ExponentialBackoff(0.5, 6.0, 3),
        ),
    ],
)
async def test_a_group_is_described_as_it_is_kept(serve: Serve, policy: Any, backoff: Any) -> None:
    group = {
        "groupName": "billing", "retryMaxTimes": 2, "consumeMessageOrderly": True, "consumeEnable": False,
        "groupRetryPolicy": policy, "attributes": {"lite.bind.topic": "chats"},
    }  # fmt: skip
    server = await serve(Broker(group=group))
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.describe_group("billing") == (
            GroupSettings(str(server.address), True, 3, backoff, consume_enabled=False, lite_topic="chats"),
        )


async def test_an_old_server_knows_less_of_a_group(serve: Serve) -> None:
    server = await serve(Broker(OLD))
    async with Admin(f"broker://{server.address}") as admin:
        (settings,) = await admin.describe_group("billing")
    assert settings == GroupSettings(
        str(server.address), ordered=False, max_attempts=17, backoff=None, consume_enabled=True, lite_topic=""
    )


@pytest.mark.parametrize(
    "group",
    [
        [],
        {"retryMaxTimes": "16"},
        {"groupRetryPolicy": {"type": "EXPONENTIAL"}},
        {
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 0, "max": 0, "multiplier": 0},
            }
        },
        {"groupRetryPolicy": {"customizedRetryPolicy": {"next": ["1"]}}},
        {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [10**400]}}},
    ],
)
async def test_damaged_settings_of_a_group_are_one_error(serve: Serve, group: Any) -> None:
    server = await serve(Broker(group=group))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="cannot be decoded"):
            await admin.describe_group("billing")


async def test_altering_a_group_leaves_what_is_not_given_and_its_attributes(serve: Serve) -> None:
    kept = {"groupName": "billing", "retryMaxTimes": 16, "consumeEnable": True, "retryQueueNums": 1}
    broker = Broker(group={**kept, "attributes": {"lite.bind.topic": "chats"}})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        await admin.alter_group("billing", max_attempts=3)
        await admin.alter_group("billing", ordered=True, consume_enabled=False, backoff=[1])
        calls: Sequence[Callable[[], Awaitable[object]]] = (
            lambda: admin.alter_group("billing"),
            lambda: admin.alter_group("billing", max_attempts=0),
            lambda: admin.alter_group("billing", backoff=[]),
            lambda: admin.alter_topic("orders"),
            lambda: admin.alter_topic("orders", queues=0),
        )
        for call in calls:
            with pytest.raises(ValueError, match=r"."):
                await call()
        with pytest.raises(GroupNotFoundError, match="no group 'shipping'"):
            await admin.alter_group("shipping", max_attempts=3)
        with pytest.raises(GroupNotFoundError, match="no group 'shipping'"):
            await admin.describe_group("shipping")
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}
    assert [json.loads(frame.body) for frame in broker.changes] == [
        {**kept, "retryMaxTimes": 2},
        {**kept, "consumeMessageOrderly": True, "consumeEnable": False, "groupRetryPolicy": policy},
    ]


async def test_clients_are_reported_with_what_their_group_declared(serve: Serve) -> None:
    server = await serve(Broker(members={"one": b""}))
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.clients("billing") == (
            GroupMember(
                client_id="one",
                address="10.0.0.7:4711",
                language="JAVA",
                broker=str(server.address),
                version=513,
                model="CLUSTERING",
                start="CONSUME_FROM_LAST_OFFSET",
                subscriptions={"orders": "paid || refunded"},
            ),
        )


async def test_producers_are_reported_and_none_is_no_error(serve: Serve) -> None:
    connection = {"clientId": "one", "clientAddr": "10.0.0.7:4711", "language": "JAVA", "version": 513}
    broker = Broker(answers={204: lambda frame: reply(frame, body={"connectionSet": [connection]})})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.producers("shop") == (
            ProducerClient("one", "10.0.0.7:4711", "JAVA", str(server.address), 513),
        )
        broker.answers[204] = lambda frame: reply(frame, 1, remark="the producer group[shop] not exist")
        assert await admin.producers("shop") == ()
        broker.answers[204] = lambda frame: reply(frame, 1)
        with pytest.raises(ServerError, match="group 'shop'"):
            await admin.producers("shop")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        [],
        {"connectionSet": {}},
        {"connectionSet": [{"clientId": 1}]},
        {"connectionSet": [], "messageModel": 1},
    ],
)
async def test_a_damaged_list_of_clients_is_one_error(serve: Serve, body: Any) -> None:
    server = await serve(Broker(answers={203: lambda frame: reply(frame, body=body)}))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="a list of consumers"):
            await admin.clients("billing")


async def test_topic_type_may_be_its_name(serve: Serve) -> None:
    broker = Broker()
    server = await serve(broker)
    broker.address = str(server.address)
    async with Admin(f"broker://{server.address}") as admin:
        await admin.create_topic("orders", type="FIFO")
        with pytest.raises(ValueError, match=r"type must be one of NORMAL, FIFO, .*, got 'fifo'"):
            await admin.create_topic("orders", type="fifo")
    assert [frame.fields["attributes"] for frame in broker.changes] == ["+message.type=FIFO"]
