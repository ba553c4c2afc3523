"""Machine-made mutants: what is mutated, and that a trial loads the mutant and names what objects."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("mutmut", reason="the dependency group `mutation` is not installed")

from tools.mutation.coverage_map import ROOT, CoverageMap
from tools.mutation.mutants import Mutant, mutants_of
from tools.mutation.patching import Loaded
from tools.mutation.results import summary

SOURCE = """
from enum import Enum

__all__ = ["half"]
LIMIT = 8


class Kind(Enum):
    PLAIN = "plain"


def half(number: int) -> int:
    if number > LIMIT:
        logger.info("number %d", number)
        raise ValueError("a number that is too large")
    return number // 2
"""


@pytest.fixture
def mutants(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "numbers.py").write_text(SOURCE)
    return mutants_of("numbers.py", tmp_path)[0]


def test_a_mutant_is_one_change_named_by_function_operator_and_occurrence(mutants: list[Mutant]) -> None:
    assert {mutant.name: mutant.diff() for mutant in mutants} == {
        "numbers.py:-:assignment:0": "-LIMIT = 8\n+LIMIT = None",
        "numbers.py:-:number:0": "-LIMIT = 8\n+LIMIT = 9",
        "numbers.py:half:swap_op:0": "-    if number > LIMIT:\n+    if number >= LIMIT:",
        "numbers.py:half:swap_op:1": "-    return number // 2\n+    return number / 2",
        "numbers.py:half:number:0": "-    return number // 2\n+    return number // 3",
    }


def test_texts_names_and_logs_are_not_mutated_and_counted(tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text(SOURCE)
    _, skipped = mutants_of("numbers.py", tmp_path)
    assert set(skipped) == {"texts for people", "names and declarations", "logs"}


def test_what_is_seen_by_operators_only_is_marked(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "def note(state):\n    state.events.append(Sent(1))\n    state.count = 2\n"
    )
    audiences = {mutant.diff().split()[1]: mutant.audience for mutant in mutants_of("one.py", tmp_path)[0]}
    assert audiences == {"state.events.append(Sent(1))": "operators", "state.count": "clients"}


def test_loaded_functions_get_the_code_of_the_mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, source = ModuleType("numbers_of_ours"), "def half(number):\n    return number // 2\n"
    path = tmp_path / "numbers.py"
    exec(compile(source, path, "exec"), module.__dict__)
    half = module.half
    monkeypatch.setattr("tools.mutation.patching.OURS", ())
    assert Loaded().change(path, source, "def half(number):\n    return number // 3\n")
    assert half(9) == 3


def test_functions_that_others_have_made_are_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, path = ModuleType("numbers_of_ours"), tmp_path / "numbers.py"
    source = (
        "def made():\n    def half(number):\n        return number // 2\n    return half\nhalf = made()\n"
    )
    exec(compile(source, path, "exec"), module.__dict__)
    monkeypatch.setattr("tools.mutation.patching.OURS", ())
    monkeypatch.setattr("tools.mutation.patching.TESTS", ())
    assert not Loaded().change(path, source, source.replace("2", "3"))


@pytest.mark.parametrize(("line", "killer"), [(14, "life.route-ok"), (0, "")])
def test_a_trial_names_the_case_that_objects(tmp_path: Path, line: int, killer: str) -> None:
    """Nothing is asked about a mutant in lines that nothing executes."""
    file = "fake_broker/aiorocketmq_fake/core/commands/routes.py"
    covered = CoverageMap({"life.route-ok": 0.1}, {}, {file: {line: ["life.route-ok"]}})
    covered.write(tmp_path / "map.json")
    command = [sys.executable, "-m", "tools.mutation", "--files", file, "--sample", "400"]
    names = [m.name for m in mutants_of(file)[0] if m.first == 14 and m.operator == "arg_removal"][:2]
    assert names
    ended = subprocess.run(
        [*command, "--names", *names, "--map", str(tmp_path / "map.json"), "--json", str(tmp_path / "out.json")],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    results = json.loads((tmp_path / "out.json").read_text())
    assert [(each["name"], each["suite"]) for each in results] == [(name, killer) for name in names]


def test_figures_count_what_suite_and_tests_find() -> None:
    results = [
        {"audience": "clients", "suite": "send.receipt", "test": "", "asked": 3, "left_out": 0},
        {"audience": "clients", "suite": "", "test": "a::b", "asked": 3, "left_out": 0},
        {"audience": "operators", "suite": "", "test": "", "asked": 0, "left_out": 0},
        {"audience": "operators", "suite": "", "test": "", "asked": 9, "left_out": 2},
    ]
    assert summary(results) == [
        "all: 4 mutants, 1 (25%) found by cases and explorer, 2 (50%) by all",
        "seen by clients: 2 mutants, 1 (50%) found by cases and explorer, 2 (100%) by all",
        "seen by operators: 2 mutants, 0 (0%) found by cases and explorer, 0 (0%) by all",
        "2 survivors: 1 that no case or test executes, 1 not judged by everything that executes them",
    ]
