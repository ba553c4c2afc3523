"""The gates: what is missing is noticed, what is doubled is counted once, what is foreign is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiorocketmq_audit.errors import NotARecording
from aiorocketmq_audit.gates import _Span, examine
from pyspark.sql import DataFrame

Frame = Callable[[Iterable[Any]], DataFrame]


def a_history(new_history: type[Any], case: str = "") -> Any:
    history = new_history(case)
    for offset in range(5):
        history.settle("ack", history.deliver(f"/{offset}", offset), offset + 0.5)
    return history.end()


@pytest.mark.spark
def test_one_pass_tells_whole_doubled_gapped_cut_and_stepped_recorders_apart(
    new_history: type[Any], frame: Frame
) -> None:
    whole, doubled, gapped, both, cut, stepped = (a_history(new_history, str(n)) for n in range(6))
    doubled.rows += doubled.rows[3:6]
    del gapped.rows[7]
    both.rows[4] = both.rows[9]
    del cut.rows[-2:]
    for row in stepped.rows[8:]:
        row["t_wall_us"] += 3_000_000
    gates = examine(frame([whole, doubled, gapped, both, cut, stepped]))
    assert gates.missing == (
        "recorder r12 lost 1 of its rows.",
        "recorder r13 lost 1 of its rows.",
        "recorder r14 has no end: it was cut short.",
    )
    assert gates.duplicated
    assert gates.has_gaps
    assert gates.cut_at == {"r14": cut.rows[-1]["t_wall_us"]}
    assert gates.clocks == ("the wall clock of recorder r15 was stepped by 3.000 s.",)
    assert gates.events == sum(len(h.rows) for h in (whole, doubled, gapped, both, cut, stepped)) - 3 - 1


@pytest.mark.spark
def test_a_server_whose_clock_cannot_be_right_makes_time_unsure(new_history: type[Any], frame: Frame) -> None:
    history = new_history()
    at = 5_000_000
    delivered = history.deliver("/0", 5, call=1)
    history.rows[delivered]["server_deliver_us"] = history.rows[0]["t_wall_us"] + at + 700_000
    assert "differs from the server's by 0.700 s" in examine(frame([history.end()])).clocks[0]


@pytest.mark.spark
def test_rows_without_a_recorder_are_refused(new_history: type[Any], frame: Frame) -> None:
    history = a_history(new_history)
    history.rows[3]["recorder"] = None
    with pytest.raises(NotARecording, match="1 of 17 rows"):
        examine(frame([history]))


@pytest.mark.spark
def test_a_newer_version_is_refused_with_what_to_do(new_history: type[Any], frame: Frame) -> None:
    history = a_history(new_history)
    history.rows[0]["cfg"] = {"version": "2"}
    with pytest.raises(NotARecording, match="version 2 and this program reads 1 to 1: upgrade"):
        examine(frame([history]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 65_535, 65_536, 65_537, 200_001])
def test_the_closed_forms_are_those_of_the_numbers_from_nought(count: int) -> None:
    numbers = range(count)
    xor = 0
    for number in numbers:
        xor ^= number
    squares = sum((number & 0xFFFF) ** 2 for number in numbers)
    span = _Span(n=count, last=count - 1, total=sum(numbers), xor=xor, squares=squares)
    assert span.is_gap_free
    if count > 2:
        span.squares += 1
        assert not span.is_gap_free


@pytest.mark.spark
def test_two_answers_to_one_call_are_told_and_none_or_a_copy_is_not(
    new_history: type[Any], frame: Frame
) -> None:
    fine, open_, copied, twice = (a_history(new_history, str(n)) for n in range(4))
    answers = {h: [row for row in h.rows if row["phase"] == "ok"] for h in (open_, copied, twice)}
    answers[open_][1] |= {"phase": None, "op_id": None, "kind": "expire"}
    copied.rows.append(answers[copied][1])
    # As many answers as calls, and yet one call has two and another one none.
    answers[twice][1]["op_id"] = answers[twice][0]["op_id"]
    gates = examine(frame([fine, open_, copied, twice]))
    assert gates.missing == ("recorder r13 tells 1 call(s) or answer(s) twice: its operations are in doubt.",)
