"""Watches the health of a soak's clients: each degraded phase, whether it was logged, and how long it lasted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

PERIOD = 0.5
"""Seconds between two looks at all clients."""
LONGEST = 10.0
"""Seconds within which a client must be back after a degraded phase has begun."""
_MARGIN = 2.0
"""Seconds by which the log of a phase may be earlier than the look before the one that sees it begin."""


@dataclass(frozen=True, slots=True)
class Degraded:
    """One phase in which one loop of a client did not work; times are seconds since the watch began."""

    client: str
    loop: str
    reason: str
    began: float
    ended: float | None = None
    """None while it goes on."""
    is_logged: bool = False
    """Whether a warning of the library named the loop or the reason meanwhile."""

    @property
    def seconds(self) -> float | None:
        """How long it lasted, to the length of `PERIOD`; None while it goes on."""
        return None if self.ended is None else self.ended - self.began

    @property
    def is_allowed(self) -> bool:
        """Whether it was logged and over in time."""
        return self.is_logged and self.seconds is not None and self.seconds <= LONGEST

    def __str__(self) -> str:
        lasted = "goes on" if self.seconds is None else f"lasted {self.seconds:.1f} s"
        logged = "" if self.is_logged else ", not logged"
        return f"{self.client}, {self.loop}: {self.reason} ({lasted}{logged})"


class State(Protocol):
    """What the watch reads of a client's health."""

    @property
    def degraded(self) -> Mapping[str, str]:
        """The reason of each loop that does not work now."""


class Watched(Protocol):
    """A client, as far as the watch needs one."""

    def health(self) -> State:
        """The client's health now."""


class HealthWatch(logging.Handler):
    """Looks at clients every `PERIOD` seconds while `watch` runs, and listens to the library's log as a handler."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self.phases: list[Degraded] = []
        """Those that ended, and, after `close_phases`, those that did not."""
        self.looks = 0
        """How often all clients were looked at."""
        self.failed_tasks: list[str] = []
        """Background tasks of clients that ended by an exception."""
        self.logged: Counter[str] = Counter()
        """Warnings and errors of the library, by logger and text without its values."""
        self._clock = clock
        self._began = clock()
        self._open: dict[tuple[str, str], Degraded] = {}
        # What was logged from `_MARGIN` before the last look on.
        self._recent: deque[tuple[float, str]] = deque()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of the library's log."""
        text = record.getMessage()
        self.logged[f"{record.levelname} {record.name}: {record.msg}"] += 1
        self._recent.append((self._now(), text))
        if record.name == "aiorocketmq.tasks" and record.exc_info and "failed" in text:
            self.failed_tasks.append(f"{text}: {record.exc_info[1]!r}")

    async def watch(self, clients: Mapping[str, Watched]) -> None:
        """Look at `clients`, by name, until cancelled."""
        while True:
            self.look(clients)
            await asyncio.sleep(PERIOD)

    def look(self, clients: Mapping[str, Watched]) -> None:
        """Look at all clients once."""
        now = self._now()
        self.looks += 1
        reasons = {
            (name, loop): reason
            for name, client in clients.items()
            for loop, reason in client.health().degraded.items()
        }
        for key in self._open.keys() - reasons.keys():
            self.phases.append(replace(self._with_log(self._open.pop(key)), ended=now))
        for key, reason in reasons.items():
            phase = self._open.get(key) or Degraded(*key, reason, began=now)
            self._open[key] = self._with_log(phase)
        # What begins from now on is seen at the next look, which a busy machine may delay by seconds.
        while self._recent and self._recent[0][0] < now - _MARGIN:
            self._recent.popleft()

    def close_phases(self) -> None:
        """Count what still goes on as phases without an end."""
        self.phases += self._open.values()
        self._open.clear()

    def _now(self) -> float:
        return self._clock() - self._began

    def _with_log(self, phase: Degraded) -> Degraded:
        is_logged = any(phase.loop in text or phase.reason in text for _, text in self._recent)
        return replace(phase, is_logged=phase.is_logged or is_logged)


@contextmanager
def listed(clients: MutableMapping[str, Watched], name: str, client: Watched) -> Iterator[None]:
    """Have `client` among `clients` for a block."""
    clients[name] = client
    try:
        yield
    finally:
        del clients[name]


@contextmanager
def listening(watch: HealthWatch) -> Iterator[None]:
    """Let `watch` hear the library's log."""
    library = logging.getLogger("aiorocketmq")
    library.addHandler(watch)
    try:
        yield
    finally:
        library.removeHandler(watch)
