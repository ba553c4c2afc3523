"""Compares what the engine finds with what is expected: `python -m spark_checks.tests.judgements.compare [NAME…]`.

NAME may be a pattern such as 'pages*'. Prints a line for each difference: page or planted kind, invariant, both sides,
and the events that prove it. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import concat_tables, parquet

from spark_checks.tests.judgements import battery
from spark_checks.tests.judgements.battery import Entry
from spark_checks.tests.judgements.engine import Finding, Judgement, judged, spark_session

Row = Mapping[str, Any]
SHOWN = ("phase", "result", "reason", "message_id", "group", "client_id", "attempt", "offset", "queue")


class Events:
    """The rows of a recording, read when a difference is to be explained."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = files

    @cached_property
    def rows(self) -> Mapping[tuple[str | None, int | None], Row]:
        """All rows, by recorder and number."""
        tables = [parquet.read_table(file) for file in self._files]
        rows = concat_tables(tables, promote_options="default").to_pylist()
        return {(row["recorder"], row["seq"]): row for row in rows}

    def about(self, finding: Finding) -> str:
        """The case that a finding belongs to (a page, say), or its topic: each planted fault has one of its own."""
        proofs = (self.rows.get(finding[3:5]), self.rows.get(finding[5:7]))
        for row in proofs:
            if row is not None:
                # Scenes of planted faults have topics of their own.
                return row["case_id"] or str(row["topic"])
        return ""

    def told(self, about: str, finding: Finding) -> Iterator[str]:
        """Lines on what happened in the finding's case, or to its messages, if that is a generated recording."""
        proofs = {finding[3:5], finding[5:7]}
        messages = {self.rows[proof]["message_id"] for proof in proofs if proof in self.rows} - {None}
        mine = [
            row
            for row in self.rows.values()
            if (row["case_id"] == about if row["case_id"] else row["message_id"] in messages)
        ]
        start = min((row["t_wall_us"] for row in mine), default=0)
        for row in sorted(mine, key=lambda row: (row["t_wall_us"], row["recorder"], row["seq"])):
            mark = ">" if (row["recorder"], row["seq"]) in proofs else " "
            more = " ".join(f"{name}={row[name]}" for name in SHOWN if row.get(name) is not None)
            call = "" if row["invoked_us"] is None else f" called {(row['invoked_us'] - start) / 1e6:.3f}"
            hold = "" if row["invisible_ms"] is None else f" for {row['invisible_ms'] / 1e3} s"
            at = (row["t_wall_us"] - start) / 1e6
            yield (
                f"    {mark} {at:9.3f}{call} {row['observer'][0]} {row['recorder'][-12:]}:{row['seq']} "
                f"{row['kind']}{hold} {more} {row['cfg'] or row.get('fault') or ''}"
            )


def differences(entry: Entry, found: Judgement, *, with_events: bool = False) -> list[str]:
    """A line for each difference; `with_events` adds what happened."""
    expected, events, lines = entry.expected, Events(entry.files), []
    if expected.verdict != found.verdict:
        lines.append(f"verdict: {expected.verdict} -> {found.verdict}")
    for check in sorted(expected.checks.keys() | found.checks.keys()):
        before, after = expected.checks.get(check), found.checks.get(check)
        if before != after:
            lines.append(f"check {check}: {_counted(before)} -> {_counted(after)}")
    by_proof: dict[Any, dict[str, list[str]]] = defaultdict(lambda: {"old": [], "new": []})
    for side, those in (
        ("old", expected.findings - found.findings),
        ("new", found.findings - expected.findings),
    ):
        for each in those:
            by_proof[each[3:], each.invariant][side].append(_outcome(each))
    blocks = []
    for (proof, invariant), sides in by_proof.items():
        finding = Finding(invariant, "", None, *proof)
        about = events.about(finding)
        old, new = (", ".join(sorted(sides[side])) or "nothing" for side in ("old", "new"))
        places = " ".join(f"({who}, {seq})" for who, seq in (proof[:2], proof[2:]) if who is not None)
        block = [f"[{about}] {invariant}: {old} -> {new} {places}"]
        blocks.append(block + (list(events.told(about, finding)) if with_events else []))
    return lines + [line for block in sorted(blocks) for line in block]


def _outcome(finding: Finding) -> str:
    return finding.verdict + (f" by {finding.exemption}" if finding.exemption else "")


def _counted(of: tuple[str, int] | None) -> str:
    return "none" if of is None else f"{of[0]} of {of[1]}"


def main(arguments: Iterable[str] | None = None) -> int:
    """Judge and compare; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="recordings, or patterns of names; default: all"
    )
    parser.add_argument(
        "--battery", type=Path, default=battery.HERE, help="folder of recordings/ and expected/"
    )
    parser.add_argument("--events", action="store_true", help="show what happened around each difference")
    parser.add_argument("--most", type=int, default=40, help="lines for each recording (default: 40)")
    parser.add_argument("--accept", action="store_true", help="expect from now on what was found")
    options = parser.parse_args(None if arguments is None else list(arguments))
    differing = 0
    with spark_session() as spark:
        for entry in battery.entries(options.names, options.battery):
            began = time.monotonic()
            try:
                judgement = judged([str(entry.path)], spark, entry.narrowing)
            except Exception as error:  # one recording that fails must not hide what the others show
                print(f"{entry.name}: {type(error).__name__}: {str(error).strip()[:500]}", flush=True)
                differing += 1
                continue
            lines = differences(entry, judgement, with_events=options.events)
            differing += bool(lines)
            state = f"{len(lines)} difference(s)" if lines else f"same {len(judgement.findings)} findings"
            print(f"{entry.name}: {state}, {time.monotonic() - began:.1f} s", flush=True)
            for line in lines[: options.most]:
                print(f"  {line}")
            if len(lines) > options.most:
                print(f"  and {len(lines) - options.most} more lines")
            if options.accept and lines:
                battery.accept(entry, judgement, options.battery)
    print(f"{differing} recording(s) differ" if differing else "no difference")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
