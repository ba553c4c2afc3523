"""Histories of messages, read from the rows of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

# A row of a recording, by column name; the columns are those of docs/reference/recording.md.
Row = Mapping[str, Any]  # Any: a column is text, number or map, as the schema says

MICROSECONDS = 1_000_000


class EventKind(Enum):
    """Events in a message's history, as named on the page."""

    STORED = "stored"
    DELIVERED = "delivered"
    NACKED = "nacked"
    LEASE_EXPIRED = "lease expired"
    ACKED = "acknowledged"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One event in a message's history."""

    at: float
    """Seconds since the message was stored."""
    kind: EventKind
    attempt: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Retry:
    """One retry: the wait of the group's back-off, and the observed wait."""

    attempt: int
    expected: float
    observed: float


@dataclass(frozen=True, slots=True)
class History:
    """The history of one message in one group."""

    message_id: str
    topic: str
    group: str
    events: tuple[HistoryEvent, ...]

    @property
    def deliveries(self) -> tuple[HistoryEvent, ...]:
        """The deliveries of the message."""
        return tuple(event for event in self.events if event.kind is EventKind.DELIVERED)


def history_of(rows: Iterable[Row], *, message_id: str, group: str) -> History:
    """Return the history of one message in one group, in order of time; ValueError if it is not in the recording."""
    own = [
        row
        for row in rows
        if row["observer"] == "broker" and row["message_id"] == message_id and row["group"] in (group, None)
    ]
    stored = min((row["t_wall_us"] for row in own if row["kind"] == "send"), default=None)
    if stored is None:
        raise ValueError(f"the recording has no stored message {message_id!r}")
    events = [event for row in own if (event := _event(row, stored)) is not None]
    topic = next(row["topic"] for row in own if row["kind"] == "send")
    return History(message_id, topic, group, tuple(sorted(events, key=lambda event: event.at)))


def _event(row: Row, stored: int) -> HistoryEvent | None:
    at = (row["t_wall_us"] - stored) / MICROSECONDS
    kind, done = row["kind"], row["phase"] in ("ok", None)
    if not done:
        return None
    attempt = row["attempt"]
    if kind == "send":
        return HistoryEvent(at, EventKind.STORED, None, f"in queue {row['queue']} at offset {row['offset']}")
    if kind == "deliver":
        return HistoryEvent(at, EventKind.DELIVERED, attempt, f"attempt {attempt} to {row['client_id']}")
    if kind == "change":
        wait = (row["invisible_ms"] or 0) / 1000
        return HistoryEvent(at, EventKind.NACKED, attempt, f"again in {duration(wait)}")
    if kind == "expire":
        return HistoryEvent(at, EventKind.LEASE_EXPIRED, attempt, "not acknowledged in time")
    if kind == "ack":
        return HistoryEvent(at, EventKind.ACKED, attempt, "done for this group")
    if kind == "dlq.deliver":
        return HistoryEvent(at, EventKind.DEAD_LETTER, attempt, f"copied to %DLQ%{row['group']}")
    return None


def retries_of(history: History, waits: Sequence[float]) -> tuple[Retry, ...]:
    """Return the waits between deliveries, each with that of the group's back-off, whose last entry repeats."""
    times = [event.at for event in history.deliveries]
    return tuple(
        Retry(number, waits[min(number, len(waits)) - 1], later - earlier)
        for number, (earlier, later) in enumerate(pairwise(times), start=1)
    )


def group_waits(rows: Iterable[Row], group: str) -> tuple[float, ...]:
    """Return the back-off of `group` in seconds, from the last settings recorded for it; empty if there are none."""
    waits: tuple[float, ...] = ()
    for row in rows:
        settings = dict(row["cfg"] or ()) if row["kind"] == "config" and row["group"] == group else {}
        if settings.get("steps_ms"):
            waits = tuple(int(step) / 1000 for step in settings["steps_ms"].split(","))
    return waits


def duration(seconds: float) -> str:
    """Format a duration: `10 s`, `2 min`, `2 h`, `1 h 30 min`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
