"""Blocks in a file of fixed size: they never lie on each other, and near the beginning where that goes."""

from __future__ import annotations

from collections import deque

from aiorocketmq._recording.ring import Ring
from hypothesis import given, strategies as st


@given(st.integers(1, 100), st.lists(st.one_of(st.integers(1, 60), st.none()), max_size=80))
def test_blocks_that_are_not_read_yet_keep_their_bytes(size: int, steps: list[int | None]) -> None:
    """A number is the length of a block to place, None reads the oldest."""
    ring = Ring(size)
    held: deque[tuple[int, int]] = deque()
    for length in steps:
        if length is None:
            if held:
                held.popleft()
                ring.read(1)
        else:
            offset = ring.place(length)
            if offset is None:
                assert held or length > size
                continue
            taken = {byte for start, count in held for byte in range(start, start + count)}
            mine = set(range(offset, offset + length))
            assert not taken & mine
            assert max(mine) < size
            held.append((offset, length))
        assert ring.is_empty is not bool(held)


def test_who_reads_as_fast_as_is_written_needs_little_of_the_file() -> None:
    ring = Ring(1_000)
    for _ in range(100):
        assert ring.place(10) == 0
        ring.read(1)


def test_a_block_that_could_not_be_written_leaves_its_room() -> None:
    ring = Ring(20)
    assert ring.place(10) == 0
    assert ring.place(10) == 10
    ring.unplace()
    assert ring.place(10) == 10
    assert ring.place(1) is None


def test_a_block_may_fill_the_room_exactly() -> None:
    ring = Ring(30)
    assert [ring.place(length) for length in (10, 10, 10)] == [0, 10, 20]
    ring.read(1)
    assert ring.place(10) == 0
    ring.read(1)
    assert (ring.place(4), ring.place(7), ring.place(6)) == (10, None, 14)
