"""Checks that are broken on purpose, each by one change of its source."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from aiorocketmq_audit import (
    attempts,
    commits,
    dead_letters,
    delay,
    deliveries,
    double_delivery,
    drained,
    excuses,
    fairness,
    filters,
    handles,
    handling,
    isolation,
    lite_topics,
    loss,
    offsets,
    ordering,
    origin,
    queues,
    recall,
    retry_timing,
    transactions,
)


@dataclass(frozen=True)
class Mutant:
    """One change of one module, and the checks that stand on it."""

    name: str
    module: ModuleType
    old: str
    new: str
    checks: tuple[str, ...]


_DD, _RT, _OR, _AT, _DL = "double delivery", "retry timing", "ordering", "attempts", "dead letters"

MUTANTS = (
    # Comparisons flipped, and tolerances dropped.
    Mutant(
        "early means late",
        double_delivery,
        'F.col("n_hi") < F.col(end)',
        'F.col("n_hi") > F.col(end)',
        (_DD,),
    ),
    Mutant("no tolerance of early", double_delivery, 'F.col(end) - F.col("early")', "F.col(end)", (_DD,)),
    Mutant(
        "an ack counts too late",
        double_delivery,
        'F.col("acked_hi") <= F.col("until_lo")',
        "F.lit(True)",
        (_DD,),
    ),
    Mutant(
        "late after any poll",
        retry_timing,
        'F.col("p_to") >= bound',
        'F.col("p_to") >= F.col("until_hi")',
        (_RT,),
    ),
    Mutant("late without a poll", retry_timing, '"left_semi"', '"left_anti"', (_RT,)),
    Mutant(
        "ordered groups may be late",
        retry_timing,
        '~F.coalesce("ordered", F.lit(False))',
        "F.lit(True)",
        (_RT,),
    ),
    Mutant(
        "whatever comes first is the first",
        ordering,
        'F.coalesce("attempt", F.lit(1)) == 1',
        "F.lit(True)",
        (_OR,),
    ),
    Mutant(
        "later ones are passed",
        ordering,
        'F.col("passed.offset") > F.col("offset")',
        'F.col("passed.offset") < F.col("offset")',
        (_OR,),
    ),
    Mutant(
        "what is over stays open",
        ordering,
        'F.col("open.end") > F.col("hi")',
        'F.col("open.end") < F.col("hi")',
        (_OR,),
    ),
    Mutant(
        "all tell by one clock",
        ordering,
        'F.when(F.col("open.one_clock"), _apart("open")).otherwise(F.col("apart"))',
        '_apart("open")',
        (_OR,),
    ),
    Mutant(
        "attempts may skip one",
        attempts,
        'F.col("n_attempt") > F.col("attempt") + 1)',
        'F.col("n_attempt") > F.col("attempt") + 2)',
        (_AT,),
    ),
    Mutant(
        "attempts may stay",
        attempts,
        'F.col("n_attempt") <= F.col("attempt")',
        'F.col("n_attempt") < F.col("attempt")',
        (_AT,),
    ),
    Mutant(
        "the limit is one too many",
        attempts,
        'F.col("attempt") > F.col("max_attempts")',
        'F.col("attempt") >= F.col("max_attempts")',
        (_AT,),
    ),
    Mutant("ordered groups have limits", attempts, ' & ~F.col("ordered")', "", (_AT,)),
    Mutant(
        "the last attempt is too soon",
        dead_letters,
        'F.col("first.attempt") < F.col("max_attempts")',
        'F.col("first.attempt") <= F.col("max_attempts")',
        (_DL,),
    ),
    Mutant("twice is once", dead_letters, 'F.col("letters") > 1', 'F.col("letters") > 2', (_DL,)),
    Mutant(
        "dead ones may come again",
        dead_letters,
        'F.col("dead_hi") < F.col("n_lo")',
        'F.col("dead_hi") > F.col("n_lo")',
        (_DL,),
    ),
    Mutant("no tolerance of delays", delay, 'F.col("due") - F.col("early")', 'F.col("due")', ("delay",)),
    Mutant(
        "old messages are from nowhere",
        origin,
        'F.col("given_store") > F.col("began")',
        "F.lit(True)",
        ("origin",),
    ),
    Mutant(
        "bodies may change",
        origin,
        'F.col(f"given_{part}_most") != sent',
        'F.col(f"given_{part}_most") == sent',
        ("origin",),
    ),
    Mutant("what is wanted is not", filters, 'where("unwanted")', 'where("not unwanted")', ("filters",)),
    Mutant(
        "the tail is lost",
        loss,
        'F.col("offset").between(F.col("lowest"), F.col("highest"))',
        '(F.col("offset") >= F.col("lowest"))',
        ("loss",),
    ),
    Mutant(
        "heads may be lost", loss, "is_behind | F.coalesce(is_head, F.lit(False))", "is_behind", ("loss",)
    ),
    Mutant("what was before is lost", drained, 'F.col("at") > F.col("primed")', "F.lit(True)", ("loss",)),
    Mutant(
        "commits come too late",
        transactions,
        'F.col("commit_lo") <= F.col("given.at")',
        'F.col("commit_lo") >= F.col("given.at")',
        ("transactions",),
    ),
    Mutant(
        "asked in the same interval",
        transactions,
        "CHECK_US = 31_000_000",
        "CHECK_US = -31_000_000",
        ("transactions",),
    ),
    Mutant(
        "one half message of a transaction",
        transactions,
        "decided is not null and halves <= 1",
        "decided is not null",
        ("transactions",),
    ),
    Mutant(
        "half messages that nobody told of are one",
        transactions,
        'F.col("halves") == 1',
        'F.col("halves") <= 1',
        ("transactions",),
    ),
    Mutant(
        "decisions are forgotten for ever",
        transactions,
        'F.col("decided.at").alias("acked_hi")',
        'F.lit(None).cast("bigint").alias("acked_hi")',
        ("transactions",),
    ),
    Mutant("no recorder is another", excuses, "a.by = first_recorder", "true", (_DD,)),
    Mutant(
        "every poll that fails is an outage",
        excuses,
        "told_away()",
        "F.expr(\"kind = 'receive' and phase = 'fail'\")",
        (_DD,),
    ),
    Mutant("restarts linger for ever", excuses, "and m.until > n_hi - {LINGERS_US}", "", (_DD,)),
    Mutant("faults last for ever", excuses, 'F.col("t_wall_us") + LINGERS_US)', "F.lit(1 << 62))", (_DD,)),
    Mutant(
        "late when it comes",
        excuses,
        "a.until > if(invariant = 'INV-LATE', at_us - margin_us, at_us)",
        "a.until > at_us",
        (_RT,),
    ),
    Mutant("no race", recall, "RACE_US = 1_000_000", "RACE_US = 0", ("recall",)),
    Mutant("no rebalances", queues, "REBALANCE_US = 30_000_000", "REBALANCE_US = 0", ("queues",)),
    Mutant(
        "owners may read again",
        queues,
        '_verdict(F.col("offset") <= F.col("before"))',
        '_verdict(F.col("offset") < F.col("before"))',
        ("queues",),
    ),
    Mutant("sends at once are serial", offsets, "wrong = one_after_the_other & ", "wrong = ", ("offsets",)),
    Mutant(
        "progress is where it was read",
        commits,
        'F.col("highest.offset") + 1',
        'F.col("highest.offset")',
        ("commits",),
    ),
    Mutant(
        "standstills of an hour",
        fairness,
        "STANDSTILL_US = 60_000_000",
        "STANDSTILL_US = 3_600_000_000",
        ("fairness",),
    ),
    Mutant(
        "handlers beside each other",
        handling,
        'F.col("other.until") > F.col("at")',
        'F.col("other.until") < F.col("at")',
        ("ordering",),
    ),
    Mutant(
        "who tells first of a handler began it first",
        handling,
        "(went_on & began_beside)",
        "went_on",
        ("ordering",),
    ),
    Mutant("properties may change", origin, '_PARTS = ("body", "props")', '_PARTS = ("body",)', ("origin",)),
    Mutant("handles serve twice", handles, 'F.col("given") > 1', 'F.col("given") > 2', ("handles",)),
    *(
        Mutant(
            f"its own may be the {which}",
            isolation,
            f'F.col("given_{other}") != F.col("asked_most")',
            f'F.col("given_{which}") != F.col("asked_most")',
            ("filters",),
        )
        for which, other in (("least", "most"), ("most", "least"))
    ),
    Mutant(
        "any group will do", isolation, 'F.xxhash64("topic", "group")', 'F.xxhash64("topic")', ("filters",)
    ),
    Mutant(
        "any topic will do", isolation, 'F.xxhash64("topic", "group")', 'F.xxhash64("group")', ("filters",)
    ),
    *(
        Mutant(name, lite_topics, old, new, ("filters",))
        for name, old, new in (
            ("later lists do not count", '< F.col("over.since")', "< F.lit(0)"),
            ("no list is enough", 'F.coalesce("wanted", F.lit(-1))', 'F.coalesce("wanted", F.lit(_NEVER))'),
            ("wanted when it was asked for", "by_name.rangeBetween(up_to, 0)", "by_name.rangeBetween(0, 0)"),
            (
                "wanted at any time",
                "by_name.rangeBetween(up_to, 0)",
                "by_name.rangeBetween(up_to, Window.unboundedFollowing)",
            ),
            ("over when it comes", '~F.col("given.came")', 'F.col("given.came")'),
            ("refused lists count", '.where("not failed")', ""),
            ("no answer is an answer", 'F.coalesce("end", F.lit(_NEVER))', 'F.coalesce("end", F.lit(0))'),
            ("nothing is removed", '_named(over, "remove")', '_named(over, "add")'),
            ("nothing is added", 'for names in ("all", "add")', 'for names in ("all",)'),
            (
                "lists begin with their answer",
                'F.min(F.coalesce(_place("invoked_seq", "invoked_us"), here))',
                "F.max(here)",
            ),
            ("ordinary consumers have lists", "or role = 'lite'", "or true"),
            ("any client's list", '"client_id", "group", "topic").alias', '"group", "topic").alias'),
        )
    ),
    # Excuses dropped, or given to those who have none.
    Mutant(
        "no repeated answers", double_delivery, 'F.col("again") == F.col("n_again")', "F.lit(False)", (_DD,)
    ),
    Mutant(
        "no copies",
        double_delivery,
        'F.when(F.col("copies"), F.lit(excuses.RESENT))',
        "F.when(F.lit(False), F.lit(excuses.RESENT))",
        (_DD,),
    ),
    Mutant("no lost answers", attempts, 'missing <= F.col("lost")', "F.lit(False)", (_AT,)),
    Mutant("forwards do not count", dead_letters, '(F.col("forwards") == 0)', "F.lit(True)", (_DL,)),
    Mutant(
        "one refusal is enough", origin, 'F.col("answered") == F.col("refused")', "F.lit(True)", ("origin",)
    ),
    Mutant("no resets", excuses, ".isin(*RESETS), F.lit(RESET)", '.isin("seek"), F.lit(RESET)', (_DD,)),
    Mutant(
        "nobody crashes",
        excuses,
        ".isin(*GONE), F.lit(OWNER_GONE)",
        '.isin("client.stop"), F.lit(OWNER_GONE)',
        (_DD,),
    ),
    Mutant(
        "anybody's crash",
        excuses,
        "m.key = who or m.key = client",
        "m.key = who or m.key is not null",
        (_DD,),
    ),
    Mutant("a crash of long ago", excuses, "m.at > lo or", "m.at > 0 or", (_DD,)),
    Mutant("servers are never away", excuses, "== BROKEN) & doubt", "== BROKEN) & ~doubt", (_DD,)),
    Mutant(
        "away long before",
        excuses,
        "at_us - margin_us, at_us) - {LINGERS_US}",
        "at_us - margin_us, at_us) - 1000000000",
        (_DD,),
    ),
    Mutant("restarts are over at once", excuses, "m.until > since", "m.at > since", (_DD,)),
    Mutant("restarts concern one delivery", excuses, "m.until > since", "false", (_DD,)),
    Mutant("restarts excuse what came later", excuses, "m.until > since", "true", (_DD,)),
    Mutant(
        "all restarts are one",
        excuses,
        'F.col("fault").getItem("target")',
        "F.lit(1)",
        (_DD,),
    ),
    Mutant(
        "away when all was over",
        excuses,
        "a.since < if(invariant = 'INV-LATE', at_us - margin_us + {LATE_MS * 1000}, at_us)",
        "true",
        (_DD,),
    ),
    Mutant(
        "whoever is away forgets everything",
        excuses,
        "a.since < at_us - margin_us + {FLUSH_US}",
        "true",
        (_DD,),
    ),
    Mutant("all promises may be forgotten", excuses, "invariant in ({forgotten}) and", "", ("origin",)),
    Mutant(
        "every poll is woken",
        retry_timing,
        'F.col("n_hi") - F.col("n_polled")',
        'F.col("n_hi")',
        (_RT,),
    ),
    Mutant(
        "polls wait for ever", retry_timing, "PARKED_US = 30_000_000", "PARKED_US = 30_000_000_000", (_RT,)
    ),
    Mutant("late after a restart", retry_timing, "only=excuses.RESTARTED", "only=excuses.RESET", (_RT,)),
    Mutant("restarts forget everything", excuses, "FLUSH_US = 6_000_000", "FLUSH_US = 6_000_000_000", (_DD,)),
    Mutant(
        "no locked queues",
        excuses,
        'F.col("offset") < F.col("w_offset")',
        'F.col("offset") > F.col("w_offset")',
        (_DD,),
    ),
    # The indeterminate taken for certain.
    Mutant("an unknown outcome is a success", deliveries, '"info": UNKNOWN', '"info": OK', (_DD, _RT)),
    # The order of time taken from the wall clock alone.
    Mutant(
        "numbers of rows do not count",
        deliveries,
        '"at_seq": F.when(is_deliver, F.col("seq")).otherwise(F.coalesce("invoked_seq", "seq"))',
        '"at_seq": -F.when(is_deliver, F.col("seq")).otherwise(F.coalesce("invoked_seq", "seq"))',
        (_DD, _OR),
    ),
)
