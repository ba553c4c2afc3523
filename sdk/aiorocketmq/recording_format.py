"""Recording format, version 1 of docs/reference/recording.md: columns, digests, drains and files.

The only thing that writers and readers of recordings share: the client, the fake, the audit and its generator. Nothing
of it decides about messages. Standard library only; pyarrow is imported where a schema or a file is made.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COLUMNS",
    "INTERVALS",
    "REQUIRED",
    "ROWS_PER_GROUP",
    "VERSION",
    "FileSeries",
    "QuietTime",
    "arrow_schema",
    "content_of",
    "digest_of",
    "fingerprint",
]

VERSION = 1
"""The version that is written."""

COLUMNS: Mapping[str, str] = {
    "run_id": "string",
    "case_id": "string",
    "observer": "string",
    "recorder": "string",
    "seq": "bigint",
    "boot": "string",
    "kind": "string",
    "phase": "string",
    "op_id": "string",
    "t_wall_us": "bigint",
    "t_mono_ns": "bigint",
    "t_real_us": "bigint",
    "invoked_us": "bigint",
    "invoked_seq": "bigint",
    "client_id": "string",
    "epoch": "int",
    "role": "string",
    "group": "string",
    "topic": "string",
    "lite_topic": "string",
    "broker": "string",
    "queue": "int",
    "offset": "bigint",
    "message_id": "string",
    "message_group": "string",
    "tag": "string",
    "priority": "int",
    "body_sha": "string",
    "props_sha": "string",
    "producer": "string",
    "pseq": "bigint",
    "attempt": "int",
    "delivery": "string",
    "handle": "string",
    "prev_handle": "string",
    "batch": "string",
    "batch_pos": "int",
    "receive_attempt": "string",
    "filter": "string",
    "invisible_ms": "bigint",
    "auto_renew": "boolean",
    "reason": "string",
    "due_us": "bigint",
    "born_us": "bigint",
    "store_us": "bigint",
    "server_deliver_us": "bigint",
    "tx_id": "string",
    "resolution": "string",
    "source": "string",
    "code": "int",
    "grpc": "int",
    "result": "string",
    "generation": "bigint",
    "queues": "array<struct<broker:string,queue:int>>",
    "commit_offset": "bigint",
    "cfg": "map<string,string>",
    "fault": "map<string,string>",
    "clk": "map<string,bigint>",
}
"""Columns with their types, in Spark's notation."""

REQUIRED = ("run_id", "case_id", "observer", "recorder", "seq", "boot", "kind", "t_wall_us", "t_mono_ns")
"""Columns that are never null."""

INTERVALS = 2
"""Multiple of the longest lease or delay for which nothing must have happened before a drain is reported."""

ROWS_PER_GROUP = 16_384
"""Rows that are collected before they are compressed and written to the file."""

_UNIQUE = ("op_id", "message_id", "delivery", "handle", "prev_handle", "receive_attempt", "tx_id", "batch")
"""Columns of values that hardly ever repeat: dictionaries of them would be built in vain."""

_GROWING = ("seq", "t_wall_us", "t_mono_ns", "invoked_us", "invoked_seq", "offset", "born_us", "store_us")
"""Columns of growing numbers: differences take a fraction of the space."""


@lru_cache(maxsize=1)
def arrow_schema() -> pa.Schema:
    """Return the columns as a pyarrow schema with the version in its metadata."""
    import pyarrow as pa

    text = pa.string()
    types = {
        "string": text,
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "array<struct<broker:string,queue:int>>": pa.list_(
            pa.struct([("broker", text), ("queue", pa.int32())])
        ),
        "map<string,string>": pa.map_(text, text),
        "map<string,bigint>": pa.map_(text, pa.int64()),
    }
    return pa.schema(
        [pa.field(name, types[kind], nullable=name not in REQUIRED) for name, kind in COLUMNS.items()],
        metadata={"aiorocketmq.recording.version": str(VERSION)},
    )


# One handle occurs in several rows, shortly after each other.
@lru_cache(maxsize=8_192)
def fingerprint(handle: str) -> str:
    """Return the digest of a receipt handle: handles are long, and may be secrets of a kind."""
    return hashlib.sha256(handle.encode()).hexdigest()[:16]


def digest_of(body: bytes) -> str:
    """Return the digest of a body."""
    return hashlib.sha256(body).hexdigest()[:32]


_NO_PROPERTIES = digest_of(b"{}")


def content_of(digest: str, properties: Mapping[str, str]) -> tuple[str, str, str | None, int | None]:
    """Return `body_sha`, `props_sha`, `producer` and `pseq` of a message.

    An application may number its messages by the user properties `audit-producer` and `audit-serial`."""
    if not properties:
        return digest, _NO_PROPERTIES, None, None
    text = json.dumps(dict(properties), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    serial = properties.get("audit-serial", "")
    return (
        digest,
        digest_of(text.encode()),
        properties.get("audit-producer"),
        int(serial) if serial.isdecimal() and len(serial) < 19 else None,
    )


class QuietTime:
    """Since when nothing has happened, and the longest delay or lease, in seconds."""

    __slots__ = ("longest", "reported", "since")

    def __init__(self) -> None:
        self.since = 0.0
        self.longest = 0.0
        self.reported = -1.0
        """Begin of the quiet time for which a drain was reported."""

    def disturb(self, at: float, interval: float = 0.0) -> None:
        """Record an event, and for how long something is invisible after it."""
        self.since = max(self.since, at)
        self.longest = max(self.longest, interval)


class FileSeries:
    """The files of one recorder, numbered from `first`; each gets its final name when it is complete.

    `filesystem` is pyarrow's. Blocks for the disk; raises OSError or pyarrow's errors."""

    def __init__(
        self,
        filesystem: Any,  # pyarrow has no types
        folder: str,
        recorder: str,
        *,
        rows_per_file: int,
        seconds_per_file: float,
        first: int = 0,
    ) -> None:
        self._filesystem = filesystem
        self._prefix = f"{folder}/{recorder}"
        self._folder = folder
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self.count = first
        """Files that are complete."""
        self._stream: Any = None
        self._writer: Any = None
        self._path = ""
        self._rows = 0
        self._began: float | None = None

    def look(self, waiting: int, batch: Callable[[], pa.RecordBatch]) -> None:
        """Write `batch()` if `waiting` rows fill a row group, and complete the file if it is large or old enough."""
        if waiting and self._began is None:
            self._began = time.monotonic()
        # The age is that of the first row, not of the file: few rows wait in memory, but not forever.
        is_old = self._began is not None and time.monotonic() - self._began >= self._seconds_per_file
        if waiting and (waiting >= ROWS_PER_GROUP or is_old):
            self.write(batch())
        if self._rows >= self._rows_per_file or is_old:
            self.complete()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows to the current file."""
        if self._writer is None:
            self._open()
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def _open(self) -> None:
        from pyarrow import parquet

        schema = arrow_schema()
        self._filesystem.create_dir(self._folder, recursive=True)
        self._path = f"{self._prefix}-{self.count:05}.parquet"
        self._stream = self._filesystem.open_output_stream(f"{self._path}.open")
        self._writer = parquet.ParquetWriter(
            self._stream,
            schema,
            compression="zstd",
            # Rows are numbered in order of arrival: within a recorder that is the order of time, by which readers skip
            # groups.
            sorting_columns=[parquet.SortingColumn(schema.get_field_index("seq"))],
            use_dictionary=[name for name in schema.names if name not in (*_UNIQUE, *_GROWING)],
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
        )

    def complete(self) -> None:
        """Complete the current file with the rows that were written to it."""
        self._began = None
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
            self._writer = self._stream = None
            self._filesystem.move(f"{self._path}.open", self._path)
            self.count += 1
            self._rows = 0
