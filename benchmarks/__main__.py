"""Measure everything in one run: `python -m benchmarks [--only TEXT] [--part NAME] [--no-write]`.

Writes docs/reference/benchmarks.json (raw) and docs/reference/benchmarks.md (the page); exit 1 if a demand does
not hold.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.page import demands, page, real_demands
from benchmarks.parts import PARTS
from benchmarks.plan import APACHE, CLIENTS, OURS, STUB, WORKS
from benchmarks.real import real_run
from benchmarks.running import QUEUES, ROOT, Effort, Result, computer, measured, serving
from benchmarks.sizes import REPEATS
from tools.peer_environment import PeerUnavailableError, apache_python

REFERENCE = ROOT / "docs" / "reference"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--profile", default="documented")
    parser.add_argument(
        "--only", default="", help="measure works whose title contains this text, keep the rest as published"
    )
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        help="measure this part only, keep the rest as published (may be repeated)",
    )
    parser.add_argument(
        "--real",
        nargs="?",
        const="5.5.0",
        metavar="VERSION",
        help="measure against a real Apache server (default 5.5.0) only, keep the rest as published",
    )
    parser.add_argument("--no-write", action="store_true", help="print the page, write nothing")
    return parser.parse_args()


def pythons() -> dict[str, Path]:
    """Name the interpreter of each client; say so where Apache's cannot be had."""
    known = {STUB: Path(sys.executable), OURS: Path(sys.executable)}
    try:
        known[APACHE] = apache_python()
    except PeerUnavailableError as reason:
        print(f"benchmarks: without Apache's client: {reason}", file=sys.stderr)
    return known


def machine(interpreters: Mapping[str, Path]) -> dict[str, str]:
    """Describe where this runs."""
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("aiorocketmq", "grpcio", "protobuf")
    ]
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": computer(),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": ", ".join(versions),
    }
    if APACHE in interpreters:
        packages = ("rocketmq-python-client", "grpcio", "protobuf")
        ask = f"import importlib.metadata as m; print(*(m.version(n) for n in {packages}))"
        told = subprocess.run([interpreters[APACHE], "-c", ask], check=True, capture_output=True, text=True)
        client, grpcio, protobuf = told.stdout.split()
        facts["Apache's client"] = (
            f"rocketmq-python-client {client} with grpcio {grpcio}, protobuf {protobuf}"
        )
    return facts


def measured_works(
    effort: Effort, only: str, interpreters: Mapping[str, Path]
) -> dict[str, dict[str, list[Result]]]:
    """Run all rounds."""
    results: dict[str, dict[str, list[Result]]] = {work.title: {} for work in WORKS}
    for number in range(effort.rounds):
        with serving(effort.profile) as endpoint:
            for work in WORKS:
                if only not in work.title:
                    continue
                for client in CLIENTS:
                    if client in interpreters:
                        result = measured(work, client, endpoint, effort, interpreters)
                        results[work.title].setdefault(client, []).append(result)
                        print(
                            f"round {number + 1}, {work.title}, {client}: {result['rate']:,.0f}/s, "
                            f"{result['cpu_us']:.0f} µs CPU",
                            flush=True,
                        )
    return results


def main() -> int:
    """Measure, write, judge."""
    options = arguments()
    run: dict[str, Any]
    effort = Effort(options.rounds, options.seconds, options.warm_up, options.profile)
    if options.part:
        run = published()
        for part in options.part:
            run["sizes"].update(PARTS[part]())
        return written(run, options.no_write)
    interpreters = pythons()
    if options.real:
        run = published()
        facts = machine(interpreters)
        run["real"] = real_run(options.real, effort, options.only, interpreters, facts, run.get("real", {}))
        return written(run, options.no_write)
    if options.only:
        run = published()
        results = measured_works(effort, options.only, interpreters)
        run["results"].update({title: each for title, each in results.items() if each})
        return written(run, options.no_write)
    run = {
        "effort": {
            "rounds": effort.rounds,
            "seconds": effort.seconds,
            "warm_up": effort.warm_up,
            "profile": effort.profile,
            "queues": QUEUES,
            "repeats": REPEATS,
        },
        "machine": machine(interpreters),
        "results": measured_works(effort, options.only, interpreters),
        "sizes": {key: values for part in PARTS.values() for key, values in part().items()},
        **{part: values for part, values in published().items() if part == "real"},
    }
    return written(run, options.no_write)


def published() -> dict[str, Any]:
    """Read the run that the page shows."""
    return dict(json.loads(REFERENCE.joinpath("benchmarks.json").read_text(encoding="utf-8")))


def written(run: dict[str, Any], no_write: bool) -> int:
    """Write or print the page of a run, and judge it."""
    if no_write:
        print(page(run))
    else:
        REFERENCE.joinpath("benchmarks.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        REFERENCE.joinpath("benchmarks.md").write_text(page(run), encoding="utf-8")
    broken = [words for words, holds in (*demands(run), *real_demands(run)) if not holds]
    for words in broken:
        print(f"does not hold: {words}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
