"""How far a followed recording has been read, by row numbers and names of files, without Spark."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import Any

import pytest
from aiorocketmq_audit.recording.gates import is_gap_free
from aiorocketmq_audit.streaming.state import Span, State, name_of, watermark, with_runs
from pyspark.sql import Row

SECOND = 1_000_000
LATENESS = 30 * SECOND


def state(ended: str = "", *, mark: int = 0, names: str = "ab", **spans: list[Span]) -> State:
    """Recorders with one letter each, and what was read of them."""
    counts: list[dict[str, Any]] = [{"recorder": name, "kind": "recorder.end"} for name in ended]
    return State(watermark_us=mark, counts=counts, spans=spans, names=list(names))


def test_runs_of_rows_join_in_whatever_order_they_come() -> None:
    runs = [("a", n * 10, n * 10 + 9, n * SECOND) for n in range(6)]
    for order in random.Random(7).sample(list(itertools.permutations(runs)), 100):
        assert with_runs({}, order) == {"a": [[0, 59, 5 * SECOND]]}


def test_rows_that_lie_apart_stay_apart_and_rows_read_twice_count_once() -> None:
    runs = with_runs({"a": [[0, 9, 1]]}, [("a", 20, 29, 3), ("b", 0, 0, 2), ("a", 5, 9, 1)])
    assert runs == {"a": [[0, 9, 1], [20, 29, 3]], "b": [[0, 0, 2]]}
    assert State(spans=runs).rows == {"a": 20, "b": 1}


@pytest.mark.parametrize(
    ("numbers", "is_whole"),
    [
        *((range(first, last + 1), True) for first, last in ((0, 0), (5, 17), (65530, 65550), (1, 131080))),
        *((numbers, False) for numbers in ([0, 0, 3, 3], [5, 6, 8], [5, 5, 8, 8], [65536, 65536])),
    ],
)
def test_counts_tell_whether_rows_follow_each_other(numbers: Sequence[int], is_whole: bool) -> None:
    counted = {"n": len(numbers), "last": max(numbers), "total": sum(numbers), "xor": reduce(xor, numbers)}
    row = Row(squares=sum((number & 0xFFFF) ** 2 for number in numbers), **counted)
    assert is_gap_free([row], min(numbers)) is is_whole


@pytest.mark.parametrize(
    ("of", "names", "expected"),
    [
        (state(a=[[0, 9, 50 * SECOND]]), "ab", 50),
        # b has not come so far, may be silent, has rows missing, is complete, or is known by an unfinished file alone.
        (state(a=[[0, 9, 50 * SECOND]], b=[[0, 9, 45 * SECOND]]), "ab", 45),
        (state(a=[[0, 9, 50 * SECOND]], b=[[0, 9, 5 * SECOND]]), "ab", 20),
        (state(a=[[0, 9, 50 * SECOND]], b=[[0, 9, 30 * SECOND], [20, 29, 50 * SECOND]]), "ab", 30),
        (state(a=[[0, 9, 50 * SECOND]], b=[[5, 9, 40 * SECOND]]), "ab", 20),
        (state("b", a=[[0, 9, 50 * SECOND]], b=[[0, 9, 5 * SECOND]]), "ab", 50),
        (state("b", a=[[0, 9, 50 * SECOND]], b=[[0, 3, 5 * SECOND], [5, 9, 5 * SECOND]]), "ab", 20),
        (state(names="a", a=[[0, 9, 50 * SECOND]]), "ab", 20),
        # What was judged is never withdrawn.
        (state(mark=90 * SECOND, a=[[0, 9, 50 * SECOND]]), "ab", 90),
    ],
)
def test_everything_is_judged_up_to_where_nothing_is_outstanding(
    of: State, names: str, expected: int
) -> None:
    assert watermark(of, names, LATENESS) == expected * SECOND


def test_who_was_waited_for_in_vain_is_silent_and_rows_that_are_missing_are_gaps() -> None:
    read = state("c", mark=20, a=[[0, 9, 25]], b=[[0, 9, 15]], c=[[0, 9, 5]])
    assert (read.silent, read.has_gaps) == ({"b": 15}, False)
    assert state(mark=20, a=[[0, 9, 15], [11, 12, 30]]).has_gaps
    assert not state(mark=20, a=[[0, 9, 25], [11, 12, 30]]).has_gaps


def test_the_state_is_the_same_after_a_restart() -> None:
    before = state("a", mark=5, a=[[0, 9, 5], [20, 29, 60]])
    assert State(**json.loads(before.to_json())) == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/runs/client-1-0be11d-00012.parquet", "client-1-0be11d"),
        ("client-1-0be11d-00012.parquet.open", "client-1-0be11d"),
        ("compacted.parquet", "compacted"),
        ("-5.parquet", "-5"),
    ],
)
def test_files_of_one_recorder_belong_together(name: str, expected: str) -> None:
    assert name_of(name) == expected
