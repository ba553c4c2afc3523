"""Limits of names and of whole requests: inventory 4.15."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, case
from aiorocketmq_conformance.cases.limits.messages import judge
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, check_served
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.telemetry import StreamEnded

# Field 200 of any message, length-delimited: in no schema.
UNKNOWN_FIELD = b"\xc2\x0c\x07unknown"


@case(
    "limit.topic-name",
    rules=("13.2", "R3.1"),
    params={"chars": "not a topic!", "128": "t" * 128, "system": "TBW102", "empty": ""},
    prepared=(),
)
async def topic_name(fixture: Fixture, name: str) -> None:
    """Route, send and receive of an illegal topic name ({}) are refused with ILLEGAL_TOPIC."""
    client = await fixture.client()
    group = fixture.fresh("group")
    codes = {
        "route": (await client.query_route(name)).status.code,
        "send": (await client.send(requests.message(name, "1"))).status.code,
        "assignment": (await client.query_assignment(name, group)).status.code,
        "ack": (await client.ack(name, group, ("id", "handle"))).status.code,
    }
    names = {what: code_name(code) for what, code in codes.items()}
    assert set(names.values()) == {"ILLEGAL_TOPIC"}, f"answered with {names}"


@case("limit.topic-name", rules=("13.2",), params={"64": 64})
async def topic_name_long(fixture: Fixture, length: int) -> None:
    """A topic name of {} characters is legal: it can be sent to and received from."""
    name = fixture.fresh("topic")
    topic = await fixture.target.create_topic(name + "x" * (length - len(name)))
    # Primed here: a refused name must fail the case, not make it inconclusive.
    consumer = await fixture.consumer(topic, prime=False)
    check_served(await consumer.receive(poll=SHORT_POLL, invisible=LEASE))
    (sent,) = await fixture.send(topic, "1")
    assert [delivery.id for delivery in await consumer.take(1)] == [sent.id]


@case(
    "limit.group-name",
    rules=("13.2", "R2.6"),
    prepared=("@topic",),
    params={"chars": "not a group!", "121": "g" * 121, "system": "CID_RMQ_SYS_x", "empty": ""},
)
async def group_name(fixture: Fixture, name: str) -> None:
    """Settings, assignment and ack of an illegal group name ({}) are refused."""
    topic = await fixture.topic()
    client = await fixture.client()
    codes = {
        "assignment": (await client.query_assignment(topic, name)).status.code,
        "ack": (await client.ack(topic, name, ("id", "handle"))).status.code,
    }
    names = {what: code_name(code) for what, code in codes.items()}
    assert set(names.values()) == {"ILLEGAL_CONSUMER_GROUP"}, f"answered with {names}"
    assert await ends_with(client, requests.consumer_settings(name, {topic: "*"})) == "INVALID_ARGUMENT"


@case("limit.names", rules=("13.2",), prepared=("@topic",))
async def names(fixture: Fixture) -> None:
    """Names up to the longest, of all legal characters and beside reserved ones are legal; reserved ones, longer ones
    and those with any other character are not."""
    topic = await fixture.topic()
    client = await fixture.client()
    stem = fixture.fresh("a")
    reserved = (
        *(
            "TBW102",
            "SCHEDULE_TOPIC_XXXX",
            "BenchmarkTest",
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "RMQ_SYS_TRACE_TOPIC",
        ),
        *(
            "RMQ_SYS_TRANS_OP_HALF_TOPIC",
            "TRANS_CHECK_MAX_TIME_TOPIC",
            "SELF_TEST_TOPIC",
            "OFFSET_MOVED_EVENT",
        ),
        "rmq_sys_x",
    )
    foreign = [f"{stem}{character}b" for character in " .,:;@/#*?!&=+$~^()[]{}<>'\"é中"]
    for name, legal in (
        *((stem + "b" * (length - len(stem)), length <= 127) for length in (126, 127, 128)),
        *((name, False) for name in (*reserved, *foreign)),
        *((name, True) for name in (f"{stem}-_%|09azAZ", f"TBW102{stem}", f"x{stem}rmq_sys_")),
    ):
        for reply in (await client.query_route(name), await client.send(requests.message(name, "m"))):
            is_legal = code_of(reply) != "ILLEGAL_TOPIC"
            assert is_legal is legal, f"the topic {name} was answered with {code_of(reply)}"
    for name, legal in (
        *((stem + "b" * (length - len(stem)), length <= 120) for length in (119, 120, 121)),
        *((name, False) for name in ("CID_RMQ_SYS_", *foreign)),
        *((name, True) for name in (f"{stem}-_%|09azAZ", f"x{stem}CID_RMQ_SYS_")),
    ):
        code = code_of(await client.query_assignment(topic, name))
        assert (code != "ILLEGAL_CONSUMER_GROUP") is legal, f"the group {name} was answered with {code}"


async def ends_with(client: ProbeClient, settings: pb.Settings) -> str:
    """Return how the stream ends after such settings; OK if they are answered."""
    stream = await client.open_stream()
    await stream.send(pb.TelemetryCommand(settings=settings))
    try:
        command = await stream.next()
    except StreamEnded as ended:
        return ended.code
    return code_of(command)


@case("limit.group-name", rules=("13.2",), params={"64": 64})
async def group_name_long(fixture: Fixture, length: int) -> None:
    """A group name of {} characters is legal: the group can receive."""
    topic = await fixture.topic()
    name = fixture.fresh("group")
    group = await fixture.group(name + "x" * (length - len(name)))
    consumer = await fixture.consumer(topic, group=group, prime=False)
    check_served(await consumer.receive(poll=SHORT_POLL, invisible=LEASE))
    (sent,) = await fixture.send(topic, "1")
    assert [delivery.id for delivery in await consumer.take(1)] == [sent.id]


@case("limit.error-is-final", rules=("4.1", "R4.13"))
async def error_is_final(fixture: Fixture) -> None:
    """Nothing of a refused send is delivered, neither a single message nor a batch with one bad message."""
    topic, consumer = await fixture.subscribed()
    large = requests.message(topic, bytes(int(fixture.number("body.max")) + 1))
    tagged = requests.message(topic, "bad tag", tag="a|b")
    good, empty = requests.message(topic, "good"), requests.message(topic, b"")
    await judge(fixture, large, code="MESSAGE_BODY_TOO_LARGE")
    await judge(fixture, tagged, code="ILLEGAL_MESSAGE_TAG")
    await judge(fixture, good, empty, code="MESSAGE_BODY_EMPTY", together=True)
    others = await fixture.sentinel(consumer)
    assert not others, f"of refused requests was delivered: {others}"


@case("limit.validation-first", rules=("4.1", "5.1"), level=INFORMATIONAL, prepared=("@topic",))
async def validation_first(fixture: Fixture) -> None:
    """Which of two faults of one request is reported is recorded."""
    topic = await fixture.topic()
    client = await fixture.client()
    sends = {
        "topic, body": requests.message("not a topic!", b""),
        "body, tag": requests.message(topic, b"", tag="a|b"),
        "tag, id": requests.message(topic, "1", tag="a|b", id=""),
        "group, type": requests.message(topic, "1", group=" "),
    }
    for faults, message in sends.items():
        fixture.note(faults, code_of(await client.send(message)))
    acked = await client.ack("not a topic!", "not a group!", ("id", "handle"))
    fixture.note("topic, group", code_of(acked))


@case("limit.rpc-status-vs-body", rules=("R1.6", "R1.7"), prepared=("@topic",))
async def rpc_status_vs_body(fixture: Fixture) -> None:
    """Refusals of every unary call and of a receive are statuses in the response, and the call itself is OK."""
    topic = await fixture.topic()
    client = await fixture.client()
    handle = ("id", "no handle")
    # `unary` raises if the call itself fails.
    codes: dict[str, int] = {
        "QueryRoute": (await client.query_route("not a topic!")).status.code,
        "SendMessage": (await client.send(requests.message(topic, b""))).status.code,
        "Heartbeat": (await client.heartbeat("a-group", pb.ClientType.PUSH_CONSUMER)).status.code,
        "NotifyClientTermination": (await client.terminate("a-group")).status.code,
        "QueryAssignment": (await client.query_assignment(topic, "not a group!")).status.code,
        "AckMessage": (await client.ack(topic, "not a group!", handle)).status.code,
    }
    received = await client.receive(topic, "a-group")
    assert received.error is None, f"the receive ended with {received.error}"
    codes["ReceiveMessage"] = received.code or 0
    fine = [name for name, code in codes.items() if code in (0, pb.Code.OK)]
    assert not fine, f"not refused: {fine}"


@case(
    "limit.client-properties",
    rules=("R2.18",),
    level=EXTENSION,
    needs=("client-properties",),
    prepared=("@topic",),
    params={
        "33": {f"k{number}": "v" for number in range(33)},
        "long-key": {"k" * 65: "v"},
        "long-value": {"k": "v" * 257},
        "4-kib": {f"k{number:02}": "v" * 256 for number in range(16)},
        "4-kib-of-utf8": {f"k{number:02}": "é" * 256 for number in range(8)},
    },
)
async def client_properties(fixture: Fixture, properties: dict[str, str]) -> None:
    """Settings with client properties beyond the limits ({}) are refused and the stream ends."""
    topic = await fixture.topic()
    settings = requests.producer_settings(topic)
    settings.client_properties.update(properties)
    assert await ends_with(await fixture.client(), settings) == "INVALID_ARGUMENT"
    settings.client_properties.clear()
    settings.client_properties["k"] = "v"
    assert await ends_with(await fixture.client(), settings) == "OK"


@case("limit.unknown-field", rules=("0.1",))
async def unknown_field(fixture: Fixture) -> None:
    """Unknown fields are ignored, in a request and in a message."""
    topic, consumer = await fixture.subscribed()
    message = requests.message(topic, "with more than is known")
    message.MergeFromString(UNKNOWN_FIELD)
    message.system_properties.MergeFromString(UNKNOWN_FIELD)
    await judge(fixture, message)
    (delivery,) = await consumer.take(1)
    assert delivery.id == message.system_properties.message_id
