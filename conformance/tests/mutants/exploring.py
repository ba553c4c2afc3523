"""How many of the mutants the explorer finds: `python -m conformance.tests.mutants.exploring --sample 60`."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aiorocketmq_conformance.explore.exploration import Explorer
from aiorocketmq_conformance.probe.clock import SettlingLoop

from conformance.tests.mutants.catalogue import MUTANTS
from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.proof import BrokenFake

ELSEWHERE = frozenset({"access", "edges", "limits", "lite", "members", "namespaces", "pull", "unknown_names"})
"""Files of mutants whose subject no history contains, such as rights, limits of requests, and lite topics."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The exploration of one mutant."""

    mutant: str
    subject: str
    defect: str
    rules: tuple[str, ...]
    """The rules that were violated; empty if it survived."""
    histories: int
    calls: int
    seconds: float


async def explored(mutant: Mutant, seed: int, *, seconds: float, histories: int | None = None) -> Trial:
    """Explore one mutant until it is found, or time is up."""
    started = time.monotonic()
    async with BrokenFake(mutant, driven=True) as broker:
        result = await Explorer(broker, seed).explore(seconds=seconds, histories=histories)
    rules = tuple(sorted(result.failure.rules)) if result.failure is not None else ()
    taken = round(time.monotonic() - started, 2)
    return Trial(
        mutant.name, mutant.subject, mutant.defect, rules, result.histories, result.operations, taken
    )


def in_scope(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants whose subject histories contain."""
    return [mutant for mutant in mutants if mutant.subject not in ELSEWHERE]


async def _explore(mutants: Sequence[Mutant], seed: int, seconds: float) -> list[Trial]:
    trials = []
    for mutant in mutants:
        trial = await explored(mutant, seed, seconds=seconds)
        trials.append(trial)
        print(f"{trial.mutant:32} {', '.join(trial.rules) or 'survived':40} {trial.histories:4} {trial.seconds:6.1f} s"
              f"  {trial.defect}", flush=True)  # fmt: skip
    detected = sum(bool(trial.rules) for trial in trials)
    print(f"{detected} of {len(trials)} found")
    return trials


def main() -> None:
    """Explore a sample and print each result; `--json` writes them to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N parts of the sample")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    scope = in_scope(MUTANTS)
    sample = random.Random(options.seed).sample(scope, k=min(options.sample, len(scope)))
    part, parts = map(int, options.part.split("/"))
    with asyncio.Runner(loop_factory=SettlingLoop) as runner:
        trials = runner.run(_explore(sample[part::parts], options.seed, options.seconds))
    if options.json is not None:
        options.json.write_text(
            json.dumps([asdict(trial) for trial in trials], indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
