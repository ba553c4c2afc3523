"""Profiles: one field for every point in which the published contract and real servers differ.

Times are seconds; the shipped profiles are in `profiles`. Sources: "consumption §1" means
`live-broker-consumption.md` section 1, "session §0" `live-broker-session.md`, "remoting §1"
`live-broker-remoting.md`, "R…" `broker-semantics.md`, "O…" the list of disagreements in `conformance-inventory.md`
section 2.
"""

from dataclasses import dataclass

from aiorocketmq_fake.core.values.choices import (
    Backoff,
    BatchReceipt,
    Exhaustion,
    LiteService,
    OrderGrain,
    StartPosition,
    WrongHandle,
)
from aiorocketmq_fake.core.values.codes import ClientType, Code, MessageType
from aiorocketmq_fake.core.values.sql_dialect import SqlDialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One complete choice of behaviour. Fields without a default differ between the two shipped profiles."""

    name: str
    """For reports only: no behaviour depends on it."""
    served_rpcs: frozenset[str]
    """RPCs that exist; all others are gRPC UNIMPLEMENTED (R10.1, session §1.1)."""

    # Sessions
    client_types: frozenset[ClientType]
    """Kinds that may send consumer settings; others end the stream with INTERNAL (R2.7, session §2.3)."""
    no_settings_code: Code
    """Receive without stored settings (5.1 row 1, consumption §2)."""
    settling_needs_client: bool
    """Change and forward need a registered client, else INTERNAL_SERVER_ERROR (R6.9)."""
    session_needs_group: bool
    """Settings of an unknown group end the stream, heartbeats for one are 40003 (R2.9, R2.14; consumption
    §11.22)."""
    termination_ends_polls: bool
    """A terminated client's parked polls are answered empty at once (consumption §4, §11.13)."""
    illegal_termination_unregisters: bool
    """A termination with an illegal group name is refused, but the client is gone all the same (R2.16)."""
    grpc_members_listed: bool = True
    """Over remoting, gRPC clients are listed among the members of their groups; those of a separate proxy are not
    (remoting §9)."""
    client_expiry: float = 120.0
    """A client is forgotten this long after its last settings or heartbeat (R2.15)."""
    termination_hold: float = 1.0
    """Auto-renewed messages of a client that left stay hidden this much longer (R7.9)."""

    languages: frozenset[str] | None
    """Values of `x-mq-language` that a client may register with; None takes all (1.1, session §1.2)."""
    pull_queues_divided: bool
    """QueryAssignment gives each pull consumer of a group queues of its own, evenly (documented: Consumer Load
    Balancing); otherwise every client gets the same list (R3.8)."""
    unspecified_scheme_code: Code
    """Routes asked for with endpoints of unspecified scheme (R3.5, session §3)."""
    lite_service: LiteService
    """Whether lite topics work (session §7.2)."""
    lite_limits_for_all: bool
    """The limits of lite topics are announced to every consumer, not only to those of bound groups (session
    §2.1)."""
    lite_subscription_quota: int = 2000
    """Lite topics that one client may subscribe to, unless its group sets a quota (R4.34)."""
    lite_quota_margin: int
    """How many more are accepted silently (session §7.2)."""
    lite_quota_per_request: bool
    """The quota counts the names of one request, not all subscriptions of the client (session §7.2)."""
    max_lite_topic_size: int = 64
    """Announced with the quota: bytes of a lite topic's name (R4.31)."""
    lite_subscription_life: float = 180.0
    """A subscription that is not repeated ends after this (R4.33)."""
    lite_scan: float
    """Interval of the scan for expired subscriptions and lite topics; 0: they expire at once (R4.33, R4.34)."""
    lite_tail_needs_progress: bool
    """The last n messages are counted from the group's position, and a new group gets all (session §7.2)."""
    lite_times_ignored: bool
    """A start by time is ignored (R4.33)."""

    client_properties_checked: bool
    """Settings with client properties off their limits are refused; 5.5 checks none (R2.18, session §11.9)."""

    # Access
    session_tokens_count: bool
    """A user's session token must be sent with the call; else the header is ignored (1.1, session §9)."""
    signature_window: float | None = None
    """How far the signed date may be from the present; None ignores the date (R1.11; managed services do)."""
    rights_forgotten: bool
    """DANGEROUS, real: over remoting, LITE_PULL_MESSAGE (361) reads any topic in any group, retry topics are read with
    the right to any group, and everybody lists topics and groups (21, 201) and changes groups (200); a signature is
    enough (seen on 5.5.0)."""
    queue_ends_managed: bool
    """Over remoting, the ends of a topic's queues and offsets by time are an administrator's to ask for (29 to 32),
    so that who may only subscribe cannot start without an offset (remoting §11)."""
    namespaces_isolate: bool
    """One name in two namespaces is two topics or groups; else namespaces are lost (R14.7, session §4.5)."""

    # Topics and groups
    mixed_topics: bool
    """Topics of type MIXED may be created (session §0, R3.4)."""
    auto_create_topics: bool = True
    """A send over remoting that names the default topic creates the topic; over gRPC none does."""
    refused_sends_create_topics: bool
    """A send that is refused, by its size for example, leaves the topic that it has created (seen on 5.5.0)."""
    deleted_groups_leave_redeliveries: bool
    """The retry topic of a deleted group stays, and a new group of its name reads it from the beginning (seen on
    5.5.0)."""
    auto_create_groups: bool
    """A receive or forward by an unknown group creates it: not ordered, 17 attempts (R10.2, R6.19); else a forward is
    CONSUMER_GROUP_NOT_FOUND."""
    lookups_create_groups: bool
    """So do settings, heartbeats and assignments that name one, if groups are created: a separate proxy asks its
    broker about the group (session §2.4)."""
    unknown_group_code: Code
    """Receive by an unknown group if none is created (R5.1 row 10)."""
    disabled_group_code: Code
    """Receive by a group that may not consume (5.1 row 10)."""
    unknown_topic_receive_code: Code
    """Receive from a topic that does not exist (5.1 row 9, trap 3)."""
    unknown_internal_topic_code: Code
    """Send to a retry or dead-letter topic that does not exist (session §4.1)."""
    unknown_topic_send_code: Code
    """Send to a topic that does not exist (R4.7, trap 3)."""
    client_settings_decide: bool
    """Order and attempt limit are those of the group in the client's settings, not of the request's (R5.1,
    trap 31)."""
    backoff: Backoff
    """Retry intervals in settings for groups without their own (7.5, O1)."""

    # Sending
    batch_receipt: BatchReceipt
    """Entries in the answer to a batch (R4.15)."""
    batch_is_one_block: bool
    """A batch lands in one queue whatever its message groups; only message 0's type and encoding count,
    bodies together are limited to 4 MiB, and delays are refused (R4.15, R4.16, session §4.7)."""
    keys_split_at_spaces: bool
    """Keys are stored joined by spaces, so a key with a space comes back as two (R4.2)."""
    empty_properties_vanish: bool
    """User properties with an empty value or name are lost in storage (R4.2, session §4.1)."""
    internal_properties_leak: bool
    """Message group and trace context also appear as user properties (R4.4)."""
    missing_born_time_is_zero: bool
    """A message sent without born time is born in 1970, not now (R4.3, session §4.5)."""
    busy_send_code: Code
    """A send above the rate limit: the broker's SYSTEM_BUSY (13.1), flattened in local mode (R1.9)."""
    store_refusal_code: Code
    """What the store refuses after all checks of the proxy: 50001 where the mode hides the cause (R1.9)."""
    transaction_id_always: bool
    """Every receipt carries a transaction id, transactional or not (R4.12)."""
    delay_grain: float
    """Delayed messages appear at the next multiple of this many seconds; 0 is exact (R4.19, session §5)."""
    delay_latency: float
    """Additional delay (session §5)."""
    recall_enabled: bool
    """RecallMessage works; else it is refused (R4.25)."""
    recall_margin: float
    """A recall nearer to the delivery than this is refused (session §5: between 0.4 and 1.0 s)."""
    recall_finds_message: bool
    """A recall names its message: a handle with another id is refused, not answered OK without effect
    (session §5)."""
    recall_failure_code: Code
    """A recall that comes too late, or with an invalid handle (R4.25)."""
    recall_foreign_broker_code: Code
    """A recall with a handle of another broker (session §5)."""
    max_delay: float = 86_400.0
    """Longest delay of a message (4.1 row 13)."""
    body_max: int = 4_194_304
    """Bytes of a body as sent, and of all bodies of a batch that is one block (4.1 row 5, session §4.1)."""
    property_count_max: int = 128
    """User properties of a message (4.1 row 6)."""
    property_bytes_max: int = 16_384
    """UTF-8 bytes of user properties, tag and keys (4.1 row 10)."""
    message_group_limit: int = 64
    """A message group has fewer UTF-8 bytes than this (4.1 row 14)."""
    types_checked: bool = True
    """A topic accepts messages of its own type only (4.1 row 15)."""

    # Transactions
    transaction_memory: float = 30.0
    """A decision is accepted this long after the send or the last check (R9.1)."""
    unknown_transaction_code: Code
    """EndTransaction for an unknown or expired transaction (9.2)."""
    decisions_repeat: bool
    """DANGEROUS, real: the send and each check allow one decision, even after the end; a COMMIT then stores the
    message once more (R9.11). It emits `events.DecidedAgain`."""
    delayed_transactions_vanish: bool
    """A half message with a delivery time to come gets a recall handle, and is never delivered when it is
    committed (session §4.3)."""
    check_immunity: float = 6.0
    """A half message is not checked before this, unless it has a recovery duration of its own (9.3)."""
    check_interval: float
    """Time between two checks (9.3, O9)."""
    checks_scan: bool
    """Checks happen at scans of the whole broker, every interval from its start: the first one falls up to an
    interval after the immunity (R9.6, session §6). Else each message keeps its own time."""
    check_limit: int | None
    """Maximal number of checks before a half message is given up; None: only its age counts (R9.7, O10)."""
    check_tries: int
    """Producers of the topic that are tried in turn for one with a stream, before a check is lost (R9.8). A proxy of
    5.5.0 hands every check to the one whose turn it is (seen there)."""
    half_lifetime: float
    """A half message older than this is given up (9.3, O10)."""
    half_age_from_born: bool
    """Age and immunity count from the producer's born time: without one the message is given up without a check, one
    in the future is checked at once (session §6). Else from the send."""
    recovery_in_whole_seconds: bool
    """Fractions of a recovery duration are cut off (9.3)."""
    recovery_duration_max: float = 3600.0
    """Longest recovery duration of a transactional message (4.1 row 12)."""
    mixed_topics_checked: bool = True
    """Half messages of MIXED topics are checked; behind a separate proxy they are not (R9.9)."""

    # Receiving
    polling_min: float
    """Shorter polls are stretched to this (5.1 row 3)."""
    polling_max: float
    """Longer polls are cut to this (5.1 row 3)."""
    polling_cut_floor: float = 5.0
    """A poll longer than the caller's deadline is cut to the deadline, if this much is left (5.1 row 4)."""
    polling_margin: float
    """Empty answers come this much before the poll ends (consumption §2)."""
    polling_code_since: str
    """Clients with a version below this (compared as text) see BAD_REQUEST for 40018 (R1.1 table, trap
    38)."""
    deadline_required: bool
    """A receive without a gRPC deadline is refused (5.1 row 2)."""
    empty_receive_code: Code
    """Status of an answer without messages (O8)."""
    bad_batch_size_code: Code
    """Negative batch size (R5.3)."""
    receive_batch_max: int = 32
    """Larger batches are cut to this (R5.3)."""
    invisible_min: float
    """Shortest lease of a receive (5.1 row 6, consumption §11.4)."""
    invisible_max: float = 43_200.0
    """Longest lease of receive and change (5.1 row 6, R6.9)."""
    retry_first_chance: float = 0.2
    """Probability that a receive reads retries before new messages (R5.9)."""
    polls_per_key: int = 1024
    """A poll is refused if more than this many polls of its group are parked on its topic: one more than the limit
    waits (5.2, seen on 5.5.0)."""
    polls_in_all: int = 100_000
    """Parked polls of the whole broker (5.2)."""
    new_group_start: StartPosition
    """Where a new group starts (O3)."""
    retries_wake_polls: bool = True
    """Parked polls notice redeliveries; 5.2 and 5.3 do not (R5.20, consumption §11.6)."""
    only_first_poll_woken: bool
    """If the filter of a group's first parked poll rejects a new message, no other one is tried (R5.18)."""
    reset_wakes_polls: bool
    """Parked polls notice an offset reset (consumption §7)."""
    cancelled_polls_take: bool
    """A cancelled poll stays in the broker and may still take messages (R5.7, consumption §4)."""
    undelivered_hold: float
    """Messages that could not be written to their receiver are visible again after this (R5.7)."""
    undelivered_counts: bool
    """Such a failed delivery counts as an attempt in normal groups (consumption §11.12)."""
    ordered_undelivered_counts: bool
    """Such a failed delivery counts as an attempt in ordered groups (consumption §1)."""
    exhaustion: Exhaustion
    """When exhausted messages are moved to the dead-letter topic (R5.26, consumption §11.18)."""
    dropped_ends_poll: bool
    """A receive returns empty at once if all its messages were dead-lettered or had a tag of equal hash (5.2 row 3)."""

    # Filters
    tags_match_by_hash: bool
    """The broker reads by 32-bit hash and the proxy drops collisions, so a collision costs a place in the batch
    (R5.23)."""
    sql: SqlDialect
    """The dialect of SQL expressions (5.6, session §8)."""
    sql_refusal_code: Code
    """An SQL expression that cannot be parsed; an empty one is always 40010 (R5.25)."""
    sql_sees_server_properties: bool
    """SQL expressions also see what the proxy writes: CLUSTER, MSG_REGION, TRACE_ON, PGROUP (observed on 5.5.0)."""

    # Leases
    revive_latency: float
    """Time between the end of a normal group's lease and the next visibility (15, consumption §3: never below
    2.0)."""
    revive_spread: float = 0.0
    """And up to this much more, mostly in the first third of it; a broker with a manual clock has 0 unless its profile
    is given by value (consumption §3)."""
    retries_keep_position: bool
    """A redelivery shows the queue, offset and store time of the first copy, not of the retry topic's
    (R7.1)."""
    auto_renews: bool = True
    """The server renews `auto_renew` leases; 5.2 and 5.3 do not (R7.7, consumption §11.11)."""
    auto_renew_lease: float = 60.0
    """Lease of an `auto_renew` receive (5.1 row 6)."""
    renew_ahead: float = 10.0
    """A lease is renewed this long before its end (R7.7)."""
    renew_steps: tuple[float, ...] = (60.0, 180.0, 300.0, 600.0, 1800.0, 3600.0)
    """Length of the first, second, … renewal; the last repeats (R7.8)."""
    renew_limit: float = 10_800.0
    """Renewal ends this long after the receive (R7.8)."""
    malformed_handle_code: Code
    """A handle that cannot be parsed (R6.2, trap 13)."""
    unknown_position_code: Code
    """A valid handle of a queue or offset that does not exist (6.2)."""
    no_entries_code: Code
    """An ack without entries (R6.6)."""
    ack_without_lease_ok: bool
    """A well-formed, unexpired handle without a lease (wrong group, superseded, tampered) acks OK without
    effect (R6.3, R6.12)."""
    change_after_ack: WrongHandle
    """Changing the lease of a message that was acked (O6, consumption §1)."""
    change_with_old_handle: WrongHandle
    """Changing a lease with a handle that an earlier change replaced (R6.12)."""
    changed_handles_grow: bool = True
    """A changed handle has one field more (consumption §2); not behind a separate proxy (seen on 5.5.0)."""
    changed_handles_keep_start: bool
    """DANGEROUS, real: in normal groups a changed or renewed handle reaches its lease only if its message was the first
    that the receive read in its queue. Others are acknowledged with OK and redelivered when the lease ends; each
    further change leaves the lease before it behind, and so one redelivery more (seen on 5.3.3 and 5.5.0); not behind
    a separate proxy (seen on 5.5.0)."""
    suspend_counts: bool
    """`suspend` is ignored in normal groups: the redelivery counts as an attempt (R6.15)."""
    ordered_suspend_counts: bool
    """`suspend` is ignored in ordered groups (consumption §1)."""

    # Dead letters
    dead_letters_keep_attempts: bool
    """A dead letter keeps counting attempts (R7.6); else it starts at 1."""
    dead_letter_type: MessageType | None
    """Message type that dead letters show, None for their own (consumption §1)."""
    dead_letters_make_retry_topic: bool
    """A group's first dead letter also makes a plain `%RETRY%{group}`, which stays empty (consumption §5)."""
    dead_letters_tell_origin: bool
    """Dead letters carry their source topic and id (R6.18)."""
    forward_checks_handle: bool
    """A forward needs the handle of a live lease (R6.17)."""
    forward_changed_handle_takes_first: bool
    """DANGEROUS, real: with a changed or renewed handle the first message of the log is dead-lettered and the real one
    is lost (consumption §1, §5a); not behind a separate proxy (seen on 5.5.0). It emits
    `events.WrongMessageDeadLettered`."""

    # Ordered groups
    order_grain: OrderGrain
    """What an un-acked message blocks (O13, R8.2)."""
    ordered_wake_latency: float
    """A parked poll is woken this long after a lease that blocked a queue expired (R8.12)."""
    ordered_extension_wakes: bool
    """Parked polls notice the end of an extended lease whose message is not the first of its open batch (R8.11, seen
    on 5.5.0)."""
    ordered_attempts_per_batch: bool
    """All messages of an ordered batch show the smallest attempt among them (R8.13, consumption §6); not behind a
    separate proxy (seen on 5.5.0)."""
    order_record_life: float
    """An order record without receives for so long is dropped, and attempts count from 1 again; 0 keeps it (8.3)."""
    ordered_old_handles_ack: bool
    """In ordered groups a handle replaced by a change still acks (consumption §1)."""

    # Retention
    retention: float = 259_200.0
    """Messages are kept this long from their store time (11)."""
    cleaning_interval: float = 10.0
    """Interval of the scan for expired messages (11)."""
    cleaning_hour: int | None
    """The hour of the day, UTC, at which expired messages are deleted while the disk has space; None is any (11)."""

    # Offsets
    reset_keeps_leases: bool
    """Messages in flight survive a reset and are redelivered in addition (R10.6, consumption §7)."""
    pull_commits_over_resets: bool
    """The first pull after a reset stores the commit that it carries, so that a member that joins now continues at
    the old offset; else it is ignored like other commits (seen on 5.5.0)."""
