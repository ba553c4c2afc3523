"""Errors of disks and files as one sentence each, without names of Java classes; defects keep their traceback."""

from __future__ import annotations

import re

from aiorocketmq_audit.errors import AuditError, InvalidRecordingError, OutputError

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "FAILED_READ_FILE.NO_HINT", "PATH_NOT_FOUND")
_UNWRITABLE = (
    "TASK_WRITE_FAILED",
    "Mkdirs failed",
    "mkdir of file",
    "Read-only file system",
    "Permission denied",
)

_JAVA = re.compile(
    r"\[[A-Z_.]+\] |\.? SQLSTATE: \w+|(?<![\w/.-])(?:[a-z]\w*\.){2,}[A-Z][\w$]*:? ?|\b\w+(?:Exception|Error): "
)
"""Conditions and SQL states of Spark errors, and names of Java classes."""
_NO_FILE_SYSTEM = re.compile(r"No FileSystem for scheme|Class \S+FileSystem not found")

_FILE = re.compile(r"file:/*(/[^\s,;]+)")
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')


def explained(error: Exception, out: str | None) -> AuditError | None:
    """Return the error of a disk or a file as an AuditError, with results going to `out`; None for a defect.

    Call it while the Spark session runs: the texts of Java's errors are fetched from the JVM on access.
    """
    text = str(error)
    if any(sign in text for sign in _FULL):
        return OutputError(f"the disk is full ({_place(error, out)}): free space, or give another --out.")
    if isinstance(error, OSError):
        return OutputError(
            f"{_place(error, out)} could not be written ({error.strerror or error}): give another --out."
        )
    if any(sign in text for sign in _UNREADABLE):
        match = _FILE.search(text)
        return InvalidRecordingError(
            f"{match[1] if match else 'a file of the recording'} cannot be read ({reason(error)}): "
            "it is damaged; remove it, and the verdict will be unknown."
        )
    if program := _PROGRAM.search(text):
        return OutputError(
            f"{_place(error, out)} could not be written, as Hadoop needs the program {program[1]}: "
            "add its folder to PATH."
        )
    if any(sign in text for sign in _UNWRITABLE):
        return OutputError(
            f"{_place(error, out)} could not be written ({reason(error)}): give another --out."
        )
    return None


def unreadable(error: Exception) -> InvalidRecordingError:
    """Return the error for files that Spark cannot read for any other reason."""
    return InvalidRecordingError(
        f"Spark cannot read these files as a recording ({reason(error)}): "
        "give the folder that Recorder(...) or --record wrote."
    )


def reason(error: Exception) -> str:
    """Return the innermost cause in the text of a Spark error, or its first line."""
    text = str(error)
    if _NO_FILE_SYSTEM.search(text):
        return "Spark has no package that reads such addresses; add one by spark.jars.packages"
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    # Py4J writes the error itself on the second line, after a colon.
    causes = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return _JAVA.sub("", (causes or lines)[-1 if causes else 0]).strip()


def _place(error: Exception, out: str | None) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return str(name or (out or "Spark's own temporary files").removeprefix("file://"))
