"""Cores that break promises about pulls and offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.choices import ALL_RPCS
from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.model import (
    FilterExpression,
    OffsetQuery,
    Output,
    Parked,
    PollAnswered,
    Pulled,
    PullRequest,
)
from aiorocketmq_fake.core.values.snapshots import QueueSnapshot

from conformance.tests.mutants.mutant import Mutant


class TamperingPulls(Broker):
    """A core whose every pull passes through `pulling` and `pulled`."""

    def pulling(self, request: PullRequest) -> PullRequest:
        """Change the request of a pull."""
        return request

    def pulled(self, answer: Pulled) -> Pulled:
        """Change the response to a pull."""
        return answer

    def pull(self, request: PullRequest, *, now: float) -> Pulled | Parked:
        pulled = super().pull(self.pulling(request), now=now)
        return pulled if isinstance(pulled, Parked) else self.pulled(pulled)

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        pulled = super().pull_classic(self.pulling(request), now=now, commit=commit)
        return pulled if isinstance(pulled, Parked) else self.pulled(pulled)

    def take_outputs(self) -> tuple[Output, ...]:
        return tuple(
            replace(output, result=self.pulled(output.result))
            if isinstance(output, PollAnswered) and isinstance(output.result, Pulled)
            else output
            for output in super().take_outputs()
        )


class PullsHide(TamperingPulls):
    """What was pulled once is not pulled again."""

    _seen: int = 0

    def pulling(self, request: PullRequest) -> PullRequest:
        return replace(request, offset=max(request.offset, self._seen), polling=0.0)

    def pulled(self, answer: Pulled) -> Pulled:
        self._seen = max(self._seen, answer.next_offset)
        return answer


class PullsTake(Broker):
    """A pull changes the group's progress."""

    def pull(self, request: PullRequest, *, now: float) -> Pulled | Parked:
        return self._moved(request, super().pull(request, now=now), now)

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        return self._moved(request, super().pull_classic(request, now=now, commit=commit), now)

    def _moved(self, request: PullRequest, found: Pulled | Parked, now: float) -> Pulled | Parked:
        if isinstance(found, Pulled):
            self.update_offset(request.group, request.topic, request.queue_id, found.next_offset, now=now)
        return found


class PullsSkip(TamperingPulls):
    """The next offset is one too high."""

    def pulled(self, answer: Pulled) -> Pulled:
        return replace(answer, next_offset=answer.next_offset + 1)


class PullsUnfiltered(TamperingPulls):
    """Pulls ignore their filter."""

    def pulling(self, request: PullRequest) -> PullRequest:
        return replace(request, filter=FilterExpression())


class PullsImpatient(TamperingPulls):
    """A pull at the end of a queue does not wait."""

    def pulling(self, request: PullRequest) -> PullRequest:
        return replace(request, polling=0.0)


class PullsAnywhere(TamperingPulls):
    """A pull outside of the queue returns the first message."""

    def pulling(self, request: PullRequest) -> PullRequest:
        ends = [message.offset for message in self.messages(request.topic)]
        inside = ends and ends[0] <= request.offset <= ends[-1] + 1
        return request if inside or not ends else replace(request, offset=ends[0])


class TamperingCommits(Broker, ABC):
    """A core that commits offsets as changed by `written`, over either protocol."""

    @abstractmethod
    def written(
        self, group: str, topic: str, queue_id: int, offset: int, now: float
    ) -> Iterable[tuple[str, int]]:
        """The groups to commit, each with the offset."""

    def update_offset(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        for name, number in self.written(group, topic, queue_id, offset, now):
            super().update_offset(name, topic, queue_id, number, now=now)

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        write = super().commit_classic
        done = [
            write(name, topic, queue_id, number, now=now)
            for name, number in self.written(group, topic, queue_id, offset, now)
        ]
        return all(done)


class OffsetsOnlyGrow(TamperingCommits):
    """A smaller offset is not committed."""

    def written(
        self, group: str, topic: str, queue_id: int, offset: int, now: float
    ) -> Iterable[tuple[str, int]]:
        with suppress(Refusal):
            offset = max(offset, self.get_offset(group, topic, queue_id, now=now))
        return ((group, offset),)


class OffsetsShared(TamperingCommits):
    """An offset is committed for every group."""

    def written(
        self, group: str, topic: str, queue_id: int, offset: int, now: float
    ) -> Iterable[tuple[str, int]]:
        return [(other.config.name, offset) for other in self.groups()]


class NoOffsetIsZero(Broker):
    """A group without committed offset gets 0."""

    def get_offset(self, group: str, topic: str, queue_id: int, *, now: float) -> int:
        try:
            return super().get_offset(group, topic, queue_id, now=now)
        except Refusal:
            return 0


class OffsetsShifted(Broker):
    """Committed offsets are returned one too high."""

    def get_offset(self, group: str, topic: str, queue_id: int, *, now: float) -> int:
        return super().get_offset(group, topic, queue_id, now=now) + 1


class OffsetsUntilRestart(Broker):
    """A restart loses committed offsets."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for place in self.offsets():
            self.update_offset(place.group, place.topic, place.queue, 0, now=now)


class QueriesAnswerOne(Broker):
    """Every query for an offset is answered 1, over remoting the one for a queue's end one too high."""

    def query_offset(self, query: OffsetQuery, *, now: float) -> int:
        return 1

    def queue(self, topic: str, queue_id: int) -> QueueSnapshot | None:
        snapshot = super().queue(topic, queue_id)
        return None if snapshot is None else replace(snapshot, max_offset=snapshot.max_offset + 1)


class ResetsMoveAll(Broker):
    """A reset of one group moves every group."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        for other in self.groups():
            moved = super().reset_offset(other.config.name, topic, policy, now=now, timestamp=timestamp)
        return moved


class PullsWakeOne(TamperingPulls):
    """A message completes the waiting pull of one group only."""

    _woken: str = ""

    def pulling(self, request: PullRequest) -> PullRequest:
        self._woken = self._woken or request.group
        return request if request.group == self._woken else replace(request, polling=0.0)


class LastQueueMissed(TamperingPulls):
    """Pulls of a topic's last queue return nothing, unless it is the only one."""

    def pulling(self, request: PullRequest) -> PullRequest:
        topic = self.topic(request.topic)
        is_last = topic is not None and request.queue_id == topic.read_queues - 1 > 0
        return replace(request, filter=FilterExpression("nothing"), polling=0.0) if is_last else request


class PullsForgive(TamperingPulls):
    """A pull of an unknown topic or queue is served from the first queue of an existing one."""

    def pulling(self, request: PullRequest) -> PullRequest:
        if self.queue(request.topic, request.queue_id) is not None:
            return request
        topics = sorted(each.config.name for each in self.topics())
        topic = request.topic if request.topic in topics else topics[0]
        return replace(request, topic=topic, queue_id=0)


class PullsNeedGroups(Broker):
    """A pull of a group that does not exist is refused."""

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        if not self.has_group(request.group):
            raise Refusal(
                Code.CONSUMER_GROUP_NOT_FOUND, f"The consumer group {request.group} does not exist."
            )
        return super().pull_classic(request, now=now, commit=commit)


class CommitsOfNothing(Broker):
    """A commit for an unknown topic or group is accepted, and ignored."""

    def has_group(self, group: str) -> bool:
        return True

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        with suppress(Refusal):
            return super().commit_classic(group, topic, queue_id, offset, now=now)
        return True


class CarriedCommitsGrow(Broker):
    """The offset in a pull is committed only if it is larger than before."""

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        place = request.group, request.topic, request.queue_id
        with suppress(Refusal):
            commit = commit and max(commit, self.get_offset(*place, now=now))
        return super().pull_classic(request, now=now, commit=commit)


class ResetsUntold(Broker):
    """Members of a group that is reset are not notified."""

    def reset_queue(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        self.update_offset(group, topic, queue_id, offset, now=now)


class ResetsForEver(Broker):
    """Commits of a group after a reset have no effect."""

    _moved: frozenset[str] = frozenset()

    def reset_queue(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        super().reset_queue(group, topic, queue_id, offset, now=now)
        self._moved |= {group}

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        return group not in self._moved and super().commit_classic(group, topic, queue_id, offset, now=now)


PULLING = (
    Mutant(
        "mu-pull-as-if-served",
        ("pull.absent-is-clean*",),
        profile="apache-5.5",
        changes={"served_rpcs": ALL_RPCS},
        defect="calls that the server does not declare are answered",
    ),
    Mutant("MU94", ("pull.repeatable", "pull.no-ack-replays"), core=PullsHide),
    Mutant("mu-pull-takes", ("pull.not-shared-with-pop",), core=PullsTake),
    Mutant(
        "mu-pull-skips",
        ("pull.from-offset", "pull.next-offset-chain", "pull.repeatable", "pull.batch-cap"),
        core=PullsSkip,
    ),
    Mutant(
        "mu-pull-unfiltered",
        (
            "pull.filter-advances",
            "pull.filter-held",
            "pull.filter-tags[one]",
            "pull.filter-tags[none]",
            "pull.filter-tags[same-hash]",
            "pull.declared-filter",
        ),
        core=PullsUnfiltered,
    ),
    Mutant(
        "mu-pull-impatient",
        ("pull.empty-waits", "pull.empty-wakes", "pull.many-waiters"),
        core=PullsImpatient,
    ),
    Mutant(
        "mu-pull-batches",
        ("pull.batch-cap",),
        changes={"receive_batch_max": 1000},
        defect="the batch of a pull is not limited",
    ),
    Mutant("mu-pull-anywhere", ("pull.illegal-offset*", "pull.trimmed-offset"), core=PullsAnywhere),
    Mutant("mu-offsets-only-grow", ("pull.update-backwards",), core=OffsetsOnlyGrow),
    Mutant("mu-offsets-shared", ("pull.offset-per-group",), core=OffsetsShared),
    Mutant(
        "mu-no-offset-is-zero",
        ("pull.get-offset-none", "pull.young-queue-start", "keep.new-group-behind-min"),
        core=NoOffsetIsZero,
    ),
    Mutant("mu-offsets-shifted", ("pull.update-get-offset",), core=OffsetsShifted),
    Mutant("mu-offsets-until-restart", ("pull.offset-survives-restart",), core=OffsetsUntilRestart),
    Mutant(
        "mu-queries-answer-one",
        ("pull.query-begin-end", "pull.query-time", "pull.time-bounds"),
        core=QueriesAnswerOne,
    ),
    Mutant("mu-resets-move-all", ("offset.reset-one-group*",), core=ResetsMoveAll),
    Mutant("mu-pulls-wake-one", ("pull.groups-woken",), core=PullsWakeOne),
    Mutant("mu-last-queue-missed", ("lb.queues-all-served*", "strategy.shares*"), core=LastQueueMissed),
    Mutant("mu-pulls-forgive", ("pull.unknown-topic", "pull.unknown-queue"), core=PullsForgive),
    Mutant("mu-pulls-need-groups", ("pull.unknown-group",), core=PullsNeedGroups),
    Mutant("mu-commits-of-nothing", ("pull.commit-unknown*",), core=CommitsOfNothing),
    Mutant("mu-carried-commits-grow", ("pull.commit-carried",), core=CarriedCommitsGrow),
    Mutant(
        "mu-resets-untold",
        ("offset.reset-running", "offset.reset-late-commit", "offset.reset-locked*"),
        core=ResetsUntold,
    ),
    Mutant("mu-resets-for-ever", ("offset.reset-running",), core=ResetsForEver),
)
