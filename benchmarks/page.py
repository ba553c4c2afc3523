"""Draws the page of one run, and says which of the demands it meets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.plan import APACHE, CLIENTS, OURS, SIZES, STUB, WORKS, Work

METHOD = """\
# Speed and size

Written by `nox -s bench` (do not edit); everything that was measured stands in [benchmarks.json](benchmarks.json).
Machines differ, ratios travel: compare within a table, not between pages.

## Method

- Three clients do the same work against the same server: a bare `grpc.aio` stub with our wire messages and nothing on
  top, `aiorocketmq`, and Apache's Python client in an environment of its own. The server is our fake broker (profile
  `{profile}`, {queues} queues a topic), in a process of its own, fresh for each round.
- One process per measurement: {warm_up} s of warm-up after the first message, then {seconds} s.
  The clients take turns within a round, {rounds} rounds in one run; cells are medians
  over the rounds, raw data has them all.
  Bodies of 1 KiB, clear text, unsigned.
- CPU is user and system time of the client's process per message. Latency is per call: of a send, of a receive, or
  from send to handler. Client and server share the machine and the server is Python too: it bounds every client's rate,
  so that **CPU per message is the steadier figure**.
- Start and size are the best of {repeats} fresh processes: other work on the machine can only add to them.
- The core's figures are CPU time of processes in which nothing else runs: one message of 1 KiB is sent, received by a
  call of its own, and acknowledged by one. `python -m benchmarks --core` measures them alone.
- The stub acknowledges a whole receive with one call, as our clients do; Apache's client has no such call.
- Batches: the stub fills requests of 32 messages itself, 8 in flight; our producer gathers what 256 tasks send one by
  one (`linger`); Apache's client has no batches, and sends one by one with 256 in flight.
"""


def median(results: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """Return the middle of one figure over the rounds."""
    values = [result[key] for result in results if result[key] is not None]
    return statistics.median(values) if values else None


def ratio(run: Mapping[str, Any], work: Work, key: str, other: str, ours: str = OURS) -> float | None:
    """Return ours over another client's, round by round, and of these the middle."""
    pairs = zip(
        run["results"][work.title].get(ours, ()), run["results"][work.title].get(other, ()), strict=False
    )
    values = [mine[key] / theirs[key] for mine, theirs in pairs if mine[key] and theirs[key]]
    return statistics.median(values) if values else None


def shown(value: float | None, form: str = "{:.2f}") -> str:
    """Write a figure, or a dash where there is none."""
    return "-" if value is None else form.format(value)


def speed_table(run: Mapping[str, Any]) -> list[str]:
    """Draw messages per second, CPU and latencies, one line per work and client."""
    lines = [
        "| work | client | messages/s | CPU µs/message | p50 ms | p99 ms | rate / stub's | CPU / stub's |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for work in WORKS:
        for client in CLIENTS:
            results = run["results"][work.title].get(client)
            if not results:
                continue
            cells = [
                work.title if client == STUB else "",
                client,
                shown(median(results, "rate"), "{:,.0f}"),
                shown(median(results, "cpu_us"), "{:.0f}"),
                shown(median(results, "p50_ms")),
                shown(median(results, "p99_ms"), "{:.1f}"),
                shown(ratio(run, work, "rate", STUB, client)),
                shown(ratio(run, work, "cpu_us", STUB, client)),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def size_table(run: Mapping[str, Any]) -> list[str]:
    """Draw start times and sizes beside what is allowed."""
    lines = ["| what | measured | allowed |", "|---|--:|--:|"]
    for size in SIZES:
        value = min(run["sizes"][size.key])
        lines.append(f"| {size.title} | {value:.3g} {size.unit} | {size.limit:g} {size.unit} |")
    return lines


def demands(run: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """List everything that is asked of this run, and whether it holds."""
    found: list[tuple[str, bool]] = []

    def at_least(words: str, limit: float, value: float | None) -> None:
        if value is not None:
            found.append((f"{words} ≥ {limit:g}: {value:.3g}", value >= limit))

    def at_most(words: str, limit: float, value: float | None) -> None:
        if value is not None:
            found.append((f"{words} ≤ {limit:g}: {value:.3g}", value <= limit))

    for work in WORKS:
        if work.floor_of_rate is not None:
            at_least(
                f"{work.title}: our rate / the stub's", work.floor_of_rate, ratio(run, work, "rate", STUB)
            )
        if work.ceiling_of_cpu is not None:
            at_most(
                f"{work.title}: our CPU / the stub's", work.ceiling_of_cpu, ratio(run, work, "cpu_us", STUB)
            )
        if work.kind == "end_to_end":
            at_most(f"{work.title}: our p50 / Apache's client's", 1.0, ratio(run, work, "p50_ms", APACHE))
        else:
            at_least(f"{work.title}: our rate / Apache's client's", 1.0, ratio(run, work, "rate", APACHE))
        at_most(
            f"{work.title}: our CPU / Apache's client's",
            work.ceiling_beside_apache,
            ratio(run, work, "cpu_us", APACHE),
        )
    for size in SIZES:
        at_most(f"{size.title}, in {size.unit}", size.limit, min(run["sizes"][size.key]))
    return found


def page(run: Mapping[str, Any]) -> str:
    """Write the whole page."""
    machine = run["machine"]
    lines = [
        METHOD.format(**run["effort"]),
        "## Machine and versions",
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
        "",
        "## Speed",
        "",
        *speed_table(run),
        "",
        "## Start and size",
        "",
        *size_table(run),
        "",
        "## What is asked of it",
        "",
        *(f"- {'holds' if holds else '**does not hold**'}: {words}" for words, holds in demands(run)),
        "",
    ]
    return "\n".join(lines)
