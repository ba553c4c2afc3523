"""Locks on queues: one owner at a time, for 60 s after the last renewal."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_fake.core.values.events import QueueLocked, QueueUnlocked

ONE, TWO = ("t", 0), ("t", 1)


def lock(desk: Any, client: str, *queues: tuple[str, int], group: str = "g") -> tuple[tuple[str, int], ...]:
    held: tuple[tuple[str, int], ...] = desk.broker.lock_queues(group, client, queues, now=desk.now)
    return held


def test_a_queue_has_one_owner_in_each_group(desk: Any) -> None:
    assert lock(desk, "a", ONE, TWO) == (ONE, TWO)
    assert lock(desk, "b", ONE, TWO) == ()
    assert lock(desk, "b", ONE, group="other") == (ONE,)
    assert lock(desk, "a", TWO) == (TWO,)


def test_a_lock_lasts_60_seconds_from_its_last_renewal(desk: Any) -> None:
    lock(desk, "a", ONE)
    desk.now += 59.0
    assert lock(desk, "a", ONE) == (ONE,)
    desk.now += 59.999
    assert lock(desk, "b", ONE) == ()
    desk.now += 0.001
    assert lock(desk, "b", ONE) == (ONE,)
    assert lock(desk, "a", ONE) == ()


def test_only_the_owner_unlocks(desk: Any) -> None:
    lock(desk, "a", ONE)
    desk.broker.unlock_queues("g", "b", (ONE,), now=desk.now)
    assert lock(desk, "b", ONE) == ()
    desk.broker.unlock_queues("g", "a", (ONE, TWO), now=desk.now)
    assert lock(desk, "b", ONE) == (ONE,)


def test_locks_outlive_members_but_no_restart(desk: Any) -> None:
    lock(desk, "a", ONE)
    desk.broker.unregister(1, "a", "g", "", now=desk.now)
    desk.broker.close_channel(1, now=desk.now)
    assert lock(desk, "b", ONE) == ()
    desk.broker.restart(now=desk.now)
    assert lock(desk, "b", ONE) == (ONE,)


def test_events_say_who_has_a_queue(desk: Any) -> None:
    lock(desk, "a", ONE)
    lock(desk, "a", ONE)
    desk.broker.unlock_queues("g", "a", (ONE,), now=desk.now)
    kinds = (QueueLocked, QueueUnlocked)
    assert [event for event in desk.broker.take_events() if isinstance(event, kinds)] == [
        QueueLocked(desk.now, "g", "t", 0, "a"),
        QueueUnlocked(desk.now, "g", "t", 0, "a"),
    ]


@pytest.mark.parametrize("held", [0, 1, 2])
def test_the_lock_of_one_queue_does_not_refuse_the_others(desk: Any, held: int) -> None:
    queues = [("t", number) for number in range(3)]
    lock(desk, "a", queues[held])
    assert lock(desk, "b", *queues) == tuple(queue for queue in queues if queue != queues[held])
    desk.broker.unlock_queues("g", "b", tuple(queues), now=desk.now)
    assert lock(desk, "c", *queues) == tuple(queue for queue in queues if queue != queues[held])
