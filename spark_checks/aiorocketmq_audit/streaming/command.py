"""What `aiorocketmq audit --follow` does: follows until it is told to stop, and says how it ended by a number."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aiorocketmq_audit.errors import EXIT_OF, AuditError, WrongUse

if TYPE_CHECKING:
    from aiorocketmq_audit.streaming.batches import Told


def run(
    recording: Sequence[str],
    out: str | None,
    checks: Sequence[str],
    master: str | None,
    *,
    as_json: bool,
    until_complete: bool,
    until_idle: float | None,
    horizon: float | None,
) -> int:
    """Follow, print a line for each batch that found something, and return the exit code."""
    try:
        import pyspark  # noqa: F401  # asked for first, so that its absence is one sentence
    except ModuleNotFoundError:
        return _refuse("auditing needs pyspark: run pip install 'aiorocketmq[spark]'.", WrongUse.exit_code)
    if not recording:
        return _refuse(
            "give the folder that recorders write to: aiorocketmq audit --follow runs/ --out o/", 2
        )
    if out is None:
        return _refuse(
            "--follow needs --out, the folder for findings and for what it remembers.", WrongUse.exit_code
        )
    if horizon is not None and horizon <= 0:
        return _refuse("--horizon must be more than 0 seconds.", WrongUse.exit_code)
    try:
        return _follow(recording, Path(out), checks, master, as_json, until_complete, until_idle, horizon)
    except AuditError as error:
        return _refuse(str(error), error.exit_code)
    except PermissionError as error:
        return _refuse(f"{error.filename} cannot be written: give --out a folder that you may write to.", 2)


def _follow(
    recording: Sequence[str],
    out: Path,
    checks: Sequence[str],
    master: str | None,
    as_json: bool,
    until_complete: bool,
    until_idle: float | None,
    horizon: float | None,
) -> int:
    from aiorocketmq_audit.checks import CHECKS
    from aiorocketmq_audit.streaming.batches import Limits
    from aiorocketmq_audit.streaming.following import Options, follow

    limits = Limits() if horizon is None else Limits(horizon=horizon)
    options = Options(until_complete=until_complete, until_idle=until_idle, limits=limits)
    ended = follow(recording, out, checks=checks or tuple(CHECKS), options=options, master=master, tell=_say)
    if as_json:
        print((out / "following.json").read_text("utf-8").rstrip())
    else:
        print(f"{ended.verdict.value}: {' '.join(ended.reasons)}")
        print(f"findings: {json.dumps(str(out / 'violations'))}")
    return EXIT_OF[ended.verdict.value]


def _say(told: Told) -> None:
    if told.standing:
        found = ", ".join(f"{name} {n}" for name, n in sorted(told.standing.items()))
        upto = datetime.fromtimestamp((told.watermark_us or 0) / 1e6, UTC)
        print(f"batch {told.batch}, up to {upto:%Y-%m-%d %H:%M:%S}: {found}", file=sys.stderr, flush=True)


def _refuse(sentence: str, code: int) -> int:
    print(f"aiorocketmq audit: {sentence}", file=sys.stderr)
    return code
