"""Message ids: 17 bytes that name machine, process, second and number (client-behaviour.md, 5.2)."""

from __future__ import annotations

_VERSION = 1
_EPOCH = 1_609_459_200
"""2021-01-01T00:00:00Z, in Unix time."""


class MessageIds:
    """Generates the ids of one process: unique as long as machine and process differ from others'."""

    def __init__(self, machine: bytes, process: int) -> None:
        if len(machine) != 6:
            raise ValueError(f"a machine is 6 bytes, not {len(machine)}")
        prefix = bytes([_VERSION]) + machine + (process & 0xFFFF).to_bytes(2, "big")
        self._prefix = prefix.hex().upper()
        self._count = 0
        self._second = -1
        self._stem = ""

    def next(self, now: float) -> str:
        """Return a new id at `now` (Unix time). If `now` steps back, ids stay unique but do not sort by time."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._stem = f"{self._prefix}{(second - _EPOCH) & 0xFFFFFFFF:08X}"
        count = self._count
        self._count = (count + 1) & 0xFFFFFFFF
        return f"{self._stem}{count:08X}"
