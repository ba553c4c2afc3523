"""Workers that are Spark's own, of a cluster on this machine: they see the files that this process sees."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from aiorocketmq_audit.kernels.exchange import Exchange

T = TypeVar("T")


class SparkWorkers(Exchange):
    """The Python workers of a session: Spark deals the tasks out, and brings back what they come to."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def _map(self, work: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
        # By files, as what is sent with the work goes to every one of them.
        with tempfile.TemporaryDirectory(prefix="aiorocketmq-audit-") as folder:
            for number, task in enumerate(tasks):
                (Path(folder) / str(number)).write_bytes(pickle.dumps(task, pickle.HIGHEST_PROTOCOL))
            # Each start of a worker costs; a few for each core are enough to let all of them end together.
            starts = min(len(tasks), 4 * self._spark.sparkContext.defaultParallelism)
            dealt = self._spark.range(0, len(tasks), 1, max(1, starts))
            told = dealt.mapInArrow(_Working(work, folder), "told binary").collect()
        return [pickle.loads(row.told) for row in told]


@dataclass(frozen=True, slots=True)
class _Working:
    work: Callable[[Any], Any]
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                task = pickle.loads((Path(self.folder) / str(number)).read_bytes())
                told = pickle.dumps(self.work(task), pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_pydict({"told": [told]})
