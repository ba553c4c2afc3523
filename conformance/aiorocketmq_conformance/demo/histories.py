"""What happened to messages, read from the rows of a recording: plain values for the page to draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

# A row of a recording, by column name; the columns are those of docs/reference/recording.md.
Row = Mapping[str, Any]  # Any: a column is text, number or map, as the schema says

MICROSECONDS = 1_000_000


class Moment(Enum):
    """What can happen to one message, in the words of the page."""

    STORED = "stored"
    DELIVERED = "delivered"
    RETRY_ASKED = "given back"
    LEASE_ENDED = "lease ended"
    ACKED = "acknowledged"
    DEAD_LETTER = "dead letter"


@dataclass(frozen=True, slots=True)
class Step:
    """One moment in a message's life."""

    at: float
    """Seconds since the message was stored."""
    moment: Moment
    attempt: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a retry ladder: the wait the group's table asks for, and the wait that was seen."""

    attempt: int
    expected: float
    seen: float


@dataclass(frozen=True, slots=True)
class Life:
    """Everything one group saw of one message."""

    message_id: str
    topic: str
    group: str
    steps: tuple[Step, ...]

    @property
    def deliveries(self) -> tuple[Step, ...]:
        """The moments at which the message was handed out."""
        return tuple(step for step in self.steps if step.moment is Moment.DELIVERED)


def life(rows: Iterable[Row], *, message_id: str, group: str) -> Life:
    """The life of one message in one group, in order of time; ValueError when the recording does not know it."""
    own = [
        row
        for row in rows
        if row["observer"] == "broker" and row["message_id"] == message_id and row["group"] in (group, None)
    ]
    stored = min((row["t_wall_us"] for row in own if row["kind"] == "send"), default=None)
    if stored is None:
        raise ValueError(f"the recording holds no stored message {message_id!r}")
    steps = [step for row in own if (step := _step(row, stored)) is not None]
    topic = next(row["topic"] for row in own if row["kind"] == "send")
    return Life(message_id, topic, group, tuple(sorted(steps, key=lambda step: step.at)))


def _step(row: Row, stored: int) -> Step | None:
    at = (row["t_wall_us"] - stored) / MICROSECONDS
    kind, done = row["kind"], row["phase"] in ("ok", None)
    if not done:
        return None
    attempt = row["attempt"]
    if kind == "send":
        return Step(at, Moment.STORED, None, f"in queue {row['queue']} at offset {row['offset']}")
    if kind == "deliver":
        return Step(at, Moment.DELIVERED, attempt, f"attempt {attempt} to {row['client_id']}")
    if kind == "change":
        wait = (row["invisible_ms"] or 0) / 1000
        return Step(at, Moment.RETRY_ASKED, attempt, f"again in {duration(wait)}")
    if kind == "expire":
        return Step(at, Moment.LEASE_ENDED, attempt, "nobody settled it in time")
    if kind == "ack":
        return Step(at, Moment.ACKED, attempt, "done for this group")
    if kind == "dlq.deliver":
        return Step(at, Moment.DEAD_LETTER, attempt, f"copied to %DLQ%{row['group']}")
    return None


def ladder(told: Life, waits: Sequence[float]) -> tuple[Rung, ...]:
    """The waits between deliveries beside the group's table, whose last entry repeats."""
    times = [step.at for step in told.deliveries]
    return tuple(
        Rung(number, waits[min(number, len(waits)) - 1], later - earlier)
        for number, (earlier, later) in enumerate(pairwise(times), start=1)
    )


def group_waits(rows: Iterable[Row], group: str) -> tuple[float, ...]:
    """The back-off table of `group` in seconds, from the last settings recorded for it; empty when there are none."""
    found: tuple[float, ...] = ()
    for row in rows:
        settings = dict(row["cfg"] or ()) if row["kind"] == "config" and row["group"] == group else {}
        if settings.get("steps_ms"):
            found = tuple(int(step) / 1000 for step in settings["steps_ms"].split(","))
    return found


def duration(seconds: float) -> str:
    """A duration for people: `10 s`, `2 min`, `2 h`, `1 h 30 min`."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
