"""Counts of whole recordings: Spark deals out pieces of files, and exchanges blocks of numbers."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.utils import is_remote

from aiorocketmq_audit import handles, isolation, loss, offsets, origin
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.kernels import answers, handles as handle_questions, passed, places, survey, traces
from aiorocketmq_audit.kernels.blocks import joined, shares
from aiorocketmq_audit.kernels.events import Piece, pieces, read
from aiorocketmq_audit.kernels.question import Question, Survey
from aiorocketmq_audit.kernels.texts import hashes, mixed
from aiorocketmq_audit.reading import reason

logger = logging.getLogger(__name__)

QUESTIONS: Mapping[str, tuple[Question, ...]] = MappingProxyType(
    {
        handles.NAME: (handle_questions.QUESTION,),
        isolation.CHECK: (answers.QUESTION,),
        offsets.NAME: (places.SPOTS, places.SENDS),
        origin.NAME: (traces.QUESTION,),
        loss.NAME: (passed.QUESTION,),
    }
)
"""By check: what is counted for it."""

ROWS = 300_000
"""Rows of a recording that are looked at together, at most, but for row groups that are larger."""

SHARE = 300_000
"""Rows of a question that are looked at together, about."""

_TASK = 3
"""Pieces that one task looks at."""


def told(
    spark: SparkSession,
    found: RecordingFiles,
    settings: DataFrame,
    checks: Collection[str],
) -> dict[str, tuple[int, int]]:
    """What `checks` count of a whole recording, as `findings.counted` tells it, of all that QUESTIONS has: as many
    facts, and at least as many that look wrong. Nothing where files or workers are elsewhere."""
    asked = tuple(question for name in checks for question in QUESTIONS.get(name, ()))
    if not asked or not found.is_local or not _is_here(spark):
        return {}
    try:
        return counted(spark, found.readable, _groups(settings.collect()), asked)
    except (PySparkException, pa.ArrowException) as error:
        logger.warning("The checks count by Spark alone, which takes longer: %s", reason(error))
        return {}


def counted(
    spark: SparkSession, paths: Sequence[str], groups: survey.Groups, asked: Sequence[Question]
) -> dict[str, tuple[int, int]]:
    """The counts of all `asked` together."""
    parts = tuple(pieces(paths, ROWS))
    looks = _dealt(spark, parts).mapInArrow(_Looker(parts, groups), "told binary").collect()
    seen = survey.survey((pickle.loads(row.told) for row in looks), groups)
    count = max(1, sum(part.rows for part in parts) // SHARE)
    blocks = _dealt(spark, parts).mapInArrow(
        _Cutter(parts, tuple(asked), seen, count), "unit int, block binary"
    )
    each = blocks.repartition("unit").sortWithinPartitions("unit")
    total: dict[str, Counter[str]] = {}
    for row in each.mapInArrow(
        _Counter(tuple(asked), count), "what string, judged long, found long"
    ).collect():
        total.setdefault(row.what, Counter()).update(judged=row.judged, found=row.found)
    return {name: (numbers["judged"], numbers["found"]) for name, numbers in total.items()}


def _is_here(spark: SparkSession) -> bool:
    """Whether the workers of a session see the files that this process sees."""
    return not is_remote() and str(spark.conf.get("spark.master", "")).startswith("local")


def _groups(settings: Iterable[Row]) -> survey.Groups:
    rows = list(settings)
    keys = mixed(
        *(
            hashes(pa.array([row[name] for row in rows], pa.string()))
            for name in ("run_id", "case_id", "group")
        )
    )
    return survey.Groups(
        keys[np.array([row.ordered is False for row in rows], np.bool_)],
        keys[np.array([bool(row.told_by_broker) for row in rows], np.bool_)],
    )


def _dealt(spark: SparkSession, parts: Sequence[Piece]) -> DataFrame:
    return spark.range(0, len(parts), 1, -(-len(parts) // _TASK))


@dataclass(frozen=True, slots=True)
class _Looker:
    parts: tuple[Piece, ...]
    groups: survey.Groups

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column("id").to_pylist():
                events = read(self.parts[index], survey.COLUMNS)
                told = pickle.dumps(survey.look(events, self.groups))
                yield pa.RecordBatch.from_pydict({"told": [told]})


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cut what each question wants of each piece into shares, and number them."""

    parts: tuple[Piece, ...]
    questions: tuple[Question, ...]
    survey: Survey
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = sorted({name for question in self.questions for name in question.columns})
        for batch in batches:
            for index in batch.column("id").to_pylist():
                events = read(self.parts[index], columns)
                for number, question in enumerate(self.questions):
                    rows = question.rows(events, self.survey)
                    cut = list(shares(rows, question.layout, self.count))
                    units = pa.array([number * self.count + share for share, _ in cut], pa.int32())
                    blocks = pa.array([block for _, block in cut], pa.binary())
                    yield pa.RecordBatch.from_arrays([units, blocks], ["unit", "block"])


@dataclass(frozen=True, slots=True)
class _Counter:
    """Put the blocks of each share together, and count them."""

    questions: tuple[Question, ...]
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        unit, blocks = -1, list[bytes]()
        for batch in batches:
            for number, block in zip(batch.column("unit").to_pylist(), batch.column("block"), strict=True):
                if number != unit and blocks:
                    yield self._counts(unit, blocks)
                    blocks = []
                unit = number
                blocks.append(block.as_buffer())
        if blocks:
            yield self._counts(unit, blocks)

    def _counts(self, unit: int, blocks: Sequence[bytes]) -> pa.RecordBatch:
        question = self.questions[unit // self.count]
        counts = question.answer(joined(blocks, question.layout))
        judged, found = zip(*counts.values(), strict=True)
        return pa.RecordBatch.from_pydict({"what": list(counts), "judged": judged, "found": found})
