"""One soak from its begin to its verdict."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from aiorocketmq import Recorder
from aiorocketmq_fake import FakeBroker

from aiorocketmq_conformance.demo.audit import AuditFailed, audit, is_installed
from aiorocketmq_conformance.soak.faults import strike_for_ever
from aiorocketmq_conformance.soak.ledger import Balance, Ledger
from aiorocketmq_conformance.soak.load import GROUPS, Load, prepare

DRAIN = 150.0
"""Seconds that everything may take to arrive after the last fault: transactions are asked about once a minute."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak is to be."""

    minutes: float = 30.0
    seed: int = 1
    rate: float = 60.0
    """Messages a second."""
    pause: float = 3.0
    """Seconds between two faults, about."""
    profile: str = "documented"
    transactions: bool = True
    audited: bool = True


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of it."""

    plan: Plan
    seconds: float
    balance: Balance
    faults: dict[str, int]
    errors: dict[str, int]
    """What applications saw, by class of error."""
    surprises: tuple[str, ...]
    tasks: tuple[int, int]
    """Tasks of the process after the first tenth, and at the end of the load."""
    megabytes: tuple[float, float]
    """Memory of the process, likewise: broker, recorders and clients together."""
    audit_verdict: str | None = None
    audit_checks: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0: everything kept; 1: something broken; 3: no verdict of the audit."""
        if not self.balance.is_kept or self.surprises or self.audit_verdict == "invalid":
            return 1
        return 3 if self.plan.audited and self.audit_verdict != "valid" else 0

    def as_json(self) -> dict[str, object]:
        """All of it."""
        return asdict(self) | {"kept": self.balance.is_kept, "exit_code": self.exit_code}


async def soak(plan: Plan, out: Path) -> Soaked:
    """Run it, record it in `out/recording`, audit it into `out/audit`."""
    rng = Random(plan.seed)
    recording = out / "recording"
    ledger, told = Ledger(GROUPS), Counter[str]()
    began = time.monotonic()
    with Recorder(recording) as recorder:
        async with FakeBroker(profile=plan.profile, seed=plan.seed, record=recording) as broker:
            await prepare(broker)
            with broker.events.listen(ledger.watch):
                load = Load(
                    broker.endpoint,
                    ledger,
                    rng,
                    (recorder,),
                    rate=plan.rate,
                    transactions=plan.transactions,
                )
                async with load:
                    before, after = await _strike(broker, rng, told, plan)
                    broker.faults.clear()
                    await load.drain(DRAIN)
    verdict, checks = await _audited(recording, out / "audit") if plan.audited else (None, ())
    return Soaked(
        plan=plan,
        seconds=time.monotonic() - began,
        balance=ledger.balance(),
        faults=dict(sorted(told.items())),
        errors=dict(sorted(load.errors.items())),
        surprises=tuple(load.surprises),
        tasks=(before[0], after[0]),
        megabytes=(before[1], after[1]),
        audit_verdict=verdict,
        audit_checks=checks,
    )


async def _strike(
    broker: FakeBroker, rng: Random, told: Counter[str], plan: Plan
) -> tuple[tuple[int, float], tuple[int, float]]:
    striking = asyncio.get_running_loop().create_task(strike_for_ever(broker, rng, told, pause=plan.pause))
    try:
        await asyncio.sleep(plan.minutes * 6)
        before = _size()
        await asyncio.sleep(plan.minutes * 54)
        return before, _size()
    finally:
        striking.cancel()
        await asyncio.wait([striking])


def _size() -> tuple[int, float]:
    """Tasks and megabytes of this process now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        return len(asyncio.all_tasks()), pages * resource.getpagesize() / 1e6
    return len(asyncio.all_tasks()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


async def _audited(recording: Path, out: Path) -> tuple[str | None, tuple[tuple[str, str, str], ...]]:
    if not is_installed():
        return None, (("audit", "unknown", "Spark is not installed"),)
    try:
        audited = await audit(recording, out)
    except AuditFailed as failure:
        return None, (("audit", "unknown", str(failure)),)
    return audited.verdict, audited.checks
