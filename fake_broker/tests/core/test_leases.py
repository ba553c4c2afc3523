"""The book of leases."""

import random
from typing import Any

from aiorocketmq_fake.core.records.leases import Lease, LeaseBook


def test_the_memory_of_spent_handles_is_bounded() -> None:
    book = LeaseBook()
    blank: Any = None
    for index in range(3 * 16_384 + 10):
        lease = Lease(blank, blank, 1, "c", f"handle {index}", 0, 1, 0, False, None)
        book.add(lease)
        book.remove(lease, acked=True)
    assert book.was_acked(f"handle {index}")
    assert book.was_acked(f"handle {index - 16_000}")
    assert not book.was_acked("handle 0")
    assert not book.knows("handle 0")
    assert len(book._fresh) + len(book._old) <= 2 * 16_384 + 1


def test_removing_in_any_order_leaves_nothing() -> None:
    book = LeaseBook()
    blank: Any = None
    leases = [Lease(blank, blank, 1, f"c{i % 3}", f"h{i}", 0, 1, 0, i % 2 == 0, None) for i in range(50)]
    for lease in leases:
        book.add(lease)
    for lease in leases[::3]:
        book.rename(lease, lease.handle + " renewed", keep_first=lease.auto_renew)
    random.Random(1).shuffle(leases)
    for lease in leases:
        assert book.by_handle[lease.handle] is lease
        book.remove(lease, acked=False)
    assert book.by_handle == {}
    assert book.renewing == {}
    assert book.all() == []
