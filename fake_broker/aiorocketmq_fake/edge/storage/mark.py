"""How much was ever written to a data file, in a small file beside it: what a lost end of the file is noticed by.

SQLite drops everything in its write-ahead log from the first damaged place on, without a word, and does without a log
that is gone. So the number of commands that were written is kept elsewhere, too, and written after them."""

from __future__ import annotations

import logging
from pathlib import Path
from zlib import crc32

from aiorocketmq_fake.edge.storage.errors import DamagedDataError

__all__ = ["Mark", "beside"]

logger = logging.getLogger(__name__)

_SIZE = 30
"""Twenty digits, a blank, eight hexadecimal digits of their checksum, and the end of the line."""


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

    def read(self) -> int | None:
        """Return how many commands were written at least, None if unknown; DamagedDataError if it is no number."""
        self._file.seek(0)
        text = self._file.read(_SIZE)
        if not text:
            return None
        number, _, crc = text.strip().partition(b" ")
        if not number.isdigit() or crc != _checksum(number):
            raise DamagedDataError(self.path, "it is not as it was written")
        return int(number)

    def write(self, number: int) -> None:
        """Keep a number. It is not waited for: after a power failure it may be an older one, which accuses nobody."""
        digits = b"%020d" % number
        try:
            self._file.seek(0)
            self._file.write(digits + b" " + _checksum(digits) + b"\n")
        except OSError as error:
            logger.warning("%s cannot be written, a lost end would not be noticed: %s", self.path, error)


def _checksum(digits: bytes) -> bytes:
    return b"%08x" % crc32(digits)
