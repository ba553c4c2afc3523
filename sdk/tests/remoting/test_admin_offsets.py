"""`Admin.progress` and `Admin.reset_offset` against scripted brokers, new and old ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from aiorocketmq import Admin, MessageQueue, QueueProgress
from aiorocketmq.errors import (
    GroupNotFoundError,
    MalformedAnswerError,
    NotSupportedError,
    ServerError,
    TopicNotFoundError,
)

from sdk.tests.remoting.brokers import FIRST, NEW, OLD, SECOND, Broker, reply, table
from sdk.tests.remoting.script import Reply, Serve

CONSUMED = datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)


async def test_progress_returns_lag_and_the_member_that_owns_a_queue(serve: Serve) -> None:
    members = {"one": table({FIRST: {"commitOffset": 4}}, "mqTable"), "two": b"{}"}
    server = await serve(Broker(members=members))
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.progress("billing", "orders") == (
            QueueProgress(FIRST, offset=4, max_offset=9, lag=5, consumed_at=CONSUMED, client_id="one"),
            QueueProgress(SECOND, offset=0, max_offset=9, lag=9, consumed_at=CONSUMED, client_id=None),
        )
    queries = [dict(frame.fields) for frame in server.seen if frame.code == 208]
    assert queries == [{"consumerGroup": "billing", "topic": "orders"}]


@pytest.mark.parametrize(
    "running", [b"", b"[]", b'{"mqTable":{"x":{}}}'], ids=["nothing", "list", "no queue"]
)
async def test_a_member_that_reports_nonsense_owns_nothing(serve: Serve, running: bytes) -> None:
    server = await serve(Broker(members={"one": running}))
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.client_id for each in await admin.progress("billing")] == [None, None]


async def test_members_that_do_not_answer_delay_progress_by_the_timeout_at_most(serve: Serve) -> None:
    server = await serve(Broker(members={"one": b""}, answers={307: lambda frame: None}))
    async with Admin(f"broker://{server.address}", timeout=1.0) as admin:
        assert [each.lag for each in await admin.progress("billing")] == [5, 9]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"offsetTable":{"x":{}}}',
        table({FIRST: {"brokerOffset": "9", "consumerOffset": 1}}),
        table({FIRST: {"brokerOffset": 9, "consumerOffset": True}}),
        table({FIRST: {"brokerOffset": 9, "consumerOffset": 1, "lastTimestamp": 10**30}}),
    ],
)
async def test_damaged_progress_is_one_error(serve: Serve, body: bytes) -> None:
    server = await serve(Broker(answers={208: lambda frame: reply(frame, body=body)}))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="a group's progress that cannot be decoded"):
            await admin.progress("billing")


async def test_progress_of_what_is_unknown_is_refused(serve: Serve) -> None:
    server = await serve(Broker())
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(GroupNotFoundError, match="no group 'shipping'"):
            await admin.progress("shipping")
        with pytest.raises(TopicNotFoundError, match="topic 'refunds'"):
            await admin.progress("billing", "refunds")


@pytest.mark.parametrize(
    ("to", "moment"),
    [
        ("beginning", "0"),
        ("end", "-1"),
        (datetime(2026, 1, 1, tzinfo=UTC), "1767225600000"),
        (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "0"),
    ],
)
async def test_a_new_server_resets_all_queues_itself(
    serve: Serve, to: datetime | Literal["beginning", "end"], moment: str
) -> None:
    broker = Broker(members={"one": b""})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to=to) == {FIRST: 1, SECOND: 2}
    fields = {"group": "billing", "topic": "orders", "timestamp": moment, "isForce": "true"}
    assert [(frame.code, dict(frame.fields)) for frame in broker.changes] == [(222, fields)]


async def test_single_queues_are_reset_so_that_a_server_that_ignores_them_moves_nothing(serve: Serve) -> None:
    broker = Broker()
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to={FIRST: 7}) == {FIRST: 7}
    fields = {
        "group": "billing", "topic": "orders", "queueId": "0", "offset": "7", "timestamp": "-1",
        "isForce": "false",
    }  # fmt: skip
    assert [(frame.code, dict(frame.fields)) for frame in broker.changes] == [(222, fields)]


async def test_a_server_that_does_not_reset_single_queues_is_reported(serve: Serve) -> None:
    whole: dict[int, Reply] = {222: lambda frame: reply(frame, body=table({FIRST: 4, SECOND: 0}))}
    server = await serve(Broker(answers=whole))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(NotSupportedError, match="cannot move single queues: it resets by its members"):
            await admin.reset_offset("billing", "orders", to={FIRST: 7})


async def test_a_new_server_that_resets_by_members_lets_us_commit_while_no_member_is_online(
    serve: Serve,
) -> None:
    """So does 5.5.0 with useServerSideResetOffset=false."""
    offline: dict[int, Reply] = {
        222: lambda frame: reply(frame, 1, remark="THe consumer group <billing> not exist")
    }
    broker = Broker(answers=offline)
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to="end") == {FIRST: 9, SECOND: 0}
        assert await admin.reset_offset("billing", "orders", to={FIRST: 7}) == {FIRST: 7}
    assert [(frame.code, frame.fields["commitOffset"]) for frame in broker.changes] == [
        (15, "9"), (15, "0"), (15, "7")
    ]  # fmt: skip


async def test_without_force_queues_are_only_moved_back(serve: Serve) -> None:
    broker = Broker(committed={FIRST: 4, SECOND: 0})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        assert await admin.reset_offset("billing", "orders", to=moment, force=False) == {}
        assert await admin.reset_offset("billing", "orders", to="beginning", force=False) == {FIRST: 1}
    assert [frame.fields["offset"] for frame in broker.changes] == ["1"]


async def test_an_old_server_lets_us_commit_while_no_member_is_online(serve: Serve) -> None:
    broker = Broker(OLD)
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        assert await admin.reset_offset("billing", "orders", to=moment) == {FIRST: 5, SECOND: 0}
        assert await admin.reset_offset("billing", "orders", to={FIRST: 9}) == {FIRST: 9}
    assert [(frame.code, frame.fields["queueId"], frame.fields["commitOffset"]) for frame in broker.changes] == [
        (15, "0", "5"), (15, "1", "0"), (15, "0", "9")
    ]  # fmt: skip


async def test_an_old_server_notifies_members_that_are_online(serve: Serve) -> None:
    broker = Broker(OLD, members={"one": b""})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to="end", force=False) == {FIRST: 1, SECOND: 2}
        with pytest.raises(NotSupportedError, match=r"older than 5\.2, and the group has members"):
            await admin.reset_offset("billing", "orders", to={FIRST: 9})
    assert [frame.fields["isForce"] for frame in broker.changes] == ["false"]


async def test_a_refused_reset_reaches_the_caller(serve: Serve) -> None:
    server = await serve(Broker(answers={222: lambda frame: reply(frame, 1)}))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(ServerError, match="topic 'orders', group 'billing'"):
            await admin.reset_offset("billing", "orders", to="end")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"offsetTable":{"{}":1}}', table({FIRST: "1"})])
async def test_a_damaged_answer_to_a_reset_is_one_error(serve: Serve, body: bytes) -> None:
    server = await serve(Broker(answers={222: lambda frame: reply(frame, body=body)}))
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="offsets that were reset that cannot be decoded"):
            await admin.reset_offset("billing", "orders", to="end")


@pytest.mark.parametrize("answered", [{}, {"offset": "x"}, {"offset": "²"}], ids=["none", "text", "digit"])
async def test_a_search_without_a_number_is_one_error(serve: Serve, answered: Mapping[str, str]) -> None:
    broker = Broker(
        OLD, answers={29: lambda frame: reply(frame, 0, None, version=OLD, remark="", **answered)}
    )
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(MalformedAnswerError, match="offset is"):
            await admin.reset_offset("billing", "orders", to=datetime(2026, 1, 1, tzinfo=UTC))
    assert broker.changes == []


@pytest.mark.parametrize(
    ("to", "told"),
    [
        (datetime(2026, 1, 1), "no time zone"),
        ("begin", "'beginning', 'end', a time or offsets by queue, not 'begin'"),
        ({}, "at least one queue"),
        ({FIRST: 10}, "must be 1 to 9, got 10"),
        ({FIRST: 0}, "must be 1 to 9, got 0"),
        ({MessageQueue("orders", "broker-a", 2): 0}, "has no queue 2 on broker 'broker-a'"),
    ],
)
@pytest.mark.parametrize("version", [NEW, OLD])
async def test_a_target_that_cannot_be_changes_nothing(
    serve: Serve, to: Any, told: str, version: int
) -> None:
    broker = Broker(version)
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        with pytest.raises(ValueError, match=told):
            await admin.reset_offset("billing", "orders", to=to)
        with pytest.raises(TypeError, match="must be an integer"):
            await admin.reset_offset("billing", "orders", to={FIRST: 1.5})  # type: ignore[dict-item]  # on purpose
        with pytest.raises(GroupNotFoundError):
            await admin.reset_offset("shipping", "orders", to="end")
        with pytest.raises(TopicNotFoundError):
            await admin.reset_offset("billing", "refunds", to="end")
    assert broker.changes == []
