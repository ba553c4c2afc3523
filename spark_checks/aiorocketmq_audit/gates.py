"""The gates of the engine that goes; `recording.gates` are those that stay.

What must hold before any verdict counts: the recording is whole (INV-RECORD), its clocks agree (INV-CLOCK).

One aggregation by recorder and boot. A recorder's numbers are gap-free exactly when count, sum, exclusive-or
and a sum of squares are those of 0, 1, 2 … n; this needs no sort. Only when they are not, a second pass tells
duplicates from gaps. In the same way calls and answers of a recorder belong together when their numbers are equal,
and the exclusive-ors of their ids; if not, a second pass tells calls without an answer from those that have two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, Row, functions as F

from aiorocketmq_audit.errors import NotARecording
from aiorocketmq_audit.recording.clocks import STEP_US
from aiorocketmq_audit.recording.gates import Gates as Gates, examine as examine
from aiorocketmq_audit.recording.schema import REQUIRED, VERSION

LOW = 0xFFFF

KINDS = (
    "send",
    "deliver",
    "receive",
    "ack",
    "change",
    "forward",
    "recall",
    "tx.end",
    "tx.check",
    "assign",
    "commit",
    "drain.ok",
    "handle.start",
    "lite.sync",
)
"""Kinds that are counted, so that nobody looks for what is not there."""

_OPERATIONS = ("send", "receive", "ack", "change", "forward", "recall", "tx.end")


def judged(
    rows: list[Row],
    events: Callable[[], DataFrame],
    twice: Callable[[Sequence[str]], dict[str, int]],
    *,
    unfinished: tuple[str, ...] = (),
    lacking: tuple[str, ...] = (),
    skew_us: int = STEP_US,
) -> Gates:
    """The same by the `numbers` of the events; these themselves, and `twice`, which is `told_twice` of them, are only
    asked for where the numbers leave something open."""
    versions = check_contract(rows)
    spans = _spans(rows)
    odd = [name for name, span in spans.items() if not span.is_gap_free]
    exact, flaws = _exact(events(), odd) if odd else ({}, [])
    if unequal := unpaired(rows):
        flaws += twice_sentences(twice(unequal))
    if lacking:
        flaws.append(f"some files lack the column(s) {', '.join(lacking)}: nobody can judge by them.")
    return from_numbers(rows, exact, versions=versions, unfinished=unfinished, flaws=flaws, skew_us=skew_us)


def check_contract(rows: Iterable[Row]) -> tuple[str, ...]:
    """The versions that the recorders wrote. Raises NotARecording as `examine` does."""
    rows = list(rows)
    foreign = sum(row.foreign for row in rows)
    if foreign:
        raise NotARecording(
            f"{foreign} of {sum(row.n for row in rows)} rows lack {REQUIRED[0]} or another required column: "
            "these files are not a recording (docs/reference/recording.md)."
        )
    versions = sorted({row.version for row in rows} - {None})
    for version in versions:
        if not 1 <= version <= VERSION:
            told = version if version >= 0 else "(no number)"
            raise NotARecording(
                f"this recording has version {told} and this program reads 1 to {VERSION}: "
                "upgrade with pip install -U 'aiorocketmq[spark]'."
            )
    return tuple(str(version) for version in versions)


_MERGED_BY: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "first": min,
        "last": max,
        "version": max,
        "xor": int.__xor__,
        "calls_xor": int.__xor__,
        "answers_xor": int.__xor__,
        "from_us": min,
        "to_us": max,
        "beside_least": min,
        "beside_most": max,
        "ahead_us": max,
        "behind_us": max,
    }
)
"""How two of the `numbers` of one recorder become one; those that are not named here are added."""


OPERATION_PHASES = ("invoke", "ok", "fail", "info")

COUNTED_KINDS = (*KINDS, "recorder.start", "recorder.end")

NOTHING: Mapping[str, Any] = MappingProxyType(
    dict.fromkeys(
        (
            *("starts", "ends", "invokes", "completions"),
            *("calls", "calls_xor", "answers", "answers_xor"),
            *(f"n_{kind}" for kind in KINDS),
            *(f"{kind} {phase}" for kind in _OPERATIONS for phase in OPERATION_PHASES),
        ),
        0,
    )
)
"""The `numbers` of a recorder that has told nothing."""


def numbers(events: DataFrame, *more: Column, also: Mapping[str, Column] = MappingProxyType({})) -> list[Row]:
    """Of each recorder, boot and what `more` says: all that the gates look at, and what `also` adds up.

    Spark counts by kind and phase, in fixed-width columns, so that it need not sort; the few rows are added up here.
    """
    return added_up(_by_kind(events, *more, also=also).collect(), len(more))


def added_up(rows: Iterable[Row], more: int = 0) -> list[Row]:
    """The `numbers` of rows by recorder, boot, `more` columns, kind and phase."""
    totals: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        values = row.asDict()
        kind, phase, numbered = (values.pop(name) for name in ("of_kind", "of_phase", "numbered"))
        named, names = values.pop("named"), values.pop("names")
        own = row[2 : 2 + more]
        counts = {"completions": numbered if phase in OPERATION_PHASES[1:] else 0}
        if phase == "invoke":
            counts["invokes"] = row.n
        if phase is not None:
            which = "calls" if phase == "invoke" else "answers"
            counts |= {which: named, f"{which}_xor": names or 0}
        if kind in ("recorder.start", "recorder.end"):
            counts["starts" if kind == "recorder.start" else "ends"] = row.n
        elif kind is not None:
            counts[f"n_{kind}"] = row.n
        if kind in _OPERATIONS and phase is not None:
            counts[f"{kind} {phase}"] = row.n
        total = totals.setdefault((row.recorder, row.boot, *own), dict(NOTHING))
        for name, value in (values | counts).items():
            total[name] = joined(name, total.get(name), value)
    return [Row(**total) for total in totals.values()]


def joined(name: str, one: Any, other: Any) -> Any:
    """Two values of one of the `numbers` as one."""
    if one is None or other is None or isinstance(one, str):
        return other if one is None else one
    return _MERGED_BY.get(name, int.__add__)(one, other)


def _by_kind(events: DataFrame, *more: Column, also: Mapping[str, Column]) -> DataFrame:
    phase, low = F.col("phase"), F.col("seq").bitwiseAND(F.lit(LOW))
    is_foreign = F.lit(False)
    for name in REQUIRED:
        is_foreign = is_foreign | F.col(name).isNull()
    beside = F.col("t_wall_us") - F.floor(F.col("t_mono_ns") / 1000)
    told = F.when(F.col("kind") == "deliver", F.col("server_deliver_us"))
    # What was sent was stored between the call and its answer (INV-CLOCK).
    is_sent = (F.col("kind") == "send") & (phase == "ok") & F.col("due_us").isNull() & F.col("tx_id").isNull()
    ahead = F.when(is_sent, F.col("store_us")).otherwise(told)
    version = F.when(F.col("kind") == "recorder.start", F.col("cfg").getItem("version"))
    return events.groupBy(
        "recorder",
        "boot",
        *more,
        F.when(F.col("kind").isin(*COUNTED_KINDS), F.col("kind")).alias("of_kind"),
        F.when(phase.isin(*OPERATION_PHASES), phase).alias("of_phase"),
    ).agg(
        F.count("*").alias("n"),
        F.count_if(is_foreign).alias("foreign"),
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.sum("seq").alias("total"),
        F.bit_xor("seq").alias("xor"),
        F.sum(low * low).alias("squares"),
        # A version that is no number is none that this program reads.
        F.max(F.when(version.isNotNull(), F.coalesce(version.try_cast("bigint"), F.lit(-1)))).alias(
            "version"
        ),
        F.count("invoked_seq").alias("numbered"),
        F.count("op_id").alias("named"),
        F.bit_xor(F.when(F.col("op_id").isNotNull(), F.xxhash64("op_id"))).alias("names"),
        F.min("t_wall_us").alias("from_us"),
        F.max("t_wall_us").alias("to_us"),
        F.min(beside).alias("beside_least"),
        F.max(beside).alias("beside_most"),
        F.max(ahead - F.col("t_wall_us")).alias("ahead_us"),
        F.max(F.coalesce("invoked_us", "t_wall_us") - ahead).alias("behind_us"),
        F.count_if((F.col("kind") == "deliver") & (F.col("role") == "pull")).alias("n_pull"),
        *(column.alias(name) for name, column in also.items()),
    )


def _operations(rows: list[Row]) -> dict[str, dict[str, int]]:
    """INV-CONSERVE: attempted = ok + fail + info, by kind; a call that was never answered is `info`."""
    found: dict[str, dict[str, int]] = {}
    for kind in _OPERATIONS:
        ok, fail, info = (sum(row[f"{kind} {name}"] for row in rows) for name in ("ok", "fail", "info"))
        unanswered = sum(
            max(0, row[f"{kind} invoke"] - sum(row[f"{kind} {name}"] for name in ("ok", "fail", "info")))
            for row in rows
        )
        if attempted := ok + fail + info + unanswered:
            found[kind] = {
                "attempted": attempted,
                "ok": ok,
                "fail": fail,
                "info": info + unanswered,
                "unanswered": unanswered,
            }
    return found


@dataclass(slots=True)
class _Span:
    """The numbers of one recorder over all its boots."""

    n: int = 0
    last: int = -1
    total: int = 0
    xor: int = 0
    squares: int = 0
    starts: int = 0
    ends: int = 0
    to_us: int = 0

    @property
    def is_gap_free(self) -> bool:
        count = self.last + 1
        full, rest = divmod(count, LOW + 1)
        squares = full * _squares(LOW + 1) + _squares(rest)
        return (self.n, self.total, self.xor, self.squares) == (
            count,
            count * self.last // 2,
            _xor(self.last),
            squares,
        )


def _squares(count: int) -> int:
    return (count - 1) * count * (2 * count - 1) // 6 if count else 0


def _xor(last: int) -> int:
    """The exclusive-or of 0 … last."""
    return (last, 1, last + 1, 0)[last % 4] if last >= 0 else 0


def _spans(rows: Iterable[Row]) -> dict[str, _Span]:
    spans: dict[str, _Span] = defaultdict(_Span)
    for row in rows:
        span = spans[row.recorder]
        span.n += row.n
        span.last = max(span.last, row.last)
        span.total += row.total
        span.xor ^= row.xor
        span.squares += row.squares
        span.starts += row.starts
        span.ends += row.ends
        span.to_us = max(span.to_us, row.to_us)
    return dict(spans)


def _exact(events: DataFrame, recorders: list[str]) -> tuple[dict[str, int], list[str]]:
    """How many different rows each of `recorders` has, and which of them wrote two rows by one number."""
    chosen = events.where(F.col("recorder").isin(recorders))
    content = F.xxhash64("kind", "phase", "op_id", "t_wall_us", "message_id", "group")
    counts = chosen.groupBy("recorder").agg(
        F.count_distinct("seq").alias("rows"), F.count_distinct("seq", content).alias("contents")
    )
    found = counts.collect()
    flaws = [
        f"recorder {row.recorder} has different rows of one number: two writers shared a name."
        for row in sorted(found)
        if row.contents > row.rows
    ]
    return {row.recorder: row.rows for row in found}, flaws


def unpaired(rows: Iterable[Row]) -> list[str]:
    """Recorders with calls that have no answer of their own, or the other way round; brokers tell answers alone."""
    calls: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    answers: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in rows:
        count, names = calls[row.recorder]
        calls[row.recorder] = count + row.calls, names ^ row.calls_xor
        count, names = answers[row.recorder]
        answers[row.recorder] = count + row.answers, names ^ row.answers_xor
    return sorted(name for name, called in calls.items() if called[0] and called != answers[name])


def told_twice(events: DataFrame, recorders: Sequence[str]) -> dict[str, int]:
    """How many ids each of `recorders` told two calls by, or two answers; rows that are there twice count once."""
    if not recorders:
        return {}
    told = events.where(F.col("recorder").isin(*recorders) & F.col("op_id").isNotNull())
    is_call = F.col("phase") == "invoke"
    numbers_of = {"call": F.when(is_call, F.col("seq")), "answer": F.when(~is_call, F.col("seq"))}
    # Numbers only, so that the aggregation needs no sort.
    operation = F.xxhash64("boot", "epoch", "kind", "op_id").alias("operation")
    each = (
        told.where(F.col("phase").isin(*OPERATION_PHASES))
        .groupBy("recorder", operation)
        .agg(*((F.min(seq) < F.max(seq)).alias(f"{name}_twice") for name, seq in numbers_of.items()))
    )
    odd = each.where("call_twice or answer_twice").groupBy("recorder").agg(F.count("*").alias("n"))
    return {row.recorder: row.n for row in odd.collect()}


def twice_sentences(counts: Mapping[str, int]) -> list[str]:
    """What `told_twice` means."""
    return [
        f"recorder {name} tells {n} call(s) or answer(s) twice: its operations are in doubt."
        for name, n in sorted(counts.items())
    ]


def from_numbers(
    rows: Iterable[Row],
    exact: Mapping[str, int],
    *,
    versions: tuple[str, ...],
    unfinished: tuple[str, ...] = (),
    flaws: Sequence[str] = (),
    skew_us: int = STEP_US,
) -> Gates:
    """What `numbers` say. `exact` tells how many different rows a recorder has, where that is not its `n`; `flaws`
    are further sentences on why nothing can be valid."""
    rows = list(rows)
    spans = _spans(rows)
    gaps = {name: span.last + 1 - exact.get(name, span.n) for name, span in spans.items()}
    missing = [f"recorder {name} lost {lost} of its rows." for name, lost in sorted(gaps.items()) if lost]
    cut = {name: span.to_us for name, span in sorted(spans.items()) if not span.ends}
    missing += [f"recorder {name} has no end: it was cut short." for name in cut]
    missing += [f"recorder {name} has no start." for name, span in sorted(spans.items()) if not span.starts]
    if unfinished:
        missing.append(
            f"{len(unfinished)} file(s) were never finished, such as {unfinished[0].rpartition('/')[2]}."
        )
    return Gates(
        events=sum(exact.get(name, span.n) for name, span in spans.items()),
        recorders=tuple(sorted(spans)),
        duplicated=any(exact.get(name, span.n) != span.n for name, span in spans.items()),
        missing=(*missing, *flaws),
        has_gaps=any(gaps.values()) or any(not span.starts for span in spans.values()),
        cut_at=cut,
        clocks=tuple(_clock_sentences(rows, skew_us)),
        unfinished_operations=sum(max(0, row.invokes - row.completions) for row in rows),
        kinds={kind: sum(row[f"n_{kind}"] for row in rows) for kind in (*KINDS, "pull")},
        operations=_operations(rows),
        versions=versions,
        started_us=min((row.from_us for row in rows), default=None),
        ended_us=max((row.to_us for row in rows), default=None),
    )


def _clock_sentences(rows: Iterable[Row], skew_us: int) -> Iterable[str]:
    for row in sorted(rows, key=lambda row: (row.recorder, row.boot)):
        step_us = row.beside_most - row.beside_least
        if step_us > STEP_US:
            yield f"the wall clock of recorder {row.recorder} was stepped by {step_us / 1e6:.3f} s."
        apart = max(row.ahead_us or 0, row.behind_us or 0)
        if apart > skew_us:
            yield f"the clock of recorder {row.recorder} differs from the server's by {apart / 1e6:.3f} s or more."
