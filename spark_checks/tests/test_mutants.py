"""The audit, broken on purpose: pages and scenes must tell every mutant of a condition, a frame or an exemption."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from types import MappingProxyType

import pytest
from aiorocketmq_audit import engine, exemptions, judgement
from aiorocketmq_audit.frames import settings
from aiorocketmq_audit.judgement import FRAMES
from aiorocketmq_audit.rules import RULES
from aiorocketmq_audit.rules.rule import Rule
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_checks.tests.bench import Bench, Judged, given, tagged
from spark_checks.tests.frame_mutants import MUTANTS, Mutant
from spark_checks.tests.mutations import changes

pytestmark = pytest.mark.spark

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


def test_every_mutant_of_a_condition_is_killed(
    bench: Bench, base: dict[str, Judged], spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    rules: dict[str, list[Rule]] = {frame: [] for frame in RULES}
    places: dict[str, list[str]] = {}
    for frame, own in RULES.items():
        for change in changes(own, spark):
            places[change.what] = places.get(change.what, [])
            for place, rule in change.rules:
                name = f"{frame}#{place}"
                places[change.what].append(f"{name}#{len(places)}")
                rules[frame].append(replace(rule, check=places[change.what][-1]))
    found = bench.judge(rules, bench.frames)
    survivors = [
        what
        for what, names in places.items()
        if all(found[name] == base[name.rpartition("#")[0]] for name in names)
    ]
    assert set(EQUIVALENT) <= set(survivors)
    killed(
        capsys,
        "conditions",
        len(places) - len(EQUIVALENT),
        [what for what in survivors if what not in EQUIVALENT],
    )


@contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """Run the module's source with one change in its own namespace, and put everything back afterwards."""
    module, source = mutant.module, inspect.getsource(mutant.module)
    assert source.count(mutant.old) == 1, f"{mutant.name}: {mutant.old} is not once in {module.__name__}"
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
            known = {frame.name: frame for value in _frames() for frame in value}
            for frame in mutant.frames:
                name = f"{frame}#{number}"
                frames[name] = given(known[frame], known[frame].rows(recording), name)
                rules[name] = [replace(rule, check=f"{rule.check}#{number}") for rule in tagged()[frame]]
    found = bench.judge(rules, frames)
    survivors = [
        mutant.name
        for number, mutant in enumerate(mutants)
        if all(
            found[f"{rule.check}#{number}"] == base[rule.check]
            for frame in mutant.frames
            for rule in tagged()[frame]
        )
    ]
    killed(capsys, "frames", len(mutants), survivors)


def _frames() -> Iterator[list[engine.Frame]]:
    for module in {inspect.getmodule(frame.rows) for of in FRAMES.values() for frame in of}:
        yield [value for value in vars(module).values() if isinstance(value, engine.Frame)]


def test_every_mutant_of_an_exemption_is_killed(
    bench: Bench, base: dict[str, Judged], capsys: pytest.CaptureFixture[str]
) -> None:
    found = engine.worked_out(bench.findings(tagged()))
    wanted = bench.outcomes(judgement._decided(found, bench.recording, bench.gate))
    mutants = [mutant for mutant in MUTANTS if mutant.module is exemptions]
    survivors: list[str] = []
    for start in range(0, len(mutants), TOGETHER):
        some = mutants[start : start + TOGETHER]
        # Plans that are run together: Spark's own cost is that of a job.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judgement, "worked_out", lambda few: few)
            patch.setattr(DataFrame, "isEmpty", lambda _: False)
            plans = [decided(mutant, bench, found) for mutant in some]
        got = bench.outcomes(reduce(DataFrame.unionByName, plans))
        for mutant in some:
            mine = {
                check.removesuffix(f"#{mutant.name}"): of
                for check, of in got.items()
                if check.endswith(f"#{mutant.name}")
            }
            survivors += [mutant.name] * (mine == wanted)
    killed(capsys, "exemptions", len(mutants), survivors)


def decided(mutant: Mutant, bench: Bench, found: DataFrame) -> DataFrame:
    """The findings as the mutant decides them, each check marked with its name; not yet run."""
    with broken(mutant):
        result = judgement._decided(found, bench.recording, bench.gate)
    return result.withColumn("check", F.concat("check", F.lit(f"#{mutant.name}")))
