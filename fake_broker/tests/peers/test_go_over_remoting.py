"""Apache's own classic-protocol client for Go, unchanged and the newest there is, against the fake's remoting port."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import ClientJoined

from fake_broker.tests.peers.programs import News, Program, Start, running, sent_back

pytestmark = [pytest.mark.peer, pytest.mark.slow]

SOURCES = Path(__file__).with_name("golang")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built; skipped where Go or a module cannot be had. Sources that do not compile are an error."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go was not found: install it.")
    listed = subprocess.run(
        [go, "list", "-deps", "."], cwd=SOURCES, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip(f"the modules of Apache's client for Go cannot be had: {listed.stderr.strip()[-200:]}")
    built = tmp_path_factory.mktemp("go") / "client"
    subprocess.run([go, "build", "-o", built, "."], cwd=SOURCES, check=True)
    return built


@pytest.fixture
def go(program: Path, broker: FakeBroker, news: News, tmp_path: Path) -> Start:
    """Start a client: its kind, its group, what it wants of the topic."""

    @asynccontextmanager
    async def start(
        kind: str, group: str, expression: str = "*", topic: str = "orders"
    ) -> AsyncIterator[Program]:
        assert broker.remoting_endpoint is not None
        arguments = (broker.remoting_endpoint, kind, group, topic, expression)
        async with running(
            news, program, *arguments, environment={**os.environ, "HOME": str(tmp_path)}
        ) as started:
            yield started

    return start


async def test_producer_and_push_consumers_share_the_queues(
    go: Start, broker: FakeBroker, news: News
) -> None:
    bodies = {f"m{number}" for number in range(40)}
    async with go("produce", "pg") as producer:
        for number in range(20):
            assert (await producer.tell("send", f"m{number}"))[0] == "0"
        async with go("push", "g") as first:
            await news.until(lambda: len(first.read()) == 20)
            async with go("push", "g") as second:
                for number in range(20, 40):
                    await producer.tell("send", f"m{number}")
                await news.until(lambda: (first.read() + second.read()).keys() >= bodies)
                assert second.read(), "the second member got queues of its own"
            read = first.read() + second.read()
            await producer.tell("oneway", "last")
            await news.until(lambda: "last" in first.read())
    assert read.keys() == bodies
    assert all(place.lag == 0 for place in broker.progress("g"))


async def test_pull_and_orderly_push_read_everything_once(go: Start, broker: FakeBroker, news: News) -> None:
    async with go("produce", "pg") as producer:
        await producer.tell("batch", *(f"b{number}" for number in range(10)))
        for number in range(10):
            await producer.tell("send", f"m{number}")
        bodies = Counter([f"{kind}{number}" for kind in "bm" for number in range(10)])
        async with go("pull", "pulled") as pulled, go("orderly", "ordered") as orderly:
            await news.until(lambda: pulled.read() == bodies)
            await news.until(lambda: orderly.read() == bodies)
    for queue in "0123":
        stored = [each.body.decode() for each in broker.messages("orders") if str(each.queue) == queue]
        assert [words[0] for words in orderly.said("read") if words[1] == queue] == stored


async def test_each_broadcast_consumer_reads_everything(go: Start, news: News) -> None:
    bodies = {f"m{number}" for number in range(8)}
    async with go("produce", "pg") as producer, go("broadcast", "g") as first, go("broadcast", "g") as second:
        for body in sorted(bodies):
            await producer.tell("send", body)
        await news.until(lambda: first.read().keys() == second.read().keys() == bodies)
        assert first.read() == second.read() == Counter(bodies)


async def test_a_failed_message_is_retried_and_then_a_dead_letter(
    go: Start, broker: FakeBroker, news: News
) -> None:
    """Takes 20 s: the client takes up its retry topic with its second look at the group's members."""
    async with go("produce", "pg") as producer, go("push", "g") as consumer:
        await producer.tell("send", "fail")
        for attempt, seconds in ((1, 10.5), (2, 30.5)):
            await sent_back(news, attempt)
            await broker.clock.advance(seconds=seconds)
        await news.until(lambda: len(broker.dead_letters("g")) == 1)
        assert [words[2] for words in consumer.said("read")] == ["0", "1", "2"]
    assert {dead.body for dead in broker.dead_letters("g")} == {b"fail"}


async def test_delays_large_bodies_and_filters(go: Start, broker: FakeBroker, news: News) -> None:
    async with (
        go("produce", "pg") as producer,
        go("push", "g", "sql:a = 'yes' OR a IS NULL") as by_sql,
        go("push", "tagged", "A || B") as by_tag,
        go("push", "other", "B") as by_another,
    ):
        await producer.tell("send", "no")
        await producer.tell("send", "yes")
        await producer.tell("large", "x", 100_000)
        await news.until(lambda: {"yes", "x" * 100_000} == by_sql.read().keys())
        await news.until(lambda: {"no", "yes", "x" * 100_000} == by_tag.read().keys())
        await producer.tell("delay", "yes", 3)
        await broker.clock.advance(seconds=11)
        await news.until(lambda: by_sql.read()["yes"] == 2)
        assert "no" not in by_sql.read()
        assert not by_another.read()
    assert any(len(each.body) < 1_000 and each.body.startswith(b"x") for each in broker.messages("orders"))


async def test_transactions_are_ended_and_checked(go: Start, broker: FakeBroker, news: News) -> None:
    committed, rolled_back, unknown = 1, 2, 3
    async with go("transact", "pg") as producer:
        await producer.tell("half", "committed", committed)
        await producer.tell("half", "dropped", rolled_back)
        await producer.tell("half", "asked", unknown)
        # A producer that no broker has heard of cannot be asked.
        await news.until(lambda: news.count(ClientJoined) > 0)
        await news.until(lambda: len(broker.half_messages()) == 1)
        await broker.clock.advance(seconds=61)
        await news.until(lambda: producer.said("checked") == [["asked"]])
        await news.until(lambda: not broker.half_messages())
    assert {each.body for each in broker.messages("orders")} == {b"committed", b"asked"}


async def test_admin_creates_lists_and_deletes_topics(go: Start, broker: FakeBroker) -> None:
    assert broker.remoting_endpoint is not None
    async with go("admin", "-", topic=broker.remoting_endpoint) as admin:
        assert await admin.tell("create", "fresh") == ["created", "<nil>"]
        assert await admin.tell("queues", "fresh") == ["8", "<nil>"]
        assert {"fresh", "orders"} <= set((await admin.tell("list"))[0].split(","))
        assert await admin.tell("delete", "fresh") == ["deleted", "<nil>"]
        assert "fresh" not in (await admin.tell("list"))[0].split(",")
