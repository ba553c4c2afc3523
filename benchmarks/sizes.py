"""Start times and sizes, each of a few fresh processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 9

# Installed packages are compiled once; a machine that forbids to write the result would measure the compiler.
ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

IMPORT_ALL = """
import time
began = time.perf_counter()
import aiorocketmq
for name in aiorocketmq.__all__:
    getattr(aiorocketmq, name)
print(time.perf_counter() - began)
"""

FRESH_FAKE = """
import asyncio, json, time
from aiorocketmq_fake import FakeBroker
async def main():
    took = []
    for _ in range(30):
        began = time.perf_counter()
        async with FakeBroker():
            pass
        took.append((time.perf_counter() - began) * 1000)
    print(sorted(took)[len(took) // 2])
asyncio.run(main())
"""


def command() -> Path:
    """Return the installed `aiorocketmq` of this environment."""
    return Path(sys.executable).with_name("aiorocketmq")


def timed(*arguments: str | Path) -> float:
    """Run a command to its end; return the seconds."""
    began = time.perf_counter()
    subprocess.run(arguments, check=True, capture_output=True, env=ENVIRON)
    return time.perf_counter() - began


def said(program: str) -> float:
    """Run a Python program in a fresh process; return the number that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=ENVIRON
    )
    return float(done.stdout)


def served() -> tuple[float, float]:
    """Start `fake serve`; return the seconds until it says that it is ready, and its memory a second later, in MB."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [command(), "fake", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRON,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    took = time.perf_counter() - began
    try:
        if "ready" not in line:
            raise RuntimeError(f"`fake serve` did not get ready: {line.strip()!r}")
        time.sleep(1)
        return took, resident_mb(process.pid)
    finally:
        process.terminate()
        process.wait(10)


def resident_mb(process_id: int) -> float:
    """Return the resident memory of a process; Linux says it in a file, others by `ps`."""
    status = Path(f"/proc/{process_id}/status")
    if status.exists():
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text(encoding="ascii"))
        assert found is not None
        return int(found[1]) / 1024
    told = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(process_id)], check=True, capture_output=True, text=True
    )
    return int(told.stdout) / 1024


def measured_sizes(repeats: int = REPEATS) -> dict[str, list[float]]:
    """Measure everything `repeats` times, after one run that fills the caches of compiled modules."""
    timed(command(), "--help")
    said(IMPORT_ALL)
    served()
    serves = [served() for _ in range(repeats)]
    return {
        "fake_ready_s": [ready for ready, _ in serves],
        "fake_idle_mb": [memory for _, memory in serves],
        "fresh_fake_ms": [said(FRESH_FAKE) for _ in range(repeats)],
        "import_s": [said(IMPORT_ALL) for _ in range(repeats)],
        "help_s": [timed(command(), "--help") for _ in range(repeats)],
    }
