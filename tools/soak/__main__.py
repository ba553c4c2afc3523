"""`python -m tools.soak`: run a soak, print its verdict, write `OUT/soak.json`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from pathlib import Path

from aiorocketmq_fake.core.values.profiles import PROFILES

from tools.soak.run import Plan, Soaked, soak


def main(arguments: list[str] | None = None) -> int:
    """Run one soak; 0 when everything was kept, 1 when something was broken, 3 without a verdict of the audit."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=usual.minutes, help="default %(default)s")
    parser.add_argument(
        "--seed", type=int, default=usual.seed, help="of load and faults; default %(default)s"
    )
    parser.add_argument(
        "--rate", type=float, default=usual.rate, help="messages a second; default %(default)s"
    )
    parser.add_argument(
        "--pause",
        type=float,
        help=f"seconds between faults, 0 for none; default {usual.pause:g}, or none with --garble",
    )
    parser.add_argument(
        "--garble",
        type=float,
        default=usual.garble,
        metavar="RATE",
        help="part of all answers that a stand-in before the broker damages, 0 to 1; default %(default)g",
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), default=usual.profile)
    parser.add_argument("--no-audit", action="store_true", help="leave Spark out")
    parser.add_argument("--out", type=Path, default=Path("soak"), help="folder; default ./%(default)s")
    given = parser.parse_args(arguments)
    if not 0.0 <= given.garble <= 1.0:
        parser.error(f"--garble must be 0 to 1, got {given.garble:g}")
    given.out.mkdir(parents=True, exist_ok=True)
    if any(given.out.glob("recording/*")):
        parser.error(f"{given.out}/recording holds a recording already; give another --out")
    logging.basicConfig(filename=given.out / "soak.log", level=logging.INFO)
    pause = usual.pause if given.pause is None and not given.garble else given.pause
    plan = Plan(
        minutes=given.minutes,
        seed=given.seed,
        rate=given.rate,
        pause=pause or None,
        garble=given.garble,
        profile=given.profile,
        audited=not given.no_audit,
    )
    result = asyncio.run(soak(plan, given.out))
    (given.out / "soak.json").write_text(json.dumps(result.as_json(), indent=2) + "\n", encoding="utf-8")
    print("\n".join(_lines(result)))
    return result.exit_code


def _lines(result: Soaked) -> list[str]:
    balance = result.balance
    return [
        f"{result.seconds:.0f} s, seed {result.plan.seed}, {sum(result.faults.values())} faults: "
        + ", ".join(f"{count} {kind}" for kind, count in result.faults.items()),
        f"{balance.promised} messages promised, {balance.handled} handlings, {balance.buried} dead letters read, "
        f"{sum(balance.repeated.values())} repeated: "
        + (", ".join(f"{count} {reason}" for reason, count in balance.repeated.items()) or "none"),
        f"lost {len(balance.lost)}, unexplained {len(balance.unexplained)}, withdrawn {len(balance.withdrawn)}",
        "errors seen by applications: "
        + (", ".join(f"{count} {kind}" for kind, count in result.errors.items()) or "none"),
        *_garbled(result),
        *(f"surprise: {surprise}" for surprise in result.surprises),
        f"tasks {result.tasks[0]} -> {result.tasks[1]}, "
        f"memory {result.megabytes[0]:.0f} -> {result.megabytes[1]:.0f} MB",
        *(f"audit, {name}: {verdict} ({words})" for name, verdict, words in result.audit_checks),
        closing_line(result),
    ]


def closing_line(result: Soaked) -> str:
    """Return whether everything was kept, and what the audit could not decide."""
    if result.exit_code:
        return "NOT KEPT" if result.exit_code == 1 else "no verdict"
    return "kept" + (f"; the audit leaves open: {', '.join(result.left_open)}" if result.left_open else "")


def _garbled(result: Soaked) -> list[str]:
    if not result.plan.garble:
        return []
    passed = sum(count for count, _ in result.answers.values())
    return [
        f"{sum(result.damages.values())} of {passed} answers garbled: "
        + ", ".join(f"{count} {kind}" for kind, count in result.damages.items()),
        *(f"  {rpc}: {garbled} of {count}" for rpc, (count, garbled) in result.answers.items()),
        "visits of guests: "
        + ", ".join(
            f"{succeeded} {kind} ({failed} failed)" for kind, (succeeded, failed) in result.visits.items()
        ),
        f"{len(result.phases)} degraded phases"
        + (f", the longest of {max(lasted):.1f} s" if (lasted := _seconds(result)) else ""),
        "longest wait between two successes: "
        + ", ".join(f"{seconds:.1f} s ({work})" for work, seconds in result.longest_waits.items()),
    ]


def _seconds(result: Soaked) -> list[float]:
    return [phase.seconds for phase in result.phases if phase.seconds is not None]


if __name__ == "__main__":
    sys.exit(main())
