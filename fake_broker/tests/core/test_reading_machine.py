"""Random commands around filters, offsets and retention against a model of a few lists, in both profiles.

`test_machine.py` watches leases and order; this one watches what may be read: the model keeps every message that was
stored, where each queue begins, and what was written down, and knows nothing of how the broker does it.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, Code, FilterType, OffsetPolicy, Refusal, TopicType
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ClientSettings,
    FilterExpression,
    GroupConfig,
    OffsetQuery,
    OutgoingMessage,
    Parked,
    PullRequest,
    Received,
    ReceiveRequest,
    StoredMessage,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

RETENTION = 100.0
GROUPS = ("g", "h")
QUEUES = 2

SQL, TAG = FilterType.SQL, FilterType.TAG
FILTERS: dict[FilterExpression, Any] = {
    FilterExpression("*"): lambda message: True,
    FilterExpression("a || c"): lambda message: message.tag in ("a", "c"),
    FilterExpression("AaAa"): lambda message: message.tag == "AaAa",
    FilterExpression("n > 2", SQL): lambda message: int(message.properties.get("n", "0")) > 2,
    FilterExpression("NOT (n = 1) OR TAGS = 'a'", SQL): lambda message: (
        message.tag == "a" or ("n" in message.properties and message.properties["n"] != "1")
    ),
    FilterExpression("n IS NULL", SQL): lambda message: "n" not in message.properties,
}
"""Expressions, and what each means."""
UNREADABLE = [FilterExpression("||"), FilterExpression("n = = 1", SQL), FilterExpression("", SQL)]

groups = st.sampled_from(GROUPS)
queues = st.integers(0, QUEUES - 1)
filters = st.sampled_from(sorted(FILTERS, key=repr))


class ReadingMachine(RuleBasedStateMachine):
    """Commands and passing time."""

    profile: Profile
    core: Callable[..., Broker] = Broker

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.now = 1_000_000.0
        self.serial = 0
        self.broker = self.core(self.profile, now=self.now, rng=random.Random(seed))
        self.broker.create_topic(TopicConfig("t", TopicType.NORMAL, QUEUES, QUEUES), now=self.now)
        for group in GROUPS:
            self.broker.create_group(GroupConfig(group), now=self.now)
            settings_ = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription(group))
            self.broker.settings(f"c-{group}", settings_, now=self.now)
        self.broker.set_retention(now=self.now, retention=RETENTION)
        self.queues: list[list[StoredMessage]] = [[] for _ in range(QUEUES)]
        self.begins = [0] * QUEUES
        self.gone: set[str] = set()
        self.asked: dict[int, FilterExpression] = {}

    # Looking

    def watch(self) -> None:
        for event in self.broker.take_events():
            match event:
                case events.Stored(message=message, reason=events.StoredAs.SENT):
                    assert message.offset == len(self.queues[message.queue_id])
                    self.queues[message.queue_id].append(message)
                case events.MessagesDeleted(topic="t"):
                    self.deleted(event)
                case events.Delivered(batch=batch, delivery=delivery):
                    if batch in self.asked:
                        assert FILTERS[self.asked[batch]](delivery.message.content)
                case events.NotRevived(message=message):
                    assert message.offset < self.begins[message.queue_id] or message.topic != "t"
                case _:
                    pass
        self.broker.take_outputs()

    def deleted(self, event: events.MessagesDeleted) -> None:
        assert event.first_offset == self.begins[event.queue_id] < event.min_offset
        for message in self.queues[event.queue_id][event.first_offset : event.min_offset]:
            self.gone.add(message.content.message_id)
            if event.reason is events.DeletedFor.AGE:
                assert event.at - message.store_timestamp >= RETENTION - 0.001
        self.begins[event.queue_id] = event.min_offset

    def end(self, queue: int) -> int:
        return len(self.queues[queue])

    def refused(self, act: Any) -> Code | None:
        """The code of a refusal, which must have changed nothing."""
        self.broker.advance(self.now)
        before = (
            self.broker.messages("t"),
            self.broker.offsets(),
            self.broker.leases(),
            self.broker.retention(),
        )
        try:
            act()
        except Refusal as refusal:
            after = (
                self.broker.messages("t"),
                self.broker.offsets(),
                self.broker.leases(),
                self.broker.retention(),
            )
            assert after == before
            return refusal.code
        finally:
            self.watch()
        return None

    # Commands

    @rule(
        count=st.integers(1, 4),
        tag=st.sampled_from(["", "a", "b", "AaAa", "BBBB"]),
        number=st.integers(0, 4),
    )
    def send(self, count: int, tag: str, number: int) -> None:
        properties = {"n": str(number)} if number else {}
        for _ in range(count):
            self.serial += 1
            message = OutgoingMessage("t", b"x", f"m{self.serial}", tag, properties=properties)
            full = self.broker.retention().disk_used > 0.9
            code = self.refused(lambda sent=message: self.broker.send((sent,), now=self.now))
            assert code is (Code.INTERNAL_SERVER_ERROR if full else None)

    @rule(group=groups, wanted=filters, batch=st.integers(1, 5), ack=st.booleans())
    def receive(self, group: str, wanted: FilterExpression, batch: int, ack: bool) -> None:
        request = self.request(group, wanted, batch)
        answer = self.broker.receive(request, now=self.now)
        if isinstance(answer, Parked):
            self.asked[answer.poll_id] = wanted
            self.broker.end_poll(answer.poll_id, now=self.now)
            self.watch()
            return
        self.watch()
        assert isinstance(answer, Received)
        for delivery in answer.deliveries:
            assert FILTERS[wanted](delivery.message.content)
            message_id = delivery.message.content.message_id
            if delivery.message.topic == "t":
                assert message_id not in self.gone, "a deleted message was delivered"
        if ack:
            entries = tuple(AckEntry("m", delivery.receipt_handle) for delivery in answer.deliveries)
            if entries:
                done = self.broker.ack(AckRequest(f"c-{group}", group, "t", entries), now=self.now)
                assert done.code is Code.OK, "deleted or not, what is held can be acked"
                self.watch()

    def request(self, group: str, wanted: FilterExpression, batch: int) -> ReceiveRequest:
        return ReceiveRequest(
            f"c-{group}", group, "t", wanted, batch, 30.0, polling=5.0, remaining_deadline=60.0
        )

    @rule(group=groups, wanted=st.sampled_from(UNREADABLE))
    def receive_unreadable(self, group: str, wanted: FilterExpression) -> None:
        request = self.request(group, wanted, 5)
        assert self.refused(lambda: self.broker.receive(request, now=self.now)) is not None

    @rule(queue=queues, offset=st.integers(-2, 12), wanted=filters, batch=st.integers(1, 5))
    def pull(self, queue: int, offset: int, wanted: FilterExpression, batch: int) -> None:
        self.broker.advance(self.now)
        self.watch()
        request = PullRequest("reader", "g", "t", queue, offset, wanted, batch)
        answer = self.broker.pull(request, now=self.now)
        self.watch()
        assert not isinstance(answer, Parked)
        begin, end = self.begins[queue], self.end(queue)
        if not begin <= offset <= end:
            assert (answer.code, answer.messages) == (Code.ILLEGAL_OFFSET, ())
            assert answer.next_offset == (begin if offset < begin else end)
            return
        fitting = [one for one in self.queues[queue][offset:] if FILTERS[wanted](one.content)]
        assert list(answer.messages) == fitting[:batch]
        assert answer.next_offset == (fitting[batch - 1].offset + 1 if len(fitting) >= batch else end)

    @rule(queue=queues, group=groups, offset=st.integers(-1, 12))
    def update_offset(self, queue: int, group: str, offset: int) -> None:
        code = self.refused(lambda: self.broker.update_offset(group, "t", queue, offset, now=self.now))
        assert code is (Code.ILLEGAL_OFFSET if offset < 0 else None)
        if offset >= 0:
            assert self.broker.get_offset(group, "t", queue, now=self.now) == offset

    @rule(group=groups, policy=st.sampled_from(OffsetPolicy), back=st.floats(0.0, 300.0), queue=queues)
    def reset(self, group: str, policy: OffsetPolicy, back: float, queue: int) -> None:
        self.broker.advance(self.now)
        self.watch()
        moment = self.now - back
        others = self.broker.offsets(GROUPS[group == "g"])
        offsets = self.broker.reset_offset(group, "t", policy, now=self.now, timestamp=moment)
        self.watch()
        assert self.broker.offsets(GROUPS[group == "g"]) == others, "another group was moved"
        for number, offset in enumerate(offsets):
            assert offset == self.place(number, policy, moment)
        query = OffsetQuery("t", queue, policy, moment)
        assert self.broker.query_offset(query, now=self.now) == offsets[queue]

    def place(self, queue: int, policy: OffsetPolicy, moment: float) -> int:
        if policy is OffsetPolicy.BEGINNING:
            return self.begins[queue]
        left = self.queues[queue][self.begins[queue] :]
        since = [one.offset for one in left if one.store_timestamp >= moment]
        return since[0] if since and policy is OffsetPolicy.TIMESTAMP else self.end(queue)

    @rule(group=groups)
    def forbid_and_allow(self, group: str) -> None:
        config = GroupConfig(group, consume_enabled=False)
        self.broker.update_group(config, now=self.now)
        request = self.request(group, FilterExpression(), 1)
        code = self.refused(lambda: self.broker.receive(request, now=self.now))
        assert code is self.profile.disabled_group_code
        self.broker.update_group(replace(config, consume_enabled=True), now=self.now)

    # Retention and time

    @rule()
    def clean(self) -> None:
        self.broker.delete_expired(now=self.now)
        self.watch()
        for message in self.broker.messages("t"):
            assert self.now - message.store_timestamp < RETENTION + 0.001, "what has expired is still there"

    @rule(used=st.sampled_from([0.0, 0.0, 0.8, 0.88, 0.95, 1.5]))
    def fill_the_disk(self, used: float) -> None:
        code = self.refused(lambda: self.broker.set_retention(now=self.now, disk_used=used))
        assert code is (Code.BAD_REQUEST if used > 1 else None)

    @rule(seconds=st.sampled_from([0.0, 0.5, 11.0, 35.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.broker.advance(self.now)
        self.watch()
        for client in self.broker.clients():
            self.broker.keep_alive(client.client_id, now=self.now)

    @rule()
    def restart(self) -> None:
        kept, before = self.broker.retention(), self.broker.offsets()
        self.broker.restart(now=self.now)
        self.watch()
        assert (self.broker.retention(), self.broker.offsets()) == (kept, before)
        for group in GROUPS:
            settings_ = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription(group))
            self.broker.settings(f"c-{group}", settings_, now=self.now)

    @invariant()
    def the_broker_holds_what_was_stored_and_not_deleted(self) -> None:
        if hasattr(self, "broker"):
            self.broker.advance(self.now)
            self.watch()
            left = [one for queue, all_ in enumerate(self.queues) for one in all_[self.begins[queue] :]]
            assert list(self.broker.messages("t")) == left


class Hasty(Broker):
    """Deletes what it should keep."""

    def set_retention(
        self, *, now: float, retention: float | None = None, disk_used: float | None = None
    ) -> None:
        super().set_retention(now=now, retention=retention and retention / 3, disk_used=disk_used)


class Moving(Broker):
    """Moves every group with one."""

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        for other in GROUPS:
            offsets = super().reset_offset(other, topic, policy, now=now, timestamp=timestamp)
        return offsets


class Unfiltered(Broker):
    """Reads no filter."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        return super().receive(replace(request, filter=FilterExpression()), now=now)


PROFILES = [DOCUMENTED, APACHE_5_5]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_what_may_be_read_is_read(check_promises: Callable[..., None], profile: Profile) -> None:
    check_promises(ReadingMachine, profile, 50)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize("core", [Hasty, Moving, Unfiltered], ids=lambda kind: kind.__name__)
def test_a_broker_with_another_reading_is_detected(
    is_noticed: Callable[..., bool], profile: Profile, core: Callable[..., Broker]
) -> None:
    assert is_noticed(ReadingMachine, profile, core)
