"""Random transactions, delays and recalls against their promises, in all profiles.

Like the machine of consumers it knows nothing of how the broker works: it remembers what it asked for, reads the
events, and holds them against sentences such as "what was rolled back is never stored".
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.checks import Checks
from aiorocketmq_fake.core.records.half_messages import HalfMessage
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, MessageType, Refusal, Resolution, TopicType
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    CommandForClient,
    EndTransactionRequest,
    OutgoingMessage,
    RecoverOrphanedTransaction,
    SendOutcome,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

PRODUCERS = ("p", "q")
picks = st.integers(0, 1_000)
resolutions = st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK, Resolution.UNSPECIFIED])
LONG = 4.2 * 3600.0


@dataclass
class Promise:
    """One half or delayed message, and what was seen of it."""

    message_id: str
    sent_at: float
    recovery: float | None = None
    due: float | None = None
    handle: str = ""
    commits: int = 0
    """Decisions to commit that were answered OK, the repeated ones included."""
    ended: Resolution | None = None
    given_up: bool = False
    recalled: bool = False
    checks: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)


class ProducerMachine(RuleBasedStateMachine):
    """Commands and passing time."""

    profile: Profile
    core: Callable[..., Broker] = Broker

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.halves: dict[str, Promise] = {}
        self.delayed: dict[str, Promise] = {}
        self.online: set[str] = set()
        """Producers with settings and a stream."""
        self.asked: list[str] = []
        """Transactions that some producer was asked about."""

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.broker = self.core(self.profile, now=self.now, rng=random.Random(seed))
        for name, kind in (("tx", TopicType.TRANSACTION), ("delay", TopicType.DELAY)):
            self.broker.create_topic(TopicConfig(name, kind, 2, 2), now=self.now)

    # Helpers

    def command(self, act: Callable[[], Any]) -> Any:
        """Carry a command out; a refusal must have changed nothing."""
        self.broker.advance(self.now)
        before = self.state()
        try:
            answer, refused = act(), False
        except Refusal:
            answer, refused = None, True
        if refused:
            assert self.state() == before
        self.absorb()
        return answer

    def state(self) -> tuple[Any, ...]:
        broker = self.broker
        return (
            broker.clients(),
            broker.half_messages(),
            broker.totals(),
            [broker.messages(topic) for topic in ("tx", "delay")],
        )

    def absorb(self) -> None:
        for event in self.broker.take_events():
            self.check(event)
        for output in self.broker.take_outputs():
            assert isinstance(output, CommandForClient)
            assert isinstance(output.command, RecoverOrphanedTransaction)
            assert output.client_id in self.online, "asked a producer that is not there"
            promise = self.halves[output.command.transaction_id]
            assert output.command.message.content.message_id == promise.message_id
            self.asked.append(promise.message_id)

    def check(self, event: events.Event) -> None:
        match event:
            case events.Stored(message=message):
                self.check_stored(message.content.message_id, event.at)
            case events.TransactionEnded(resolution=resolution):
                promise = self.halves[event.transaction_id]
                assert promise.ended is None, "ended twice"
                if resolution is not Resolution.UNSPECIFIED:
                    promise.ended = resolution
                promise.commits += resolution is Resolution.COMMIT
            case events.DecidedAgain():
                assert self.profile.decisions_repeat
                self.halves[event.transaction_id].commits += 1
            case events.TransactionChecked():
                self.check_question(self.halves[event.transaction_id], event)
            case events.TransactionGivenUp():
                promise = self.halves[event.transaction_id]
                self.check_open(promise)
                assert event.checks == len(promise.checks)
                promise.given_up = True
            case events.Recalled(effective=True):
                promise = self.delayed[event.message_id]
                assert not promise.stored
                assert not promise.recalled
                promise.recalled = True
            case _:
                pass

    def check_open(self, promise: Promise) -> None:
        assert promise.ended is None, "already decided"
        assert not promise.given_up, "already given up"

    def check_stored(self, message_id: str, at: float) -> None:
        promise = self.halves.get(message_id) or self.delayed[message_id]
        promise.stored.append(at)
        if message_id in self.halves:
            assert len(promise.stored) <= promise.commits, "stored without a commit"
        else:
            assert len(promise.stored) == 1, "delivered twice"
            assert not promise.recalled, "delivered after it was recalled"
            assert at >= (promise.due or 0.0) - 0.001, "delivered before its time"

    def check_question(self, promise: Promise, event: events.TransactionChecked) -> None:
        self.check_open(promise)
        immunity = self.profile.check_immunity if promise.recovery is None else promise.recovery
        if self.profile.recovery_in_whole_seconds:
            immunity = float(int(immunity))
        assert event.at >= promise.sent_at + immunity - 0.002, "asked during the immunity"
        if promise.checks:
            assert event.at - promise.checks[-1] >= self.profile.check_interval - 0.002, "asked too soon"
        promise.checks.append(event.at)
        assert event.check == len(promise.checks)
        limit = self.profile.check_limit
        assert limit is None or event.check <= limit, "asked more often than ever"

    # Producers

    @rule(client=st.sampled_from(PRODUCERS))
    def join(self, client: str) -> None:
        settings = ClientSettings(ClientType.PRODUCER, topics=("tx",))
        self.command(lambda: self.broker.settings(client, settings, now=self.now))
        self.online.add(client)

    @rule(client=st.sampled_from(PRODUCERS))
    def lose_stream(self, client: str) -> None:
        self.broker.lose_stream(client, now=self.now)
        self.absorb()
        self.online.discard(client)

    @rule(client=st.sampled_from(PRODUCERS))
    def leave(self, client: str) -> None:
        self.command(lambda: self.broker.terminate(client, "", now=self.now))
        self.online.discard(client)

    @rule()
    def restart(self) -> None:
        self.broker.restart(now=self.now)
        self.online.clear()
        self.absorb()

    # Transactions

    @rule(recovery=st.sampled_from([None, None, 0.5, 20.0, 100.0, 4_000.0]))
    def prepare(self, recovery: float | None) -> None:
        message_id = f"h{len(self.halves)}"
        message = OutgoingMessage(
            "tx",
            b"x",
            message_id,
            message_type=MessageType.TRANSACTION,
            recovery_duration=recovery,
            born_timestamp=self.now,
        )
        promise = self.halves[message_id] = Promise(message_id, self.now, recovery)
        if self.command(lambda: self.broker.send((message,), now=self.now)) is None:
            assert recovery == 4_000.0
            del self.halves[promise.message_id]

    @precondition(lambda self: self.halves)
    @rule(
        number=picks,
        resolution=resolutions,
        from_check=st.booleans(),
        topic=st.sampled_from(["tx", "tx", "delay"]),
    )
    def end(self, number: int, resolution: Resolution, from_check: bool, topic: str) -> None:
        ids = list(self.asked if from_check and self.asked else self.halves)
        request = EndTransactionRequest("p", topic, ids[number % len(ids)], resolution, from_check=from_check)
        self.command(lambda: self.broker.end_transaction(request, now=self.now))

    @rule(transaction_id=st.sampled_from(["", " ", "nobody"]))
    def end_nonsense(self, transaction_id: str) -> None:
        request = EndTransactionRequest("p", "tx", transaction_id, Resolution.COMMIT)
        before = self.broker.totals()
        self.command(lambda: self.broker.end_transaction(request, now=self.now))
        assert self.broker.totals().half == before.half

    # Delays

    @rule(ahead=st.floats(-5.0, 200.0))
    def send_delayed(self, ahead: float) -> None:
        message_id = f"d{len(self.delayed)}"
        due = self.now + ahead
        message = OutgoingMessage("delay", b"x", message_id, delivery_timestamp=due)
        promise = self.delayed[message_id] = Promise(message_id, self.now, due=due)
        (outcome,) = self.command(lambda: self.broker.send((message,), now=self.now))
        assert isinstance(outcome, SendOutcome)
        promise.handle = outcome.recall_handle
        assert bool(promise.handle) == (not promise.stored), "a handle says that there is something to recall"

    @precondition(lambda self: self.delayed)
    @rule(number=picks, topic=st.sampled_from(["delay", "delay", "tx"]), cut=st.integers(0, 3))
    def recall(self, number: int, topic: str, cut: int) -> None:
        promise = list(self.delayed.values())[number % len(self.delayed)]
        handle = promise.handle[cut:] if cut else promise.handle
        answer = self.command(lambda: self.broker.recall(topic, handle, now=self.now))
        if answer is not None and not cut:
            assert answer == promise.message_id
            assert promise.recalled, "OK, and nothing happened"

    # Time

    @rule(seconds=st.sampled_from([0.0, 0.001, 1.0, 7.0, 29.0, 31.0, 200.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.broker.advance(self.now)
        self.absorb()
        self.online &= {client.client_id for client in self.broker.clients()}

    @rule()
    def pass_time_to_the_next_deadline(self) -> None:
        due = self.broker.next_deadline()
        if due is not None:
            self.now = max(self.now, due)
            self.broker.advance(self.now)
            self.absorb()
            self.online &= {client.client_id for client in self.broker.clients()}

    # Promises

    @invariant()
    def nothing_is_forgotten(self) -> None:
        if not hasattr(self, "broker"):
            return
        open_ = {
            one for one, promise in self.halves.items() if promise.ended is None and not promise.given_up
        }
        assert {half.transaction_id for half in self.broker.half_messages()} == open_
        waiting = [one for one in self.delayed.values() if not one.stored and not one.recalled]
        assert self.broker.totals().delayed == len(waiting)

    @invariant()
    def the_next_deadline_is_not_in_the_past(self) -> None:
        if hasattr(self, "broker"):
            due = self.broker.next_deadline()
            assert due is None or due >= self.broker.now

    def teardown(self) -> None:
        """In the end every promise is kept: nothing waits for ever."""
        if not hasattr(self, "broker"):
            return
        self.now += LONG
        self.broker.advance(self.now)
        self.online = set(PRODUCERS)
        self.absorb()
        for promise in self.halves.values():
            assert promise.ended is not None or promise.given_up, "a transaction is open for ever"
            assert len(promise.stored) == promise.commits, "a commit was lost"
        for promise in self.delayed.values():
            assert len(promise.stored) + promise.recalled == 1, "a delayed message was lost"


class Obstinate(Checks):
    """Checks ended transactions."""

    def leave(self, half: HalfMessage) -> None:
        pass

    def _on_due(self, half: HalfMessage) -> None:
        self._check(half)
        self._state.timers.set(half, self._state.now + 3_600_000, self._on_due)


class Silent(Checks):
    """Never asks and never gives up."""

    def watch(self, half: HalfMessage) -> None:
        half.immune_until = self._state.now


class Hasty(Checks):
    """Asks at once."""

    def _immunity_end(self, half: HalfMessage) -> int:
        return 0

    def _set(self, half: HalfMessage, earliest: int) -> None:
        self._state.timers.set(half, self._state.now + 20_000, self._on_due)


PROFILES = [DOCUMENTED, APACHE_5_5, APACHE_5_5_CLUSTER]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_the_promises_hold_whatever_happens(check_promises: Callable[..., None], profile: Profile) -> None:
    check_promises(ProducerMachine, profile, 80)


@pytest.mark.parametrize("profile", PROFILES[:2], ids=lambda profile: profile.name)
@pytest.mark.parametrize("checks", [Obstinate, Silent, Hasty], ids=["asks on", "never asks", "asks at once"])
def test_a_broken_promise_is_detected(
    is_noticed: Callable[..., bool], profile: Profile, checks: type[Checks]
) -> None:
    assert is_noticed(ProducerMachine, profile, partial(Broker, parts=Parts(checks=checks)))
