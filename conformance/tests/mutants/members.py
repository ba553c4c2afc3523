"""Cores that break promises about members of classic groups."""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.classic_model import (
    Heartbeat,
    MembersChanged,
    Membership,
    MembersOfGroup,
    QueueKey,
    Subscribed,
)
from aiorocketmq_fake.core.values.model import (
    FilterExpression,
    ForChannels,
    Output,
    Parked,
    Pulled,
    PullRequest,
    TopicConfig,
)

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.pull import TamperingPulls


class MembersUntold(Broker):
    """No member is notified of a change."""

    def take_outputs(self) -> tuple[Output, ...]:
        return tuple(
            output
            for output in super().take_outputs()
            if not (isinstance(output, ForChannels) and isinstance(output.command, MembersChanged))
        )


class MembersToldAlways(Broker):
    """Every heartbeat counts as a change."""

    def beat(self, channel: int, beat: Heartbeat, *, now: float) -> None:
        for member in beat.consumers:
            super().unregister(channel, beat.client_id, member.group, "", now=now)
        super().beat(channel, beat, now=now)


class LatestTwoListed(Broker):
    """Only the two newest members are notified."""

    def members(self, group: str) -> MembersOfGroup | None:
        members = super().members(group)
        return None if members is None else replace(members, members=members.members[-2:])


class ChangesMoveOffsets(Broker):
    """A member that joins or leaves moves the offsets of its group back by one."""

    def _moved(self, group: str, now: float) -> None:
        for place in self.offsets(group):
            if place.offset:
                self.update_offset(group, place.topic, place.queue, place.offset - 1, now=now)

    def beat(self, channel: int, beat: Heartbeat, *, now: float) -> None:
        super().beat(channel, beat, now=now)
        for member in beat.consumers:
            self._moved(member.group, now)

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        self._moved(consumer_group, now)


class CrashesMoveOffsets(Broker):
    """The pulls of a member that disconnects count as committed."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # whatever a core takes
        self._pulled: dict[tuple[str, str, int], int] = {}

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        pulled = super().pull_classic(request, now=now, commit=commit)
        if isinstance(pulled, Pulled):
            self._pulled[request.group, request.topic, request.queue_id] = pulled.next_offset
        return pulled

    def close_channel(self, channel: int, *, now: float) -> None:
        super().close_channel(channel, now=now)
        for (group, topic, queue_id), offset in self._pulled.items():
            self.update_offset(group, topic, queue_id, offset, now=now)


class LeaversStay(Broker):
    """A member that leaves stays in the list."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        return


class TheGoneStay(Broker):
    """A member that disconnects stays in the list."""

    def close_channel(self, channel: int, *, now: float) -> None:
        return


class LocksShared(Broker):
    """Every lock is granted."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        return queues


class LocksStay(Broker):
    """Locks never expire."""

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
    """A renewed lock expires 60 s after the first request."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        again = tuple(queue for queue in queues if self._owners.get((group, queue)) == client_id)
        fresh = tuple(queue for queue in queues if queue not in again)
        granted = Broker.lock_queues(self, group, client_id, fresh, now=now)
        self._owners.update({(group, queue): client_id for queue in granted})
        return (*again, *granted)


class LocksLeave(Broker):
    """A member that leaves removes all locks."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        self._locks.forget_all()


class LocksUntilResets(Broker):
    """A reset removes the group's locks."""

    def reset_queue(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        super().reset_queue(group, topic, queue_id, offset, now=now)
        self._locks.forget_all()


class LocksAcrossGroups(Broker):
    """A queue is locked for all groups at once."""

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        return super().lock_queues("all", client_id, queues, now=now)


class LastMembersForget(Broker):
    """The offsets of a group are deleted when its last member leaves."""

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        super().unregister(channel, client_id, consumer_group, producer_group, now=now)
        if self.members(consumer_group) is None:
            for place in self.offsets(consumer_group):
                self.update_offset(place.group, place.topic, place.queue, 0, now=now)


class FirstSubscriptionStays(Broker):
    """The first subscription of a group is never replaced."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # whatever a core takes
        self._first: dict[tuple[str, str], Subscribed] = {}

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        subscriptions = super().subscription(group, topic)
        return subscriptions and self._first.setdefault((group, topic), subscriptions)


class LastHeartbeatCounts(Broker):
    """The last heartbeat counts, whatever the version of its subscriptions."""

    def beat(self, channel: int, beat: Heartbeat, *, now: float) -> None:
        self._last = {
            subscription.topic: subscription for each in beat.consumers for subscription in each.subscriptions
        }
        super().beat(channel, beat, now=now)

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        return self._last.get(topic)


class SubscriptionsKnown(Broker):
    """A group that subscribes to nothing subscribes to everything, in every version."""

    def members(self, group: str) -> MembersOfGroup | None:
        return super().members(group) or MembersOfGroup((), Membership(group, ()))

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        return Subscribed(topic, version=2**62)


class SubscriptionsWin(TamperingPulls):
    """Subscriptions of a group apply to all its pulls."""

    def pulling(self, request: PullRequest) -> PullRequest:
        subscription = self.subscription(request.group, request.topic)
        return (
            request
            if subscription is None
            else replace(request, filter=FilterExpression(subscription.expression, subscription.type))
        )


class SubscriptionsShared(Broker):
    """Subscriptions of one group apply to all groups."""

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        subscription_of = super().subscription
        subscriptions = (subscription_of(each.config.name, topic) for each in self.groups())
        return next((subscription for subscription in subscriptions if subscription is not None), None)


class BroadcastsShare(Broker):
    """Broadcasting groups are treated as clustering ones."""

    def beat(self, channel: int, beat: Heartbeat, *, now: float) -> None:
        sharing = tuple(replace(each, message_model="CLUSTERING") for each in beat.consumers)
        super().beat(channel, replace(beat, consumers=sharing), now=now)


class TopicsStay(Broker):
    """A topic keeps the queues that it was created with."""

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        return


class OffsetsUncommitted(Broker):
    """Every commit stores the beginning."""

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        return super().commit_classic(group, topic, queue_id, 0, now=now)


GROUPING = (
    Mutant("mu-members-untold", ("member.*-notifies",), core=MembersUntold),
    Mutant("mu-members-told-always", ("member.repeat-is-quiet",), core=MembersToldAlways),
    Mutant(
        "mu-leavers-stay",
        ("member.leave-notifies", "reb.queues-leave", "strategy.idle-members", "reb.queues-traffic"),
        core=LeaversStay,
    ),
    Mutant(
        "mu-the-gone-stay",
        ("member.hang-up-notifies", "reb.queues-crash", "reb.queues-traffic"),
        core=TheGoneStay,
    ),
    Mutant(
        "mu-latest-two-listed",
        ("strategy.*", "reb.queues-latecomer", "lb.queues-all-served[4]"),
        core=LatestTwoListed,
    ),
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
        defect="silent members never expire",
    ),
    Mutant(
        "mu-locks-shared",
        ("lock.one-owner", "lock.expires", "lock.renewed", "reb.lock-handover*", "reb.queues-lock-crash"),
        core=LocksShared,
    ),
    Mutant(
        "mu-locks-stay",
        (
            "lock.unlock-frees",
            "lock.expires",
            "reb.lock-handover*",
            "reb.queues-lock-crash",
            "reb.queues-ordered",
        ),
        core=LocksStay,
    ),
    Mutant("mu-locks-unrenewed", ("lock.renewed",), core=LocksUnrenewed),
    Mutant("mu-locks-leave", ("lock.outlives-owner",), core=LocksLeave),
    Mutant("mu-locks-until-resets", ("offset.reset-locked*",), core=LocksUntilResets),
    Mutant("mu-locks-across-groups", ("lock.per-group", "lb.queues-stalled-group"), core=LocksAcrossGroups),
    Mutant(
        "mu-last-members-forget", ("reb.queues-all-return", "offset.queue-resume*"), core=LastMembersForget
    ),
    Mutant("mu-broadcasts-share", ("member.broadcast-*",), core=BroadcastsShare),
    Mutant("mu-topics-stay", ("reb.queues-increase",), core=TopicsStay),
    Mutant("mu-offsets-uncommitted", ("reb.queues-traffic", "reb.queues-latecomer"), core=OffsetsUncommitted),
    Mutant("mu-first-subscription-stays", ("pull.declared-newer",), core=FirstSubscriptionStays),
    Mutant("mu-last-heartbeat-counts", ("pull.declared-newer",), core=LastHeartbeatCounts),
    Mutant("mu-subscriptions-known", ("pull.declared-unknown*",), core=SubscriptionsKnown),
    Mutant("mu-subscriptions-win", ("pull.declared-inline",), core=SubscriptionsWin),
    Mutant("mu-subscriptions-shared", ("pull.declared-per-group",), core=SubscriptionsShared),
)
