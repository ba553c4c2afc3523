"""The data file: SQLite in WAL mode, with the log's messages, the last checkpoint and the journal since then."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from aiorocketmq_fake.core.model import StoredMessage
from aiorocketmq_fake.edge.storage.codec import UNREADABLE, read_message, write_message
from aiorocketmq_fake.edge.storage.errors import DamagedData, DataInUse
from aiorocketmq_fake.edge.storage.pages import Row

__all__ = ["Checkpoint", "Database", "Saved"]

FORMAT = "1"
PLACES = 1 << 40
"""Places of one queue; a row's key is the queue's number and the place in one integer, so that a page is one range."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS message (key INTEGER PRIMARY KEY, crc INTEGER NOT NULL, copy BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoint (
    id INTEGER PRIMARY KEY CHECK (id = 1), crc INTEGER NOT NULL, state BLOB NOT NULL, outline TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, commands BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What one checkpoint writes, all of it or nothing."""

    state: bytes
    outline: str
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
        """Open or create. DataInUse where another broker has it, DamagedData where it is no data file."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = _lock(path)
        except sqlite3.Error as error:
            raise OSError(f"cannot keep data in {path.parent}: {error}.") from error
        try:
            self._writer = _connect(path)
            self._reader = _connect(path)
        except sqlite3.DatabaseError as error:
            self._lock.close()
            raise DamagedData(path, str(error)) from error

    def close(self) -> None:
        """Close the file and let others have it."""
        for connection in (self._reader, self._writer, self._lock):
            connection.close()

    # Reading

    def about(self) -> Mapping[str, str]:
        """Return what the file says of itself."""
        with self._damage():
            return dict(self._reader.execute("SELECT name, value FROM about").fetchall())

    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        with self._damage():
            return self._reader.execute("SELECT 1 FROM checkpoint").fetchone() is None and not self.about()

    def check(self) -> None:
        """Let SQLite look through its own structure; DamagedData where it is not sound."""
        with self._damage():
            (verdict,) = self._reader.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DamagedData(self.path, str(verdict).splitlines()[-1])

    def saved(self) -> Saved | None:
        """Return the last checkpoint, None where there is none."""
        with self._damage():
            row = self._reader.execute("SELECT crc, state, outline FROM checkpoint").fetchone()
        if row is None:
            return None
        if crc32(row[1]) != row[0]:
            raise DamagedData(self.path, "its checkpoint has another checksum than it was written with")
        return Saved(row[1], row[2])

    def outline(self) -> str | None:
        """Return the outline of the last checkpoint, whatever its state is worth."""
        with self._damage():
            row = self._reader.execute("SELECT outline FROM checkpoint").fetchone()
        return None if row is None else str(row[0])

    def journal(self, *, strict: bool = True) -> Iterator[bytes]:
        """Go through the batches of commands since the last checkpoint, in order.

        A batch that is not as it was written is passed over, unless `strict` makes it DamagedData.
        """
        last = 0
        with self._damage():
            for number, crc, commands in self._reader.execute(
                "SELECT id, crc, commands FROM journal ORDER BY id"
            ):
                if crc32(commands) != crc:
                    if not strict:
                        continue
                    raise DamagedData(self.path, f"batch {number} of its journal has another checksum")
                if strict and number != last + 1:
                    raise DamagedData(self.path, f"its journal has a gap after batch {last}")
                last = number
                yield commands

    def messages(self, number: int, first: int, until: int) -> list[StoredMessage]:
        """Read the messages of a queue from one place to before another."""
        found = self._rows(number, first, until)
        if [place for place, _ in found] != list(range(first, first + len(found))):
            raise DamagedData(self.path, f"messages of its queue {number} are missing after place {first}")
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
                raise DamagedData(
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

    def append(self, commands: bytes) -> None:
        """Write a batch of commands; it is durable when this returns."""
        with self._transaction():
            self._writer.execute(
                "INSERT INTO journal (crc, commands) VALUES (?, ?)", (crc32(commands), commands)
            )

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write state and messages in place of the journal; durable when this returns."""
        with self._transaction():
            self._writer.executemany(
                "INSERT OR REPLACE INTO message VALUES (?, ?, ?)", _packed(checkpoint.rows)
            )
            self._writer.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?, ?)",
                (crc32(checkpoint.state), checkpoint.state, checkpoint.outline),
            )
            self._writer.execute("DELETE FROM journal")
            gone = [(number * PLACES, (number + 1) * PLACES) for number in checkpoint.dead]
            gone += [(number * PLACES, number * PLACES + first) for number, first in checkpoint.floors]
            self._writer.executemany("DELETE FROM message WHERE key >= ? AND key < ?", gone)

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
            raise DamagedData(self.path, str(error)) from error


def _packed(rows: Sequence[Row]) -> Iterable[tuple[int, int, bytes]]:
    for number, place, message in rows:
        copy = write_message(message)
        yield number * PLACES + place, crc32(copy), copy


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
    lock = sqlite3.connect(path.with_suffix(".lock"), isolation_level=None, timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if "locked" not in str(error):
            raise
        raise DataInUse(path) from error
    return lock
