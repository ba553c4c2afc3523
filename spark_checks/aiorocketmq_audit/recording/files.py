"""Locates the files of a recording, and those that a crashed recorder left unfinished."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from aiorocketmq_audit.errors import InvalidRecordingError, UsageError
from aiorocketmq_audit.recording.validation import lacking_columns

MAGIC = b"PAR1"
"""First and last four bytes of every finished Parquet file."""

EMPTY = 16 << 10
"""Bytes of a file with a few rows: its footer describes all columns."""


@dataclass(frozen=True, slots=True)
class RecordingFiles:
    """The files to read, and the unreadable ones."""

    readable: tuple[str, ...]
    """Paths for Spark: local files, and remote paths as they were given (`s3a://…`)."""
    unfinished: tuple[str, ...]
    """Files that were still open, or have no footer: their rows are lost."""
    size: int
    """Bytes of the readable local files, beyond EMPTY for each; 0 if all are remote."""
    lacking: tuple[str, ...] = ()
    """Essential columns that are missing in some local file."""

    @property
    def is_local(self) -> bool:
        """Whether all readable files are local."""
        return not any("://" in path for path in self.readable)


def find(paths: tuple[str, ...]) -> RecordingFiles:
    """Search `paths` for Parquet files, and validate the columns of local ones by their footers.

    Raises UsageError for an unknown path, and InvalidRecordingError for unreadable files and those of another kind.
    """
    readable: list[str] = []
    unfinished: list[str] = []
    size = 0
    for path in paths:
        if "://" in path and not path.startswith("file://"):
            readable.append(path)
            continue
        for file in _below(Path(path.removeprefix("file://"))):
            if file.suffix == ".open" or not _is_finished(file):
                unfinished.append(str(file))
            else:
                readable.append(str(file))
                size += max(1, file.stat().st_size - EMPTY)
    if not readable and not unfinished:
        raise InvalidRecordingError(
            f"{_names(paths)} holds no Parquet file: give the folder that Recorder(...) or --record wrote."
        )
    lacking = lacking_columns(path for path in readable if "://" not in path)
    return RecordingFiles(tuple(readable), tuple(unfinished), size, lacking)


def _below(path: Path) -> list[Path]:
    """Return all Parquet files below, following links, each folder once."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise UsageError(f"{path} does not exist, or is hidden: give the folder or file of a recording.")
    files: list[Path] = []
    folders = set[str]()
    # By default, unreadable folders would be skipped silently.
    for folder, below, names in os.walk(path, onerror=_refuse, followlinks=True):
        folders.add(os.path.realpath(folder))
        # Spark ignores these names as well; an audit's own violations must not be read as a recording.
        below[:] = [
            name
            for name in below
            if not _is_hidden(name) and os.path.realpath(os.path.join(folder, name)) not in folders
        ]
        files += [
            Path(folder, name)
            for name in names
            if name.endswith((".parquet", ".parquet.open")) and not _is_hidden(name)
        ]
    return sorted(files)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", ".")) or name == "violations"


def _refuse(error: OSError) -> NoReturn:
    raise InvalidRecordingError(
        f"{error.filename} cannot be read ({error.strerror}): fix that, or remove it."
    ) from error


def _is_finished(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            head = stream.read(len(MAGIC))
            size = stream.seek(0, 2)
            stream.seek(max(0, size - len(MAGIC)))
            tail = stream.read()
    except OSError as error:
        # Errors of reads do not contain the file name.
        _refuse(OSError(error.errno, error.strerror, str(file)))
    # An empty file is left by a crash between creation and the first write.
    if head and head != MAGIC:
        raise InvalidRecordingError(f"{file} is not a Parquet file: give the folder of a recording.")
    return size > 2 * len(MAGIC) and tail == MAGIC


def _names(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"none of {', '.join(paths)}"
