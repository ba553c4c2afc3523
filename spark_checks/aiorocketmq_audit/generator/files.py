"""Rows to files: sorted by recorder and time, numbered, put into words, and written as a recorder would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from aiorocketmq_audit.generator import names as n
from aiorocketmq_audit.generator.columns import NONE, Columns, Ints, joined, length, scrambled, taken
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.recording.schema import REQUIRED, VERSION

ROWS_PER_GROUP = 32_768

_MAP = pa.map_(pa.string(), pa.string())
_CLK = pa.map_(pa.string(), pa.int64())
_TEXTS = (
    *(
        "run_id",
        "case_id",
        "observer",
        "recorder",
        "boot",
        "kind",
        "phase",
        "op_id",
        "client_id",
        "role",
        "group",
    ),
    *(
        "topic",
        "broker",
        "message_id",
        "message_group",
        "tag",
        "body_sha",
        "props_sha",
        "producer",
        "delivery",
    ),
    *(
        "handle",
        "prev_handle",
        "batch",
        "receive_attempt",
        "filter",
        "reason",
        "tx_id",
        "resolution",
        "source",
        "result",
    ),
)
_SMALL = ("epoch", "queue", "attempt", "batch_pos", "priority", "code")
_LARGE = (
    *(
        "seq",
        "t_wall_us",
        "t_mono_ns",
        "invoked_us",
        "invoked_seq",
        "offset",
        "pseq",
        "invisible_ms",
        "due_us",
    ),
    *("born_us", "store_us", "server_deliver_us", "commit_offset"),
)
_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(_SMALL, pa.int32()),
    **dict.fromkeys(_LARGE, pa.int64()),
    "auto_renew": pa.bool_(),
    "queues": pa.list_(pa.struct([("broker", pa.string()), ("queue", pa.int32())])),
    "cfg": _MAP,
    "fault": _MAP,
    "clk": _CLK,
}
SCHEMA = pa.schema(
    [pa.field(name, kind, nullable=name not in REQUIRED) for name, kind in _TYPES.items()],
    metadata={"aiorocketmq.recording.version": str(VERSION)},
)
"""The columns that generated recordings have; all others are missing, which reads as null."""

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)


class Account:
    """The files of one observer: one series for each of its recorders."""

    def __init__(
        self, folder: Path, observer: str, names: Names, skew: Ints, rows_per_file: int, salt: int
    ) -> None:
        self._observer = observer
        self._names = names
        self._skew = skew
        self._salt = salt
        self._series = [_Series(folder, name, rows_per_file) for name in names.recorders]
        self._next = np.zeros(len(self._series), np.int64)
        self._boots = np.random.default_rng(salt).integers(10**9, 10**13, len(self._series))
        self._waiting: list[Columns] = []
        self._open: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        """Operations that were called and not yet answered, sorted by key: key, number of the call's row."""
        self.rows = 0
        self.latest_us = 0
        """The last time of any row so far."""

    def add(self, rows: Columns) -> None:
        """Take rows, at the server's time."""
        self.latest_us = max(self.latest_us, int(rows["at"].max(initial=0)))
        self._waiting.append(rows)

    def release(self, before: int | None, settings: Sequence[dict[str, str]], strays: int) -> None:
        """Write what happened before an instant of the server's clock, or all; nothing earlier may be added later."""
        rows = joined(self._waiting)
        if before is not None:
            is_due = rows["at"] < before
            self._waiting = [taken(rows, ~is_due)]
            rows = taken(rows, is_due)
        else:
            self._waiting = []
        if length(rows):
            rows = taken(rows, np.lexsort((rows["rank"], rows["at"], rows["recorder"])))
            self._write(rows, settings, strays)

    def close(self) -> int:
        """Complete all files; returns how many there are."""
        for series in self._series:
            series.close()
        return sum(series.files for series in self._series)

    def _write(self, rows: Columns, settings: Sequence[dict[str, str]], strays: int) -> None:
        recorder = rows["recorder"]
        borders = np.searchsorted(recorder, np.arange(len(self._series) + 1))
        counts = np.diff(borders)
        seq = np.arange(len(recorder)) - borders[recorder] + self._next[recorder]
        self._next += counts
        self.rows += len(recorder)
        table = self._table(rows, seq, settings, strays)
        for series, start, count in zip(self._series, borders, counts, strict=False):
            if count:
                series.write(table.slice(int(start), int(count)))

    def _calls(self, rows: Columns, seq: Ints) -> Ints:
        """The number of the call's row, for each answer."""
        key = (rows["recorder"] << 48) | rows["op"]
        called, answered = rows["phase"] == n.INVOKED, (rows["phase"] > n.INVOKED) & (rows["op"] != NONE)
        keys, numbers = np.r_[self._open[0], key[called]], np.r_[self._open[1], seq[called]]
        order = np.argsort(keys, kind="stable")
        keys, numbers = keys[order], numbers[order]
        found = np.full(len(seq), NONE, np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, key[answered]), len(keys) - 1)
            is_there = keys[place] == key[answered]
            found[answered] = np.where(is_there, numbers[place], NONE)
            still = np.ones(len(keys), bool)
            still[place[is_there]] = False
            self._open = (keys[still], numbers[still])
        return found

    def _table(self, rows: Columns, seq: Ints, settings: Sequence[dict[str, str]], strays: int) -> pa.Table:
        names, salt = self._names, self._salt
        skew = self._skew[rows["recorder"]]
        wall = rows["at"] + skew
        is_client = self._observer == "client"
        clients = names.clients(strays)
        client = rows["client"]
        client = np.where(client < NONE, len(clients) - strays + NONE - 1 - client, client)
        constant = {"run_id": names.run, "case_id": "", "observer": self._observer}
        lanes = [f"key-{number}" for number in range(names.shape.message_groups)]
        invoked = np.where(rows["invoked"] == NONE, NONE, rows["invoked"] + skew)
        mono = (wall - self._boots[rows["recorder"]]) * 1000
        boots = [f"{boot & 0xFFFFFFFF:08x}" for boot in self._boots]
        texts: dict[str, tuple[Ints, Sequence[str]]] = {
            "recorder": (rows["recorder"], names.recorders),
            "boot": (rows["recorder"], boots),
            "kind": (rows["kind"], n.KINDS),
            "phase": (rows["phase"], n.PHASES),
            "client_id": (client, clients),
            "role": (rows["role"], n.ROLES),
            "group": (rows["group"], names.groups),
            "topic": (rows["topic"], names.topics),
            "broker": (rows["broker"], names.brokers),
            "message_group": (rows["message_group"], lanes),
            "tag": (rows["tag"], names.tags),
            "props_sha": (rows["props"], [f"{0:032x}"[:-1] + str(number) for number in range(2)]),
            "producer": (rows["producer"], [f"producer-{number}" for number in range(names.shape.producers)]),
            "filter": (rows["filter"], names.filters),
            "reason": (rows["reason"], n.REASONS),
            "resolution": (rows["resolution"], n.RESOLUTIONS),
            "source": (rows["source"], n.SOURCES),
            "result": (rows["result"], n.RESULTS),
        }
        ids = {
            "op_id": _hex(rows["op"].astype(np.uint64), rows["op"]),
            "batch": _hex(rows["batch"].astype(np.uint64), rows["batch"]),
            "message_id": _hex(
                rows["message"].astype(np.uint64), rows["message"], prefix=b"01" + b"%06x" % (salt & 0xFFFFFF)
            ),
            "body_sha": _hex(scrambled(rows["body"], salt), rows["body"], prefix=b"0" * 16),
            "delivery": _hex(scrambled(rows["delivery"], salt + 1), rows["delivery"]),
            "handle": _hex(scrambled(rows["handle"], salt + 1), rows["handle"]),
            "prev_handle": _hex(scrambled(rows["before"], salt + 1), rows["before"]),
            "tx_id": _hex(scrambled(rows["tx"], salt + 2), rows["tx"]),
        }
        numbers = {
            "seq": seq,
            "t_wall_us": wall,
            "t_mono_ns": mono,
            "invoked_us": invoked,
            "invoked_seq": self._calls(rows, seq),
            "epoch": np.where(rows["role"] == NONE, NONE, 1) if is_client else np.full(len(seq), NONE),
            "queue": rows["queue"],
            "offset": rows["offset"],
            "pseq": rows["pseq"],
            "attempt": rows["attempt"],
            "batch_pos": rows["position"],
            "priority": rows["priority"],
            "invisible_ms": rows["hold"],
            "due_us": rows["due"],
            "born_us": rows["born"],
            "store_us": rows["store"],
            "server_deliver_us": rows["answered"],
            "code": rows["code"],
            "commit_offset": rows["commit"],
        }
        arrays: dict[str, pa.Array] = {name: pa.repeat(text, len(seq)) for name, text in constant.items()}
        arrays |= {name: _words(*pair) for name, pair in texts.items()} | ids
        arrays |= {
            name: pa.array(values, mask=values == NONE).cast(_TYPES[name]) for name, values in numbers.items()
        }
        arrays["auto_renew"] = pa.array(rows["renew"] == 1, mask=rows["renew"] == NONE)
        arrays["receive_attempt"] = pa.nulls(len(seq), pa.string())
        arrays["queues"] = pa.nulls(len(seq), _TYPES["queues"])
        arrays["cfg"] = _maps(rows["cfg"], settings, _MAP)
        arrays["fault"] = _maps(rows["fault"], [{"kind": "restart", "target": "broker-0"}], _MAP)
        samples = [{"offset_us": -int(s), "error_us": 500, "rtt_us": 1_000} for s in self._skew]
        arrays["clk"] = _maps(rows["sample"], samples, _CLK)
        return pa.table([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


class _Series:
    """The files of one recorder: a new one after so many rows, each named `.open` until it is complete."""

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
                self._writer = parquet.ParquetWriter(self._path, SCHEMA, compression="zstd")
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


def _hex(values: NDArray[np.uint64], present: Ints, *, prefix: bytes = b"") -> pa.Array:
    """Numbers as texts of 16 hexadecimal digits behind a prefix, null where `present` is NONE."""
    digits = _HEX[values.byteswap().view(np.uint8)].reshape(len(values), 16)
    start = np.broadcast_to(np.frombuffer(prefix, np.uint8), (len(values), len(prefix)))
    is_there = present != NONE
    text = np.concatenate([start, digits], axis=1)[is_there]
    ends = np.cumsum(is_there.astype(np.int32), dtype=np.int32) * np.int32(16 + len(prefix))
    valid = np.packbits(is_there, bitorder="little")
    buffers = [
        pa.py_buffer(part.tobytes()) for part in (valid, np.r_[np.int32(0), ends].astype(np.int32), text)
    ]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _words(codes: Ints, words: Sequence[str]) -> pa.Array:
    indices = pa.array(codes, mask=codes == NONE)
    return pa.array(words, pa.string()).take(indices)


def _maps(
    codes: Ints, values: Sequence[dict[str, str]] | Sequence[dict[str, int]], kind: pa.DataType
) -> pa.Array:
    if not np.any(codes != NONE):
        return pa.nulls(len(codes), kind)
    return pa.array([list(value.items()) for value in values], kind).take(pa.array(codes, mask=codes == NONE))
