from collections import defaultdict

import pytest
from aiorocketmq._core.dispatch import ConcurrentDispatch, FifoDispatch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule


def taken(dispatch: ConcurrentDispatch[int] | FifoDispatch[int]) -> list[int]:
    items = []
    while (ready := dispatch.take()) is not None:
        items.append(ready[1])
    return items


def test_concurrent_dispatch_starts_everything_in_order_of_arrival() -> None:
    dispatch = ConcurrentDispatch[int]()
    for item in (1, 2, 3):
        dispatch.add("same order_key", item)

    assert dispatch.startable == dispatch.waiting == 3
    assert taken(dispatch) == [1, 2, 3]


def test_concurrent_dispatch_holds_no_other_back_for_a_failure() -> None:
    dispatch = ConcurrentDispatch[int]()
    dispatch.add("order_key", 1)
    dispatch.add("order_key", 2)
    dispatch.take()

    assert dispatch.abandon("order_key") == []
    assert taken(dispatch) == [2]


def test_fifo_dispatch_starts_one_item_per_lane() -> None:
    dispatch = FifoDispatch[int]()
    for order_key, item in (("a", 1), ("a", 2), ("b", 10), ("b", 20)):
        dispatch.add(order_key, item)

    assert dispatch.startable == 2
    assert taken(dispatch) == [1, 10]
    assert dispatch.waiting == 2


def test_the_next_of_a_lane_starts_when_its_head_is_settled() -> None:
    dispatch = FifoDispatch[int]()
    dispatch.add("a", 1)
    dispatch.add("a", 2)
    taken(dispatch)

    dispatch.finish("a")
    assert taken(dispatch) == [2]


def test_what_arrives_for_a_busy_lane_waits() -> None:
    dispatch = FifoDispatch[int]()
    dispatch.add("a", 1)
    taken(dispatch)
    dispatch.add("a", 2)

    assert dispatch.take() is None
    dispatch.finish("a")
    assert taken(dispatch) == [2]


def test_a_head_that_ends_unsettled_takes_its_followers_with_it() -> None:
    dispatch = FifoDispatch[int]()
    for order_key, item in (("a", 1), ("a", 2), ("a", 3), ("b", 10)):
        dispatch.add(order_key, item)
    dispatch.take()

    assert dispatch.abandon("a") == [2, 3]
    assert taken(dispatch) == [10]


def test_an_abandoned_lane_starts_afresh_with_what_is_redelivered() -> None:
    dispatch = FifoDispatch[int]()
    dispatch.add("a", 1)
    dispatch.take()
    dispatch.abandon("a")

    dispatch.add("a", 1)
    assert taken(dispatch) == [1]


def test_draining_leaves_what_waits_behind_a_running_head_until_that_is_settled() -> None:
    dispatch = FifoDispatch[int]()
    for order_key, item in (("a", 1), ("a", 2), ("b", 10), ("b", 20)):
        dispatch.add(order_key, item)
    dispatch.take()

    assert dispatch.drain() == [10, 20]
    assert (dispatch.waiting, dispatch.startable) == (1, 0)
    dispatch.finish("a")
    assert dispatch.drain() == [2]
    assert dispatch.waiting == 0


def test_concurrent_draining_returns_all() -> None:
    dispatch = ConcurrentDispatch[int]()
    dispatch.add("a", 1)
    dispatch.add("b", 2)

    assert dispatch.drain() == [1, 2]
    assert dispatch.waiting == 0


class FifoOrder(RuleBasedStateMachine):
    """Whatever happens in between, a order_key's items start in order, one at a time, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.dispatch = FifoDispatch[tuple[str, int]]()
        self.added = 0
        self.gone = 0
        self.running: dict[str, int] = {}
        self.last: dict[str, int] = defaultdict(int)

    @rule(order_key=st.sampled_from("abc"))
    def add(self, order_key: str) -> None:
        self.added += 1
        self.dispatch.add(order_key, (order_key, self.added))

    @rule()
    def take(self) -> None:
        ready = self.dispatch.take()
        if ready is None:
            return
        order_key, (own_key, number) = ready
        assert order_key == own_key
        assert own_key not in self.running
        assert number > self.last[own_key]
        self.running[own_key] = self.last[own_key] = number

    @rule(order_key=st.sampled_from("abc"), settled=st.booleans())
    def end(self, order_key: str, settled: bool) -> None:
        if order_key not in self.running:
            return
        del self.running[order_key]
        self.gone += 1
        if settled:
            self.dispatch.finish(order_key)
        else:
            self.gone += len(self.dispatch.abandon(order_key))

    @rule()
    def drain(self) -> None:
        self.gone += len(self.dispatch.drain())

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.dispatch.waiting + len(self.running) + self.gone == self.added

    @invariant()
    def whoever_may_start_is_counted(self) -> None:
        assert (self.dispatch.startable == 0) == (self.dispatch.waiting == 0 or self._only_behind_running())

    def _only_behind_running(self) -> bool:
        keys = {order_key for order_key, queue in self.dispatch._queues.items() if queue.items}
        return keys <= self.running.keys()


TestFifoOrder = pytest.mark.filterwarnings("default")(FifoOrder.TestCase)
