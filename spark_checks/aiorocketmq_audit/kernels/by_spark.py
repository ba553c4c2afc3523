"""Workers that are Spark's own: for sessions whose workers see the files that this process sees."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from aiorocketmq_audit.kernels.events import Piece
from aiorocketmq_audit.kernels.question import Told
from aiorocketmq_audit.kernels.tasks import Answer, Cut

T = TypeVar("T")

_TOLD = "told binary"

_BLOCKS = pa.schema([("unit", pa.int32()), ("part", pa.int32()), ("block", pa.binary())])


@dataclass(frozen=True, slots=True)
class SparkWorkers:
    """The Python workers of a session."""

    spark: SparkSession

    def each(self, look: Callable[[Sequence[Piece]], T], tasks: Sequence[Sequence[Piece]]) -> list[T]:
        """What a look at each task's pieces says, in any order. Raises PySparkException."""
        return _collected(self._dealt(tasks).mapInArrow(_Looking(look, tasks), _TOLD))

    def exchanged(self, cut: Cut, answer: Answer, tasks: Sequence[Sequence[Piece]]) -> list[Told]:
        """Cut all tasks' pieces, and answer each unit that has any rows. Raises PySparkException."""
        blocks = self._dealt(tasks).mapInArrow(_Cutting(cut, tasks), "unit int, part int, block binary")
        return _collected(blocks.repartition("unit").mapInArrow(_Answering(answer), _TOLD))

    def _dealt(self, tasks: Sequence[Sequence[Piece]]) -> DataFrame:
        return self.spark.range(0, len(tasks), 1, len(tasks))


def _collected(frame: DataFrame) -> list[Any]:
    return [pickle.loads(row.told) for row in frame.collect()]


def _told(found: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"told": [pickle.dumps(found)]})


@dataclass(frozen=True, slots=True)
class _Looking:
    look: Callable[[Sequence[Piece]], Any]
    tasks: Sequence[Sequence[Piece]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                yield _told(self.look(self.tasks[index]))


@dataclass(frozen=True, slots=True)
class _Cutting:
    cut: Cut
    tasks: Sequence[Sequence[Piece]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                blocks = self.cut(self.tasks[index])
                units, parts = ([key[place] for key in blocks] for place in (0, 1))
                yield pa.RecordBatch.from_pydict(
                    {"unit": units, "part": parts, "block": list(blocks.values())}, _BLOCKS
                )


@dataclass(frozen=True, slots=True)
class _Answering:
    answer: Answer

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Held until all have come: Spark's sort would copy them once more.
        blocks: dict[int, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for batch in batches:
            units, parts = (batch.column(name).to_pylist() for name in ("unit", "part"))
            for unit, part, block in zip(units, parts, batch.column("block"), strict=True):
                blocks[unit][part].append(block.as_buffer())
        while blocks:
            unit, mine = blocks.popitem()
            yield _told(self.answer(unit, mine))
