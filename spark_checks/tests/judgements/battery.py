"""The entries of the battery: a recording, how it is narrowed, and what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from spark_checks.tests.judgements.engine import Finding, Judgement

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One audit of one recording."""

    name: str
    path: Path
    """What to audit: a file, or a folder of files."""
    narrowing: Mapping[str, Any]
    """What the audit is limited to, by the names of the command's options; mostly nothing."""
    expected: Judgement

    @property
    def files(self) -> list[Path]:
        """The files of the recording."""
        return sorted(self.path.glob("*.parquet")) or [self.path]


def entries(patterns: Iterable[str] = (), root: Path = HERE) -> list[Entry]:
    """Those whose name matches any of the patterns, small recordings first; all of them by default."""
    globs = tuple(patterns) or ("*",)
    files = (root / "expected").glob("*.json")
    result = [_entry(file, root) for file in files if any(fnmatch(file.stem, each) for each in globs)]
    return sorted(result, key=lambda entry: (sum(file.stat().st_size for file in entry.files), entry.name))


def _entry(file: Path, root: Path) -> Entry:
    document = json.loads(file.read_text("utf-8"))
    folder = root / "recordings" / document.get("recording", file.stem)
    path = folder if folder.is_dir() else folder.with_name(f"{folder.name}.parquet")
    recorders = [*document["recorders"], None]
    findings = frozenset(
        Finding(invariant, verdict, exemption, recorders[first], first_seq, recorders[second], second_seq)
        for invariant, verdict, exemption, first, first_seq, second, second_seq in document["findings"]
    )
    checks = {check: (verdict, judged) for check, (verdict, judged) in document["checks"].items()}
    judgement = Judgement(document["verdict"], checks, findings)
    return Entry(file.stem, path, document.get("narrowing", {}), judgement)


def accept(entry: Entry, judgement: Judgement, root: Path = HERE) -> None:
    """Expect this from now on; a line for each finding, so that a diff shows what changed."""
    recorders = sorted({each[at] for each in judgement.findings for at in (3, 5)} - {None}, key=str)
    places = {recorder: place for place, recorder in enumerate(recorders)} | {None: -1}
    rows = sorted(
        ([*each[:3], places[each[3]], each[4], places[each[5]], each[6]] for each in judgement.findings),
        key=lambda row: [(cell is not None, cell) for cell in row],
    )
    head: dict[str, Any] = {"verdict": judgement.verdict}
    if entry.path.stem != entry.name:
        head["recording"] = entry.path.stem
    if entry.narrowing:
        head["narrowing"] = entry.narrowing
    texts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines = ",\n".join(f"{json.dumps(check)}: {json.dumps(of)}" for check, of in judgement.checks.items())
    texts.append(f'"checks": {{\n{lines}}}')
    for key, values in (("recorders", recorders), ("findings", rows)):
        lines = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
        texts.append(f'"{key}": [\n{lines}]')
    (root / "expected" / f"{entry.name}.json").write_text("{" + ",\n".join(texts) + "}\n", encoding="utf-8")
