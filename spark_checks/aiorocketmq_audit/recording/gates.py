"""The gates, preconditions of every verdict: the recording is complete (INV-RECORD); for its clocks see `clocks`.

One aggregation by recorder, boot, kind and phase, of fixed-width values, so that it needs no sort. The sequence numbers
of a recorder are gap-free if count, sum, exclusive-or and a sum of squares are those of 0, 1, 2 … n; calls and answers
are paired if their counts, and the exclusive-ors of their ids, are equal. If not, a second pass determines why.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add, xor

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, functions as F

from aiorocketmq_audit.failures import explained, unreadable
from aiorocketmq_audit.recording.clocks import COUNTED, STEP_US, bounds, disagreements
from aiorocketmq_audit.recording.schema import READ, SUSPENDED
from aiorocketmq_audit.recording.validation import WRONG, check_version, refuse_value

OPERATIONS = (
    "send",
    "receive",
    "ack",
    "change",
    "forward",
    "recall",
    "tx.end",
    "lite.sync",
    "lock",
    "unlock",
)
ANSWERS = ("ok", "fail", "info")

_LOW = 0xFFFF
_COUNTED = {
    "n": "count(*)",
    "wrong": f"min({WRONG})",
    "version": """max(if(kind = 'recorder.start' and cfg['version'] is not null,
        coalesce(try_cast(cfg['version'] as bigint), -1), null))""",
    "first": "min(seq)",
    "last": "max(seq)",
    "total": "try_sum(seq)",
    "xor": "bit_xor(seq)",
    "squares": f"sum((seq & {_LOW}) * (seq & {_LOW}))",
    "named": "count(op_id)",
    "names": "bit_xor(if(op_id is null, null, xxhash64(op_id)))",
    "pull": f"count_if({READ})",
    "suspend": f"count_if({SUSPENDED})",
    "from_us": "min(t_wall_us)",
    "to_us": "max(t_wall_us)",
    **COUNTED,
}
"""Aggregates of the rows by recorder, boot, kind and phase."""

_CELL = ("recorder", "boot", "kind", "phase")
_MERGED: Mapping[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("count", "count_if", "sum", "try_sum"), add),
    "bit_xor": xor,
    "min": min,
    "max": max,
}
"""Functions that merge values of two frames, by aggregate function."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Facts about a recording before it is judged."""

    events: int
    recorders: tuple[str, ...]
    duplicated: bool
    """Some rows occur twice; each is to be counted once."""
    missing: tuple[str, ...]
    """Reasons for which the recording is incomplete; the verdict cannot be valid then."""
    has_gaps: bool
    """Rows are missing in the middle, so that findings are not certain either."""
    cut_at: dict[str, int]
    """Recorders without an end, and the time (µs) of the last row of each: later rows are lost."""
    clocks: tuple[str, ...]
    """Reasons for which clocks disagree; findings about time are not certain then."""
    unfinished_operations: int
    """Calls without an answer."""
    versions: tuple[str, ...]
    started_us: int | None
    ended_us: int | None
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Rows by kind, `pull`: deliveries to consumers that own whole queues, pull consumers or not, and `suspend`:
    suspensions of messages."""
    operations: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By kind: operations begun, and their outcomes: `attempted`, `ok`, `fail`, `info`, of which `unanswered`
    (INV-CONSERVE)."""
    clock: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)
    """By recorder: least and greatest (server clock - recorder clock) in µs. None is unknown: no row has a server
    timestamp, or the clock was stepped."""

    @property
    def whole(self) -> bool:
        """Whether no row is known to be missing."""
        return not self.missing

    @property
    def has_open_settling(self) -> bool:
        """Whether some acks, changes or forwards have no answer."""
        settling = (self.operations.get(kind, {}) for kind in ("ack", "change", "forward"))
        # A lost answer and a lost call cannot be distinguished from no call.
        return self.has_gaps or any(of.get("unanswered") for of in settling)

    def makes_unsure(self, *, depends_on_time: bool) -> bool:
        """Return whether findings are uncertain: always if rows are missing, about time also if clocks disagree."""
        return self.has_gaps or (depends_on_time and bool(self.clocks))


def examine(
    events: DataFrame, *, unfinished: Sequence[str] = (), lacking: Sequence[str] = (), skew_us: int = STEP_US
) -> Gates:
    """Evaluate the gates of a recording, and validate its values.

    `unfinished` are files that were never completed, `lacking` columns that are missing in some file, `skew_us` is the
    tolerated difference of clocks. Raises InvalidRecordingError for another version and for values out of range.
    """
    rows = counts(events)
    recorders = by_recorder(rows)
    odd = [name for name, own in recorders if not is_gap_free(own)]
    distinct, flaws = distinct_rows(events, odd) if odd else ({}, [])
    flaws += [*repeated_operations(events, rows), *flaws_of_files(unfinished, lacking)]
    return judged(rows, distinct, flaws=flaws, skew_us=skew_us)


def flaws_of_files(unfinished: Sequence[str], lacking: Sequence[str]) -> list[str]:
    """Return flaws of files: never completed, or without some column."""
    flaws = []
    if unfinished:
        example = unfinished[0].rpartition("/")[2]
        flaws.append(f"{len(unfinished)} file(s) were never finished, such as {example}.")
    if lacking:
        flaws.append(f"some files lack the column(s) {', '.join(lacking)}, so that nothing is certain.")
    return flaws


def counts(events: DataFrame) -> list[Row]:
    """Count by recorder, boot, kind and phase, and validate the values. Rows of several frames may be concatenated."""
    counted = (F.expr(text).alias(name) for name, text in _COUNTED.items())
    try:
        rows = events.groupBy(*_CELL).agg(*counted).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise explained(error, None) or unreadable(error) from error
    for version in {row.version for row in rows} - {None}:
        check_version(version)
    if (wrong := min((row.wrong for row in rows if row.wrong is not None), default=None)) is not None:
        refuse_value(events, wrong)
    return rows


def merged_counts(rows: Iterable[Row]) -> list[Row]:
    """Merge `counts` of several frames into those of all their events."""
    cells: dict[tuple[str | None, ...], dict[str, int | None]] = {}
    for row in rows:
        cell = cells.setdefault(tuple(row[name] for name in _CELL), {})
        for name, text in _COUNTED.items():
            values = [value for value in (cell.get(name), row[name]) if value is not None]
            cell[name] = reduce(_MERGED[text.partition("(")[0]], values) if values else None
    return [Row(**dict(zip(_CELL, place, strict=True)), **cell) for place, cell in cells.items()]


def judged(
    rows: Sequence[Row], distinct: Mapping[str, int], *, flaws: Sequence[str] = (), skew_us: int = STEP_US
) -> Gates:
    """Return the gates for `counts`. `distinct` has the number of distinct rows of recorders with duplicates; `flaws`
    are further reasons for which the verdict cannot be valid."""
    recorders, kinds = by_recorder(rows), Counter[str]()
    for row in rows:
        kinds.update({row.kind: row.n, "pull": row.pull, "suspend": row.suspend})
    started, ended = (
        {row.recorder for row in rows if row.kind == f"recorder.{at}"} for at in ("start", "end")
    )
    events = {name: distinct.get(name, sum(row.n for row in own)) for name, own in recorders}
    gaps = {name: max(row.last for row in own) + 1 - events[name] for name, own in recorders}
    cut = {name: max(row.to_us for row in own) for name, own in recorders if name not in ended}
    unstarted = [name for name in events if name not in started]
    missing = [f"recorder {name} lost {gap} of its rows." for name, gap in gaps.items() if gap]
    missing += [f"recorder {name} has no end: it was cut short." for name in cut]
    missing += [f"recorder {name} has no start." for name in unstarted]
    operations = _operations(rows)
    return Gates(
        events=sum(events.values()),
        recorders=tuple(events),
        duplicated=sum(events.values()) < sum(row.n for row in rows),
        missing=(*missing, *flaws),
        has_gaps=any(gaps.values()) or bool(unstarted),
        cut_at=cut,
        clocks=tuple(sentence for name, own in recorders for sentence in disagreements(name, own, skew_us)),
        unfinished_operations=sum(of["unanswered"] for of in operations.values()),
        versions=tuple(sorted({str(row.version) for row in rows if row.version is not None})),
        started_us=min((row.from_us for row in rows), default=None),
        ended_us=max((row.to_us for row in rows), default=None),
        kinds=kinds,
        operations=operations,
        clock={name: bounds(own) for name, own in recorders},
    )


def by_recorder(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Return the rows of each recorder, sorted by name."""
    groups = defaultdict[str, list[Row]](list)
    for row in rows:
        groups[row.recorder].append(row)
    return sorted(groups.items())


def is_gap_free(own: Sequence[Row], first: int = 0) -> bool:
    """Return whether the rows of a recorder have all sequence numbers from `first` on, each once."""
    least, *below = _sums(first)
    most, *all_sums = _sums(max(row.last for row in own) + 1)
    sums = [whole - part for whole, part in zip(all_sums, below, strict=True)]
    return reduce(xor, (row.xor for row in own)) == least ^ most and sums == [
        sum(row[name] or 0 for row in own) for name in ("n", "total", "squares")
    ]


def _sums(count: int) -> tuple[int, int, int, int]:
    """Return exclusive-or, count, sum, and sum of the squared low bits of 0 … count - 1."""
    full, rest = divmod(count, _LOW + 1)
    exclusive_or = (count - 1, 1, count, 0)[(count - 1) % 4] if count else 0
    return exclusive_or, count, count * (count - 1) // 2, full * _squares(_LOW + 1) + _squares(rest)


def _squares(count: int) -> int:
    """Return the sum of the squares of 0 … count - 1."""
    return (count - 1) * count * (2 * count - 1) // 6


def is_paired(own: Sequence[Row]) -> bool:
    """Return whether calls and answers of a recorder have the same ids; brokers record answers only."""
    sides = ([row for row in own if row.phase in phases] for phases in (("invoke",), ANSWERS))
    calls, answers = ((sum(r.named for r in of), reduce(xor, (r.names or 0 for r in of), 0)) for of in sides)
    return not calls[0] or calls == answers


def distinct_rows(events: DataFrame, recorders: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Return the number of distinct rows of each of `recorders`, and those with two rows of one sequence number."""
    of = events.where(F.col("recorder").isin(*recorders)).groupBy("recorder")
    content = "xxhash64(kind, phase, op_id, t_wall_us, message_id, `group`)"
    counted = ("count(distinct seq) as n", f"count(distinct seq, {content}) as contents")
    rows = sorted(of.agg(*map(F.expr, counted)).collect())
    shared = [row.recorder for row in rows if row.contents > row.n]
    flaws = [
        f"recorder {name} has different rows of one number: two writers shared a name." for name in shared
    ]
    return {row.recorder: row.n for row in rows}, flaws


def repeated_operations(events: DataFrame, rows: Sequence[Row]) -> list[str]:
    """Return recorders with two calls, or two answers, of one id, unless `counts` rule that out; duplicate rows count
    once."""
    recorders = [name for name, own in by_recorder(rows) if not is_paired(own)]
    if not recorders:
        return []
    of = events.where(F.col("recorder").isin(*recorders)).where("op_id is not null and phase is not null")
    # Fixed-width values, so that the aggregation needs no sort.
    operation = F.expr("xxhash64(boot, epoch, kind, op_id, phase = 'invoke')").alias("operation")
    odd = of.groupBy("recorder", operation).agg(F.expr("min(seq) < max(seq) as odd")).where("odd")
    return [
        f"recorder {row.recorder} tells {row.n} call(s) or answer(s) twice: its operations are in doubt."
        for row in sorted(odd.groupBy("recorder").agg(F.count("*").alias("n")).collect())
    ]


def _operations(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return counts by kind (INV-CONSERVE): attempted = ok + fail + info; a call without an answer is `info`."""
    operations = {}
    for kind in OPERATIONS:
        own, calls = [row for row in rows if row.kind == kind], Counter[tuple[str, str]]()
        ok, fail, info = (sum(row.n for row in own if row.phase == phase) for phase in ANSWERS)
        for row in own:
            calls[row.recorder, row.boot] += {"invoke": row.n, None: 0}.get(row.phase, -row.n)
        # Brokers record answers only.
        unanswered = sum(max(0, more) for more in calls.values())
        if attempted := ok + fail + info + unanswered:
            counted = {"attempted": attempted, "ok": ok, "fail": fail, "info": info + unanswered}
            operations[kind] = counted | {"unanswered": unanswered}
    return operations
