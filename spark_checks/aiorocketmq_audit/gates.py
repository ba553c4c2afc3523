"""What must hold before any verdict counts: the recording is whole (INV-RECORD), its clocks agree (INV-CLOCK).

One aggregation by recorder and boot. A recorder's numbers are gap-free exactly when count, sum, exclusive-or
and a sum of squares are those of 0, 1, 2 … n; this needs no sort. Only when they are not, a second pass tells
duplicates from gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, functions as F

from aiorocketmq_audit.errors import NotARecording
from aiorocketmq_audit.reading import reason
from aiorocketmq_audit.schema import REQUIRED, VERSION

STEP_US = 50_000
"""A wall clock that leaves the monotonic one by more than this was stepped; slewing stays below."""

_LOW = 0xFFFF


@dataclass(frozen=True, slots=True)
class Gates:
    """What is known about a recording before it is judged."""

    events: int
    recorders: tuple[str, ...]
    duplicated: bool
    """Some row occurs twice: count each once."""
    missing: tuple[str, ...]
    """Sentences on what is missing; nothing can be valid then."""
    has_gaps: bool
    """Rows are missing in the middle, so that no finding is certain either."""
    cut_at: dict[str, int]
    """Recorders without an end, and the last time each of them wrote: what it saw later is lost."""
    clocks: tuple[str, ...]
    """Sentences on clocks that do not agree; nothing about time is certain then."""
    unfinished_operations: int
    """Calls whose answer was never seen."""
    versions: tuple[str, ...]
    started_us: int | None
    ended_us: int | None

    @property
    def whole(self) -> bool:
        """No row is known to be missing."""
        return not self.missing


def examine(events: DataFrame, *, unfinished: tuple[str, ...] = ()) -> Gates:
    """Judge the recording itself. Raises NotARecording when the rows are no recording's, or one of another version."""
    try:
        rows = _summary(events).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise NotARecording(
            f"Spark cannot read these files as a recording of version {VERSION} ({reason(error)}): "
            "give the folder that Recorder(...) or --record wrote."
        ) from error
    foreign = sum(row.foreign for row in rows)
    if foreign:
        raise NotARecording(
            f"{foreign} of {sum(row.n for row in rows)} rows lack {REQUIRED[0]} or another required column: "
            "these files are not a recording (docs/reference/recording.md)."
        )
    versions = tuple(sorted({row.version for row in rows if row.version}))
    for version in versions:
        if not version.isdecimal() or not 1 <= int(version) <= VERSION:
            raise NotARecording(
                f"this recording has version {version} and this program reads 1 to {VERSION}: "
                "upgrade with pip install -U 'aiorocketmq[spark]'."
            )
    spans = _spans(rows)
    odd = [name for name, span in spans.items() if not span.is_gap_free]
    exact = _exact(events, odd) if odd else {}
    return _gates(rows, spans, exact, versions, unfinished)


def _summary(events: DataFrame) -> DataFrame:
    phase, low = F.col("phase"), F.col("seq").bitwiseAND(F.lit(_LOW))
    is_foreign = F.lit(False)
    for name in REQUIRED:
        is_foreign = is_foreign | F.col(name).isNull()
    beside = F.col("t_wall_us") - F.floor(F.col("t_mono_ns") / 1000)
    ahead = F.when(F.col("kind") == "deliver", F.col("server_deliver_us"))
    return events.groupBy("recorder", "boot").agg(
        F.count("*").alias("n"),
        F.count_if(is_foreign).alias("foreign"),
        F.min("seq").alias("first"),
        F.max("seq").alias("last"),
        F.sum("seq").alias("total"),
        F.bit_xor("seq").alias("xor"),
        F.sum(low * low).alias("squares"),
        F.count_if(F.col("kind") == "recorder.start").alias("starts"),
        F.count_if(F.col("kind") == "recorder.end").alias("ends"),
        F.max(F.when(F.col("kind") == "recorder.start", F.col("cfg").getItem("version"))).alias("version"),
        F.count_if(phase == "invoke").alias("invokes"),
        F.count_if(phase.isin("ok", "fail", "info") & F.col("invoked_seq").isNotNull()).alias("completions"),
        F.min("t_wall_us").alias("from_us"),
        F.max("t_wall_us").alias("to_us"),
        (F.max(beside) - F.min(beside)).alias("step_us"),
        F.max(ahead - F.col("t_wall_us")).alias("ahead_us"),
        F.max(F.coalesce("invoked_us", "t_wall_us") - ahead).alias("behind_us"),
    )


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
        full, rest = divmod(count, _LOW + 1)
        squares = full * _squares(_LOW + 1) + _squares(rest)
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


def _exact(events: DataFrame, recorders: list[str]) -> dict[str, int]:
    """How many different rows each of `recorders` has."""
    chosen = events.where(F.col("recorder").isin(recorders)).select("recorder", "seq").distinct()
    return {row.recorder: row["count"] for row in chosen.groupBy("recorder").count().collect()}


def _gates(
    rows: list[Row],
    spans: dict[str, _Span],
    exact: dict[str, int],
    versions: tuple[str, ...],
    unfinished: tuple[str, ...],
) -> Gates:
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
        missing=tuple(missing),
        has_gaps=any(gaps.values()) or any(not span.starts for span in spans.values()),
        cut_at=cut,
        clocks=tuple(_clock_sentences(rows)),
        unfinished_operations=sum(max(0, row.invokes - row.completions) for row in rows),
        versions=versions,
        started_us=min((row.from_us for row in rows), default=None),
        ended_us=max((row.to_us for row in rows), default=None),
    )


def _clock_sentences(rows: Iterable[Row]) -> Iterable[str]:
    for row in sorted(rows, key=lambda row: (row.recorder, row.boot)):
        if row.step_us > STEP_US:
            yield f"the wall clock of recorder {row.recorder} was stepped by {row.step_us / 1e6:.3f} s."
        apart = max(row.ahead_us or 0, row.behind_us or 0)
        if apart > STEP_US:
            yield f"the clock of recorder {row.recorder} differs from the server's by {apart / 1e6:.3f} s or more."
