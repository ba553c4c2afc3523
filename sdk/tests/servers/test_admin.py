"""`Admin` on real servers: what it describes, alters, finds and resets is what clients see."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import (
    Admin,
    ExponentialBackoff,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    SimpleConsumer,
    TopicType,
)
from aiorocketmq.errors import (
    GroupNotFoundError,
    NotFoundError,
    RefusedError,
    TopicNotFoundError,
    UnreachableError,
)

from sdk.tests.pages import functions_of
from sdk.tests.servers.test_beside_java import java_member
from sdk.tests.servers.test_shared_queues import News

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ("apache-5.5",)


async def send(place: Place, topic: str, *numbers: int) -> list[str]:
    """Send one message with a key of its own and the key `all` for each number; return their ids."""
    async with Producer(place.namesrv, topics=[topic]) as producer:
        return [
            (await producer.send(Message(topic, b"%d" % each, keys=(f"k{each}", "all")))).message_id
            for each in numbers
        ]


async def indexed(admin: Admin, topic: str, message_id: str) -> None:
    """Wait until a message can be found: brokers index them a moment after they were stored."""
    async with asyncio.timeout(30):
        while True:
            try:
                await admin.message(topic, message_id)
            except NotFoundError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_a_topic_is_described_and_altered(place: Place) -> None:
    place.needs_5("it knows no types")
    topic = await place.topic(kind="FIFO", queues=2)
    async with Admin(place.namesrv) as admin:
        (settings,) = (await admin.describe_topic(topic)).settings
        assert (settings.type, settings.read_queues, settings.write_queues) == (TopicType.FIFO, 2, 2)
        await admin.alter_topic(topic, queues=3)
        await admin.alter_topic(topic, writable=False)
        (queues,) = (await admin.route(topic)).queues
        assert (queues.readable, queues.writable) == (3, 0)
        described = await admin.describe_topic(topic)
        (settings,) = described.settings
        assert (settings.type, settings.read_queues) == (TopicType.FIFO, 3)
        assert (settings.readable, settings.writable) == (True, False)
        assert [span.queue.id for span in described.queues] == [0, 1, 2]
        with pytest.raises(RefusedError):
            await admin.alter_topic("TBW102", queues=3)


async def test_spans_tell_where_messages_are_and_since_when(place: Place) -> None:
    topic = await place.topic(queues=1)
    async with Admin(place.namesrv) as admin:
        (span,) = await admin.spans(topic)
        assert (span.min_offset, span.max_offset, span.earliest, span.latest) == (0, 0, None, None)
        *_, last = await send(place, topic, 0, 1, 2)
        await indexed(admin, topic, last)
        (span,) = await admin.spans(topic)
        messages = await admin.messages(topic)
    assert (span.min_offset, span.max_offset) == (0, 3)
    assert (span.earliest, span.latest) == (messages[0].stored_at, messages[-1].stored_at)


async def test_messages_are_found_by_id_key_and_time(place: Place) -> None:
    topic = await place.topic(queues=3)
    async with Admin(place.namesrv) as admin:
        before = await send(place, topic, *range(5))
        await indexed(admin, topic, before[-1])
        await asyncio.sleep(0.01)  # servers keep milliseconds
        middle = datetime.now(UTC)
        await asyncio.sleep(0.01)
        after = await send(place, topic, *range(5, 40))
        await indexed(admin, topic, after[-1])
        message = await admin.message(topic, after[0])
        assert (message.body, message.keys, message.topic) == (b"5", ("k5", "all"), topic)
        assert message.stored_at is not None
        assert [each.body for each in await admin.messages(topic, key="k7")] == [b"7"]
        assert await admin.messages(topic, key="k99") == ()
        assert {each.message_id for each in await admin.messages(topic, key="all", limit=64)} == {
            *before,
            *after,
        }
        assert [each.message_id for each in await admin.messages(topic, until=middle)] == before
        later = await admin.messages(topic, since=middle, limit=100)
        assert sorted(int(each.body) for each in later) == list(range(5, 40))
        assert len(await admin.messages(topic, limit=7)) == 7
        with pytest.raises(NotFoundError, match="no message 'nothing'"):
            await admin.message(topic, "nothing")


async def test_a_group_is_described_and_altered(place: Place) -> None:
    place.needs_5("it knows no back-off")
    group = await place.group(max_attempts=3, backoff=[1, 2.5])
    async with Admin(place.namesrv) as admin:
        (settings,) = await admin.describe_group(group)
        assert (settings.max_attempts, settings.backoff, settings.ordered) == (3, (1.0, 2.5), False)
        await admin.alter_group(group, ordered=True, backoff=ExponentialBackoff(1, 60))
        await admin.alter_group(group, max_attempts=5, consume_enabled=False)
        (settings,) = await admin.describe_group(group)
        assert (settings.max_attempts, settings.backoff) == (5, ExponentialBackoff(1, 60))
        assert (settings.ordered, settings.consume_enabled) == (True, False)


async def test_progress_names_the_member_that_owns_a_queue(place: Place) -> None:
    topic, group = await place.topic(queues=2), await place.group()
    await send(place, topic, *range(6))
    async with Admin(place.namesrv) as admin:
        assert await admin.progress(group) == ()
        assert sum(each.lag for each in await admin.progress(group, topic)) == 6
        async with PullConsumer(place.namesrv, group=group, topics=[topic]) as consumer:
            batch = await consumer.poll(10.0)
            assert batch is not None
            await consumer.commit(batch)
            rows = await admin.progress(group, topic)
            (member,) = await admin.clients(group)
            assert {each.client_id for each in rows} == {member.client_id}
            assert (member.model, member.subscriptions) == ("CLUSTERING", {topic: "*"})
            assert sum(each.lag for each in rows) == 6 - len(batch)
        assert await admin.clients(group) == ()


async def test_a_member_of_javas_reports_its_queues(place: Place, tmp_path: Path) -> None:
    place.needs_5("its client for Java does not tell its queues")
    if not place.is_real:
        pytest.skip("the fake's own tests have Java's clients")
    topic, group = await place.topic(queues=3), await place.group()
    news = News()
    await send(place, topic, *range(6))
    async with java_member(place, topic, group, news, tmp_path) as java, Admin(place.namesrv) as admin:
        await news.until(lambda: len(java.owns) == 3)
        await news.contain({b"%d" % each for each in range(6)})
        (member,) = await admin.clients(group)
        assert (member.language, member.subscriptions[topic]) == ("JAVA", "*")
        rows = await admin.progress(group, topic)
        assert [each.client_id for each in rows] == [member.client_id] * 3


async def test_clients_at_grpc_addresses_are_reported_and_own_nothing(place: Place) -> None:
    topic, group = await place.topic(queues=1), await place.group()
    (message_id,) = await send(place, topic, 1)
    async with (
        Admin(place.namesrv) as admin,
        SimpleConsumer(place.endpoint, group=group, subscriptions={topic: "a || b"}),
        Producer(place.endpoint, topics=[topic]),
    ):
        await indexed(admin, topic, message_id)
        if ":cluster" in place.target:  # brokers know no client of a separate proxy
            assert await admin.clients(group) == ()
            return
        (member,) = await admin.clients(group)
        assert member.subscriptions == {topic: "a || b"}
        assert len(await admin.producers(topic)) == 1
        assert [each.client_id for each in await admin.progress(group, topic)] == [None]


async def test_a_reset_group_reads_on_from_there(place: Place) -> None:
    place.needs_5("it takes the nearest message for a time")
    topic, group = await place.topic(queues=1), await place.group()
    queue = MessageQueue(topic, "broker-a", 0)
    async with Admin(place.namesrv) as admin:
        *_, last = await send(place, topic, *range(5))
        await indexed(admin, topic, last)
        await asyncio.sleep(0.01)  # servers keep milliseconds
        middle = datetime.now(UTC)
        await asyncio.sleep(0.01)
        *_, last = await send(place, topic, *range(5, 10))
        await indexed(admin, topic, last)
        targets: list[tuple[Any, bool, dict[MessageQueue, int], int]] = [
            ("end", True, {queue: 10}, 10),
            (middle, False, {queue: 5}, 5),
            ({queue: 7}, False, {}, 5),
            ({queue: 7}, True, {queue: 7}, 7),
            ("beginning", True, {queue: 0}, 0),
            (middle, True, {queue: 5}, 5),
        ]
        for to, force, moved, offset in targets:
            assert await admin.reset_offset(group, topic, to=to, force=force) == moved
            assert [each.offset for each in await admin.progress(group, topic)] == [offset]
        async with PullConsumer(place.namesrv, group=group, topics=[topic]) as consumer:
            async with asyncio.timeout(30):
                while not (batch := await consumer.poll(10.0)):
                    pass
            assert batch[0].body == b"5"


async def test_what_is_unknown_is_one_clear_error(place: Place) -> None:
    topic, group = await place.topic(), await place.group()
    async with Admin(place.namesrv) as admin:
        for unknown_topic in (
            lambda: admin.describe_topic("nowhere"),
            lambda: admin.alter_topic("nowhere", queues=2),
            lambda: admin.spans("nowhere"),
            lambda: admin.progress(group, "nowhere"),
            lambda: admin.reset_offset(group, "nowhere", to="end"),
            lambda: admin.message("nowhere", "1"),
            lambda: admin.messages("nowhere"),
        ):
            with pytest.raises(TopicNotFoundError, match="nowhere"):
                await unknown_topic()
        for unknown_group in (
            lambda: admin.describe_group("nobody"),
            lambda: admin.alter_group("nobody", max_attempts=2),
            lambda: admin.progress("nobody"),
            lambda: admin.reset_offset("nobody", topic, to="end"),
        ):
            with pytest.raises(GroupNotFoundError, match="nobody"):
                await unknown_group()
        with pytest.raises(ValueError, match="no queue 9"):
            await admin.reset_offset(group, topic, to={MessageQueue(topic, "broker-a", 9): 0})
        with pytest.raises(ValueError, match="must be 0 to 0, got 1"):
            await admin.reset_offset(group, topic, to={MessageQueue(topic, "broker-a", 0): 1})
        assert "nobody" not in await admin.groups(), "asking for a group must not create it"
    for endpoint in (f"namesrv://{place.endpoint}", f"broker://{place.endpoint}"):
        with pytest.raises(UnreachableError, match="speaks HTTP/2"):
            async with Admin(endpoint, timeout=2.0) as admin:
                await admin.describe_topic(topic)


async def test_the_program_of_the_page_runs(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.needs_5("it takes the nearest message for a time")
    names = functions_of("administer.md")
    topic, group = await place.topic(queues=2), await place.group()
    *_, last = await send(place, topic, *range(6))
    async with Admin(place.namesrv) as admin:
        await indexed(admin, topic, last)
        assert await names["total_lag"](admin, group, topic) == 6
        await names["replay"](admin, group, topic, datetime.now(UTC))
        assert await names["total_lag"](admin, group, topic) == 0
        capsys.readouterr()
        await names["show"](admin, topic, "k3")
    assert capsys.readouterr().out.endswith(" b'3'\n")
