"""Which files of a recording lie in its folders now, by series: a recorder's files share all but the number."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from aiorocketmq_audit.streaming.progress import Listing

ABANDONED = 600.0
"""Seconds after which an open file that nobody has written to is one that a dead process left."""


def series(name: str) -> str:
    """`RECORDER` of `RECORDER-NNNNN.parquet`, or the name itself where it is made otherwise."""
    stem = name.removesuffix(".open").removesuffix(".parquet")
    head, dash, number = stem.rpartition("-")
    return head if dash and number.isdecimal() else stem


def listing(folders: Sequence[str]) -> Listing:
    """Look at folders of this machine; others (`s3a://…`) are not looked at, so nothing there seems to wait."""
    finished: Counter[str] = Counter()
    being_written: set[str] = set()
    for folder in folders:
        if "://" in folder:
            continue
        for file in Path(folder).rglob("*.parquet*"):
            if any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts):
                continue
            if file.name.endswith(".parquet"):
                finished[series(file.name)] += 1
            elif file.name.endswith(".parquet.open") and not _is_abandoned(file):
                being_written.add(series(file.name))
    return Listing(finished, frozenset(being_written))


def _is_abandoned(file: Path) -> bool:
    try:
        return time.time() - os.stat(file).st_mtime > ABANDONED
    except FileNotFoundError:
        # It was finished in between, and is counted the next time.
        return False
