"""How much was ever written to a data file, in a small file beside it: what a lost end of the file is noticed by.

SQLite drops everything in its write-ahead log from the first damaged place on, without a word, and does without a log
that is gone. So the number of commands that were written is kept elsewhere, too, and written after them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from aiorocketmq_fake.edge.storage.errors import DamagedDataError

__all__ = ["Mark", "Marked", "beside"]

logger = logging.getLogger(__name__)

_SIZE = 47
"""Twenty digits, a blank, sixteen hexadecimal digits, a blank, eight of a checksum, and the end of the line."""


class Marked(NamedTuple):
    """What a mark says."""

    number: int
    """How many commands were written at least."""
    folder: str
    """The name of the data file that it belongs to: no other has it."""


def beside(path: Path) -> Path:
    """Return where the mark of a data file is."""
    return path.with_name(f"{path.name}-mark")


class Mark:
    """The open mark of one data file."""

    def __init__(self, path: Path) -> None:
        """Open it, though it may be empty; OSError where that is not possible."""
        self.path = beside(path)
        self._file = self.path.open("r+b", buffering=0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> Marked | None:
        """Return what it says, None if that is nothing; DamagedDataError if it is not as it was written."""
        self._file.seek(0)
        text = self._file.read(_SIZE)
        if not text:
            return None
        said, _, crc = text.strip().rpartition(b" ")
        if len(text) != _SIZE or crc != _checksum(said):
            raise DamagedDataError(self.path, "it is not as it was written")
        number, _, folder = said.partition(b" ")
        return Marked(int(number), folder.decode())

    def write(self, number: int, folder: str) -> None:
        """Keep a number. It is not waited for: after a power failure it may be an older one, which accuses nobody."""
        said = b"%020d %s" % (number, folder.encode())
        try:
            self._file.seek(0)
            self._file.write(said + b" " + _checksum(said) + b"\n")
        except OSError as error:
            logger.warning("%s cannot be written, a lost end would not be noticed: %s", self.path, error)


def _checksum(said: bytes) -> bytes:
    return b"%08x" % crc32(said)
