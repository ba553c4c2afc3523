"""What taking a delayed message back promises: inventory 4.4, second half."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.cases.delay.delivery import due, later, prepared
from aiorocketmq_conformance.fixture import Stage, on_stage, once_each
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.tolerances import PROMPT
from aiorocketmq_conformance.verdicts import NotApplicable

NEEDS = ("@topic", "@group", "type.delay", "recall")
AHEAD = 15.0
"""Seconds to the delivery of what is recalled: a busy machine must not be too late with the recall."""


async def recall(client: ProbeClient, topic: str, handle: str) -> pb.RecallMessageResponse:
    """Ask for a message back."""
    request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
    reply: pb.RecallMessageResponse = await client.unary("RecallMessage", request)
    return reply


@case("recall.handle", rules=("R4.12", "R4.24"), level=Level.EXTENSION, needs=NEEDS)
@on_stage
async def handle(stage: Stage) -> None:
    """The receipt of a delayed message has a recall handle, that of a normal one has none."""
    topic, _ = await prepared(stage)
    (delayed,) = await later(stage, topic, 10.0, "m")
    (normal,) = await stage.send(await stage.topic(1), "m")
    assert delayed.receipt.recall_handle
    assert not normal.receipt.recall_handle


@case("recall.before-due", rules=("R4.25",), level=Level.EXTENSION, needs=NEEDS, timeout=120.0)
@on_stage
async def before_due(stage: Stage) -> None:
    """A message that is recalled before its time is answered with its id and never delivered; others are."""
    topic, consumer = await prepared(stage)
    (sent,) = await later(stage, topic, AHEAD, "recalled")
    (other,) = await later(stage, topic, AHEAD, "kept")
    await stage.clock.sleep(1.0)
    producer = await stage.producer(topic)
    reply = await recall(producer, topic, sent.receipt.recall_handle)
    assert (code_name(reply.status.code), reply.message_id) == ("OK", sent.id), f"answered {reply}"
    once_each([other], await consumer.watch(AHEAD + 15.0, settle=True))


@case("recall.only-target", rules=("R4.26",), level=Level.EXTENSION, needs=NEEDS, timeout=120.0)
@on_stage
async def only_target(stage: Stage) -> None:
    """Of five messages of one time exactly the recalled one is missing."""
    topic, consumer = await prepared(stage)
    sent = await later(stage, topic, AHEAD, *map(str, range(5)))
    producer = await stage.producer(topic)
    reply = await recall(producer, topic, sent[2].receipt.recall_handle)
    assert reply.status.code == pb.Code.OK, f"answered {reply}"
    once_each([*sent[:2], *sent[3:]], await consumer.watch(AHEAD + 10.0, settle=True))


@case("recall.after-due", rules=("R4.25",), level=Level.EXTENSION, needs=NEEDS)
@on_stage
async def after_due(stage: Stage) -> None:
    """A message that was delivered already cannot be recalled; it can be acked as before."""
    topic, consumer = await prepared(stage)
    (sent,) = await later(stage, topic, 2.0, "m")
    seen = await consumer.find(sent, within=3 * PROMPT)
    producer = await stage.producer(topic)
    reply = await recall(producer, topic, sent.receipt.recall_handle)
    assert reply.status.code != pb.Code.OK
    stage.target.note("answer", code_name(reply.status.code))
    await consumer.ack(seen)


@case("recall.twice", rules=("R4.25",), level=Level.EXTENSION, needs=NEEDS, timeout=120.0)
@on_stage
async def twice(stage: Stage) -> None:
    """A message that is recalled twice stays away, whatever the second answer."""
    topic, consumer = await prepared(stage)
    (sent,) = await later(stage, topic, AHEAD, "recalled")
    producer = await stage.producer(topic)
    reply = await recall(producer, topic, sent.receipt.recall_handle)
    assert reply.status.code == pb.Code.OK, f"answered {reply}"
    second = await recall(producer, topic, sent.receipt.recall_handle)
    stage.target.note("second answer", code_name(second.status.code))
    at = {"deliver_at": stage.clock.wall()}
    assert not await stage.nothing_but(consumer, AHEAD + 7.0, sentinel=at)


@case(
    "recall.garbage",
    rules=("R4.25",),
    level=Level.EXTENSION,
    needs=NEEDS,
    params={"empty": "", "words": "no handle", "base64": "djEgYSBiIGMgZA==", "version": "djIgYSBiIDEgZA=="},
)
@on_stage
async def garbage(stage: Stage, text: str) -> None:
    """A handle that is none ({}) is refused, and the server goes on."""
    topic, consumer = await prepared(stage)
    producer = await stage.producer(topic)
    reply = await recall(producer, topic, text)
    assert reply.status.code != pb.Code.OK
    (sent,) = await later(stage, topic, 1.0, "m")
    await consumer.ack(await consumer.find(sent, within=3 * PROMPT))


@case("recall.foreign-topic", rules=("R4.25",), level=Level.EXTENSION, needs=NEEDS)
@on_stage
async def foreign_topic(stage: Stage) -> None:
    """A handle that is used with another topic is refused, and its message is delivered."""
    topic, consumer = await prepared(stage)
    other = await stage.topic(1, type="DELAY")
    (sent,) = await later(stage, topic, 5.0, "m")
    producer = await stage.producer(topic, other)
    reply = await recall(producer, other, sent.receipt.recall_handle)
    assert reply.status.code != pb.Code.OK
    await consumer.ack(await consumer.find(sent, within=5.0 + 3 * PROMPT))


@case("recall.wrong-type-topic", rules=("R4.25",), level=Level.EXTENSION, needs=(*NEEDS, "type.check"))
@on_stage
async def wrong_type_topic(stage: Stage) -> None:
    """A topic that takes no delayed messages has none to recall: MESSAGE_PROPERTY_CONFLICT_WITH_TYPE."""
    topic, _ = await prepared(stage)
    (sent,) = await later(stage, topic, 30.0, "m")
    normal = await stage.topic(1)
    producer = await stage.producer(normal)
    reply = await recall(producer, normal, sent.receipt.recall_handle)
    assert code_name(reply.status.code) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("recall.race", rules=("R4.26",), level=Level.EXTENSION, needs=NEEDS, timeout=120.0)
@on_stage
async def race(stage: Stage) -> None:
    """A message that is recalled in its last tenth of a second is recalled or delivered, never neither."""
    topic, consumer = await prepared(stage)
    producer = await stage.producer(topic)
    sent = [(await later(stage, topic, 3.0 + n * 0.3, f"m{n}"))[0] for n in range(20)]
    recalled = set()
    for one in sent:
        await stage.clock.sleep(max(due(one) - 0.1 - stage.clock.now(), 0.0))
        reply = await recall(producer, topic, one.receipt.recall_handle)
        if reply.status.code == pb.Code.OK:
            recalled.add(one.id)
    seen = {one.id for one in await consumer.watch(15.0, settle=True)}
    stage.target.note("recalled and delivered", len(seen & recalled))
    lost = {one.id for one in sent} - seen - recalled
    assert not lost, f"{len(lost)} of 20 were neither recalled nor delivered"


@case(
    "recall.restart", rules=("R4.26", "11"), level=Level.EXTENSION, needs=(*NEEDS, "@restart"), timeout=300.0
)
@on_stage
async def restart(stage: Stage) -> None:
    """A recalled message stays recalled over a restart."""
    topic, consumer = await prepared(stage)
    (sent,) = await later(stage, topic, AHEAD, "recalled")
    producer = await stage.producer(topic)
    assert (await recall(producer, topic, sent.receipt.recall_handle)).status.code == pb.Code.OK
    await stage.target.restart()
    again = await stage.consumer(topic, group=consumer.group, prime=False)
    assert not await stage.nothing_but(again, 20.0, sentinel={"deliver_at": stage.clock.wall()})


@case("recall.disabled", rules=("R4.25",), level=Level.SHOULD, needs=("@topic", "@group", "type.delay"))
@on_stage
async def disabled(stage: Stage) -> None:
    """A server that recalls nothing says so, and the message is delivered."""
    if stage.target.has("recall"):
        raise NotApplicable("the target recalls messages")
    topic, consumer = await prepared(stage)
    (sent,) = await later(stage, topic, 5.0, "m")
    producer = await stage.producer(topic)
    try:
        reply = await recall(producer, topic, sent.receipt.recall_handle)
    except CallFailed as failed:
        # Servers before 5.3 do not know the call.
        if failed.code != "UNIMPLEMENTED":
            raise
    else:
        assert reply.status.code != pb.Code.OK
    await consumer.ack(await consumer.find(sent, within=5.0 + 3 * PROMPT))
