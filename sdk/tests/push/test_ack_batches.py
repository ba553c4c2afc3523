from aiorocketmq._core.ack_batches import AckBatches


def test_the_first_ack_starts_a_sender_and_the_rest_join_it() -> None:
    acks = AckBatches[str, int](max_entries=100)

    assert acks.add("d", 1) is True
    assert acks.add("d", 2) is False
    assert acks.next_batch("d") == [1, 2]


def test_acks_that_come_during_a_call_travel_with_the_next() -> None:
    acks = AckBatches[str, int](max_entries=100)
    acks.add("d", 1)
    acks.next_batch("d")

    assert acks.add("d", 2) is False
    assert acks.next_batch("d") == [2]
    assert acks.next_batch("d") == []


def test_a_sender_that_found_nothing_has_ended_and_the_next_ack_starts_another() -> None:
    acks = AckBatches[str, int](max_entries=100)
    acks.add("d", 1)
    acks.next_batch("d")
    acks.next_batch("d")

    assert acks.add("d", 2) is True


def test_a_call_carries_no_more_than_the_allowed_entries() -> None:
    acks = AckBatches[str, int](max_entries=2)
    for entry in (1, 2, 3):
        acks.add("d", entry)

    assert [acks.next_batch("d"), acks.next_batch("d"), acks.next_batch("d")] == [[1, 2], [3], []]


def test_destinations_do_not_wait_for_each_other() -> None:
    acks = AckBatches[str, int](max_entries=2)

    assert acks.add("a", 1) is True
    assert acks.add("b", 2) is True
    assert acks.next_batch("b") == [2]


def test_acks_of_a_failed_call_are_the_first_of_the_next() -> None:
    acks = AckBatches[str, int](max_entries=3)
    for entry in (1, 2, 3, 4):
        acks.add("d", entry)
    acks.put_back("d", acks.next_batch("d"))
    acks.add("d", 5)

    assert [acks.next_batch("d"), acks.next_batch("d"), acks.next_batch("d")] == [[1, 2, 3], [4, 5], []]
