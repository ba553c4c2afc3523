"""When a client's recording may say that a group was drained (docs/reference/recording.md, Drains)."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq._recording.drains import Drained, Drains, Poll
from aiorocketmq._recording.records import note_of
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    ClientIdentity,
    DeliverEvent,
    Event,
    HandleEvent,
    Phase,
    ReceiveEvent,
    Role,
    SendEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage
from aiorocketmq.subscription import Tags
from aiorocketmq.transaction import Resolution

PRODUCER = ClientIdentity("p@1", Role.PRODUCER)
CONSUMER = ClientIdentity("c@1", Role.SIMPLE, "billing")
ANYTHING = Tags("*")
WHOLE_A, WHOLE_B = (MessageQueue("orders", broker, -1) for broker in ("broker-a", "broker-b"))
QUEUES_A, QUEUES_B = (
    tuple(MessageQueue("orders", broker, number) for number in range(2))
    for broker in ("broker-a", "broker-b")
)
CAME: dict[str, Any] = {
    "topic": "orders", "body": b"1", "message_id": "M1", "queue": QUEUES_A[0], "offset": 7, "group": "billing"
}  # fmt: skip
MESSAGE = ReceivedMessage(**CAME)
LEASE = 30.0
SETTLED: dict[str, Any] = {
    "client": CONSUMER,
    "message": MESSAGE,
    "delivery": "h",
    "handle": "h",
    "operation": "s",
}
POLL: dict[str, Any] = {
    "client": CONSUMER,
    "operation": "1",
    "queue": WHOLE_A,
    "max_messages": 32,
    "invisible": LEASE,
    "filter": ANYTHING,
    "readable": QUEUES_A,
}

SENT = SendEvent(client=PRODUCER, phase=Phase.OK, message=Message("orders", b"1"), message_id="M1")
DELIVERED = DeliverEvent(
    client=CONSUMER, message=MESSAGE, handle="h", position=0, invisible=LEASE, filter=ANYTHING
)
ACKED = AckEvent(phase=Phase.OK, **SETTLED)


class Story:
    """Reports events at instants, and keeps the drains."""

    def __init__(self) -> None:
        self.told: list[Drained] = []
        self._drains = Drains()
        self._seq = 0

    def tell(self, at: float, *events: Event) -> None:
        for event in events:
            self._seq += 1
            client, wall_us = event.client, round(at * 1e6)
            note = note_of(event, wall_us)
            assert note is not None
            drain = self._drains.note(client.client_id, client.group, note, at, wall_us, self._seq)
            if drain is not None:
                self.told.append(drain)

    def consume(self) -> None:
        """The last of it happens at 102."""
        self.tell(100.0, SENT)
        self.tell(101.0, DELIVERED)
        self.tell(102.0, ACKED)

    def poll(self, asked: float, answered: float | None = None, **more: Any) -> None:
        """A poll; without more in vain, and of all that broker-a has."""
        ends = {"phase": Phase.OK} | {name: more.pop(name) for name in ("phase", "count") if name in more}
        call = ReceiveEvent(**(POLL | more), phase=Phase.INVOKE)
        self.tell(asked, call)
        self.tell(asked + 20 if answered is None else answered, replace(call, **ends))

    @property
    def topics(self) -> list[tuple[str, str]]:
        return [(drain.group, drain.topic) for drain in self.told]


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_group_is_drained_when_it_asks_again_after_twice_the_lease_and_what_is_tolerated(
    story: Story,
) -> None:
    story.consume()
    story.poll(176.9)
    assert story.told == []
    story.poll(177.0)
    assert story.told == [Drained("billing", "orders", Poll(177.0, 177_000_000, 6))]


def test_it_is_reported_once_until_something_happens_again(story: Story) -> None:
    story.consume()
    story.poll(200.0)
    story.poll(220.0)
    assert len(story.told) == 1
    story.tell(241.0, SENT)
    story.poll(242.0)
    assert len(story.told) == 1
    story.poll(330.0)
    assert len(story.told) == 2


def test_every_queue_of_every_broker_has_to_say_no(story: Story) -> None:
    story.consume()
    everywhere = QUEUES_A + QUEUES_B
    story.poll(200.0, readable=everywhere)
    story.poll(230.0, readable=everywhere)
    assert story.told == []
    story.poll(225.0, 260.0, queue=WHOLE_B, readable=everywhere)
    # Of what was sent after the oldest of the polls that show it, nothing is said.
    assert [drain.poll.now for drain in story.told] == [225.0]


def test_single_queues_are_asked_one_by_one(story: Story) -> None:
    story.consume()
    story.poll(200.0, queue=QUEUES_A[0])
    assert story.told == []
    story.poll(221.0, queue=QUEUES_A[1])
    assert story.topics == [("billing", "orders")]


def test_polls_of_two_clients_with_the_same_number_are_told_apart(story: Story) -> None:
    """The older one began while messages might still have been redelivered."""
    story.consume()
    early = ReceiveEvent(**POLL, phase=Phase.INVOKE)
    late = replace(early, client=replace(CONSUMER, client_id="c@2"))
    story.tell(176.0, early)
    story.tell(190.0, late)
    story.tell(196.0, replace(early, phase=Phase.OK))
    assert story.told == []
    story.tell(210.0, replace(late, phase=Phase.OK))
    assert [drain.poll.now for drain in story.told] == [190.0]


def test_polls_that_have_ended_take_no_memory(story: Story) -> None:
    def size_after(polls: int) -> int:
        for _ in range(polls):
            story.poll(200.0, operation=f"{story._seq}")
        return len(pickle.dumps(story._drains))

    assert size_after(1) * 2 > size_after(100)


def test_a_broker_that_no_route_names_any_more_still_has_its_messages(story: Story) -> None:
    story.consume()
    story.poll(110.0, readable=QUEUES_A + QUEUES_B)
    story.poll(200.0)
    assert story.told == []


@pytest.mark.parametrize(
    "event",
    [
        SENT,
        replace(SENT, phase=Phase.INFO),
        TransactionEndEvent(
            client=PRODUCER,
            phase=Phase.OK,
            topic="orders",
            message_id="M1",
            transaction_id="T",
            resolution=Resolution.COMMIT,
        ),
        HandleEvent(client=CONSUMER, message=MESSAGE),
        ACKED,
    ],
    ids=lambda event: f"{type(event).__name__}-{event.phase.value}",
)
def test_whatever_happens_to_topic_or_group_begins_the_wait_again(story: Story, event: Event) -> None:
    story.consume()
    story.tell(150.0, event)
    story.poll(224.9)
    assert story.told == []
    story.poll(225.0, 226.0)
    assert story.topics == [("billing", "orders")]


def test_a_delayed_message_is_waited_for_twice_as_long_as_its_delay(story: Story) -> None:
    story.consume()
    story.tell(103.0, replace(SENT, due_us=603_000_000))
    story.poll(1117.9)
    assert story.told == []
    story.poll(1118.0)
    assert story.topics == [("billing", "orders")]


def test_a_longer_lease_or_back_off_is_waited_for(story: Story) -> None:
    story.consume()
    story.tell(103.0, ChangeEvent(phase=Phase.INFO, invisible=600.0, reason=ChangeReason.RETRY, **SETTLED))
    story.poll(1317.9)
    assert story.told == []
    story.poll(1318.0)
    assert story.topics == [("billing", "orders")]


def test_a_poll_whose_answer_was_lost_may_have_taken_messages(story: Story) -> None:
    story.consume()
    story.poll(110.0, 120.0, phase=Phase.INFO, invisible=100.0)
    story.poll(334.9)
    assert story.told == []
    story.poll(335.0)
    assert story.topics == [("billing", "orders")]


@pytest.mark.parametrize(
    "poll",
    [
        {"count": 1},
        {"phase": Phase.FAIL},
        {"readable": ()},
        {"client": replace(CONSUMER, group="never handed anything")},
    ],
    ids=["messages", "refused", "no route", "another group"],
)
def test_only_an_empty_answer_to_a_group_whose_filter_is_known_drains(
    story: Story, poll: dict[str, Any]
) -> None:
    story.consume()
    story.poll(900.0, **poll)
    assert story.told == []
    story.poll(930.0)
    assert story.topics == [("billing", "orders")]


def test_groups_are_drained_apart_also_from_the_same_messages(story: Story) -> None:
    auditor = replace(CONSUMER, client_id="c@2", group="audit")
    story.consume()
    story.tell(160.0, replace(DELIVERED, client=auditor), replace(ACKED, client=auditor))
    story.poll(200.0)
    story.poll(221.0, client=auditor)
    assert story.topics == [("billing", "orders")]
    story.poll(242.0, client=auditor)
    assert story.topics == [("billing", "orders"), ("audit", "orders")]


@pytest.mark.parametrize(
    "unfit",
    [
        replace(DELIVERED, auto_renew=True),
        replace(DELIVERED, message=ReceivedMessage(**CAME, lite_topic="one")),
        ReceiveEvent(**(POLL | {"filter": Tags("paid"), "operation": "0"}), phase=Phase.INVOKE),
    ],
    ids=["leases of unknown length", "lite topic", "two filters"],
)
def test_where_messages_may_stay_behind_rightly_nothing_is_reported(story: Story, unfit: Event) -> None:
    story.tell(99.0, unfit)
    story.consume()
    story.poll(900.0)
    assert story.told == []
