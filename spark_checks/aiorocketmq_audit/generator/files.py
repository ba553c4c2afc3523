"""Writes rows to files: sorted by recorder and time, numbered, converted to texts, in the format of a recorder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from aiorocketmq.recording_format import arrow_schema
from numpy.typing import NDArray
from pyarrow import parquet

from aiorocketmq_audit.generator.columns import NONE, WORDS, Columns, Ints, joined, taken
from aiorocketmq_audit.generator.names import Names

ROWS_PER_GROUP = 32_768

_INVOKE = WORDS["phase"].index("invoke")
_IDS = {
    "op_id": (None, b""),
    "batch": (None, b""),
    "message_id": (None, b"01%06x"),
    "body_sha": (0, b"0" * 16),
    "delivery": (1, b""),
    "handle": (1, b""),
    "prev_handle": (1, b""),
}
"""Columns of hexadecimal numbers: the offset to the salt that scrambles them, and their prefix."""

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)


class ObserverFiles:
    """The files of one observer: one series for each of its recorders."""

    def __init__(
        self, folder: Path, observer: str, names: Names, skew: Ints, rows_per_file: int, salt: int
    ) -> None:
        self._constant = {"run_id": names.run, "case_id": "", "observer": observer}
        self._names = names
        self._skew = skew
        self._salt = salt
        self._series = [_Series(folder, name, rows_per_file) for name in names.recorders]
        self._next = np.zeros(len(self._series), np.int64)
        self._boots = np.random.default_rng(salt).integers(10**9, 10**13, len(self._series))
        self._waiting: list[Columns] = []
        self._open: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        """Operations without an answer so far, sorted by key: key, sequence number of the call."""
        self.rows = 0
        self.latest_us = 0
        """The latest time of any row so far."""

    def add(self, rows: Columns) -> int:
        """Add rows, in server time; return their number."""
        self.latest_us = max(self.latest_us, int(rows["at"].max(initial=0)))
        self._waiting.append(rows)
        return len(rows["at"])

    def release(self, before: int | None, strays: int) -> None:
        """Write rows before an instant of the server's clock, or all; no earlier rows may be added later."""
        rows = joined(self._waiting)
        self._waiting = []
        if before is not None:
            is_due = rows["at"] < before
            self._waiting = [taken(rows, ~is_due)]
            rows = taken(rows, is_due)
        if len(rows["at"]):
            self._write(taken(rows, np.lexsort((rows["rank"], rows["at"], rows["recorder"]))), strays)

    def close(self) -> int:
        """Complete all files; return their number."""
        for series in self._series:
            series.close()
        return sum(series.files for series in self._series)

    def _write(self, rows: Columns, strays: int) -> None:
        recorder = rows["recorder"]
        borders = np.searchsorted(recorder, np.arange(len(self._series) + 1))
        counts = np.diff(borders)
        seq = np.arange(len(recorder)) - borders[recorder] + self._next[recorder]
        self._next += counts
        self.rows += len(recorder)
        table = self._table(rows, seq, strays)
        for series, start, count in zip(self._series, borders, counts, strict=False):
            if count:
                series.write(table.slice(int(start), int(count)))

    def _calls(self, rows: Columns, seq: Ints) -> Ints:
        """Return the sequence number of the call for each answer."""
        key = (rows["recorder"] << 48) | rows["op_id"]
        called = rows["phase"] == _INVOKE
        answered = (rows["phase"] > _INVOKE) & (rows["op_id"] != NONE)
        keys, numbers = np.r_[self._open[0], key[called]], np.r_[self._open[1], seq[called]]
        order = np.argsort(keys, kind="stable")
        keys, numbers = keys[order], numbers[order]
        call_rows = np.full(len(seq), NONE, np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, key[answered]), len(keys) - 1)
            is_there = keys[place] == key[answered]
            call_rows[answered] = np.where(is_there, numbers[place], NONE)
            still = np.ones(len(keys), bool)
            still[place[is_there]] = False
            self._open = (keys[still], numbers[still])
        return call_rows

    def _table(self, rows: Columns, seq: Ints, strays: int) -> pa.Table:
        count, recorder = len(seq), rows["recorder"]
        words = self._names.words(strays) | {"boot": [f"{boot & 0xFFFFFFFF:08x}" for boot in self._boots]}
        samples = [{"offset_us": -int(skew), "error_us": 500, "rtt_us": 1_000} for skew in self._skew]
        maps: dict[str, Sequence[dict[str, str] | dict[str, int]]] = {"cfg": self._names.cfg, "clk": samples}
        maps["fault"] = [{"kind": "restart", "target": "broker-0"}]
        looked_up = words | {name: [list(each.items()) for each in values] for name, values in maps.items()}
        # Clients that lived for one message are numbered from the end, since the total was unknown.
        client, last = rows["client_id"], len(words["client_id"])
        wall = rows["at"] + self._skew[recorder]
        is_client = self._constant["observer"] == "client"
        rows = rows | {
            "boot": recorder,
            "client_id": np.where(client < NONE, last - strays + NONE - 1 - client, client),
            "seq": seq,
            "t_wall_us": wall,
            "t_mono_ns": (wall - self._boots[recorder]) * 1000,
            "invoked_us": np.where(rows["invoked"] == NONE, NONE, rows["invoked"] + self._skew[recorder]),
            "invoked_seq": self._calls(rows, seq),
            "epoch": np.where((rows["role"] != NONE) & is_client, 1, NONE),
        }

        def column(field: pa.Field) -> pa.Array:
            if field.name in self._constant:
                return pa.repeat(self._constant[field.name], count)
            values = rows.get(field.name)
            if values is None or np.all(values == NONE):
                return pa.nulls(count, field.type)
            if field.name in _IDS:
                return _hex(values, *_IDS[field.name], salt=self._salt)
            numbers = pa.array(values, mask=values == NONE)
            if field.name in looked_up:
                return pa.array(looked_up[field.name], field.type).take(numbers)
            return numbers.cast(field.type)

        return pa.table([column(field) for field in arrow_schema()], schema=arrow_schema())


class _Series:
    """The files of one recorder: a new one after a number of rows, each with the suffix `.open` until complete."""

    def __init__(self, folder: Path, recorder: str, rows_per_file: int) -> None:
        self._folder = folder
        self._recorder = recorder
        self._most = rows_per_file
        self._writer: parquet.ParquetWriter | None = None
        self._path = folder
        self._rows = 0
        self._waiting: list[pa.Table] = []
        self._gathered = 0
        self.files = 0

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._gathered += table.num_rows
        if self._gathered >= ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._complete()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._gathered = [], 0
        start = 0
        while start < table.num_rows:
            part = table.slice(start, self._most - self._rows)
            if self._writer is None:
                self._path = self._folder / f"{self._recorder}-{self.files:05}.parquet.open"
                self._writer = parquet.ParquetWriter(self._path, arrow_schema(), compression="zstd")
                self.files += 1
            self._writer.write_table(part)
            start += part.num_rows
            self._rows += part.num_rows
            if self._rows >= self._most:
                self._complete()

    def _complete(self) -> None:
        writer, self._writer, self._rows = self._writer, None, 0
        if writer is not None:
            writer.close()
            self._path.rename(self._path.with_suffix(""))


def _hex(values: Ints, scramble: int | None, prefix: bytes, *, salt: int) -> pa.Array:
    """Return numbers as a prefix and 16 hexadecimal digits, null for NONE."""
    numbers = values.astype(np.uint64) if scramble is None else _scrambled(values, salt + scramble)
    prefix = prefix % (salt & 0xFFFFFF) if b"%" in prefix else prefix
    digits = _HEX[numbers.byteswap().view(np.uint8)].reshape(len(values), 16)
    start = np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(values), len(prefix)))
    is_there = values != NONE
    text = np.concatenate([start, digits], axis=1)[is_there]
    ends = np.cumsum(is_there.astype(np.int32), dtype=np.int32) * np.int32(16 + len(prefix))
    valid = np.packbits(is_there, bitorder="little")
    parts = (valid, np.r_[np.int32(0), ends].astype(np.int32), text)
    return pa.Array.from_buffers(pa.string(), len(values), [pa.py_buffer(part.tobytes()) for part in parts])


def _scrambled(numbers: Ints, salt: int) -> NDArray[np.uint64]:
    """Return distinct pseudo-random numbers for distinct numbers (splitmix64), for handles and digests."""
    mixed = numbers.astype(np.uint64) + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
