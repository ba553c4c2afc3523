"""Locks of message groups: one send at a time in each, in the order of the calls, whatever ends when."""

import asyncio
import math
from collections import defaultdict

from aiorocketmq._produce.group_locks import GroupLocks
from hypothesis import given, strategies as st

GROUPS = ("a", "b")
ACTIONS = st.tuples(st.sampled_from(["send", "end", "cancel", "time out"]), st.sampled_from(GROUPS))


class Sends:
    """Sends of some message groups, each of which lasts until it is ended."""

    def __init__(self) -> None:
        self.locks = GroupLocks()
        self.running: dict[str, list[int]] = defaultdict(list)
        self.ends: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def begin(self, group: str, *, until: float) -> int:
        number = len(self.tasks)
        self.ends[number] = asyncio.Event()
        self.tasks[number] = asyncio.create_task(self._send(group, number, until))
        return number

    async def _send(self, group: str, number: int, until: float) -> None:
        async with self.locks.of("topic", group, until) as has_lock:
            if has_lock:
                self.running[group].append(number)
                try:
                    await self.ends[number].wait()
                finally:
                    self.running[group].remove(number)


@given(st.lists(ACTIONS, max_size=30))
def test_sends_of_a_message_group_run_alone_and_in_order(actions: list[tuple[str, str]]) -> None:
    asyncio.run(_sends_run_alone_and_in_order(actions))


async def _sends_run_alone_and_in_order(actions: list[tuple[str, str]]) -> None:
    sends = Sends()
    expected: dict[str, list[int]] = {group: [] for group in GROUPS}
    for action, group in actions:
        queue = expected[group]
        if action == "send":
            queue.append(sends.begin(group, until=math.inf))
        elif action == "end" and queue:
            sends.ends[queue.pop(0)].set()
        elif action == "cancel" and queue:
            sends.tasks[queue.pop()].cancel()
        elif action == "time out" and queue:
            sends.begin(group, until=0.0)  # behind another one, so it gives up
        await _settle()
        assert sends.running[group] == queue[:1]
        assert len(sends.locks) == sum(map(bool, expected.values()))
    for task in sends.tasks.values():
        task.cancel()
    await asyncio.gather(*sends.tasks.values(), return_exceptions=True)
    assert len(sends.locks) == 0


async def _settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_a_message_group_of_another_topic_is_another_one() -> None:
    locks = GroupLocks()
    async with locks.of("orders", "a", math.inf) as first, locks.of("refunds", "a", 0.0) as second:
        assert (first, second, len(locks)) == (True, True, 2)
