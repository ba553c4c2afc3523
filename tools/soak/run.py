"""One soak from its begin to its verdict."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import ChainMap, Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from aiorocketmq import Recorder
from aiorocketmq_conformance.demo.audit import AuditFailedError, audit, is_installed
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.profiles import PROFILES

from tools.soak.faults import strike_for_ever
from tools.soak.garbling import Garbling, stand_in
from tools.soak.guests import Guests
from tools.soak.health import LONGEST, Degraded, HealthWatch, listening
from tools.soak.ledger import Balance, Ledger
from tools.soak.load import GROUPS, Load, prepare

LEFT_OPEN = frozenset({"double delivery"})
"""Checks of the audit that damaged answers may leave undecided. A message whose send was answered by garbage is stored
twice; if the first delivery of one copy is damaged too, its redelivery after the lease looks like one after the ack of
the other copy. The soak's own books do not depend on it: they have the reason of each repetition from the broker."""
DRAIN = 150.0
"""Seconds that everything may take to arrive after the last fault: transactions are asked about once a minute."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak is to be."""

    minutes: float = 30.0
    seed: int = 1
    rate: float = 60.0
    """Messages a second."""
    pause: float | None = 3.0
    """Seconds between two faults, about; None for no faults."""
    garble: float = 0.0
    """Part of all answers that a stand-in before the broker damages, 0 to 1; with 0 there is no stand-in."""
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
    visits: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Visits of guests that succeeded and that failed, by kind."""
    answers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Answers that came through the stand-in and those it damaged, by RPC."""
    damages: dict[str, int] = field(default_factory=dict)
    """The latter by kind of damage."""
    longest_waits: dict[str, float] = field(default_factory=dict)
    """Seconds between two successes of one kind, at most."""
    phases: tuple[Degraded, ...] = ()
    """Degraded phases of the clients."""
    logged: dict[str, int] = field(default_factory=dict)
    """Warnings and errors in the library's log, without their values."""
    audit_verdict: str | None = None
    audit_checks: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """0: everything kept; 1: something broken; 3: no verdict of the audit."""
        if not self.balance.is_kept or self.surprises or self.audit_verdict == "invalid":
            return 1
        decided = not self.plan.audited or self.audit_verdict == "valid" or self.left_open
        return 0 if decided else 3

    @property
    def left_open(self) -> tuple[str, ...]:
        """The checks that the audit could not decide, if damaged answers explain all of them."""
        if not self.plan.garble or self.audit_verdict != "unknown":
            return ()
        undecided = tuple(name for name, verdict, _ in self.audit_checks if verdict == "unknown")
        return undecided if LEFT_OPEN.issuperset(undecided) else ()

    def as_json(self) -> dict[str, object]:
        """All of it."""
        return asdict(self) | {"kept": self.balance.is_kept, "exit_code": self.exit_code}


async def soak(plan: Plan, out: Path) -> Soaked:
    """Run it, record it in `out/recording`, audit it into `out/audit`."""
    rng = Random(plan.seed)
    recording = out / "recording"
    profile = PROFILES[plan.profile]
    pulling = "PullMessage" in profile.served_rpcs
    lite = profile.lite_service is LiteService.SERVED
    groups = {
        topic: tuple(group for group in groups if pulling or group != "pull")
        for topic, groups in GROUPS.items()
    }
    ledger, told, watch = Ledger(groups), Counter[str](), HealthWatch()
    garbling = Garbling(plan.garble, Random(plan.seed))
    ended: list[str] = []
    began = time.monotonic()
    with Recorder(recording) as recorder, listening(watch):
        async with _serving(plan, recording, garbling) as (broker, endpoint):
            with broker.events.listen(ledger.watch):
                load = Load(
                    endpoint,
                    ledger,
                    rng,
                    (recorder,),
                    rate=plan.rate,
                    transactions=plan.transactions,
                    pulling=pulling,
                    recalling=profile.recall_enabled,
                    lite=lite,
                )
                guests = Guests(endpoint, ledger, Random(plan.seed), (recorder,), pulling=pulling, lite=lite)
                watching = watch.watch(ChainMap(load.clients, guests.clients))
                async with load, background("the health watch", watching, ended):
                    visits = guests.come_and_go() if plan.garble else _nothing()
                    strikes = (
                        _nothing()
                        if plan.pause is None
                        else strike_for_ever(broker, rng, told, pause=plan.pause)
                    )
                    async with (
                        background("the guests", visits, ended),
                        background("the faults", strikes, ended),
                    ):
                        before, after = await _measure(plan.minutes)
                    broker.faults.clear()
                    garbling.rate = 0.0
                    await load.drain(DRAIN)
        watch.close_phases()
    verdict, checks = await _audited(recording, out / "audit") if plan.audited else (None, ())
    return Soaked(
        plan=plan,
        seconds=time.monotonic() - began,
        balance=ledger.balance(),
        faults=dict(sorted(told.items())),
        errors=dict(sorted((load.errors + guests.errors.counts).items())),
        surprises=(
            *load.surprises,
            *guests.surprises,
            *ended,
            *watch.failed_tasks,
            *_too_long(plan, ledger, watch),
        ),
        tasks=(before[0], after[0]),
        megabytes=(before[1], after[1]),
        visits={
            kind: (guests.succeeded[kind], guests.failed[kind])
            for kind in sorted(guests.succeeded | guests.failed)
        },
        answers={rpc: (count, garbling.garbled[rpc]) for rpc, count in sorted(garbling.answers.items())},
        damages=dict(sorted(garbling.kinds.items())),
        longest_waits=dict(sorted(ledger.longest_waits.items())),
        phases=tuple(watch.phases),
        logged=dict(watch.logged.most_common()),
        audit_verdict=verdict,
        audit_checks=checks,
    )


@asynccontextmanager
async def _serving(plan: Plan, recording: Path, garbling: Garbling) -> AsyncIterator[tuple[FakeBroker, str]]:
    """A broker that has topics and groups, and where clients connect."""
    async with FakeBroker(profile=plan.profile, seed=plan.seed, record=recording) as broker:
        await prepare(broker)
        if plan.garble:
            async with stand_in(broker.endpoint, garbling) as endpoint:
                yield broker, endpoint
        else:
            yield broker, broker.endpoint


@asynccontextmanager
async def background(name: str, work: Coroutine[None, None, None], ended: list[str]) -> AsyncIterator[None]:
    """Let endless `work` run beside a block, and cancel it at the end; add to `ended` if it has ended by itself."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            ended.append(f"{name} ended by {task.exception()!r}")


async def _nothing() -> None:
    await asyncio.Event().wait()


def _too_long(plan: Plan, ledger: Ledger, watch: HealthWatch) -> list[str]:
    """What took longer than it may where answers are garbled and the server is never away."""
    if not plan.garble:
        return []
    waits = [
        f"nothing was done for {seconds:.1f} s: {work}"
        for work, seconds in ledger.longest_waits.items()
        if seconds > LONGEST and plan.pause is None
    ]
    return [*waits, *(str(phase) for phase in watch.phases if not phase.is_allowed)]


async def _measure(minutes: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return tasks and megabytes after the first tenth of `minutes`, and at their end."""
    await asyncio.sleep(minutes * 6)
    before = _size()
    await asyncio.sleep(minutes * 54)
    return before, _size()


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
    except AuditFailedError as failure:
        return None, (("audit", "unknown", str(failure)),)
    return audited.verdict, audited.checks
