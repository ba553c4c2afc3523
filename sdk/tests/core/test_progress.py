"""Up to where a queue may be committed whose messages are handled side by side."""

from __future__ import annotations

from aiorocketmq._core.progress import Progress
from hypothesis import given, strategies as st


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.data())
def test_what_is_committed_is_never_beyond_what_is_in_hand(offsets: list[int], data: st.DataObject) -> None:
    progress, position = Progress[str](), max(offsets) + 1
    progress.took("q", 1, offsets)
    left = set(offsets)
    for offset in data.draw(st.permutations(offsets)):
        assert progress.reached("q", position) == min(left)
        assert progress.span("q", position) == position - min(left)
        progress.ended("q", 1, offset)
        left.discard(offset)
    assert progress.reached("q", position) == position


def test_a_queue_that_is_not_in_hand_is_done_up_to_its_position() -> None:
    assert Progress[str]().reached("q", 7) == 7


def test_reading_that_went_back_is_not_committed_beyond_where_it_is() -> None:
    progress = Progress[str]()
    progress.took("q", 1, [8, 9])
    assert progress.reached("q", 3) == 3


def test_what_ends_after_a_seek_counts_no_more() -> None:
    progress = Progress[str]()
    progress.took("q", 1, [8, 9])
    progress.took("q", 2, [8])
    progress.ended("q", 1, 8)
    assert progress.reached("q", 9) == 8
    progress.ended("q", 2, 8)
    assert progress.reached("q", 9) == 9


def test_queues_do_not_hold_each_other_up() -> None:
    progress = Progress[str]()
    progress.took("q", 1, [1])
    progress.took("r", 1, [5])
    progress.forget("q")
    assert (progress.reached("q", 9), progress.reached("r", 9)) == (9, 5)
