"""Filters of pulls over remoting: named in the pull, or taken from the subscriptions of the group's members."""

from __future__ import annotations

import asyncio

from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.remoting import EVERYTHING
from aiorocketmq_conformance.probe.remoting_answers import response_text

LIVE = ("live-broker-remoting.md 4",)
HEARTBEATS = ("remoting-protocol.md 6.2", "live-broker-remoting.md 4")
TAGS = ("A", "B", None, "Aa", "BB", "A")
"""Tags of the messages of every case, whose property `n` is their offset; the hashes of Aa and BB are equal."""
ALL = (0, 1, 2, 3, 4, 5)


async def _reader(fixture: Fixture) -> RemotingReader:
    reader = await over_remoting(fixture)
    for place, tag in enumerate(TAGS):
        await reader.send_one(f"m{place}", tag, {"n": str(place)})
    await reader.wait_visible(len(TAGS))
    return reader


async def _offsets(reader: RemotingReader, filter_text: FilterText | None) -> tuple[int, ...]:
    """Return the offsets of the messages of one pull; AssertionError unless its next offset is after the last of
    them."""
    answer = await reader.probe.pull(reader.topic, reader.group, 0, filter_text=filter_text)
    expected = ResponseCode.SUCCESS if answer.records else ResponseCode.PULL_RETRY_IMMEDIATELY
    assert answer.code == expected, (
        f"a pull of {len(answer.records)} messages was answered with {answer.name}"
    )
    last = answer.records[-1].queue_offset if answer.records else len(TAGS) - 1
    assert answer.next_offset is not None
    assert last < answer.next_offset <= len(TAGS)
    return tuple(record.queue_offset for record in answer.records)


# In the pull


@case(
    "pull.filter-tags",
    rules=LIVE,
    level=EXTENSION,
    needs=REMOTING,
    params={
        "one": ("A", {(0, 5)}),
        "two": ("A || B", {(0, 1, 5)}),
        "other-case": ("aa", {()}),
        "part": ("a", {()}),
        "none": ("Z", {()}),
        "star": ("*", {ALL}),
        "empty": ("", {ALL}),
        # Servers compare hashes only; clients compare tags.
        "same-hash": ("Aa", {(3,), (3, 4)}),
    },
)
async def filter_tags(fixture: Fixture, row: tuple[str, set[tuple[int, ...]]]) -> None:
    """A pull with tags ({}) returns the messages with one of them, possibly others of the same hash, no others."""
    expression, allowed = row
    reader = await _reader(fixture)
    offsets = await _offsets(reader, FilterText(expression))
    assert offsets in allowed, f"pulled the messages {offsets}"


@case(
    "pull.filter-sql",
    rules=LIVE,
    level=EXTENSION,
    needs=(*REMOTING, "filter.sql"),
    params={
        "compare": ("n > 3", (4, 5)),
        "between": ("n BETWEEN 1 AND 3", (1, 2, 3)),
        "and": ("TAGS = 'A' AND n IS NOT NULL", (0, 5)),
        "none": ("n > 5", ()),
        "unknown": ("other = 1", ()),
        "illegal": ("n >", ALL),
    },
)
async def filter_sql(fixture: Fixture, row: tuple[str, tuple[int, ...]]) -> None:
    """A pull with an SQL expression ({}) returns what it selects; one that cannot be compiled selects everything."""
    expression, expected = row
    reader = await _reader(fixture)
    offsets = await _offsets(reader, FilterText(expression, is_sql=True))
    assert offsets == expected, f"pulled the messages {offsets}"


@case(
    "pull.filter-check",
    rules=("live-broker-remoting.md 4", "remoting-protocol.md 6.20"),
    level=EXTENSION,
    needs=(*REMOTING, "filter.sql"),
    params={
        "legal": ("n > 3", ResponseCode.SUCCESS),
        "illegal": ("n >", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    },
)
async def filter_check(fixture: Fixture, row: tuple[str, ResponseCode]) -> None:
    """A broker that checks an SQL expression reports whether it can be compiled ({})."""
    expression, code = row
    reader = await over_remoting(fixture)
    answer = await reader.probe.check(reader.group, reader.topic, FilterText(expression, is_sql=True))
    assert answer.code == code, f"answered with {response_text(answer)}"


@case("pull.filter-held", rules=LIVE, level=EXTENSION, needs=REMOTING)
async def filter_held(fixture: Fixture) -> None:
    """A waiting pull of one tag returns its message, whatever was sent before, and the offset after it."""
    reader = await over_remoting(fixture)
    waiting = asyncio.create_task(reader.pull(0, poll=15.0, tag="A"))
    await fixture.clock.sleep(1.0)
    await reader.send_one("other", "B")
    (sent,) = await reader.send(1, tag="A")
    page = await waiting
    if page.outcome != "found":
        # Some servers answer at once, others within seconds, that nothing matched, with the next offset.
        assert page.next_offset in {1, 2}
        page = await reader.pull(page.next_offset, tag="A")
    assert page.ids == (sent.id,)
    assert page.next_offset == 2


# In heartbeats


@case("pull.declared-filter", rules=HEARTBEATS, level=EXTENSION, needs=REMOTING)
async def declared_filter(fixture: Fixture) -> None:
    """A pull without a filter is filtered by the tags that the group's members subscribe to."""
    reader = await _reader(fixture)
    await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("A || B"))
    assert await _offsets(reader, None) == (0, 1, 5)
    connections = await reader.probe.connected(reader.group, reader.topic)
    assert connections.subscriptions == {reader.topic: "A || B"}


@case("pull.declared-sql", rules=HEARTBEATS, level=EXTENSION, needs=(*REMOTING, "filter.sql"))
async def declared_sql(fixture: Fixture) -> None:
    """A pull without a filter is filtered by the SQL expression that the group's members subscribe with."""
    reader = await _reader(fixture)
    await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("n > 3", is_sql=True))
    assert await _offsets(reader, None) == (4, 5)


@case("pull.declared-newer", rules=HEARTBEATS, level=EXTENSION, needs=REMOTING)
async def declared_newer(fixture: Fixture) -> None:
    """Of two subscriptions to a topic the newer version counts, whichever heartbeat arrives last."""
    reader, other = await _reader(fixture), fixture.member()
    version = await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("A"))
    assert await _offsets(reader, None) == (0, 5)
    await other.join(reader.group, reader.topic, filter_text=FilterText("B"))
    assert await _offsets(reader, None) == (1,)
    await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("A"), version=version)
    assert await _offsets(reader, None) == (1,)


@case("pull.declared-per-group", rules=HEARTBEATS, level=EXTENSION, needs=REMOTING)
async def declared_per_group(fixture: Fixture) -> None:
    """Subscriptions of one group do not filter another group."""
    reader = await _reader(fixture)
    other = await over_remoting(fixture, topic=reader.topic)
    await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("A"))
    await other.probe.join(other.group, other.topic, filter_text=FilterText("B"))
    assert (await _offsets(reader, None), await _offsets(other, None)) == ((0, 5), (1,))


@case("pull.declared-inline", rules=HEARTBEATS, level=EXTENSION, needs=REMOTING)
async def declared_inline(fixture: Fixture) -> None:
    """A filter named in a pull takes precedence over the subscriptions of the group's members."""
    reader = await _reader(fixture)
    await reader.probe.join(reader.group, reader.topic, filter_text=FilterText("A"))
    assert await _offsets(reader, FilterText("B")) == (1,)
    assert await _offsets(reader, EVERYTHING) == ALL


@case(
    "pull.declared-unknown",
    rules=HEARTBEATS,
    level=EXTENSION,
    needs=REMOTING,
    params={"group": "group", "topic": "topic", "dropped": "dropped", "version": "version"},
)
async def declared_unknown(fixture: Fixture, unknown: str) -> None:
    """A pull without a filter is refused if the group's members have no subscription for it ({})."""
    reader = await _reader(fixture)
    version = 0
    if unknown == "dropped":
        await reader.probe.join(reader.group, reader.topic)
        assert await _offsets(reader, None) == ALL
    if unknown in {"topic", "dropped"}:
        others = await fixture.topic(1)
        await reader.probe.join(reader.group, reader.topic, subscribed=[others])
    if unknown == "version":
        version = 1 + await reader.probe.join(reader.group, reader.topic)
    answer = await reader.probe.pull(reader.topic, reader.group, 0, filter_text=None, version=version)
    code = (
        ResponseCode.SUBSCRIPTION_NOT_LATEST if unknown == "version" else ResponseCode.SUBSCRIPTION_NOT_EXIST
    )
    assert answer.code == code, f"was answered with {answer.name}: {answer.remark}"
    assert not answer.records
