"""Trials: each mutant is written into a copy of the checkout, and a forked process looks for what objects.

The parent has imported everything from the copy, so that a child is ready at once; it has used neither grpcio nor an
event loop, so that forking is safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import itertools
import json
import logging
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.coverage_map import (
    EXPLORED_PROFILES,
    EXPLORER,
    QUICK,
    ROOT,
    TARGETS,
    CoverageMap,
    explored,
)
from tools.mutation.mutants import Mutant
from tools.mutation.patching import Loaded

PACKAGES = ("sdk", "fake_broker", "conformance", "spark_checks")
OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "--timeout=60", "--tb=no", "-m", QUICK, "--rootdir=."),
    # The parent has imported plugins of pytest.
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
IMPORT = "import"
TIMEOUT = "timeout"
FIRST = 16
"""Cases of the first attempt, the fastest ones."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long one mutant may take; what does not fit is left out, the slowest first."""

    explored: int
    """Histories to explore, for each profile."""
    cases: float
    """Seconds of cases, as measured on the correct code."""
    tests: float
    """Seconds of tests, as measured on the correct code."""
    in_place: bool
    """Whether modules that are loaded get the code of the mutant, where that is enough."""


@dataclass(slots=True)
class Verdict:
    """What objected to one mutant."""

    suite: str = ""
    """The case, history of the explorer, import or time limit that objected; "" if none did or was asked."""
    test: str = ""
    """The test that objected; not asked if `suite` did, which is a test of the code as well."""
    asked: int = 0
    """Cases and tests that execute the mutant."""
    cases: int = 0
    """Cases among them; the explorer counts as one."""
    left_out: int = 0
    """Those of them that the effort had no room for."""
    unsteady: int = 0
    """Objections that were not repeated, and do not count."""
    seconds: float = 0.0


class Copy:
    """A copy of the checkout, in which one file at a time is changed; this process loads its modules from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns(".*", "site", "runs", "node_modules")
        shutil.copytree(ROOT, folder, ignore=ignored)
        ours = [str(folder / package) for package in PACKAGES]
        sys.path[:0] = [*ours, str(folder)]
        os.environ["PYTHONPATH"] = os.pathsep.join([*ours, str(folder)])
        os.chdir(folder)
        assert not any(name.startswith("aiorocketmq") for name in sys.modules), "loaded from elsewhere"

    def load(self) -> None:
        """Load all modules."""
        self._loaded = Loaded()
        gc.freeze()

    @contextlib.contextmanager
    def changed(self, mutant: Mutant | None, *, in_place: bool) -> Iterator[Callable[[], bool]]:
        """Have the mutant in place; yields what loads it in a child, and returns whether modules are still loaded.

        None leaves the code as it is.
        """
        if mutant is None:
            yield lambda: in_place or self._loaded.forget()
            return
        path, text, mutated = self.folder / mutant.file, mutant.module.code, mutant.source()
        before = path.stat()
        path.write_text(mutated, "utf-8")
        # Compiled files are known by size and second of the source: each version gets a second of its own.
        self._versions += 1
        os.utime(path, (before.st_atime, before.st_mtime + self._versions))
        try:
            yield lambda: self._loaded.change(path, text, mutated, in_place=in_place)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, (before.st_atime, before.st_mtime))


class Judge:
    """Looks for what objects to mutants."""

    def __init__(self, covered: CoverageMap, copy: Copy, effort: Effort) -> None:
        self._covered = covered
        self._copy = copy
        self._effort = effort
        self._tests: dict[str, pytest.Item] = {}
        self._load: Callable[[], bool] = lambda: True
        self._is_loaded = True
        """Whether the tests that were collected still belong to the modules that are loaded."""

    def collect(self, suites: Sequence[str], judge: Callable[[], None]) -> None:
        """Load modules, collect the tests of suites once, and judge; children run them without starting pytest."""
        self._copy.load()
        is_judged = False

        class Loop:
            def pytest_runtestloop(plugin, session: pytest.Session) -> bool:
                nonlocal is_judged
                is_judged = True
                self._tests = {item.nodeid: item for item in session.items}
                judge()
                return True

        if not self._covered.tests:
            judge()
            return
        pytest.main([*OPTIONS, "--capture=no", *suites], plugins=[Loop()])
        assert is_judged, "the tests could not be collected"

    def judge(self, mutant: Mutant | None, ids: set[str]) -> Verdict:
        """Return what objects: the suite if it can, else a test; None asks `ids` about the correct code."""
        started = time.monotonic()
        verdict = Verdict(asked=len(ids), cases=len(ids & self._covered.cases.keys()))
        cases, late_cases = _within(self._covered.cases, ids - {EXPLORER}, self._effort.cases)
        tests, late_tests = _within(self._covered.tests, ids, self._effort.tests)
        verdict.left_out = len(late_cases) + len(late_tests)
        explored = self._effort.explored if EXPLORER in ids else 0
        with self._copy.changed(mutant, in_place=self._effort.in_place) as self._load:
            if cases or explored:
                verdict.suite = self._ask(verdict, _try_suite, cases, explored)
            if tests and not verdict.suite:
                verdict.test = self._ask(verdict, self._try_tests, tests)
        verdict.seconds = round(time.monotonic() - started, 1)
        return verdict

    def _ask(self, verdict: Verdict, work: Callable[..., str], ids: Sequence[str], *more: float) -> str:
        seconds = sum(self._covered.cases.get(each, 0) + self._covered.tests.get(each, 0) for each in ids)
        limit = 60.0 + 3 * seconds + 2 * sum(more)
        while objection := self._forked(work, limit, ids, *more):
            # What fails once, may fail so on the correct code of a busy machine; cases are repeated where they fail.
            if objection not in self._covered.tests or self._forked(work, limit, [objection]):
                return objection
            verdict.unsteady += 1
            ids = [each for each in ids if each != objection]
        return ""

    def _forked(self, work: Callable[..., str], limit: float, *arguments: object) -> str:
        """Return what `work` returns in a process of its own; "timeout" if it does not end within `limit` seconds."""
        answer = self._copy.folder / ".answer"
        answer.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._be_a_child(answer, work, arguments)
        deadline = time.monotonic() + limit
        while True:
            ended, _ = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        # Whatever it has started is in its session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
            return TIMEOUT
        return json.loads(answer.read_text("utf-8")) if answer.exists() else "death of the process"

    def _be_a_child(self, answer: Path, work: Callable[..., str], arguments: Sequence[object]) -> None:
        """Do the work on the mutant, leave its result, and end the process."""
        code = 1
        try:
            os.setsid()
            log = os.open(self._copy.folder / ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(log, number)
            self._is_loaded = self._load()
            answer.write_text(json.dumps(work(*arguments)), "utf-8")
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _try_tests(self, ids: Sequence[str]) -> str:
        """Return the first test that fails, "import" if none can be collected."""
        seen = _FirstFailure()
        # What the map knows, may have another name since; pytest would refuse the whole list.
        items = [self._tests[each] for each in ids if each in self._tests]
        if not items:
            return ""
        if not self._is_loaded:
            chosen = _Chosen([item.nodeid for item in items])
            code = pytest.main([*OPTIONS, "-x", *chosen.files()], plugins=[seen, chosen])
            # None is left if the mutant changes the names of all.
            is_fine = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
            return seen.test or ("" if is_fine else IMPORT)
        items[0].config.pluginmanager.register(seen)
        for item, following in itertools.zip_longest(items, items[1:]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if seen.test:
                return seen.test
        return ""


def _within(seconds: dict[str, float], ids: set[str], budget: float) -> tuple[list[str], list[str]]:
    """Return the fastest of `ids` that fit into `budget` seconds, and the others."""
    ordered = sorted((each for each in ids if each in seconds), key=lambda each: (seconds[each], each))
    spent = 0.0
    for index, each in enumerate(ordered):
        spent += seconds[each]
        if spent > budget:
            return ordered[:index], ordered[index:]
    return ordered, []


def _try_suite(cases: Sequence[str], explored: int = 0) -> str:
    """Return the first case that fails, or the history that is not allowed; first a few, then all."""
    logging.disable(logging.CRITICAL)
    try:
        choice: Any = importlib.import_module("aiorocketmq_conformance.targets.choice")
        clock: Any = importlib.import_module("aiorocketmq_conformance.probe.clock")
    except Exception:
        traceback.print_exc()
        return IMPORT
    with asyncio.Runner(loop_factory=clock.SettlingLoop) as runner:
        return runner.run(_suite(choice.choose, list(cases), explored))


async def _suite(choose: Callable[[str], Any], cases: list[str], explored: int) -> str:
    for some, histories, seed in ((cases[:FIRST], min(explored, 20), 1), (cases[FIRST:], explored, 2)):
        for prefix, target in TARGETS.items():
            ids = [each.removeprefix(prefix) for each in some if _prefix(each) == prefix]
            if ids and (failed := await _failing_case(choose(target), ids)):
                return prefix + failed
        for profile in EXPLORED_PROFILES if histories else ():
            if forbidden := await _forbidden_history(seed, histories, profile):
                return forbidden
    return ""


def _prefix(case: str) -> str:
    return next((each for each in TARGETS if each and case.startswith(each)), "")


async def _failing_case(target: Any, ids: Sequence[str]) -> str:
    from aiorocketmq_conformance.case import load
    from aiorocketmq_conformance.results import CaseResult
    from aiorocketmq_conformance.runner import Run

    failed: list[str] = []

    def note(result: CaseResult) -> None:
        # An exception of a broker in this process reaches the case as its own: an error, which fails a run, too.
        if result.verdict.fails_the_run:
            failed.append(result.case.id)
            run.stop()

    registry = load()
    waiting = list(ids)
    async with target as broker:
        while waiting:
            run = Run([registry[each] for each in waiting], broker, on_result=note)
            await run.finish()
            if not failed:
                break
            # What fails once, may fail so on the correct code of a busy machine.
            first = failed[0]
            waiting.remove(first)
            failed.clear()
            run = Run([registry[first]], broker, on_result=note)
            await run.finish()
            if failed:
                return first
    return ""


async def _forbidden_history(seed: int, histories: int, profile: str) -> str:
    try:
        rules = await explored(seed, histories, profile)
    except Exception as error:
        # The broker does not even start or stop.
        return f"{EXPLORER} ({type(error).__name__})"
    return "" if rules is None else f"{EXPLORER} ({', '.join(sorted(rules))})"


class _FirstFailure:
    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure."""
        if report.failed and not self.test:
            self.test = report.nodeid


class _Chosen:
    """A plugin of pytest that runs some tests only, in their order; a mutant may have changed the names of others."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._order = {each: place for place, each in enumerate(ids)}

    def files(self) -> list[str]:
        """Return the files of the tests."""
        return sorted({each.partition("::")[0] for each in self._order})

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the chosen tests."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


def sample_of(mutants: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return a sample in random order, so that its beginning is one, too; the same for the same code and seed."""
    shuffled = list(mutants)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:number]
