"""How long a receive loop tries again after errors, and when it gives up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random

import pytest
from aiorocketmq._core.settings import Declaration
from aiorocketmq._session import retrying
from aiorocketmq._session.retrying import Tolerance
from aiorocketmq._session.session import Session
from aiorocketmq._transport.network import Environment, LoopClock
from aiorocketmq.config import Timeouts
from aiorocketmq.errors import (
    BusyError,
    ClosedError,
    GroupNotFoundError,
    IllegalFilterError,
    NotSupportedError,
    PermissionDeniedError,
    RocketMQError,
    ServerError,
    TopicNotFoundError,
    TypeMismatchError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.hooks import Role


class Least(Random):
    """Chance that gives no jitter."""

    def random(self) -> float:
        return 0.0


class Still(LoopClock):
    """A clock that only the test moves."""

    now = 100.0

    def time(self) -> float:
        return self.now


class Loop:
    """One receive loop, and its time."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.session = session
        self.watch = session.watch("receiving")
        self.tolerance = Tolerance(session, self.watch)
        monkeypatch.setattr(retrying, "loop_time", lambda: self.now)

    def fails(self, error: RocketMQError, *, after: float = 0.0) -> float | None:
        """Return the pause after an error that comes so many seconds after the last one."""
        self.now += after
        return self.tolerance.delay_after(error)


@pytest.fixture
async def loop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Loop]:
    session = Session(
        "localhost:1",
        Declaration(client_type="PUSH_CONSUMER", group="g"),
        role=Role.PUSH,
        options={
            "environment": Environment(random=Least()),
            "timeouts": Timeouts(start=10.0, not_found_grace=30.0),
        },
    )
    session.started_at = 100.0
    yield Loop(session, monkeypatch)
    await session._tasks.end()


GONE, BUSY, MISSING = UnreachableError("gone"), BusyError("later"), TopicNotFoundError("none")


async def test_pauses_grow_with_failures_in_a_row_and_polls_are_short_meanwhile(loop: Loop) -> None:
    tolerance = loop.tolerance
    assert [tolerance.poll_length(usual) for usual in (20.0, 3.0)] == [20.0, 3.0]
    assert [loop.fails(GONE) for _ in range(6)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    assert [tolerance.poll_length(usual) for usual in (20.0, 3.0)] == [5.0, 3.0]
    assert loop.session.last_success is None
    tolerance.worked()
    assert loop.session.last_success is not None
    assert tolerance.poll_length(20.0) == 20.0
    assert [loop.fails(error) for error in (BUSY, BUSY, GONE)] == pytest.approx([0.02, 0.04, 0.8])


async def test_only_empty_answers_at_once_and_in_a_row_cause_pauses(loop: Loop) -> None:
    """A wait that ended because the clock of a test was advanced was a wait."""
    tolerance, clock = loop.tolerance, Still()
    loop.session.network.clock = clock

    def answered(*, after: float = 0.0, brings: bool = False) -> float:
        tolerance.poll_length(20.0)
        clock.now += after
        return tolerance.pause_after(brings=brings)

    assert [answered() for _ in range(9)] == [*[0.0] * 8, 0.01]
    assert answered(brings=True) == 0.0
    assert [answered() for _ in range(9)][-1] == 0.01
    assert answered(after=0.25) == 0.0
    assert [answered(after=0.125) for _ in range(9)][-1] == 0.01


@pytest.mark.parametrize("kind", [IllegalFilterError, PermissionDeniedError, TypeMismatchError])
@pytest.mark.parametrize("has_worked", [True, False])
async def test_a_refusal_is_final(loop: Loop, kind: type[RocketMQError], has_worked: bool) -> None:
    if has_worked:
        loop.tolerance.worked()
    assert loop.fails(kind("no")) is None
    assert loop.watch.failures == 0


@pytest.mark.parametrize("kind", [TopicNotFoundError, GroupNotFoundError])
async def test_what_was_never_found_is_final_after_the_time_to_start(
    loop: Loop, kind: type[RocketMQError]
) -> None:
    assert loop.fails(kind("none"), after=9.0) is not None
    assert loop.fails(kind("none"), after=0.99) is not None
    assert loop.fails(kind("none"), after=0.01) is None


@pytest.mark.parametrize("kind", [TopicNotFoundError, GroupNotFoundError, NotSupportedError, UsageError])
async def test_what_has_vanished_is_final_after_the_grace(loop: Loop, kind: type[RocketMQError]) -> None:
    loop.tolerance.worked()
    assert loop.fails(kind("none"), after=500.0) is not None
    assert loop.fails(kind("none"), after=29.9) is not None
    assert loop.fails(kind("none"), after=0.1) is None


async def test_the_grace_begins_again_after_a_success_and_after_another_error(loop: Loop) -> None:
    loop.tolerance.worked()
    assert loop.fails(MISSING) is not None
    loop.tolerance.worked()
    assert loop.fails(MISSING, after=31.0) is not None
    assert loop.fails(GONE, after=29.0) is not None
    assert loop.fails(MISSING, after=31.0) is not None
    assert loop.fails(MISSING, after=29.0) is not None
    assert loop.fails(MISSING, after=1.0) is None


@pytest.mark.parametrize("error", [UsageError("wrong"), NotSupportedError("old"), ClosedError("closed")])
async def test_what_can_only_help_a_loop_that_has_worked_is_final_before(
    loop: Loop, error: RocketMQError
) -> None:
    assert loop.fails(error) is None


async def test_another_loop_that_has_worked_does_not_make_wrong_use_right(loop: Loop) -> None:
    loop.session.note_success()
    assert loop.fails(NotSupportedError("old")) is not None
    assert loop.fails(UsageError("wrong")) is None


async def test_a_server_error_is_never_final(loop: Loop) -> None:
    assert all(loop.fails(ServerError("broken"), after=1000.0) is not None for _ in range(20))
