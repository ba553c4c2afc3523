"""Client lifecycle, settings, routes: inventory 4.1."""

from __future__ import annotations

from typing import Any

import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of, seconds_of
from aiorocketmq_conformance.probe.telemetry import StreamEnded

# Java's ClientSessionImpl fails if settings are not answered by then; plus a margin for a busy machine.
SETTINGS_WITHIN = 6.0


@case("life.settings-producer", rules=("R2.1", "R2.2", "R2.5"), prepared=("@topic",))
async def settings_producer(fixture: Fixture) -> None:
    """A producer's settings are answered on the same stream with limits, back-off and its own topics."""
    topic = await fixture.topic()
    client = await fixture.client()
    stream = await client.open_stream()
    await stream.send(pb.TelemetryCommand(settings=requests.producer_settings(topic)))
    first = await stream.next(SETTINGS_WITHIN)
    assert first.WhichOneof("command") == "settings", f"the first command is {first.WhichOneof('command')}"
    assert first.status.code == pb.Code.OK
    settings = first.settings
    assert settings.client_type == pb.ClientType.PRODUCER
    assert [entry.name for entry in settings.publishing.topics] == [topic]
    assert settings.publishing.max_body_size == fixture.number("body.max")
    assert settings.publishing.validate_message_type
    policy = settings.backoff_policy
    growth = policy.exponential_backoff
    pauses = f"{seconds_of(growth.initial):g} to {seconds_of(growth.max):g} s by {growth.multiplier:g}"
    assert f"{policy.max_attempts} attempts, {pauses}" == fixture.numbers["send.backoff"]


@case(
    "life.settings-consumer",
    rules=("R2.2", "R2.9", "R7.5"),
    params={"normal-4": (False, 4), "ordered-17": (True, 17)},
)
async def settings_consumer(fixture: Fixture, group_of: tuple[bool, int]) -> None:
    """A push consumer's settings are answered with the order flag and the attempts of its group ({})."""
    ordered, attempts = group_of
    await _consumer_settings(fixture, pb.ClientType.PUSH_CONSUMER, ordered=ordered, attempts=attempts)


@case("life.settings-simple", rules=("R2.2", "R2.10"))
async def settings_simple(fixture: Fixture) -> None:
    """A simple consumer's settings are answered on the same stream like a push consumer's."""
    await _consumer_settings(fixture, pb.ClientType.SIMPLE_CONSUMER, ordered=False, attempts=17)


async def _consumer_settings(fixture: Fixture, kind: int, *, ordered: bool, attempts: int) -> None:
    topic = await fixture.topic()
    group = await fixture.group(ordered=ordered, max_attempts=attempts)
    client = await fixture.client()
    own = requests.consumer_settings(group, {topic: "*"}, kind)
    # What a client sends is replaced.
    own.backoff_policy.max_attempts = attempts + 1
    requests.duration(own.backoff_policy.customized_backoff.next.add(), 3.0)
    settings = await client.send_settings(own)
    assert settings.client_type == kind
    assert settings.subscription.group.name == group
    assert [entry.topic.name for entry in settings.subscription.subscriptions] == [topic]
    assert settings.subscription.fifo is ordered
    assert settings.subscription.receive_batch_size == fixture.number("batch.max")
    assert seconds_of(settings.subscription.long_polling_timeout) == fixture.number("poll.max")
    policy = settings.backoff_policy
    assert policy.max_attempts == attempts
    strategy = policy.WhichOneof("strategy")
    assert strategy, "no back-off strategy"
    if strategy == "customized_backoff":
        steps = " ".join(f"{seconds_of(step):g}" for step in policy.customized_backoff.next)
        assert steps == fixture.numbers["retry.steps"]


@case("life.settings-resend", rules=("R2.2", "R2.6"))
async def settings_resend(fixture: Fixture) -> None:
    """Settings sent again on an open stream are answered with the new subscriptions, and the stream stays open."""
    one, two = await fixture.topic(), await fixture.topic()
    group = await fixture.group()
    client = await fixture.client()
    first = await client.send_settings(requests.consumer_settings(group, {one: "a"}))
    second = await client.send_settings(requests.consumer_settings(group, {one: "a", two: "b"}))
    third = await client.send_settings(requests.consumer_settings(group, {two: "*"}))
    filters = [
        [(entry.topic.name, entry.expression.expression) for entry in reply.subscription.subscriptions]
        for reply in (first, second, third)
    ]
    assert filters == [[(one, "a")], [(one, "a"), (two, "b")], [(two, "*")]]


@case(
    "life.client-id-required",
    rules=("R1.1", "R1.2"),
    params={name: name for name, method in METHODS.items() if name in {
        "QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "AckMessage",
        "ForwardMessageToDeadLetterQueue", "EndTransaction", "ChangeInvisibleDuration", "NotifyClientTermination",
    }}, prepared=())  # fmt: skip
async def client_id_required(fixture: Fixture, name: str) -> None:
    """{} without the client-id header is refused with CLIENT_ID_REQUIRED."""
    client = await fixture.client(x_mq_client_id=None)
    response = await client.unary(name, METHODS[name].request())
    assert code_of(response) == "CLIENT_ID_REQUIRED"


@case("life.client-id-required", rules=("R1.2",), params={"Telemetry": None}, prepared=())
async def client_id_required_telemetry(fixture: Fixture, _: None) -> None:
    """Settings ({}) without the client-id header are refused and the stream is ended."""
    client = await fixture.client(x_mq_client_id=None)
    stream = await client.open_stream()
    await stream.send(pb.TelemetryCommand(settings=requests.producer_settings("any")))
    try:
        command = await stream.next()
    except StreamEnded as ended:
        code = f"grpc {ended.code}"
    else:
        code = code_of(command)
    # Either form of refusal is accepted (rule R1.2 against the contract), but OK is not.
    assert code == "CLIENT_ID_REQUIRED" or (code.startswith("grpc ") and code != "grpc OK"), (
        f"answered with {code}"
    )
    assert await stream.ended(SETTINGS_WITHIN) != "SILENCE", "refused, and the stream left open"


@case(
    "life.heartbeat-ok",
    rules=("R2.14",),
    params={"producer": "PRODUCER", "push": "PUSH_CONSUMER", "simple": "SIMPLE_CONSUMER"},
)
async def heartbeat_ok(fixture: Fixture, kind_name: str) -> None:
    """A heartbeat of a {} that sent its settings is OK."""
    kind = pb.ClientType.Value(kind_name)
    topic = await fixture.topic()
    client = await fixture.client()
    if kind == pb.ClientType.PRODUCER:
        await client.send_settings(requests.producer_settings(topic))
        reply = await client.heartbeat(kind=kind)
    else:
        group = await fixture.group()
        await client.send_settings(requests.consumer_settings(group, {topic: "*"}, kind))
        reply = await client.heartbeat(group, kind)
    assert code_of(reply) == "OK"


@case("life.heartbeat-unknown", rules=("R2.14",), prepared=())
async def heartbeat_unknown(fixture: Fixture) -> None:
    """A heartbeat of a client that never sent settings is refused with UNRECOGNIZED_CLIENT_TYPE."""
    client = await fixture.client()
    reply = await client.heartbeat()
    assert code_of(reply) == "UNRECOGNIZED_CLIENT_TYPE"


@case("life.terminate-ok", rules=("R2.16",))
async def terminate_ok(fixture: Fixture) -> None:
    """A terminated client is unregistered: its next heartbeat is refused with UNRECOGNIZED_CLIENT_TYPE."""
    topic = await fixture.topic()
    group = await fixture.group()
    client = await fixture.client()
    await client.send_settings(requests.consumer_settings(group, {topic: "*"}))
    assert code_of(await client.heartbeat(group, pb.ClientType.PUSH_CONSUMER)) == "OK"
    farewell = await client.terminate(group)
    assert code_of(farewell) == "OK"
    reply = await client.heartbeat(group, pb.ClientType.PUSH_CONSUMER)
    assert code_of(reply) == "UNRECOGNIZED_CLIENT_TYPE"


@case("life.stream-reconnect", rules=("R2.3", "R2.8", "R6.4"), timeout=90.0)
async def stream_reconnect(fixture: Fixture) -> None:
    """A consumer whose stream broke opens a new one, and can still ack the message that it has leased."""
    topic, consumer = await fixture.subscribed(queues=1)
    await fixture.send(topic, "held")
    leased = await consumer.one(invisible=10.0)
    assert consumer.client.stream is not None
    await consumer.client.stream.cut()
    consumer.client.stream = None
    await consumer.client.send_settings(
        requests.consumer_settings(consumer.group, {topic: "*"}, pb.ClientType.SIMPLE_CONSUMER)
    )
    await consumer.ack(leased)
    await fixture.expect_settled(consumer, 10.0, "acked over the new stream")


@case("life.stream-beside", rules=("R2.3", "R2.8"), timeout=90.0)
async def stream_beside(fixture: Fixture) -> None:
    """Of two streams of one client each answers the settings sent on it, and the end of the older one leaves the
    client registered and the newer one open."""
    topic, consumer = await fixture.subscribed(queues=1)
    client = consumer.client
    old = client.stream
    assert old is not None
    new = await client.open_stream()
    for stream in (new, old, new):
        settings = requests.consumer_settings(consumer.group, {topic: "*"}, pb.ClientType.SIMPLE_CONSUMER)
        reply = await stream.settings(settings)
        assert code_of(reply) == "OK"
    await client.close_streams(1)
    assert code_of(await client.heartbeat(consumer.group, consumer.kind)) == "OK"
    settings = requests.consumer_settings(consumer.group, {topic: "a"}, pb.ClientType.SIMPLE_CONSUMER)
    assert code_of(await new.settings(settings)) == "OK"
    await fixture.send(topic, "m", tag="a")
    await consumer.take(1, expression="a")


@case("life.route-ok", rules=("R3.2", "R3.3", "R3.4"), needs=("type.fifo",), prepared=("@topic",))
async def route_ok(fixture: Fixture) -> None:
    """A route names exactly the topic's queues, readable and writable, with its type and endpoints that answer."""
    topic = await fixture.topic(4, type="FIFO")
    client = await fixture.client()
    response = await client.query_route(topic)
    assert code_of(response) == "OK"
    queues = response.message_queues
    assert sorted(queue.id for queue in queues) == [0, 1, 2, 3]
    assert {pb.Permission.Name(queue.permission) for queue in queues} == {"READ_WRITE"}
    assert {queue.topic.name for queue in queues} == {topic}
    assert [list(queue.accept_message_types) for queue in queues] == [[pb.MessageType.FIFO]] * 4
    assert len({queue.broker.name for queue in queues}) == 1
    assert all(queue.broker.name for queue in queues), "a queue without broker name"
    for address in {(a.host, a.port) for queue in queues for a in queue.broker.endpoints.addresses}:
        await _answers(f"{address[0]}:{address[1]}", topic)
    assert all(queue.broker.endpoints.addresses for queue in queues), "a broker without address"


async def _answers(endpoint: str, topic: str) -> None:
    method = METHODS["QueryRoute"]
    request = pb.QueryRouteRequest(topic=requests.resource(topic))
    async with grpc.aio.insecure_channel(endpoint) as channel:
        call: Any = channel.unary_unary(
            method.path, lambda m: m.SerializeToString(), method.response.FromString
        )
        response = await call(request, metadata=(("x-mq-client-id", "dial"),), timeout=SETTINGS_WITHIN)
    assert code_of(response) == "OK", f"{endpoint} of the route does not serve the topic"


@case("life.route-unknown-topic", rules=("R3.1",), prepared=())
async def route_unknown_topic(fixture: Fixture) -> None:
    """The route of a topic that does not exist is refused with TOPIC_NOT_FOUND, also when queried again."""
    client = await fixture.client()
    topic = fixture.fresh("nowhere")
    codes = [code_of(await client.query_route(topic)) for _ in range(2)]
    assert codes == ["TOPIC_NOT_FOUND"] * 2


@case(
    "life.route-illegal-topic",
    rules=("R3.1",),
    params={"characters": "no spaces!", "blank": "", "long": "t" * 128, "system": "TBW102"},
    prepared=(),
)
async def route_illegal_topic(fixture: Fixture, topic: str) -> None:
    """The route of an illegal topic name ({}) is refused with ILLEGAL_TOPIC."""
    client = await fixture.client()
    response = await client.query_route(topic)
    assert code_of(response) == "ILLEGAL_TOPIC"


@case("life.assignment-covers", rules=("R3.7", "R3.8"), params={"1-client": 1, "3-clients": 3})
async def assignment_covers(fixture: Fixture, count: int) -> None:
    """The assignments of {} of an unordered group cover every readable queue; -1 stands for all of a broker."""
    topic = await fixture.topic(4)
    group = await fixture.group()
    covered: set[int] = set()
    for _ in range(count):
        client = await fixture.client()
        await client.send_settings(requests.consumer_settings(group, {topic: "*"}))
        response = await client.query_assignment(topic, group)
        assert code_of(response) == "OK"
        for assignment in response.assignments:
            assert assignment.message_queue.topic.name == topic
            assert assignment.message_queue.permission in {pb.Permission.READ, pb.Permission.READ_WRITE}
            broker = assignment.message_queue.broker
            assert broker.name
            assert broker.endpoints.addresses, "an assignment without an endpoint"
            queue = assignment.message_queue.id
            covered |= set(range(4)) if queue == -1 else {queue}
    assert covered == {0, 1, 2, 3}
