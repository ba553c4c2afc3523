"""Cores that break promises about delayed messages, recalls and batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import floor

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Refusal, Resolution
from aiorocketmq_fake.core.values.model import (
    Delivery,
    EndTransactionRequest,
    OutgoingMessage,
    ReceiveRequest,
    SendOutcome,
)

from conformance.tests.mutants.mutant import SESSION, Mutant
from conformance.tests.mutants.produce import TypesUnchecked
from conformance.tests.mutants.tampering import Tampering, content


class _Times(Tampering, ABC):
    """Stores messages with another due time, and delivers them with the requested one."""

    @abstractmethod
    def time(self, asked: float) -> float | None:
        """Return when to deliver a message that is due at `asked`; None for at once."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        due = message.delivery_timestamp
        if due is None:
            return message
        time = self.time(due)
        return replace(message, delivery_timestamp=self.now - 1.0 if time is None else time)


class DelaysIgnored(_Times):
    """Delayed messages are delivered at once."""

    def time(self, asked: float) -> None:
        return None


class DelaysRoundedDown(_Times):
    """Delivery times are rounded down to the second."""

    def time(self, asked: float) -> float:
        return float(floor(asked))


class DelaysInMinutes(_Times):
    """Delays are sixty times as long."""

    def time(self, asked: float) -> float:
        return self.now + (asked - self.now) * 60 if self.now < asked < self.now + 1_000.0 else asked


class PastNeverComes(Tampering):
    """Messages with a delivery time in the past are accepted and lost."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        times = [one.delivery_timestamp for one in messages]
        if any(time is not None and time <= now for time in times):
            return tuple(SendOutcome(Code.OK, one.message_id, one.message_id, 0, 0) for one in messages)
        return super().send(messages, now=now, client_id=client_id)


class OneOfEachTime(Broker):
    """Only the first message of a delivery time is ever delivered."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        time = messages[0].delivery_timestamp
        if time is not None and time > now:
            times = self.__dict__.setdefault("_times", set())
            if time in times:
                Broker.recall(self, messages[0].topic, outcomes[0].recall_handle, now=now)
            times.add(time)
        return outcomes


class DelaysLostOnRestart(Broker):
    """A restart loses delayed messages."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for topic in list(self._state.topics):
            self._delays.forget_topic(topic)


class DelaysRepeat(Tampering):
    """A redelivered delayed message is stored again."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        message = delivery.message.content
        if delivery.attempt == 2 and message.delivery_timestamp is not None:
            Broker.send(self, (message,), now=self.now)
        return delivery


class FieldsOfDelaysLost(Tampering):
    """Delayed messages are delivered without their delivery time."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return content(delivery, delivery_timestamp=None)


class LastInFirstOut(_Times):
    """All delays are the same five seconds."""

    def time(self, asked: float) -> float:
        return self.now + 5.0 if asked > self.now else asked


class WaitingHoldsUp(_Times):
    """Messages that are due at once wait ten seconds, too."""

    def time(self, asked: float) -> float:
        return max(asked, self.now + 10.0)


class TagsOfDelaysLost(Tampering):
    """Delayed messages are delivered without their tag."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return message if message.delivery_timestamp is None else replace(message, tag="a")


class RecallsIgnored(Broker):
    """A recall is answered OK and does nothing."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        _, message_id = self._delays._read(topic, handle)
        return message_id


class RecallsTakeAll(Broker):
    """A recall removes every delayed message of the topic."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        message_id = super().recall(topic, handle, now=now, client_id=client_id)
        self._delays.forget_topic(topic)
        return message_id


class RecallsAlwaysOk(Broker):
    """Every recall is answered OK, whatever the handle and the topic."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        try:
            return super().recall(topic, handle, now=now, client_id=client_id)
        except Refusal:
            return "unknown"


class RecalledTwiceComes(Broker):
    """A second recall undoes the first."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        try:
            return super().recall(topic, handle, now=now, client_id=client_id)
        except Refusal:
            message = OutgoingMessage(topic, b"recalled", "back", delivery_timestamp=now)
            Broker.send(self, (message,), now=now)
            raise


class RecalledComeBack(Broker):
    """A restart undoes recalls."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        self.__dict__.setdefault("_recalled", set()).add(topic)
        return super().recall(topic, handle, now=now, client_id=client_id)

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for topic in self.__dict__.get("_recalled", ()):
            Broker.send(self, (OutgoingMessage(topic, b"recalled", "back", delivery_timestamp=now),), now=now)


class RecallsLoseTheLate(Broker):
    """A late recall is refused, but removes the message."""

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        at, _ = self._delays._read(topic, handle)
        super().recall(topic, handle, now=now, client_id=client_id)
        if at / 1000 - now < 0.5:
            raise Refusal(Code.MESSAGE_NOT_FOUND, "It is too late.")
        return "recalled"


class HandlesForAll(Broker):
    """Every receipt has a recall handle."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        return tuple(replace(one, recall_handle=one.recall_handle or "handle") for one in outcomes)


class BatchesBackwards(Broker):
    """Batches are stored last message first."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        return tuple(reversed(super().send(messages[::-1], now=now, client_id=client_id)))


class BatchesShareFields(Tampering):
    """All messages of a batch have the id, tag, keys and properties of the first."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        first = messages[0] if messages else None
        shared = tuple(replace(first, body=one.body) for one in messages) if first else messages
        return super().send(shared, now=now, client_id=client_id)


class BatchesOneByOne(Broker):
    """A batch is accepted message by message: those before a bad one are stored."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if not messages:
            return super().send(messages, now=now, client_id=client_id)
        return tuple(
            outcome
            for one in messages
            for outcome in super(BatchesOneByOne, self).send((one,), now=now, client_id=client_id)
        )


class BatchedDelaysAtOnce(Broker):
    """Delayed messages of a batch are delivered at once."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if len(messages) > 1:
            messages = tuple(
                one if one.delivery_timestamp is None else replace(one, delivery_timestamp=now)
                for one in messages
            )
        return super().send(messages, now=now, client_id=client_id)


class BatchedHalvesVisible(Broker):
    """Transactional messages of a batch are delivered at once."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        if len(messages) > 1:
            for half in self.half_messages():
                request = EndTransactionRequest(client_id, half.topic, half.transaction_id, Resolution.COMMIT)
                Broker.end_transaction(self, request, now=now)
        return outcomes


class FirstOffsetWrong(Broker):
    """Receipts of batches have the offset of the last message."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        return tuple(replace(one, offset=one.offset + len(messages) - 1) for one in outcomes)


EARLY = ("delay.not-before*", "delay.horizon-accept")
DELAYS = (
    Mutant(
        "MU43",
        (
            *EARLY,
            "delay.not-late*",
            "delay.filter",
            "delay.same-due-100",
            "delay.restart",
            "delay.other-traffic",
        ),
        core=DelaysIgnored,
    ),
    Mutant("MU44", ("delay.sub-second",), core=DelaysRoundedDown),
    Mutant("MU45", ("delay.not-late*", "delay.async", "delay.filter"), core=DelaysInMinutes),
    Mutant("MU46", ("delay.past*", "delay.other-traffic"), core=PastNeverComes),
    Mutant("MU47", ("delay.same-due-100", "recall.only-target"), core=OneOfEachTime),
    Mutant("MU48", ("delay.retry-after-due",), core=DelaysRepeat),
    Mutant("MU49", ("delay.restart",), core=DelaysLostOnRestart),
    Mutant(
        "MU50",
        ("delay.horizon-refuse",),
        changes={"max_delay": 1e9},
        defect="The horizon of delays is not enforced.",
    ),
    Mutant(
        "MU51",
        ("recall.before-due", "recall.twice", "recall.only-target", "recall.restart"),
        core=RecallsIgnored,
    ),
    Mutant("MU52", ("recall.only-target", "recall.before-due"), core=RecallsTakeAll),
    Mutant("mu-delay-fields", ("delay.fields",), core=FieldsOfDelaysLost),
    Mutant("mu-delay-one-span", ("delay.due-order", "delay.long"), core=LastInFirstOut),
    Mutant("mu-delay-blocks", ("delay.other-traffic", "delay.past*"), core=WaitingHoldsUp),
    Mutant("mu-delay-tags", ("delay.filter",), core=TagsOfDelaysLost),
    Mutant("mu-delay-anywhere", ("delay.missing-time", "recall.wrong-type-topic"), core=TypesUnchecked),
    Mutant(
        "mu-recall-always-ok",
        ("recall.after-due", "recall.garbage*", "recall.foreign-topic"),
        core=RecallsAlwaysOk,
    ),
    Mutant(
        "mu-recall-disabled-ok",
        ("recall.disabled",),
        core=RecallsAlwaysOk,
        profile="apache-5.5",
        defect="A server without recall answers OK.",
    ),
    Mutant("mu-recall-twice", ("recall.twice",), core=RecalledTwiceComes),
    Mutant("mu-recall-restart", ("recall.restart",), core=RecalledComeBack),
    Mutant("mu-recall-race", ("recall.race",), core=RecallsLoseTheLate),
    Mutant(
        "mu-recall-handles",
        ("recall.handle", "send.receipt", "delay.past*"),
        spares=SESSION,
        core=HandlesForAll,
    ),
    Mutant("mu-batch-backwards", ("send.batch-same-topic", "send.batch-own-fields"), core=BatchesBackwards),
    Mutant(
        "mu-batch-shares-fields", ("send.batch-own-fields", "send.batch-receipts"), core=BatchesShareFields
    ),
    Mutant("mu-batch-one-by-one", ("send.batch-one-bad", "send.batch-empty-second"), core=BatchesOneByOne),
    Mutant("mu-batch-delays", ("send.batch-delayed",), core=BatchedDelaysAtOnce),
    Mutant("mu-batch-halves", ("send.batch-half",), core=BatchedHalvesVisible),
    Mutant(
        "mu-batch-offset",
        ("send.batch-receipt-one",),
        core=FirstOffsetWrong,
        profile="apache-5.5",
        spares=SESSION,
    ),
)
