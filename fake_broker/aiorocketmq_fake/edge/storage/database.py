"""The data file: SQLite in WAL mode, with the log's messages, the last checkpoint and the journal since then."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from zlib import crc32

from aiorocketmq_fake.core.values.model import StoredMessage
from aiorocketmq_fake.edge.storage.codec import UNREADABLE, read_message, write_message
from aiorocketmq_fake.edge.storage.errors import (
    DamagedDataError,
    DataInUseError,
    ForeignDataError,
    PersistenceError,
)
from aiorocketmq_fake.edge.storage.mark import Mark, beside
from aiorocketmq_fake.edge.storage.pages import Row

__all__ = ["Checkpoint", "Database", "Saved", "checksum", "sealed"]

FORMAT = "4"
"""Layout of the file and module paths of the stored classes; another format is refused."""
PLACES = 1 << 40
"""Positions per queue; a row's key is the queue's number and the position in one integer, so that a page is one
range."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS message (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, copy BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (
    id INTEGER PRIMARY KEY CHECK (id = 1), crc INTEGER NOT NULL, state BLOB NOT NULL, upto INTEGER NOT NULL,
    outline_crc INTEGER NOT NULL, outline TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, commands BLOB NOT NULL, upto INTEGER NOT NULL
);
"""
"""`upto` counts the commands up to this one since the file was made.

Checksums also cover the file's id and the row's key, so that rows of another file or position are detected.
"""

_CANNOT = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY),
    }
)
"""Errors of SQLite with an intact file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What one checkpoint writes, all of it or nothing."""

    state: bytes
    outline: str
    commands: int
    """How many commands are in the state that were not written before."""
    rows: list[Row]
    dead: list[int]
    floors: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Saved:
    """The last checkpoint."""

    state: bytes
    upto: int


class Database:
    """One open data file. The event loop's thread reads, one other thread at a time writes."""

    def __init__(self, path: Path) -> None:
        """Open or create, for this user alone.

        DataInUseError if another broker has it, ForeignDataError if its format is another, DamagedDataError if it is
        no data file, OSError if it cannot be written.
        """
        self.path = path
        self._count: int | None = None
        self._about: Mapping[str, str] = {}
        with ExitStack() as stack:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                for each in (path, lock_of(path), beside(path)):
                    _make_private(each)
                self._lock = stack.enter_context(closing(_lock(path)))
                self._mark = stack.enter_context(closing(Mark(path)))
                self._writer = stack.enter_context(closing(_connect(path)))
                self._reader = stack.enter_context(closing(_connect(path)))
                self._check_format()
                self._writer.executescript(SCHEMA)
                self._folder = self._find_folder()
            except (DataInUseError, ForeignDataError):
                raise
            except OSError as error:
                raise PersistenceError(path.parent, str(error.strerror)) from error
            except sqlite3.DatabaseError as error:
                raise self.failure(error) from error
            self._open = stack.pop_all()

    def close(self) -> None:
        """Close the file and release its lock."""
        self._open.close()

    def failure(self, error: sqlite3.DatabaseError) -> PersistenceError | DamagedDataError:
        """Return the error for a damaged file, or for one that cannot be written."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        # The file could be opened for writing: without a further reason of SQLite, its content forbids it.
        if code == sqlite3.SQLITE_READONLY or code & 0xFF not in _CANNOT:
            return DamagedDataError(self.path, str(error))
        return PersistenceError(self.path.parent, str(error))

    # Reading

    def _check_format(self) -> None:
        """Raise ForeignDataError if the file has another format, whatever its tables and checksums."""
        try:
            about = dict(self._reader.execute("SELECT name, value FROM about").fetchall())
        except sqlite3.DatabaseError:
            return  # New or damaged.
        format_, crc = about.get("format"), about.pop("crc", None)
        if format_ == FORMAT or not (isinstance(format_, str) and format_.isdecimal()):
            return
        if crc == sealed({**about, "format": FORMAT})["crc"]:
            return  # The checksum is that of our format: the number is damaged.
        raise ForeignDataError(
            f"{self.path} has data format {format_}, written by aiorocketmq {about.get('version')}; "
            f"aiorocketmq {version('aiorocketmq')} reads data format {FORMAT}: start with the version that wrote it, "
            "or give another --data folder."
        )

    def _find_folder(self) -> str:
        """Return the file's id from itself, else from its mark, else a new one."""
        with suppress(DamagedDataError):
            about = self.about()
            if about:
                return about["folder"]
        with suppress(DamagedDataError):
            marked = self._mark.read()
            if marked is not None:
                return marked.folder
        return token_hex(8)

    def about(self) -> Mapping[str, str]:
        """Return the file's description; DamagedDataError if its checksum differs."""
        with self._damage():
            about = dict(self._reader.execute("SELECT name, value FROM about").fetchall())
        if about and about != sealed({name: value for name, value in about.items() if name != "crc"}):
            raise DamagedDataError(self.path, "its description has another checksum")
        return about

    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        with self._damage():
            return self._reader.execute("SELECT 1 FROM checkpoint").fetchone() is None and not self.about()

    def check_complete(self) -> None:
        """Raise DamagedDataError if commands are missing: the end of the write-ahead log is lost."""
        with self._damage():
            written, marked = _upto(self._reader), self._mark.read()
        if marked is None:
            if written:
                what = f"{self._mark.path.name} is missing, which counts the written commands"
                raise DamagedDataError(self.path, what)
        elif marked.folder != self._folder:
            what = f"it and {self._mark.path.name} belong to different folders"
            raise DamagedDataError(self.path, what)
        elif written < marked.number:
            lost = marked.number - written
            what = f"{lost} of the {marked.number} commands that were written are missing at its end"
            raise DamagedDataError(self.path, what)

    def check(self) -> None:
        """Run SQLite's integrity check; DamagedDataError if it fails."""
        with self._damage():
            (verdict,) = self._reader.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise DamagedDataError(self.path, str(verdict).splitlines()[-1])

    def saved(self) -> Saved | None:
        """Return the last checkpoint, None if there is none."""
        with self._damage():
            row = self._reader.execute("SELECT crc, state, upto FROM checkpoint").fetchone()
        if row is None:
            return None
        if row[0] != checksum(self._folder, row[2], row[1]):
            raise DamagedDataError(self.path, "its checkpoint has another checksum than it was written with")
        return Saved(row[1], row[2])

    def outline(self) -> str | None:
        """Return the outline of the last checkpoint, even if its state is damaged."""
        with self._damage():
            row = self._reader.execute("SELECT outline_crc, outline FROM checkpoint").fetchone()
        if row is None:
            return None
        if row[0] != checksum(self._folder, row[1]):
            raise DamagedDataError(self.path, "its outline has another checksum")
        return str(row[1])

    def journal(self, *, strict: bool = True) -> Iterator[tuple[int, bytes]]:
        """Iterate over the batches of commands since the last checkpoint, in order, each with its `upto`.

        A damaged batch is skipped, with `strict` it raises DamagedDataError.
        """
        last = 0
        with self._damage():
            for number, crc, upto, commands in self._reader.execute(
                "SELECT id, crc, upto, commands FROM journal ORDER BY id"
            ):
                if crc != checksum(self._folder, upto, commands):
                    if not strict:
                        continue
                    raise DamagedDataError(self.path, f"batch {number} of its journal has another checksum")
                if strict and number != last + 1:
                    raise DamagedDataError(self.path, f"its journal has a gap after batch {last}")
                last = number
                yield upto, commands

    def messages(self, number: int, first: int, until: int) -> list[StoredMessage]:
        """Read the messages of a queue between two positions."""
        return [read_message(copy) for copy in self._copies(number, first, until)]

    def check_messages(self, number: int, first: int, until: int) -> None:
        """Raise DamagedDataError if a message of a queue between two positions is damaged."""
        for _ in self._copies(number, first, until):
            pass

    def _copies(self, number: int, first: int, until: int) -> Iterator[bytes]:
        base = number * PLACES
        expected = base + first
        with self._damage():
            for key, crc, copy in self._reader.execute(
                "SELECT key, crc, copy FROM message WHERE key >= ? AND key < ? ORDER BY key",
                (expected, base + until),
            ):
                if key != expected:
                    break
                if crc != checksum(self._folder, key, copy):
                    what = f"message {key - base} of its queue {number} has another checksum"
                    raise DamagedDataError(self.path, what)
                expected += 1
                yield copy
        if expected < base + until:
            what = f"messages of its queue {number} are missing after place {expected - base}"
            raise DamagedDataError(self.path, what)

    def batches(self) -> int:
        """Count the batches of the journal."""
        with self._damage():
            (count,) = self._reader.execute("SELECT count(*) FROM journal").fetchone()
        return int(count)

    def queue_numbers(self) -> list[int]:
        """Return the queues with messages; none if that cannot be read."""
        try:
            rows = self._reader.execute(f"SELECT DISTINCT key / {PLACES} FROM message").fetchall()
        except sqlite3.DatabaseError:
            return []
        return [number for (number,) in rows]

    def salvage(self, number: int) -> Iterator[tuple[int, StoredMessage]]:
        """Iterate over the readable messages of a queue."""
        base = number * PLACES
        # One by one: a page that SQLite cannot read ends one query, not all.
        try:
            keys = [
                key
                for (key,) in self._reader.execute(
                    "SELECT key FROM message WHERE key >= ? AND key < ? ORDER BY key", (base, base + PLACES)
                )
            ]
        except sqlite3.DatabaseError:
            return
        for key in keys:
            try:
                row = self._reader.execute("SELECT crc, copy FROM message WHERE key = ?", (key,)).fetchone()
                if row is not None and row[0] == checksum(self._folder, key, row[1]):
                    yield key - base, read_message(row[1])
            except (sqlite3.DatabaseError, *UNREADABLE):
                continue

    # Writing; on sqlite3.Error nothing is changed

    def describe(self, about: Mapping[str, str]) -> None:
        """Set the file's description, written with the next checkpoint: neither is complete without the other."""
        self._about = sealed({**about, "folder": self._folder})

    def append(self, commands: bytes, count: int) -> None:
        """Write a batch of so many commands; it is durable when this returns."""
        upto = self._upto() + count
        with self._transaction():
            self._writer.execute(
                "INSERT INTO journal (crc, commands, upto) VALUES (?, ?, ?)",
                (checksum(self._folder, upto, commands), commands, upto),
            )
        self._wrote(upto)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write state and messages in place of the journal; durable when this returns."""
        upto = self._upto() + checkpoint.commands
        with self._transaction():
            self._writer.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", self._about.items())
            self._writer.executemany(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?)", self._packed(checkpoint.rows)
            )
            state, drawn = checkpoint.state, checkpoint.outline
            sums = checksum(self._folder, upto, state), checksum(self._folder, drawn)
            self._writer.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?, ?)",
                (sums[0], state, upto, sums[1], drawn),
            )
            self._writer.execute("DELETE FROM journal")
            gone = [(number * PLACES, (number + 1) * PLACES) for number in checkpoint.dead]
            gone += [(number * PLACES, number * PLACES + first) for number, first in checkpoint.floors]
            self._writer.executemany("DELETE FROM message WHERE key >= ? AND key < ?", gone)
        self._about = {}
        self._wrote(upto)

    def truncate_log(self) -> None:
        """Checkpoint the write-ahead log into the file and truncate it, as far as a nearly full disk allows."""
        with suppress(sqlite3.Error):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def bound(self, pages: int) -> None:
        """Limit the file to so many pages of 4 KiB, 0 for no limit: for tests of full disks."""
        self._writer.execute(f"PRAGMA max_page_count = {pages or 4294967294:d}")

    def pages(self) -> int:
        """Count the file's pages."""
        (count,) = self._writer.execute("PRAGMA page_count").fetchone()
        return int(count)

    def _upto(self) -> int:
        """Return how many commands were written since the file was made."""
        if self._count is None:
            self._count = _upto(self._writer)
        return self._count

    def _wrote(self, upto: int) -> None:
        self._count = upto
        self._mark.write(upto, self._folder)

    def _packed(self, rows: Sequence[Row]) -> Iterable[tuple[int, int, bytes]]:
        for number, place, message in rows:
            key, copy = number * PLACES + place, write_message(message)
            yield key, checksum(self._folder, key, copy), copy

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            writer.execute("COMMIT")
        except BaseException:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise DamagedDataError(self.path, str(error)) from error


def _upto(connection: sqlite3.Connection) -> int:
    last = connection.execute("SELECT upto FROM journal ORDER BY id DESC LIMIT 1").fetchone()
    last = last or connection.execute("SELECT upto FROM checkpoint").fetchone()
    if last is not None and not isinstance(last[0], int):
        raise sqlite3.DatabaseError("its count of commands is no number")
    return 0 if last is None else int(last[0])


def checksum(folder: str, *parts: object) -> int:
    """Return the checksum of a row of the file with that id; an impossible one if damage changed a type."""
    crc = crc32(folder.encode())
    for part in parts:
        if isinstance(part, (int, str)):
            crc = crc32(f"{part}\n".encode(errors="surrogatepass"), crc)
        elif isinstance(part, bytes):
            crc = crc32(part, crc)
        else:
            return -1
    return crc


def sealed(about: Mapping[str, str]) -> Mapping[str, str]:
    """Add a checksum to a file's description."""
    return {**about, "crc": str(crc32(repr(sorted(about.items())).encode()))}


def lock_of(path: Path) -> Path:
    """Return the lock file of a data file."""
    return path.with_suffix(".lock")


def _make_private(path: Path) -> None:
    """Create a file, or restrict an existing one to its owner: users' secrets are in it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(file).st_mode & 0o077:
            path.chmod(0o600)
    finally:
        os.close(file)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit is on disk, not only in the operating system's cache.
        connection.execute("PRAGMA synchronous = FULL")
        # Half of the default: content of the write-ahead log takes space twice.
        connection.execute("PRAGMA wal_autocheckpoint = 500")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _lock(path: Path) -> sqlite3.Connection:
    """Lock the file for this process; the lock ends with the process, however it ends."""
    if lock_of(path).stat().st_size:
        # It is always empty; with any content it could not be locked.
        os.truncate(lock_of(path), 0)
    lock = sqlite3.connect(lock_of(path), isolation_level=None, timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise DataInUseError(path) from error
    return lock
