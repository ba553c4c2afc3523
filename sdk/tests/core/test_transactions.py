"""States of transactions, and the answers to checks (broker-semantics.md, 9)."""

import pytest
from aiorocketmq._core.transactions import QUIET, Answer, Decisions, Resolution
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule


@pytest.fixture
def decisions() -> Decisions:
    return Decisions()


def test_about_what_nobody_here_knows_the_application_is_asked(decisions: Decisions) -> None:
    assert decisions.on_check("m", now=0.0) is Answer.ASK


def test_while_the_block_runs_no_check_is_answered(decisions: Decisions) -> None:
    decisions.opened("m")
    assert decisions.on_check("m", now=1e6) is Answer.SILENCE


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_after_an_end_checks_are_silent_for_a_while_and_then_answered_the_same_once_in_a_while(
    decisions: Decisions, resolution: Resolution
) -> None:
    decisions.opened("m")
    decisions.decided("m", resolution, now=5.0)
    answers = [
        decisions.on_check("m", now=now) for now in (5.0, 5.0 + QUIET - 0.001, 5.0 + QUIET, 6.0 + QUIET)
    ]
    assert answers == [Answer.SILENCE, Answer.SILENCE, Answer(resolution.value), Answer.SILENCE]


def test_a_block_that_never_ran_is_rolled_back_at_the_first_check(decisions: Decisions) -> None:
    decisions.opened("m")
    decisions.decided("m", Resolution.ROLLBACK, now=0.0, quiet=0.0)
    assert decisions.on_check("m", now=0.0) is Answer.ROLLBACK


def test_what_was_left_unknown_is_asked_for(decisions: Decisions) -> None:
    decisions.opened("m")
    decisions.left("m")
    assert decisions.on_check("m", now=0.0) is Answer.ASK
    assert len(decisions) == 0


def test_only_the_newest_decisions_are_kept() -> None:
    decisions = Decisions(kept=10)
    for number in range(1000):
        decisions.opened(f"{number}")
        decisions.decided(f"{number}", Resolution.COMMIT, now=0.0)
    assert len(decisions) == 10
    assert decisions.on_check("989", now=QUIET) is Answer.ASK
    assert decisions.on_check("990", now=QUIET) is Answer.COMMIT


IDS = st.sampled_from(["a", "b", "c"])
FINAL = st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK])


class Life(RuleBasedStateMachine):
    """Whatever happens in whatever order, a rolled-back transaction is never committed, or the reverse."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.decisions = Decisions()
        self.running: set[str] = set()
        self.told: dict[str, set[Resolution]] = {}

    @rule(seconds=st.sampled_from([0.5, QUIET, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(message_id=IDS)
    def open(self, message_id: str) -> None:
        if message_id not in self.told:
            self.decisions.opened(message_id)
            self.running.add(message_id)

    @rule(message_id=IDS)
    def leave(self, message_id: str) -> None:
        self.decisions.left(message_id)
        self.running.discard(message_id)

    @rule(message_id=IDS, resolution=FINAL)
    def decide(self, message_id: str, resolution: Resolution) -> None:
        try:
            self.decisions.decided(message_id, resolution, now=self.now)
        except ValueError:
            assert self.told[message_id] == {Resolution.COMMIT, Resolution.ROLLBACK} - {resolution}
            return
        self.running.discard(message_id)
        self.told.setdefault(message_id, set()).add(resolution)

    @rule(message_id=IDS)
    def check(self, message_id: str) -> None:
        answer = self.decisions.on_check(message_id, now=self.now)
        if message_id in self.running:
            assert answer is Answer.SILENCE
        elif answer is Answer.ASK:
            assert message_id not in self.told
        elif answer is not Answer.SILENCE:
            self.told[message_id].add(Resolution(answer.value))

    @invariant()
    def nobody_was_told_two_things(self) -> None:
        assert all(len(resolutions) == 1 for resolutions in self.told.values())


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
