"""`python -m conformance.tests.mutants [--record FILE] [NAME...]`: prove that the cases can fail."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from conformance.tests.mutants.catalogue import MUTANTS
from conformance.tests.mutants.kills import record
from conformance.tests.mutants.proof import Trial, prove, unproven


def main(arguments: list[str]) -> int:
    """Try the named mutants, or all; print one line for each, and how many of them were killed at the end.

    With `--record FILE` the killing cases are recorded there; records of mutants not tried now are kept.
    """
    kept = Path(arguments.pop(1)) if arguments[:1] == ["--record"] and len(arguments) > 1 else None
    names = arguments[1:] if kept else arguments
    unknown = set(names) - {mutant.name for mutant in MUTANTS}
    if unknown:
        print(f"no mutant is named {', '.join(sorted(unknown))}: see mutants/catalogue.py", file=sys.stderr)
        return 2
    # What a broken core does to the edge is expected here, and would bury the result.
    logging.disable(logging.CRITICAL)
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    trials = asyncio.run(prove(chosen, _report))
    unreasoned = [] if names else [case for case, reason in unproven().items() if not reason]
    for case in unreasoned:
        print(f"FAIL  {case}: no mutant shows that it can fail, and no reason is on record")
    if kept is not None:
        record(trials, kept)
    failed = sum(bool(trial.complaints) for trial in trials) + len(unreasoned)
    killed = sum(trial.is_killed for trial in trials)
    print(f"{killed}/{len(trials)} mutants killed")
    print(f"{len(trials) + len(unreasoned) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _report(trial: Trial) -> None:
    killers = ", ".join(result.case.id for result in trial.killers)
    mark = "FAIL" if trial.complaints else "ok  "
    print(f"{mark}  {trial.mutant.name}: {trial.mutant.defect}; killed by {killers}")
    for complaint in trial.complaints:
        print(f"      {complaint}")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
