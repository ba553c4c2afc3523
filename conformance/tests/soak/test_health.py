"""A degraded phase is allowed if it was logged and ends in time; nothing else is."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from tools.soak.health import LONGEST, HealthWatch, Watched, listed, listening

logger = logging.getLogger("aiorocketmq.push_consumer")


@dataclass
class Health:
    degraded: dict[str, str] = field(default_factory=dict)


@dataclass
class Client:
    """Has the one method that the watch calls."""

    state: Health = field(default_factory=Health)

    def health(self) -> Health:
        return self.state


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> HealthWatch:
    return HealthWatch(clock)


def test_a_logged_phase_that_ends_in_time_is_allowed(watch: HealthWatch, clock: Clock) -> None:
    client = Client()
    with listening(watch):
        logger.warning("poll of %s failed: %s", "q", "garbled")
        client.state.degraded = {"receive": "garbled"}
        watch.look({"push": client})
        clock.now = LONGEST
        client.state.degraded = {}
        watch.look({"push": client})
    (phase,) = watch.phases
    assert (phase.client, phase.loop, phase.seconds) == ("push", "receive", LONGEST)
    assert phase.is_allowed
    assert watch.logged == {"WARNING aiorocketmq.push_consumer: poll of %s failed: %s": 1}


def test_a_log_counts_though_a_busy_machine_puts_off_the_next_look(watch: HealthWatch, clock: Clock) -> None:
    client = Client()
    with listening(watch):
        clock.now = 0.5
        watch.look({"push": client})
        clock.now = 1.0
        logger.warning("poll of %s failed: %s", "q", "garbled")
        client.state.degraded = {"receive": "garbled"}
        clock.now = 5.0
        watch.look({"push": client})
        client.state.degraded = {}
        watch.look({"push": client})
    (phase,) = watch.phases
    assert phase.is_logged


def test_a_log_from_well_before_the_last_look_does_not_count(watch: HealthWatch, clock: Clock) -> None:
    client = Client()
    with listening(watch):
        clock.now = 0.5
        logger.warning("poll of %s failed: %s", "q", "garbled")
        for clock.now in (1.0, 4.0):
            watch.look({"push": client})
        client.state.degraded = {"receive": "garbled"}
        clock.now = 4.5
        watch.look({"push": client})
        client.state.degraded = {}
        watch.look({"push": client})
    (phase,) = watch.phases
    assert not phase.is_logged


def test_a_phase_without_a_log_is_not_allowed(watch: HealthWatch, clock: Clock) -> None:
    with listening(watch):
        logger.warning("another matter")
        watch.look({"push": Client(Health({"receive": "garbled"}))})
        clock.now = 1.0
        watch.look({"push": Client()})
    assert [str(phase) for phase in watch.phases] == ["push, receive: garbled (lasted 1.0 s, not logged)"]
    assert not watch.phases[0].is_allowed


def test_a_phase_longer_than_allowed_or_without_end_is_not_allowed(watch: HealthWatch, clock: Clock) -> None:
    client = Client(Health({"receive": "garbled", "heartbeat": "garbled"}))
    with listening(watch):
        logger.warning("garbled")
        watch.look({"push": client})
        clock.now = LONGEST + 0.1
        del client.state.degraded["receive"]
        watch.look({"push": client})
        watch.close_phases()
    assert {phase.loop: phase.seconds for phase in watch.phases} == {
        "receive": pytest.approx(LONGEST + 0.1),
        "heartbeat": None,
    }
    assert not any(phase.is_allowed for phase in watch.phases)


def test_a_failed_background_task_is_reported(watch: HealthWatch) -> None:
    with listening(watch):
        logging.getLogger("aiorocketmq.tasks").error(
            "background task %r failed", "push: receive", exc_info=ValueError("odd")
        )
    assert watch.failed_tasks == ["background task 'push: receive' failed: ValueError('odd')"]


def test_a_client_is_recorded_until_it_terminates() -> None:
    clients: dict[str, Watched] = {}
    guest = Client()
    with listed(clients, "guest", guest):
        assert clients == {"guest": guest}
    assert clients == {}
