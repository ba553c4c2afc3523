"""The gates: missing rows are noticed, doubled ones counted once, foreign ones refused, and clocks bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiorocketmq_audit.errors import InvalidRecordingError
from aiorocketmq_audit.recording.clocks import STEP_US
from aiorocketmq_audit.recording.gates import examine, is_gap_free
from pyspark.sql import DataFrame, Row

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
    with pytest.raises(InvalidRecordingError, match="column recorder of row 3 holds no value"):
        examine(frame([history]))


def clock_of(
    frame: Frame, *histories: Any, skew_us: int = STEP_US
) -> tuple[tuple[int, int] | None, tuple[str, ...]]:
    gates = examine(frame([history.end() for history in histories]), skew_us=skew_us)
    return gates.clock[histories[0].rows[0]["recorder"]], gates.clocks


@pytest.mark.spark
def test_deliveries_bound_a_recorders_clock(new_history: type[Any], frame: Frame) -> None:
    """The recorder is 200 ms behind the server; polls of 10 ms and of 3 s bound that from both sides."""
    history = new_history()
    for number, (call, at, answered) in enumerate(((5.0, 5.01, 5.205), (9.0, 12.0, 12.199))):
        row = history.rows[history.deliver(f"/{number}", at, call=call)]
        row["server_deliver_us"] = row["t_wall_us"] + round((answered - at) * 1e6)
    bounds, sentences = clock_of(frame, history)
    assert bounds == (199_000, 205_999)
    assert sentences == ("the clock of recorder r1 differs from the server's by 0.199 s or more.",)
    assert clock_of(frame, history, skew_us=300_000) == (bounds, ())


@pytest.mark.spark
def test_sends_and_clock_samples_bound_a_recorders_clock(new_history: type[Any], frame: Frame) -> None:
    history = new_history()
    sent = history.rows[history.send("/1", 5.002)]
    sent |= {"invoked_us": sent["t_wall_us"] - 2_000, "store_us": sent["t_wall_us"] - 12_000}
    assert clock_of(frame, history)[0] == (-12_000, -9_001)
    sampled = new_history()
    sampled.note("clock.sample", 1.0, clk={"offset_us": -200_000, "error_us": 500, "rtt_us": 1_000})
    bounds, sentences = clock_of(frame, sampled)
    assert bounds == (-200_500, -199_500)
    assert "differs from the server's by 0.200 s" in sentences[0]


@pytest.mark.spark
def test_a_broker_records_by_its_own_clock(new_history: type[Any], frame: Frame) -> None:
    history = new_history(observer="broker")
    history.send("/1", 5.0, store_us=None)
    assert clock_of(frame, history) == ((0, 0), ())


@pytest.mark.spark
def test_a_clock_is_unknown_without_a_servers_time_or_after_a_step(
    new_history: type[Any], frame: Frame
) -> None:
    silent, stepped = new_history(), new_history()
    silent.deliver("/1", 5.0)
    stepped.note("clock.sample", 1.0, clk={"offset_us": 0, "error_us": 500, "rtt_us": 1_000})
    stepped.rows[stepped.deliver("/1", 5.0)]["t_mono_ns"] -= 3_000_000_000
    assert clock_of(frame, silent)[0] is None
    assert clock_of(frame, stepped)[0] is None


@pytest.mark.spark
def test_bounds_of_two_servers_that_differ_are_taken_together(new_history: type[Any], frame: Frame) -> None:
    history = new_history()
    for second, offset_us in ((1.0, 20_000), (2.0, -10_000)):
        history.note("clock.sample", second, clk={"offset_us": offset_us, "error_us": 1_000})
    assert clock_of(frame, history) == ((-9_000, 19_000), ())


@pytest.mark.spark
def test_a_newer_version_is_refused_with_what_to_do(new_history: type[Any], frame: Frame) -> None:
    history = a_history(new_history)
    history.rows[0]["cfg"] = {"version": "2"}
    with pytest.raises(InvalidRecordingError, match="version 2 and this program reads 1 to 1: upgrade"):
        examine(frame([history]))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 65_535, 65_536, 65_537, 200_001])
def test_the_closed_forms_are_those_of_the_numbers_from_nought(count: int) -> None:
    numbers = range(count)
    xor = 0
    for number in numbers:
        xor ^= number
    squares = sum((number & 0xFFFF) ** 2 for number in numbers)
    row = Row(n=count, last=count - 1, total=sum(numbers) if count else None, xor=xor, squares=squares)
    assert is_gap_free([row])
    if count > 2:
        assert not is_gap_free([Row(**row.asDict() | {"squares": squares + 1})])


@pytest.mark.spark
def test_a_pair_of_rows_in_place_of_another_is_a_gap(new_history: type[Any], frame: Frame) -> None:
    """Rows 4 and 7 are missing, 5 and 6 there twice: count, sum and exclusive-or are those of a whole recorder."""
    history = a_history(new_history)
    history.rows[4], history.rows[7] = history.rows[5], history.rows[6]
    assert examine(frame([history])).missing == ("recorder r1 lost 2 of its rows.",)


@pytest.mark.spark
def test_two_answers_to_one_call_are_reported_and_none_or_a_copy_is_not(
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
