"""Errors of a data folder, each one sentence with its remedy."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "DamagedDataError",
    "DataInUseError",
    "ForeignDataError",
    "IncompatibleStateError",
    "PersistenceError",
]


class PersistenceError(OSError):
    """A data folder cannot be written."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"cannot keep data in {folder}: {why}. Free space and permit this user to write there, or give another "
            "--data folder."
        )


class DamagedDataError(OSError):
    """A data file is damaged."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(
            f"{path} is damaged: {what}. Start with --repair (FakeBroker(repair=True)) to keep what can be read."
        )
        self.path = path
        """The file that is damaged."""
        self.what = what
        """What is wrong with it."""


class DataInUseError(OSError):
    """Another broker has the data file open."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is used by another broker: stop that one, or give another --data folder.")


class ForeignDataError(OSError):
    """A data file was written by another version, under another profile or for another broker."""


class IncompatibleStateError(ForeignDataError):
    """A data file was written by a version with an incompatible state."""
