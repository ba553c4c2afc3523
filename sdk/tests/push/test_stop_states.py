import pytest
from aiorocketmq._core.stop_states import ConsumerEvent, ConsumerLife, ConsumerState

STATES = {
    ConsumerState.STARTING: [],
    ConsumerState.RUNNING: [ConsumerEvent.STARTED],
    ConsumerState.DRAINING: [ConsumerEvent.STARTED, ConsumerEvent.STOP],
    ConsumerState.RELEASING: [ConsumerEvent.STARTED, ConsumerEvent.STOP, ConsumerEvent.DRAINED],
    ConsumerState.CLOSED: [
        ConsumerEvent.STARTED,
        ConsumerEvent.STOP,
        ConsumerEvent.DRAINED,
        ConsumerEvent.RELEASED,
    ],
}


def life_in(state: ConsumerState) -> ConsumerLife:
    life = ConsumerLife()
    for event in STATES[state]:
        life.apply(event)
    assert life.state is state
    return life


@pytest.mark.parametrize("state", ConsumerState)
def test_handlers_start_only_while_running(state: ConsumerState) -> None:
    life = life_in(state)
    assert life.may_handle == (state is ConsumerState.RUNNING)


@pytest.mark.parametrize("state", ConsumerState)
def test_stop_may_come_at_any_time(state: ConsumerState) -> None:
    life = life_in(state)
    life.apply(ConsumerEvent.STOP)
    assert life.is_stopping


def test_a_second_stop_changes_nothing() -> None:
    life = life_in(ConsumerState.DRAINING)
    assert life.apply(ConsumerEvent.STOP) is False


def test_a_stop_before_the_start_has_no_handlers_to_wait_for() -> None:
    life = life_in(ConsumerState.STARTING)
    life.apply(ConsumerEvent.STOP)
    assert life.state is ConsumerState.RELEASING


def test_an_event_out_of_place_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="DRAINED cannot happen to a consumer that is RUNNING"):
        life_in(ConsumerState.RUNNING).apply(ConsumerEvent.DRAINED)
