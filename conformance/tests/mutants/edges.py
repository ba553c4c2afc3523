"""Cores that break promises about limits, permissions and repeated calls of receives and settlements."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Code, Permission, Refusal
from aiorocketmq_fake.core.values.model import (
    AckOutcome,
    AckRequest,
    AckResult,
    GroupConfig,
    Parked,
    Received,
    ReceiveRequest,
    TopicConfig,
)

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.tampering import Tampering


class PollsStretched(Tampering):
    """Every poll takes at least a minute."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, polling=max(60.0, request.polling or 0.0), remaining_deadline=None)


class ShortDeadlinesAreFaults(Broker):
    """A deadline before the end of the poll is answered with a server error."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        deadline = request.remaining_deadline
        if deadline is not None and deadline < (request.polling or 0.0):
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "the deadline is too short.")
        return super().receive(request, now=now)


class FullPollsAreFaults(Broker):
    """Too many polls are answered with a server error."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        try:
            return super().receive(request, now=now)
        except Refusal as refusal:
            if refusal.code is Code.TOO_MANY_REQUESTS:
                raise Refusal(Code.INTERNAL_SERVER_ERROR, "too many polls.") from refusal
            raise


class EverybodyMayConsume(Broker):
    """Groups may always consume."""

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        super().create_group(replace(config, consume_enabled=True), now=now)

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        super().update_group(replace(config, consume_enabled=True), now=now)


class PermissionsIgnored(Broker):
    """Permissions of topics are ignored."""

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        super().create_topic(replace(config, permission=Permission.READ_WRITE), now=now)

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        super().update_topic(replace(config, permission=Permission.READ_WRITE), now=now)


class LimitsFixed(Broker):
    """A changed attempt limit has no effect."""

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        before = next(one.config for one in self.groups() if one.config.name == config.name)
        super().update_group(replace(config, max_attempts=before.max_attempts), now=now)


class SecondAcksAreFaults(Broker):
    """A second ack is answered with a server error."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        acked: set[str] = getattr(self, "_seen", set())
        handles = {entry.receipt_handle for entry in request.entries}
        self._seen = acked | handles
        if not handles & acked:
            return super().ack(request, now=now)
        code = Code.INTERNAL_SERVER_ERROR
        outcomes = (AckOutcome(each.message_id, each.receipt_handle, code, "") for each in request.entries)
        return AckResult(code, tuple(outcomes))


class EmptyAcksOk(Broker):
    """An ack without entries is OK."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        return super().ack(request, now=now) if request.entries else AckResult(Code.OK, ())


EDGES = (
    Mutant("mu-polls-stretched", ("simple.await-zero",), core=PollsStretched),
    Mutant("mu-short-deadlines", ("simple.deadline-too-short",), core=ShortDeadlinesAreFaults),
    Mutant("mu-full-polls", ("simple.poll-flood",), core=FullPollsAreFaults, changes={"polls_per_key": 50}),
    Mutant(
        "mu-any-lease-granted",
        ("simple.invisible-min*", "simple.invisible-max", "simple.change-over-max"),
        changes={"invisible_min": 0.0, "invisible_max": 1e9},
        defect="leases have no limits",
    ),
    Mutant(
        "mu-bounds-refused",
        ("simple.invisible-bounds-ok*",),
        changes={"invisible_min": 1.0, "invisible_max": 43_199.0},
        defect="leases of exactly the limits are refused",
    ),
    Mutant(
        "mu-unknown-group",
        ("simple.unknown-group",),
        changes={"unknown_group_code": Code.BAD_REQUEST},
        defect="an unknown group is answered like a malformed request",
    ),
    Mutant("mu-everybody-consumes", ("simple.group-disabled",), core=EverybodyMayConsume),
    Mutant(
        "mu-permissions-ignored",
        ("simple.unreadable-topic", "send.no-writable-queue"),
        core=PermissionsIgnored,
    ),
    Mutant("mu-limits-fixed", ("retry.limit-lowered",), core=LimitsFixed),
    Mutant("mu-second-acks", ("simple.ack-twice",), core=SecondAcksAreFaults),
    Mutant("mu-empty-acks", ("simple.ack-empty",), core=EmptyAcksOk),
    Mutant(
        "mu-retries-last",
        ("retry.fairness",),
        changes={"retry_first_chance": 0.0},
        defect="retries wait until no fresh message is left",
    ),
    Mutant(
        "mu-changed-missed",
        ("simple.change-batch[once]", "simple.change-batch[twice]"),
        changes={"changed_handles_keep_start": True, "ack_without_lease_ok": True},
        defect="changed handles of a batch reach the lease of its first message only",
    ),
    Mutant(
        "mu-suspend-counts",
        ("retry.suspend-not-counted",),
        changes={"suspend_counts": True},
        defect="the suspend flag is ignored",
    ),
)
