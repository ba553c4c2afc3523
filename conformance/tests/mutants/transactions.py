"""Cores that break promises about transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.checks import Checks
from aiorocketmq_fake.core.records.half_messages import HalfMessage
from aiorocketmq_fake.core.values.codes import Code, MessageType, Refusal, Resolution
from aiorocketmq_fake.core.values.events import Event, TransactionGivenUp
from aiorocketmq_fake.core.values.model import (
    CommandForClient,
    EndTransactionRequest,
    OutgoingMessage,
    Output,
    RecoverOrphanedTransaction,
    SendOutcome,
)

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.produce import TypesUnchecked
from conformance.tests.mutants.tampering import Tampering

DELIVERING = (
    "tx.commit",
    "tx.commit-twice",
    "tx.commit-then-rollback",
    "tx.end-wrong-topic",
    "tx.end-other-client",
    "tx.delayed-commit-filter",
    "tx.simple-consumer",
    "tx.retry-like-normal",
    "tx.properties-kept",
    "tx.check-commit",
    "tx.check-partial",
    "tx.check-unknown-repeats",
    "tx.check-other-producer",
    "tx.check-no-producer",
    "tx.restart-open-half",
)
ASKING = (
    "tx.check-arrives",
    "tx.check-commit",
    "tx.check-rollback",
    "tx.check-partial",
    "tx.check-unknown-repeats",
    "tx.check-content",
    "tx.recovery-duration",
)


class _Ledger(Broker):
    """A core that keeps half messages, so that a mutant can deliver them without a commit."""

    def __init__(self, *args: Any, **keywords: Any) -> None:  # Any: handed through as it came
        super().__init__(*args, **keywords)
        self.halves: dict[tuple[str, str], tuple[OutgoingMessage, str]] = {}
        self.decided: dict[tuple[str, str], Resolution] = {}

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        for one in messages:
            if one.message_type is MessageType.TRANSACTION:
                self.halves[one.topic, one.message_id] = one, client_id
        return outcomes

    def deliver(self, key: tuple[str, str], now: float) -> None:
        """Store a half message as committed, whatever its resolution."""
        message, client_id = self.halves[key]
        Broker.send(self, (message,), now=now, client_id=client_id)
        request = EndTransactionRequest(client_id, *key, Resolution.COMMIT)
        Broker.end_transaction(self, request, now=now)

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        super().end_transaction(request, now=now)
        self.decided.setdefault((request.topic, request.transaction_id), request.resolution)

    def settled(self, request: EndTransactionRequest) -> Resolution | None:
        """Return the former resolution of the transaction."""
        return self.decided.get((request.topic, request.transaction_id))


class HalvesVisible(_Ledger):
    """Half messages are delivered at once."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        outcomes = super().send(messages, now=now, client_id=client_id)
        for one in messages:
            if one.message_type is MessageType.TRANSACTION:
                self.deliver((one.topic, one.message_id), now)
        return outcomes


class _Decisions(Broker, ABC):
    """Applies resolutions as changed by `decision`."""

    @abstractmethod
    def decision(self, request: EndTransactionRequest) -> EndTransactionRequest: ...

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        super().end_transaction(self.decision(request), now=now)


class RollbacksCommit(_Decisions):
    """A rollback is treated as a commit."""

    def decision(self, request: EndTransactionRequest) -> EndTransactionRequest:
        return replace(request, resolution=Resolution.COMMIT)


class CommitsLost(_Decisions):
    """A commit is answered OK and rolls back."""

    def decision(self, request: EndTransactionRequest) -> EndTransactionRequest:
        return replace(request, resolution=Resolution.ROLLBACK)


class NoDecisionCommits(_Decisions):
    """An unspecified resolution commits."""

    def decision(self, request: EndTransactionRequest) -> EndTransactionRequest:
        undecided = request.resolution is Resolution.UNSPECIFIED
        return replace(request, resolution=Resolution.COMMIT) if undecided else request


class CommittedInTheEnd(_Ledger):
    """A half message is delivered after its last check."""

    def take_events(self) -> tuple[Event, ...]:
        happened = super().take_events()
        for event in happened:
            if isinstance(event, TransactionGivenUp):
                self.deliver((event.message.topic, event.transaction_id), self.now)
        return happened


class _Orders(_Ledger, ABC):
    """Sends checks as changed by `order`."""

    @abstractmethod
    def order(
        self, order: CommandForClient, recover: RecoverOrphanedTransaction
    ) -> CommandForClient | None: ...

    def take_outputs(self) -> tuple[Output, ...]:
        return tuple(output for output in map(self._changed, super().take_outputs()) if output is not None)

    def _changed(self, output: Output) -> Output | None:
        if isinstance(output, CommandForClient) and isinstance(output.command, RecoverOrphanedTransaction):
            return self.order(output, output.command)
        return output


class ChecksLost(_Orders):
    """No check is ever sent."""

    def order(self, order: CommandForClient, recover: RecoverOrphanedTransaction) -> None:
        return None


class ChecksToTheSender(_Orders):
    """Only the sender is checked, connected or not."""

    def order(self, order: CommandForClient, recover: RecoverOrphanedTransaction) -> CommandForClient:
        content = recover.message.content
        return replace(order, client_id=self.halves[content.topic, content.message_id][1])


class ChecksWithoutProperties(_Orders):
    """Checks have neither properties nor tag."""

    def order(self, order: CommandForClient, recover: RecoverOrphanedTransaction) -> CommandForClient:
        content = replace(recover.message.content, properties={}, tag="")
        return replace(order, command=replace(recover, message=replace(recover.message, content=content)))


class SecondCommitsDeliver(_Ledger):
    """Every further commit delivers the message once more."""

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        if self.settled(request) is Resolution.COMMIT is request.resolution:
            self.deliver((request.topic, request.transaction_id), now)
        else:
            super().end_transaction(request, now=now)


class SecondDecisionsWin(_Ledger):
    """A commit after a rollback delivers the message."""

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        if self.settled(request) is Resolution.ROLLBACK and request.resolution is Resolution.COMMIT:
            self.deliver((request.topic, request.transaction_id), now)
        else:
            super().end_transaction(request, now=now)


class ChecksGoOn(Checks):
    """Producers get checks of resolved transactions."""

    def leave(self, half: HalfMessage) -> None:
        pass

    def _on_due(self, half: HalfMessage) -> None:
        self._check(half)
        self._state.timers.set(half, self._state.now + 60_000, self._on_due)


class BlankIdsUnknown(Broker):
    """A blank transaction id is answered with BAD_REQUEST."""

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        if not request.transaction_id.strip():
            raise Refusal(Code.BAD_REQUEST, "The request is bad.")
        super().end_transaction(request, now=now)


class UnknownIdsTaken(Broker):
    """A resolution of an unknown transaction is answered OK."""

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        try:
            super().end_transaction(request, now=now)
        except Refusal:
            return


class OnlyTheSenderDecides(_Ledger):
    """Only the client that sent a half message can resolve its transaction."""

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        half = self.halves.get((request.topic, request.transaction_id))
        if half is not None and half[1] != request.client_id:
            raise Refusal(Code.FORBIDDEN, "The transaction belongs to another client.")
        super().end_transaction(request, now=now)


class RecoveryDurationsLost(Tampering):
    """A half message's own recovery duration is ignored."""

    def stored(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, recovery_duration=None)


class HalvesLostOnRestart(Broker):
    """A restart loses unresolved half messages."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for half in list(self._half_messages):
            self._half_messages.remove(half, self._state.now)
            self._state.timers.cancel(half)


TRANSACTIONS = (
    Mutant("MU53", ("tx.half-invisible", "tx.rollback", "tx.end-unspecified"), core=HalvesVisible),
    Mutant("MU54", ("tx.rollback", "tx.check-rollback", "tx.rollback-then-commit"), core=RollbacksCommit),
    Mutant("MU55", ("tx.check-gives-up",), core=CommittedInTheEnd, profile="apache-5.5"),
    Mutant("MU56", (*ASKING, "tx.no-check-when-resolved"), core=ChecksLost),
    Mutant("MU57", ("tx.check-other-producer", "tx.check-no-producer"), core=ChecksToTheSender),
    Mutant("MU58", ("tx.commit-twice",), core=SecondCommitsDeliver),
    Mutant("MU59", ("tx.rollback-then-commit",), core=SecondDecisionsWin),
    Mutant(
        "MU60",
        ("tx.no-check-when-resolved", "tx.check-rollback", "tx.retry-like-normal"),
        parts=Parts(checks=ChecksGoOn),
    ),
    Mutant("mu-commits-lost", DELIVERING, core=CommitsLost),
    Mutant("mu-no-decision-commits", ("tx.end-unspecified",), core=NoDecisionCommits),
    Mutant("mu-check-content", ("tx.check-content",), core=ChecksWithoutProperties),
    Mutant(
        "mu-check-hurry",
        ("tx.check-unknown-repeats",),
        changes={"check_interval": 20.0},
        defect="Producers are checked three times as often as declared.",
    ),
    Mutant(
        "mu-check-early",
        ("tx.check-arrives", "tx.recovery-duration"),
        core=RecoveryDurationsLost,
        changes={"check_immunity": 2.0},
        defect="Half messages are checked after two seconds, whatever their recovery duration.",
    ),
    Mutant("mu-tx-blank-id", ("tx.end-blank-id",), core=BlankIdsUnknown),
    Mutant("mu-tx-unknown-id", ("tx.end-unknown-id", "tx.end-wrong-topic"), core=UnknownIdsTaken),
    Mutant("mu-tx-sender-only", ("tx.end-other-client",), core=OnlyTheSenderDecides),
    Mutant("mu-tx-recovery", ("tx.recovery-too-long", "tx.recovery-duration"), core=RecoveryDurationsLost),
    Mutant("mu-tx-restart", ("tx.restart-open-half",), core=HalvesLostOnRestart),
    Mutant("mu-tx-anywhere", ("tx.type-mismatch",), core=TypesUnchecked),
)
