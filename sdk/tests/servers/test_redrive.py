"""Dead letters go back to where they came from: once, in order, in parts, and only those that are meant."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import Admin, DeadLetter, DeadLetterFilter, Message, Producer, PushConsumer, Redriven
from aiorocketmq.cli.groups import group as group_command
from aiorocketmq.errors import NotFoundError, TopicNotFoundError, UnreachableError, UsageError
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.pull_consumer import Offset, PullConsumer
from aiorocketmq.redrive import BATCH, progress_group, redrive
from click.testing import CliRunner

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

FAKES = ("documented", "apache-5.5")
PATIENCE = 60.0


@pytest.fixture(params=["grpc", "namesrv"])
def wire(request: pytest.FixtureRequest, place: Place) -> str:
    """How the messages became dead letters."""
    if request.param == "grpc":
        _ = place.endpoint  # skips servers without it
    return str(request.param)


async def kill(
    place: Place,
    wire: str,
    group: str,
    topic: str,
    messages: list[Message],
    *,
    error: type[Exception] = DeadLetter,
    ordered: bool = False,
    until: int | None = None,
) -> list[str]:
    """Send the messages and let the group fail at all that it gets until there are `until` dead letters, by default one
    for each; return the ids."""

    async def handle(message: ReceivedMessage) -> None:
        raise error("no use")

    address = place.at(wire)
    options: dict[str, Any] = {} if wire == "grpc" else {"start": Offset.BEGIN, "ordered": ordered}
    async with (
        asyncio.timeout(2 * PATIENCE),
        Admin(place.namesrv) as admin,
        PushConsumer(address, group=group, subscriptions=[topic], handler=handle, **options),
        Producer(address) as producer,
    ):
        sent = [(await producer.send(message)).message_id for message in messages]
        # Servers move them at their own pace, without an event.
        while await dead(admin, group) < (len(messages) if until is None else until):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return sent


async def dead(admin: Admin, group: str) -> int:
    """How many dead letters the group has."""
    try:
        return sum(span.max_offset for span in await admin.spans(f"%DLQ%{group}"))
    except TopicNotFoundError:
        return 0


async def read(place: Place, topic: str, *, skip: int, count: int) -> list[ReceivedMessage]:
    """The messages of a topic behind the first `skip` of it."""
    messages: list[ReceivedMessage] = []
    async with asyncio.timeout(PATIENCE), PullConsumer(place.namesrv, group=place.name("reader")) as reader:
        reader.assign(await reader.queues(topic))
        while len(messages) < skip + count:
            batch = await reader.poll(PATIENCE)
            assert batch is not None
            messages += batch
    return messages[skip:]


def numbered(topic: str, *numbers: int, **fields: Any) -> list[Message]:
    return [Message(topic, b"%d" % number, **fields) for number in numbers]


async def test_dead_letters_are_sent_back_as_they_were_and_only_once(place: Place, wire: str) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2, backoff=[1.0])
    messages = [
        Message(topic, b"%d" % number, tag="t", keys=["a", "b"], properties={"n": str(number)})
        for number in range(5)
    ]
    sent = await kill(place, wire, group, topic, messages)
    async with Admin(place.namesrv) as admin:
        expected = Redriven(read=5, sent={topic: 5})
        assert await admin.redrive(group, dry_run=True) == expected
        assert await admin.redrive(group) == expected
        assert await admin.redrive(group) == Redriven()
        assert await dead(admin, group) == 5
    again = await read(place, topic, skip=5, count=5)
    assert sorted(message.message_id for message in again) == sorted(sent)
    for message in again:
        assert (message.tag, message.keys, message.properties) == (
            "t",
            ("a", "b"),
            {"n": message.body.decode()},
        )


async def test_messages_that_failed_often_go_to_their_first_topic(place: Place, wire: str) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2, backoff=[1.0])
    await kill(place, wire, group, topic, numbered(topic, 1, 2), error=RuntimeError)
    async with Admin(place.namesrv) as admin:
        assert await admin.redrive(group) == Redriven(read=2, sent={topic: 2})


async def test_what_fails_again_waits_for_the_next_call(place: Place, wire: str) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2, backoff=[1.0])
    await kill(place, wire, group, topic, numbered(topic, 1, 2, 3))
    async with Admin(place.namesrv) as admin:
        assert (await admin.redrive(group)).total == 3
        # The three once more, and a new one.
        await kill(place, wire, group, topic, numbered(topic, 4), until=7)
        assert (await admin.redrive(group)).total == 4


async def test_what_could_not_be_sent_is_sent_by_the_next_call(place: Place) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    await kill(place, "namesrv", group, topic, numbered(topic, 1, 2, 3))
    async with Admin(place.namesrv) as admin:
        with pytest.raises(TopicNotFoundError):
            await admin.redrive(group, to=place.name("missing"))
        assert (await admin.redrive(group)).total == 3


async def test_one_message_that_cannot_be_sent_stops_its_whole_batch(place: Place) -> None:
    topic, missing, group = await place.topic(), await place.topic(), await place.group(max_attempts=2)
    await kill(place, "namesrv", group, topic, numbered(topic, 1))
    await kill(place, "namesrv", group, missing, numbered(missing, 2), until=2)
    async with Admin(place.namesrv) as admin:
        await admin.delete_topic(missing)
        with pytest.raises(TopicNotFoundError):
            await admin.redrive(group)
        assert await admin.redrive(group, to=topic) == Redriven(read=2, sent={topic: 2})


async def test_letters_that_never_come_are_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    await kill(place, "namesrv", group, topic, numbered(topic, 1))
    async with Admin(place.namesrv) as admin:
        (span,) = await admin.spans(f"%DLQ%{group}")
    monkeypatch.setattr("aiorocketmq.redrive._PATIENCE", 0.1)
    options: dict[str, Any] = {"to": None, "chosen": DeadLetterFilter(), "limit": None, "dry_run": True}
    options |= {"on_progress": None, "credentials": None, "tls": None}
    with pytest.raises(UnreachableError, match=r"no dead letters came for 0\.1 s, though 1 queues have more"):
        await redrive(place.namesrv, group, {span.queue: 2}, **options)


async def test_what_became_a_dead_letter_after_the_beginning_waits_for_the_next_call(place: Place) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    await kill(place, "namesrv", group, topic, numbered(topic, 1, 2, 3))
    options: dict[str, Any] = {"to": None, "chosen": DeadLetterFilter(), "limit": None, "dry_run": False}
    options |= {"on_progress": None, "credentials": None, "tls": None}
    async with Admin(place.namesrv) as admin:
        (span,) = await admin.spans(f"%DLQ%{group}")
        await admin.create_group(progress_group(group, DeadLetterFilter()))
    for end, total in ((2, 2), (2, 0), (3, 1)):
        assert (await redrive(place.namesrv, group, {span.queue: end}, **options)).total == total


async def test_parts_of_any_size_add_up(place: Place) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    messages = [*numbered(topic, *range(BATCH - 4)), *numbered(topic, *range(BATCH - 4, 70), tag="late")]
    await kill(place, "namesrv", group, topic, messages)
    totals: list[int] = []
    async with Admin(place.namesrv) as admin:
        counted: list[Redriven] = []
        await admin.redrive(group, dry_run=True, on_progress=counted.append)
        assert counted[-1].total == 70
        for limit in (1, BATCH + 2, 100):
            heard: list[Redriven] = []
            done = await admin.redrive(group, limit=limit, on_progress=heard.append)
            assert heard[-1] == done
            totals.append(done.total)
    assert totals == [1, BATCH + 2, 69 - BATCH - 2]
    again = await read(place, topic, skip=70, count=70)
    assert sorted(int(message.body) for message in again) == [*range(70)]
    async with Admin(place.namesrv) as admin:
        chosen = DeadLetterFilter(tag="late")
        parts = [
            await admin.redrive(group, chosen=chosen, limit=6, dry_run=dry) for dry in (True, False, False)
        ]
    assert [part.total for part in parts] == [6, 6, 4]


async def test_each_filter_has_a_progress_of_its_own(place: Place) -> None:
    topic, other, group = await place.topic(), await place.topic(), await place.group(max_attempts=2)
    began = datetime.now(UTC) - timedelta(hours=1)
    messages = [*numbered(topic, 1, tag="a"), *numbered(topic, 2, tag="b", keys=["k"])]
    await kill(place, "namesrv", group, topic, messages)
    async with Admin(place.namesrv) as admin:
        for chosen, total in (
            (DeadLetterFilter(tag="a"), 1),
            (DeadLetterFilter(tag="a"), 0),
            (DeadLetterFilter(tag="b", key="other"), 0),
            (DeadLetterFilter(key="k"), 1),
            (DeadLetterFilter(topic=other), 0),
            (DeadLetterFilter(topic=topic, until=began), 0),
            (DeadLetterFilter(topic=topic, since=began), 2),
        ):
            assert (await admin.redrive(group, chosen=chosen, to=other)).total == total, chosen
    bodies = [message.body for message in await read(place, other, skip=0, count=4)]
    assert sorted(bodies) == [b"1", b"1", b"2", b"2"]


async def test_messages_of_a_group_stay_in_order(place: Place) -> None:
    topic, group = await place.topic(kind="FIFO", queues=3), await place.group(ordered=True, max_attempts=2)
    numbers = range(20)
    messages = [Message(topic, b"%02d" % number, message_group=f"g{number % 3}") for number in numbers]
    await kill(place, "namesrv", group, topic, messages, ordered=True)
    async with Admin(place.namesrv) as admin:
        assert (await admin.redrive(group)).total == 20
    order: dict[str | None, list[bytes]] = {}
    async with asyncio.timeout(PATIENCE), PullConsumer(place.namesrv, group=place.name("reader")) as reader:
        reader.assign(await reader.queues(topic))
        while sum(map(len, order.values())) < 40:
            for message in await reader.poll(PATIENCE) or ():
                order.setdefault(message.message_group, []).append(message.body)
    for bodies in order.values():
        assert len(bodies) == 2 * len(set(bodies))
        assert bodies[len(bodies) // 2 :] == sorted(set(bodies))


async def test_urgent_messages_stay_urgent(place: Place, wire: str) -> None:
    if place.is_old:
        pytest.skip(f"{place.target} knows no priorities")
    topic, group = (
        await place.topic(kind="PRIORITY", queues=3),
        await place.group(max_attempts=2, backoff=[1.0]),
    )
    await kill(place, wire, group, topic, numbered(topic, 1, priority=1) + numbered(topic, 100, priority=100))
    async with Admin(place.namesrv) as admin:
        assert (await admin.redrive(group)).total == 2
    messages = await read(place, topic, skip=0, count=4)
    assert sorted((message.priority, message.queue.id, message.body) for message in messages) == [
        *[(1, 1, b"1")] * 2,
        *[(100, 2, b"100")] * 2,
    ]


async def test_the_command_counts_first_and_sends_then(place: Place) -> None:
    topic, group = await place.topic(), await place.group(max_attempts=2)
    await kill(place, "namesrv", group, topic, numbered(topic, 1, 2, tag="t"))
    server = ("--endpoint", place.namesrv)

    async def run(*options: str) -> str:
        result = await asyncio.to_thread(
            CliRunner().invoke, group_command, ["redrive", group, *options, *server]
        )
        assert result.exit_code == 0, result.output
        return result.output

    tomorrow, yesterday = (datetime.now(UTC) + timedelta(days=days) for days in (1, -1))
    for name, value in {
        "--tag": "u", "--key": "other", "--topic": "other",
        "--since": tomorrow.isoformat(), "--until": yesterday.isoformat(),
    }.items():  # fmt: skip
        counted = await run("--dry-run", name, value)
        assert counted == "0 of 2 dead letters would be sent, 2 filtered out, 0 unusable\n", name
    assert (await run("--dry-run", "--to", "refunds")).startswith("2 would be sent to refunds\n")
    assert await run("--limit", "1") == (
        f"1 sent to {topic}\n1 of 1 dead letters sent, 0 filtered out, 0 unusable\n"
    )
    (row,) = json.loads(await run("--json"))
    assert row == {"read": 1, "sent": {topic: 1}, "filtered": 0, "unusable": []}


async def test_bad_calls_say_what_is_wrong(place: Place) -> None:
    group = await place.group()
    async with Admin(place.namesrv) as admin:
        with pytest.raises(NotFoundError, match=f"group '{group}' has no dead letters"):
            await admin.redrive(group)
        with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
            await admin.redrive(group, limit=0)
        with pytest.raises(ValueError, match="group 'a b' must consist of"):
            await admin.redrive("a b")
        with pytest.raises(ValueError, match="topic 'a b' must consist of"):
            await admin.redrive(group, to="a b")
    async with Admin(place.namesrv.replace("namesrv", "broker")) as admin:
        with pytest.raises(UsageError, match="give the address of a name server"):
            await admin.redrive(group)
