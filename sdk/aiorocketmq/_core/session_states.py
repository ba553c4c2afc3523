"""The life of a client, and of each of its settings streams, as two tables.

Client                                        Stream, one for each endpoint

    NEW ──start──► STARTING ──usable──► RUNNING      CLOSED ──open──► WAITING ──settings──► READY
     │                │ fail, stop         │ stop                      │ broke                │ broke
     └──stop──┐       ▼                    ▼                           ▼                      ▼
              └──► STOPPED ◄──ended── STOPPING                      BROKEN ──open──► WAITING  BROKEN

In a child process that is forked, every client that has begun goes to STOPPED.

No call but the query for routes is made on an endpoint whose stream never was READY: a server looks a
client's settings up with every call and fails in odd ways without them (client-behaviour.md, 2.1). A stream
that breaks while the client runs is opened again for as long as a route names its endpoint, and the settings
are the first thing written on it.
"""

from enum import Enum
from typing import TypeVar


class ClientState(Enum):
    """State of a client."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class ClientInput(Enum):
    """What moves a client on."""

    START = "start"
    USABLE = "usable"
    """Routes are known, and each of their endpoints has answered our settings."""
    FAIL = "fail"
    STOP = "stop"
    ENDED = "ended"
    FORKED = "forked"
    """This process is a fork of the one that the client was made in."""


class StreamState(Enum):
    """State of a settings stream."""

    CLOSED = "closed"
    WAITING = "waiting"
    """Open, our settings are written, the server's not read yet."""
    READY = "ready"
    BROKEN = "broken"


class StreamInput(Enum):
    """What moves a stream on."""

    OPEN = "open"
    SETTINGS = "settings"
    BROKE = "broke"
    CLOSE = "close"


CLIENT_TABLE: dict[tuple[ClientState, ClientInput], ClientState] = {
    (ClientState.NEW, ClientInput.START): ClientState.STARTING,
    (ClientState.NEW, ClientInput.STOP): ClientState.STOPPED,
    (ClientState.STARTING, ClientInput.USABLE): ClientState.RUNNING,
    (ClientState.STARTING, ClientInput.FAIL): ClientState.STOPPED,
    (ClientState.STARTING, ClientInput.STOP): ClientState.STOPPING,
    (ClientState.RUNNING, ClientInput.STOP): ClientState.STOPPING,
    (ClientState.STOPPING, ClientInput.STOP): ClientState.STOPPING,
    (ClientState.STOPPING, ClientInput.FAIL): ClientState.STOPPED,
    (ClientState.STOPPING, ClientInput.ENDED): ClientState.STOPPED,
    (ClientState.STOPPED, ClientInput.STOP): ClientState.STOPPED,
    (ClientState.STOPPED, ClientInput.ENDED): ClientState.STOPPED,  # its start had failed meanwhile
    (ClientState.STARTING, ClientInput.FORKED): ClientState.STOPPED,
    (ClientState.RUNNING, ClientInput.FORKED): ClientState.STOPPED,
    (ClientState.STOPPING, ClientInput.FORKED): ClientState.STOPPED,
    (ClientState.STOPPED, ClientInput.FORKED): ClientState.STOPPED,
}

STREAM_TABLE: dict[tuple[StreamState, StreamInput], StreamState] = {
    (StreamState.CLOSED, StreamInput.OPEN): StreamState.WAITING,
    (StreamState.CLOSED, StreamInput.CLOSE): StreamState.CLOSED,
    (StreamState.WAITING, StreamInput.SETTINGS): StreamState.READY,
    (StreamState.WAITING, StreamInput.BROKE): StreamState.BROKEN,
    (StreamState.WAITING, StreamInput.CLOSE): StreamState.CLOSED,
    (StreamState.READY, StreamInput.SETTINGS): StreamState.READY,
    (StreamState.READY, StreamInput.BROKE): StreamState.BROKEN,
    (StreamState.READY, StreamInput.CLOSE): StreamState.CLOSED,
    (StreamState.BROKEN, StreamInput.OPEN): StreamState.WAITING,
    (StreamState.BROKEN, StreamInput.BROKE): StreamState.BROKEN,
    (StreamState.BROKEN, StreamInput.CLOSE): StreamState.CLOSED,
}

State = TypeVar("State", ClientState, StreamState)
Input = TypeVar("Input", ClientInput, StreamInput)


class ImpossibleStepError(Exception):
    """The table has no such step: a fault of this library, or a client used twice."""


def step(table: dict[tuple[State, Input], State], state: State, given: Input) -> State:
    """Return the state after `given`; raises ImpossibleStepError if the table has none."""
    try:
        return table[state, given]
    except KeyError:
        raise ImpossibleStepError(f"{given.value} is impossible in state {state.value}") from None
