"""Client lifecycle at its edges: refused settings and heartbeats, permissions, groups that change: inventory 4.1."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.tolerances import PROMPT

ENDS_WITHIN = 6.0
# A client expires after 120 s, scanned for every 10 s; then its messages are redelivered.
FORGOTTEN = 180.0


@case("life.settings-group-change", rules=("R2.9",), level=SHOULD, timeout=120.0)
async def settings_group_change(fixture: Fixture) -> None:
    """When a group's attempts and order flag are changed, settings sent again show it within 60 s."""
    topic = await fixture.topic()
    group = await fixture.group(max_attempts=17)
    client = await fixture.client()
    settings = requests.consumer_settings(group, {topic: "*"})
    first = await client.send_settings(settings)
    assert (first.subscription.fifo, first.backoff_policy.max_attempts) == (False, 17)
    await fixture.group(group, ordered=True, max_attempts=5)
    changed = fixture.clock.now()
    while True:
        now = await client.send_settings(settings)
        current = (now.subscription.fifo, now.backoff_policy.max_attempts)
        if current == (True, 5) or fixture.clock.now() > changed + 60.0:
            break
        await fixture.clock.sleep(2.0)
    fixture.note("seen_after", round(fixture.clock.now() - changed, 2))
    assert current == (True, 5), f"after 60 s settings still are {current}"


async def _ended_by(fixture: Fixture, settings: pb.Settings) -> str:
    """Return how the stream that was opened with these settings ends."""
    client = await fixture.client()
    stream = await client.open_stream()
    await stream.send(pb.TelemetryCommand(settings=settings))
    return await stream.ended(ENDS_WITHIN)


@case("life.settings-no-pubsub", rules=("R2.4", "R1.6"), level=SHOULD, prepared=())
async def settings_no_pubsub(fixture: Fixture) -> None:
    """Settings with neither a publishing nor a subscription part end the stream with INVALID_ARGUMENT."""
    assert await _ended_by(fixture, pb.Settings(client_type=pb.ClientType.PRODUCER)) == "INVALID_ARGUMENT"


@case("life.settings-illegal", rules=("R2.5", "R2.6"), level=SHOULD, params={"topic": True, "group": False})
async def settings_illegal(fixture: Fixture, of_topic: bool) -> None:
    """Settings with an illegal {} end their stream with INVALID_ARGUMENT, and no other."""
    topic = await fixture.topic()
    bystander = await fixture.producer(topic)
    wrong = (
        requests.producer_settings("no spaces!")
        if of_topic
        else requests.consumer_settings("no spaces!", {topic: "*"})
    )
    assert await _ended_by(fixture, wrong) == "INVALID_ARGUMENT"
    await bystander.send_settings(requests.producer_settings(topic))


@case("life.heartbeat-illegal-group", rules=("R2.14",), level=SHOULD)
async def heartbeat_illegal_group(fixture: Fixture) -> None:
    """A consumer's heartbeat for an illegal group is refused with ILLEGAL_CONSUMER_GROUP."""
    topic = await fixture.topic()
    group = await fixture.group()
    client = await fixture.client()
    await client.send_settings(requests.consumer_settings(group, {topic: "*"}))
    reply = await client.heartbeat("no spaces!", pb.ClientType.PUSH_CONSUMER)
    assert code_of(reply) == "ILLEGAL_CONSUMER_GROUP"


@case("life.terminate-unknown", rules=("R2.16",), level=SHOULD, prepared=())
async def terminate_unknown(fixture: Fixture) -> None:
    """The termination of an unknown client is refused with UNRECOGNIZED_CLIENT_TYPE."""
    client = await fixture.client()
    reply = await client.terminate()
    code = code_of(reply)
    assert code == "UNRECOGNIZED_CLIENT_TYPE", f"answered with {code} ({reply.status.message})"


@case("life.server-survives-bad-command", rules=("R2.11",), level=SHOULD, prepared=("@topic",))
async def server_survives_bad_command(fixture: Fixture) -> None:
    """After an unsolicited response, settings on that stream, or on a new one, are answered."""
    topic = await fixture.topic()
    client = await fixture.client()
    await client.send_settings(requests.producer_settings(topic))
    assert client.stream is not None
    stranger = pb.TelemetryCommand(
        thread_stack_trace=pb.ThreadStackTrace(nonce="12345678", thread_stack_trace="none")
    )
    await client.stream.send(stranger)
    await client.send_settings(requests.producer_settings(topic))


@case("life.language-unknown", rules=("R1.1",), level=INFORMATIONAL, prepared=("@topic",))
async def language_unknown(fixture: Fixture) -> None:
    """A client with an unknown language is served."""
    topic = await fixture.topic()
    client = await fixture.client(x_mq_language="COBOL")
    try:
        code = code_of(await client.query_route(topic))
    except CallFailed as failed:
        code = failed.code
    fixture.note("route", code)
    plain = await fixture.client()
    assert code_of(await plain.query_route(topic)) == "OK", "the server no longer answers"
    assert code == "OK", f"a route was answered with {code}"


@case(
    "life.route-permission",
    rules=("R3.3",),
    level=SHOULD,
    prepared=("@topic",),
    params={"r": ("r", {"READ"}), "w": ("w", {"WRITE"})},
)
async def route_permission(fixture: Fixture, permission: tuple[str, set[str]]) -> None:
    """The route of a topic with permission {} has it on every queue."""
    permitted, expected = permission
    topic = await fixture.target.create_topic(permission=permitted, queues=4)
    client = await fixture.client()
    response = await client.query_route(topic)
    assert code_of(response) == "OK"
    assert {pb.Permission.Name(queue.permission) for queue in response.message_queues} == expected
    assert {queue.id for queue in response.message_queues} == {0, 1, 2, 3}


@case("life.assignment-fifo", rules=("R3.7",), level=SHOULD)
async def assignment_fifo(fixture: Fixture) -> None:
    """An ordered group is assigned every readable queue by its own id."""
    topic = await fixture.topic(4)
    group = await fixture.group(ordered=True)
    client = await fixture.client()
    await client.send_settings(requests.consumer_settings(group, {topic: "*"}))
    response = await client.query_assignment(topic, group)
    assert code_of(response) == "OK"
    assert sorted(one.message_queue.id for one in response.assignments) == [0, 1, 2, 3]


@case("life.assignment-unreadable", rules=("R3.6",), level=SHOULD)
async def assignment_unreadable(fixture: Fixture) -> None:
    """The assignment of a write-only topic is refused with FORBIDDEN."""
    topic = await fixture.target.create_topic(permission="w", queues=4)
    group = await fixture.group()
    client = await fixture.client()
    response = await client.query_assignment(topic, group)
    assert code_of(response) == "FORBIDDEN"


@case("life.settings-keep", rules=("R2.15",), level=SHOULD, timeout=300.0)
async def settings_keep(fixture: Fixture) -> None:
    """A client that sends its settings again, and no heartbeat, is not forgotten two minutes after the first ones."""
    topic, consumer = await fixture.subscribed(1)
    settings = requests.consumer_settings(consumer.group, {topic: "*"}, consumer.kind)
    await fixture.clock.sleep(0.45 * FORGOTTEN)
    await consumer.client.send_settings(settings)
    await fixture.clock.sleep(0.45 * FORGOTTEN)
    (sent,) = await fixture.send(topic, "m")
    answer = await consumer.client.receive(topic, consumer.group)
    assert [one.id for one in answer.deliveries] == [sent.id], f"answered with {code_name(answer.code)}"


@case("life.idle-client-expires", rules=("R2.15", "R7.9"), level=SHOULD, needs=("autorenew",), timeout=300.0)
async def idle_client_expires(fixture: Fixture) -> None:
    """Messages leased by a silent client are redelivered to another one within three minutes."""
    topic = await fixture.topic(1)
    silent = await fixture.consumer(topic, kind=pb.ClientType.PUSH_CONSUMER)
    other = await fixture.consumer(topic, group=silent.group, prime=False)
    await fixture.send(topic, "m")
    leased = await silent.one(auto_renew=True, invisible=None)
    silent.deliveries.clear()  # it can no longer be acknowledged
    await silent.client.disconnect()
    redelivery = await other.one(until=leased.at + FORGOTTEN + PROMPT, poll=20.0, within=FORGOTTEN + PROMPT)
    fixture.note("after", round(redelivery.at - leased.at, 1))
    assert (redelivery.id, redelivery.attempt) == (leased.id, 2)
    assert redelivery.at - leased.at <= FORGOTTEN + SHORT_POLL, (
        f"redelivered only after {redelivery.at - leased.at:.0f} s"
    )
    await other.ack(redelivery)
