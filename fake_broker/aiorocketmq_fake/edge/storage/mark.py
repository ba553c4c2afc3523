"""The mark: number of commands written to a data file, in a separate small file, to detect a lost end of the data
file.

SQLite silently drops its write-ahead log from the first damaged frame on, and ignores a missing log. So the number of
written commands is also stored elsewhere, after each write.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from aiorocketmq_fake.edge.storage.errors import DamagedDataError

__all__ = ["Mark", "Marked", "beside"]

logger = logging.getLogger("aiorocketmq_fake.data")

_SIZE = 47
"""Twenty digits, a blank, sixteen hexadecimal digits, a blank, eight of a checksum, and the end of the line."""


class Marked(NamedTuple):
    """The content of a mark."""

    number: int
    """Minimal number of written commands."""
    folder: str
    """The unique id of its data file."""


def beside(path: Path) -> Path:
    """Return the path of the mark of a data file."""
    return path.with_name(f"{path.name}-mark")


class Mark:
    """The open mark of one data file."""

    def __init__(self, path: Path) -> None:
        """Open it, perhaps empty; OSError if that fails."""
        self.path = beside(path)
        self._file = self.path.open("r+b", buffering=0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> Marked | None:
        """Return its content, None if it is empty; DamagedDataError if it is damaged."""
        self._file.seek(0)
        text = self._file.read(_SIZE)
        if not text:
            return None
        content, _, crc = text.strip().rpartition(b" ")
        if len(text) != _SIZE or crc != _checksum(content):
            raise DamagedDataError(self.path, "its checksum differs")
        number, _, folder = content.partition(b" ")
        return Marked(int(number), folder.decode())

    def write(self, number: int, folder: str) -> None:
        """Store a number, without fsync: after a power failure it may be an older one, which reports no damage."""
        content = b"%020d %s" % (number, folder.encode())
        try:
            self._file.seek(0)
            self._file.write(content + b" " + _checksum(content) + b"\n")
        except OSError as error:
            logger.warning(
                "cannot write %s, a lost end of the data file would be undetected: %s", self.path, error
            )


def _checksum(content: bytes) -> bytes:
    return b"%08x" % crc32(content)
