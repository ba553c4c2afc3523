"""Fuzz by hand: `python -m tools.fuzzing [--requests N] [--seed S] [--profile NAME]`; exit 1 where a promise broke."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from aiorocketmq_fake.core.values.profiles import PROFILES

from tools.fuzzing.campaign import campaign, control_campaign
from tools.fuzzing.world import Broken


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzzing", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument(
        "--seed", type=int, default=None, help="repeats a run; by default another one each time"
    )
    parser.add_argument("--profile", choices=sorted(PROFILES), action="append", help="by default all of them")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else time.time_ns() % 1_000_000_000
    profiles = [PROFILES[name] for name in given.profile or sorted(PROFILES)]
    share = given.requests // len(profiles)
    rounds: list[tuple[str, Callable[[], Counter[tuple[str, str]]]]] = []
    for profile in profiles:
        rounds += [
            (profile.name, partial(campaign, profile, share, seed)),
            (f"{profile.name} with users", partial(campaign, profile, share // 10, seed, users=True)),
            (f"{profile.name}, control service", partial(control_campaign, profile, share // 10, seed)),
        ]
    for what, run in rounds:
        began = time.perf_counter()
        try:
            codes = run()
        except Broken as broken:
            print(f"{what}, seed {seed}: {broken}", file=sys.stderr)
            return 1
        print(f"{what}, seed {seed}: {codes.total()} answers in {time.perf_counter() - began:.1f} s")
        for (method, code), count in sorted(codes.items()):
            print(f"  {method:32} {code:38} {count}")
    return 0


sys.exit(main())
