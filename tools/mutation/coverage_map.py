"""Which cases and tests execute which lines: `python -m tools.mutation.coverage_map`, once for a state of the code."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import tempfile
import time
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).parents[2]
SOURCES = (
    *(f"fake_broker/aiorocketmq_fake/{part}" for part in ("core", "edge")),
    *(f"sdk/aiorocketmq/{part}" for part in ("_core", "_push", "_pull", "_produce", "_consume")),
)
"""The code that is mutated, as folders of the checkout."""
SUITES = ("fake_broker/tests", "sdk/tests")
QUICK = "not real and not slow and not peer and not spark and not containers"
TARGETS = {"": "fake", "apache-5.5/": "fake:apache-5.5"}
"""The profiles that cases are run on, by what precedes the ids of cases there."""
EXPLORER = "explore"
"""Stands beside the ids of cases for the explorer, so that it is not asked about lines that it never executes."""
EXPLORED = 150
"""Histories that are measured, for each profile."""
EXPLORED_PROFILES = ("documented", "apache-5.5")
STUCK = 600.0
"""Seconds after which an exploration is ended."""
PARTS = ("cases", EXPLORER, *SUITES)
STORED = ROOT / ".mutation" / "coverage.json"


@dataclass
class CoverageMap:
    """The cases and tests that pass, their seconds, and the lines that each executes."""

    cases: dict[str, float] = field(default_factory=dict)
    """Seconds by the prefix of a target and the id of a case."""
    tests: dict[str, float] = field(default_factory=dict)
    """Seconds by pytest's node id."""
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """For each file, as a path below the checkout: the ids that execute a line, none for lines executed at import."""

    def covering(self, file: str, lines: Iterable[int]) -> set[str]:
        """Return the ids of cases and tests that execute any of `lines`."""
        known = self.lines.get(file, {})
        return {each for line in lines for each in known.get(line, ())}

    def is_dead(self, file: str, lines: Iterable[int]) -> bool:
        """Return whether nothing executes any of `lines`, not even an import."""
        return not any(line in self.lines.get(file, {}) for line in lines)

    def of_file(self, file: str) -> set[str]:
        """Return the ids of cases and tests that execute any line of a file."""
        return self.covering(file, self.lines.get(file, {}))

    def add(self, measured: Coverage, ids: Iterable[str]) -> None:
        """Add what was measured under contexts that are the ids of cases or tests."""
        wanted = frozenset(ids)
        data = measured.get_data()
        for name in data.measured_files():
            file = str(Path(name).relative_to(ROOT))
            known = self.lines.setdefault(file, {})
            for line, contexts in data.contexts_by_lineno(name).items():
                known[line] = sorted({*known.get(line, ()), *(wanted & frozenset(contexts))})

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = [*self.cases, *self.tests]
        number = {each: index for index, each in enumerate(ids)}
        lines = {
            file: {line: [number[each] for each in found] for line, found in known.items()}
            for file, known in self.lines.items()
        }
        path.write_text(json.dumps({"cases": self.cases, "tests": self.tests, "lines": lines}), "utf-8")

    @classmethod
    def read(cls, path: Path) -> CoverageMap:
        """Read what `write` has written."""
        stored = json.loads(path.read_text("utf-8"))
        ids = [*stored["cases"], *stored["tests"]]
        lines = {
            file: {int(line): [ids[index] for index in found] for line, found in known.items()}
            for file, known in stored["lines"].items()
        }
        return cls(stored["cases"], stored["tests"], lines)


def _coverage(folder: str) -> Coverage:
    sources = [str(ROOT / source) for source in SOURCES]
    return Coverage(data_file=f"{folder}/coverage", source=sources, config_file=False)


async def _measure_cases(found: CoverageMap, measured: Coverage) -> None:
    """Run each case on each profile of the bundled fake, one at a time."""
    # Imported here: who reads the map only, forks before it imports our code.
    from aiorocketmq_conformance.case import load
    from aiorocketmq_conformance.runner import Run
    from aiorocketmq_conformance.targets.choice import choose
    from aiorocketmq_conformance.verdicts import Verdict

    measured.start()
    for prefix, target in TARGETS.items():
        async with choose(target) as broker:
            for case in load():
                measured.switch_context(prefix + case.id)
                started = time.monotonic()
                (result,) = (await Run([case], broker).finish()).results
                if result.verdict is Verdict.PASS:
                    found.cases[prefix + case.id] = round(time.monotonic() - started, 3)
    measured.stop()


async def explored(seed: int, histories: int, profile: str = "documented") -> Collection[str] | None:
    """Explore a profile of the bundled fake; return the rules that a history breaks, None without one.

    Histories are counted, not seconds, so that the outcome does not depend on the machine.
    """
    from aiorocketmq_conformance.explore.exploration import Explorer
    from aiorocketmq_conformance.targets.declarations import DECLARATIONS
    from aiorocketmq_conformance.targets.fake import BundledFake

    declaration = DECLARATIONS[f"fake-{profile}"]
    async with BundledFake(profile, declaration=declaration, driven=True) as broker:
        failure = (await Explorer(broker, seed).explore(seconds=STUCK, histories=histories)).failure
    return None if failure is None else failure.rules


async def _measure_explorer(found: CoverageMap, measured: Coverage) -> None:
    """Explore each profile under measurement."""
    measured.start()
    measured.switch_context(EXPLORER)
    started = time.monotonic()
    for profile in EXPLORED_PROFILES:
        await explored(1, EXPLORED, profile)
    found.cases[EXPLORER] = round(time.monotonic() - started, 3)
    measured.stop()


class _Contexts:
    """A plugin of pytest that measures each test under its node id."""

    def __init__(self, found: CoverageMap, measured: Coverage) -> None:
        self._found = found
        self._measured = measured
        self._is_failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure one test, with its fixtures."""
        self._measured.switch_context(item.nodeid)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            if item.nodeid not in self._is_failed:
                self._found.tests[item.nodeid] = round(time.monotonic() - started, 3)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what does not pass."""
        if not report.passed:
            self._is_failed.add(report.nodeid)


def _measure_tests(found: CoverageMap, measured: Coverage, suites: Sequence[str]) -> None:
    measured.start()
    # Other parts have imported what pytest would rewrite.
    imported = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    arguments = ["-q", "-m", QUICK, "--timeout=120", *imported, *suites]
    pytest.main(arguments, plugins=[_Contexts(found, measured)])
    measured.stop()


def main() -> None:
    """Measure everything, or one part, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=STORED)
    parser.add_argument("--only", nargs="+", help="cases, explore, files of tests: added to what is stored")
    given = parser.parse_args()
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    found = CoverageMap.read(given.out) if given.only and given.out.exists() else CoverageMap()
    for part in given.only or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            measured = _coverage(folder)
            if part == "cases":
                asyncio.run(_measure_cases(found, measured))
            elif part == EXPLORER:
                from aiorocketmq_conformance.probe.clock import SettlingLoop

                with asyncio.Runner(loop_factory=SettlingLoop) as runner:
                    runner.run(_measure_explorer(found, measured))
            else:
                _measure_tests(found, measured, [part])
            found.add(measured, [*found.cases, *found.tests])
        found.write(given.out)
        print(
            f"{part}: {len(found.cases)} cases, {len(found.tests)} tests, {len(found.lines)} files",
            flush=True,
        )


if __name__ == "__main__":
    main()
