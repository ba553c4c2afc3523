"""Events as log lines: one JSON object each, for people with `grep` and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from math import inf
from pathlib import Path
from types import TracebackType
from typing import TextIO

from aiorocketmq_fake.core.values.events import Event, Refused
from aiorocketmq_fake.core.values.model import OutgoingMessage, StoredMessage

__all__ = ["EventLog", "as_line"]

# A line only identifies a message; its content may be large and confidential.
OF_CONTENT = ("message_id", "tag", "message_group")
OF_COPY = ("queue_id", "offset")


# Seconds in which equal refusals of a client share a line.
TOGETHER = 1.0


def as_line(event: Event, **more: object) -> str:
    """Return an event as one line of JSON: `at`, `event`, its own fields, `more`; messages without body and
    properties."""
    record = {"at": round(event.at, 3), "event": type(event).__name__, **_plain(event), **more}
    return json.dumps(record, ensure_ascii=False)


def _plain(value: object) -> dict[str, object]:
    """Flatten a value of the core, including nested values."""
    shown: dict[str, object] = {}
    for field in fields(value):  # type: ignore[arg-type]  # every event and what it holds is a dataclass
        item = getattr(value, field.name)
        if field.name == "at" or item is None:
            continue
        if isinstance(item, StoredMessage):
            shown["topic"] = item.content.topic
            shown |= {name: getattr(item, name) for name in OF_COPY}
            shown |= {name: getattr(item.content, name) for name in OF_CONTENT if getattr(item.content, name)}
        elif isinstance(item, OutgoingMessage):
            shown["topic"] = item.topic
            shown |= {name: getattr(item, name) for name in OF_CONTENT if getattr(item, name)}
        elif is_dataclass(item):
            shown |= _plain(item)
        else:
            shown[field.name] = item.name if isinstance(item, Enum) else item
    return shown


@dataclass(slots=True)
class _Refusals:
    """Equal refusals since one of them was written."""

    until: float
    last: Refused
    times: int = 0


class EventLog:
    """A file of event lines, in append mode; each batch is flushed for `tail -f`.

    Of equal refusals of one client within a second the first has a line, and the last one with the number of `times`:
    a client that retries without pause would fill the disk. It is answered as fast as it asks, as by a real 5.5.0,
    which answers hundreds of refused receives and settings a second.
    """

    def __init__(self, path: Path | str) -> None:
        """Open the file; OSError if that fails."""
        self._file: TextIO = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  # closed by `close`
        self._refusals: dict[tuple[object, ...], _Refusals] = {}

    def write(self, events: Iterable[Event]) -> None:
        """Append events; fits `broker.events.listen`."""
        for event in events:
            if self._refusals:
                self._end_refusals(event.at)
            if isinstance(event, Refused) and self._has_line(event):
                continue
            self._file.write(f"{as_line(event)}\n")
        self._file.flush()

    def close(self) -> None:
        """Write the counted refusals, and close the file."""
        if not self._file.closed:
            self._end_refusals(inf)
            self._file.close()

    def _has_line(self, event: Refused) -> bool:
        """Count a refusal; return whether an equal one has a line already."""
        key = (event.command, event.client_id, event.code, event.message)
        refusals = self._refusals.get(key)
        if refusals is None:
            self._refusals[key] = _Refusals(event.at + TOGETHER, event)
            return False
        refusals.last = event
        refusals.times += 1
        return True

    def _end_refusals(self, now: float) -> None:
        # Oldest first; setting the clock back only delays them.
        while self._refusals:
            key, refusals = next(iter(self._refusals.items()))
            if refusals.until > now:
                return
            del self._refusals[key]
            if refusals.times:
                self._file.write(f"{as_line(refusals.last, times=refusals.times)}\n")

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
