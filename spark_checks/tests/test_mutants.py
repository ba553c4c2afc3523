"""The audit, broken on purpose: pages and scenes must detect every mutant of a condition, a frame or an exemption."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

import pytest
from aiorocketmq_audit import engine, exemptions
from aiorocketmq_audit.frames import places, settings
from aiorocketmq_audit.frames.frame import Frame
from aiorocketmq_audit.judgement import FRAMES
from aiorocketmq_audit.rules import RULES
from aiorocketmq_audit.rules.rule import Rule
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_checks.tests.bench import Bench, Judged, given, tagged
from spark_checks.tests.frame_mutants import MUTANTS, Mutant
from spark_checks.tests.mutations import changes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

EQUIVALENT: Mapping[str, str] = MappingProxyType(
    {
        "(ended_us > (until_hi + late_us)) → (ended_us >= (until_hi + late_us))": "a recording has one end",
        "INV-LOSS: keys is ('null', 'null')": "tells groups apart while a recording is followed",
        "INV-LOSS-MID: keys is ('null', 'null')": "tells groups apart while a recording is followed",
        "(struct(before.place.at, before.place.seq) < struct(called.at, called.seq)) → "
        "(struct(before.place.at, before.place.seq) <= struct(called.at, called.seq))": "numbers differ",
        "(read > begun) → (read >= begun)": "numbers differ",
    }
)
"""Mutants that change nothing, each with the reason."""

TOGETHER = 13


def killed(capsys: pytest.CaptureFixture[str], what: str, mutants: int, survivors: list[str]) -> None:
    """Print the share, and fail if any mutant survives that is not known to change nothing."""
    with capsys.disabled():
        print(f"\n{what}: {mutants - len(survivors)} of {mutants} mutants killed")
    # Not by one comparison: pytest would cut it short.
    assert not survivors, "\n".join(survivors)


@pytest.mark.slow
def test_every_mutant_of_a_condition_is_killed(
    bench: Bench, base: dict[str, Judged], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    rules: dict[str, list[Rule]] = {frame: [] for frame in RULES}
    named: dict[str, list[str]] = {}
    for frame, own in RULES.items():
        for change in changes(own, spark):
            named[change.what] = named.get(change.what, [])
            for place, rule in change.rules:
                name = f"{frame}#{place}"
                named[change.what].append(f"{name}#{len(named)}")
                rules[frame].append(replace(rule, check=named[change.what][-1]))
    outcomes = bench.judge(rules, bench.frames)
    survivors = [
        what
        for what, names in named.items()
        if all(outcomes[name] == base[name.rpartition("#")[0]] for name in names)
    ]
    assert set(EQUIVALENT) <= set(survivors)
    killed(
        capsys,
        "conditions",
        len(named) - len(EQUIVALENT),
        [what for what in survivors if what not in EQUIVALENT],
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    assert inspect.getsource(mutant.module).count(mutant.old) == 1


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Run the module's source with one change in its own namespace, and put everything back afterwards."""
    module, source = mutant.module, inspect.getsource(mutant.module)
    before = dict(vars(module))
    others = [other for name, other in sys.modules.items() if name.startswith("aiorocketmq_audit.frames.")]
    try:
        with pytest.MonkeyPatch.context() as patch:
            exec(compile(source.replace(mutant.old, mutant.new), module.__name__, "exec"), vars(module))
            for other in others:
                for name, value in vars(other).items():
                    if other is not module and inspect.isfunction(value) and before.get(name) is value:
                        patch.setattr(other, name, vars(module)[name])
            yield
    finally:
        vars(module).clear()
        vars(module).update(before)


@pytest.mark.slow
def test_every_mutant_of_a_frame_is_killed(
    bench: Bench, base: dict[str, Judged], capsys: pytest.CaptureFixture[str]
) -> None:
    frames, rules = {}, {}
    mutants = [mutant for mutant in MUTANTS if mutant.frames]
    for number, mutant in enumerate(mutants):
        with broken(mutant):
            recording = bench.recording
            if mutant.module is settings:
                recording = replace(recording, settings=settings.settings(recording.events))
            if mutant.module is places:
                recording = replace(recording, polled=places.polled(recording.events))
            frames_by_name = {frame.name: frame for value in _frames() for frame in value}
            for frame in mutant.frames:
                name = f"{frame}#{number}"
                frames[name] = given(frames_by_name[frame], frames_by_name[frame].rows(recording), name)
                rules[name] = [replace(rule, check=f"{rule.check}#{number}") for rule in tagged()[frame]]
    outcomes = bench.judge(rules, frames)
    survivors = [
        mutant.name
        for number, mutant in enumerate(mutants)
        if all(
            outcomes[f"{rule.check}#{number}"] == base[rule.check]
            for frame in mutant.frames
            for rule in tagged()[frame]
        )
    ]
    killed(capsys, "frames", len(mutants), survivors)


def _frames() -> Iterator[list[Frame]]:
    for module in {inspect.getmodule(frame.rows) for of in FRAMES.values() for frame in of}:
        yield [value for value in vars(module).values() if isinstance(value, Frame)]


STEPS = MappingProxyType(
    {
        "exempted": ("exempted", "marks", "_between", "_answer_lost", "_filters_differ"),
        "with_open_polls": ("with_open_polls",),
        "queue_locked": ("queue_locked",),
        "queue_moved": ("queue_moved", "_taken", "_queue"),
        "doubtful": ("doubtful", "outages"),
    }
)
"""The steps of the second look, each with the functions that it is made of."""


@pytest.mark.slow
def test_every_mutant_of_an_exemption_is_killed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    findings = bench.findings(tagged())
    identified = engine.materialized(
        findings.withColumn("id", F.xxhash64("check", "invariant", "first", "second"))
    )
    unconfirmed = identified.where("confirmed is not null")
    late = engine.materialized(exemptions.with_open_polls(unconfirmed, bench.recording))
    identified = engine.materialized(identified.where("confirmed is null").unionByName(late))
    exempted = engine.materialized(exemptions.exempted(identified, bench.recording))
    standing = exempted.where("exemption is null and certain")

    def told(step: str) -> DataFrame:
        events = bench.recording.events
        if step == "exempted":
            return exemptions.exempted(identified, bench.recording).select("id", "exemption")
        if step == "with_open_polls":
            looked_at = exemptions.with_open_polls(unconfirmed, bench.recording)
            return looked_at.select(F.xxhash64("id", "second", "margin_us").alias("id"), "exemption")
        if step == "queue_locked":
            return exemptions.queue_locked(exempted, bench.recording).select("id", "exemption")
        if step == "queue_moved":
            return exemptions.queue_moved(exempted, bench.recording).select("id", "exemption")
        return exemptions.doubtful(standing, events).select("id", F.lit("").alias("exemption"))

    mutants = [mutant for mutant in MUTANTS if mutant.module is exemptions]
    plans = [told(step).withColumn("of", F.lit(step)) for step in STEPS]
    for mutant in mutants:
        step = step_of(mutant)
        with broken(mutant):
            plans.append(told(step).withColumn("of", F.lit(mutant.name)))
    outcomes: dict[str, set[tuple[int, str]]] = {}
    for start in range(0, len(plans), TOGETHER):
        # Run together: Spark's own cost is that of a job.
        rows = reduce(DataFrame.unionByName, plans[start : start + TOGETHER]).collect()
        for row in rows:
            outcomes.setdefault(row.of, set()).add((row.id, row.exemption))
    survivors = [
        mutant.name
        for mutant in mutants
        if outcomes.get(mutant.name, set()) == outcomes.get(step_of(mutant), set())
    ]
    killed(capsys, "exemptions", len(mutants), survivors)


def step_of(mutant: Mutant) -> str:
    """The step that the mutant is about; constants are those of the first one."""
    for step, functions in STEPS.items():
        if any(mutant.old in inspect.getsource(getattr(exemptions, name)) for name in functions):
            return step
    return next(iter(STEPS))
