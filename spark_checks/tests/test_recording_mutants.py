"""A good recording with one thing changed: the verdict changes as foretold, or a gate stops it; valid it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.layout import SCHEMA
from aiorocketmq_audit.run import audit
from aiorocketmq_audit.verdicts import Verdict
from pyarrow import parquet
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Row = dict[str, Any]

SHAPE = Shape(
    groups=1,
    ordered_groups=1,
    consumers=1,
    crashes=0,
    restarts=0,
    message_groups=3,
    ordered_share=0.8,
    refused=0.0,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("good") / "runs"
    generate(folder, events=600, seed=21, shape=SHAPE)
    return [row for file in sorted(folder.iterdir()) for row in parquet.read_table(file).to_pylist()]


@dataclass(frozen=True)
class Mutant:
    """What is changed, and what comes of it."""

    change: Callable[[list[Row]], list[Row]]
    verdict: Verdict
    broken: frozenset[str] = frozenset()
    """Checks that find something broken."""
    gate: str = ""
    """Part of the sentence by which a gate stops it."""


def ordered(rows: list[Row]) -> list[Row]:
    """The broker's first deliveries to the ordered group, of the message group that has most of them."""
    given = [
        row
        for row in rows
        if (row["observer"], row["kind"], row["group"], row["attempt"])
        == ("broker", "deliver", "ordered-0", 1)
    ]
    names = [row["message_group"] for row in given]
    most = max(sorted(set(names)), key=names.count)
    found = sorted((row for row in given if row["message_group"] == most), key=lambda row: int(row["offset"]))
    assert len(found) > 4
    return found


def closed_up(rows: list[Row]) -> list[Row]:
    """Number the rows of each recorder anew, as a recorder would that never saw what is gone."""
    numbers: dict[str, int] = {}
    made = []
    for row in sorted(rows, key=lambda row: (row["recorder"], row["t_wall_us"], row["seq"])):
        numbers[row["recorder"]] = numbers.get(row["recorder"], -1) + 1
        made.append({**row, "seq": numbers[row["recorder"]], "invoked_seq": None})
    return made


def deleted(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row is not ordered(rows)[2]]


def hidden(rows: list[Row]) -> list[Row]:
    gone = ordered(rows)[2]
    about = [row for row in rows if (row["group"], row["message_id"]) == (gone["group"], gone["message_id"])]
    return closed_up([row for row in rows if not (row in about and row["observer"] == "broker")])


def swapped(rows: list[Row]) -> list[Row]:
    """Two messages were handed out in each other's place, and acknowledged there."""
    first, second = ordered(rows)[1:3]
    names = ("message_id", "offset", "body_sha", "pseq", "store_us", "born_us", "tag")

    def other(row: Row) -> Row:
        if row["observer"] != "broker" or row["group"] != "ordered-0":
            return row
        for one, another in ((first, second), (second, first)):
            if row["message_id"] == one["message_id"]:
                return {**row, **{name: another[name] for name in names if row[name] is not None}}
        return row

    return [other(row) for row in rows]


def doubled(rows: list[Row]) -> list[Row]:
    again = {**ordered(rows)[2]}
    again["t_wall_us"] += 500
    again["t_mono_ns"] += 500_000
    return closed_up([*rows, again])


def copied(rows: list[Row]) -> list[Row]:
    return [*rows, ordered(rows)[2]]


def shifted(rows: list[Row]) -> list[Row]:
    """One client's clock is five seconds ahead, from the beginning."""
    who = next(row["recorder"] for row in rows if row["observer"] == "client" and row["kind"] == "deliver")

    def late(row: Row) -> Row:
        if row["recorder"] != who:
            return row
        called = None if row["invoked_us"] is None else row["invoked_us"] + 5_000_000
        return {
            **row,
            "t_wall_us": row["t_wall_us"] + 5_000_000,
            "t_mono_ns": row["t_mono_ns"] + 5_000_000_000,
            "invoked_us": called,
            "clk": None,
        }

    return [late(row) for row in rows]


def renamed(rows: list[Row]) -> list[Row]:
    """Of a group, nobody tells any more what was set for it."""
    return [
        {**row, "group": "nobody"} if row["group"] == "ordered-0" and row["kind"] != "config" else row
        for row in rows
    ]


MUTANTS = {
    "a delivery is deleted": Mutant(deleted, Verdict.UNKNOWN, gate="lost 1 of its rows"),
    "a delivery is deleted, and nobody counts": Mutant(hidden, Verdict.INVALID, frozenset({"loss"})),
    "two deliveries are swapped": Mutant(swapped, Verdict.INVALID, frozenset({"ordering"})),
    "a delivery is doubled": Mutant(
        doubled, Verdict.INVALID, frozenset({"double delivery", "attempts", "handles"})
    ),
    "a row is copied": Mutant(copied, Verdict.VALID),
    "a clock is shifted by 5 s": Mutant(shifted, Verdict.UNKNOWN, gate="differs from the server's by "),
    "a group is renamed": Mutant(renamed, Verdict.UNKNOWN, gate="nobody recorded whether the groups"),
}


@pytest.mark.parametrize("screen", [None, False, True])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_recording_mutant_is_told(
    name: str, screen: bool | None, rows: list[Row], spark: SparkSession, tmp_path: Path
) -> None:
    mutant = MUTANTS[name]
    parquet.write_table(pa.Table.from_pylist(mutant.change(rows), SCHEMA), tmp_path / "all.parquet")
    found = audit([str(tmp_path)], spark=spark, screen=screen)
    broken = {check.name for check in found.checks if check.tally.broken}
    said = [
        *found.gates.missing,
        *found.gates.clocks,
        *(reason for check in found.checks for reason in check.reasons),
    ]
    assert (found.verdict, broken) == (mutant.verdict, mutant.broken), said
    assert any(mutant.gate in sentence for sentence in said)
