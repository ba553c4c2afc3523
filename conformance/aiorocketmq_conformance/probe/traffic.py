"""A case's calls in progress, and all of its finished calls."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiorocketmq_conformance.probe.call_recorder import CallRecorder


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call: its method, its client, when it started and ended (seconds of the case's clock)."""

    method: str
    client_id: str
    started: float
    ended: float
    outcome: str
    """Name of the v2 code, `grpc:NAME` if the call itself failed, `cancelled` if the caller gave up."""
    waits_for_time: bool = False
    """A long poll."""


@dataclass(slots=True)
class Traffic:
    """Counts the calls in progress, so that a virtual clock knows when all tasks wait."""

    calls: list[Call] = field(default_factory=list)
    """Finished calls in the order of their end."""
    unary_under_way: int = 0
    """Calls whose response does not depend on time passing."""
    receives_under_way: int = 0
    """Long polls: they may be parked in the broker."""
    steps: int = 0
    """Incremented with every call started, frame received and call ended."""
    commands: int = 0
    """Frames received that the server sent on its own."""
    call_recorder: CallRecorder | None = None
    """Notified of every call if the case is recorded."""

    def begin(self, *, waits_for_time: bool) -> None:
        """Count another call in progress; `waits_for_time` for long polls."""
        self.steps += 1
        if waits_for_time:
            self.receives_under_way += 1
        else:
            self.unary_under_way += 1

    def end(self, call: Call) -> None:
        """Count `call` as finished and record its times."""
        self.steps += 1
        if call.waits_for_time:
            self.receives_under_way -= 1
        else:
            self.unary_under_way -= 1
        self.calls.append(call)

    def slowest_answer(self) -> float:
        """Return the longest duration of a call without waits in the broker: how busy machine and server are."""
        return max((call.ended - call.started for call in self.calls if not call.waits_for_time), default=0.0)
