"""Order by message group against its definition: a list of messages, read from the start for every receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiorocketmq_fake.core.values.codes import Code, OffsetPolicy, TopicType
from aiorocketmq_fake.core.values.model import Delivery
from aiorocketmq_fake.core.values.profiles import DOCUMENTED
from hypothesis import given, settings, strategies as st

from fake_broker.tests.core.conftest import Desk

KEPT = 100.0
"""Seconds that messages are kept; one is sent per second."""

pick = st.integers(0, 9)
actions = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("ABC")),
    st.tuples(st.just("receive"), st.tuples(st.integers(1, 4), st.sampled_from(["", "", "x", "y"]))),
    st.tuples(st.just("ack"), pick),
    st.tuples(st.just("expire"), pick),
    st.tuples(st.just("expire uncounted"), pick),
    st.tuples(st.just("delete"), st.integers(1, 3)),
    st.tuples(st.just("reset"), st.sampled_from([OffsetPolicy.BEGINNING, OffsetPolicy.END])),
)


@dataclass
class Sent:
    """A message, as the definition of the order needs it."""

    offset: int
    group: str
    is_settled: bool = False
    is_deleted: bool = False
    count: int = 0
    """Deliveries that count."""
    delivery: Delivery | None = None
    """The delivery in flight."""
    attempt_id: str = ""

    @property
    def is_waiting(self) -> bool:
        return not self.is_settled and not self.is_deleted and self.delivery is None

    def end(self, *, is_counted: bool) -> None:
        self.delivery = None
        self.count -= not is_counted


class Definition:
    """What the order record has to answer."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []

    @property
    def in_flight(self) -> list[Sent]:
        return [each for each in self.sent if each.delivery is not None]

    @property
    def committed(self) -> int:
        """The first offset that is neither settled nor deleted."""
        open_ = (each.offset for each in self.sent if not each.is_settled and not each.is_deleted)
        return next(open_, len(self.sent))

    def take(self, limit: int, attempt_id: str) -> list[Sent]:
        """The first messages whose groups have nothing in flight; first those of the same attempt id return."""
        for each in self.in_flight:
            if attempt_id and each.attempt_id == attempt_id:
                each.end(is_counted=False)
        blocked = {each.group for each in self.in_flight}
        taken = [each for each in self.sent if each.is_waiting and each.group not in blocked][:limit]
        for each in taken:
            each.count += 1
            each.attempt_id = attempt_id
        return taken

    def reset(self, committed: int) -> None:
        for each in self.sent:
            each.is_settled, each.count, each.delivery = each.offset < committed, 0, None


class Comparison:
    """A broker and the definition, driven by the same actions."""

    def __init__(self) -> None:
        self.desk = Desk(DOCUMENTED, ordered=True, type=TopicType.FIFO, max_attempts=1000)
        self.desk.broker.set_retention(now=self.desk.now, retention=KEPT)
        self.desk.receive()  # the group's order record begins
        self.definition = Definition()

    def send(self, group: str) -> None:
        sent = self.definition.sent
        self.desk.send(str(len(sent)), message_group=group)
        sent.append(Sent(len(sent), group))

    def receive(self, limits: tuple[int, str]) -> None:
        limit, attempt_id = limits
        deliveries = self.desk.receive(limit, invisible=40_000.0, attempt_id=attempt_id)
        taken = self.definition.take(limit, attempt_id)
        actual = [(int(each.message.content.message_id), each.attempt) for each in deliveries]
        assert actual == [(each.offset, each.count) for each in taken]
        for each, delivery in zip(taken, deliveries, strict=True):
            each.delivery = delivery

    def ack(self, number: int) -> None:
        each = self._picked(number)
        if each is not None and each.delivery is not None:
            assert self.desk.ack(each.delivery) is Code.OK
            each.delivery, each.is_settled = None, True

    def expire(self, number: int, *, is_counted: bool = True) -> None:
        each = self._picked(number)
        if each is not None and each.delivery is not None:
            self.desk.change(each.delivery, 0.0, suspend=not is_counted)
            each.end(is_counted=is_counted)

    def expire_uncounted(self, number: int) -> None:
        self.expire(number, is_counted=False)

    def delete(self, count: int) -> None:
        """Delete the oldest `count` messages, in flight or not."""
        kept = [each for each in self.definition.sent if not each.is_deleted]
        if kept:
            # One message is stored per second.
            last = kept[:count][-1]
            self.desk.broker.set_retention(
                now=self.desk.now, retention=self.desk.now - self._stored_at(last.offset)
            )
            self.desk.broker.delete_expired(now=self.desk.now)
            self.desk.broker.set_retention(now=self.desk.now, retention=KEPT)
            for each in kept[:count]:
                each.is_deleted = True

    def reset(self, policy: OffsetPolicy) -> None:
        (offset,) = self.desk.broker.reset_offset("g", "t", policy, now=self.desk.now)
        self.definition.reset(offset)

    def check(self) -> None:
        (progress,) = self.desk.broker.offsets("g")
        assert progress.offset == self.definition.committed
        assert self.desk.broker.totals().leases == len(self.definition.in_flight)

    def _stored_at(self, offset: int) -> float:
        stored = {each.offset: each.store_timestamp for each in self.desk.broker.messages("t")}
        return stored[offset]

    def _picked(self, number: int) -> Sent | None:
        in_flight = self.definition.in_flight
        return in_flight[number % len(in_flight)] if in_flight else None


@settings(max_examples=300, deadline=None)
@given(st.text("ABC", min_size=4, max_size=12), st.lists(actions, min_size=20, max_size=40))
def test_an_order_record_agrees_with_its_definition(groups: str, history: list[tuple[str, Any]]) -> None:
    comparison = Comparison()
    for group in groups:
        comparison.desk.wait(1.0)
        comparison.send(group)
    for name, argument in history:
        comparison.desk.wait(1.0)
        getattr(comparison, name.replace(" ", "_"))(argument)
        comparison.check()
