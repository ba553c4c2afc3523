"""What strikes during a soak: one seeded stream of faults, from a single refused call to a killed broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from aiorocketmq_fake import FakeBroker

UNARY = (
    *("QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "AckMessage", "ChangeInvisibleDuration"),
    *("UpdateOffset", "GetOffset", "EndTransaction"),
)
STREAMS = ("ReceiveMessage", "PullMessage", "Telemetry")
CODES = ("INTERNAL_SERVER_ERROR", "TOO_MANY_REQUESTS", "PROXY_TIMEOUT")
LASTS = 5.0
"""Seconds after which a rule that was not used up is taken back, so that a quiet call collects none."""

Strike = Callable[[FakeBroker, Random], Awaitable[str]]


async def refuse(broker: FakeBroker, rng: Random) -> str:
    """Answer a few calls with an error."""
    rpc = rng.choice((*UNARY, "ReceiveMessage", "PullMessage"))
    broker.faults.refuse(rpc, rng.choice(CODES), times=rng.randint(1, 5))
    return f"refuse {rpc}"


async def fail(broker: FakeBroker, rng: Random) -> str:
    """End a few calls as a broken connection does, before anything is done."""
    rpc = rng.choice((*UNARY, "ReceiveMessage", "PullMessage"))
    broker.faults.fail(rpc, times=rng.randint(1, 5))
    return f"fail {rpc}"


async def delay(broker: FakeBroker, rng: Random) -> str:
    """Let a few calls wait, some of them for longer than the client does."""
    rpc = rng.choice(UNARY)
    broker.faults.delay(rpc, rng.uniform(0.1, 5.0), times=rng.randint(1, 5))
    return f"delay {rpc}"


async def lose(broker: FakeBroker, rng: Random) -> str:
    """Do what was asked and lose the answer, at once or by silence."""
    rpc = rng.choice((*UNARY, "ReceiveMessage"))
    broker.faults.drop_reply(rpc, hang=rng.random() < 0.3, times=rng.randint(1, 3))
    return f"lose the answer of {rpc}"


async def repeat(broker: FakeBroker, rng: Random) -> str:
    """Do a few calls twice, as a network does that repeats them."""
    rpc = rng.choice(("SendMessage", "AckMessage", "UpdateOffset", "Heartbeat"))
    broker.faults.duplicate(rpc, times=rng.randint(1, 3))
    return f"repeat {rpc}"


async def cut(broker: FakeBroker, rng: Random) -> str:
    """Break answering streams off in the middle."""
    rpc = rng.choice(STREAMS)
    broker.faults.cut_stream(rpc, frames=rng.randint(0, 3), times=rng.randint(1, 3))
    return f"cut {rpc}"


async def cut_all(broker: FakeBroker, rng: Random) -> str:
    """Break every settings stream."""
    broker.cut_streams()
    return "cut all settings streams"


async def ask_to_reconnect(broker: FakeBroker, rng: Random) -> str:
    """Ask one client to connect anew, as a server does before it is drained."""
    clients = broker.clients()
    if clients:
        await broker.reconnect_endpoints(rng.choice(clients).client_id)
    return "ask a client to reconnect"


async def restart(broker: FakeBroker, rng: Random) -> str:
    """Stop and start the broker in an orderly way."""
    await broker.restart()
    return "restart"


async def crash(broker: FakeBroker, rng: Random) -> str:
    """Kill the broker and start it again after a while."""
    await broker.crash()
    await asyncio.sleep(rng.uniform(0.0, 2.0))
    await broker.start()
    return "crash"


STRIKES: tuple[tuple[Strike, int], ...] = (
    (refuse, 6),
    (fail, 4),
    (delay, 4),
    (lose, 5),
    (repeat, 3),
    (cut, 4),
    (cut_all, 2),
    (ask_to_reconnect, 2),
    (restart, 2),
    (crash, 2),
)
"""Each with its weight."""


async def strike_for_ever(broker: FakeBroker, rng: Random, told: Counter[str], *, pause: float) -> None:
    """Let something happen about every `pause` seconds, until cancelled; never leaves the broker stopped."""
    kinds, weights = zip(*STRIKES, strict=True)
    while True:
        await asyncio.sleep(rng.uniform(0.5, 1.5) * pause)
        (strike,) = rng.choices(kinds, weights)
        working = asyncio.get_running_loop().create_task(strike(broker, rng))
        try:
            told[(await asyncio.shield(working)).partition(" ")[0]] += 1
        finally:
            await asyncio.wait([working])
        if strike not in (restart, crash):
            asyncio.get_running_loop().call_later(LASTS, broker.faults.clear)
