"""The page of the audit's speed: what was measured, and what is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from benchmarks.page import judged

AUDIT, PLAIN, PACKED = "audit", "duckdb plain", "duckdb packed"
ONE_WORKER, TWO_WORKERS = "one worker", "two workers"
RECORDED = ("send", "push")
"""Kinds of work that a recorder watches."""
COLD = 1_000
"""Events of a small recording, of a test."""

_HEAD = """# The audit's speed

Written by `python -m benchmarks.audit --write` (do not edit); raw data in [audit-speed.json](audit-speed.json).

Recordings are made up by the project's generator. Each measurement is a process of its own, from its command to its
end; CPU is that of the process and of all that it started. DuckDB answers the same questions on the same files, once as
plain windows and once by the same packed plan, without excuses, evidence or report. Figures of one size were taken one
after the other on one machine ({cores} cores): compare within a size.

"""


def merged(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What was published, with what has been measured now in its places."""
    rows = {_key(row): row for row in (*before.get("runs", ()), *now["runs"])}
    return {**before, **now, "runs": [rows[key] for key in sorted(rows)]}


def _key(row: Mapping[str, Any]) -> tuple[float, int, str]:
    return row["hot"], row["events"], row["engine"]


def page(facts: Mapping[str, Any]) -> str:
    """The whole page."""
    lines = [f"- {text}: {'holds' if holds else '**does not hold**'}" for text, holds in demands(facts)]
    return "\n".join(
        [
            _HEAD.format(cores=facts["cores"]) + table(facts["runs"]),
            "",
            "## What is asked for",
            "",
            *lines,
            "",
            *_recording(facts.get("recorder", {})),
        ]
    )


def _recording(values: Mapping[str, Sequence[float]]) -> list[str]:
    """What the rates do not tell: the process that writes waits while two cores are busy with client and fake."""
    told = [kind for kind in RECORDED if f"recorder_{kind}_elsewhere_us" in values]
    if not told:
        return []
    lines = [
        f"- {kind}: {values[f'recorder_{kind}_cpu'][0]:+.0f} % CPU in the client's process, and "
        f"{values[f'recorder_{kind}_elsewhere_us'][0]:.0f} µs a message, its start included, in the one that writes"
        for kind in told
    ]
    return [
        "Recording gives way to the client and is caught up with afterwards. What it takes in all:",
        "",
        *lines,
        "",
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All that was measured beside DuckDB."""
    lines = ["| events | hot group | engine | seconds | CPU seconds |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        hot = "a fifth" if row["hot"] else "none"
        lines.append(
            f"| {row['events']:,} | {hot} | {row['engine']} | {row['seconds']:.1f} | {row['cpu_seconds']:.1f} |"
        )
    return "\n".join(lines)


def demands(facts: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Everything that is asked of what was measured, and whether it holds."""
    took = {_key(row): row["seconds"] for row in facts["runs"]}
    sizes = sorted({events for hot, events, engine in took if engine == AUDIT and not hot and events > COLD})
    found = []
    if (0.0, COLD, AUDIT) in took:
        found.append(judged(f"an audit of {COLD:,} events, in s", took[0.0, COLD, AUDIT], 10))
    if sizes:
        most = sizes[-1]
        own = took[0.0, most, AUDIT]
        for engine, limit in ((PLAIN, 0.8), (PACKED, 2.5)):
            other = took.get((0.0, most, engine))
            if other is not None:
                found.append(judged(f"{most:,} events, beside {engine}, in times", own / other, limit))
    for events in sizes:
        hot = took.get((0.2, events, AUDIT))
        if hot is not None:
            even = took[0.0, events, AUDIT]
            found.append(
                judged(f"{events:,} events with a hot group, in times of the even ones", hot / even, 1.3)
            )
    for less, more in pairwise(sizes):
        growth = took[0.0, more, AUDIT] / took[0.0, less, AUDIT] / (more / less)
        found.append(judged(f"{less:,} to {more:,} events, in times of linear growth", growth, 1.1))
    workers = facts.get("workers")
    if workers:
        one, two = workers[ONE_WORKER], workers[TWO_WORKERS]
        text = f"{workers['events']:,} events, two workers of a core ({two:.0f} s) beside one ({one:.0f} s), in times"
        found.append(judged(text, two / one, 0.6))
        found.append(("the same, verdicts and counts of both are equal", bool(workers["agree"])))
    follow = facts.get("follow")
    if follow:
        text = f"following {follow['events']:,} events, in µs of wall time for one"
        found.append(judged(text, 1e6 / follow["events_per_second"], 10))
    for name, values in facts.get("recorder", {}).items():
        kind = name.removeprefix("recorder_")
        if kind in RECORDED:
            found.append(judged(f"what recording takes of the rate of {kind}, in %", values[0], 5))
    return found
