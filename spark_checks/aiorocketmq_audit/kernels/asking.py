"""Questions to whole recordings: Spark deals out pieces of files, exchanges blocks of numbers, keeps the answers."""

from __future__ import annotations

import logging
import pickle
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F
from pyspark.sql.utils import is_remote

from aiorocketmq_audit import fairness, gates, handles, handling, isolation, loss, offsets, origin, screen
from aiorocketmq_audit.files import RecordingFiles
from aiorocketmq_audit.gates import Gates
from aiorocketmq_audit.kernels import (
    answers,
    cells,
    drains,
    handlers,
    handles as handle_questions,
    leases,
    passed,
    places,
    slices,
    survey,
    traces,
)
from aiorocketmq_audit.kernels.blocks import joined, shares
from aiorocketmq_audit.kernels.events import NONE, Numbers, Piece, Reader, pieces
from aiorocketmq_audit.kernels.question import COUNTED, Question, Settings, Survey, Table
from aiorocketmq_audit.kernels.texts import Hashes, hashes, mixed
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

MOST_HANDLERS = 20_000_000
"""Begins of handlers that are looked at by whole message groups: one worker holds all those of a hot one."""

_CHANGING = ("recall", "tx.end")
"""Kinds of events that make a difference to what a drain proves, which only the check itself knows."""

ROWS = 100_000
"""Rows of a recording that are looked at together, at most, but for row groups that are larger."""

SHARE = 300_000
"""Rows of a question that are looked at together, about."""

_TASK = 10
"""Pieces that one task looks at."""

BLOCKS = pa.schema([("unit", pa.int32()), ("part", pa.int32()), ("block", pa.binary())])

SCHEMA = pa.schema([*COUNTED, *cells.SCHEMA])
"""What all questions together answer: rows of the one, and rows of the other."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What was asked of a whole recording."""

    counts: dict[str, tuple[int, int]]
    """As `findings.counted` tells it: as many facts, and at least as many that look wrong."""
    told: DataFrame
    """All answers, persisted."""

    @property
    def summary(self) -> DataFrame:
        """What the screen saw, for `closeup`."""
        return self.told.where("what is null").select(*cells.SCHEMA.names)

    def release(self) -> None:
        """Forget all that was kept."""
        self.told.unpersist()


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A recording that was looked at once."""

    pieces: tuple[Piece, ...]
    numbers: list[Row]
    """As `gates.numbers` has them."""
    survey: Survey

    def ask(
        self, spark: SparkSession, settings: DataFrame, gate: Gates, checks: Collection[str]
    ) -> Answers | None:
        """Screen it, and count for `checks` what QUESTIONS has. None where workers cannot do it."""
        frame = _frame(settings.collect(), gate)
        asked = (leases.question(frame), *_questions(frame.settings, self.survey, gate, checks))
        try:
            return _asked(spark, self, asked)
        except PySparkException as error:
            logger.warning("Spark alone screens the recording, which takes longer: %s", reason(error))
            return None


def surveyed(spark: SparkSession, found: RecordingFiles, settings: DataFrame) -> Surveyed | None:
    """Look at a whole recording once. None where its files, or the session's workers, are elsewhere, or where it
    cannot be read in this way."""
    if not found.readable or not found.is_local or not _is_here(spark):
        return None
    try:
        groups = _groups(settings.collect())
        parts = tuple(pieces(found.readable, ROWS))
        if not parts:
            return None
        told = _dealt(spark, parts).mapInArrow(_Looker(parts, groups), "told binary").collect()
        look = survey.merged(pickle.loads(row.told) for row in told)
        rows = gates.added_up(Row(**row) for row in look.recorders)
        return Surveyed(parts, rows, survey.survey(look, groups))
    except (PySparkException, pa.ArrowException, OSError) as error:
        # Whatever is wrong with the files, the gates will say it.
        logger.info("Spark alone looks at the recording, which takes longer: %s", reason(error))
        return None


def _questions(settings: Settings, seen: Survey, gate: Gates, checks: Collection[str]) -> Iterator[Question]:
    """What `checks` count besides the leases, of kinds of events that are there."""
    kinds = gate.kinds
    for name in checks:
        if name != loss.NAME or seen.windows is not None:
            yield from QUESTIONS.get(name, ())
    if fairness.NAME in checks and kinds.get("deliver"):
        yield slices.question(settings)
    if handling.CHECK in checks and 0 < kinds.get("handle.start", 0) <= MOST_HANDLERS:
        yield handlers.question(settings)
    if loss.NAME in checks and kinds.get("drain.ok") and not any(kinds.get(kind) for kind in _CHANGING):
        yield drains.question(settings)


def _asked(spark: SparkSession, seen: Surveyed, asked: tuple[Question, ...]) -> Answers:
    parts = seen.pieces
    count = max(1, sum(part.rows for part in parts) // SHARE)
    blocks = _dealt(spark, parts).mapInArrow(_Cutter(parts, asked, seen.survey, count), _declared(BLOCKS))
    told = blocks.repartition("unit").mapInArrow(_Answerer(asked, count), _declared(SCHEMA)).persist()
    try:
        sums = (F.sum(name).alias(name) for name in ("judged", "found"))
        counted = told.where("what is not null").groupBy("what").agg(*sums).collect()
    except PySparkException:
        told.unpersist()
        raise
    return Answers({row.what: (row.judged, row.found) for row in counted}, told)


_NAMES = {"bool": "boolean", "int32": "int", "int64": "bigint"}


def _declared(schema: pa.Schema) -> str:
    """The same columns as Spark declares them."""
    return ", ".join(f"{field.name} {_NAMES.get(str(field.type), field.type)}" for field in schema)


def _is_here(spark: SparkSession) -> bool:
    """Whether the workers of a session see the files that this process sees."""
    return not is_remote() and str(spark.conf.get("spark.master", "")).startswith("local")


def _keys(settings: Sequence[Row]) -> Hashes:
    names = ("run_id", "case_id", "group")
    return mixed(*(hashes(pa.array([row[name] for row in settings], pa.string())) for name in names))


def _groups(settings: Sequence[Row]) -> survey.Groups:
    keys = _keys(settings)
    return survey.Groups(
        keys[np.array([row.ordered is False for row in settings], np.bool_)],
        keys[np.array([bool(row.told_by_broker) for row in settings], np.bool_)],
    )


def _frame(settings: Sequence[Row], gate: Gates) -> leases.Frame:
    def numbers(name: str) -> Numbers:
        return np.array([NONE if row[name] is None else int(row[name]) for row in settings], np.int64)

    return leases.Frame(
        Settings(
            places=Table.by(_keys(settings), np.arange(len(settings))),
            ordered=numbers("ordered"),
            told_by_broker=np.array([bool(row.told_by_broker) for row in settings], np.bool_),
            max_attempts=numbers("max_attempts"),
            steps=tuple(tuple(row.steps_ms or ()) for row in settings),
            early=numbers("early_us"),
            late=numbers("late_us"),
            apart=numbers("apart_us"),
        ),
        clocks_agree=not gate.clocks,
        ended_us=gate.ended_us or 0,
        has_open_calls=gate.has_open_settling,
        has_drains=bool(gate.kinds.get("drain.ok")),
        chunk_bits=screen.CHUNK_BITS,
    )


def _dealt(spark: SparkSession, parts: Sequence[Piece]) -> DataFrame:
    return spark.range(0, len(parts), 1, -(-len(parts) // _TASK))


@dataclass(frozen=True, slots=True)
class _Looker:
    """Look at pieces, and tell what was seen of all together."""

    parts: tuple[Piece, ...]
    groups: survey.Groups

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader(survey.COLUMNS)
        chosen = (index for batch in batches for index in batch.column("id").to_pylist())
        looks = [survey.look(reader.read(self.parts[index]), self.groups) for index in chosen]
        if looks:
            yield pa.RecordBatch.from_pydict({"told": [pickle.dumps(survey.merged(looks))]})


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cut what each question wants of each piece into shares, and number them."""

    parts: tuple[Piece, ...]
    questions: tuple[Question, ...]
    survey: Survey
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader({name for question in self.questions for name in question.columns})
        for batch in batches:
            for index in batch.column("id").to_pylist():
                events = reader.read(self.parts[index])
                for number, question in enumerate(self.questions):
                    for part, rows in enumerate(question.rows(events, self.survey)):
                        cut = list(shares(rows, question.layouts[part], self.count))
                        units = [number * self.count + share for share, _ in cut]
                        yield pa.RecordBatch.from_pydict(
                            {"unit": units, "part": [part] * len(cut), "block": [block for _, block in cut]},
                            BLOCKS,
                        )


@dataclass(frozen=True, slots=True)
class _Answerer:
    """Put the blocks of each share together, and answer the question that they are of."""

    questions: tuple[Question, ...]
    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Held until all have come: Spark's sort would copy them once more.
        blocks: dict[int, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for batch in batches:
            units, parts = (batch.column(name).to_pylist() for name in ("unit", "part"))
            for unit, part, block in zip(units, parts, batch.column("block"), strict=True):
                blocks[unit][part].append(block.as_buffer())
        while blocks:
            yield self._answer(*blocks.popitem())

    def _answer(self, unit: int, blocks: Mapping[int, Sequence[Any]]) -> pa.RecordBatch:
        question = self.questions[unit // self.count]
        tables = (joined(blocks.get(part, ()), layout) for part, layout in enumerate(question.layouts))
        told = question.answer(*tables)
        columns = [
            told.column(field.name)
            if field.name in told.schema.names
            else pa.nulls(told.num_rows, field.type)
            for field in SCHEMA
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
