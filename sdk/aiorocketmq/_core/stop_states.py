"""The life of a push consumer: its states, the events that move it, and what each state allows."""

from __future__ import annotations

from enum import Enum, auto


class ConsumerState(Enum):
    """State of a push consumer."""

    STARTING = auto()
    """Waits for settings and the first assignment."""
    RUNNING = auto()
    """Receives, handles, settles."""
    DRAINING = auto()
    """Stops receiving and starting handlers; running handlers may finish within the shutdown timeout; waiting messages
    are released."""
    RELEASING = auto()
    """No handler runs; messages in flight are released, acks in flight are awaited."""
    CLOSED = auto()
    """The servers are notified; nothing of the consumer is left."""


class ConsumerEvent(Enum):
    """Events that move a push consumer."""

    STARTED = auto()
    STOP = auto()
    """Requested by the user, by leaving the block, or by cancellation."""
    DRAINED = auto()
    """The last handler has returned, or the shutdown timeout has expired and it was cancelled."""
    RELEASED = auto()
    """Every settling call has completed, or its deadline has expired."""


TRANSITIONS: dict[tuple[ConsumerState, ConsumerEvent], ConsumerState] = {
    (ConsumerState.STARTING, ConsumerEvent.STARTED): ConsumerState.RUNNING,
    (ConsumerState.STARTING, ConsumerEvent.STOP): ConsumerState.RELEASING,
    (ConsumerState.RUNNING, ConsumerEvent.STOP): ConsumerState.DRAINING,
    (ConsumerState.DRAINING, ConsumerEvent.STOP): ConsumerState.DRAINING,
    (ConsumerState.DRAINING, ConsumerEvent.DRAINED): ConsumerState.RELEASING,
    (ConsumerState.RELEASING, ConsumerEvent.STOP): ConsumerState.RELEASING,
    (ConsumerState.RELEASING, ConsumerEvent.RELEASED): ConsumerState.CLOSED,
    (ConsumerState.CLOSED, ConsumerEvent.STOP): ConsumerState.CLOSED,
}


class ConsumerLife:
    """The life of one consumer from start to end; an event that does not fit its state is a bug."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = ConsumerState.STARTING

    def apply(self, event: ConsumerEvent) -> bool:
        """Apply `event`; True if the state changed. RuntimeError if the table has no such transition."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise RuntimeError(f"{event.name} cannot happen to a consumer that is {self.state.name}")
        changed = after is not self.state
        self.state = after
        return changed

    @property
    def may_handle(self) -> bool:
        """Handlers may be started."""
        return self.state is ConsumerState.RUNNING

    @property
    def is_stopping(self) -> bool:
        """Whether the consumer stops or has stopped."""
        return self.state not in (ConsumerState.STARTING, ConsumerState.RUNNING)
