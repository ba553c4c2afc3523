"""What an administrator sets and sees over the classic protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiorocketmq._core.remoting.records import read_records
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.admin import Admin, ExponentialBackoff
from aiorocketmq.errors import RocketMQError

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, over_remoting
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.tolerances import PROMPT

RULES = ("remoting-protocol.md 6.16",)


@asynccontextmanager
async def _administrator(fixture: Fixture) -> AsyncIterator[Admin]:
    """Open an administrator's client, whose errors are failures of the case."""
    assert fixture.target.name_server is not None
    patience = PROMPT + fixture.number("route.high")
    try:
        async with Admin(f"namesrv://{fixture.target.name_server}", timeout=patience) as admin:
            yield admin
    except RocketMQError as error:
        raise AssertionError(str(error)) from error


async def _topic(admin: Admin, topic: str) -> tuple[object, ...]:
    (settings,) = (await admin.describe_topic(topic)).settings
    kind = settings.type and settings.type.value
    return kind, settings.read_queues, settings.write_queues, settings.readable, settings.writable


async def _group(admin: Admin, group: str) -> tuple[object, ...]:
    (settings,) = await admin.describe_group(group)
    return settings.ordered, settings.max_attempts, settings.backoff, settings.consume_enabled


@case("admin.topics", rules=RULES, level=EXTENSION, needs=(*REMOTING, "type.fifo"))
async def topics(fixture: Fixture) -> None:
    """An administrator's topics have the settings that they were made with, and their last changes, until they are
    deleted."""
    async with _administrator(fixture) as admin:
        for kind, queues, readable, writable in (
            ("NORMAL", 1, True, True),
            ("FIFO", 3, True, True),
            ("DELAY", 2, True, False),
            ("TRANSACTION", 5, False, True),
        ):
            topic = fixture.fresh("admin")
            await admin.create_topic(topic, type=kind, queues=queues, readable=readable, writable=writable)
            assert topic in await admin.topics()
            assert await _topic(admin, topic) == (kind, queues, queues, readable, writable)
            await admin.alter_topic(topic, queues=queues + 2, readable=True)
            assert await _topic(admin, topic) == (kind, queues + 2, queues + 2, True, writable)
            route = await admin.route(topic)
            assert sum(each.readable for each in route.queues) == queues + 2
            await admin.delete_topic(topic)
            assert topic not in await admin.topics()


@case("admin.groups", rules=RULES, level=EXTENSION, needs=(*REMOTING, "type.fifo"))
async def groups(fixture: Fixture) -> None:
    """An administrator's groups have the settings that they were made with, and their last changes, until they are
    deleted."""
    async with _administrator(fixture) as admin:
        for ordered, attempts, backoff, enabled in (
            (False, 17, None, True),
            (True, 1, (1.0, 7.0), True),
            (False, 5, ExponentialBackoff(2.0, 60.0, 3), False),
        ):
            group = fixture.fresh("admin")
            await admin.create_group(
                group, ordered=ordered, max_attempts=attempts, backoff=backoff, consume_enabled=enabled
            )
            assert group in await admin.groups()
            assert await _group(admin, group) == (ordered, attempts, backoff, enabled)
            await admin.alter_group(group, max_attempts=attempts + 1, consume_enabled=not enabled)
            assert await _group(admin, group) == (ordered, attempts + 1, backoff, not enabled)
            await admin.alter_group(group, ordered=not ordered)
            assert await _group(admin, group) == (not ordered, attempts + 1, backoff, not enabled)
            await admin.delete_group(group)
            assert group not in await admin.groups()


@case(
    "admin.order-switched", rules=("R8.21",), level=EXTENSION, needs=(*REMOTING, "type.fifo"), timeout=120.0
)
async def order_switched(fixture: Fixture) -> None:
    """A group that an administrator switches between ordered and normal continues in each of its topics."""
    async with _administrator(fixture) as admin:
        for ordered in (True, False):
            group = await fixture.group(ordered=ordered)
            consumers = [
                await fixture.consumer(await fixture.topic(1, type="FIFO"), group=group, ordered=ordered)
                for _ in range(3)
            ]
            for consumer in consumers:
                await fixture.send(consumer.topic, "old0", "old1", group="g")
                for _ in range(2):
                    await consumer.ack(await consumer.one())
            await admin.alter_group(group, ordered=not ordered)
            for consumer in consumers:
                await fixture.send(consumer.topic, "new0", "new1", group="g")
                taken = await consumer.take(2, within=60.0)
                assert sorted(one.text for one in taken) == ["new0", "new1"], (
                    f"{taken}, once ordered: {ordered}"
                )


@case("admin.closed", rules=RULES, level=EXTENSION, needs=REMOTING)
async def closed(fixture: Fixture) -> None:
    """Nothing is read by a group that an administrator has closed, nor from a topic that is not readable, until they
    are opened again."""
    async with _administrator(fixture) as admin:
        reader = await over_remoting(fixture)
        await reader.send(1)
        for group_open, topic_open in ((False, True), (True, True), (True, False), (True, True)):
            await admin.alter_group(reader.group, consume_enabled=group_open)
            await admin.alter_topic(reader.topic, readable=topic_open)
            answer = await reader.probe.pull(reader.topic, reader.group, 0)
            is_open = group_open and topic_open
            expected = ResponseCode.SUCCESS if is_open else ResponseCode.NO_PERMISSION
            assert answer.code == expected, (
                f"group {group_open}, topic {topic_open}: answered with {answer.name}"
            )


@case("admin.fewer-queues", rules=RULES, level=EXTENSION, needs=REMOTING)
async def fewer_queues(fixture: Fixture) -> None:
    """Messages in a queue that an administrator removes are there again when the queue is added again."""
    async with _administrator(fixture) as admin:
        reader = await over_remoting(fixture, topic=await fixture.topic(3))
        for queue in range(3):
            await fixture.send_over(reader.probe, reader.topic, f"m{queue}".encode(), queue=queue)
        for queues in (1, 3):
            await admin.alter_topic(reader.topic, queues=queues)
        for queue in range(3):
            answer = await reader.probe.pull(reader.topic, reader.group, 0, queue=queue, poll=PROMPT)
            assert [record.body for record in answer.records] == [f"m{queue}".encode()]


@case(
    "admin.uneven-queues",
    rules=("R3.1", "R3.7"),
    level=EXTENSION,
    needs=(*REMOTING, "type.fifo"),
    timeout=300.0,
)
async def uneven_queues(fixture: Fixture) -> None:
    """A topic with more queues to read than to write, or fewer, has both numbers in its route, is written to the
    latter, and an ordered group is assigned the former, of which alone its consumers receive."""
    topic, consumer = await fixture.subscribed(4, type="FIFO", ordered=True)
    group = consumer.group
    client, administrator = await fixture.client(), fixture.member()
    await client.send_settings(requests.consumer_settings(group, {topic: "*"}))
    for readable, writable in ((3, 1), (2, 4)):
        numbers = {
            "readQueueNums": readable,
            "writeQueueNums": writable,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
        }
        fields = {"topic": topic, "defaultTopic": "TBW102", "topicSysFlag": 0, "order": "false", **numbers}
        answer = await administrator.ask(topic, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        assert answer.code == ResponseCode.SUCCESS, response_text(answer)
        # Proxies see the change at their next route refresh.
        until = fixture.clock.now() + fixture.number("route.high") + PROMPT
        while True:
            response = await client.query_assignment(topic, group)
            assigned = sorted(assignment.message_queue.id for assignment in response.assignments)
            if assigned == list(range(readable)):
                break
            assert fixture.clock.now() < until, f"{readable} queues can be read, assigned are {assigned}"
            await fixture.clock.sleep(1.0)
        queues = (await administrator.route(topic)).queues[0]
        assert (queues.readable, queues.writable) == (readable, writable)
        for number in range(12):
            await fixture.send(topic, "m", group=f"g{number}")
    # The second half is written to all four, of which the first two can be read.
    first = await administrator.end(topic, RequestCode.GET_MAX_OFFSET)
    assert first is not None
    assert 12 <= first < 24, f"{first} of 24 messages are in the first queue"
    deliveries = await consumer.receive_for(SHORT_POLL, settle=True)
    assert {one.queue for one in deliveries} == {0, 1}, f"{deliveries} were delivered"


@case("admin.progress", rules=RULES, level=EXTENSION, needs=REMOTING)
async def progress(fixture: Fixture) -> None:
    """An administrator sees the ends of a topic's queues, each member of a group, and what the group has committed."""
    async with _administrator(fixture) as admin:
        reader = await over_remoting(fixture)
        await reader.send(5)
        await reader.join()
        await reader.commit(2)
        (span,) = await admin.spans(reader.topic)
        assert (span.min_offset, span.max_offset) == (0, 5)
        assert span.earliest is not None
        assert span.latest is not None
        assert span.earliest <= span.latest
        (queue,) = await admin.progress(reader.group, reader.topic)
        assert (queue.offset, queue.max_offset, queue.lag) == (2, 5, 3)
        await fixture.clock.sleep(2.0)
        await reader.send(1)
        await reader.commit(5)
        (queue,) = await admin.progress(reader.group, reader.topic)
        assert queue.consumed_at == span.latest, "this is not when the last consumed message was stored"
        (later,) = await admin.spans(reader.topic)
        assert later.latest is not None
        assert (later.earliest, later.latest > span.latest) == (span.earliest, True)
        (member,) = await admin.clients(reader.group)
        assert member.client_id == reader.probe.client_id
        await reader.leave()
        assert await admin.clients(reader.group) == ()


@case("admin.messages", rules=RULES, level=EXTENSION, needs=REMOTING)
async def messages(fixture: Fixture) -> None:
    """An administrator finds stored messages by key, by id and by time, with all that they are, and no others."""
    async with _administrator(fixture) as admin:
        reader = await over_remoting(fixture)
        ids = [fixture.fresh("id") for _ in range(4)]
        for place, id_ in enumerate(ids):
            properties = {"UNIQ_KEY": id_, "KEYS": f"k{place % 2} all", "TAGS": "t", "own": str(place)}
            await fixture.send_over(reader.probe, reader.topic, f"m{place}".encode(), properties)
        await reader.wait_visible(len(ids))
        until = fixture.clock.now() + PROMPT
        for key, expected in (("k0", ids[::2]), ("k1", ids[1::2]), ("all", ids), ("none", [])):
            found = await admin.messages(reader.topic, key=key)
            # Servers index messages a moment after they stored them.
            while len(found) < len(expected) and fixture.clock.now() < until:
                await fixture.clock.sleep(0.5)
                found = await admin.messages(reader.topic, key=key)
            assert sorted(each.message_id for each in found) == sorted(expected), f"found by key {key}"
        hour, now = 3_600_000, round(fixture.clock.wall() * 1000)
        # The newest ones of a time.
        for since, until_then, expected in (
            (0, now + hour, ids[2:]),
            (now + hour, now + 2 * hour, []),
            (0, now - hour, []),
        ):
            times = {"beginTimestamp": since, "endTimestamp": until_then}
            fields = {"topic": reader.topic, "key": "all", "maxNum": 2, **times}
            answer = await reader.probe.ask(reader.topic, RequestCode.QUERY_MESSAGE, fields)
            newest = [record.properties()["UNIQ_KEY"] for record in read_records(answer.body)]
            assert sorted(newest) == sorted(expected), f"found from {since} to {until_then}"
        one = await admin.message(reader.topic, ids[2])
        assert (one.body, one.tag, one.properties["own"]) == (b"m2", "t", "2")
        assert len(await admin.messages(reader.topic, limit=3)) == 3
