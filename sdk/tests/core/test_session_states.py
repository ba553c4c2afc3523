"""The life of a client and of its streams, walked through all pairs."""

import pytest
from aiorocketmq._core.session_states import (
    CLIENT_TABLE,
    STREAM_TABLE,
    ClientInput,
    ClientState,
    ImpossibleStepError,
    StreamInput,
    StreamState,
    step,
)
from hypothesis import given, strategies as st


def test_a_client_starts_runs_and_stops() -> None:
    state = ClientState.NEW
    for given_input in (ClientInput.START, ClientInput.USABLE, ClientInput.STOP, ClientInput.ENDED):
        state = step(CLIENT_TABLE, state, given_input)
    assert state is ClientState.STOPPED


def test_a_client_is_started_only_once() -> None:
    for state in ClientState:
        if state is not ClientState.NEW:
            with pytest.raises(ImpossibleStepError):
                step(CLIENT_TABLE, state, ClientInput.START)


def test_a_client_can_be_stopped_in_every_state() -> None:
    assert all((state, ClientInput.STOP) in CLIENT_TABLE for state in ClientState)


def test_nothing_leads_out_of_stopped() -> None:
    assert all(
        after is ClientState.STOPPED
        for (state, _), after in CLIENT_TABLE.items()
        if state is ClientState.STOPPED
    )


def test_a_stream_can_be_closed_in_every_state_and_opened_again() -> None:
    for state in StreamState:
        assert step(STREAM_TABLE, state, StreamInput.CLOSE) is StreamState.CLOSED
    assert step(STREAM_TABLE, StreamState.CLOSED, StreamInput.OPEN) is StreamState.WAITING


@given(st.lists(st.sampled_from(StreamInput), max_size=30))
def test_a_stream_is_ready_only_after_settings_on_the_stream_that_is_open(inputs: list[StreamInput]) -> None:
    state, last = StreamState.CLOSED, None
    for each in inputs:
        if (state, each) in STREAM_TABLE:
            state, last = step(STREAM_TABLE, state, each), each
        if state is StreamState.READY:
            assert last is StreamInput.SETTINGS
