"""The folder of results: written beside the former ones, and swapped in when all is written.

Only what an audit wrote is replaced: the file MARKER lists it, with sizes. Links are never followed. A name in the
folder that holds anything else is refused, before anything is read.
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

from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.failures import reason

NAMES = ("report.html", "summary.json", "plots", "violations")
"""What an audit writes."""

MARKER = "_audit.json"
"""Spark and `files.find` leave out names that begin so."""

Written = set[tuple[str, int]]
"""Files that an audit wrote: their paths in the folder, and bytes."""


@dataclass(frozen=True, slots=True)
class OutFolder:
    """Results that are being written."""

    path: Path
    """Where they will be."""
    fresh: Path
    """An empty folder on the same disk, which holds them until then."""

    def path_for(self, name: str) -> Path:
        """Where to write the file or folder `name` of the results."""
        return self.fresh / name


@contextmanager
def out_folder(path: Path) -> Iterator[OutFolder]:
    """Make the folder `path` if need be, and replace the former results in it by what the block writes.

    A block that raises leaves the former results. Raises WrongUse if the folder cannot be written to, or holds under
    one of NAMES a link or something that no audit wrote.
    """
    fresh = path / f"_audit-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        _refuse_foreign(path, NAMES)
        fresh.mkdir()
    except OSError as error:
        raise WrongUse(
            f"--out {path} cannot be written to ({error.strerror}): give another folder."
        ) from error
    try:
        yield OutFolder(path, fresh)
        _swap(path, fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def claim_remote(spark: SparkSession, url: str) -> None:
    """Mark a folder that only Spark can write, so that results below it may be overwritten, this time and later.

    Raises WrongUse if it exists and no audit marked it, or if it cannot be written.
    """
    marker = f"{url.rstrip('/')}/{MARKER}"
    try:
        if _exists(spark, url) and not _exists(spark, marker):
            raise WrongUse(f"--out {url} exists, and no audit made it: give another folder.")
        text = F.lit(json.dumps({"files": []}))
        spark.range(1).select(text).coalesce(1).write.mode("overwrite").text(marker)
    except (PySparkException, Py4JJavaError) as error:
        raise WrongUse(f"--out {url} cannot be written to ({reason(error)}): give another folder.") from error


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
                raise WrongUse(f"{file} is a link, which --out does not follow: remove it.")
            if name != MARKER and _entry(folder, file) not in written:
                raise WrongUse(
                    f"{file} was not written by an audit: remove it, or give --out another folder."
                )


def _below(path: Path) -> Iterator[Path]:
    """The file or link at `path`, or all that are below it."""
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
    """Write the marker in one step; `fresh` is on the same disk."""
    (fresh / MARKER).write_text(json.dumps({"files": sorted(written)}, indent=1) + "\n", "utf-8")
    os.replace(fresh / MARKER, folder / MARKER)


def _swap(folder: Path, fresh: Path) -> None:
    """Put everything in `fresh` in the place of all that the marker lists."""
    names = sorted(each.name for each in fresh.iterdir())
    _refuse_foreign(folder, {*NAMES, *names})
    former, written = (
        _marked(folder),
        {_entry(fresh, file) for name in names for file in _below(fresh / name)},
    )
    # Killed in between, the next audit finds both marked.
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
