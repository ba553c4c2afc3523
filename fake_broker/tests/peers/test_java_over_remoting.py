"""Apache's own clients for Java, unchanged, of a 4.9 and a 5.5 version, against the fake's remoting port."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.core.values.events import ClientJoined, SentBack

from fake_broker.tests.peers.programs import News, Program, Start, running, sent_back

pytestmark = [pytest.mark.peer, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("Remoting.java")


@pytest.fixture(params=["5.5.0", "4.9.7"])
async def jars(request: pytest.FixtureRequest) -> Path:
    try:
        find_java()
        return await fetch_jars(request.param)
    except ApacheUnavailableError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def java(jars: Path, broker: FakeBroker, news: News, tmp_path: Path) -> Start:
    """Start a client: its kind, its group, what it wants of the topic, who it is."""

    @asynccontextmanager
    async def start(
        kind: str, group: str, expression: str = "*", user: str | None = None
    ) -> AsyncIterator[Program]:
        assert broker.remoting_endpoint is not None
        options = ["-Xmx192m", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}", "-cp", f"{jars}/*"]
        if user is not None:
            options.append(f"-Duser={user}")
        arguments = (broker.remoting_endpoint, kind, group, "orders", expression)
        async with running(news, find_java(), *options, PROGRAM, *arguments) as program:
            yield program

    return start


async def test_producer_and_push_consumers_share_the_queues(
    java: Start, broker: FakeBroker, news: News
) -> None:
    bodies = {f"m{number}" for number in range(40)}
    async with java("produce", "pg") as producer:
        for number in range(20):
            await producer.tell("send", f"m{number}")
        async with java("push", "g") as first:
            await news.until(lambda: len(first.read()) == 20)
            async with java("push", "g") as second:
                for number in range(20, 40):
                    await producer.tell("send", f"m{number}")
                await news.until(lambda: (first.read() + second.read()).keys() >= bodies)
                assert second.read(), "the second member got queues of its own"
            read = first.read() + second.read()
            await producer.tell("send", "last")
            await news.until(lambda: "last" in first.read())
            # What was read just before a member left may be read again.
            await news.until(lambda: all(place.lag == 0 for place in broker.progress("g")))
        assert read.keys() == bodies


async def test_lite_pull_and_orderly_push_read_everything_once(
    java: Start, broker: FakeBroker, news: News
) -> None:
    async with java("produce", "pg") as producer:
        await producer.tell("batch", *(f"b{number}" for number in range(10)))
        for number in range(10):
            await producer.tell("send", f"m{number}")
        bodies = Counter([f"{kind}{number}" for kind in "bm" for number in range(10)])
        async with (
            java("lite", "pulled") as lite,
            java("orderly", "ordered") as orderly,
        ):
            await news.until(lambda: lite.read() == bodies)
            await news.until(lambda: orderly.read() == bodies)
    for queue in "0123":
        stored = [each.body.decode() for each in broker.messages("orders") if str(each.queue) == queue]
        assert [words[0] for words in orderly.said("read") if words[1] == queue] == stored


async def test_a_failed_message_is_retried_and_then_a_dead_letter(
    java: Start, broker: FakeBroker, news: News
) -> None:
    async with java("produce", "pg") as producer, java("push", "g") as consumer:
        await producer.tell("send", "fail")
        for attempt, seconds in ((1, 10.5), (2, 30.5)):
            await sent_back(news, attempt)
            await broker.clock.advance(seconds=seconds)
        await news.until(lambda: len(broker.dead_letters("g")) == 1)
        assert [words[2] for words in consumer.said("read")] == ["0", "1", "2"]
    # A client that is stopped before it has the answer to its send-back sends the message to the retry topic itself.
    assert {dead.body for dead in broker.dead_letters("g")} == {b"fail"}


async def test_delays_large_bodies_and_sql_filters(java: Start, broker: FakeBroker, news: News) -> None:
    async with java("produce", "pg") as producer, java("push", "g", "sql:a = 'yes' OR a IS NULL") as consumer:
        await producer.tell("send", "no")
        await producer.tell("send", "yes")
        await producer.tell("large", "x", 100_000)
        await producer.tell("delay", "later", 3)
        await news.until(lambda: {"yes", "x" * 100_000} == consumer.read().keys())
        await broker.clock.advance(seconds=11)
        await news.until(lambda: "later" in consumer.read())
        assert "no" not in consumer.read()
    assert any(len(each.body) < 1_000 and each.body.startswith(b"x") for each in broker.messages("orders"))


async def test_transactions_are_ended_and_checked(java: Start, broker: FakeBroker, news: News) -> None:
    async with java("produce", "pg") as producer:
        # A producer that no broker has heard of cannot be asked.
        await producer.tell("send", "plain")
        await news.until(lambda: news.count(ClientJoined) > 0)
        await producer.tell("half", "committed", "COMMIT_MESSAGE")
        await producer.tell("half", "dropped", "ROLLBACK_MESSAGE")
        await producer.tell("half", "asked", "UNKNOW")
        await news.until(lambda: len(broker.half_messages()) == 1)
        await broker.clock.advance(seconds=61)
        await news.until(lambda: producer.said("checked") == [["asked"]])
        await news.until(lambda: not broker.half_messages())
    assert {each.body for each in broker.messages("orders")} == {b"plain", b"committed", b"asked"}


async def test_signed_clients_may_what_they_have_the_rights_to(
    java: Start, broker: FakeBroker, news: News
) -> None:
    for user in (
        User("writer", "writer", publish=("orders",), subscribe=(), groups=()),
        User("reader", "reader", publish=(), subscribe=("orders",), groups=("g",)),
    ):
        await broker.put_user(user)
    async with java("produce", "pg", user="writer") as producer:
        await producer.tell("send", "m")
        await producer.tell("send", "fail")
        await producer.tell("half", "committed", "COMMIT_MESSAGE")
        async with java("push", "g", user="reader") as consumer, java("lite", "g", user="writer") as stranger:
            await news.until(lambda: {"m", "fail", "committed"} <= consumer.read().keys())
            await news.until(lambda: news.count(SentBack) == 1)
            await news.until(lambda: "Remoting.HEART_BEAT" in news.refused())
            assert not stranger.read()
            await broker.clock.advance(seconds=10.5)
            await news.until(lambda: [words[2] for words in consumer.said("read")].count("1") == 1)
