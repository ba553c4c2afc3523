"""The state of a client at one moment, for readiness probes and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiorocketmq.errors import RocketMQError

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """Snapshot of a client's state, as `health()` returns it; no server is called for it."""

    running: bool
    """Whether the client is inside its `async with`."""
    connected: bool
    """Whether the settings stream to every server that the client uses is open and answered; over the remoting
    protocol, whether every broker is connected and has accepted the heartbeat of a member of a group."""
    settings_in_force: bool
    """Whether a server's settings have been received; over the remoting protocol, which has none, whether a broker has
    accepted the client's heartbeat."""
    last_success: datetime | None
    """When a send was last stored or a receive last answered, in UTC; None if never."""
    degraded: Mapping[str, str] = field(default_factory=dict)
    """The background loops that currently fail, by name, each with the reason; they are retried."""
    failure: RocketMQError | None = None
    """The error that stopped the client permanently; `run()`, the iteration or the next send raises it."""

    @property
    def is_ready(self) -> bool:
        """Whether the client can work: it is running, connected, has its settings, and has not failed."""
        return self.running and self.connected and self.settings_in_force and self.failure is None

    @property
    def is_degraded(self) -> bool:
        """Whether a background loop currently fails."""
        return bool(self.degraded)
