"""The state of following a recording, which one batch passes to the next with the events. No Spark, files or clock."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Span = list[int]
"""First and last number of a recorder's rows that were read without a gap, and the latest time among them (µs)."""
Spans = Mapping[str, list[Span]]
"""By recorder: which rows were read."""


@dataclass(frozen=True, slots=True)
class State:
    """Written by each batch, read by the next one."""

    folders: list[str] = field(default_factory=list)
    batch: int = -1
    watermark_us: int = 0
    """All events up to here were read, or timed out."""
    kept_us: int = 0
    """All events from here on are carried, and of earlier ones those that may still be needed."""
    counts: list[dict[str, Any]] = field(default_factory=list)
    """`recording.gates.counts` of all rows read."""
    spans: Spans = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """`name_of` the files that were read: mostly recorders."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """Number of findings by check, invariant, verdict and exemption, separated by tabs."""
    flaws: list[str] = field(default_factory=list)
    """Reasons for which the verdict cannot be valid."""
    late_rows: int = 0
    """Rows that were read after their time had been judged."""
    forgotten: int = 0
    """Open messages that were dropped to bound the carried events."""

    def to_json(self) -> str:
        """Return the state as text; `State(**json.loads(text))` restores it."""
        return json.dumps(dataclasses.asdict(self))

    @property
    def rows(self) -> dict[str, int]:
        """Return the number of distinct rows read, by recorder."""
        return {name: sum(last - first + 1 for first, last, _ in of) for name, of in self.spans.items()}

    @property
    def ended(self) -> set[str]:
        """Return the recorders of which all rows were read."""
        ends = {row["recorder"] for row in self.counts if row["kind"] == "recorder.end"}
        return {name for name in ends if len(self.spans[name]) == 1 and self.spans[name][0][0] == 0}

    @property
    def is_complete(self) -> bool:
        """Return whether all known recorders are complete."""
        return bool(self.spans) and self.ended == self.spans.keys()

    @property
    def silent(self) -> dict[str, int]:
        """Return the recorders that timed out, and the time (µs) up to which their rows were read."""
        running = {name: reached(self.spans[name]) for name in self.spans.keys() - self.ended}
        return {name: to_us for name, to_us in running.items() if to_us < self.watermark_us}

    @property
    def has_gaps(self) -> bool:
        """Return whether rows before the watermark are missing."""
        return any(reached(of) < min(self.watermark_us, of[-1][2]) for of in self.spans.values())


def name_of(file: str) -> str:
    """Return the recorder `R` of a file `R-NNNNN.parquet` or `R-NNNNN.parquet.open`; for other files their name."""
    name = file.rpartition("/")[2].removesuffix(".open").removesuffix(".parquet")
    head, _, number = name.rpartition("-")
    return head if head and number.isdecimal() else name


def with_runs(spans: Spans, runs: Iterable[tuple[str, int, int, int]]) -> dict[str, list[Span]]:
    """Return `spans` merged with more row ranges (recorder, first, last, time), which may overlap or be adjacent."""
    merged = dict(spans)
    for name, *run in runs:
        previous, merged[name] = merged.get(name, ()), []
        for first, last, to_us in sorted([*previous, run]):
            of = merged[name]
            if of and first <= of[-1][1] + 1:
                of[-1] = [of[-1][0], max(of[-1][1], last), max(of[-1][2], to_us)]
            else:
                of.append([first, last, to_us])
    return merged


def reached(spans: list[Span]) -> int:
    """Return the time up to which all rows of a recorder were read; 0 if its first ones are missing."""
    return spans[0][2] if spans[0][0] == 0 else 0


def watermark(state: State, names: Collection[str], lateness_us: int) -> int:
    """Return the time up to which no rows are outstanding; it never decreases.

    A recorder without new rows, or with missing rows, delays it by at most `lateness_us` of the recording's own time;
    so does a recorder of `names` without any rows yet.
    """
    newest = max((to_us for of in state.spans.values() for *_, to_us in of), default=0)
    running = (state.spans[name] for name in state.spans.keys() - state.ended)
    marks = [max(reached(of), newest - lateness_us) for of in running]
    marks.append(newest if set(names) <= set(state.names) else newest - lateness_us)
    return max(state.watermark_us, min(marks))
