"""Random commands and passing time against the promises of the broker, in both profiles.

The machine knows nothing of how the broker works: it reads the events, and holds them against sentences such
as "no two live leases of one message in a group". Where a profile allows a promise to be broken on
provocation, the machine itself provokes it and from then on expects nothing of the message (`tainted`).
"""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.receiving import Receiving
from aiorocketmq_fake.core.commands.redelivery import Redelivery
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.choices import OrderGrain
from aiorocketmq_fake.core.values.codes import ClientType, OffsetPolicy, Refusal, TopicType
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ChangeRequest,
    ClientSettings,
    Delivery,
    FilterExpression,
    ForwardRequest,
    GroupConfig,
    OutgoingMessage,
    Parked,
    PollAnswered,
    Received,
    ReceiveRequest,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

GROUPS = ("normal", "ordered")
TOPICS = ("fifo", "delay")
MAX_ATTEMPTS = 3

groups = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)
picks = st.integers(0, 1_000)


@dataclass
class Held:
    """A handle that some consumer was given."""

    group: str
    topic: str
    handle: str
    message_id: str


@dataclass
class Story:
    """What was seen of one message in one group."""

    attempts: list[int] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    settled: bool = False
    tainted: bool = False


class BrokerMachine(RuleBasedStateMachine):
    """Commands and passing time."""

    profile: Profile
    core: Callable[..., Broker] = Broker

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.serial = 0
        self.held: list[Held] = []
        self.parked: list[int] = []
        self.stories: dict[tuple[str, str], Story] = defaultdict(Story)
        self.lanes: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        """Message ids in order of storing, by topic, message group and queue."""
        self.places: dict[str, tuple[str, str, int]] = {}
        self.accepted: set[str] = set()
        self.unordered: set[str] = set()
        """Groups whose order was disturbed by intention."""
        self.batches: dict[str, tuple[int, set[str]]] = {}
        self.handles: set[str] = set()

    @initialize(seed=st.integers(0, 99), queues=st.integers(1, 3), disturbed=st.booleans())
    def begin(self, seed: int, queues: int, disturbed: bool) -> None:
        """Half of the histories are without the commands that disturb order by intention."""
        self.disturbed = disturbed
        self.broker = self.core(self.profile, now=self.now, rng=random.Random(seed))
        for name, kind in zip(TOPICS, (TopicType.FIFO, TopicType.DELAY), strict=True):
            self.broker.create_topic(TopicConfig(name, kind, queues, queues), now=self.now)
        for name in GROUPS:
            config = GroupConfig(name, ordered=name == "ordered", max_attempts=MAX_ATTEMPTS)
            self.broker.create_group(config, now=self.now)
            for number in (1, 2):
                self.join(name, number)

    # Helpers

    def join(self, group: str, number: int) -> None:
        client = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription(group))
        self.broker.settings(f"{group}-{number}", client, now=self.now)

    def state(self) -> tuple[Any, ...]:
        broker = self.broker
        return (
            broker.topics(),
            broker.groups(),
            broker.clients(),
            broker.leases(),
            broker.order_records(),
            broker.offsets(),
            broker.totals(),
            [broker.messages(topic.config.name) for topic in broker.topics()],
        )

    def command(self, act: Callable[[], Any]) -> Any:
        """Carry a command out; a refusal must have changed nothing."""
        self.broker.advance(self.now)
        before = self.state()
        answer, refused = None, False
        try:
            answer = act()
        except Refusal:
            refused = True
        if refused:
            assert self.state() == before
        self.absorb()
        return answer

    def pick(self, number: int) -> Held:
        return self.held[number % len(self.held)]

    def receive_request(
        self, group: str, topic: str, batch_size: int, client: int, invisible: float = 10.0, **fields: Any
    ) -> ReceiveRequest:
        return ReceiveRequest(
            f"{group}-{client}",
            group,
            topic,
            batch_size=batch_size,
            invisible=invisible,
            remaining_deadline=30.0,
            **fields,
        )

    def absorb(self) -> None:
        """Read events and outputs, and hold them against the promises."""
        for event in self.broker.take_events():
            self.check(event)
        for output in self.broker.take_outputs():
            assert isinstance(output, PollAnswered)
            assert output.poll_id in self.parked, "an answer for nobody"
            self.parked.remove(output.poll_id)
            assert isinstance(output.result, Received)
            self.hold(output.result.deliveries)

    def hold(self, deliveries: tuple[Delivery, ...]) -> None:
        for delivery in deliveries:
            content = delivery.message.content
            groups = [
                group
                for group in GROUPS
                if delivery.receipt_handle in self.stories[group, content.message_id].live
            ]
            assert len(groups) < 2
            for group in groups:
                self.held.append(Held(group, content.topic, delivery.receipt_handle, content.message_id))

    def check(self, event: events.Event) -> None:
        match event:
            case events.Stored(message=message, reason=events.StoredAs.SENT | events.StoredAs.DUE):
                place = (message.topic, message.content.message_group, message.queue_id)
                self.lanes[place].append(message.content.message_id)
                self.places[message.content.message_id] = place
            case events.Delivered():
                self.check_delivery(event)
            case events.Acked(effective=True, message=message) if message is not None:
                story = self.stories[event.group, message.content.message_id]
                story.live.discard(event.first_handle)
                story.settled = True
            case events.LeaseEnded():
                story = self.stories[event.group, event.message.content.message_id]
                story.live.discard(event.first_handle)
            case events.Filtered() | events.DeadLettered() | events.WrongMessageDeadLettered():
                self.stories[event.group, event.message.content.message_id].settled = True
            case events.Resurrected():
                assert self.profile.change_after_ack.name == "NEW_LEASE"
                self.stories[event.group, event.message.content.message_id].tainted = True
            case events.LeaseChanged(renewal=False):
                self.held.append(
                    Held(
                        event.group,
                        event.message.content.topic,
                        event.receipt_handle,
                        event.message.content.message_id,
                    )
                )
            case _:
                pass

    def check_delivery(self, event: events.Delivered) -> None:
        delivery = event.delivery
        message_id = delivery.message.content.message_id
        story = self.stories[event.group, message_id]
        assert delivery.receipt_handle not in self.handles, "one handle for two deliveries"
        self.handles.add(delivery.receipt_handle)
        assert delivery.attempt <= MAX_ATTEMPTS
        if not story.tainted and event.group not in self.unordered:
            assert not story.live, f"two live leases of {message_id} in {event.group}"
            self.check_attempt(event, story)
            if event.group == "normal":
                assert not story.settled, f"{message_id} came back to {event.group} after it was settled"
        if event.group == "ordered" and "ordered" not in self.unordered:
            self.check_order(event, message_id)
        story.attempts.append(delivery.attempt)
        story.live.add(delivery.receipt_handle)

    def check_attempt(self, event: events.Delivered, story: Story) -> None:
        per_batch = event.group == "ordered" and self.profile.ordered_attempts_per_batch
        if story.attempts and not per_batch:
            assert event.delivery.attempt >= story.attempts[-1], "attempts shrank"

    def check_order(self, event: events.Delivered, message_id: str) -> None:
        """All earlier messages of the message group are settled, or in the same answer before this one."""
        batch, members = self.batches.get(event.group, (0, set()))
        if batch != event.batch:
            members = set()
        for earlier in self.lanes[self.places[message_id]]:
            if earlier == message_id:
                break
            assert earlier in members or self.stories[event.group, earlier].settled, (
                f"{message_id} before {earlier}"
            )
        members.add(message_id)
        self.batches[event.group] = (event.batch, members)

    # Commands

    @rule(count=st.integers(1, 4), message_group=st.sampled_from("ABC"), tag=st.sampled_from(["", "x"]))
    def send(self, count: int, message_group: str, tag: str) -> None:
        for _ in range(count):
            self.serial += 1
            message_id = f"m{self.serial}"
            message = OutgoingMessage("fifo", b"x", message_id, tag, message_group=message_group)
            if self.command(partial(self.broker.send, (message,), now=self.now)):
                self.accepted.add(message_id)

    @rule(count=st.integers(2, 4))
    def send_batch(self, count: int) -> None:
        self.serial += count
        ids = [f"m{self.serial}.{index}" for index in range(count)]
        batch = tuple(
            OutgoingMessage("fifo", b"x", message_id, message_group="ABC"[index % 3])
            for index, message_id in enumerate(ids)
        )
        if self.command(lambda: self.broker.send(batch, now=self.now)):
            self.accepted.update(ids)

    @rule(ahead=st.floats(-1.0, 30.0))
    def send_delayed(self, ahead: float) -> None:
        self.serial += 1
        message = OutgoingMessage("delay", b"x", f"m{self.serial}", delivery_timestamp=self.now + ahead)
        if self.command(lambda: self.broker.send((message,), now=self.now)):
            self.accepted.add(message.message_id)

    @rule(
        message=st.sampled_from(
            [{"body": b""}, {"tag": "|"}, {"message_group": ""}, {"topic": "none"}, {"message_id": ""}]
        )
    )
    def send_nonsense(self, message: dict[str, Any]) -> None:
        fields = {"topic": "fifo", "body": b"x", "message_id": "bad", "message_group": "A", **message}
        self.serial += 1
        good = OutgoingMessage("fifo", b"x", f"m{self.serial}.good", message_group="A")
        # The bad one first: a real server looks at the type of the first message only.
        assert self.command(lambda: self.broker.send((OutgoingMessage(**fields), good), now=self.now)) is None

    @rule(
        group=groups,
        topic=topics,
        batch_size=st.integers(0, 5),
        client=st.integers(1, 2),
        invisible=st.sampled_from([10.0, 11.5, 60.0]),
        auto_renew=st.booleans(),
        attempt_id=st.sampled_from(["", "", "x", "y"]),
        tag=st.sampled_from(["*", "*", "*", "x"]),
    )
    def receive(
        self,
        group: str,
        topic: str,
        batch_size: int,
        client: int,
        invisible: float,
        auto_renew: bool,
        attempt_id: str,
        tag: str,
    ) -> None:
        request = self.receive_request(
            group,
            topic,
            batch_size,
            client,
            invisible,
            polling=5.0,
            auto_renew=auto_renew,
            attempt_id=attempt_id,
            filter=FilterExpression(tag),
        )
        answer = self.command(lambda: self.broker.receive(request, now=self.now))
        if isinstance(answer, Parked):
            self.parked.append(answer.poll_id)
        elif answer is not None:
            self.hold(answer.deliveries)

    @precondition(lambda self: self.parked)
    @rule(number=picks)
    def cancel(self, number: int) -> None:
        poll_id = self.parked.pop(number % len(self.parked))
        self.command(lambda: self.broker.cancel_poll(poll_id, now=self.now))

    @precondition(lambda self: self.held)
    @rule(number=picks)
    def ack(self, number: int) -> None:
        held = self.pick(number)
        entries = (AckEntry(held.message_id, held.handle),)
        request = AckRequest(f"{held.group}-1", held.group, held.topic, entries)
        self.command(lambda: self.broker.ack(request, now=self.now))

    @precondition(lambda self: self.held)
    @rule(number=picks, junk=st.sampled_from(["", "0 1 2", "9 9999999 9 0 0 broker-a 9 9 9"]))
    def ack_junk(self, number: int, junk: str) -> None:
        held = self.pick(number)
        other = GROUPS[held.group == "normal"]
        entries = (AckEntry("m", junk), AckEntry(held.message_id, held.handle))
        request = AckRequest("nobody", other, held.topic, entries)
        self.broker.advance(self.now)
        leases = self.broker.leases()
        self.command(lambda: self.broker.ack(request, now=self.now))
        assert self.broker.leases() == leases

    @precondition(lambda self: self.held)
    @rule(number=picks, seconds=st.sampled_from([0.0, 1.0, 10.0, 40.0, -1.0, 1e6]), suspend=st.booleans())
    def change(self, number: int, seconds: float, suspend: bool) -> None:
        held = self.pick(number)
        request = ChangeRequest(
            f"{held.group}-1", held.group, held.topic, held.handle, seconds, held.message_id, suspend
        )
        self.command(lambda: self.broker.change_invisible(request, now=self.now))

    @precondition(lambda self: self.held)
    @rule(number=picks)
    def forward(self, number: int) -> None:
        held = self.pick(number)
        live = {lease.receipt_handle for lease in self.broker.leases(held.group)}
        if held.handle not in live and not self.profile.forward_checks_handle:
            # Real servers copy such a message and let it come back all the same.
            self.stories[held.group, held.message_id].tainted = True
        request = ForwardRequest(f"{held.group}-1", held.group, held.topic, held.handle, held.message_id)
        self.command(lambda: self.broker.forward_to_dead_letter_queue(request, now=self.now))

    @precondition(lambda self: self.held)
    @rule(number=picks)
    def release_deliveries(self, number: int) -> None:
        held = self.pick(number)
        self.command(lambda: self.broker.release_deliveries((held.handle,), now=self.now))

    @rule(group=groups, client=st.integers(1, 2))
    def leave_and_join(self, group: str, client: int) -> None:
        self.command(lambda: self.broker.terminate(f"{group}-{client}", group, now=self.now))
        self.command(lambda: self.join(group, client))

    @rule()
    def restart(self) -> None:
        self.command(lambda: self.broker.restart(now=self.now))
        self.parked.clear()
        for group in GROUPS:
            for number in (1, 2):
                self.join(group, number)

    @rule(
        group=groups, topic=topics, policy=st.sampled_from([OffsetPolicy.BEGINNING, OffsetPolicy.TIMESTAMP])
    )
    def reset(self, group: str, topic: str, policy: OffsetPolicy) -> None:
        """Backwards only: what a reset to the end skips is lost by intention."""
        self.unordered.add(group)
        self.command(lambda: self.broker.reset_offset(group, topic, policy, now=self.now, timestamp=900.0))

    @precondition(lambda self: self.disturbed)
    @rule(ordered=st.booleans())
    def switch_order(self, ordered: bool) -> None:
        self.unordered.add("ordered")
        config = GroupConfig("ordered", ordered=ordered, max_attempts=MAX_ATTEMPTS)
        self.command(lambda: self.broker.update_group(config, now=self.now))

    # Time

    @rule(seconds=st.sampled_from([0.0, 0.001, 1.0, 5.0, 10.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.broker.advance(self.now)
        self.absorb()
        self.heartbeats()

    @rule()
    def pass_time_to_the_next_deadline(self) -> None:
        deadline = self.broker.next_deadline()
        if deadline is not None:
            assert deadline >= self.now - 0.001
            self.now = max(self.now, deadline)
            self.broker.advance(self.now)
            self.absorb()
            self.heartbeats()

    def heartbeats(self) -> None:
        for client in self.broker.clients():
            self.broker.keep_alive(client.client_id, now=self.now)

    # Promises that hold at every moment

    @invariant()
    def the_next_deadline_is_not_in_the_past(self) -> None:
        if hasattr(self, "broker"):
            self.broker.advance(self.now)
            self.absorb()
            deadline = self.broker.next_deadline()
            # Time inside is whole milliseconds; the present one may have begun up to a millisecond ago.
            assert deadline is None or deadline > self.now - 0.001

    @invariant()
    def the_leases_are_those_that_the_events_told(self) -> None:
        if hasattr(self, "broker") and not self.unordered:
            for lease in self.broker.leases():
                story = self.stories[lease.group, lease.message_id]
                assert story.tainted or len(story.live) == 1

    # At the end, everything must be somewhere

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        self.broker.restart(now=self.now)
        self.parked.clear()
        self.drain_all()
        if "ordered" in self.unordered:
            # Redeliveries from a time when the group was normal wait until it is normal again (R8.19, R8.21).
            self.broker.update_group(GroupConfig("ordered", max_attempts=MAX_ATTEMPTS), now=self.now)
            self.drain_all()
        for group in GROUPS:
            for message_id in self.accepted:
                story = self.stories[group, message_id]
                assert story.settled or story.tainted, f"{group} never settled {message_id}"

    def drain_all(self) -> None:
        for _ in range(2 * MAX_ATTEMPTS):
            self.now += 61.0
            for group in GROUPS:
                self.join(group, 1)
                for topic in TOPICS:
                    self.drain(group, topic)

    def drain(self, group: str, topic: str) -> None:
        while True:
            request = self.receive_request(group, topic, 32, 1, polling=0.0)
            answer = self.broker.receive(request, now=self.now)
            if isinstance(answer, Parked):
                self.parked.append(answer.poll_id)
                self.broker.end_poll(answer.poll_id, now=self.now)
                self.absorb()
                return
            self.absorb()
            if not answer.deliveries:
                return
            entries = tuple(
                AckEntry(delivery.message.content.message_id, delivery.receipt_handle)
                for delivery in answer.deliveries
            )
            self.broker.ack(AckRequest(f"{group}-1", group, topic, entries), now=self.now)
            self.absorb()


class OutOfOrder(Receiving):
    """Hands ordered groups their messages as if they were normal ones."""

    def rules(self, request: ReceiveRequest, consumption: Consumption) -> tuple[bool, int]:
        return False, super().rules(request, consumption)[1]


class Twice(Leasing):
    """Brings messages back while they are held."""

    def schedule(self, lease: Lease) -> None:
        super().schedule(lease)
        if lease.order is None:
            self._redelivery.redeliver(lease)


class Forgetful(Redelivery):
    """Loses what is not acked."""

    def redeliver(self, lease: Lease) -> None:
        pass


class Again(Leasing):
    """Brings acked messages back."""

    def settle(self, lease: Lease) -> None:
        super().settle(lease)
        if lease.order is None:
            self._redelivery.redeliver(lease)


PROFILES = [DOCUMENTED, APACHE_5_5]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_the_promises_hold_whatever_happens(check_promises: Callable[..., None], profile: Profile) -> None:
    assert {one.order_grain for one in PROFILES} == set(OrderGrain)
    check_promises(BrokerMachine, profile, 150)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    "parts",
    [
        Parts(receiving=OutOfOrder),
        Parts(leasing=Twice),
        Parts(redelivery=Forgetful),
        Parts(leasing=Again),
    ],
    ids=["out of order", "twice", "lost", "back after the ack"],
)
def test_a_broken_promise_is_detected(
    is_noticed: Callable[..., bool], profile: Profile, parts: Parts
) -> None:
    assert is_noticed(BrokerMachine, profile, partial(Broker, parts=parts))
