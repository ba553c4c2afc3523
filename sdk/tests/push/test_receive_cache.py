import pytest
from aiorocketmq._core.receive_cache import ReceiveCache
from hypothesis import given, strategies as st


def cache(
    messages: int = 100, size: int = 1000, ahead: int = 1000, queues: tuple[str, ...] = ("q",)
) -> ReceiveCache[str]:
    result = ReceiveCache[str](max_messages=messages, max_bytes=size, max_ahead=ahead)
    for queue in queues:
        result.open(queue)
    return result


def test_an_empty_queue_may_ask_for_a_whole_batch() -> None:
    assert cache().room("q", 32) == 32


def test_a_queue_that_is_not_open_may_ask_for_nothing() -> None:
    assert cache().room("other", 32) == 0


def test_queues_share_the_count_limit_equally() -> None:
    shared = cache(messages=8, queues=("a", "b"))

    assert shared.room("a", 32) == 4
    for _ in range(4):
        shared.add("a", 1)
    assert (shared.room("a", 32), shared.room("b", 32)) == (0, 4)


def test_a_queue_always_may_have_one_message_however_many_queues_there_are() -> None:
    crowded = cache(messages=2, queues=tuple("abcdef"))

    assert crowded.room("f", 32) == 1


def test_one_queue_is_not_received_further_ahead_than_is_of_use() -> None:
    assert cache(messages=4096, ahead=20).room("q", 32) == 20


def test_the_byte_limit_stops_asking_and_one_huge_message_is_still_taken() -> None:
    small = cache(size=10)

    assert small.room("q", 32) == 32
    small.add("q", 4_000_000)
    assert small.room("q", 32) == 0


def test_settling_says_when_room_came_to_be() -> None:
    full = cache(messages=2)
    full.add("q", 1)
    full.add("q", 1)

    assert full.remove("q", 1) is True
    assert full.remove("q", 1) is False


def test_messages_of_a_dropped_queue_count_until_they_are_settled() -> None:
    dropped = cache()
    dropped.add("q", 5)
    dropped.close("q")

    assert (dropped.count, dropped.size, dropped.room("q", 32)) == (1, 5, 0)
    dropped.remove("q", 5)
    assert (dropped.count, dropped.size) == (0, 0)


def test_a_queue_that_comes_back_still_owns_its_messages() -> None:
    again = cache(messages=3)
    again.add("q", 1)
    again.close("q")
    again.open("q")

    assert (again.count, again.room("q", 32)) == (1, 2)


def test_a_message_that_arrives_for_a_dropped_queue_is_counted() -> None:
    late = cache()
    late.close("q")
    late.add("q", 7)

    assert (late.count, late.size) == (1, 7)
    assert late.remove("q", 7) is False


@given(polls=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=60))
def test_polls_that_ask_for_their_room_never_exceed_the_count_limit(polls: list[tuple[str, int]]) -> None:
    limited = cache(messages=30, size=10**9, queues=("a", "b", "c"))
    for queue, batch in polls:
        for _ in range(limited.room(queue, batch)):
            limited.add(queue, 1)
        assert limited.count <= 30


def test_an_answer_frees_the_room_of_its_own_poll_alone() -> None:
    busy = cache(messages=10)
    busy.ask("q", 5)
    busy.ask("q", 3)
    busy.answered("q", 5)

    assert busy.room("q", 32) == 7


@pytest.mark.parametrize("is_late", [False, True])
def test_a_poll_of_an_earlier_assignment_takes_no_room_and_makes_none(is_late: bool) -> None:
    """Whether its answer comes before or after the queue is assigned again."""
    again = cache(messages=10)
    again.ask("q", 5)
    again.add("q", 1)
    again.close("q")
    if is_late:
        again.open("q")
    again.answered("q", 5)
    if not is_late:
        again.open("q")

    assert again.room("q", 32) == 9


def test_a_queue_is_full_at_its_bytes() -> None:
    full = cache(size=10)
    full.add("q", 9)
    assert full.room("q", 32) == 32
    full.add("q", 1)
    assert full.room("q", 32) == 0
    assert full.remove("q", 1) is True


def test_what_polls_in_flight_may_return_is_no_room() -> None:
    polled = cache(messages=10)
    rooms = [polled.room("q", 32)]
    for count in (4, 6):
        polled.ask("q", count)
        rooms.append(polled.room("q", 32))
    polled.answered("q", 4)
    polled.add("q", 4, count=4)
    polled.answered("q", 6)
    assert [*rooms, polled.room("q", 32)] == [10, 6, 0, 6]


def test_a_queue_that_is_opened_twice_keeps_its_messages() -> None:
    twice = cache(messages=3)
    twice.add("q", 1)
    twice.open("q")

    assert (twice.count, twice.room("q", 32)) == (1, 2)


def test_the_share_of_a_dropped_queue_goes_to_the_others() -> None:
    shared = cache(messages=8, size=20, queues=("a", "b"))
    shared.close("b")
    shared.add("a", 19)

    assert shared.room("a", 32) == 7


def test_the_bytes_of_a_dropped_queue_count_until_each_message_is_settled() -> None:
    dropped = cache()
    dropped.add("q", 12, count=2)
    dropped.close("q")
    dropped.remove("q", 5)

    assert (dropped.count, dropped.size) == (1, 7)


def test_a_queue_beyond_its_share_has_no_room_until_it_is_below() -> None:
    crowded = cache(messages=4)
    crowded.add("q", 4, count=3)
    crowded.ask("q", 1)
    crowded.open("r")

    assert crowded.room("q", 32) == 0
    assert [crowded.remove("q", 1) for _ in range(3)] == [False, True, False]


def test_polls_that_ask_for_more_than_a_smaller_share_leave_no_room() -> None:
    polled = cache(messages=10)
    polled.ask("q", 8)
    polled.open("r")

    assert polled.room("q", 32) == 0


def test_a_queue_always_may_have_one_message_also_with_fewer_bytes_than_queues() -> None:
    assert cache(size=2, queues=tuple("abcdef")).room("f", 32) > 0
