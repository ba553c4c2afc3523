"""Runs the audit of the demonstration's recording as a process: no package imports the audit."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# Exit codes of an audit with a verdict: valid, invalid, unknown.
VERDICT_EXITS = (0, 1, 3)


@dataclass(frozen=True, slots=True)
class Audited:
    """The result of the audit."""

    verdict: str
    """`valid`, `invalid` or `unknown`."""
    checks: tuple[tuple[str, str, str], ...]
    """Name, verdict and finding of each check."""
    exit_code: int


class AuditFailedError(Exception):
    """The audit failed without a verdict; the text has the reason."""


def is_installed() -> bool:
    """Return whether Spark is installed."""
    return find_spec("pyspark") is not None


async def audit(recording: Path, out: Path) -> Audited:
    """Audit `recording` into `out`; AuditFailedError if there is no verdict. Cancellation ends the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aiorocketmq_audit",
        str(recording),
        "--out",
        str(out),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    code = process.returncode
    # A crash also ends with 1: only the summary distinguishes a verdict from it.
    if code not in VERDICT_EXITS or not (out / "summary.json").exists():
        lines = errors.decode(errors="replace").strip().splitlines() or [f"it exited with code {code}"]
        raise AuditFailedError(f"the audit failed: {lines[-1]}")
    return read_summary(json.loads((out / "summary.json").read_text(encoding="utf-8")), exit_code=code)


def read_summary(summary: dict[str, object], *, exit_code: int) -> Audited:
    """Return the contents of `summary.json` for the page, of checks that had something to judge."""
    checks = summary["checks"]
    assert isinstance(checks, list), "the summary's schema has a list of checks"
    return Audited(
        str(summary["verdict"]),
        tuple((check["name"], check["verdict"], _words(check)) for check in checks if check["judged"]),
        exit_code,
    )


def _words(check: dict[str, object]) -> str:
    words = [f"{check['judged']} judged", f"{check['broken']} broken"]
    exempted = check["exempted"]
    if isinstance(exempted, dict) and (total := sum(exempted.values())):
        words.append(f"{total} exempted")
    reasons = check["reasons"]
    return ", ".join(words) + "".join(
        f"; {reason}" for reason in (reasons if isinstance(reasons, list) else [])
    )
