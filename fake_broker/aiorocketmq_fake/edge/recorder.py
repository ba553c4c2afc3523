"""The fake broker's recorder: writes events of the core for audits, as observed by the broker.

with Recorder("runs/", clock=broker.clock.now) as recorder, broker.events.listen(recorder.record): ...
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

from aiorocketmq.recording_format import VERSION

from aiorocketmq_fake.core.values.events import Event
from aiorocketmq_fake.edge.drains import Drained, Drains
from aiorocketmq_fake.edge.recording_rows import is_recorded, row_of

if TYPE_CHECKING:
    from aiorocketmq_fake.edge.recording_files import Row, SeriesFiles

__all__ = ["PyarrowMissingError", "Recorder"]

EVENTS_PER_BLOCK = 512

TICKS = 10
"""Checks per file lifetime whether it must be completed, without events."""


class PyarrowMissingError(ModuleNotFoundError):
    """The extra that recordings need is not installed; the text says how to install it."""


# Number, boot, the machine's clock if the broker's is manual, and an event or the recorder's own first or last row.
_Fact = tuple[int, str, int | None, "Event | Drained | tuple[str, int]"]


class Recorder:
    """Writes events to Parquet files in `folder` (docs/reference/recording.md), from construction to `close`.

    `run_id` names the run (default: the folder's name) and must be that of the clients' recorders. `clock` returns
    Unix seconds and is given when the broker's clock is moved by hand. Raises PyarrowMissingError without that package.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        case_id: str = "",
        clock: Callable[[], float] | None = None,
        broker: str = "fake",
        rows_per_file: int = 100_000,
        seconds_per_file: float = 60.0,
    ) -> None:
        path = Path(folder)
        name = f"broker-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}-{secrets.token_hex(4)}"
        self._constant = {
            "run_id": path.resolve().name if run_id is None else run_id,
            "case_id": case_id,
            "observer": "broker",
            "recorder": name,
        }
        self._broker = broker
        self._clock = clock
        self._boot = secrets.token_hex(4)
        self._seq = 0
        self._block: list[_Fact] = []
        self._roles: dict[str, object] = {}
        self._drains = Drains()
        self._closed = False
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._files = _series_files()(
            path, name, rows_per_file=rows_per_file, seconds_per_file=seconds_per_file
        )
        self._add(("recorder.start", self._now_us()))
        tick = seconds_per_file / TICKS
        threading.Thread(target=self._check_age, args=(tick,), name="recording-clock", daemon=True).start()

    def record(self, events: Sequence[Event]) -> None:
        """Record events; cheap, as rows are made and written on a thread. Without effect after `close`."""
        if self._closed:
            return
        for event in events:
            if is_recorded(event):
                self._add(event)
            if (drained := self._drains.note(event)) is not None:
                self._add(drained)

    def rebooted(self) -> None:
        """Record that the broker was restarted: later events belong to another boot."""
        self._boot = secrets.token_hex(4)

    def close(self) -> None:
        """Complete the recording and wait for the disk; OSError if it could not be written. May be called twice."""
        if self._closed:
            return
        self._ended.set()
        self._add(("recorder.end", self._now_us()))
        self._closed = True
        with self._lock:
            self._flush()
        self._files.finish()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _now_us(self) -> int:
        return time.time_ns() // 1000 if self._clock is None else round(self._clock() * 1e6)

    def _add(self, fact: Event | Drained | tuple[str, int]) -> None:
        seq, self._seq = self._seq, self._seq + 1
        if self._files.is_full and not isinstance(fact, tuple):
            return
        real_us = None if self._clock is None else time.time_ns() // 1000
        with self._lock:
            self._block.append((seq, self._boot, real_us, fact))
            if len(self._block) >= EVENTS_PER_BLOCK:
                self._flush()

    def _check_age(self, tick: float) -> None:
        """Flush recorded events, so that a quiet broker's files are completed in time."""
        while not self._ended.wait(tick):
            with self._lock:
                if not self._ended.is_set():
                    self._flush()

    def _flush(self) -> None:
        block, self._block = self._block, []
        self._files.write(block, self._row)

    def _row(self, numbered: _Fact) -> Row:
        seq, boot, real_us, fact = numbered
        cells = self._own_row(*fact) if isinstance(fact, tuple) else row_of(fact)
        row: dict[str, object] = {**self._constant, "seq": seq, "boot": boot, "t_real_us": real_us, **cells}
        if "topic" in cells:
            row["broker"] = self._broker
        self._note_role(row)
        if "invoked_us" in cells:
            row["invoked_seq"] = seq
        # The core's time is monotonic, so it serves as the monotonic clock too.
        row["t_mono_ns"] = cast(int, cells["t_wall_us"]) * 1000
        return row

    def _note_role(self, row: dict[str, object]) -> None:
        """Add the client's role to every row: the meaning of a lease change depends on it."""
        client = row.get("client_id")
        if not isinstance(client, str):
            return
        if row["kind"] == "client.start":
            self._roles[client] = row.get("role")
        row.setdefault("role", self._roles.get(client))
        if row["kind"] in ("client.stop", "client.crash"):
            self._roles.pop(client, None)

    def _own_row(self, kind: str, now_us: int) -> dict[str, object]:
        cells: dict[str, object] = {"kind": kind, "t_wall_us": now_us}
        if kind == "recorder.start":
            clock = "real" if self._clock is None else "manual"
            cells["cfg"] = {
                "version": f"{VERSION}",
                "writer": f"aiorocketmq_fake {version('aiorocketmq')}",
                "clock": clock,
            }
        return cells


def _series_files() -> type[SeriesFiles]:
    try:
        from aiorocketmq_fake.edge.recording_files import SeriesFiles
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "pyarrow":
            raise
        raise PyarrowMissingError(
            "recording needs pyarrow: run pip install 'aiorocketmq[recording]'."
        ) from missing
    return SeriesFiles
