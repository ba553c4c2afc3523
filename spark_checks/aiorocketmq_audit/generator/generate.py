"""Generating a recording, block by block: messages, the accounts of all observers, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.generator import accounts, names as n
from aiorocketmq_audit.generator.columns import Cells, Columns, Draft, length
from aiorocketmq_audit.generator.files import Account
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.planting import Planted, demand_scenes, plant
from aiorocketmq_audit.generator.shape import Shape
from aiorocketmq_audit.generator.world import LEAD_US, SHIPMENTS, START_US, TOPICS, Block, World, next_block
from aiorocketmq_audit.recording.schema import VERSION

ROWS_PER_BLOCK = 150_000
"""Rows that are made at a time: what bounds the memory."""

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Generated:
    """What was written."""

    events: int
    files: int
    messages: int
    planted: tuple[Planted, ...] = ()
    """What the audit must find, and nothing else."""


def generate(
    folder: Path | str,
    *,
    events: int,
    seed: int = 1,
    shape: Shape | None = None,
    plants: Mapping[str, int] | None = None,
) -> Generated:
    """Write a recording of about `events` rows (never fewer) into `folder`, which must be empty or new.

    The same seed and shape make the same recording. `plants` names faults to plant into it, and how many of each.

    Raises WrongUse for a folder that holds something, OSError when the disk refuses.
    """
    if events < 1 or seed < 0:
        raise WrongUse("--events must be at least 1, and --seed at least 0.")
    chosen = shape or Shape()
    if plants:
        demand_scenes(chosen)
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise WrongUse(
            f"{path} is no folder that can be written to ({error.strerror}): give another one."
        ) from error
    if not is_empty:
        raise WrongUse(f"{path} is not empty: give a new folder, so that two recordings do not become one.")
    making = _Generating(path, events, seed, chosen)
    made = making.run()
    if not plants:
        return made
    planted, rows = plant(path, plants, chosen, f"generated-{seed}", making.span_us, seed)
    return Generated(made.events + rows, len(list(path.glob("*.parquet"))), made.messages, planted)


class _Generating:
    def __init__(self, folder: Path, events: int, seed: int, shape: Shape) -> None:
        self._events = events
        self._shape = shape
        self._chance = np.random.default_rng(seed)
        self._world = World(shape, self._chance)
        self._names = {
            who: Names(shape, f"generated-{seed}", is_broker=who == "broker") for who in shape.observers
        }
        self._accounts = {who: self._account(folder, who, seed) for who in shape.observers}

    def run(self) -> Generated:
        for who in self._accounts:
            self._add(who, self._beginning(who))
        self._compare_clocks(START_US - 700_000)
        per_message, rows = 50.0, 0
        while rows < self._events:
            left = (self._events - rows) / per_message
            block = next_block(self._world, max(1, round(min(left, ROWS_PER_BLOCK / per_message))))
            settled = accounts.Settled(block, self._shape, self._chance)
            for who in self._accounts:
                rows += self._add(who, self._told(who, block, settled))
            per_message = rows / self._world.messages
            self._compare_clocks(self._world.now_us - LEAD_US)
            self._release(self._world.now_us - LEAD_US)
        return self._end()

    @property
    def span_us(self) -> tuple[int, int]:
        """The time in which scenes may begin: a restart would excuse what they break."""
        return self._world.calm_us, max(self._world.now_us, self._world.calm_us + 60 * _SECOND)

    def _account(self, folder: Path, who: str, seed: int) -> Account:
        recorders = len(self._names[who].recorders)
        limit = 0 if who == "broker" else self._shape.skew_ms * 1000
        skew = self._chance.integers(-limit, limit + 1, recorders)
        return Account(
            folder,
            who,
            self._names[who],
            skew,
            self._shape.rows_per_file,
            salt=seed,
        )

    def _told(self, who: str, block: Block, settled: accounts.Settled) -> Columns:
        if who == "broker":
            return accounts.broker(block, settled, self._names[who])
        return accounts.clients(block, settled, self._names[who], self._chance)

    def _add(self, who: str, rows: Columns) -> int:
        self._accounts[who].add(rows)
        return length(rows)

    def _release(self, before: int | None) -> None:
        for who, account in self._accounts.items():
            names = self._names[who]
            settings = [names.settings(group) for group in range(len(names.groups))]
            settings.append(
                {"version": str(VERSION), "writer": "aiorocketmq_audit generator", "clock": "real"}
            )
            account.release(before, settings, self._world.strays)

    def _beginning(self, who: str) -> Columns:
        names, draft = self._names[who], Draft()
        recorders, groups = np.arange(len(names.recorders)), np.arange(len(names.groups))
        draft.add(
            len(recorders), recorder=recorders, kind=n.BEGIN, at=START_US - 2 * _SECOND, cfg=len(groups)
        )
        joins = self._consumers(who)
        draft.add(names.consumers, joins, kind=n.CLIENT_START, at=START_US - 900_000)
        if who == "broker":
            draft.add(len(groups), recorder=0, kind=n.CONFIG, group=groups, cfg=groups, at=START_US - _SECOND)
        else:
            draft.add(names.consumers, joins, kind=n.CONFIG, cfg=joins["group"], at=START_US - 800_000)
        return draft.table()

    def _consumers(self, who: str) -> Cells:
        consumers = np.arange(self._names[who].consumers)
        group = consumers // self._shape.consumers
        recorder = 0 if who == "broker" else consumers
        return {"client": consumers, "group": group, "role": n.PUSH, "recorder": recorder}

    def _compare_clocks(self, at: int) -> None:
        if "client" in self._accounts:
            recorders, draft = np.arange(len(self._names["client"].recorders)), Draft()
            draft.add(len(recorders), recorder=recorders, kind=n.CLOCK_SAMPLE, sample=recorders, at=at)
            self._accounts["client"].add(draft.table())

    def _drained(self, draft: Draft, at: int) -> None:
        """Every group has got and settled all that there was of its topics."""
        for group in range(self._world.all_groups):
            topics = np.array([SHIPMENTS]) if group >= self._shape.groups else np.arange(len(TOPICS))
            draft.add(len(topics), recorder=0, kind=n.DRAIN, group=group, topic=topics, at=at)

    def _end(self) -> Generated:
        last = max(self._world.now_us, *(account.latest_us for account in self._accounts.values())) + _SECOND
        for who, account in self._accounts.items():
            names, draft = self._names[who], Draft()
            draft.add(names.consumers, self._consumers(who), kind=n.CLIENT_STOP, at=last)
            if who == "broker":
                self._drained(draft, last)
            recorders = np.arange(len(names.recorders))
            draft.add(len(recorders), recorder=recorders, kind=n.END, at=last + _SECOND)
            account.add(draft.table())
        self._release(None)
        files = sum(account.close() for account in self._accounts.values())
        rows = sum(account.rows for account in self._accounts.values())
        return Generated(rows, files, self._world.messages)
