"""What the last trials found, kept in a file: which case killed which mutant."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from aiorocketmq_conformance.verdicts import Verdict

from conformance.tests.mutants.catalogue import MUTANTS
from conformance.tests.mutants.proof import Trial


def read(path: Path) -> dict[str, list[str]]:
    """The cases that killed each mutant; empty where there is no such file."""
    if not path.exists():
        return {}
    killed_by: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))["killed_by"]
    return killed_by


def record(trials: Iterable[Trial], path: Path) -> None:
    """Put what `trials` found into the file; mutants that are gone are dropped from it."""
    killed_by = read(path)
    for trial in trials:
        killed_by[trial.mutant.name] = sorted(
            result.case.id for result in trial.killers if result.verdict is Verdict.FAIL
        )
    names = {mutant.name for mutant in MUTANTS}
    kept = {name: killed_by[name] for name in sorted(killed_by) if name in names}
    document = {"killed": sum(map(bool, kept.values())), "total": len(kept), "killed_by": kept}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
