"""The life of a push consumer: its states, the events that move it, and what each state allows."""

from __future__ import annotations

from enum import Enum, auto


class ConsumerState(Enum):
    """Where a push consumer is."""

    STARTING = auto()
    """Settings and the first assignment are awaited."""
    RUNNING = auto()
    """Receives, handles, settles."""
    DRAINING = auto()
    """Receives no more, starts no handler; those that run have their grace; what waited is given back."""
    RELEASING = auto()
    """No handler runs; what is still in hand is given back, acks on their way are awaited."""
    CLOSED = auto()
    """The server has been told; nothing of the consumer is left."""


class ConsumerEvent(Enum):
    """What moves a push consumer."""

    STARTED = auto()
    STOP = auto()
    """Asked by the user, by leaving the block, or by cancellation."""
    DRAINED = auto()
    """The last handler has ended by itself, or its grace is over and it was cancelled."""
    RELEASED = auto()
    """Every settling call has ended, or its deadline has passed."""


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
    """Follows one consumer from start to end; an event that does not fit its state is a fault of ours."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = ConsumerState.STARTING

    def apply(self, event: ConsumerEvent) -> bool:
        """Move by `event`; True when the state changed. RuntimeError where the table has no such move."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise RuntimeError(f"{event.name} cannot happen to a consumer that is {self.state.name}")
        changed = after is not self.state
        self.state = after
        return changed

    @property
    def may_receive(self) -> bool:
        """Receives may be started."""
        return self.state is ConsumerState.RUNNING

    @property
    def may_handle(self) -> bool:
        """Handlers may be started."""
        return self.state is ConsumerState.RUNNING

    @property
    def is_stopping(self) -> bool:
        """The stop has begun or is over."""
        return self.state not in (ConsumerState.STARTING, ConsumerState.RUNNING)
