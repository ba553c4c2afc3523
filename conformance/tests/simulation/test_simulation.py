"""The simulation: a run is a function of its seed, kept seeds stay green, virtual time and processes work."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.simulation.__main__ import main
from tools.simulation.loop import START, DeadlockError, Process, VirtualLoop
from tools.simulation.run import run
from tools.simulation.world import generate

KEPT = Path(__file__).with_name("kept_seeds.txt")
SEEDS = [
    int(line.split()[0])
    for line in KEPT.read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]
PRINT_DIGESTS = """
from tools.simulation.run import run
from tools.simulation.world import generate
print([run(generate(seed)).digest for seed in (2, 6, 13)])
"""


def test_a_run_is_a_function_of_its_seed() -> None:
    first, second = (run(generate(6), is_traced=True) for _ in range(2))
    assert len(first.trace) > 500
    assert first.trace == second.trace
    assert run(generate(7)).digest != first.digest


def test_a_run_does_not_depend_on_the_hashes_of_its_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kept_seed_stays_green(seed: int) -> None:
    assert run(generate(seed)).lines == []


def test_worlds_keep_all_promises(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "20", "--first", "1000", "--jobs", "1"]) == 0, capsys.readouterr().out


def test_time_jumps_to_the_next_timer() -> None:
    loop = VirtualLoop()

    async def sleep() -> tuple[float, float]:
        await asyncio.sleep(86_400)
        return loop.time(), loop.wall()

    assert loop.run_until_complete(sleep()) == (86_400.0, START + 86_400.0)
    loop.close()


def test_waiting_for_nothing_is_an_error() -> None:
    loop = VirtualLoop()
    with pytest.raises(DeadlockError):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_spinning_without_time_is_an_error() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  # that is the point
            await asyncio.sleep(0)

    loop = VirtualLoop()
    with pytest.raises(DeadlockError):
        loop.run_until_complete(spin())
    loop.close()


def test_threads_are_refused() -> None:
    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match="thread"):
        loop.run_until_complete(asyncio.to_thread(print))
    loop.close()


def test_a_process_that_hangs_runs_later() -> None:
    loop, process, moments = VirtualLoop(), Process("c"), list[float]()

    async def tick() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            moments.append(loop.time())

    async def disturb() -> None:
        task = process.start(tick())
        await asyncio.sleep(1.5)
        process.hang()
        await asyncio.sleep(8.5)
        process.resume()
        await task

    loop.run_until_complete(disturb())
    assert moments == [1.0, 10.0, 11.0]
    loop.close()


def test_a_process_that_is_killed_has_no_tasks() -> None:
    loop, process = VirtualLoop(), Process("c")

    async def child() -> None:
        await asyncio.sleep(100)

    async def parent() -> None:
        task = asyncio.create_task(child())
        await task

    async def kill() -> None:
        task = process.start(parent())
        await asyncio.sleep(1)
        assert len(process.tasks) == 2
        process.kill()
        await asyncio.wait((task,))
        assert not process.tasks

    loop.run_until_complete(kill())
    assert loop.time() == 1.0
    loop.close()
