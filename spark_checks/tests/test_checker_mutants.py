"""Checks that were broken on purpose, each by one change of its source: the scenes must tell every one of them."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from types import ModuleType
from typing import Any

import pytest
from aiorocketmq_audit import deliveries, excuses, gates, loss, origin
from aiorocketmq_audit.checks import Material
from aiorocketmq_audit.generator import Shape
from aiorocketmq_audit.generator.names import Names
from aiorocketmq_audit.generator.planting import numbered
from aiorocketmq_audit.generator.plants import KINDS, rows_of
from aiorocketmq_audit.generator.plants.scene import Row
from aiorocketmq_audit.judging import findings_of, material_of
from aiorocketmq_audit.recording.schema import COLUMNS, RECORDING
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_checks.tests.checker_mutants import MUTANTS, Mutant
from spark_checks.tests.histories import ASIDE, CHECKED, as_written

pytestmark = pytest.mark.spark

START = 1_770_000_000_000_000

Findings = Counter[tuple[str, str, str, str]]
"""Case, check, invariant, verdict."""


TWO_CLOCKS = (
    "who ended a message may have told so by a clock that is ahead",
    "of two clocks, the one that is behind tells first of what came second",
)

DOUBTS = (
    "nobody could reach a server that may have forgotten an ack",
    "a server that fails by itself may have forgotten an ack",
    "a server that refuses a poll has forgotten nothing",
    "a server that was away forgets no ack of long ago",
    "a server that was away before and afterwards has forgotten nothing",
    "a server that was away may go on with an old lease beside a new one",
    "what another client's recorder saw of its server is no doubt",
    "a restart long before excuses nothing that was there",
    "a server whose end is not told is up again within two minutes",
    "a server that was away long before is late by itself",
    "a server that went away when all was late already is no doubt",
    "a server that was away when a message was due leaves a doubt for ever",
    "a killed server may ask about what it was told last (E4)",
    "a killed server knows what it was told long before",
    "a restarted server may go on with an old lease beside a new one (E4)",
    "an answer that a crash swallowed comes again though another one was acked (E4)",
    "what was stored after a restart is held as ever",
    "what is stored while a server goes down may come again when it is up (E4)",
    "faults that stopped before excuse nothing",
    "a restart may put off what would come again (E4)",
    "a server that was away may put off what would come again",
    "a server need not wake a poll that was out already",
    "a poll that was out for longer than any server lets it wait is none",
    "a body does not change because its server was away",
    "asked about what may be a second half message of one transaction",
    "asked about the second half message of one transaction",
)
"""Histories that leave a doubt, or are not far from one: scenes are broken or are not."""


@pytest.fixture(scope="module")
def told(history_type: Callable[[str], Any]) -> dict[str, tuple[list[Row], Findings]]:
    """Each scene as a case of its own, and what must be found in it; beside them histories of two clocks, as
    scenes have one, and of doubts."""
    shape = Shape()
    names = Names(shape, "run", is_broker=True)
    cases = {}
    for number, (case, kind) in enumerate(KINDS.items()):
        played, expected = rows_of(case, number=number, start_us=START + 10_000_000, shape=shape)
        configs: list[Row] = [
            {"kind": "config", "t_wall_us": START, "group": group, "cfg": names.settings(place)}
            for place, group in enumerate(names.groups)
        ]
        constant: Row = {
            "run_id": "run",
            "case_id": case,
            "boot": "b",
            "observer": kind.observer,
            "recorder": case,
        }
        rows = numbered([*configs, *played], constant, (START, START + 20_000_000_000))
        cases[case] = rows, Counter((case, kind.check, kind.invariant, "broken") for _ in expected)
    for case in TWO_CLOCKS:
        cases[case] = by_two_clocks(case, history_type(case)), Counter()
    checks = {kind.invariant: kind.check for kind in KINDS.values()}
    for case in DOUBTS:
        page = CHECKED.pages.get(case) or ASIDE.pages[case]
        found = [(checks[name], name, verdict) for name, verdict in page.found if verdict != "excused"]
        history = page.tell(history_type(case))
        is_alone = len({row["recorder"] for row in history.rows}) == 1
        rows = history.end().rows if is_alone else as_written(history)
        cases[case] = rows, Counter((case, *each) for each in found)
    return cases


def by_two_clocks(name: str, history: Any) -> list[Row]:
    """A history in which nothing is wrong."""
    page = next(book.pages[name] for book in (CHECKED, ASIDE) if name in book.pages)
    assert not page.found
    return as_written(page.tell(history))


@pytest.fixture(scope="module")
def events(told: dict[str, tuple[list[Row], Findings]], spark: SparkSession) -> Iterator[DataFrame]:
    rows = [tuple(row[name] for name in COLUMNS) for rows, _ in told.values() for row in rows]
    frame = spark.createDataFrame(rows, RECORDING).coalesce(1).cache()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def gate(events: DataFrame) -> gates.Gates:
    return gates.examine(events)


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The module's source with one change, run in its own namespace, and put back afterwards."""
    source = inspect.getsource(mutant.module)
    assert source.count(mutant.old) == 1, (
        f"{mutant.name}: {mutant.old} is not once in {mutant.module.__name__}"
    )
    before = dict(vars(mutant.module))
    try:
        exec(
            compile(source.replace(mutant.old, mutant.new), mutant.module.__name__, "exec"),
            vars(mutant.module),
        )
        yield
    finally:
        vars(mutant.module).clear()
        vars(mutant.module).update(before)


@pytest.fixture(scope="module")
def whole(events: DataFrame, gate: gates.Gates) -> Material:
    """What the checks look at, made once: planning it anew for each mutant would take longer than all else."""
    made = material_of(events, gate)
    names = ("settings", "deliveries", "marks", "away", "traces", "stored")
    return replace(made, **{name: getattr(made, name).localCheckpoint() for name in names})


def plan(
    whole: Material, gate: gates.Gates, checks: tuple[str, ...], module: ModuleType | None = None
) -> DataFrame:
    """What `checks` find, not yet run; parts that `module` makes are made anew, with what is broken in it."""
    material, events = whole, whole.events
    if module is deliveries:
        made = deliveries.deliveries(events, whole.settings, cut_at=gate.cut_at, clocks_agree=True)
        material = replace(material, deliveries=made.localCheckpoint())
    elif module is excuses:
        material = replace(material, marks=excuses.marks(events), away=excuses.away(events))
    elif module is origin:
        material = replace(material, traces=origin.traces(events))
    elif module is loss:
        material = replace(material, stored=loss.expected(events, whole.settings))
    found = findings_of(material, gate, checks).where("verdict <> 'excused'")
    return found.select(
        "check", "invariant", "verdict", F.coalesce("first_recorder", "second_recorder").alias("key")
    )


def run(plans: dict[str, DataFrame], events: DataFrame) -> dict[str, Findings]:
    """All plans in one job: Spark's own cost is that of a job."""
    cases = F.broadcast(events.select(F.xxhash64("recorder").alias("key"), "case_id").distinct())
    parts = [each.withColumn("mutant", F.lit(name)) for name, each in plans.items()]
    rows = reduce(DataFrame.unionByName, parts).join(cases, "key").collect()
    results: dict[str, Findings] = {name: Counter() for name in plans}
    for row in rows:
        results[row.mutant][row.case_id, row.check, row.invariant, row.verdict] += 1
    return results


TOGETHER = 11


def test_every_mutant_is_killed(
    told: dict[str, tuple[list[Row], Findings]],
    whole: Material,
    gate: gates.Gates,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted: Findings = Counter()
    for _, expected in told.values():
        wanted += expected
    survivors = []
    for start in range(0, len(MUTANTS), TOGETHER):
        plans = {}
        for mutant in MUTANTS[start : start + TOGETHER]:
            with broken(mutant):
                plans[mutant.name] = plan(whole, gate, mutant.checks, mutant.module)
        results = run(plans, whole.events)
        for mutant in MUTANTS[start : start + TOGETHER]:
            concerned = Counter({key: count for key, count in wanted.items() if key[1] in mutant.checks})
            if results[mutant.name] == concerned:
                survivors.append(mutant.name)
    with capsys.disabled():
        print(f"\nchecker mutants: {len(MUTANTS) - len(survivors)} of {len(MUTANTS)} killed")
    assert survivors == []


def test_without_a_mutant_the_scenes_are_judged_as_they_were_meant(
    told: dict[str, tuple[list[Row], Findings]], whole: Material, gate: gates.Gates
) -> None:
    from aiorocketmq_audit.checks import CHECKS

    wanted: Findings = Counter()
    for _, expected in told.values():
        wanted += Counter({key: count for key, count in expected.items() if key[1]})
    found = run({"": plan(whole, gate, tuple(CHECKS))}, whole.events)[""]
    assert (wanted - found, found - wanted) == (Counter(), Counter())
