"""Apache's own gRPC clients, unchanged, with groups and topics that nobody created, on both kinds of a 5.5 server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import Refused

from fake_broker.tests.peers.programs import News, Program, running

pytestmark = pytest.mark.peer

JAVA_CLIENT = "5.2.0"
PROGRAM = Path(__file__).with_name("Grpc.java")
CREATED_BY_USE = pytest.mark.parametrize("broker", ["apache-5.5-cluster"], indirect=True)
REFUSED = pytest.mark.parametrize("broker", ["apache-5.5"], indirect=True)


@pytest.fixture
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[FakeBroker]:
    """A fake with the topic "orders" and no group."""
    async with FakeBroker(profile=request.param) as fake:
        await fake.create_topic("orders", queues=1)
        yield fake


@pytest.fixture
async def java(broker: FakeBroker, news: News, tmp_path: Path) -> AsyncIterator[Program]:
    """Apache's Java client, fetched by Maven; skips if that or Java is missing."""
    try:
        virtual_machine = find_java()
        jars = await fetch_jars(JAVA_CLIENT, artifacts=("rocketmq-client-java",))
    except ApacheUnavailableError as missing:
        pytest.skip(str(missing))
    options = ("-Xmx192m", "-XX:TieredStopAtLevel=1", f"-Duser.home={tmp_path}", "-cp", f"{jars}/*")
    async with running(news, virtual_machine, *options, PROGRAM, broker.endpoint) as program:
        yield program


def is_settled(broker: FakeBroker, *groups: str) -> bool:
    """Whether these are all groups, and each has acknowledged everything."""
    is_behind = any(place.lag for group in groups for place in broker.progress(group))
    return {group.name for group in broker.groups()} == set(groups) and not is_behind and not broker.leases()


def refusals(news: News) -> set[tuple[str, str]]:
    """The commands that the broker refused, and its reasons."""
    return {(event.command, event.message) for event in news.events if isinstance(event, Refused)}


@pytest.mark.slow
@CREATED_BY_USE
async def test_java_consumers_create_their_groups(java: Program, broker: FakeBroker, news: News) -> None:
    assert await java.tell("send", "orders", "paid") == ["done"]
    assert await java.tell("simple", "received", "orders") == ["done"]
    assert java.read() == {"paid": 1}
    assert await java.tell("push", "handled", "orders") == ["done"]
    await news.until(lambda: java.read()["paid"] == 2 and is_settled(broker, "received", "handled"))
    assert (await java.tell("send", "nowhere", "lost"))[0] == "refused"
    assert refusals(news) == {("QueryRoute", "The topic nowhere does not exist.")}


@pytest.mark.slow
@REFUSED
async def test_java_consumers_need_their_groups(java: Program, broker: FakeBroker, news: News) -> None:
    assert await java.tell("send", "orders", "paid") == ["done"]
    for kind in ("simple", "push"):
        assert (await java.tell(kind, kind, "orders"))[0] == "refused"
    assert {("Telemetry", f"group not found: {kind}") for kind in ("simple", "push")} <= refusals(news)
    assert (java.read(), broker.groups()) == ({}, ())


ApacheClient = Any
Start = Callable[[str], Awaitable[ApacheClient]]


@CREATED_BY_USE
async def test_python_consumers_create_their_groups(
    apache_client: Start, broker: FakeBroker, news: News
) -> None:
    client = await apache_client(broker.endpoint)
    await client("start_producer", topics=["orders"])
    await client("send", topic="orders", body="paid")
    await client("start_simple", group="received", topic="orders")
    (received,) = (await client("receive", limit=16, invisible=30))["messages"]
    await client("ack", message_id=received["message_id"])
    await client("start_push", group="handled", topic="orders", failures={})
    (handled,) = await client.consumed(1)
    assert received["body"] == handled["body"] == "paid"
    await news.until(lambda: is_settled(broker, "received", "handled"))
    # The client drops the code and the text of the answer and says only this.
    with pytest.raises(AssertionError, match="failed to fetch topic:nowhere route"):
        await client("send", topic="nowhere", body="lost")


@REFUSED
async def test_python_consumers_need_their_groups(
    apache_client: Start, broker: FakeBroker, news: News
) -> None:
    client = await apache_client(broker.endpoint)
    with pytest.raises(AssertionError, match="simple: no settings within 10 s"):
        await client("start_simple", group="received", topic="orders")
    assert ("Telemetry", "group not found: received") in refusals(news)
    assert broker.groups() == ()
