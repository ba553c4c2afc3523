"""Draws the page of one run, and says which of the demands it meets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.parts import PARTS
from benchmarks.plan import APACHE, CLIENTS, FIGURES, OURS, SIZES, STUB, WORKS, Size, Work

METHOD = """\
# Speed and size

Written by `nox -s bench` (do not edit); everything that was measured stands in [benchmarks.json](benchmarks.json).
Machines differ, ratios travel: compare within a table, not between pages.

## Method

- Three clients do the same work against the same server: a bare `grpc.aio` stub with our wire messages and nothing on
  top, `aiorocketmq`, and Apache's Python client in an environment of its own. All take grpcio as it comes, by its
  public interface. The server is our fake broker (profile `{profile}`, {queues} queues a topic), in a process of its
  own, fresh for each round.
- One process per measurement: {warm_up} s of warm-up after the first message, then {seconds} s.
  The clients take turns within a round, {rounds} rounds in one run; cells are medians
  over the rounds, raw data has them all.
  Bodies of 1 KiB, clear text, unsigned.
- CPU is user and system time of the client's process per message. Latency is per call: of a send, of a receive, or
  from send to handler. Client and server share the machine and the server is Python too: it bounds every client's rate,
  so that **CPU per message is the steadier figure**.
- Start and size are the best of {repeats} fresh processes: other work on the machine can only add to them.
- The core's figures are CPU time of processes in which nothing else runs, for messages of 1 KiB that are sent one by
  one; consumers ask for 32 with a receive by default, so that the speed that is asked for is judged in this way, and
  shown for messages by calls of their own as well.
- A send's cost to the fake's process stands beside that of a `grpc.aio` server which answers the same bytes to
  everything; both get the same calls from a client in another process.
- `python -m benchmarks --part NAME` measures one part again and keeps the rest as published: {parts}.
- The stub acknowledges a whole receive with one call, as our clients do; Apache's client has no such call.
- Batches: the stub fills requests of 32 messages itself, 8 in flight; our producer gathers what 256 tasks send one by
  one, or gets 8 lists of 32 messages at a time by `send_many` (both with `linger`); Apache's client has no batches,
  and sends one by one with 256 in flight.
"""


NAMES = {STUB: "the stub's", APACHE: "Apache's client's"}
"""Whose figures ours stand beside."""


REAL = """\
## Against a real server

- The same works and clients, against Apache RocketMQ {version} on this machine (a name server, and broker and proxy in
  one process of Java): one server for all rounds, warmed up by a round that is not counted; topics and groups of their
  own for each, {queues} queues a topic.
- {rounds} rounds, {warm_up} s of warm-up after the first message, then {seconds} s; cells are medians over the rounds.
- The server takes most of the machine and bounds every client's rate: **CPU per message is the steadier figure** here,
  too. `python -m benchmarks --real` measures this part alone.
"""


def median(results: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """Return the middle of one figure over the rounds."""
    values = [result[key] for result in results if result[key] is not None]
    return statistics.median(values) if values else None


def ratio(run: Mapping[str, Any], work: Work, key: str, other: str, ours: str = OURS) -> float | None:
    """Return ours over another client's, round by round, and of these the middle."""
    results = run["results"].get(work.title, {})
    pairs = zip(results.get(ours, ()), results.get(other, ()), strict=False)
    values = [mine[key] / theirs[key] for mine, theirs in pairs if mine[key] and theirs[key]]
    return statistics.median(values) if values else None


def least(run: Mapping[str, Any], size: Size) -> float | None:
    """Return the best of what was measured, None where nothing was."""
    return min(run["sizes"].get(size.key, ()), default=None)


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
            results = run["results"].get(work.title, {}).get(client)
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
        value = shown(least(run, size), "{:.3g}")
        allowed = "" if size.limit is None else f"{size.limit:.3g} {size.unit}"
        lines.append(f"| {size.title} | {value} {size.unit} | {allowed} |")
    return lines


def judged(words: str, value: float, limit: float, *, is_floor: bool = False) -> tuple[str, bool]:
    """Say what is asked of one figure, and whether it holds."""
    holds = value >= limit if is_floor else value <= limit
    return f"{words} {'≥' if is_floor else '≤'} {limit:.3g}: {value:.3g}", holds


def speed_demands(run: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """List what is asked of our clients' speed in this run, and whether it holds."""
    found: list[tuple[str, bool]] = []
    for work in WORKS:
        for demand in work.demands:
            value = ratio(run, work, demand.figure, demand.beside)
            if value is not None:
                words = f"{work.title}: our {FIGURES[demand.figure]} / {NAMES[demand.beside]}"
                found.append(judged(words, value, demand.limit, is_floor=demand.is_floor))
    return found


def demands(run: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """List everything that is asked of this run but for its part on a real server, and whether it holds."""
    found = speed_demands(run)
    for size in SIZES:
        value = least(run, size)
        if value is None:
            found.append((f"{size.title}: not measured yet", False))
        elif size.limit is not None:
            found.append(judged(f"{size.title}, in {size.unit}", value, size.limit))
    return found


def rounds(run: Mapping[str, Any]) -> str:
    """Say how many rounds were measured, of works that were measured apart too."""
    counts = {len(results) for each in run["results"].values() for results in each.values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)}))) if counts else "0"


def real_demands(run: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """List what is asked of our clients' speed on a real server; nothing where none was measured."""
    if "real" not in run:
        return []
    where = f"on Apache RocketMQ {run['real']['version']}, "
    return [(where + words, holds) for words, holds in speed_demands(run["real"])]


def real_section(run: Mapping[str, Any]) -> list[str]:
    """Write the part about a real server; nothing where none was measured."""
    if "real" not in run:
        return []
    real = run["real"]
    return [
        REAL.format(version=real["version"], **real["effort"] | {"rounds": rounds(real)}),
        *(f"- {name}: {value}" for name, value in real["machine"].items()),
        "",
        *speed_table(real),
        "",
        *(f"- {'holds' if holds else '**does not hold**'}: {words}" for words, holds in real_demands(run)),
        "",
    ]


def page(run: Mapping[str, Any]) -> str:
    """Write the whole page."""
    machine = run["machine"]
    lines = [
        METHOD.format(
            **run["effort"] | {"rounds": rounds(run)}, parts=", ".join(f"`{part}`" for part in PARTS)
        ),
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
        *real_section(run),
    ]
    return "\n".join(lines)
