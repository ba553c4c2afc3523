"""Events as log lines: one JSON object each, for people with `grep` and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TextIO

from aiorocketmq_fake.core.events import Event
from aiorocketmq_fake.core.model import OutgoingMessage, StoredMessage

__all__ = ["EventLog", "as_line"]

# Of a message a line names what finds it; its content may be large, and is not everybody's business.
OF_CONTENT = ("message_id", "tag", "message_group")
OF_COPY = ("queue_id", "offset")


def as_line(event: Event) -> str:
    """Return an event as one line of JSON: `at`, `event`, then its own fields; messages without body and properties."""
    return json.dumps(
        {"at": round(event.at, 3), "event": type(event).__name__, **_plain(event)}, ensure_ascii=False
    )


def _plain(value: object) -> dict[str, object]:
    """Flatten a value of the core; fields of what is inside stand beside its own."""
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


class EventLog:
    """A file of event lines, appended to; each batch is flushed, so that `tail -f` sees it at once."""

    def __init__(self, path: Path | str) -> None:
        """Open the file; OSError where that is not possible."""
        self._file: TextIO = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  # closed by `close`

    def write(self, events: Iterable[Event]) -> None:
        """Append events; fits `broker.events.listen`."""
        self._file.writelines(f"{as_line(event)}\n" for event in events)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
