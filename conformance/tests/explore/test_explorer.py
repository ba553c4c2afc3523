"""The explorer: histories are functions of their seeds, correct fakes stay clean, broken ones are found and shrunk."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq.cli.program import run as run_program
from aiorocketmq_conformance.explore import command
from aiorocketmq_conformance.explore.background import Background
from aiorocketmq_conformance.explore.command import ExploreOptions, command_of
from aiorocketmq_conformance.explore.exploration import Explorer
from aiorocketmq_conformance.explore.generation import Abilities, generate
from aiorocketmq_conformance.explore.shrinking import shrink
from aiorocketmq_conformance.probe.clock import SettlingLoop
from aiorocketmq_conformance.targets.choice import choose

from conformance.tests.mutants.catalogue import mutant
from conformance.tests.mutants.exploring import explored
from conformance.tests.mutants.mutant import FAKE
from conformance.tests.mutants.proof import BrokenFake

FOUND = ("MU01", "MU03", "MU12", "MU16", "MU21", "MU43", "MU53", "mu-filters-ignored")
"""Mutants of several subjects; few histories find each."""

CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Driven fakes need to know when nothing is left to do."""
    return "asyncio", {"loop_factory": SettlingLoop}


def broken(name: str) -> BrokenFake:
    return BrokenFake(mutant(name), driven=True)


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_a_correct_fake_stays_clean(profile: str) -> None:
    async with choose(f"fake:{profile}", driven=True) as broker:
        result = await Explorer(broker, 11).explore(seconds=60, histories=12)
    assert result.failure is None, "\n".join(result.failure.lines)
    assert result.histories == 12


async def test_processes_execute_the_same_histories() -> None:
    async def explored_by(jobs: int) -> tuple[int, int]:
        async with choose("fake:apache-5.5", driven=True) as broker:
            result = await Explorer(broker, 11).explore(seconds=60, histories=7, jobs=jobs)
        assert result.failure is None
        return result.histories, result.operations

    assert await explored_by(3) == await explored_by(1)


def test_processes_show_the_failure_that_comes_first(tmp_path: Path) -> None:
    """Processes load the fake by themselves: this one is broken on the disk."""
    defect = mutant("MU16")
    shutil.copytree(FAKE, tmp_path / FAKE.name)
    broken_file = tmp_path / FAKE.name / defect.file
    broken_file.write_text(broken_file.read_text("utf-8").replace(defect.before, defect.after), "utf-8")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    words = "conformance explore --target fake --seed 1 --histories 40 --json --jobs"

    def failure(jobs: int) -> Any:  # Any: JSON
        ended = subprocess.run(
            [sys.executable, "-m", "aiorocketmq", *words.split(), str(jobs)],
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 1, ended.stderr
        return json.loads(ended.stdout)["failure"]

    assert failure(3) == failure(1)


@pytest.mark.parametrize("name", FOUND)
async def test_a_broken_fake_is_found(name: str) -> None:
    trial = await explored(mutant(name), 1, seconds=60, histories=150)
    assert trial.rules


def test_a_plan_is_a_function_of_seed_and_number() -> None:
    assert generate(3, 5, Abilities()) == generate(3, 5, Abilities())
    assert generate(3, 5, Abilities()) != generate(3, 6, Abilities())
    assert generate(3, 5, Abilities()) != generate(4, 5, Abilities())


async def test_calls_in_the_background_end_in_the_order_of_their_begins() -> None:
    """Else a replay in another process would have another time line."""
    ended: list[int] = []

    async def call(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    background = Background()
    for number in range(50):
        background.start(call(number))
    await asyncio.sleep(0)
    await background.cancel(7)
    await background.cancel()
    assert ended == [7, *range(7), *range(8, 50)]
    assert not len(background)


async def test_a_failure_is_shrunk_and_replays_as_printed() -> None:
    async with broken("MU16") as broker:
        explorer = Explorer(broker, 1)
        result = await explorer.explore(seconds=60, histories=40)
        assert result.failure is not None
        before = len(result.failure.plan.steps)
        await explorer.shrink()
        shrunk = result.failure
        assert len(shrunk.plan.steps) < before
        assert len(shrunk.plan.steps) <= 4, "a send, a receive and a change are nearly all that it takes"
        steps = [step.number for step in shrunk.plan.steps]
        again = await Explorer(broker, 1).replay(shrunk.plan.number, steps)
    assert again.failure is not None
    assert again.failure.lines == shrunk.lines


async def test_a_failure_is_shown_where_it_happens() -> None:
    async with broken("MU16") as broker:
        result = await Explorer(broker, 1).explore(seconds=60, histories=40)
    assert result.failure is not None
    lines = result.failure.lines
    shown = next(place for place, line in enumerate(lines) if "^^ change" in line)
    assert "changes" in lines[shown - 1]


async def test_shrinking_leaves_what_the_failure_needs() -> None:
    async def fails(items: Sequence[int]) -> bool:
        return {3, 7} <= set(items)

    assert await shrink(list(range(20)), fails) == [3, 7]


def test_the_command_prints_progress_and_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = "conformance explore --target fake --seed 11 --histories 2 --json --report"
    assert run_program([*words.split(), str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["histories"] == 2
    assert json.loads(out)["failure"] is None
    assert "seed 11" in err
    assert "2 histories" in (tmp_path / "exploration.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(not CHILDREN.exists(), reason="names no children: no /proc with them here")
def test_a_killed_process_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Killing(io.StringIO):
        """Kills the processes of the explorer at the first line of progress."""

        def write(self, text: str) -> int:
            if "histories" in text:
                for child in CHILDREN.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            return super().write(text)

    monkeypatch.setattr(command, "PROGRESS", 0.0)
    monkeypatch.setattr(sys, "stderr", written := Killing())
    words = "conformance explore --target fake --seed 11 --jobs 2"
    assert run_program(words.split()) == 4
    assert "was killed: pass --jobs 1" in written.getvalue()


def test_the_command_of_a_failure_replays_it() -> None:
    async def failure() -> str:
        async with broken("MU16") as broker:
            result = await Explorer(broker, 1).explore(seconds=60, histories=40)
        return command_of(result, ExploreOptions("fake", 1, 1.0))

    with asyncio.Runner(loop_factory=SettlingLoop) as runner:
        words = shlex.split(runner.run(failure()))[1:]
    # The fake of the command has no defect: the same steps are allowed there.
    assert run_program(words) == 0


@pytest.mark.parametrize(
    "words", ["--history 3", "--seed 1 --steps 2", "--seed 1 --history 2 --steps a", "--target nowhere"]
)
def test_wrong_options_are_usage_errors(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(["conformance", "explore", *words.split()]) == 2
    assert " --" in capsys.readouterr().err
