"""Random histories of well-behaved consumers follow the table of message states, arrow by arrow."""

import random
from typing import Any

import pytest
from aiorocketmq_fake.core.values.choices import OrderGrain
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.message_states import FIRST, QUEUE_GRAIN, TRANSITIONS, MessageState

STEPS = 300
KINDS = tuple({kind for _, kind in TRANSITIONS})
ACTS = ("send", "receive", "receive", "receive", "ack", "change", "forward", "wait")


class Walk:
    """A group at work on a topic, and where each message is by the events."""

    def __init__(self, desk: Any, seed: int, *, by_queue: bool) -> None:
        self.table = TRANSITIONS | QUEUE_GRAIN if by_queue else TRANSITIONS
        self.desk = desk
        self.rng = random.Random(seed)
        self.states: dict[str, MessageState] = {}
        self.taken: set[tuple[MessageState, type[object]]] = set()
        self.held: list[Any] = []
        self.count = 0

    def go(self, steps: int) -> None:
        """So many commands by chance."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One command, then the events that it caused."""
        getattr(self, self.rng.choice(ACTS))()
        for event in self.desk.seen(*KINDS):
            self.follow(event)
        self.desk.events.clear()

    def send(self) -> None:
        self.count += 1
        self.desk.send(f"m{self.count}", message_group=self.rng.choice("abc"))

    def receive(self) -> None:
        self.held += self.desk.receive(self.rng.randint(1, 4), invisible=10.0)

    def ack(self) -> None:
        if (one := self.pick()) is not None:
            self.desk.ack(one)

    def change(self) -> None:
        if (one := self.pick()) is not None:
            self.desk.change(one, self.rng.choice((0.0, 3.0, 20.0)))

    def forward(self) -> None:
        if self.rng.random() < 0.3 and (one := self.pick()) is not None:
            self.desk.forward(one)

    def wait(self) -> None:
        self.desk.wait(self.rng.choice((0.5, 4.0, 15.0)))

    def pick(self) -> Any:
        """A message in flight with a live lease and its newest handle, None without one."""
        alive = {lease.receipt_handle for lease in self.desk.broker.leases()}
        self.held = [one for one in self.held if one.receipt_handle in alive]
        return self.held.pop(self.rng.randrange(len(self.held))) if self.held else None

    def follow(self, event: Any) -> None:
        """Go along the arrow of an event; AssertionError where there is none."""
        message = event.delivery.message if hasattr(event, "delivery") else event.message
        id_ = message.content.message_id
        before = self.states.get(id_, FIRST)
        assert (before, type(event)) in self.table, f"{id_} is {before.value}, and {event} happened"
        self.taken.add((before, type(event)))
        self.states[id_] = self.table[before, type(event)]


def walk(desk: Any, seed: int, *, by_queue: bool = False) -> Walk:
    whole = Walk(desk, seed, by_queue=by_queue)
    whole.go(STEPS)
    return whole


@pytest.mark.parametrize("seed", range(10))
def test_a_normal_group_follows_the_table(make_desk: Any, seed: int) -> None:
    assert walk(make_desk(type=TopicType.FIFO, max_attempts=3), seed).taken


@pytest.mark.parametrize("seed", range(10))
def test_an_ordered_group_follows_the_table(make_desk: Any, seed: int) -> None:
    desk = make_desk(type=TopicType.FIFO, ordered=True, max_attempts=3)
    assert walk(desk, seed, by_queue=desk.profile.order_grain is OrderGrain.QUEUE).taken


def test_a_history_outside_the_table_is_detected(make_documented: Any) -> None:
    whole = walk(make_documented(type=TopicType.FIFO, max_attempts=3), 1)
    done = next(id_ for id_, state in whole.states.items() if state is MessageState.COMMITTED)
    whole.desk.send(done, message_group="a")
    with pytest.raises(AssertionError, match="is Commit"):
        whole.go(STEPS)
