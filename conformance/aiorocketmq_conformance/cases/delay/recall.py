"""Recall of delayed messages: inventory 4.4, second half."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from math import floor

from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, SHOULD, case
from aiorocketmq_conformance.cases.delay.delivery import due, later, prepared
from aiorocketmq_conformance.cases.shared.queues import REMOTING
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.tolerances import PROMPT
from aiorocketmq_conformance.verdicts import NotApplicable

NEEDS = ("type.delay", "recall")
AHEAD = 15.0
"""Delay of messages to be recalled in seconds: the recall must be in time on a busy machine."""


@case("recall.handle", rules=("R4.12", "R4.24"), level=EXTENSION, needs=NEEDS)
async def handle(fixture: Fixture) -> None:
    """The receipt of a delayed message has a recall handle, that of a normal one has none."""
    topic, _ = await prepared(fixture)
    (delayed,) = await later(fixture, topic, 10.0, "m")
    (normal,) = await fixture.send(await fixture.topic(1), "m")
    assert delayed.receipt.recall_handle
    assert not normal.receipt.recall_handle


@case("recall.before-due", rules=("R4.25",), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def before_due(fixture: Fixture) -> None:
    """A recall before the delivery time returns the message's id; the message is never delivered, others are. So in
    mixed topics, too, and if the time has a fraction of a millisecond."""
    for kind in ("DELAY", "MIXED") if fixture.target.has("type.mixed") else ("DELAY",):
        topic, consumer = await fixture.subscribed(1, type=kind)
        at = floor(fixture.clock.wall() + AHEAD)
        sent = [
            *await fixture.send(topic, "whole", deliver_at=at),
            *await fixture.send(topic, "below half", deliver_at=at + 0.0124),
            *await fixture.send(topic, "above half", deliver_at=at + 0.0126),
        ]
        (other,) = await later(fixture, topic, AHEAD, "kept")
        await fixture.clock.sleep(1.0)
        producer = await fixture.producer(topic)
        for one in sent:
            reply = await producer.recall(topic, one.receipt.recall_handle)
            assert (code_of(reply), reply.message_id) == ("OK", one.id), f"{kind} was answered with {reply}"
        once_each([other], await consumer.receive_for(AHEAD + 15.0, settle=True))


@case("recall.only-target", rules=("R4.26",), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def only_target(fixture: Fixture) -> None:
    """Of five messages of one delivery time exactly the recalled one is not delivered."""
    topic, consumer = await prepared(fixture)
    sent = await later(fixture, topic, AHEAD, *map(str, range(5)))
    producer = await fixture.producer(topic)
    reply = await producer.recall(topic, sent[2].receipt.recall_handle)
    assert reply.status.code == pb.Code.OK, f"answered with {reply}"
    once_each([*sent[:2], *sent[3:]], await consumer.receive_for(AHEAD + 10.0, settle=True))


@case("recall.sent-twice", rules=("R4.25",), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def sent_twice(fixture: Fixture) -> None:
    """Of a message that was sent twice, as after a lost answer, a recall leaves no copy."""
    topic, consumer = await prepared(fixture)
    at = fixture.clock.wall() + AHEAD
    (first,) = await fixture.send(topic, "recalled", deliver_at=at)
    (second,) = await fixture.send(topic, "recalled", deliver_at=at, id=first.id)
    (other,) = await fixture.send(topic, "kept", deliver_at=at)
    producer = await fixture.producer(topic)
    reply = await producer.recall(topic, second.receipt.recall_handle)
    assert reply.status.code == pb.Code.OK, f"answered with {reply}"
    once_each([other], await consumer.receive_for(AHEAD + 10.0, settle=True))


@case("recall.after-due", rules=("R4.25",), level=EXTENSION, needs=NEEDS)
async def after_due(fixture: Fixture) -> None:
    """A message that was already delivered cannot be recalled; it can still be acked."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 2.0, "m")
    delivery = await consumer.find(sent, within=3 * PROMPT)
    producer = await fixture.producer(topic)
    reply = await producer.recall(topic, sent.receipt.recall_handle)
    assert reply.status.code != pb.Code.OK
    fixture.note("answer", code_of(reply))
    await consumer.ack(delivery)


@case("recall.twice", rules=("R4.25",), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def twice(fixture: Fixture) -> None:
    """A message that is recalled twice is not delivered, whatever the second response."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, AHEAD, "recalled")
    producer = await fixture.producer(topic)
    reply = await producer.recall(topic, sent.receipt.recall_handle)
    assert reply.status.code == pb.Code.OK, f"answered with {reply}"
    second = await producer.recall(topic, sent.receipt.recall_handle)
    fixture.note("second answer", code_of(second))
    at = {"deliver_at": fixture.clock.wall()}
    await fixture.expect_nothing(consumer, AHEAD + 7.0, sentinel=at)


@case(
    "recall.garbage",
    rules=("R4.25",),
    level=EXTENSION,
    needs=NEEDS,
    params={"empty": "", "words": "no handle", "base64": "djEgYSBiIGMgZA==", "version": "djIgYSBiIDEgZA=="},
)
async def garbage(fixture: Fixture, text: str) -> None:
    """A malformed handle ({}) is refused, and the server keeps working."""
    topic, consumer = await prepared(fixture)
    producer = await fixture.producer(topic)
    reply = await producer.recall(topic, text)
    assert reply.status.code != pb.Code.OK
    (sent,) = await later(fixture, topic, 1.0, "m")
    await consumer.ack(await consumer.find(sent, within=3 * PROMPT))


@case("recall.foreign-topic", rules=("R4.25",), level=EXTENSION, needs=NEEDS)
async def foreign_topic(fixture: Fixture) -> None:
    """A recall with a handle of another topic is refused, and the message is delivered."""
    topic, consumer = await prepared(fixture)
    other = await fixture.topic(1, type="DELAY")
    (sent,) = await later(fixture, topic, 5.0, "m")
    producer = await fixture.producer(topic, other)
    reply = await producer.recall(other, sent.receipt.recall_handle)
    assert reply.status.code != pb.Code.OK
    await consumer.ack(await consumer.find(sent, within=5.0 + 3 * PROMPT))


@case("recall.wrong-type-topic", rules=("R4.25",), level=EXTENSION, needs=(*NEEDS, "type.check"))
async def wrong_type_topic(fixture: Fixture) -> None:
    """A recall in a topic of another type is refused with MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    topic, _ = await prepared(fixture)
    (sent,) = await later(fixture, topic, 30.0, "m")
    normal = await fixture.topic(1)
    producer = await fixture.producer(normal)
    reply = await producer.recall(normal, sent.receipt.recall_handle)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case(
    "recall.over-remoting",
    rules=("R4.25", "remoting-protocol.md 6.11"),
    level=EXTENSION,
    needs=(*NEEDS, *REMOTING),
    timeout=120.0,
)
async def over_remoting(fixture: Fixture) -> None:
    """Over remoting, a handle recalls its message and no other, in any number of attempts; one that is none, of
    another topic or broker, or from the past is refused, and recalls nothing."""
    topic, consumer = await prepared(fixture)
    other = await fixture.topic(1, type="DELAY")
    member, handles = fixture.member(), {}
    at = floor(fixture.clock.wall() + AHEAD) * 1000
    for name in ("recalled", "kept"):
        sent = await member.send(topic, name.encode(), {"UNIQ_KEY": name, "TIMER_DELIVER_MS": str(at)})
        handles[name] = sent.fields["recallHandle"]
    version, _, broker, due_at, id_ = urlsafe_b64decode(handles["kept"]).decode().split(" ")

    def handle(
        *, version: str = version, topic: str = topic, broker: str = broker, due_at: str = due_at
    ) -> str:
        return urlsafe_b64encode(f"{version} {topic} {broker} {due_at} {id_}".encode()).decode()

    assert handle() == handles["kept"], f"the handle {handles['kept']} is not made as expected"
    refused = ResponseCode.ILLEGAL_OPERATION
    rows = {
        "recalled": (topic, handles["recalled"], ResponseCode.SUCCESS),
        "no handle": (topic, "", refused),
        "words": (topic, "no handle", refused),
        "version": (topic, handle(version="v2"), refused),
        "no time": (topic, handle(due_at="soon"), refused),
        "past": (topic, handle(due_at=str(at - 86_400_000)), refused),
        "another broker": (topic, handle(broker=f"{broker}-x"), refused),
        "another topic": (other, handle(), refused),
        "an unknown topic": ("unknown", handle(topic="unknown"), ResponseCode.TOPIC_NOT_EXIST),
    }
    for name, (of_topic, text, code) in rows.items():
        fields = {"topic": of_topic, "recallHandle": text, "producerGroup": "p"}
        answer = await member.ask(topic, RequestCode.RECALL_MESSAGE, fields)
        given = {"msgId": name} if code == ResponseCode.SUCCESS else {}
        expected = (code, {"MSG_REGION": "DefaultRegion", **given})
        assert (answer.code, answer.fields) == expected, f"{name}: {response_text(answer)} {answer.fields}"
    texts = [one.text for one in await consumer.receive_for(AHEAD + 10.0, settle=True)]
    assert texts == ["kept"], f"{texts} were delivered"


@case("recall.race", rules=("R4.26",), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def race(fixture: Fixture) -> None:
    """A message that is recalled in its last tenth of a second is either recalled or delivered."""
    topic, consumer = await prepared(fixture)
    producer = await fixture.producer(topic)
    sent = [(await later(fixture, topic, 3.0 + n * 0.3, f"m{n}"))[0] for n in range(20)]
    recalled = set()
    for one in sent:
        await fixture.clock.sleep(max(due(one) - 0.1 - fixture.clock.now(), 0.0))
        reply = await producer.recall(topic, one.receipt.recall_handle)
        if reply.status.code == pb.Code.OK:
            recalled.add(one.id)
    ids = {one.id for one in await consumer.receive_for(15.0, settle=True)}
    fixture.note("recalled and delivered", len(ids & recalled))
    lost = {one.id for one in sent} - ids - recalled
    assert not lost, f"{len(lost)} of 20 were neither recalled nor delivered"


@case("recall.restart", rules=("R4.26", "11"), level=EXTENSION, needs=(*NEEDS, "@restart"), timeout=300.0)
async def restart(fixture: Fixture) -> None:
    """A recall survives a restart."""
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, AHEAD, "recalled")
    producer = await fixture.producer(topic)
    assert (await producer.recall(topic, sent.receipt.recall_handle)).status.code == pb.Code.OK
    await fixture.target.restart()
    successor = await fixture.consumer(topic, group=consumer.group, prime=False)
    await fixture.expect_nothing(successor, 20.0, sentinel={"deliver_at": fixture.clock.wall()})


@case("recall.disabled", rules=("R4.25",), level=SHOULD, needs=("type.delay",))
async def disabled(fixture: Fixture) -> None:
    """A server without recall refuses it, and the message is delivered."""
    if fixture.target.has("recall"):
        raise NotApplicable("the target recalls messages")
    topic, consumer = await prepared(fixture)
    (sent,) = await later(fixture, topic, 5.0, "m")
    producer = await fixture.producer(topic)
    try:
        reply = await producer.recall(topic, sent.receipt.recall_handle)
    except CallFailed as failed:
        # Servers before 5.3 do not know the call.
        if failed.code != "UNIMPLEMENTED":
            raise
    else:
        assert reply.status.code != pb.Code.OK
    await consumer.ack(await consumer.find(sent, within=5.0 + 3 * PROMPT))
