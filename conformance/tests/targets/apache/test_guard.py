"""The guard: a server never outlives the run that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiorocketmq_conformance.targets.apache import guard

# Prints that it runs, then waits for ever; readers of its output see the end of file when it has exited.
CHILD = "import signal, sys; print('up', flush=True); signal.pause()"
PARENT = f"""
import subprocess, sys
command = [sys.executable, {guard.__file__!r}, "5", sys.executable, "-c", {CHILD!r}]
guarded = subprocess.Popen(command, stdin=subprocess.PIPE)
guarded.wait()
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")


@pytest.fixture
def guarded() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, guard.__file__, "5", sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        # A guard that is killed cannot end its command.
        process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def ended(process: subprocess.Popen[str]) -> bool:
    """Whether everybody who holds the process's output is gone."""
    assert process.stdout is not None
    return process.stdout.read() == ""


def test_the_command_ends_when_the_guards_input_closes(guarded: subprocess.Popen[str]) -> None:
    assert guarded.stdin is not None
    guarded.stdin.close()
    assert ended(guarded)


def test_the_command_ends_when_the_guard_is_terminated(guarded: subprocess.Popen[str]) -> None:
    guarded.terminate()
    assert ended(guarded)


def test_the_command_is_killed_on_the_guards_signal(guarded: subprocess.Popen[str]) -> None:
    guarded.send_signal(guard.KILL)
    assert ended(guarded)
    assert guarded.wait(10) == 256 - signal.SIGKILL


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the state of a process from /proc")
def test_the_command_pauses_and_resumes_on_the_guards_signals(
    guarded: subprocess.Popen[str],
) -> None:
    (child,) = Path(f"/proc/{guarded.pid}/task/{guarded.pid}/children").read_text(encoding="ascii").split()

    def state() -> str:
        return Path(f"/proc/{child}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]

    for number, expected in ((guard.PAUSE, "T"), (guard.RESUME, "S")):
        guarded.send_signal(number)
        deadline = time.monotonic() + 10
        while state() != expected:
            assert time.monotonic() < deadline, f"its state is {state()}, not {expected}"
    assert guarded.poll() is None


def test_ctrl_c_is_left_to_the_parent(guarded: subprocess.Popen[str]) -> None:
    guarded.send_signal(signal.SIGINT)
    assert guarded.poll() is None
    assert guarded.stdin is not None
    guarded.stdin.close()
    assert ended(guarded)


def test_the_command_ends_when_the_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        assert ended(parent)


def test_the_guard_ends_as_its_command_does() -> None:
    command = [sys.executable, guard.__file__, "5", sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(10) == 7
