"""What the command does: audits, prints, writes files, and says how it ended by a number."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from aiorocketmq_audit.errors import AuditError

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
    from aiorocketmq_audit.recording.narrowing import Narrowing
    from aiorocketmq_audit.recording.out import out_folder
    from aiorocketmq_audit.report import write
    from aiorocketmq_audit.run import audit
    from aiorocketmq_audit.summary import summary

    with out_folder(Path(out)) if out is not None else nullcontext() as folder:
        narrowing = Narrowing(wanted.groups, wanted.from_us, wanted.to_us, wanted.early_ms, wanted.skew_ms)
        result = audit(
            recording,
            checks=checks or tuple(CHECKS),
            master=master,
            violations=None if folder is None else folder.path_for("violations").resolve().as_uri(),
            narrowing=narrowing,
            memory=wanted.memory,
        )
        document = summary(result)
        if folder is not None:
            folder.path_for("summary.json").write_text(
                json.dumps(document, indent=2) + "\n", encoding="utf-8"
            )
            write(result, folder.fresh)
    if as_json:
        print(json.dumps(document))
    else:
        from aiorocketmq_audit.printing import show

        show(result, None if folder is None else folder.path)
    return EXIT_OF[result.verdict.value]


def _refuse(sentence: str, code: int) -> int:
    print(f"aiorocketmq audit: {sentence}", file=sys.stderr)
    return code
