"""One message's chain of handles (live-lessons.md, 1 to 3)."""

import pytest
from aiorocketmq._core.lease import Lease, LeaseState, Outcome, Step, StepNotAllowedError, corrected_handle
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule


def lease() -> Lease:
    return Lease("h0", ends_at=30.0)


def changed(handle: str = "h1") -> Lease:
    one = lease()
    one.begin(Step.CHANGE)
    one.end(Outcome.OK, handle=handle, ends_at=60.0)
    return one


def test_a_change_replaces_the_handle_and_moves_the_end() -> None:
    one = changed()
    assert (one.handle, one.ends_at, one.state) == ("h1", 60.0, LeaseState.HELD)
    assert one.begin(Step.ACK) == "h1"


def test_an_empty_handle_in_an_answer_keeps_the_old_one() -> None:
    assert changed(handle="").handle == "h0"


def test_two_steps_never_run_at_once() -> None:
    one = lease()
    one.begin(Step.CHANGE)
    for step in Step:
        with pytest.raises(StepNotAllowedError, match="in flight"):
            one.begin(step)


def test_a_lease_whose_end_was_refused_is_still_at_its_end_after_a_change() -> None:
    """It is not renewed any more, although its user may extend it."""
    one = lease()
    one.begin(Step.ACK)
    one.end(Outcome.REFUSED)
    one.begin(Step.CHANGE)
    one.end(Outcome.OK, handle="h1", ends_at=60.0)
    assert (one.state, one.is_ending) == (LeaseState.HELD, True)


def test_after_an_ack_was_sent_nothing_may_revive_the_message() -> None:
    one = lease()
    one.begin(Step.ACK)
    one.end(Outcome.UNKNOWN)
    with pytest.raises(StepNotAllowedError):
        one.begin(Step.CHANGE)
    assert one.is_open
    assert one.begin(Step.ACK) == "h0"
    one.end(Outcome.OK)
    assert one.state is LeaseState.SETTLED
    assert not one.is_open


def test_a_refused_step_leaves_the_lease_as_it_was() -> None:
    for step in Step:
        one = lease()
        one.begin(step)
        one.end(Outcome.REFUSED)
        assert (one.state, one.handle, one.changed) == (LeaseState.HELD, "h0", False)


def test_after_a_change_without_answer_there_is_no_second_change_that_could_copy_the_message() -> None:
    one = lease()
    one.begin(Step.CHANGE)
    one.end(Outcome.UNKNOWN)
    with pytest.raises(StepNotAllowedError, match="duplicate"):
        one.begin(Step.CHANGE)
    assert one.begin(Step.ACK) == "h0"


def test_a_forward_uses_the_handle_as_first_received() -> None:
    one = changed()
    assert one.begin(Step.FORWARD) == "h0"


def test_after_a_forward_only_the_newest_handle_may_still_be_acked() -> None:
    one = changed()
    one.begin(Step.FORWARD)
    one.end(Outcome.OK)
    for _ in range(2):
        assert not one.is_open
        for step in (Step.CHANGE, Step.FORWARD):
            with pytest.raises(StepNotAllowedError):
                one.begin(step)
        assert one.begin(Step.ACK) == "h1"
        one.end(Outcome.UNKNOWN)


def test_a_forward_without_answer_may_only_be_repeated() -> None:
    one = lease()
    one.begin(Step.FORWARD)
    one.end(Outcome.UNKNOWN)
    for step in (Step.CHANGE, Step.ACK):
        with pytest.raises(StepNotAllowedError):
            one.begin(step)
    assert one.begin(Step.FORWARD) == "h0"


@pytest.mark.parametrize("step", Step)
def test_a_lease_that_the_server_calls_over_allows_nothing_more_and_says_so(step: Step) -> None:
    one = lease()
    one.begin(step)
    one.end(Outcome.LOST)
    assert not one.is_open
    for other in Step:
        with pytest.raises(StepNotAllowedError) as error:
            one.begin(other)
        assert error.value.lost


def test_a_message_that_was_given_back_is_not_touched_again() -> None:
    one = changed()
    one.release()
    assert not one.is_open
    for step in Step:
        with pytest.raises(StepNotAllowedError) as error:
            one.begin(step)
        assert not error.value.lost


class AnyUseOfALease(RuleBasedStateMachine):
    """Whatever is tried, the calls that leave form a chain that no server punishes."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = Lease("h0", ends_at=30.0)
        self.spent: set[str] = set()
        self.ack_sent = False
        self.first_refused = False
        self.step: Step | None = None

    @precondition(lambda self: self.step is None)
    @rule(step=st.sampled_from(Step))
    def begin(self, step: Step) -> None:
        try:
            handle = self.lease.begin(step)
        except StepNotAllowedError:
            return
        self.step = step
        if step is Step.CHANGE:
            assert not self.ack_sent, "a change after an ack revives the message"
            assert handle not in self.spent, "a second change with one handle copies the message"
        if step is Step.FORWARD:
            # Servers that would move another message for a changed handle never refuse the first one.
            expected = self.lease.handle if self.first_refused else "h0"
            assert handle == expected, "a forward with a changed handle moves another message"
        if step is Step.ACK:
            assert handle == self.lease.handle

    @precondition(lambda self: self.step is not None)
    @rule(outcome=st.sampled_from(Outcome))
    def end(self, outcome: Outcome) -> None:
        step, self.step = self.step, None
        used = self.lease.handle
        handle = f"h{len(self.spent) + 1}"
        self.lease.end(outcome, handle=handle, ends_at=60.0)
        if step is Step.CHANGE and outcome in (Outcome.OK, Outcome.UNKNOWN):
            self.spent.add(used)
        if step is Step.FORWARD and outcome is Outcome.LOST and self.spent:
            self.first_refused = True
        if step is Step.ACK and outcome in (Outcome.OK, Outcome.UNKNOWN):
            self.ack_sent = True

    @invariant()
    def a_finished_lease_is_not_open(self) -> None:
        if self.lease.state in (LeaseState.SETTLED, LeaseState.LOST, LeaseState.FORWARDED):
            assert not self.lease.is_open


TestAnyUseOfALease = AnyUseOfALease.TestCase


def test_a_forward_whose_first_handle_a_change_has_spent_takes_the_newest() -> None:
    """The published contract replaces handles; Apache's servers take the first one for ever."""
    lease = Lease("first", ends_at=30.0)
    lease.begin(Step.CHANGE)
    lease.end(Outcome.OK, handle="second", ends_at=60.0)

    assert lease.begin(Step.FORWARD) == "first"
    lease.end(Outcome.LOST)
    assert lease.is_open
    assert lease.begin(Step.FORWARD) == "second"
    lease.end(Outcome.OK)
    assert lease.state is LeaseState.SETTLED


def test_a_forward_refused_with_both_handles_has_lost_its_lease() -> None:
    lease = Lease("first", ends_at=30.0)
    lease.begin(Step.CHANGE)
    lease.end(Outcome.OK, handle="second", ends_at=60.0)
    for _ in range(2):
        lease.begin(Step.FORWARD)
        lease.end(Outcome.LOST)

    assert lease.state is LeaseState.LOST


@pytest.mark.parametrize(
    ("answered", "used"),
    [
        ("0 1795 10000 5 0 broker-a 0 2 0 4400", "2 1795 10000 5 0 broker-a 0 2 0 4400"),
        ("2 1795 10000 5 0 broker-a 0 2 0 4400", "2 1795 10000 5 0 broker-a 0 2 0 4400"),
        # Of an ordered group, of a separate proxy, and of other servers.
        ("0 1795 10184 999 0 broker-a 0 2 0 3136", "0 1795 10184 999 0 broker-a 0 2 0 3136"),
        ("0 1795 10000 5 0 broker-a 0 2 4400", "0 1795 10000 5 0 broker-a 0 2 4400"),
        ("0 1795 10000 5 0 broker-a 0 x 0 4400", "0 1795 10000 5 0 broker-a 0 x 0 4400"),
        ("opaque", "opaque"),
        ("", ""),
    ],
)
def test_a_changed_handle_names_its_message(answered: str, used: str) -> None:
    assert corrected_handle(answered) == used
