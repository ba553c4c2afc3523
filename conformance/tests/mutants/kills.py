"""Record of the last trials: which case killed which mutant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from aiorocketmq_conformance.verdicts import Verdict

from conformance.tests.mutants.catalogue import MUTANTS
from conformance.tests.mutants.proof import Trial


def read(path: Path) -> dict[str, list[str]]:
    """Return the cases that killed each mutant; empty if there is no file."""
    if not path.exists():
        return {}
    killed_by: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))["killed_by"]
    return killed_by


def record(trials: Iterable[Trial], path: Path) -> None:
    """Write the results of `trials` into the file; removed mutants are dropped."""
    killed_by = read(path)
    for trial in trials:
        killed_by[trial.mutant.name] = sorted(
            result.case.id for result in trial.killers if result.verdict is Verdict.FAIL
        )
    names = {mutant.name for mutant in MUTANTS}
    kept = {name: killed_by[name] for name in sorted(killed_by) if name in names}
    document = {"killed": sum(map(bool, kept.values())), "total": len(kept), "killed_by": kept}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
