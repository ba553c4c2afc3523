"""The programs in `examples/` pass their own tests, run as their README says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_examples_pass_their_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = await anyio.run_process(command, cwd=EXAMPLES, stderr=subprocess.STDOUT, check=False)
    assert ended.returncode == 0, ended.stdout.decode()
