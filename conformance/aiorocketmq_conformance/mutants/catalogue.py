"""Every mutant with the cases that must object to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiorocketmq_fake.core.broker import Broker

from aiorocketmq_conformance.mutants import receiving, sending, sessions, settling, wire
from aiorocketmq_conformance.probe.proxy import Meddling


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate defect of the fake."""

    name: str
    """MU and its number in inventory section 7; `mu-` and words where that list has none."""
    kills: tuple[str, ...]
    """Globs of the cases that must fail on it."""
    spares: tuple[str, ...] = (
        "life.settings-simple",
        "life.heartbeat-ok[simple]",
        "send.body-roundtrip[cjk]",
    )
    """Cases that must still pass: a mutant that breaks everything proves little."""
    core: type[Broker] = Broker
    profile: str = "documented"
    changes: Mapping[str, object] = field(default_factory=dict)
    """Fields of the profile with other values."""
    meddling: Meddling | None = None
    defect: str = ""
    """In words, where the core's docstring does not say it."""

    @property
    def told(self) -> str:
        """What is wrong, in one sentence."""
        return self.defect or (self.core.__doc__ or "").partition("\n")[0]


_ROUNDTRIP = "send.body-roundtrip[cjk]"
_SEND = ("send.receipt",)
_SESSION = ("life.settings-simple", "life.heartbeat-ok[simple]")

MUTANTS = (
    # What clients are told
    Mutant(
        "MU108",
        ("life.settings-producer",),
        core=sessions.NoProducerLimits,
    ),
    Mutant(
        "MU92",
        ("life.settings-consumer[ordered-17]",),
        core=sessions.NeverFifo,
    ),
    Mutant(
        "mu-advertised-attempts",
        ("life.settings-consumer*", "life.settings-simple"),
        spares=_SEND,
        core=sessions.OneAttemptMoreAdvertised,
    ),
    Mutant(
        "mu-settings-once",
        ("life.settings-resend", "life.stream-reconnect"),
        core=sessions.SettingsOnce,
    ),
    Mutant(
        "mu-reconnect-forgets",
        ("life.stream-reconnect",),
        core=sessions.ReconnectsForgetHandles,
    ),
    Mutant(
        "MU93",
        ("life.client-id-required*",),
        meddling=Meddling(headers=wire.anonymous),
        defect="the client-id header is not required",
    ),
    Mutant(
        "mu-heartbeat-anybody",
        ("life.heartbeat-unknown", "life.terminate-ok"),
        core=sessions.HeartbeatsOfAnybody,
    ),
    Mutant(
        "mu-heartbeat-nobody",
        ("life.heartbeat-ok*", "life.terminate-ok"),
        spares=(_ROUNDTRIP,),
        core=sessions.NoHeartbeats,
    ),
    Mutant(
        "MU109",
        ("life.terminate-ok", "push.client-gone-releases"),
        core=sessions.FarewellsIgnored,
    ),
    Mutant("MU76", ("life.route-ok",), core=sessions.RoutesMissAQueue),
    Mutant(
        "mu-route-creates",
        ("life.route-unknown-topic",),
        core=sessions.RoutesCreateTopics,
    ),
    Mutant(
        "mu-illegal-is-unknown",
        ("life.route-illegal-topic*",),
        core=sessions.IllegalIsUnknown,
    ),
    Mutant(
        "mu-first-queue-assigned",
        ("life.assignment-covers*",),
        core=sessions.FirstQueueAssigned,
    ),
    # What producers are promised
    Mutant(
        "mu-receipts-of-others",
        ("send.receipt", "send.id-echo", "send.type-match*"),
        core=sending.ReceiptsOfOthers,
    ),
    Mutant(
        "MU103",
        ("send.offsets-increase", "send.offset-value-unique"),
        core=sending.ReceiptsOneAhead,
    ),
    Mutant(
        "MU83",
        ("send.offset-value-unique", "send.offsets-increase"),
        core=sending.ReceiptsInPairs,
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
            "fifo.single-group",
            "fifo.two-groups-100",
        ),
        core=sending.SomeSendsLost,
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
        ),
        core=sending.SomeSendsDoubled,
    ),
    Mutant(
        "mu-invented",
        ("send.deadline-unknown", "send.receive-10*", "send.concurrent-producers"),
        core=sending.SomeSendsInvented,
    ),
    Mutant("mu-long-ids", ("send.id-echo",), core=sending.LongIdsCut),
    Mutant(
        "MU86",
        ("send.body-roundtrip[64KiB+1]", "send.body-max*"),
        core=sending.BodiesCut,
    ),
    Mutant(
        "mu-bodies-as-text",
        ("send.body-roundtrip[binary]", _ROUNDTRIP, "send.body-roundtrip[emoji]"),
        spares=_SESSION,
        core=sending.BodiesTakenForText,
    ),
    Mutant(
        "mu-bodies-padded",
        ("send.body-roundtrip*", "send.body-max*"),
        spares=_SESSION,
        core=sending.BodiesPadded,
    ),
    Mutant(
        "mu-largest-refused",
        ("send.body-max*",),
        core=sending.LargestBodyRefused,
    ),
    Mutant(
        "mu-tags-lower",
        ("send.tag-roundtrip",),
        core=sending.TagsInLowerCase,
    ),
    Mutant("mu-keys-sorted", ("send.keys-roundtrip",), core=sending.KeysSorted),
    Mutant(
        "mu-properties-cut",
        ("send.properties-roundtrip",),
        core=sending.FirstPropertiesOnly,
    ),
    Mutant(
        "MU87",
        ("send.props-isolated", "send.properties-roundtrip"),
        core=sending.PropertiesLeak,
    ),
    Mutant(
        "MU104",
        ("send.timestamps",),
        core=sending.StoredWhenBorn,
    ),
    Mutant(
        "mu-batch-half-stored",
        ("send.batch-mixed-topics",),
        core=sending.RefusedBatchesHalfStored,
    ),
    Mutant(
        "mu-empty-send",
        ("send.batch-empty",),
        core=sending.EmptySendsTaken,
    ),
    Mutant("mu-send-creates", ("send.unknown-topic",), core=sending.SendsCreateTopics),
    Mutant(
        "MU85",
        ("send.type-mismatch*", "life.route-ok"),
        core=sending.TypesUnchecked,
    ),
    Mutant(
        "mu-conflict-stored",
        ("send.type-mismatch[FIFO-on-NORMAL]", "send.type-mismatch[DELAY-on-NORMAL]"),
        core=sending.RefusedTypesStored,
    ),
    Mutant(
        "mu-types-refused",
        ("send.type-match*", "send.receipt"),
        spares=_SESSION,
        core=sending.EveryTypeRefused,
    ),
    Mutant(
        "mu-topics-leak",
        ("send.topic-isolation",),
        core=sending.TopicsLeak,
    ),
    # What a receive is promised
    Mutant(
        "mu-wrong-status",
        ("simple.stream-shape",),
        core=receiving.MessagesUnderWrongStatus,
    ),
    Mutant(
        "mu-no-time-stamp",
        ("simple.stream-shape",),
        meddling=Meddling(received=wire.no_time_stamp),
        defect="the delivery time stamp is missing",
    ),
    Mutant(
        "mu-refusals-empty",
        ("simple.error-shape*", "simple.unknown-topic", "simple.system-group"),
        core=receiving.RefusalsLookEmpty,
    ),
    Mutant(
        "MU70",
        ("simple.empty-await*", "simple.await-wakes"),
        core=receiving.ImpatientPolls,
    ),
    Mutant(
        "MU69",
        ("simple.await-wakes", "fifo.ack-unblocks"),
        core=receiving.SleepyPolls,
    ),
    Mutant(
        "MU71",
        ("simple.batch-cap",),
        changes={"receive_batch_max": 1000},
        defect="the batch size is not limited",
    ),
    Mutant(
        "mu-batches-doubled",
        ("simple.batch-exact*", "simple.batch-cap"),
        core=receiving.BatchesDoubled,
        changes={"receive_batch_max": 1000},
    ),
    Mutant(
        "MU09",
        ("simple.inflight-hidden", "simple.expiry-redelivers", "push.no-renew-without-flag"),
        core=receiving.NoLeases,
    ),
    Mutant(
        "MU10",
        (
            "simple.expiry-redelivers",
            "push.no-renew-without-flag",
            "fifo.consumer-crash",
            "fifo.first-ack-only",
        ),
        core=receiving.LeasesShortened,
    ),
    Mutant(
        "MU12",
        (
            "simple.expiry-redelivers",
            "simple.cancelled-receive",
            "simple.ack-garbage*",
            "simple.ack-wrong-*",
            "simple.nack-subset",
            "retry.expiry-counts",
            "retry.no-regress",
            "push.no-renew-without-flag",
            "push.groups-broadcast",
            "fifo.unacked-blocks",
            "fifo.gap-ack",
            "fifo.attempts-grow",
            "fifo.consumer-crash",
        ),
        core=receiving.EndlessLeases,
    ),
    Mutant(
        "MU73",
        ("simple.two-consumers-disjoint", "simple.four-pollers", "fifo.many-groups"),
        core=receiving.SomeGivenTwice,
    ),
    Mutant("MU91", ("simple.unknown-topic",), core=receiving.ReceivesCreateTopics),
    Mutant(
        "MU20",
        ("send.first-attempt-is-1*", "retry.attempt-steps", "push.consume-10"),
        core=receiving.AttemptsFromZero,
    ),
    Mutant(
        "MU18",
        (
            "retry.attempt-steps",
            "retry.expiry-counts",
            "retry.nack-counts",
            "retry.success-ends",
            "retry.total-attempts[1]",
            "retry.total-attempts[3]",
            "retry.no-regress",
            "push.nack-interval",
            "push.fail-redelivers",
            "push.throw-is-failure",
            "simple.change-*ten*",
            "fifo.attempts-grow",
            "fifo.unacked-blocks",
            "fifo.change-*er",
        ),
        core=receiving.AttemptsAlwaysOne,
    ),
    Mutant(
        "MU19",
        ("retry.per-group", "retry.no-regress", "push.groups-broadcast"),
        core=receiving.AttemptsOfAllGroups,
    ),
    Mutant(
        "MU88",
        ("retry.identity*", "simple.expiry-redelivers"),
        core=receiving.NewIdsOnRetry,
    ),
    Mutant(
        "mu-retry-topic-shown",
        ("retry.topic-name-hidden", "retry.identity*"),
        core=receiving.RetryTopicShown,
    ),
    Mutant("MU65", ("retry.filter-kept",), core=receiving.FiltersLostOnRetry),
    Mutant(
        "mu-filters-ignored",
        ("retry.filter-kept", "fifo.tag-filter-no-block"),
        core=receiving.FiltersIgnored,
    ),
    # What settling is promised to do
    Mutant(
        "MU01",
        (
            "simple.receive-ack*",
            "simple.ack-batch",
            "simple.change-new-handle",
            "life.stream-reconnect",
            "push.success-final",
            "retry.success-ends",
            "fifo.single-group",
            "fifo.ack-unblocks",
            "fifo.other-queue-progress",
        ),
        core=settling.SecondAckCounts,
    ),
    Mutant(
        "MU02",
        ("simple.ack-garbage*", "simple.ack-late", "fifo.old-handle-after-redelivery"),
        core=settling.AnyHandleAcks,
    ),
    Mutant(
        "MU03",
        ("simple.ack-late", "simple.ack-mixed", "fifo.expired-ack"),
        core=settling.LateAcksOk,
    ),
    Mutant(
        "MU04",
        ("simple.ack-late", "fifo.expired-ack"),
        core=settling.LateAcksDrop,
    ),
    Mutant(
        "MU05",
        ("simple.ack-batch", "simple.nack-subset"),
        core=settling.OnlyFirstOfBatchAcked,
    ),
    Mutant(
        "MU06",
        ("simple.ack-mixed",),
        core=settling.OneBadAckSpoilsAll,
    ),
    Mutant(
        "MU07",
        ("push.groups-broadcast",),
        core=settling.AcksForAllGroups,
    ),
    Mutant(
        "MU08",
        ("simple.ack-wrong-group", "simple.ack-wrong-topic"),
        core=settling.HandleAloneCounts,
    ),
    Mutant(
        "MU101",
        ("simple.nack-subset", "fifo.gap-ack"),
        core=settling.AcksReachBack,
    ),
    Mutant(
        "MU14-15",
        (
            "simple.change-shorten",
            "simple.change-extend",
            "push.nack-interval",
            "retry.nack-counts",
            "fifo.change-shorter",
            "fifo.change-longer",
        ),
        core=settling.ChangesIgnored,
    ),
    Mutant(
        "MU13",
        ("simple.change-extend", "simple.change-shorten", "push.nack-interval", "fifo.change-longer"),
        core=settling.ChangesAdded,
    ),
    Mutant(
        "mu-changes-halved",
        ("simple.change-extend", "push.nack-interval", "fifo.change-longer"),
        core=settling.ChangesHalved,
    ),
    Mutant(
        "MU16",
        ("simple.change-new-handle",),
        core=settling.OldHandleReturned,
    ),
    Mutant(
        "MU17",
        ("simple.change-expired",),
        core=settling.ExpiredChangesOk,
    ),
    # Retries and dead letters
    Mutant(
        "MU22",
        ("retry.total-attempts*", "fifo.exhausted-unblocks"),
        core=sessions.OneAttemptMore,
    ),
    Mutant(
        "MU24",
        ("retry.total-attempts*", "fifo.exhausted-unblocks"),
        core=receiving.DeadLettersUnreadable,
    ),
    Mutant(
        "MU42",
        ("retry.others-flow", "fifo.other-queue-progress"),
        core=receiving.BlockedByAnything,
    ),
    # Restarts
    Mutant(
        "MU49",
        ("send.durable-restart", "simple.inflight-survives-restart", "fifo.restart-keeps-order"),
        core=settling.RestartsLoseMessages,
    ),
    Mutant(
        "mu-restart-releases",
        ("simple.inflight-survives-restart",),
        core=settling.RestartsReleaseLeases,
    ),
    Mutant(
        "mu-restart-starts-over",
        ("fifo.restart-keeps-order", "simple.inflight-survives-restart"),
        core=settling.RestartsStartOver,
    ),
    # Push
    Mutant(
        "MU77",
        ("push.auto-renew-holds", "push.auto-renew-original-handle"),
        changes={"auto_renews": False},
        defect="the server does not renew leases",
    ),
    Mutant(
        "mu-first-handles-lapse",
        ("push.auto-renew-original-handle",),
        core=settling.FirstHandlesLapse,
    ),
    Mutant(
        "mu-everything-renewed",
        ("push.no-renew-without-flag", "simple.expiry-redelivers"),
        core=receiving.EverythingRenewed,
    ),
    # Ordered groups
    Mutant(
        "MU41",
        (
            "life.settings-consumer[ordered-17]",
            "fifo.unacked-blocks",
            "fifo.ack-unblocks",
            "fifo.gap-ack",
            "fifo.first-ack-only",
            "fifo.change-shorter",
            "fifo.change-longer",
            "fifo.old-handle-after-redelivery",
            "fifo.expired-ack",
            "fifo.exhausted-unblocks",
            "fifo.one-inflight-consumer",
            "fifo.push-inline-retry",
            "fifo.push-retry-3-groups",
            "fifo.consumer-crash",
            "fifo.other-queue-progress",
        ),
        core=sessions.OrderFlagIgnored,
    ),
    Mutant(
        "MU35",
        (
            "fifo.same-queue",
            "fifo.single-group",
            "fifo.many-groups",
            "fifo.two-producers",
            "fifo.batch-prefix",
        ),
        core=sending.GroupsSpread,
    ),
    Mutant(
        "mu-batches-reversed",
        (
            "fifo.batch-prefix",
            "fifo.many-groups",
            "fifo.two-producers",
            "fifo.two-groups-100",
            "fifo.push-inline-retry",
            "fifo.tag-filter-no-block",
        ),
        core=receiving.BatchesReversed,
    ),
)
"""In the order of the inventory's chapters."""

_LIBRARY = "judges the client library, whose own tests break it; no broker is asked"

UNPROVEN: Mapping[str, str] = {
    **{f"life.sdk-start-bad-endpoint[{kind}]": _LIBRARY for kind in ("producer", "push", "simple")},
    **{
        f"life.sdk-start-missing[{part}]": _LIBRARY
        for part in ("endpoint", "group", "handler", "concurrency", "timeouts", "topic")
    },
}
"""Cases that no mutant kills, each with its reason."""
