"""Judge a sample of machine-made mutants: `python -m tools.mutation --package fake --sample 40 --seed 1`.

Prints one line for each mutant and the survivors as diffs. `--json FILE` keeps the results after each mutant, and a
run goes on where one with the same file ended. `--again` judges the survivors in it once more, longer, and with all
modules imported anew. The exit code is 0, however many survive: a sample is a measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutation.coverage_map import ROOT, SOURCES, STORED, SUITES, CoverageMap
from tools.mutation.mutants import Mutant, files_of, mutants_of
from tools.mutation.results import is_found, summary
from tools.mutation.trials import Copy, Effort, Judge, sample_of

FOLDERS = {"fake": "fake_broker/", "sdk": "sdk/"}
EFFORTS = {"quick": Effort(150, 300, 10, in_place=True), "whole": Effort(600, 300, 60, in_place=False)}


def main() -> int:
    """Judge the sample, or one part of it, and print what was found."""
    given = _parser().parse_args()
    if not given.map.exists():
        print(f"{given.map} is missing: run python -m tools.mutation.coverage_map first", file=sys.stderr)
        return 2
    covered = CoverageMap.read(given.map)
    files = given.files or _files(given.package)
    changed = [each for each in files if (ROOT / each).stat().st_mtime > given.map.stat().st_mtime]
    if changed:
        print(
            f"changed after coverage was measured, so that all who execute a file are asked: {', '.join(changed)}"
        )
    found: dict[str, dict[str, Any]] = {}
    # The trials are in another folder.
    kept = given.json.absolute() if given.json else None
    if kept and kept.exists():
        found = {each["name"]: each for each in json.loads(kept.read_text("utf-8"))}
    everything, skipped = _all_of(files)
    print(f"{len(everything)} mutants of {given.package}; not mutated: {dict(skipped)}", flush=True)
    part, parts = map(int, given.part.split("/"))
    if given.again:
        chosen = [each for each in everything if each.name in found and not is_found(found[each.name])]
    elif given.names:
        chosen = [each for each in everything if each.name in given.names]
    else:
        chosen = [each for each in sample_of(everything, given.sample, given.seed) if each.name not in found]
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(covered, Copy(Path(folder) / "copy"), EFFORTS["whole" if given.again else "quick"])

        def work() -> None:
            for control in sample_of(everything, given.controls, given.seed + 1):
                verdict = judge.judge(None, _asked(covered, control, given.package, False))
                print(f"control, as for {control.name}: {asdict(verdict)}", flush=True)
            for mutant in chosen[part::parts]:
                verdict = judge.judge(mutant, _asked(covered, mutant, given.package, mutant.file in changed))
                result = {
                    "name": mutant.name, "line": mutant.first, "audience": mutant.audience, **asdict(verdict),
                }  # fmt: skip
                if not is_found(result):
                    result["diff"] = mutant.diff()
                found[mutant.name] = result
                objection = verdict.suite or verdict.test or "SURVIVED"
                print(f"{objection:60} {verdict.seconds:6.1f} s  {mutant.name}", flush=True)
                if kept:
                    kept.write_text(json.dumps(list(found.values()), indent=1) + "\n", "utf-8")

        judge.collect([suite for suite in SUITES if given.package == "fake" or suite.startswith("sdk")], work)
        os.chdir(ROOT)
    for each in found.values():
        if not is_found(each):
            print(f"\n{each['name'].split(':')[0]}:{each['line']} {each['name']}\n{each['diff']}")
    print("\n".join(summary(list(found.values()))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s mutation --", description=__doc__)
    parser.add_argument("--package", choices=tuple(FOLDERS), default="fake")
    parser.add_argument("--sample", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--files", nargs="+", metavar="FILE", help="only of these, as paths below the checkout"
    )
    parser.add_argument("--names", nargs="+", metavar="NAME", help="these mutants instead of a sample")
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N parts, to run beside the others")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results are kept")
    parser.add_argument("--again", action="store_true", help="judge the survivors in FILE once more")
    parser.add_argument("--controls", type=int, default=0, metavar="N", help="trials without a mutant first")
    parser.add_argument(
        "--map", type=Path, default=STORED, help="what tools.mutation.coverage_map has measured"
    )
    return parser


def _all_of(files: Iterable[str]) -> tuple[list[Mutant], Counter[str]]:
    mutants: list[Mutant] = []
    skipped: Counter[str] = Counter()
    for file in files:
        some, left_out = mutants_of(file)
        mutants += some
        skipped += left_out
    return mutants, skipped


def _files(package: str) -> list[str]:
    return list(files_of([source for source in SOURCES if source.startswith(FOLDERS[package])]))


def _asked(covered: CoverageMap, mutant: Mutant, package: str, is_changed: bool) -> set[str]:
    """Return who is asked: who executes the mutant's lines.

    Who executes any line of its file if these are executed at import, or if the file has changed since.
    """
    lines = range(mutant.first, mutant.last + 1)
    ids = covered.of_file(mutant.file) if is_changed else covered.covering(mutant.file, lines)
    if not ids and not (mutant.function and covered.is_dead(mutant.file, lines)):
        of_file = covered.of_file(mutant.file)
        own = {each for each in covered.tests if each.startswith(FOLDERS[package])}
        # What a module makes when it is imported also affects tests that execute none of its lines.
        ids = (of_file & covered.cases.keys() or {*covered.cases}) | (of_file & covered.tests.keys() or own)
    # The SDK is judged by its own tests; the fake by all, as the SDK's tests run against it.
    return ids if package == "fake" else {each for each in ids if each.startswith(FOLDERS["sdk"])}


if __name__ == "__main__":
    raise SystemExit(main())
