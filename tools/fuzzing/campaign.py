"""Many worlds one after the other, so that none grows large: a failure names the world that it happened in."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.profile import Profile

from tools.fuzzing.control import control_session
from tools.fuzzing.world import Broken, World

__all__ = ["campaign", "control_campaign", "session"]

# Calls to one broker: enough for retries and dead letters, few enough to keep its state small.
LENGTH = 400


async def session(
    profile: Profile,
    rng: random.Random,
    calls: int,
    core: Callable[..., Broker] = Broker,
    *,
    users: bool = False,
) -> Counter[tuple[str, str]]:
    """Make so many calls to a fresh broker; returns its answers. Broken where a promise does not hold."""
    world = World(profile, rng, core, users=users)
    for _ in range(calls):
        await world.step()
    await world.end()
    return world.codes


def control_campaign(profile: Profile, requests: int, seed: int) -> Counter[tuple[str, str]]:
    """Make so many calls in all to control services; otherwise as `campaign`."""
    codes: Counter[tuple[str, str]] = Counter()

    async def run() -> None:
        for number in range(-(-requests // LENGTH)):
            try:
                codes.update(await control_session(profile, random.Random(f"{seed}/{number}"), LENGTH))
            except Broken as broken:
                raise Broken(f"world {seed}/{number}: {broken}") from broken

    asyncio.run(run())
    return codes


def campaign(
    profile: Profile,
    requests: int,
    seed: int,
    core: Callable[..., Broker] = Broker,
    *,
    users: bool = False,
) -> Counter[tuple[str, str]]:
    """Make so many calls in all; returns the answers by method and code. Broken, with its seed, as above.

    `core` makes the core, for brokers that are broken on purpose. With `users` the brokers ask who calls.
    """
    codes: Counter[tuple[str, str]] = Counter()

    async def run() -> None:
        for number in range(-(-requests // LENGTH)):
            try:
                codes.update(
                    await session(profile, random.Random(f"{seed}/{number}"), LENGTH, core, users=users)
                )
            except Broken as broken:
                raise Broken(f"world {seed}/{number}: {broken}") from broken

    asyncio.run(run())
    return codes
