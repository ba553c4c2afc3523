"""`python -m tools.simulation`: run many worlds, or one with its trace; shrink and print the first that fails."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from aiorocketmq_conformance.explore.shrinking import shrink

from tools.simulation.run import Outcome, run
from tools.simulation.world import World, generate

T = TypeVar("T")

PROGRESS = 500
"""Worlds between two lines of progress."""
SHOWN = 20
"""Lines of what was broken."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run worlds; 0 if all promises were kept, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tools.simulation", description=main.__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many worlds; default %(default)s")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default %(default)s")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; default %(default)s"
    )
    parser.add_argument("--seed", type=int, help="run this world alone")
    parser.add_argument("--items", help="with --seed: its sends and faults that are not left out (s3,f0)")
    parser.add_argument(
        "--trace", action="store_true", help="with --seed: print all that crossed the network"
    )
    given = parser.parse_args(arguments)
    if given.seed is not None:
        world = generate(given.seed)
        if given.items is not None:
            world = world.having(given.items.split(","))
        return show(run(world, is_traced=given.trace))
    failed = many(range(given.first, given.first + given.seeds), given.jobs)
    return 0 if failed is None else show(shrunk(failed))


def many(seeds: range, jobs: int) -> World | None:
    """Run the worlds of seeds until one breaks a promise; return that one."""
    started, messages = time.monotonic(), 0
    with ProcessPoolExecutor(jobs) as pool:
        for count, outcome in enumerate(pool.map(_run_seed, seeds, chunksize=4), start=1):
            messages += outcome.messages
            if outcome.broken:
                pool.shutdown(cancel_futures=True)
                print(
                    f"seed {outcome.world.seed} has failed: {outcome.lines[0]}; leaving out what it does not need"
                )
                return outcome.world
            if count % PROGRESS == 0 or count == len(seeds):
                rate = count * 60 / (time.monotonic() - started)
                print(
                    f"{count} worlds with {messages} messages kept all promises, {rate:.0f} a minute",
                    flush=True,
                )
    return None


def _run_seed(seed: int) -> Outcome:
    return run(generate(seed))


def shrunk(world: World) -> Outcome:
    """Leave sends and faults out as long as one of the broken promises still is; return the last such outcome."""
    best = run(world)
    rules = best.rules

    async def fails(places: Sequence[int]) -> bool:
        nonlocal best
        outcome = run(world.having({world.items[place] for place in places}))
        if outcome.rules & rules:
            best = outcome
        return bool(outcome.rules & rules)

    _finished(shrink(range(len(world.items)), fails))
    return best


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits: the worlds that it runs have event loops of their own."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waited")


def show(outcome: Outcome) -> int:
    """Print a world and what became of it; return the exit code."""
    world = outcome.world
    print("\n".join(outcome.trace))
    print("\n".join(outcome.history))
    for each in (*world.topics, *world.groups, *world.producers, *world.consumers, *world.faults):
        print(each)
    print(
        f"seed {world.seed} ({world.profile}, brokers: {world.brokers}, {'disk' if world.has_disk else 'memory'}): "
        f"{outcome.messages} messages, {outcome.calls} calls, {outcome.elapsed:.0f} s, digest {outcome.digest:08x}"
    )
    for line in outcome.lines[:SHOWN]:
        print(f"  {line}")
    if outcome.broken:
        is_whole = world == generate(world.seed)
        items = "" if is_whole else f" --items {','.join(world.items)}"
        print(f"replay: nox -s simulation -- --seed {world.seed}{items} --trace")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
