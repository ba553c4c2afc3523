"""Cores that break what members of classic groups are promised."""

from __future__ import annotations

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.classic_model import Beat, MembersChanged, QueueKey
from aiorocketmq_fake.core.model import ForChannels, Output

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
            for place in self.offsets():
                if place.group == consumer_group:
                    self.update_offset(place.group, place.topic, place.queue_id, 0, now=now)


GROUPING = (
    Mutant("mu-members-untold", ("member.*-notifies",), core=MembersUntold),
    Mutant("mu-members-told-always", ("member.repeat-is-quiet",), core=MembersToldAlways),
    Mutant("mu-leavers-stay", ("member.leave-notifies",), core=LeaversStay),
    Mutant("mu-the-gone-stay", ("member.hang-up-notifies",), core=TheGoneStay),
    Mutant(
        "mu-locks-shared",
        ("lock.one-owner", "lock.expires", "lock.renewed", "reb.lock-handover*"),
        core=LocksShared,
    ),
    Mutant("mu-locks-stay", ("lock.unlock-frees", "lock.expires", "reb.lock-handover*"), core=LocksStay),
    Mutant("mu-locks-unrenewed", ("lock.renewed",), core=LocksUnrenewed),
    Mutant("mu-locks-leave", ("lock.outlives-owner",), core=LocksLeave),
    Mutant("mu-locks-across-groups", ("lock.per-group",), core=LocksAcrossGroups),
    Mutant("mu-last-members-forget", ("reb.all-leave-return*remoting*",), core=LastMembersForget),
)
