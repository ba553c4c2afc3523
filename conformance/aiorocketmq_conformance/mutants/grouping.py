"""Cores that break what members of classic groups are promised."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.classic_model import Beat, MembersChanged, MembersOfGroup, QueueKey
from aiorocketmq_fake.core.model import ForChannels, Output, Parked, Pulled, PullRequest

from aiorocketmq_conformance.mutants.mutant import Mutant


class MembersUntold(Broker):
    """No member is told of a change."""

    def take_outputs(self) -> tuple[Output, ...]:
        return tuple(
            output
            for output in super().take_outputs()
            if not (isinstance(output, ForChannels) and isinstance(output.command, MembersChanged))
        )


class MembersToldAlways(Broker):
    """Every heartbeat counts as a change."""

    def beat(self, channel: int, beat: Beat, *, now: float) -> None:
        for member in beat.consumers:
            super().unregister(channel, beat.client_id, member.group, "", now=now)
        super().beat(channel, beat, now=now)


class LatestTwoListed(Broker):
    """Of all members, the two that came last are told."""

    def members(self, group: str) -> MembersOfGroup | None:
        found = super().members(group)
        return None if found is None else replace(found, members=found.members[-2:])


class ChangesMoveOffsets(Broker):
    """Whoever joins or leaves moves the offsets of its group back by one."""

    def _moved(self, group: str, now: float) -> None:
        for place in self.offsets(group):
            if place.offset:
                self.update_offset(group, place.topic, place.queue_id, place.offset - 1, now=now)

    def beat(self, channel: int, beat: Beat, *, now: float) -> None:
        super().beat(channel, beat, now=now)
        for member in beat.consumers:
            self._moved(member.group, now)

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        self._moved(consumer_group, now)


class CrashesMoveOffsets(Broker):
    """The pulls of who hangs up count as committed."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # whatever a core takes
        self._pulled: dict[tuple[str, str, int], int] = {}

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        found = super().pull_classic(request, now=now, commit=commit)
        if isinstance(found, Pulled):
            self._pulled[request.group, request.topic, request.queue_id] = found.next_offset
        return found

    def close_channel(self, channel: int, *, now: float) -> None:
        super().close_channel(channel, now=now)
        for (group, topic, queue_id), offset in self._pulled.items():
            self.update_offset(group, topic, queue_id, offset, now=now)


class LeaversStay(Broker):
    """Who leaves stays a member."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        return


class TheGoneStay(Broker):
    """Who hangs up stays a member."""

    def close_channel(self, channel: int, *, now: float) -> None:
        return


class LocksShared(Broker):
    """Every lock is granted."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        return queues


class LocksStay(Broker):
    """Who has locked a queue once has it for ever."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # whatever a core takes
        self._owners: dict[tuple[str, QueueKey], str] = {}

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        return tuple(
            queue for queue in queues if self._owners.setdefault((group, queue), client_id) == client_id
        )


class LocksUnrenewed(LocksStay):
    """A lock that is taken again ends 60 s after it was taken first."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        again = tuple(queue for queue in queues if self._owners.get((group, queue)) == client_id)
        fresh = tuple(queue for queue in queues if queue not in again)
        granted = Broker.lock_queues(self, group, client_id, fresh, now=now)
        self._owners.update({(group, queue): client_id for queue in granted})
        return (*again, *granted)


class LocksLeave(Broker):
    """Who leaves takes all locks along."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        self._locks.forget_all()


class LocksAcrossGroups(Broker):
    """A queue is locked for all groups at once."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        return super().lock_queues("all", client_id, queues, now=now)


class LastMembersForget(Broker):
    """The last member that leaves a group takes its offsets along."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        if self.members(consumer_group) is None:
            for place in self.offsets(consumer_group):
                self.update_offset(place.group, place.topic, place.queue_id, 0, now=now)


GROUPING = (
    Mutant("mu-members-untold", ("member.*-notifies",), core=MembersUntold),
    Mutant("mu-members-told-always", ("member.repeat-is-quiet",), core=MembersToldAlways),
    Mutant(
        "mu-leavers-stay",
        ("member.leave-notifies", "reb.queues-leave", "strategy.idle-members"),
        core=LeaversStay,
    ),
    Mutant("mu-the-gone-stay", ("member.hang-up-notifies", "reb.queues-crash"), core=TheGoneStay),
    Mutant("mu-latest-two-listed", ("strategy.*", "reb.queues-latecomer"), core=LatestTwoListed),
    Mutant(
        "mu-changes-move-offsets",
        ("reb.queues-latecomer", "reb.queues-leave", "reb.queues-flap"),
        core=ChangesMoveOffsets,
    ),
    Mutant("mu-crashes-move-offsets", ("reb.queues-crash",), core=CrashesMoveOffsets),
    Mutant(
        "mu-silence-is-patient",
        ("member.expires",),
        changes={"client_expiry": 3600.0},
        defect="members that say nothing are never forgotten",
    ),
    Mutant(
        "mu-locks-shared",
        ("lock.one-owner", "lock.expires", "lock.renewed", "reb.lock-handover*"),
        core=LocksShared,
    ),
    Mutant("mu-locks-stay", ("lock.unlock-frees", "lock.expires", "reb.lock-handover*"), core=LocksStay),
    Mutant("mu-locks-unrenewed", ("lock.renewed",), core=LocksUnrenewed),
    Mutant("mu-locks-leave", ("lock.outlives-owner",), core=LocksLeave),
    Mutant("mu-locks-across-groups", ("lock.per-group",), core=LocksAcrossGroups),
    Mutant("mu-last-members-forget", ("reb.queues-all-return",), core=LastMembersForget),
)
