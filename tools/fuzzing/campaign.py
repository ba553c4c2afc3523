"""Many worlds one after the other, so that none grows large: a failure names the world that it happened in."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.profile import Profile

from tools.fuzzing.world import Broken, World

__all__ = ["campaign", "session"]

# Calls to one broker: enough for retries and dead letters, few enough to keep its state small.
LENGTH = 400


async def session(
    profile: Profile, rng: random.Random, calls: int, core: Callable[..., Broker] = Broker
) -> Counter[tuple[str, str]]:
    """Make so many calls to a fresh broker; returns its answers. Broken where a promise does not hold."""
    world = World(profile, rng, core)
    for _ in range(calls):
        await world.step()
    await world.end()
    return world.codes


def campaign(
    profile: Profile, requests: int, seed: int, core: Callable[..., Broker] = Broker
) -> Counter[tuple[str, str]]:
    """Make so many calls in all; returns the answers by method and code. Broken, with its seed, as above.

    `core` makes the core, for brokers that are broken on purpose.
    """
    codes: Counter[tuple[str, str]] = Counter()

    async def run() -> None:
        for number in range(-(-requests // LENGTH)):
            try:
                codes.update(await session(profile, random.Random(f"{seed}/{number}"), LENGTH, core))
            except Broken as broken:
                raise Broken(f"world {seed}/{number}: {broken}") from broken

    asyncio.run(run())
    return codes
