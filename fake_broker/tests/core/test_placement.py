"""The server's hash of message groups."""

import pytest
from aiorocketmq_fake.core.values.placement import java_hash, queue_of_group


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("A", 65), ("group-0", 293427298), ("顧客7", 38220668), ("order-1001", 708180863)],
)
def test_strings_hash_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_hash_is_signed_and_over_utf16_units() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("😀") == 31 * 0xD83D + 0xDE00


def test_different_tags_may_have_one_hash() -> None:
    assert java_hash("AaAa") == java_hash("BBBB")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("group-0", [1, 1, 1, 1]),
        ("group-1", [1, 1, 7, 15]),
        ("order-1001", [1, 2, 2, 2]),
        ("A", [0, 0, 0, 11]),
        ("顧客7", [0, 2, 4, 15]),
    ],
)
def test_message_groups_go_to_the_queues_of_real_servers(group: str, expected: list[int]) -> None:
    """Vectors of R4.9, confirmed on real servers for four queues."""
    assert [queue_of_group(group, queues) for queues in (2, 4, 8, 16)] == expected


def test_a_single_queue_takes_every_group() -> None:
    assert {queue_of_group(f"g{index}", 1) for index in range(50)} == {0}
