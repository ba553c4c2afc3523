"""Cores that break what a producer is promised."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_conformance.probe.proxy import ProxyFaults
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Encoding, Refusal, TopicType
from aiorocketmq_fake.core.values.model import (
    Delivery,
    OutgoingMessage,
    ReceiveRequest,
    SendOutcome,
    TopicConfig,
)

from conformance.tests.mutants import wire
from conformance.tests.mutants.mutant import ROUNDTRIP, SESSION, Mutant
from conformance.tests.mutants.tampering import Tampering, content

SOME = 7  # of this many messages one is treated badly


class _Receipts(Broker):
    """Sends as usual; `receipt` changes the producer's receipt."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        return tuple(map(self.receipt, super().send(messages, now=now, client_id=client_id)))

    def receipt(self, outcome: SendOutcome) -> SendOutcome:
        return outcome


class ReceiptsOfOthers(_Receipts):
    """Receipts carry an id of the server's own."""

    def receipt(self, outcome: SendOutcome) -> SendOutcome:
        return replace(outcome, message_id="FD" + "0" * 30)


class ReceiptsOneAhead(_Receipts):
    """Receipts have the offset after the message's own."""

    def receipt(self, outcome: SendOutcome) -> SendOutcome:
        return replace(outcome, offset=outcome.offset + 1)


class ReceiptsInPairs(_Receipts):
    """Two messages share the offset of a receipt."""

    def receipt(self, outcome: SendOutcome) -> SendOutcome:
        return replace(outcome, offset=outcome.offset // 2 * 2)


class SomeSendsLost(Broker):
    """One in seven acknowledged sends is lost."""

    _count = 0

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        self._count += 1
        if self._count % SOME == 0:
            return tuple(
                SendOutcome(Code.OK, one.message_id, "", 10_000 + self._count, 0) for one in messages
            )
        return super().send(messages, now=now, client_id=client_id)


class SomeSendsDoubled(Broker):
    """One in seven messages is stored twice."""

    _count = 0

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        self._count += 1
        if self._count % SOME == 0:
            super().send(messages, now=now, client_id=client_id)
        return super().send(messages, now=now, client_id=client_id)


class SomeSendsInvented(Broker):
    """One in seven messages is stored again under another id."""

    _count = 0

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        self._count += 1
        if self._count % SOME == 0:
            invented = tuple(replace(one, message_id=one.message_id[::-1]) for one in messages)
            super().send(invented, now=now, client_id=client_id)
        return super().send(messages, now=now, client_id=client_id)


class LongIdsCut(Tampering):
    """Message ids are cut at 64 characters."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, message_id=message.message_id[:64])


class BodiesCut(Tampering):
    """Bodies are cut at 64 KiB."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, body=message.body[:65536])


class BodiesTakenForText(Tampering):
    """Bodies are taken for ASCII text."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, body=message.body.decode("ascii", "replace").encode())


class BodiesPadded(Tampering):
    """Bodies are delivered with one byte more."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return content(delivery, body=delivery.message.content.body + b"\0")


class LargestBodyRefused(Broker):
    """The largest allowed body is refused."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if any(len(message.body) >= 4 * 1024 * 1024 for message in messages):
            raise Refusal(Code.MESSAGE_BODY_TOO_LARGE, "the body is too large.")
        return super().send(messages, now=now, client_id=client_id)


class EncodingsLost(Tampering):
    """Compressed bodies are delivered as uncompressed."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, encoding=Encoding.IDENTITY)


class TracesLost(Tampering):
    """Trace contexts are lost."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, trace_context="")


class OneQueueWritten(Broker):
    """Only the first queue of a topic is written."""

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        super().create_topic(replace(config, write_queues=1), now=now)


class TagsInLowerCase(Tampering):
    """Tags are delivered in lower case."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return content(delivery, tag=delivery.message.content.tag.lower())


class KeysSorted(Tampering):
    """Keys are delivered sorted."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, keys=tuple(sorted(message.keys)))


class FirstPropertiesOnly(Tampering):
    """Only the first hundred properties are kept."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, properties=dict(list(message.properties.items())[:100]))


class PropertiesLeak(Tampering):
    """Properties of the previous message leak into the next."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        before, self._before = getattr(self, "_before", {}), dict(message.properties)
        return replace(message, properties={**before, **message.properties})


class StoredWhenBorn(Tampering):
    """The store time is copied from the born time."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return replace(delivery, store_timestamp=delivery.message.content.born_timestamp or 0.0)


class RefusedBatchesHalfStored(Broker):
    """Of a refused batch the first message is stored."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        try:
            return super().send(messages, now=now, client_id=client_id)
        except Refusal:
            if len(messages) > 1:
                super().send(messages[:1], now=now, client_id=client_id)
            raise


class EmptySendsTaken(Broker):
    """A request without messages is OK."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        return super().send(messages, now=now, client_id=client_id) if messages else ()


class SendsCreateTopics(Broker):
    """A send creates its topic."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if messages and messages[0].topic not in {topic.config.name for topic in self.topics()}:
            self.create_topic(TopicConfig(messages[0].topic), now=now)
        return super().send(messages, now=now, client_id=client_id)


class TypesUnchecked(Broker):
    """The type check is missing."""

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        super().create_topic(replace(config, type=TopicType.MIXED), now=now)


class RefusedTypesStored(Broker):
    """A type conflict is answered, and the message stored."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        try:
            return super().send(messages, now=now, client_id=client_id)
        except Refusal as refusal:
            if refusal.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE:
                config = next(
                    topic.config for topic in self.topics() if topic.config.name == messages[0].topic
                )
                self.update_topic(replace(config, type=TopicType.MIXED), now=now)
                plain = replace(
                    messages[0], delivery_timestamp=None, message_type=type(messages[0].message_type)(0)
                )
                super().send((plain,), now=now, client_id=client_id)
                self.update_topic(config, now=now)
            raise


class EveryTypeRefused(Broker):
    """Every message is answered with a type conflict."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        raise Refusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "no topic takes any type.")


class TopicsLeak(Broker):
    """Messages of other topics can be read from the first one."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        first = getattr(self, "_first", messages[0].topic)
        self._first = first
        if messages[0].topic != first:
            super().send(tuple(replace(one, topic=first) for one in messages), now=now, client_id=client_id)
        return outcomes


class GroupsSpread(Tampering):
    """A message group is spread over the queues."""

    _count = 0

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        if not message.message_group:
            return message
        self._count += 1
        return replace(message, message_group=f"{message.message_group}#{self._count}")

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return content(delivery, message_group=delivery.message.content.message_group.partition("#")[0])


SENDING = (
    Mutant(
        "mu-wrong-digest",
        ("send.digest[*",),
        faults=ProxyFaults(received=wire.wrong_digest),
        defect="digests do not match their bodies",
    ),
    Mutant(
        "mu-everything-normal",
        ("send.message-type-echo[FIFO]", "send.message-type-echo[DELAY]", "send.type-mixed"),
        faults=ProxyFaults(received=wire.everything_normal),
        defect="every message is told to be a normal one",
    ),
    Mutant("mu-encodings-lost", ("send.gzip-flag",), core=EncodingsLost),
    Mutant("mu-traces-lost", ("send.trace-context",), core=TracesLost),
    Mutant("mu-one-queue", ("send.spread",), core=OneQueueWritten),
    Mutant(
        "mu-receipts-of-others",
        ("send.receipt", "send.id-echo", "send.type-match*"),
        core=ReceiptsOfOthers,
    ),
    Mutant(
        "MU103",
        ("send.offsets-increase", "send.offset-value-unique"),
        core=ReceiptsOneAhead,
    ),
    Mutant(
        "MU83",
        ("send.offset-value-unique", "send.offsets-increase"),
        core=ReceiptsInPairs,
    ),
    Mutant(
        "MU89",
        (
            "send.receive-10*",
            "send.id-echo",
            "send.offset-value-unique",
            "send.topic-isolation",
            "send.concurrent-producers",
            "simple.batch-cap",
            "simple.two-consumers-disjoint",
            "simple.four-pollers",
            "simple.cancelled-receive",
            "retry.others-flow",
            "retry.no-regress",
            "push.consume-10",
            "push.success-final",
            "push.groups-broadcast",
            "lb.groups-independent",
            "lb.all-queues-served*",
            "fifo.single-group",
            "fifo.two-groups-100",
            "fifo.plain-topic-ordered-group",
        ),
        core=SomeSendsLost,
    ),
    Mutant(
        "MU90",
        (
            "send.receive-10*",
            "send.concurrent-producers",
            "send.topic-isolation",
            "simple.receive-ack*",
            "push.consume-10",
            "push.success-final",
            "fifo.single-group",
            "fifo.one-inflight-consumer",
            "send.order-per-producer",
        ),
        core=SomeSendsDoubled,
    ),
    Mutant(
        "mu-invented",
        ("send.deadline-unknown", "send.receive-10*", "send.concurrent-producers"),
        core=SomeSendsInvented,
    ),
    Mutant("mu-long-ids", ("send.id-echo",), core=LongIdsCut),
    Mutant(
        "MU86",
        ("send.body-roundtrip[64KiB+1]", "send.body-max*"),
        core=BodiesCut,
    ),
    Mutant(
        "mu-bodies-as-text",
        ("send.body-roundtrip[binary]", ROUNDTRIP, "send.body-roundtrip[emoji]"),
        spares=SESSION,
        core=BodiesTakenForText,
    ),
    Mutant(
        "mu-bodies-padded",
        ("send.body-roundtrip*", "send.body-max*"),
        spares=SESSION,
        core=BodiesPadded,
    ),
    Mutant(
        "mu-largest-refused",
        ("send.body-max*",),
        core=LargestBodyRefused,
    ),
    Mutant(
        "mu-tags-lower",
        ("send.tag-roundtrip",),
        core=TagsInLowerCase,
    ),
    Mutant("mu-keys-sorted", ("send.keys-roundtrip",), core=KeysSorted),
    Mutant(
        "mu-properties-cut",
        ("send.properties-roundtrip",),
        core=FirstPropertiesOnly,
    ),
    Mutant(
        "MU87",
        ("send.props-isolated", "send.properties-roundtrip"),
        core=PropertiesLeak,
    ),
    Mutant(
        "MU104",
        ("send.timestamps",),
        core=StoredWhenBorn,
    ),
    Mutant(
        "mu-batch-half-stored",
        ("send.batch-mixed-topics",),
        core=RefusedBatchesHalfStored,
    ),
    Mutant(
        "mu-empty-send",
        ("send.batch-empty",),
        core=EmptySendsTaken,
    ),
    Mutant("mu-send-creates", ("send.unknown-topic",), core=SendsCreateTopics),
    Mutant(
        "MU85",
        ("send.type-mismatch*", "life.route-ok", "fifo.missing-group"),
        core=TypesUnchecked,
    ),
    Mutant(
        "mu-conflict-stored",
        ("send.type-mismatch[FIFO-on-NORMAL]", "send.type-mismatch[DELAY-on-NORMAL]"),
        core=RefusedTypesStored,
    ),
    Mutant(
        "mu-types-refused",
        ("send.type-match*", "send.receipt", "send.message-type-echo*"),
        spares=SESSION,
        core=EveryTypeRefused,
    ),
    Mutant(
        "mu-topics-leak",
        ("send.topic-isolation", "simple.many-topics"),
        core=TopicsLeak,
    ),
    Mutant(
        "MU35",
        (
            "fifo.same-queue",
            "fifo.single-group",
            "fifo.many-groups",
            "fifo.two-producers",
            "fifo.batch-prefix",
            "lb.fifo-spread",
        ),
        core=GroupsSpread,
    ),
)
