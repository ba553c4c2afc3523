"""Which messages travel together, and when."""

import pytest
from aiorocketmq._core.batches import Batches, cut
from hypothesis import given, strategies as st


@pytest.fixture
def batches() -> Batches[str, int]:
    return Batches(linger=5.0, max_count=3, max_bytes=100)


def test_a_batch_leaves_when_its_first_message_has_lingered(batches: Batches[str, int]) -> None:
    assert batches.next_deadline() is None
    assert batches.add("a", 1, 10, now=0.0) == ()
    assert batches.add("a", 2, 10, now=4.0) == ()
    assert batches.next_deadline() == 5.0
    assert batches.due(now=4.999) == []
    assert batches.due(now=5.0) == [[1, 2]]
    assert batches.next_deadline() is None


def test_a_batch_leaves_when_it_is_full_by_count(batches: Batches[str, int]) -> None:
    assert [batches.add("a", number, 1, now=0.0) for number in range(4)] == [(), (), ([0, 1, 2],), ()]
    assert len(batches) == 1


def test_a_message_that_would_overfill_a_batch_begins_the_next_one(batches: Batches[str, int]) -> None:
    batches.add("a", 1, 60, now=0.0)
    assert batches.add("a", 2, 60, now=1.0) == ([1],)
    assert batches.next_deadline() == 6.0


@pytest.mark.parametrize(("size", "leaving"), [(39, ()), (40, ([1, 2],)), (41, ([1],))])
def test_a_batch_leaves_at_its_bytes(
    batches: Batches[str, int], size: int, leaving: tuple[list[int], ...]
) -> None:
    batches.add("a", 1, 60, now=0.0)
    assert batches.add("a", 2, size, now=0.0) == leaving


def test_the_next_deadline_is_that_of_the_oldest_batch(batches: Batches[str, int]) -> None:
    batches.add("a", 1, 60, now=0.0)
    batches.add("b", 2, 60, now=1.0)
    batches.add("a", 3, 60, now=2.0)  # begins another batch
    assert batches.next_deadline() == 6.0
    assert batches.due(now=6.0) == [[2]]
    assert batches.next_deadline() == 7.0


def test_a_message_that_fills_a_batch_alone_goes_at_once(batches: Batches[str, int]) -> None:
    batches.add("a", 1, 60, now=0.0)
    assert batches.add("a", 2, 500, now=0.0) == ([1], [2])
    assert len(batches) == 0


def test_lanes_do_not_mix(batches: Batches[str, int]) -> None:
    batches.add("a", 1, 1, now=0.0)
    batches.add("b", 2, 1, now=1.0)
    assert batches.due(now=5.5) == [[1]]
    assert batches.drain() == [[2]]


def test_what_was_taken_out_does_not_travel(batches: Batches[str, int]) -> None:
    batches.add("a", 1, 1, now=0.0)
    batches.add("a", 2, 1, now=0.0)
    assert batches.remove("a", 1)
    assert not batches.remove("a", 1)
    assert batches.drain() == [[2]]
    batches.add("a", 3, 1, now=0.0)
    assert batches.remove("a", 3)
    assert (batches.next_deadline(), batches.drain()) == (None, [])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 120)), max_size=60), st.integers(1, 5))
def test_cutting_keeps_everything_in_order_and_within_the_bounds(
    sizes: list[tuple[str, int]], max_count: int
) -> None:
    items = [(key, (key, number, size), size) for number, (key, size) in enumerate(sizes)]
    batches = cut(items, max_count=max_count, max_bytes=100)
    for key in "ab":
        assert [item for batch in batches for item in batch if item[0] == key] == [
            item for own, item, _ in items if own == key
        ]
    for batch in batches:
        assert len({key for key, _, _ in batch}) == 1
        assert 1 <= len(batch) <= max_count
        assert len(batch) == 1 or sum(size for _, _, size in batch) <= 100
