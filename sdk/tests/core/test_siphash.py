"""The queue of a message group, by the vectors that all correct clients share (client-behaviour.md, 9.4)."""

import pytest
from aiorocketmq._core.siphash import queue_index, siphash24

VECTORS = [
    ("", 0x726FDB47DD0E0E31, {3: 0, 4: 1, 8: 1, 10: 3, 16: 1}),
    ("a", 0x2BA3E8E9A71148CA, {3: 1, 4: 2, 8: 2, 10: 4, 16: 10}),
    ("group0", 0x7DF2DB2961EC7804, {3: 1, 4: 0, 8: 4, 10: 4, 16: 4}),
    ("yourMessageGroup0", 0xF28E4FC3CC5C5A4D, {3: 1, 4: 1, 8: 5, 10: 5, 16: 13}),
    ("fifo-group", 0xA37DCFB04F87C774, {3: 2, 4: 0, 8: 4, 10: 4, 16: 4}),
    ("订单-1", 0x6804FD0864174981, {3: 1, 4: 1, 8: 1, 10: 9, 16: 1}),
]


def test_the_vector_of_the_siphash_paper() -> None:
    assert siphash24(bytes(range(15))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize(("group", "digest", "indexes"), VECTORS)
def test_a_message_group_has_the_hash_and_the_queue_that_other_clients_give_it(
    group: str, digest: int, indexes: dict[int, int]
) -> None:
    assert siphash24(group.encode()) == digest
    assert {queues: queue_index(group, queues) for queues in indexes} == indexes


@pytest.mark.parametrize(
    ("length", "digest"),
    [(255, 0x91C97ABAB4CDBF56), (256, 0x7408248D2694D61C), (512, 0x8C27AB541C5B67BC)],
)
def test_the_length_of_a_long_text_counts_modulo_256(length: int, digest: int) -> None:
    """Computed by OpenSSL 3.0 (`openssl mac SIPHASH`)."""
    assert siphash24(bytes(length)) == digest
