"""Recordings by name, and what is expected of each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from spark_checks.tests.judgements.engine import Finding, Judgement, renamed

HERE = Path(__file__).parent


def names(patterns: Iterable[str] = (), root: Path = HERE) -> list[str]:
    """Names of recordings that match any of the patterns, the quickest ones first; all of them by default."""
    wanted = tuple(patterns) or ("*",)
    found = [file.stem for file in (root / "expected").glob("*.json")]
    return sorted(
        (name for name in found if any(fnmatch(name, pattern) for pattern in wanted)),
        key=lambda name: (size(name, root), name),
    )


def size(name: str, root: Path = HERE) -> int:
    """Bytes of a recording."""
    return sum(file.stat().st_size for file in parts(name, root))


def parts(name: str, root: Path = HERE) -> list[Path]:
    """The files of a recording."""
    return sorted(path_of(name, root).glob("*.parquet")) or [path_of(name, root)]


def path_of(name: str, root: Path = HERE) -> Path:
    """What to audit: a file, or a folder of files."""
    folder = root / "recordings" / name
    return folder if folder.is_dir() else folder.with_name(f"{name}.parquet")


def expected(name: str, root: Path = HERE) -> Judgement:
    """What must be judged, with the engine's names of exemptions."""
    document = json.loads((root / "expected" / f"{name}.json").read_text("utf-8"))
    recorders = [*document["recorders"], None]
    findings = (
        Finding(invariant, verdict, exemption, recorders[first], first_seq, recorders[second], second_seq)
        for invariant, verdict, exemption, first, first_seq, second, second_seq in document["findings"]
    )
    checks = {check: (verdict, judged) for check, (verdict, judged) in document["checks"].items()}
    return Judgement(document["verdict"], checks, renamed(findings))


def accept(name: str, judgement: Judgement, root: Path = HERE) -> None:
    """Expect this from now on; a line for each finding, so that a diff shows what changed."""
    recorders = sorted({each[at] for each in judgement.findings for at in (3, 5)} - {None}, key=str)
    places = {recorder: place for place, recorder in enumerate(recorders)} | {None: -1}
    rows = sorted(
        ([*each[:3], places[each[3]], each[4], places[each[5]], each[6]] for each in judgement.findings),
        key=lambda row: [(cell is not None, cell) for cell in row],
    )
    parts = {
        "checks": {check: list(of) for check, of in judgement.checks.items()},
        "recorders": recorders,
        "findings": rows,
    }
    texts = [f'"verdict": {json.dumps(judgement.verdict)}']
    texts += [f"{json.dumps(key)}: {_lines(value)}" for key, value in parts.items()]
    target = root / "expected" / f"{name}.json"
    target.write_text("{" + ",\n".join(texts) + "}\n", encoding="utf-8")


def _lines(values: object) -> str:
    """JSON with one element of the outermost container a line."""
    if isinstance(values, dict):
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
        return "{\n" + ",\n".join(lines) + "}"
    assert isinstance(values, list)
    return "[\n" + ",\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "]"
