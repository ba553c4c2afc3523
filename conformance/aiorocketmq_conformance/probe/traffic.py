"""What a case has on the wire at this moment, and every call it made."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiorocketmq_conformance.probe.witness import Witness


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call: its method, its client, when it began and ended (seconds of the case's clock)."""

    method: str
    client_id: str
    started: float
    ended: float
    outcome: str
    """Name of the v2 code, `grpc:NAME` when the call itself failed, `cancelled` when the caller gave up."""
    waits_for_time: bool = False
    """A long poll."""


@dataclass(slots=True)
class Traffic:
    """Counts the calls under way, so that a virtual clock knows when everybody waits."""

    calls: list[Call] = field(default_factory=list)
    """Finished calls in the order of their end."""
    unary_under_way: int = 0
    """Calls whose answer does not depend on time passing."""
    receives_under_way: int = 0
    """Long polls: they may be parked in the broker."""
    steps: int = 0
    """Grows with every call begun, frame received and call ended."""
    orders: int = 0
    """Frames read that the server sent unasked."""
    witness: Witness | None = None
    """Who is told of every call where the case is recorded."""

    def begin(self, *, waits_for_time: bool) -> None:
        """Count one more call under way; `waits_for_time` for long polls."""
        self.steps += 1
        if waits_for_time:
            self.receives_under_way += 1
        else:
            self.unary_under_way += 1

    def end(self, call: Call) -> None:
        """Count `call` as finished and keep its times."""
        self.steps += 1
        if call.waits_for_time:
            self.receives_under_way -= 1
        else:
            self.unary_under_way -= 1
        self.calls.append(call)

    def slowest_answer(self) -> float:
        """The longest that a call took which needs no waiting in the broker: how busy machine and server are."""
        return max((call.ended - call.started for call in self.calls if not call.waits_for_time), default=0.0)
