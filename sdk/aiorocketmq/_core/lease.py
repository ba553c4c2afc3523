"""One message's lease: a strictly serial chain of receipt handles (live-lessons.md, 1 to 3).

Servers punish every shortcut: two changes with one handle make two copies of the message, a change after an ack
brings the message back, and a forward to the dead letters with a changed handle moves another message. So a lease
allows one step at a time, with the newest handle, and says which steps are still allowed. A forward takes the first
handle; only where a server refuses that as spent, as the published contract has it, the newest.

    state \\ step    change              ack                forward
    HELD            yes, new handle     yes                yes
    IN_DOUBT        no (would copy)     yes                yes
    ACK_SENT        no (resurrects)     yes, same handle   no
    FORWARD_SENT    no                  no (would lose)    yes
    FORWARDED       no                  yes                no
    SETTLED, LOST   no                  no                 no
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeVar

MessageT_contra = TypeVar("MessageT_contra", contravariant=True)


_CHANGED_FIELDS = 10
_REVIVE_QUEUE, _OFFSET = 3, 7
_ORDERED = "999"


def corrected_handle(handle: str) -> str:
    """Return the handle in the response to a change as the broker expects it.

    Handles are opaque, but a proxy in the process of its broker (Apache 5.3.3 and 5.5.0) answers changes in normal
    groups with a handle that keeps the offset from which the receive read the queue, where the broker expects that of
    the message. An ack with it is answered with OK and settles nothing, and each renewal adds a redelivery. Only
    handles of that very form are altered: those of changes behind a separate proxy have one field less.
    """
    fields = handle.split(" ")
    if len(fields) != _CHANGED_FIELDS or fields[_REVIVE_QUEUE] == _ORDERED or not fields[_OFFSET].isdecimal():
        return handle
    return " ".join((fields[_OFFSET], *fields[1:]))


class LeaseState(Enum):
    """State of a lease."""

    HELD = "held"
    """The newest handle is valid."""
    IN_DOUBT = "in doubt"
    """The reply to a change was lost: the handle may be spent, and a second change could copy the message."""
    ACK_SENT = "ack sent"
    """The answer to an ack was lost."""
    FORWARD_SENT = "forward sent"
    """The answer to a forward was lost."""
    FORWARDED = "forwarded"
    """Moved to the dead letters with the first handle, while a newer one exists that is not acked yet: in a normal
    group the message would be redelivered for it (live-broker-consumption.md, 5a)."""
    SETTLED = "settled"
    """Acked."""
    RELEASED = "released"
    """Released, to be redelivered."""
    LOST = "lost"
    """The server reported that the lease has expired."""


class Step(Enum):
    """One call that uses the handle."""

    CHANGE = "change"
    ACK = "ack"
    FORWARD = "forward"


class Outcome(Enum):
    """How a call ended."""

    OK = "ok"
    REFUSED = "refused"
    """The server did nothing."""
    LOST = "lost"
    """The server does not know the handle."""
    UNKNOWN = "unknown"
    """No answer: it may have taken effect."""


class StepNotAllowedError(Exception):
    """The step would break the chain; `lost` is true for an expired lease, false for wrong use."""

    def __init__(self, reason: str, *, lost: bool = False) -> None:
        super().__init__(reason)
        self.lost = lost


_FORBIDDEN: dict[LeaseState, dict[Step, str]] = {
    LeaseState.HELD: {},
    LeaseState.IN_DOUBT: {
        Step.CHANGE: "the answer to an earlier change was lost, and another one could duplicate the message",
    },
    LeaseState.ACK_SENT: {
        Step.CHANGE: "an ack was sent already",
        Step.FORWARD: "an ack was sent already",
    },
    LeaseState.FORWARD_SENT: {
        Step.CHANGE: "it was moved to the dead letters, perhaps",
        Step.ACK: "it was moved to the dead letters, perhaps, and an ack could lose it",
    },
    LeaseState.FORWARDED: {
        Step.CHANGE: "it was moved to the dead letters",
        Step.FORWARD: "it was moved to the dead letters",
    },
    LeaseState.SETTLED: dict.fromkeys(Step, "it was settled already"),
    LeaseState.RELEASED: dict.fromkeys(Step, "it was given back already"),
    LeaseState.LOST: dict.fromkeys(Step, "its lease is over"),
}
"""Which steps a state forbids, with the reason."""


_OPEN = frozenset({LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.ACK_SENT, LeaseState.FORWARD_SENT})


class Lease:
    """The chain of handles of one delivered message; times are the caller's clock, in seconds."""

    __slots__ = (
        "changed",
        "ends_at",
        "first_handle",
        "first_is_spent",
        "handle",
        "is_ending",
        "state",
        "step",
    )

    def __init__(self, handle: str, ends_at: float) -> None:
        self.first_handle = handle
        self.handle = handle
        self.ends_at = ends_at
        self.changed = False
        self.first_is_spent = False
        """Whether the server refused a forward with the first handle because a change has replaced it."""
        self.is_ending = False
        """Whether its end was attempted, by an ack, a forward or a release: it is not renewed any more."""
        self.state = LeaseState.HELD
        self.step: Step | None = None
        """The step in flight; the next one has to wait for its end."""

    @property
    def is_open(self) -> bool:
        """Whether the message still has to be settled."""
        state = self.state
        # The usual state is checked first: hashes of enum members are slow.
        return state is LeaseState.HELD or state in _OPEN

    def begin(self, step: Step) -> str:
        """Begin a step and return the handle to send; raises StepNotAllowedError if it would break the chain."""
        if self.step is not None:
            raise StepNotAllowedError(f"a {self.step.value} of it is still in flight")
        if self.state is not LeaseState.HELD:  # which allows everything
            forbidden = _FORBIDDEN[self.state].get(step)
            if forbidden is not None:
                raise StepNotAllowedError(forbidden, lost=self.state is LeaseState.LOST)
        self.step = step
        self.is_ending = self.is_ending or step is not Step.CHANGE
        return self.first_handle if step is Step.FORWARD and not self.first_is_spent else self.handle

    def end(self, outcome: Outcome, *, handle: str = "", ends_at: float | None = None) -> None:
        """End the step in flight; `handle` and `ends_at` are the results of a successful change."""
        step, self.step = self.step, None
        if outcome is Outcome.LOST and step is Step.FORWARD and self.changed and not self.first_is_spent:
            # Apache's servers never refuse a first handle, so this one follows the contract and wants the newest.
            self.first_is_spent = True
        elif outcome is Outcome.LOST:
            self.state = LeaseState.LOST
        elif step is Step.CHANGE:
            self._end_change(outcome, handle, ends_at)
        elif step is Step.ACK:
            self._end_ack(outcome)
        elif outcome is Outcome.OK:
            self.state = LeaseState.SETTLED if self.first_is_spent else LeaseState.FORWARDED
        elif outcome is Outcome.UNKNOWN:
            self.state = LeaseState.FORWARD_SENT

    def release(self) -> None:
        """Mark the message as released, after a change that ends the lease at once has succeeded."""
        self.state = LeaseState.RELEASED

    def _end_ack(self, outcome: Outcome) -> None:
        if outcome is Outcome.OK:
            self.state = LeaseState.SETTLED
        elif outcome is Outcome.UNKNOWN and self.state is not LeaseState.FORWARDED:
            self.state = LeaseState.ACK_SENT

    def _end_change(self, outcome: Outcome, handle: str, ends_at: float | None) -> None:
        if outcome is Outcome.OK:
            self.changed = True
            # An answer without a handle keeps the old one: some servers do not replace it.
            self.handle = handle or self.handle
            if ends_at is not None:
                self.ends_at = ends_at
        elif outcome is Outcome.UNKNOWN:
            self.changed = True
            self.state = LeaseState.IN_DOUBT


class SettlerOf(Protocol[MessageT_contra]):
    """Settles received messages; each consumer passes its own to the messages that it receives."""

    async def ack_one(self, message: MessageT_contra) -> None:
        """Acknowledge."""

    async def change(self, message: MessageT_contra, seconds: float) -> None:
        """Keep the message for `seconds` from now."""

    async def release(self, message: MessageT_contra) -> None:
        """Release the lease, so that the message is redelivered."""

    async def abandon(self, message: MessageT_contra) -> None:
        """Release the message after its handling failed; bounded, shielded, without an error of its own."""
