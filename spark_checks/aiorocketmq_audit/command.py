"""What the command does: audits, prints, writes files, and says how it ended by a number."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiorocketmq_audit.errors import AuditError, WrongUse

EXIT_OF = {"valid": 0, "invalid": 1, "unknown": 3}
EXIT_USAGE = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say beyond the recording and the checks; None where they say nothing."""

    memory: str | None = None
    groups: tuple[str, ...] = ()
    from_us: int | None = None
    to_us: int | None = None
    early_ms: int | None = None
    skew_ms: int | None = None


def run(
    recording: Sequence[str],
    out: str | None,
    checks: Sequence[str],
    master: str | None,
    *,
    as_json: bool,
    warm_up: bool,
    wanted: Wanted | None = None,
) -> int:
    """Audit and return the exit code (architecture, section 10); every foreseen error is one sentence."""
    try:
        import pyspark  # noqa: F401  # asked for first, so that its absence is one sentence
    except ModuleNotFoundError:
        return _refuse("auditing needs pyspark: run pip install 'aiorocketmq[spark]'.", EXIT_USAGE)
    try:
        if warm_up:
            from aiorocketmq_audit.warm_up import warm_up as prepare

            made = prepare()
            print(f"prepared: {made} ({made.stat().st_size >> 20} MB)", file=sys.stderr)
            if not recording:
                return 0
        if not recording:
            return _refuse("give the folder of a recording, for example: aiorocketmq audit runs/", EXIT_USAGE)
        return _audit(recording, out, checks, master, wanted or Wanted(), as_json=as_json)
    except AuditError as error:
        return _refuse(str(error), error.exit_code)
    except Exception as error:
        from aiorocketmq_audit.failures import explained

        known = explained(error, out)
        if known is None:
            raise
        return _refuse(str(known), known.exit_code)


def _audit(
    recording: Sequence[str],
    out: str | None,
    checks: Sequence[str],
    master: str | None,
    wanted: Wanted,
    *,
    as_json: bool,
) -> int:
    from aiorocketmq_audit.checks import CHECKS
    from aiorocketmq_audit.narrowing import Narrowing
    from aiorocketmq_audit.report.page import files
    from aiorocketmq_audit.report.summary import summary
    from aiorocketmq_audit.run import audit

    folder = None if out is None else _folder(Path(out))
    violations = None if folder is None else (folder / "violations").resolve().as_uri()
    narrowing = Narrowing(wanted.groups, wanted.from_us, wanted.to_us, wanted.early_ms, wanted.skew_ms)
    result = audit(
        recording,
        checks=checks or tuple(CHECKS),
        master=master,
        violations=violations,
        narrowing=narrowing,
        memory=wanted.memory,
    )
    document = summary(result, {name: check.promise for name, check in CHECKS.items()})
    if folder is not None:
        (folder / "plots").mkdir(exist_ok=True)
        for old in (folder / "plots").glob("*.svg"):
            old.unlink()
        for name, text in files(result, document).items():
            (folder / name).write_text(text, encoding="utf-8")
    if as_json:
        print(json.dumps(document))
    else:
        from aiorocketmq_audit.report.terminal import show

        show(document, folder)
    return EXIT_OF[result.verdict.value]


def _folder(path: Path) -> Path:
    """Make it, and try it out before anything is read: an audit may take an hour."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / "_trial"
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise WrongUse(
            f"--out {path} cannot be written to ({error.strerror}): give another folder."
        ) from error
    return path


def _refuse(sentence: str, code: int) -> int:
    print(f"aiorocketmq audit: {sentence}", file=sys.stderr)
    return code
