"""Short histories by name, each with what must be found in it; those of one book are judged together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiorocketmq_audit.generator.planting import numbered
from aiorocketmq_audit.recording.schema import COLUMNS, RECORDING
from pyspark.sql import DataFrame, SparkSession, functions as F

START = 1_700_000_000_000_000
"""When histories begin, in microseconds since 1970."""
SECOND = 1_000_000

Write = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Page:
    """One history."""

    write: Write
    found: frozenset[tuple[str, str]]
    """(invariant, verdict) pairs that must come out, and no others."""
    ordered: bool
    by_clients: bool
    """No broker has told of the group."""

    def tell(self, history: Any) -> Any:
        """Write it, with the settings that all of them have."""
        history.config(ordered=self.ordered, max_attempts=17, steps_ms="40000")
        self.write(history)
        return history


class Book:
    """Histories under their claims; call it to add one."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}

    def __call__(
        self, name: str, *found: tuple[str, str], ordered: bool = False, by_clients: bool = False
    ) -> Callable[[Write], Write]:
        def register(write: Write) -> Write:
            assert name not in self.pages, f"two histories say that {name}"
            self.pages[name] = Page(write, frozenset(found), ordered, by_clients)
            return write

        return register

    def events(self, spark: SparkSession, history_type: Callable[[str], Any]) -> DataFrame:
        """All histories, each in a case of its name."""
        rows = []
        for name, page in self.pages.items():
            made = page.tell(history_type(name))
            rows += [tuple(row[column] for column in COLUMNS) for row in made.end().rows]
        return spark.createDataFrame(rows, RECORDING)

    def found(self, findings: DataFrame, events: DataFrame, proof: str) -> dict[str, set[tuple[str, str]]]:
        """By history, what was found in it; `proof` is the column of the recorder that proves it."""
        names = events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct()
        pairs = findings.join(names, F.col(proof) == F.col("key")).select("case_id", "invariant", "verdict")
        collected: dict[str, set[tuple[str, str]]] = {name: set() for name in self.pages}
        for row in pairs.collect():
            collected[row.case_id].add((row.invariant, row.verdict))
        return collected


CHECKED = Book()
"""What the checks judge."""
ASIDE = Book()
"""What `sides` judge."""


def as_written(history: Any) -> list[dict[str, Any]]:
    """The rows of a history as its recorders would have written them, if it has several."""
    rows = history.rows
    whole = []
    for recorder in sorted({row["recorder"] for row in rows}):
        mine = [row for row in rows if row["recorder"] == recorder and row["kind"] != "recorder.start"]
        constant = {name: rows[0][name] for name in ("run_id", "case_id", "boot", "observer")}
        whole += numbered(mine, constant | {"recorder": recorder}, (START, START))
    return whole
