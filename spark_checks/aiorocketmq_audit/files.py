"""Which files a recording consists of, and which of them a dying recorder left unfinished."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from aiorocketmq_audit.errors import NotARecording, WrongUse

ESSENTIAL = frozenset(
    {
        *("phase", "op_id", "invoked_us", "group", "topic", "broker", "queue", "offset", "message_id"),
        *(
            "message_group",
            "attempt",
            "delivery",
            "batch",
            "filter",
            "tag",
            "invisible_ms",
            "due_us",
            "body_sha",
        ),
        *("client_id", "cfg"),
    }
)
"""Columns of version 1 that every recorder writes and that no check can do without."""

MAGIC = b"PAR1"
"""First and last four bytes of every finished Parquet file."""


EMPTY = 16 << 10
"""Bytes of a file with a handful of rows: its columns are told in its footer, whatever they hold."""


@dataclass(frozen=True, slots=True)
class RecordingFiles:
    """What to read, and what is known to be missing."""

    readable: tuple[str, ...]
    """Paths for Spark: files, or whatever was given where this machine cannot look (`s3a://…`)."""
    unfinished: tuple[str, ...]
    """Files that were still open, or have no footer: what they held is lost."""
    size: int
    """Bytes of the readable local files, beyond EMPTY for each; 0 when they are elsewhere."""
    lacking: tuple[str, ...] = ()
    """Columns without which checks have nothing to judge, that some local file lacks."""

    @property
    def is_local(self) -> bool:
        """All that is readable are files of this machine."""
        return not any("://" in path for path in self.readable)


def find(paths: tuple[str, ...]) -> RecordingFiles:
    """Look below `paths` for Parquet files, without reading more of them than eight bytes.

    Raises WrongUse for a path that does not exist, NotARecording where nothing looks like a recording.
    """
    readable: list[str] = []
    unfinished: list[str] = []
    size = 0
    for given in paths:
        if "://" in given and not given.startswith("file://"):
            readable.append(given)
            continue
        for file in _below(Path(given.removeprefix("file://"))):
            if file.suffix == ".open" or not _is_finished(file):
                unfinished.append(str(file))
            else:
                readable.append(str(file))
                size += max(1, file.stat().st_size - EMPTY)
    if not readable and not unfinished:
        raise NotARecording(
            f"{_names(paths)} holds no Parquet file: give the folder that Recorder(...) or --record wrote."
        )
    lacking = _lacking(path for path in readable if "://" not in path)
    return RecordingFiles(tuple(readable), tuple(unfinished), size, lacking)


def _below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise WrongUse(f"{path} does not exist: give the folder or file of a recording.")
    found = [*path.rglob("*.parquet"), *path.rglob("*.parquet.open")]
    # Spark hides these names as well; a report's own violations must not be taken for a recording.
    return sorted(f for f in found if f.is_file() and not _is_hidden(f.relative_to(path)))


def _is_hidden(relative: Path) -> bool:
    return any(part.startswith(("_", ".")) or part == "violations" for part in relative.parts)


def _is_finished(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            head = stream.read(len(MAGIC))
            size = stream.seek(0, 2)
            stream.seek(max(0, size - len(MAGIC)))
            tail = stream.read()
    except OSError as error:
        raise NotARecording(
            f"{file} cannot be read ({error.strerror}): mend that, or take it away."
        ) from error
    # A file of no bytes is what a crash leaves between creation and the first write.
    if head and head != MAGIC:
        raise NotARecording(f"{file} is not a Parquet file: give the folder of a recording.")
    return size > 2 * len(MAGIC) and tail == MAGIC


def _lacking(files: Iterable[str]) -> tuple[str, ...]:
    """What is missing from the footers of local files; nothing where pyarrow is not there to read them."""
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        return ()
    missing: set[str] = set()
    for file in files:
        try:
            missing |= ESSENTIAL.difference(parquet.read_schema(file).names)
        except (ArrowException, OSError):
            # Spark will say in its own words what is wrong with it.
            continue
    # A file without any of them is something else, and is refused as such.
    return tuple(sorted(missing)) if missing != ESSENTIAL else ()


def _names(paths: tuple[str, ...]) -> str:
    return paths[0] if len(paths) == 1 else f"none of {', '.join(paths)}"
