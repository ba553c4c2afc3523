"""Cores that break promises about retries, delays and transactions over the classic protocol."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.checks import Checks
from aiorocketmq_fake.core.records.half_messages import HalfMessage
from aiorocketmq_fake.core.values.classic_model import Classic, SendBack
from aiorocketmq_fake.core.values.codes import Refusal, Resolution
from aiorocketmq_fake.core.values.model import (
    GroupConfig,
    OutgoingMessage,
    SendOutcome,
    StoredMessage,
    TopicConfig,
)

from conformance.tests.mutants.mutant import Mutant


class LastAttemptsCome(Broker):
    """A message that is sent back is never given up."""

    def send_back(self, request: SendBack, *, now: float, client_id: str = "") -> None:
        forever = replace(request, delay_level=max(request.delay_level, 0), max_reconsume_times=1000)
        super().send_back(forever, now=now, client_id=client_id)


class FirstAttempts(Broker):
    """Members' own counts of attempts are not read."""

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        fresh = tuple(
            each if each.classic is None else replace(each, classic=replace(each.classic, reconsume_times=0))
            for each in messages
        )
        return super().send_classic(fresh, now=now, client_id=client_id, new_queues=new_queues)


class OneLevel(Broker):
    """Every delay is that of the first level."""

    def send_back(self, request: SendBack, *, now: float, client_id: str = "") -> None:
        super().send_back(replace(request, delay_level=1), now=now, client_id=client_id)

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        soon = tuple(
            replace(each, classic=replace(each.classic, delay=1.0))
            if each.classic is not None and each.classic.delay is not None
            else each
            for each in messages
        )
        return super().send_classic(soon, now=now, client_id=client_id, new_queues=new_queues)


class RollbacksCommit(Broker):
    """Whatever its producer says, a half message is committed."""

    def end_half(
        self,
        offset: int,
        resolution: Resolution,
        *,
        now: float,
        client_id: str = "",
        from_check: bool = False,
    ) -> None:
        super().end_half(offset, Resolution.COMMIT, now=now, client_id=client_id, from_check=from_check)


class BatchesReversed(Broker):
    """The messages of one request are stored from the last to the first."""

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        return super().send_classic(messages[::-1], now=now, client_id=client_id, new_queues=new_queues)


class TextsInLatin(Broker):
    """Properties of classic messages lose what Latin-1 has not."""

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        latin = tuple(
            replace(
                each,
                properties={
                    name: text.encode("latin-1", "replace").decode("latin-1")
                    for name, text in each.properties.items()
                },
            )
            for each in messages
        )
        return super().send_classic(latin, now=now, client_id=client_id, new_queues=new_queues)


class NobodyIsChecked(Checks):
    """Half messages of classic producers are checked without asking anybody."""

    def _check_classic(self, half: HalfMessage, classic: Classic) -> None:
        return


class ChangesForgotten(Broker):
    """Settings of topics and groups that exist cannot be changed."""

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        return

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        return


class OnlyTheNewest(Broker):
    """Of a topic's messages only the newest ones are found."""

    def messages(self, topic: str) -> tuple[StoredMessage, ...]:
        return super().messages(topic)[2:]


class DeadLettersGoToo(Broker):
    """With a group its dead letters are deleted."""

    def delete_group(self, name: str, *, now: float) -> None:
        super().delete_group(name, now=now)
        with suppress(Refusal):
            self.delete_topic(f"%DLQ%{name}", now=now)


class CommitsForgotten(Broker):
    """Members' commits are answered, and forgotten."""

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        return True


CLASSIC = (
    Mutant("mu-sent-back-forever", ("dlq.sent-back",), core=LastAttemptsCome),
    Mutant(
        "mu-classic-attempts-forgotten", ("retry.own-copy", "send.fields-over-remoting"), core=FirstAttempts
    ),
    Mutant("mu-one-delay-level", ("retry.sent-back", "delay.levels"), core=OneLevel),
    Mutant("mu-classic-batches-reversed", ("send.batch-over-remoting",), core=BatchesReversed),
    Mutant("mu-classic-latin", ("remoting.headers",), core=TextsInLatin),
    Mutant("mu-classic-unchecked", ("tx.check-over-remoting",), parts=Parts(checks=NobodyIsChecked)),
    Mutant("mu-settings-stay", ("admin.topics", "admin.groups"), core=ChangesForgotten),
    Mutant("mu-only-newest-found", ("admin.messages",), core=OnlyTheNewest),
    Mutant("mu-dead-letters-go-too", ("dlq.outlives-group",), core=DeadLettersGoToo),
    Mutant("mu-classic-commits-forgotten", ("admin.progress",), core=CommitsForgotten),
    Mutant("mu-classic-rollbacks-commit", ("tx.over-remoting",), core=RollbacksCommit),
)
