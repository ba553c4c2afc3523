"""The state of a client at one moment, for readiness probes and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from aiorocketmq.errors import RocketMQError

__all__ = ["Health"]


@dataclass(frozen=True, slots=True)
class Health:
    """What `health()` of a client returns; nothing is asked of a server for it."""

    running: bool
    """Whether the client is inside its `async with`."""
    connected: bool
    """Whether the settings stream to every server that the client uses is open and answered; over the remoting
    protocol, whether every broker is connected, and knows a client that is a member of a group."""
    settings_in_force: bool
    """Whether a server's settings have been received; over the remoting protocol, which has none, whether a broker has
    taken the client in."""
    last_success: datetime | None
    """When a send was last stored or a receive last answered; None if never."""
    degraded: Mapping[str, str] = field(default_factory=dict)
    """The background loops that fail at the moment, by name, each with the reason; they are tried again."""
    failure: RocketMQError | None = None
    """What has ended the client for good: `run()`, the iteration or the next send raises it."""

    @property
    def is_ready(self) -> bool:
        """Whether the client can do its work: it runs, is connected, has its settings, and has not failed."""
        return self.running and self.connected and self.settings_in_force and self.failure is None

    @property
    def is_degraded(self) -> bool:
        """Whether a background loop fails at the moment."""
        return bool(self.degraded)
