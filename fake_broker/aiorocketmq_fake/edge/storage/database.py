"""The data file: SQLite in WAL mode, with the log's messages, the last checkpoint and the journal since then."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from aiorocketmq_fake.core.model import StoredMessage
from aiorocketmq_fake.edge.storage.codec import UNREADABLE, read_message, write_message
from aiorocketmq_fake.edge.storage.errors import DamagedDataError, DataInUseError, PersistenceError
from aiorocketmq_fake.edge.storage.mark import Mark, beside
from aiorocketmq_fake.edge.storage.pages import Row

__all__ = ["Checkpoint", "Database", "Saved"]

FORMAT = "2"
PLACES = 1 << 40
"""Places of one queue; a row's key is the queue's number and the place in one integer, so that a page is one range."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS message (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, copy BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (
    id INTEGER PRIMARY KEY CHECK (id = 1), crc INTEGER NOT NULL, state BLOB NOT NULL, outline TEXT NOT NULL,
    upto INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS journal (
    id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, commands BLOB NOT NULL, upto INTEGER NOT NULL
);
"""
"""`upto` counts the commands up to this one since the file was made."""


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
    """The last checkpoint as it was read."""

    state: bytes
    outline: str


class Database:
    """One open data file. Reading is for the event loop's thread, writing for one other thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create, for this user alone.

        DataInUseError where another broker has it, DamagedDataError where it is no data file, OSError where it cannot
        be written.
        """
        self.path = path
        self._count: int | None = None
        with ExitStack() as stack:
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                for each in (path, lock_of(path), beside(path)):
                    _make_private(each)
                self._lock = stack.enter_context(closing(_lock(path)))
                self._mark = stack.enter_context(closing(Mark(path)))
                self._writer = stack.enter_context(closing(_connect(path)))
                self._reader = stack.enter_context(closing(_connect(path)))
            except DataInUseError:
                raise
            except (OSError, sqlite3.OperationalError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise PersistenceError(path.parent, str(why)) from error
            except sqlite3.DatabaseError as error:
                raise DamagedDataError(path, str(error)) from error
            self._open = stack.pop_all()

    def close(self) -> None:
        """Close the file and let others have it."""
        self._open.close()

    # Reading

    def about(self) -> Mapping[str, str]:
        """Return what the file says of itself."""
        with self._damage():
            return dict(self._reader.execute("SELECT name, value FROM about").fetchall())

    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        with self._damage():
            return self._reader.execute("SELECT 1 FROM checkpoint").fetchone() is None and not self.about()

    def check_complete(self) -> None:
        """DamagedDataError where fewer commands are there than were written: the end of the write-ahead log is lost."""
        with self._damage():
            found, written = _upto(self._reader), self._mark.read()
        if written is None:
            if found:
                what = f"{self._mark.path.name} is missing, which says how much was written"
                raise DamagedDataError(self.path, what)
        elif found < written:
            what = f"{written - found} of the {written} commands that were written are missing at its end"
            raise DamagedDataError(self.path, what)

    def check(self) -> None:
        """Let SQLite look through its own structure; DamagedDataError where it is not sound."""
        with self._damage():
            (verdict,) = self._reader.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DamagedDataError(self.path, str(verdict).splitlines()[-1])

    def saved(self) -> Saved | None:
        """Return the last checkpoint, None where there is none."""
        with self._damage():
            row = self._reader.execute("SELECT crc, state, outline FROM checkpoint").fetchone()
        if row is None:
            return None
        if crc32(row[1]) != row[0]:
            raise DamagedDataError(self.path, "its checkpoint has another checksum than it was written with")
        return Saved(row[1], row[2])

    def outline(self) -> str | None:
        """Return the outline of the last checkpoint, whatever its state is worth."""
        with self._damage():
            row = self._reader.execute("SELECT outline FROM checkpoint").fetchone()
        return None if row is None else str(row[0])

    def journal(self, *, strict: bool = True) -> Iterator[bytes]:
        """Go through the batches of commands since the last checkpoint, in order.

        A batch that is not as it was written is passed over, unless `strict` makes it DamagedDataError.
        """
        last = 0
        with self._damage():
            for number, crc, commands in self._reader.execute(
                "SELECT id, crc, commands FROM journal ORDER BY id"
            ):
                if crc32(commands) != crc:
                    if not strict:
                        continue
                    raise DamagedDataError(self.path, f"batch {number} of its journal has another checksum")
                if strict and number != last + 1:
                    raise DamagedDataError(self.path, f"its journal has a gap after batch {last}")
                last = number
                yield commands

    def messages(self, number: int, first: int, until: int) -> list[StoredMessage]:
        """Read the messages of a queue from one place to before another."""
        found = self._rows(number, first, until)
        if [place for place, _ in found] != list(range(first, first + len(found))):
            raise DamagedDataError(
                self.path, f"messages of its queue {number} are missing after place {first}"
            )
        return [message for _, message in found]

    def _rows(self, number: int, first: int, until: int) -> list[tuple[int, StoredMessage]]:
        base = number * PLACES
        with self._damage():
            rows = self._reader.execute(
                "SELECT key, crc, copy FROM message WHERE key >= ? AND key < ? ORDER BY key",
                (base + first, base + until),
            ).fetchall()
        found = []
        for key, crc, copy in rows:
            if crc32(copy) != crc:
                raise DamagedDataError(
                    self.path, f"message {key - base} of its queue {number} has another checksum"
                )
            found.append((key - base, read_message(copy)))
        return found

    def batches(self) -> int:
        """Count the batches of the journal."""
        with self._damage():
            (count,) = self._reader.execute("SELECT count(*) FROM journal").fetchone()
        return int(count)

    def queue_numbers(self) -> list[int]:
        """List the queues of which messages are there; none where that cannot be read."""
        try:
            rows = self._reader.execute(f"SELECT DISTINCT key / {PLACES} FROM message").fetchall()
        except sqlite3.DatabaseError:
            return []
        return [number for (number,) in rows]

    def salvage(self, number: int) -> Iterator[tuple[int, StoredMessage]]:
        """Go through the messages of a queue that can be read, and pass over the others."""
        base = number * PLACES
        # Page by page: what SQLite cannot read ends one range, not all.
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
                if row is not None and crc32(row[1]) == row[0]:
                    yield key - base, read_message(row[1])
            except (sqlite3.DatabaseError, *UNREADABLE):
                continue

    # Writing; sqlite3.Error passes through, and nothing is changed then

    def describe(self, about: Mapping[str, str]) -> None:
        """Let the file say of itself."""
        with self._transaction():
            self._writer.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())

    def append(self, commands: bytes, count: int) -> None:
        """Write a batch of so many commands; it is durable when this returns."""
        upto = self._upto() + count
        with self._transaction():
            self._writer.execute(
                "INSERT INTO journal (crc, commands, upto) VALUES (?, ?, ?)",
                (crc32(commands), commands, upto),
            )
        self._wrote(upto)

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write state and messages in place of the journal; durable when this returns."""
        upto = self._upto() + checkpoint.commands
        with self._transaction():
            self._writer.executemany(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?)", _packed(checkpoint.rows)
            )
            self._writer.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?)",
                (crc32(checkpoint.state), checkpoint.state, checkpoint.outline, upto),
            )
            self._writer.execute("DELETE FROM journal")
            gone = [(number * PLACES, (number + 1) * PLACES) for number in checkpoint.dead]
            gone += [(number * PLACES, number * PLACES + first) for number, first in checkpoint.floors]
            self._writer.executemany("DELETE FROM message WHERE key >= ? AND key < ?", gone)
        self._wrote(upto)

    def make_room(self) -> None:
        """Fold the write-ahead log into the file and give its space back, as far as a nearly full disk allows."""
        with suppress(sqlite3.Error):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def bound(self, pages: int) -> None:
        """Let the file grow to so many pages of 4 KiB and no further, 0 for no bound: for tests of full disks."""
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
        self._mark.write(upto)

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
    return 0 if last is None else int(last[0])


def _packed(rows: Sequence[Row]) -> Iterable[tuple[int, int, bytes]]:
    for number, place, message in rows:
        copy = write_message(message)
        yield number * PLACES + place, crc32(copy), copy


def lock_of(path: Path) -> Path:
    """Return the file whose lock says that a data file is in use."""
    return path.with_suffix(".lock")


def _make_private(path: Path) -> None:
    """Create a file, or take an existing one, that nobody else may read: users' secrets are in it."""
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
        # FULL: a commit is on the disk, not only with the operating system.
        connection.execute("PRAGMA synchronous = FULL")
        # Half of the default: what the write-ahead log holds takes room twice.
        connection.execute("PRAGMA wal_autocheckpoint = 500")
        connection.executescript(SCHEMA)
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _lock(path: Path) -> sqlite3.Connection:
    """Take the file for this process; the lock ends with the process, whichever way that ends."""
    lock = sqlite3.connect(lock_of(path), isolation_level=None, timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise DataInUseError(path) from error
    return lock
