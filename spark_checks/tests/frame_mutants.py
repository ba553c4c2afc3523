"""Frames and exemptions that are broken on purpose, each by one change of its source."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from aiorocketmq_audit import exemptions
from aiorocketmq_audit.frames import (
    deliveries,
    handlers,
    locks,
    messages,
    order,
    packing,
    places,
    queues,
    requests,
    settings,
    tags,
)


@dataclass(frozen=True)
class Mutant:
    """One change of one module, and the frames that stand on it; none if it is about what exempts."""

    name: str
    module: ModuleType
    old: str
    new: str
    frames: tuple[str, ...] = ()


def _of(module: ModuleType, *mutants: tuple[str, str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(name, module, old, new, (frame,)) for frame, name, old, new in mutants)


def _exempting(*mutants: tuple[str, str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(name, exemptions, old, new) for name, old, new in mutants)


_D, _H, _L, _S = "deliveries", "handlers", "lite deliveries", "stored messages"
_G, _W = "grants", "locked work"

MUTANTS = (
    *_of(
        packing,
        (_D, "an unknown outcome is a success", '"info": UNKNOWN', '"info": OK'),
        (_D, "only time tells what came first", 'F.coalesce("invoked_seq", "seq")).alias', "F.lit(0)).alias"),
        (_D, "owners of queues have leases", 'F.coalesce("role", F.lit("")) != "pull"', "F.lit(True)"),
        (
            _D,
            "calls tell nothing",
            'called = there = F.coalesce("invoked_us", "t_wall_us")',
            'called = there = F.col("t_wall_us")',
        ),
        (_D, "messages are there before they are stored", "F.greatest(called, stored)", "called"),
        (
            _D,
            "copies are as old as they are",
            'first_stored = F.least("store_us", "born_us")',
            'first_stored = F.col("store_us")',
        ),
        (
            _D,
            "ordered copies are one message",
            'F.when(F.coalesce("ordered", F.lit(False)), copy)',
            "F.when(F.lit(False), copy)",
        ),
        (
            _D,
            "an empty request is a request",
            'F.when(F.col("receive_attempt") != "", ',
            "F.when(F.lit(True), ",
        ),
        (
            _D,
            "broadcasts are shared",
            '~F.coalesce("broadcast", F.lit(False))',
            "F.lit(True)",
        ),
        (
            _D,
            "queues are read by message groups",
            "& ~F.coalesce(F.expr(BY_QUEUE), F.lit(False))",
            "",
        ),
        (_D, "simple consumers climb ladders", 'F.col("role") == "simple"', "F.lit(False)"),
        (
            _D,
            "all observers are one",
            'F.xxhash64(*ACCOUNT, "topic", "group", F.coalesce',
            'F.xxhash64(*SCOPE, "topic", "group", F.coalesce',
        ),
    ),
    *_of(
        deliveries,
        (_D, "any handle changes the lease", '(F.col("handle") == F.col("current"))', "F.lit(True)"),
        (
            _D,
            "changes without an answer fail",
            '(F.col("changes_called") > F.col("changes_answered"))',
            "F.lit(False)",
        ),
        (_D, "acks without an answer fail", 'F.col("ends_called") > F.col("ends_answered")', "F.lit(False)"),
        (_D, "changes of unknown effect shorten nothing", 'F.least(last_lo, "unsure_lo")', "last_lo"),
        (_D, "changes of unknown effect prolong nothing", 'F.greatest(last_hi, "unsure_hi")', "last_hi"),
        (
            _D,
            "no change crosses a delivery",
            'F.coalesce(change["hi"] > F.col("next.hi"), F.lit(False))',
            "F.lit(False)",
        ),
        (
            _D,
            "refused changes count",
            "F.max(F.when(changed & (phase == OK), change))",
            "F.max(F.when(changed, change))",
        ),
        (
            _D,
            "dead letters end nothing",
            '| (kind == DEAD), F.col("lo"))).alias("ended_lo")',
            ', F.col("lo"))).alias("ended_lo")',
        ),
        (_D, "nobody gives up", "F.last(exhausted).over(whole)", "F.lit(None)"),
        (_D, "steps are no retries", '(change["lease_us"] == F.col("step_us")) &', "F.lit(False) &"),
        (_D, "shorter leases are no retries", "moved_lo < base_lo", "F.lit(False)"),
        (
            _D,
            "the first step counts for all attempts",
            'F.least(F.col("attempt"), F.size(steps))',
            "F.lit(1)",
        ),
        (_D, "whoever tells, attests", '& ~F.col("by_broker"),', ","),
        (
            _D,
            "later attempts are copies, too",
            'F.when(F.col("attempt") == 1, F.struct("place", "offset"))',
            'F.struct("place", "offset")',
        ),
        (
            _D,
            "two clocks are one",
            'F.min("least_teller").over(whole) == F.max("most_teller").over(whole)',
            "F.lit(True)",
        ),
    ),
    *_of(
        order,
        (
            _D,
            "messages of one answer wait for each other",
            'F.coalesce(F.lag("answer").over(by_time) != F.col("answer"), F.lit(True))',
            "F.lit(True)",
        ),
        (_D, "redeliveries stay open", 'F.coalesce("next.hi", never)', "never"),
        (_D, "redeliveries are passed", 'is_judged & (F.col("number") == 1)', "is_judged"),
        (_D, "any queue is the same", 'Window.partitionBy("lane", "place")', 'Window.partitionBy("lane")'),
    ),
    *_of(
        tags,
        (_D, "white space is part of tags", r'r"[\x00-\x20]*\|\|[\x00-\x20]*"', r'r"\|\|"'),
        (_D, "no filter is a tag", '(F.array_join(tags, "") == "")', "F.lit(False)"),
        (_D, "no tag is any tag", 'F.coalesce("tag", F.lit(""))', 'F.coalesce("tag", F.element_at(tags, 1))'),
    ),
    *_of(
        messages,
        ("messages", "answers are calls", '(is_send & (phase == "invoke"))', "is_send"),
        ("drained messages", "what was before is lost", "sent.at > primed", "true"),
        (
            "drained messages",
            "what comes later is lost",
            "coalesce(due_us, 0)) < drained.at",
            "0) < drained.at",
        ),
        (
            "drained messages",
            "recalled messages are lost",
            '"left_anti")\n    ended',
            '"left_semi")\n    ended',
        ),
        (
            "drained messages",
            "half messages are lost",
            '.otherwise(F.col("committed"))',
            '.otherwise(F.col("t_wall_us"))',
        ),
        (
            "drained messages",
            "nobody gives up",
            "for of in (settled, _given_up(recording)):",
            "for of in (settled,):",
        ),
        ("recalls", "refused recalls count", "kind = 'recall' and phase = 'ok'", "kind = 'recall'"),
        ("transactions", "refused decisions count", '!= "fail")', '!= "")'),
        (
            "transactions",
            "commits take effect with their answer",
            "F.when(ended & commit, called())",
            "F.when(ended & commit, F.col('t_wall_us'))",
        ),
        (
            "transactions",
            "each observer counts its half messages",
            "Window.partitionBy(*key)",
            'Window.partitionBy("observer", *key)',
        ),
        ("dead letters", "clients tell of dead letters", "observer = 'broker' and kind in", "kind in"),
    ),
    *_of(
        places,
        (
            "drained messages",
            "polls that were out are over",
            'done.withColumn("t_wall_us", called())',
            "done",
        ),
        ("drained messages", "a client knows best", "observer = 'broker' or told is null", "true"),
        ("drained messages", "resets lose messages", "kind = 'reset'", "kind = 'none'"),
        (_S, "what is deleted is lost", "kind = 'trim'", "kind = 'none'"),
        (_S, "other filters pass nothing over", "filters <= 1", "true"),
        (_S, "deliveries tell no filter", 'F.coalesce("filter", F.lit("?"))', "F.lit(None)"),
        (_S, "suspended messages stay in their queue", "suspended_at is null or", "true or"),
        ("places", "suspended messages keep their places", "suspended_at is null or", "true or"),
        ("slices", "other filters find everything", "filters <= 1", "true"),
    ),
    *_of(
        queues,
        (_S, "the tail is lost", "offset between lowest and highest", "offset >= lowest"),
        (
            _S,
            "heads may be lost",
            "(offset between lowest and highest or {is_head})",
            "(offset between lowest and highest)",
        ),
        (_S, "what was there before is a head", "and place.at > began", ""),
        (_S, "unwanted messages are lost", 'expected.where(~is_unwanted("wanted"))', "expected"),
        (_S, "message groups wait for each other", "and (lane is null or lane = of)", ""),
        (
            _S,
            "delayed messages are where they are sent",
            "and due_us is null and tx_id is null",
            "and tx_id is null",
        ),
        (
            "places",
            "retries come from their own places",
            "kind = 'deliver' and attempt = 1 and offset is not null and message_id",
            "kind = 'deliver' and offset is not null and message_id",
        ),
        (
            "places",
            "lost answers hold nothing",
            "kind = 'send' or lost_at is null or t_wall_us < lost_at",
            "true",
        ),
        (
            "places",
            "anybody's answer is lost",
            'reader = F.xxhash64(*ACCOUNT, "group")',
            "reader = F.xxhash64(*ACCOUNT)",
        ),
        (
            "sends in a row",
            "any producer is the same",
            '"recorder", "client_id").alias("way")',
            '"recorder").alias("way")',
        ),
        (
            "ownerships",
            "assignments end nothing",
            'F.coalesce(F.lag("leaves_us").over(by_queue) != F.col("t_wall_us"), F.lit(True))',
            "F.lit(True)",
        ),
        (
            "ownerships",
            "who has stopped goes on",
            "kind in ('assign', 'client.stop', 'client.crash')",
            "kind = 'assign'",
        ),
        ("ownerships", "messages are queues", "topic is not null and {GRAIN} = 'queue'", "topic is not null"),
        ("ownerships", "topics are one", 'Window.partitionBy(*life, "topic")', "Window.partitionBy(*life)"),
        (
            "ownerships",
            "no assignment is of all topics",
            "if(kind <> 'assign' or topic is null, t_wall_us, null)",
            "if(kind <> 'assign', t_wall_us, null)",
        ),
        (
            "deliveries to owners",
            "all owners are one",
            '"group", "client_id", "recorder").orderBy',
            '"group", "recorder").orderBy',
        ),
        (
            "written offsets",
            "filters leave nothing out",
            'F.coalesce(F.max("by_filter").over(before), F.lit(False))',
            "F.lit(False)",
        ),
        (
            "written offsets",
            "nobody is assigned anything",
            'F.when(kind == "assign", F.struct',
            'F.when(kind == "none", F.struct',
        ),
        (
            "written offsets",
            "a broadcast has one progress",
            'recording.settings.where("broadcast")',
            'recording.settings.where("not broadcast and broadcast")',
        ),
        ("slices", "ordered groups go on", "ordered is not null and not ordered", "true"),
        (
            "slices",
            "waiting begins with the delivery before",
            'F.greatest("before.at", "ready")',
            'F.col("before.at")',
        ),
        ("slices", "polls before and behind count", "and p_from > since and p_to < begin.at", ""),
        ("slices", "polls of the last delivery count", "p_from > since", "p_from >= since"),
    ),
    *_of(
        requests,
        ("answers", "any group will do", 'F.xxhash64("topic", "group")', 'F.xxhash64("topic")'),
        ("answers", "any topic will do", 'F.xxhash64("topic", "group")', 'F.xxhash64("group")'),
        (
            "answers",
            "all lives are one",
            'F.xxhash64("recorder", "boot", operation)',
            'F.xxhash64("recorder", operation)',
        ),
        (
            "handles",
            "refused acks settle",
            "kind in ('ack', 'change', 'forward') and phase = 'ok'",
            "kind in ('ack', 'change', 'forward')",
        ),
        (
            "handles",
            "acks settle what they like",
            "(kind = 'deliver' or kind in ('ack', 'change', 'forward') and phase = 'ok')",
            "(kind = 'deliver')",
        ),
    ),
    *_of(
        handlers,
        (_H, "handlers outlive their leases", 'F.least("end.at", "end.lease")', 'F.col("end.at")'),
        (_H, "who renews never ends", 'F.when(F.col("last") < NEVER, F.col("last"))', 'F.col("last")'),
        (_H, "groups without order have it", 'recording.settings.where("ordered")', "recording.settings"),
        (_L, "no list is enough", '.where("whole is not null")', ""),
        (_L, "wanted when it was asked for", "by_name.rangeBetween(up_to, 0)", "by_name.rangeBetween(0, 0)"),
        (
            _L,
            "wanted at any time",
            "by_name.rangeBetween(up_to, 0)",
            "by_name.rangeBetween(up_to, Window.unboundedFollowing)",
        ),
        (_L, "over when it comes", '~F.col("given.came")', 'F.col("given.came")'),
        (_L, "refused lists count", '.where("not failed")', ""),
        (_L, "no answer is an answer", 'F.coalesce("end", F.lit(NEVER))', 'F.coalesce("end", F.lit(0))'),
        (_L, "nothing is removed", '_named(over, "remove")', '_named(over, "add")'),
        (_L, "nothing is added", 'for names in ("all", "add")', 'for names in ("all",)'),
        (
            _L,
            "lists begin with their answer",
            'F.min(F.coalesce(_where("invoked_seq", "invoked_us"), here))',
            "F.max(here)",
        ),
        (_L, "ordinary consumers have lists", "or role = 'lite'", "or true"),
        (_L, "any client's list", '"client_id", "group", "topic").alias', '"group", "topic").alias'),
    ),
    *_of(
        locks,
        (_G, "releases end nothing", "F.least(called() + LIVES_US, given_up)", "called() + LIVES_US"),
        (_G, "locks live for ever", "F.least(called() + LIVES_US, given_up)", "given_up"),
        (_G, "brokers remember locks", 'partitionBy(*_QUEUE, "life")', "partitionBy(*_QUEUE)"),
        (_G, "anybody releases", '(*_QUEUE, "client_id")', "(*_QUEUE)"),
        (_G, "refusals are grants", "kind = 'lock' and phase = 'ok'", "kind = 'lock' and phase <> 'invoke'"),
        (
            _W,
            "refusals lose nothing",
            "(kind = 'unlock' or kind = 'lock' and phase = 'fail')",
            "(kind = 'unlock')",
        ),
        (
            _W,
            "releases lose nothing",
            "(kind = 'unlock' or kind = 'lock' and phase = 'fail')",
            "(kind = 'lock' and phase = 'fail')",
        ),
        (_W, "lives are one", '"client_id", "epoch", *_QUEUE)', '"client_id", *_QUEUE)'),
        (_W, "clients are one", '"boot", "client_id",', '"boot",'),
        (
            _W,
            "locks end with their call",
            '(F.col("t_wall_us") + LIVES_US).alias',
            "(called() + LIVES_US).alias",
        ),
        (_W, "who never locks needs locks", "takes_locks and first", "first"),
        (_W, "retries are of their queue", "first_attempt <= 1 and", ""),
        (_W, "local runs are retries", 'F.min("attempt").over(message)', 'F.col("attempt")'),
        (_W, "lapses go unnoticed", "F.expr(_LOST) | lapsed", "F.expr(_LOST)"),
        (_W, "every grant is a lapse", '(F.col("was.until") < called())', "F.lit(True)"),
        (_W, "pull consumers do not work", " or kind = 'deliver' and role = 'pull'", ""),
        (_W, "any handler ends it", '"message_id", "offset", "attempt").orderBy', '"attempt").orderBy'),
    ),
    *_of(
        settings,
        (_D, "observers of an order agree", 'F.col("ordered_min") == F.col("ordered_max")', "F.lit(True)"),
        (_D, "all groups lock message groups", 'F.col("order_grain") == "queue"', "F.lit(False)"),
    ),
    *_exempting(
        ("no resets", 'kind.isin("reset", "seek"), F.lit(RESET)', 'kind.isin("seek"), F.lit(RESET)'),
        (
            "nobody crashes",
            '.isin("client.stop", "client.crash"), F.lit(OWNER_GONE)',
            '.isin("client.stop"), F.lit(OWNER_GONE)',
        ),
        ("any fault is a restart", '& fault.isin("restart", "crash")', ""),
        (
            "any assignment is one of queues",
            '(kind == "assign") & (F.expr(GRAIN) != "message")',
            'kind == "assign"',
        ),
        ("anybody's", 'candidates.join(marked, "key")', "candidates.join(marked.drop('key'))"),
        ("all rules name all exemptions", "array_contains(exemptions, of)\n", "true\n"),
        ("long ago", "(at > first.at or", "(at > 0 or"),
        ("what comes later, too", "(at < second.at or", "(at > 0 or"),
        ("numbers tell nothing before", "by = second.recorder and number < second.seq", "true"),
        ("numbers tell nothing behind", "by = first.recorder and number > first.seq", "false"),
        ("restarts are over at once", "and until > since and", "and at > since and"),
        ("restarts concern one delivery", "or (of = '{RESTARTED}' and until > since and", "or (false and"),
        ("restarts exempt what came later", "and until > since and", "and"),
        ("restarts linger for ever", "until > second.at - {LINGERS_US})", "true)"),
        ("restarts forget everything", "FLUSH_US = 6_000_000", "FLUSH_US = 6_000_000_000"),
        ("all restarts are one", 'F.col("fault").getItem("target")', "F.lit(1)"),
        ("faults last for ever", 'F.col("t_wall_us") + LINGERS_US)', "F.lit(1 << 62))"),
        ("starts are over at once", 'F.col("fault").getItem("state") == "start"', "F.lit(False)"),
        ("no answers are lost", 'where("missing <= n")', 'where("false")'),
        ("one lost answer is enough", 'where("missing <= n")', 'where("true")'),
        ("answers are lost later, too", 'where("asked_us <= second.at")', 'where("true")'),
        ("all groups have several filters", "filters > 1", "filters > 0"),
        ("filters never differ", "filters > 1", "filters > 9"),
        ("any group's filters differ", '"gid", "left_semi")', '"gid", "left_anti")'),
        ("no locked queues", "offset < behind", "offset > behind"),
        ("acked messages lock queues", "(acked_hi is null or acked_hi > again_at)", "true"),
        ("queues never move", "taken_at > since - {REBALANCE_US} and", "false and"),
        ("queues move in no time", "taken_at > since - {REBALANCE_US}", "taken_at > since"),
        ("queues moved long ago", "taken_at > since - {REBALANCE_US} and", ""),
        ("queues move afterwards", "and taken_at <= again.at", ""),
        ("reading again is reading", '"place < again and', '"place <= again and'),
        ("first attempts are retries", "and (is_retry or from = own)", ""),
        ("retries are first attempts", "and (is_retry or from = own)", "and from = own"),
        ("retries lie in their queues", 'F.col("attempt") > 1, F.concat', "F.lit(False), F.concat"),
        (
            "moves count from the first reading",
            "if(from = own, max(place.at), min(place.at))",
            "min(place.at)",
        ),
        (
            "moves count from the last reading",
            "if(from = own, max(place.at), min(place.at))",
            "max(place.at)",
        ),
        (
            "leased messages move",
            "kind = 'deliver' and {BY_QUEUE} and message_id",
            "kind = 'deliver' and message_id",
        ),
        (
            "who stays has come",
            'F.coalesce(F.lag("queues").over(own), F.expr("array()"))',
            'F.expr("array()")',
        ),
        ("lives are one", '"recorder", "epoch", "topic").orderBy', '"recorder", "topic").orderBy'),
        ("any queue moves", '"group", topic, "broker", "queue").alias', '"group", topic, "broker").alias'),
        ("late after any poll", "p_from <= until and p_to >= bound", "p_from <= until and p_to >= until"),
        ("late after a later poll", "p_from <= until and p_to >= bound", "p_to >= bound"),
        ("late without a poll", '"left_semi",\n    )\n    at =', '"left_anti",\n    )\n    at ='),
        ("polls of other queues count", "(p_queue is null or p_queue = queue)", "true"),
        (
            "every poll that fails is an outage",
            "kind = 'receive' and result = 'away'",
            "kind = 'receive' and phase = 'fail'",
        ),
        ("no recorder is another", "by = first.recorder\n", "true\n"),
        ("servers are never away", 'return joined.select("id")', 'return joined.where("false").select("id")'),
        (
            "away when all was over",
            "and a_since < if({late}, second.at - margin_us + {LATE_MS * 1000}, second.at)",
            "",
        ),
        ("away long before", "and a_until > if({late}, second.at - margin_us, second.at) - {LINGERS_US}", ""),
        (
            "late when it comes",
            "if({late}, second.at - margin_us, second.at) - {LINGERS_US}",
            "second.at - {LINGERS_US}",
        ),
        (
            "whoever is away forgets everything",
            "and (invariant <> 'INV-ACKED' or a_since < second.at - margin_us + {FLUSH_US})",
            "",
        ),
        ("all promises may be forgotten", 'findings.where(f"invariant in ({forgotten})")', "findings"),
    ),
)
