"""How far a recording was followed: what one batch leaves to the next beside events. No Spark, no files, no clock."""

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
    """All that happened up to here was read, or was waited for in vain."""
    kept_us: int = 0
    """All events from here on are carried, and of earlier ones those that may still matter."""
    counts: list[dict[str, Any]] = field(default_factory=list)
    """`recording.gates.counts` of all that was read."""
    spans: Spans = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    """`name_of` the files that were read: mostly recorders."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """How many findings there are by check, invariant, verdict and exemption, with tabs between them."""
    flaws: list[str] = field(default_factory=list)
    """Sentences on why nothing can be valid."""
    late_rows: int = 0
    """Rows that came when their time had been judged."""
    forgotten: int = 0
    """Open messages that were dropped, to bound what is carried."""

    def to_json(self) -> str:
        """Return it as text, of which `State(**json.loads(text))` makes it again."""
        return json.dumps(dataclasses.asdict(self))

    @property
    def rows(self) -> dict[str, int]:
        """How many different rows of each recorder were read."""
        return {name: sum(last - first + 1 for first, last, _ in of) for name, of in self.spans.items()}

    @property
    def ended(self) -> set[str]:
        """Recorders whose every row was read."""
        ends = {row["recorder"] for row in self.counts if row["kind"] == "recorder.end"}
        return {name for name in ends if len(self.spans[name]) == 1 and self.spans[name][0][0] == 0}

    @property
    def is_complete(self) -> bool:
        """All known recorders have ended."""
        return bool(self.spans) and self.ended == self.spans.keys()

    @property
    def silent(self) -> dict[str, int]:
        """Recorders that were waited for in vain, and up to when (µs) their rows were read."""
        running = {name: reached(self.spans[name]) for name in self.spans.keys() - self.ended}
        return {name: to_us for name, to_us in running.items() if to_us < self.watermark_us}

    @property
    def has_gaps(self) -> bool:
        """Rows from before the watermark are missing."""
        return any(reached(of) < min(self.watermark_us, of[-1][2]) for of in self.spans.values())


def name_of(file: str) -> str:
    """Return the recorder `R` of a file `R-NNNNN.parquet` or `R-NNNNN.parquet.open`; of others their name."""
    name = file.rpartition("/")[2].removesuffix(".open").removesuffix(".parquet")
    head, _, number = name.rpartition("-")
    return head if head and number.isdecimal() else name


def with_runs(spans: Spans, runs: Iterable[tuple[str, int, int, int]]) -> dict[str, list[Span]]:
    """Return `spans` with more runs of rows (recorder, first, last, time), which may overlap or follow each other."""
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
    """Return the time up to which nothing is outstanding; it never falls.

    A recorder without news, or with missing rows, holds the others up by `lateness_us` of the recording's own time; so
    does one of which only a file is known, by `names`.
    """
    newest = max((to_us for of in state.spans.values() for *_, to_us in of), default=0)
    running = (state.spans[name] for name in state.spans.keys() - state.ended)
    marks = [max(reached(of), newest - lateness_us) for of in running]
    marks.append(newest if set(names) <= set(state.names) else newest - lateness_us)
    return max(state.watermark_us, min(marks))
