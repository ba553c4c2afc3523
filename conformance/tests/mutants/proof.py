"""Trials: every mutant must be killed by the cases that the catalogue names, and every case must kill one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from aiorocketmq_conformance.case import Case, Level, load
from aiorocketmq_conformance.results import CaseResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_conformance.targets.fake import BundledFake
from aiorocketmq_conformance.verdicts import Verdict
from aiorocketmq_fake.core.values.profiles import PROFILES

from conformance.tests.mutants.catalogue import MUTANTS, UNPROVEN
from conformance.tests.mutants.mutant import Mutant


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of one mutant."""

    mutant: Mutant
    killers: tuple[CaseResult, ...]
    """The cases that were to fail."""
    spared: tuple[CaseResult, ...]
    """The cases that were to pass."""

    @property
    def is_killed(self) -> bool:
        """Whether any case killed it."""
        return any(result.verdict is Verdict.FAIL for result in self.killers)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Differences from the catalogue; empty if the mutant was killed."""
        survived = [result for result in self.killers if result.verdict is not Verdict.FAIL]
        hurt = [result for result in self.spared if result.verdict is not Verdict.PASS]
        return (
            *(f"{one.case.id} did not fail: {one.verdict.value} {one.detail}".strip() for one in survived),
            *(f"{one.case.id} did not pass: {one.verdict.value} {one.detail}".strip() for one in hurt),
            *(() if self.killers else ("the catalogue names no case that exists",)),
        )


class BrokenFake(BundledFake):
    """The bundled fake with one defect, which all fakes of this process have meanwhile."""

    def __init__(self, mutant: Mutant, *, driven: bool = False) -> None:
        profile = replace(PROFILES[mutant.profile], **mutant.changes)  # type: ignore[arg-type]  # fields by name
        super().__init__(profile, declaration=DECLARATIONS[f"fake-{mutant.profile}"], driven=driven)
        self.spec = f"mutant:{mutant.name}"
        self._applied = mutant.applied()

    async def __aenter__(self) -> Self:
        self._applied.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._applied.__exit__(kind, error, trace)


def victims(mutant: Mutant) -> list[Case]:
    """Return the cases that must fail on `mutant`."""
    return load().select(mutant.kills)


def unproven() -> dict[str, str]:
    """Return the cases that need not kill a mutant, with the reason on record, "" if there is none."""
    proven = {case.id for mutant in MUTANTS for case in victims(mutant)}
    return {case.id: _reason(case) for case in load().select() if case.id not in proven}


def _reason(case: Case) -> str:
    if case.level is Level.INFORMATIONAL:
        return "is recorded and never judged"
    return UNPROVEN.get(case.id, "")


async def try_mutant(mutant: Mutant) -> Trial:
    """Run the cases that must fail on it, and those that must not."""
    killers = victims(mutant)
    spared = [case for case in load().select(mutant.spares) if case not in killers]
    async with BrokenFake(mutant) as broker:
        results = {one.case.id: one for one in (await Run([*killers, *spared], broker).finish()).results}
    return Trial(
        mutant, tuple(results[case.id] for case in killers), tuple(results[case.id] for case in spared)
    )


async def prove(mutants: Sequence[Mutant], report: Callable[[Trial], None]) -> list[Trial]:
    """Try the mutants one after the other; `report` is called with each trial."""
    trials = []
    for mutant in mutants:
        trials.append(await try_mutant(mutant))
        report(trials[-1])
    return trials
