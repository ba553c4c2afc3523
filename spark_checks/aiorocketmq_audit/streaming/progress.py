"""What following remembers between two batches beside the carried events: numbers, counts, and how far it has come."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiorocketmq_audit.gates import NOTHING, joined

Span = tuple[int, int, int]
"""First and last number of rows that were read without a gap, and the latest time among them (µs)."""

SEPARATOR = "\t"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a recording was followed. Written with the carried events of a batch, read by the next one."""

    folders: tuple[str, ...] = ()
    batch: int = -1
    watermark_us: int | None = None
    """All that happened up to here has been read, or was waited for in vain."""
    numbers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of each recorder and boot: what `gates.numbers` counts."""
    spans: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    """Of each recorder: which rows were read."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Files read, by series (their names without the number)."""
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Recorders whose rows a series holds."""
    found: Mapping[str, int] = field(default_factory=dict)
    """Findings by check, rule, verdict and excuse (joined by SEPARATOR)."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """Rows that the checks rest on, by what they are."""
    late_rows: int = 0
    """Rows that came when their time had been judged."""
    forgotten: int = 0
    """Messages that were dropped before they had come to their end, to bound what is carried."""
    told_twice: Mapping[str, int] = field(default_factory=dict)
    """Of each recorder with two calls or answers of one id: how many such ids were seen at once, at the most."""
    has_copies: bool = False
    """Some row was read twice."""
    closed: bool = False
    """All recorders have ended and everything was judged."""

    def to_json(self) -> str:
        """As text for a file."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Progress:
        """What `to_json` wrote."""
        values = json.loads(text)
        values["folders"] = tuple(values["folders"])
        values["spans"] = {
            name: tuple((first, last, to) for first, last, to in spans)
            for name, spans in values["spans"].items()
        }
        # A program of an earlier version counted fewer kinds.
        values["numbers"] = {
            key: dict(NOTHING) | counted for key, counted in values.get("numbers", {}).items()
        }
        values["writers"] = {name: tuple(writers) for name, writers in values["writers"].items()}
        return cls(**values)

    @property
    def rows(self) -> dict[str, int]:
        """How many different rows of each recorder were read."""
        return {name: sum(last - first + 1 for first, last, _ in spans) for name, spans in self.spans.items()}

    @property
    def ended(self) -> frozenset[str]:
        """Recorders whose last row was read."""
        return frozenset(
            _recorder(key) for key, numbers in self.numbers.items() if numbers["ends"] and _recorder(key)
        )

    @property
    def lost(self) -> tuple[str, ...]:
        """Recorders with rows missing before the watermark."""
        mark = self.watermark_us or 0
        return tuple(
            name
            for name, spans in self.spans.items()
            if (len(spans) > 1 or spans[0][0] > 0) and _contiguous_to(spans) < mark
        )

    @property
    def is_whole(self) -> bool:
        """Every recorder has begun and ended, and no row is missing."""
        return bool(self.spans) and all(
            name in self.ended and len(spans) == 1 and spans[0][0] == 0 for name, spans in self.spans.items()
        )


def _recorder(key: str) -> str:
    return key.partition(SEPARATOR)[0]


def merged(before: Mapping[str, Mapping[str, Any]], more: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add what `gates.numbers` counted in new files to what it had counted before."""
    total: dict[str, dict[str, Any]] = {key: dict(values) for key, values in before.items()}
    for row in more:
        key = f"{row['recorder']}{SEPARATOR}{row['boot']}"
        known = total.setdefault(key, {})
        for name, value in row.items():
            known[name] = joined(name, known.get(name), value)
    return total


def with_span(spans: Iterable[Span], more: Span) -> tuple[Span, ...]:
    """Join a run of rows to those that were read."""
    joined: list[Span] = []
    for first, last, to in sorted([*spans, more]):
        if joined and first <= joined[-1][1] + 1:
            begin, end, until = joined[-1]
            joined[-1] = (begin, max(end, last), max(until, to))
        else:
            joined.append((first, last, to))
    return tuple(joined)


def covers(spans: Iterable[Span], first: int, last: int) -> bool:
    """These rows were all read before."""
    return any(begin <= first and last <= end for begin, end, _ in spans)


def overlaps(spans: Iterable[Span], first: int, last: int) -> bool:
    """Some of these rows were read before."""
    return any(begin <= last and first <= end for begin, end, _ in spans)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that lie in the folders now, by series."""

    finished: Mapping[str, int] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    """Series with a file that is being written."""

    def pending(self, progress: Progress) -> frozenset[str]:
        """Series with finished files that were not read yet."""
        return frozenset(name for name, n in self.finished.items() if n > progress.files.get(name, 0))


def watermark(progress: Progress, listing: Listing, *, lateness_us: int) -> int | None:
    """The time up to which nothing is outstanding; None when a series waits that nobody has looked into.

    A recorder is waited for while finished files of it lie there. When there are none (it has nothing to tell, or
    is gone, or lost rows), others wait for it by `lateness_us` of the recording's own time.
    """
    pending = listing.pending(progress)
    if any(name not in progress.files for name in pending) or not progress.spans:
        return progress.watermark_us
    behind = {writer for name in pending for writer in progress.writers.get(name, ())}
    newest = max(to for spans in progress.spans.values() for _, _, to in spans)
    marks = []
    for name, spans in progress.spans.items():
        reached = _contiguous_to(spans)
        is_done = name in progress.ended and len(spans) == 1 and spans[0][0] == 0
        if name in behind:
            marks.append(reached)
        elif not is_done:
            marks.append(max(reached, newest - lateness_us))
    if any(name not in progress.files for name in listing.open):
        marks.append(newest - lateness_us)
    # A recorder that ended while others go on says nothing about how far they are.
    return max(progress.watermark_us or 0, min(marks, default=newest))


def _contiguous_to(spans: tuple[Span, ...]) -> int:
    first, _, to = spans[0]
    return to if first == 0 else 0
