"""The output folder: results are written to a temporary folder and swapped in when complete.

Only files written by an audit are replaced: the file MARKER lists them, with sizes. Links are never followed. If a
result's name is taken by anything else, the audit is rejected before any input is read.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.failures import reason

NAMES = ("report.html", "summary.json", "plots", "violations")
"""Names that an audit writes."""

MARKER = "_audit.json"
"""Spark and `files.find` ignore names with a leading underscore."""

Written = set[tuple[str, int]]
"""Files that an audit wrote: their paths in the folder, and bytes."""


@dataclass(frozen=True, slots=True)
class OutFolder:
    """An output folder whose results are being written."""

    path: Path
    """The final folder."""
    fresh: Path
    """A temporary folder on the same disk."""

    def path_for(self, name: str) -> Path:
        """Return the path for writing the file or folder `name` of the results."""
        return self.fresh / name


@contextmanager
def out_folder(path: Path) -> Iterator[OutFolder]:
    """Create the folder `path` if necessary, and replace the former results in it by those of the block.

    If the block raises, the former results are kept. Raises UsageError if the folder is not writable, or if one of
    NAMES is a link or was not written by an audit.
    """
    fresh = path / f"_audit-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(path, NAMES)
        fresh.mkdir()
    except OSError as error:
        raise UsageError(
            f"--out {path} cannot be written to ({error.strerror}): give another folder."
        ) from error
    try:
        yield OutFolder(path, fresh)
        _swap(path, fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def claim_remote(spark: SparkSession, url: str) -> None:
    """Mark a remote folder, so that results below it may be overwritten, now and later.

    Raises UsageError if it exists without a mark, or if it is not writable.
    """
    marker = f"{url.rstrip('/')}/{MARKER}"
    try:
        if _exists(spark, url) and not _exists(spark, marker):
            raise UsageError(f"--out {url} exists, and was not created by an audit: give another folder.")
        text = F.lit(json.dumps({"files": []}))
        spark.range(1).select(text).coalesce(1).write.mode("overwrite").text(marker)
    except (PySparkException, Py4JJavaError) as error:
        raise UsageError(
            f"--out {url} cannot be written to ({reason(error)}): give another folder."
        ) from error


def _exists(spark: SparkSession, url: str) -> bool:
    try:
        spark.read.format("binaryFile").load(url)
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def _refuse_foreign(folder: Path, names: Iterable[str]) -> None:
    written = _marked(folder)
    for name in (MARKER, *names):
        for file in _below(folder / name):
            if file.is_symlink():
                raise UsageError(f"{file} is a link, which --out does not follow: remove it.")
            if name != MARKER and _entry(folder, file) not in written:
                raise UsageError(
                    f"{file} was not written by an audit: remove it, or give --out another folder."
                )


def _below(path: Path) -> Iterator[Path]:
    """Yield the file or link at `path`, or all files and links below it."""
    if path.is_dir() and not path.is_symlink():
        for each in path.iterdir():
            yield from _below(each)
    elif os.path.lexists(path):
        yield path


def _entry(folder: Path, file: Path) -> tuple[str, int]:
    return file.relative_to(folder).as_posix(), file.lstat().st_size


def _marked(folder: Path) -> Written:
    try:
        return {
            (str(path), int(size)) for path, size in json.loads((folder / MARKER).read_text("utf-8"))["files"]
        }
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return set()


def _mark(folder: Path, fresh: Path, written: Written) -> None:
    """Write the marker atomically; `fresh` is on the same disk."""
    (fresh / MARKER).write_text(json.dumps({"files": sorted(written)}, indent=1) + "\n", "utf-8")
    os.replace(fresh / MARKER, folder / MARKER)


def _swap(folder: Path, fresh: Path) -> None:
    """Replace all files that the marker lists by those in `fresh`."""
    names = sorted(each.name for each in fresh.iterdir())
    _refuse_foreign(folder, {*NAMES, *names})
    former, written = (
        _marked(folder),
        {_entry(fresh, file) for name in names for file in _below(fresh / name)},
    )
    # If the process is killed in between, both are marked for the next audit.
    _mark(folder, fresh, former | written)
    aside = fresh / "_former"
    aside.mkdir()
    moved: list[tuple[Path, Path]] = []
    try:
        for name in sorted({*names, *(path.partition("/")[0] for path, _ in former)}):
            moves = ((folder / name, aside / name), (fresh / name, folder / name))
            for source, target in moves:
                if os.path.lexists(source):
                    os.rename(source, target)
                    moved.append((source, target))
    except OSError:
        for source, target in reversed(moved):
            os.rename(target, source)
        raise
    _mark(folder, fresh, written)
