"""Fixtures of the core tests: a broker on a desk, with one topic, one group, one client, and a hand on the
clock."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, Code, TopicType
from aiorocketmq_fake.core.values.events import Event
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    AckResult,
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
    SendOutcome,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

START = 1_000_000.0

LONGEST_SEARCH = 2_000
"""Histories in which a broken promise has to be noticed; most are in the first dozens."""


class Desk:
    """A broker with topic `t`, group `g` and consumer `c`, driven step by step at `now`."""

    def __init__(
        self,
        profile: Profile,
        *,
        ordered: bool = False,
        type: TopicType = TopicType.NORMAL,  # noqa: A002 - the protocol's word
        queues: int = 1,
        max_attempts: int = 17,
        seed: int = 7,
        is_exact: bool = True,
    ) -> None:
        # Most tests ask for times to the millisecond.
        self.profile = profile = replace(profile, revive_spread=0.0) if is_exact else profile
        self.now = START
        self.broker = Broker(profile, now=START, rng=random.Random(seed))
        self.broker.create_topic(TopicConfig("t", type, queues, queues), now=START)
        self.add_group("g", ordered=ordered, max_attempts=max_attempts)
        self.join("c")
        self.events: list[Event] = []

    def add_group(self, name: str, *, ordered: bool = False, max_attempts: int = 17) -> None:
        self.broker.create_group(GroupConfig(name, ordered, max_attempts), now=self.now)

    def join(self, client_id: str, group: str = "g") -> None:
        settings = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription(group))
        self.broker.settings(client_id, settings, now=self.now)

    def message(self, message_id: str = "m", **fields: Any) -> OutgoingMessage:
        fields = {"topic": "t", "body": b"body", "born_timestamp": START, **fields}
        return OutgoingMessage(message_id=message_id, **fields)

    def send(self, *message_ids: str, **fields: Any) -> SendOutcome:
        """Send messages one by one; answers the last outcome."""
        for message_id in message_ids:
            (outcome,) = self.broker.send((self.message(message_id, **fields),), now=self.now)
        return outcome

    def request(
        self, batch_size: int = 32, *, client: str = "c", group: str = "g", **fields: Any
    ) -> ReceiveRequest:
        tag = fields.pop("tag", "*")
        fields = {"topic": "t", "invisible": 10.0, "polling": 20.0, "remaining_deadline": 30.0, **fields}
        if fields.get("auto_renew"):
            fields["invisible"] = None
        return ReceiveRequest(
            client_id=client, group=group, batch_size=batch_size, filter=FilterExpression(tag), **fields
        )

    def ask(self, batch_size: int = 32, **fields: Any) -> Received | Parked:
        return self.broker.receive(self.request(batch_size, **fields), now=self.now)

    def receive(self, batch_size: int = 32, **fields: Any) -> tuple[Delivery, ...]:
        """Receive what is there now, without waiting."""
        answer = self.ask(batch_size, **fields)
        if isinstance(answer, Parked):
            self.broker.end_poll(answer.poll_id, now=self.now)
            answer = self.answers()[answer.poll_id]
        assert isinstance(answer, Received)
        return answer.deliveries

    def ids(self, batch_size: int = 32, **fields: Any) -> list[str]:
        return [delivery.message.content.message_id for delivery in self.receive(batch_size, **fields)]

    def one(self, **fields: Any) -> Delivery:
        """Receive the one message that must be there."""
        (delivery,) = self.receive(1, **fields)
        return delivery

    def park(self, batch_size: int = 32, **fields: Any) -> int:
        """Wait for messages; there must be none now."""
        answer = self.ask(batch_size, **fields)
        assert isinstance(answer, Parked), answer
        return answer.poll_id

    def answers(self) -> dict[int, Received]:
        """Take what parked receives were answered."""
        return {
            output.poll_id: output.result
            for output in self.broker.take_outputs()
            if isinstance(output, PollAnswered) and isinstance(output.result, Received)
        }

    def ack_all(self, *handles: str, client: str = "c", group: str = "g", topic: str = "t") -> AckResult:
        entries = tuple(AckEntry("m", handle) for handle in handles)
        return self.broker.ack(AckRequest(client, group, topic, entries), now=self.now)

    def ack(self, delivery: Delivery | str, **fields: Any) -> Code:
        handle = delivery if isinstance(delivery, str) else delivery.receipt_handle
        message_id = "m" if isinstance(delivery, str) else delivery.message.content.message_id
        fields = {"client": "c", "group": "g", "topic": "t", **fields}
        request = AckRequest(
            fields["client"], fields["group"], fields["topic"], (AckEntry(message_id, handle),)
        )
        return self.broker.ack(request, now=self.now).code

    def change(self, delivery: Delivery | str, seconds: float | None, **fields: Any) -> str:
        handle = delivery if isinstance(delivery, str) else delivery.receipt_handle
        fields = {"client_id": "c", "group": "g", "topic": "t", **fields}
        request = ChangeRequest(receipt_handle=handle, invisible=seconds, **fields)
        return self.broker.change_invisible(request, now=self.now)

    def forward(self, delivery: Delivery | str, **fields: Any) -> None:
        handle = delivery if isinstance(delivery, str) else delivery.receipt_handle
        fields = {"client_id": "c", "group": "g", "topic": "t", **fields}
        self.broker.forward_to_dead_letter_queue(
            ForwardRequest(receipt_handle=handle, **fields), now=self.now
        )

    def wait(self, seconds: float, *, heartbeats: bool = True) -> None:
        """Let time pass; clients keep sending heartbeats by default."""
        end = self.now + seconds
        while heartbeats and end - self.now > 60.0:
            self.now += 60.0
            for client in self.broker.clients():
                self.broker.keep_alive(client.client_id, now=self.now)
        self.now = end
        self.broker.advance(end)
        if heartbeats:
            for client in self.broker.clients():
                self.broker.keep_alive(client.client_id, now=end)

    def wait_for_return(self) -> None:
        """Let 10 s leases end and their messages become visible, and not more."""
        self.wait(10.0 + self.profile.revive_latency)

    def seen(self, *kinds: type) -> list[Event]:
        """List the events of some kinds since the start."""
        self.events.extend(self.broker.take_events())
        return [event for event in self.events if isinstance(event, kinds)]


MakeDesk = Callable[..., Desk]


@pytest.fixture(params=[DOCUMENTED, APACHE_5_5], ids=lambda profile: profile.name)
def profile(request: pytest.FixtureRequest) -> Profile:
    """Each shipped profile in turn."""
    value: Profile = request.param
    return value


@pytest.fixture
def make_desk(profile: Profile) -> MakeDesk:
    """Build desks with the profile in turn, some of its fields replaced."""

    def make(*, fields: dict[str, Any] | None = None, **options: Any) -> Desk:
        return Desk(replace(profile, **(fields or {})), **options)

    return make


@pytest.fixture
def desk(profile: Profile) -> Desk:
    """A desk with a normal topic of one queue and a normal group, in each profile."""
    return Desk(profile)


@pytest.fixture
def make_documented() -> MakeDesk:
    """Build desks with the documented profile, some of its fields replaced."""

    def make(*, fields: dict[str, Any] | None = None, **options: Any) -> Desk:
        return Desk(replace(DOCUMENTED, **(fields or {})), **options)

    return make


@pytest.fixture
def make_apache() -> MakeDesk:
    """Build desks with the profile of a real server, some of its fields replaced."""

    def make(*, fields: dict[str, Any] | None = None, **options: Any) -> Desk:
        return Desk(replace(APACHE_5_5, **(fields or {})), **options)

    return make


@pytest.fixture
def documented(make_documented: MakeDesk) -> Desk:
    """A desk with the documented profile."""
    return make_documented()


@pytest.fixture
def apache(make_apache: MakeDesk) -> Desk:
    """A desk with the profile of a real server."""
    return make_apache()


@pytest.fixture
def behind_a_separate_proxy() -> Desk:
    """A desk with the profile of a real server behind a separate proxy."""
    return Desk(APACHE_5_5_CLUSTER)


@pytest.fixture
def ordered(make_desk: MakeDesk) -> Desk:
    """An ordered group on a FIFO topic of one queue, in each profile."""
    return make_desk(ordered=True, type=TopicType.FIFO)


@pytest.fixture
def lanes(make_documented: MakeDesk) -> Desk:
    """The same where the message group is the grain."""
    return make_documented(ordered=True, type=TopicType.FIFO)


@pytest.fixture
def queues(make_apache: MakeDesk) -> Desk:
    """The same where the queue is the grain."""
    return make_apache(ordered=True, type=TopicType.FIFO)


def run_machine(
    machine: type[RuleBasedStateMachine],
    profile: Profile,
    core: Callable[..., Broker],
    examples: int,
    phases: list[Phase],
) -> None:
    run_state_machine_as_test(
        type("Machine", (machine,), {"profile": profile, "core": core}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def check_promises() -> Callable[[type[RuleBasedStateMachine], Profile, int], None]:
    """Run a state machine on an honest broker, and raise the shortest history that breaks a promise."""

    def check(machine: type[RuleBasedStateMachine], profile: Profile, examples: int) -> None:
        run_machine(machine, profile, Broker, examples, [Phase.generate, Phase.shrink])

    return check


@pytest.fixture
def is_noticed() -> Callable[[type[RuleBasedStateMachine], Profile, Callable[..., Broker]], bool]:
    """Whether a state machine objects to a broken broker."""

    def objects(
        machine: type[RuleBasedStateMachine], profile: Profile, broken: Callable[..., Broker]
    ) -> bool:
        try:
            run_machine(machine, profile, broken, LONGEST_SEARCH, [Phase.generate])
        except AssertionError:
            return True
        return False

    return objects
