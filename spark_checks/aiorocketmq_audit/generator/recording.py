"""Generates a recording, block by block: messages, rows of all observers, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.generator import observations
from aiorocketmq_audit.generator.columns import Cells, Columns, Draft, Ints
from aiorocketmq_audit.generator.faults import ExpectedFinding
from aiorocketmq_audit.generator.files import ObserverFiles
from aiorocketmq_audit.generator.injection import plant, require_scenarios
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.world import LEAD_US, SHIPMENTS, START_US, TOPICS, Block, World, next_block

ROWS_PER_BLOCK = 150_000
"""Rows generated at a time, which bounds the memory."""

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Generated:
    """Figures of a written recording."""

    events: int
    files: int
    messages: int
    planted: tuple[ExpectedFinding, ...] = ()
    """The findings that an audit must report, and no others."""


def generate(
    folder: Path | str,
    *,
    events: int,
    seed: int = 1,
    shape: Shape | None = None,
    plants: Mapping[str, int] | None = None,
) -> Generated:
    """Write a recording of about `events` rows (never fewer) into `folder`, which must be empty or new.

    The same seed and shape generate the same recording. `plants` are faults to inject, and how many of each.

    Raises UsageError for a folder that is not empty, OSError for failed writes.
    """
    if events < 1 or seed < 0:
        raise UsageError("--events must be at least 1, and --seed at least 0.")
    chosen = shape or Shape()
    if plants:
        require_scenarios(chosen)
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise UsageError(
            f"{path} is no folder that can be written to ({error.strerror}): give another one."
        ) from error
    if not is_empty:
        raise UsageError(f"{path} is not empty: give a new folder, so that two recordings do not become one.")
    making = _Generating(path, events, seed, chosen)
    generated = making.run()
    if not plants:
        return generated
    planted, rows = plant(path, plants, chosen, f"generated-{seed}", making.span_us, seed)
    return Generated(generated.events + rows, len(list(path.glob("*.parquet"))), generated.messages, planted)


class _Generating:
    def __init__(self, folder: Path, events: int, seed: int, shape: Shape) -> None:
        self._events = events
        self._shape = shape
        self._chance = np.random.default_rng(seed)
        self._world = World(shape, self._chance)
        run = f"generated-{seed}"
        self._names = {who: Names(shape, run, is_broker=who == "broker") for who in shape.observers}
        self._files = {
            who: ObserverFiles(folder, who, names, self._skew(who, names), shape.rows_per_file, salt=seed)
            for who, names in self._names.items()
        }

    def run(self) -> Generated:
        for who, files in self._files.items():
            files.add(self._beginning(who))
        self._compare_clocks(START_US - 700_000)
        per_message, rows = 50.0, 0
        while rows < self._events:
            left = (self._events - rows) / per_message
            block = next_block(self._world, max(1, round(min(left, ROWS_PER_BLOCK / per_message))))
            settled = observations.Settled(block, self._shape, self._chance)
            for who, files in self._files.items():
                rows += files.add(self._observed(who, block, settled))
            per_message = rows / self._world.messages
            self._compare_clocks(self._world.now_us - LEAD_US)
            self._release(self._world.now_us - LEAD_US)
        return self._end()

    @property
    def span_us(self) -> tuple[int, int]:
        """The interval in which scenarios may begin, without a restart, which would exempt their findings."""
        return self._world.calm_us, max(self._world.now_us, self._world.calm_us + 60 * _SECOND)

    def _skew(self, who: str, names: Names) -> Ints:
        limit = 0 if who == "broker" else self._shape.skew_ms * 1000
        return self._chance.integers(-limit, limit + 1, len(names.recorders))

    def _observed(self, who: str, block: Block, settled: observations.Settled) -> Columns:
        if who == "broker":
            return observations.broker(block, settled, self._names[who])
        return observations.clients(block, settled, self._names[who], self._chance)

    def _release(self, before: int | None) -> None:
        for files in self._files.values():
            files.release(before, self._world.strays)

    def _recorders(self, draft: Draft, who: str, **cells: int | str) -> None:
        """Add one row of each recorder."""
        recorders = np.arange(len(self._names[who].recorders))
        draft.add(len(recorders), recorder=recorders, **cells)

    def _beginning(self, who: str) -> Columns:
        names, draft = self._names[who], Draft()
        groups = np.arange(len(names.groups))
        self._recorders(draft, who, kind="recorder.start", at=START_US - 2 * _SECOND, cfg=len(groups))
        joins = self._consumers(who)
        draft.add(names.consumers, joins, kind="client.start", at=START_US - 900_000)
        if who == "broker":
            draft.add(len(groups), recorder=0, kind="config", group=groups, cfg=groups, at=START_US - _SECOND)
        else:
            draft.add(names.consumers, joins, kind="config", cfg=joins["group"], at=START_US - 800_000)
        return draft.table()

    def _consumers(self, who: str) -> Cells:
        consumers = np.arange(self._names[who].consumers)
        group = consumers // self._shape.consumers
        recorder = 0 if who == "broker" else consumers
        return {"client_id": consumers, "group": group, "role": "push", "recorder": recorder}

    def _compare_clocks(self, at: int) -> None:
        if "client" in self._files:
            draft, recorders = Draft(), np.arange(len(self._names["client"].recorders))
            draft.add(len(recorders), recorder=recorders, kind="clock.sample", clk=recorders, at=at)
            self._files["client"].add(draft.table())

    def _end(self) -> Generated:
        last = max(self._world.now_us, *(each.latest_us for each in self._files.values())) + _SECOND
        for who, files in self._files.items():
            draft = Draft()
            draft.add(self._names[who].consumers, self._consumers(who), kind="client.stop", at=last)
            if who == "broker":
                self._drained(draft, last)
            self._recorders(draft, who, kind="recorder.end", at=last + _SECOND)
            files.add(draft.table())
        self._release(None)
        count = sum(files.close() for files in self._files.values())
        rows = sum(files.rows for files in self._files.values())
        return Generated(rows, count, self._world.messages)

    def _drained(self, draft: Draft, at: int) -> None:
        """Add drains: every group was delivered and has settled all messages of its topics."""
        for group in range(self._world.all_groups):
            topics = np.array([SHIPMENTS]) if group >= self._shape.groups else np.arange(len(TOPICS))
            draft.add(len(topics), recorder=0, kind="drain.ok", group=group, topic=topics, at=at)
