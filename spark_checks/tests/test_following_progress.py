"""How far a followed recording has been read: told by numbers of rows and names of files, without Spark."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from aiorocketmq_audit.gates import NOTHING
from aiorocketmq_audit.streaming.listing import ABANDONED, listing, series
from aiorocketmq_audit.streaming.progress import (
    Listing,
    Progress,
    Span,
    covers,
    merged,
    overlaps,
    watermark,
    with_span,
)

SECOND = 1_000_000


def read(
    *spans: Span, name: str = "a", ended: bool = False, files: int = 1, mark: int | None = None
) -> Progress:
    numbers = {f"{name}\tboot": {"recorder": name, "boot": "boot", "ends": int(ended)}}
    return Progress(
        numbers=numbers, spans={name: spans}, files={name: files}, writers={name: (name,)}, watermark_us=mark
    )


def test_runs_of_rows_join_in_whatever_order_they_come() -> None:
    runs = [(n * 10, n * 10 + 9, n * SECOND) for n in range(6)]
    orders = random.Random(7).sample(list(itertools.permutations(runs)), 100)
    for order in orders:
        joined: tuple[Span, ...] = ()
        for run in order:
            joined = with_span(joined, run)
        assert joined == ((0, 59, 5 * SECOND),)


def test_rows_that_lie_apart_stay_apart_and_rows_read_twice_are_noticed() -> None:
    spans = with_span(with_span((), (0, 9, 1)), (20, 29, 3))
    assert spans == ((0, 9, 1), (20, 29, 3))
    assert covers(spans, 2, 9)
    assert not covers(spans, 5, 12)
    assert overlaps(spans, 5, 12)
    assert not overlaps(spans, 10, 19)


def test_a_recorder_that_goes_on_is_judged_up_to_its_last_row() -> None:
    assert watermark(read((0, 9, 5 * SECOND)), Listing({"a": 1}), lateness_us=0) == 5 * SECOND


def test_files_that_wait_hold_back_what_is_judged() -> None:
    later = read((0, 9, 5 * SECOND), (20, 29, 60 * SECOND), files=2)
    assert watermark(later, Listing({"a": 3}), lateness_us=SECOND) == 5 * SECOND
    unknown = Listing({"a": 1, "b": 1})
    assert watermark(read((0, 9, 5 * SECOND)), unknown, lateness_us=SECOND) is None
    assert watermark(read((0, 9, 5 * SECOND), mark=3 * SECOND), unknown, lateness_us=SECOND) == 3 * SECOND


def test_rows_that_will_not_come_are_waited_for_no_longer_than_said() -> None:
    lost = read((0, 9, 5 * SECOND), (20, 29, 60 * SECOND), files=2)
    assert watermark(lost, Listing({"a": 2}), lateness_us=20 * SECOND) == 40 * SECOND


@pytest.mark.parametrize(("ended", "expected"), [(True, 100), (False, 70)])
def test_a_silent_recorder_holds_the_others_up_unless_it_has_ended(ended: bool, expected: int) -> None:
    quiet, busy = read((0, 9, 5 * SECOND), ended=ended), read((0, 99, 100 * SECOND), name="b")
    both = Progress(
        numbers={**quiet.numbers, **busy.numbers},
        spans={**quiet.spans, **busy.spans},
        files={"a": 1, "b": 1},
        writers={**quiet.writers, **busy.writers},
    )
    mark = watermark(both, Listing({"a": 1, "b": 1}), lateness_us=30 * SECOND)
    assert mark == expected * SECOND


def test_a_file_that_is_being_written_by_a_new_recorder_is_waited_for() -> None:
    begun = Listing({"a": 1}, frozenset({"b"}))
    assert watermark(read((0, 9, 50 * SECOND)), begun, lateness_us=30 * SECOND) == 20 * SECOND


def test_what_was_judged_is_never_taken_back() -> None:
    known = read((0, 9, 5 * SECOND), mark=90 * SECOND)
    assert watermark(known, Listing({"a": 1}), lateness_us=0) == 90 * SECOND


def test_numbers_of_parts_add_up_to_those_of_the_whole() -> None:
    parts = [
        {"recorder": "a", "boot": "b", "n": 2, "first": 0, "last": 1, "xor": 1, "to_us": 9, "version": "1"},
        {"recorder": "a", "boot": "b", "n": 3, "first": 2, "last": 4, "xor": 5, "to_us": 7, "version": None},
    ]
    both = merged(merged({}, parts[:1]), parts[1:])
    assert both == merged(merged({}, parts[1:]), parts[:1])
    assert both["a\tb"] == {
        "recorder": "a",
        "boot": "b",
        "n": 5,
        "first": 0,
        "last": 4,
        "xor": 4,
        "to_us": 9,
        "version": "1",
    }


def test_progress_is_the_same_after_a_restart() -> None:
    progress = read((0, 9, 5), (20, 29, 60), ended=True)
    again = Progress.from_json(progress.to_json())
    assert Progress.from_json(again.to_json()) == again
    assert dataclasses.replace(again, numbers=progress.numbers) == progress


def test_a_program_of_an_earlier_version_counted_fewer_kinds() -> None:
    (numbers,) = Progress.from_json(read((0, 9, 5), ended=True).to_json()).numbers.values()
    assert numbers == dict(NOTHING) | {"recorder": "a", "boot": "boot", "ends": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("client-1-0be11d-00012.parquet", "client-1-0be11d"),
        ("client-1-0be11d-00012.parquet.open", "client-1-0be11d"),
        ("compacted.parquet", "compacted"),
    ],
)
def test_files_of_one_recorder_belong_together(name: str, expected: str) -> None:
    assert series(name) == expected


def test_files_are_counted_by_series_and_abandoned_ones_are_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("a-00000.parquet", "deep/a-00001.parquet", "b-00000.parquet.open", "_planted.parquet"):
        (tmp_path / name).touch()
    left = tmp_path / "c-00000.parquet.open"
    left.touch()
    os.utime(left, (1, left.stat().st_mtime - ABANDONED - 5))
    found = listing([str(tmp_path), "s3a://bucket/runs"])
    assert (dict(found.finished), found.open) == ({"a": 2}, frozenset({"b"}))
