"""Records of clients."""

from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.values.model import ClientSettings


class Client(Timer):
    """A registered client; its timer is its expiry."""

    __slots__ = ("groups", "id", "last_seen", "reachable", "settings")

    def __init__(self, id_: str, settings: ClientSettings, now: int) -> None:
        self.ticket = 0
        self.id = id_
        self.settings = settings
        self.last_seen = now
        self.reachable = True
        """Whether its telemetry stream is open: only then commands reach it."""
        self.groups: set[str] = set()
        """Consumer groups in which it is registered (R2.14)."""

    @property
    def group(self) -> str:
        """The group of its settings, empty for producers."""
        return self.settings.subscription.group if self.settings.subscription else ""
