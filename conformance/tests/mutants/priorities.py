"""Cores that break promises about priorities."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.model import Delivery, OutgoingMessage, ReceiveRequest, SendOutcome

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.produce import SomeSendsDoubled, SomeSendsLost, TypesUnchecked
from conformance.tests.mutants.tampering import Tampering, content

HIGHEST = 7


class PrioritiesReversed(Tampering):
    """The lowest priority is delivered first."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        priority = message.priority
        return message if priority is None else replace(message, priority=max(HIGHEST - priority, 0))

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        priority = delivery.message.content.priority
        return delivery if priority is None else content(delivery, priority=HIGHEST - priority)


class PrioritiesFlat(Tampering):
    """All priorities are equal."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return message if message.priority is None else replace(message, priority=0)


class PrioritiesLost(Tampering):
    """Priorities are not stored."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, priority=None)


class LowestLost(Broker):
    """Messages of the lowest priority are acknowledged and lost."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if any(one.priority == 0 for one in messages):
            return tuple(SendOutcome(Code.OK, one.message_id, one.message_id, 0, 0) for one in messages)
        return super().send(messages, now=now, client_id=client_id)


class NegativesTaken(Tampering):
    """A negative priority is treated as the lowest."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, priority=0) if (message.priority or 0) < 0 else message


PRIORITIES = (
    Mutant("MU97", ("prio.backlog-order", "prio.levels*"), core=PrioritiesReversed),
    Mutant("mu-prio-flat", ("prio.backlog-order", "prio.levels*", "prio.roundtrip"), core=PrioritiesFlat),
    Mutant("mu-prio-lowest-lost", ("prio.no-backlog", "prio.levels*", "prio.loss-free"), core=LowestLost),
    Mutant("mu-prio-negative", ("prio.range",), core=NegativesTaken),
    Mutant(
        "mu-prio-anywhere", ("prio.exclusive*", "prio.wrong-topic[without-on-PRIORITY]"), core=TypesUnchecked
    ),
    Mutant("mu-prio-dropped", ("prio.wrong-topic[with-on-NORMAL]", "prio.roundtrip"), core=PrioritiesLost),
    Mutant("mu-prio-lost", ("prio.loss-free", "prio.backlog-order"), core=SomeSendsLost),
    Mutant("mu-prio-doubled", ("prio.loss-free", "prio.backlog-order"), core=SomeSendsDoubled),
)
