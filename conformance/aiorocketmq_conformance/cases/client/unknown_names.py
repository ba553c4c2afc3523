"""Unknown groups and topics: responses to clients that name them, and which of them are created."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_topic
from aiorocketmq_conformance.consumer import EMPTY, LEASE, SHORT_POLL, answered
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.telemetry import StreamEnded

REFUSALS = {"CONSUMER_GROUP_NOT_FOUND", "INTERNAL_SERVER_ERROR"}
KINDS = {"push": pb.ClientType.PUSH_CONSUMER, "simple": pb.ClientType.SIMPLE_CONSUMER}


async def _gets_messages(fixture: Fixture, client: ProbeClient, topic: str, group: str) -> None:
    """Assert that a group created by a receive gets messages like any other."""
    (sent,) = await fixture.send(topic, "m")
    answer = await client.receive(topic, group, poll=10.0, invisible=LEASE)
    assert [one.id for one in answer.deliveries] == [sent.id], "created by its receive, but receives nothing"
    acked = await client.ack(topic, group, *answer.deliveries)
    assert code_of(acked) == "OK"


async def _uses(fixture: Fixture, client: ProbeClient, topic: str, group: str) -> None:
    """Assert that a receive of the group is answered as declared: the group is created, or refused."""
    code = answered(await client.receive(topic, group, poll=SHORT_POLL, invisible=LEASE))
    if fixture.numbers["group.receive"] == "refused":
        assert code in REFUSALS, f"a receive of an unknown group was answered with {code}"
        return
    assert code in EMPTY, f"a receive of an unknown group was answered with {code}"
    await _gets_messages(fixture, client, topic, group)


async def _is_refused(client: ProbeClient, settings: pb.Settings) -> None:
    ended = "not at all"
    try:
        await client.send_settings(settings)
    except StreamEnded as refusal:
        ended = refusal.code
    assert ended == "INVALID_ARGUMENT", f"refused: {ended}"


@case("simple.unknown-group", rules=("R5.1", "R10.2"), level=SHOULD)
async def unknown_group_receive(fixture: Fixture) -> None:
    """A receive of an unknown group is refused, or creates the group, which then gets messages like any other."""
    topic = await fixture.topic(1)
    consumer = await fixture.consumer(topic, prime=False)
    unknown = fixture.fresh("unknown")
    code = answered(await consumer.client.receive(topic, unknown))
    fixture.note("answer", code)
    assert code in EMPTY | REFUSALS, f"answered with {code}"
    if code in EMPTY:
        await _gets_messages(fixture, consumer.client, topic, unknown)


@case("life.unknown-group", rules=("R2.6", "R10.2"), level=SHOULD, params=KINDS)
async def unknown_group(fixture: Fixture, kind: int) -> None:
    """Settings and heartbeats of a {} consumer of an unknown group are accepted, or refused; as declared."""
    topic = await fixture.topic(1)
    group, client = fixture.fresh("unknown"), await fixture.client()
    settings = requests.consumer_settings(group, {topic: "*"}, kind)
    if fixture.numbers["group.lookup"] == "refused":
        await _is_refused(client, settings)
        return
    answered = await client.send_settings(settings)
    assert not answered.subscription.fifo, "an unknown group is ordered"
    beat = await client.heartbeat(group, kind)
    assert code_of(beat) == "OK"
    await _uses(fixture, client, topic, group)


@case("life.unknown-group-heartbeat", rules=("R2.14", "R10.2"), level=SHOULD)
async def unknown_group_heartbeat(fixture: Fixture) -> None:
    """A heartbeat of an unknown group is OK, or refused with ILLEGAL_CONSUMER_GROUP; as declared."""
    consumer = await fixture.consumer(await fixture.topic(1))
    beat = await consumer.client.heartbeat(fixture.fresh("unknown"), consumer.kind)
    refused = fixture.numbers["group.lookup"] == "refused"
    assert code_of(beat) == ("ILLEGAL_CONSUMER_GROUP" if refused else "OK")


@case("lb.unknown-group", rules=("R3.8", "R10.2"), level=SHOULD)
async def unknown_group_assignment(fixture: Fixture) -> None:
    """A consumer of an unknown group is assigned the same as one of an unordered group: one queue, -1."""
    topic, consumer = await fixture.subscribed(3)
    answer = await consumer.client.query_assignment(topic, fixture.fresh("unknown"))
    assert code_of(answer) == "OK"
    assert [each.message_queue.id for each in answer.assignments] == [-1]


@case("fifo.unknown-group", rules=("R10.2", "R8.1"), level=SHOULD, needs=("type.fifo",))
async def unknown_ordered_group(fixture: Fixture) -> None:
    """A group created by a receive from an ordered topic is not ordered: messages after an in-flight one are
    delivered."""
    topic, consumer = await fixture.subscribed(1, type="FIFO")
    group = fixture.fresh("unknown")
    code = answered(await consumer.client.receive(topic, group, poll=SHORT_POLL, invisible=LEASE))
    if fixture.numbers["group.receive"] == "refused":
        assert code in REFUSALS, f"answered with {code}"
        return
    # Whether messages are delivered in order follows from the receiver's settings.
    member = await fixture.consumer(topic, group=group)
    assert member.client.settings is not None
    assert not member.client.settings.subscription.fifo, "created by a receive, but ordered"
    first, second = await fixture.send(topic, "1", "2", group="one")
    deliveries = [await member.one(), await member.one()]
    assert sorted(one.id for one in deliveries) == sorted([first.id, second.id])
    await member.ack(*deliveries)


@case("simple.unknown-group-change", rules=("R6.12", "R10.2"), level=SHOULD)
async def unknown_group_change(fixture: Fixture) -> None:
    """A change of a lease in the name of an unknown group does not affect the lease."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=60.0)
    stranger = replace(leased, group=fixture.fresh("unknown"))
    answer = await consumer.client.change_invisible(stranger, 0.0)
    fixture.note("answer", code_of(answer))
    await fixture.expect_nothing(consumer, 12.0, "redelivered during its lease", settle=False)
    await consumer.ack(leased)


@case("dlq.unknown-group", rules=("R6.19", "R10.2"), level=SHOULD, needs=("dlq",))
async def unknown_group_forward(fixture: Fixture) -> None:
    """A forward in the name of an unknown group is refused and moves nothing, or creates its dead letter."""
    topic, consumer = await fixture.subscribed(1)
    (sent,) = await fixture.send(topic, "m")
    leased = await consumer.one(invisible=60.0)
    group = fixture.fresh("unknown")
    answer = await consumer.client.forward_to_dead_letters(replace(leased, group=group), 3)
    code = code_of(answer)
    route = await consumer.client.query_route(dead_letter_topic(group))
    if fixture.numbers["group.receive"] == "refused":
        assert code == "CONSUMER_GROUP_NOT_FOUND", f"answered with {code}"
        assert code_of(route) == "TOPIC_NOT_FOUND", "refused, but a dead-letter topic exists"
    else:
        assert code == "OK", f"answered with {code}"
        reader = await fixture.consumer(dead_letter_topic(group), prime=False)
        dead = await reader.take(1, within=30.0)
        assert [one.id for one in dead] == [sent.id]
    await consumer.ack(leased)


@case("life.unknown-topic", rules=("R2.6", "R4.7"), level=SHOULD)
async def unknown_topic(fixture: Fixture) -> None:
    """Settings of producers and consumers may name unknown topics, and do not create them."""
    names = [fixture.fresh("nowhere") for _ in range(2)]
    group = await fixture.group()
    client = await fixture.client()
    for settings in (
        requests.producer_settings(names[0]),
        requests.consumer_settings(group, {names[1]: "*"}),
    ):
        await (await fixture.client()).send_settings(settings)
    for name in names:
        route = await client.query_route(name)
        assert code_of(route) == "TOPIC_NOT_FOUND", f"{name} was created"


@case("dlq.unknown-topic", rules=("R5.1", "R10.2"), level=SHOULD, needs=("dlq",))
async def unknown_dead_letters(fixture: Fixture) -> None:
    """A receive from the dead letters of an unknown group is refused like one from any unknown topic."""
    consumer = await fixture.consumer(await fixture.topic(1))
    dead = f"%DLQ%{fixture.fresh('unknown')}"
    code = answered(await consumer.client.receive(dead, consumer.group, poll=SHORT_POLL, invisible=LEASE))
    assert code == fixture.numbers["receive.unknown-topic"], f"answered with {code}"
    route = await consumer.client.query_route(dead)
    assert code_of(route) == "TOPIC_NOT_FOUND", "the receive created a topic"


@case("simple.closed-groups", rules=("R10.2", "R5.1"), level=SHOULD, needs=("closed",))
async def closed_groups(fixture: Fixture) -> None:
    """If only administrators create groups, receives and forwards of unknown groups are refused and create none."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "m")
    leased = await consumer.one(invisible=60.0)
    group = fixture.fresh("unknown")
    for _ in range(2):
        code = answered(await consumer.client.receive(topic, group, poll=SHORT_POLL, invisible=LEASE))
        assert code in REFUSALS, f"a receive was answered with {code}"
        answer = await consumer.client.forward_to_dead_letters(replace(leased, group=group), 3)
        assert code_of(answer) == "CONSUMER_GROUP_NOT_FOUND"
    route = await consumer.client.query_route(dead_letter_topic(group))
    assert code_of(route) == "TOPIC_NOT_FOUND", "refused, but a dead-letter topic exists"
    await consumer.ack(leased)


@case("life.closed-groups", rules=("R2.6", "R2.14"), level=SHOULD, needs=("closed",))
async def closed_groups_session(fixture: Fixture) -> None:
    """If only administrators create groups, settings and heartbeats of unknown groups are refused; as declared."""
    topic = await fixture.topic(1)
    consumer, group, client = await fixture.consumer(topic), fixture.fresh("unknown"), await fixture.client()
    settings = requests.consumer_settings(group, {topic: "*"}, consumer.kind)
    refused = fixture.numbers["group.closed-lookup"] == "refused"
    if refused:
        await _is_refused(client, settings)
    else:
        await client.send_settings(settings)
    beat = await consumer.client.heartbeat(group, consumer.kind)
    assert code_of(beat) == ("ILLEGAL_CONSUMER_GROUP" if refused else "OK")
