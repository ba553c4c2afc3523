"""A frame: a table with one row per item that rules judge, derived from the events by one shuffle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql import DataFrame

SCOPE = ("run_id", "case_id")
ACCOUNT = (*SCOPE, "observer")
"""The key of one observation: one observer of one case."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The input of frames: events, settings, and facts about the whole recording."""

    events: DataFrame
    settings: DataFrame
    """The result of `frames.settings`, cached."""
    polled: DataFrame
    """The result of `places.polled`, cached."""
    kinds: Mapping[str, int]
    """Number of events by kind, and those that `Gates.kinds` counts besides."""
    ended_us: int
    has_open_calls: bool
    """Some acks, changes or forwards have no answer."""
    has_order: bool
    """Some group is ordered."""
    clocks_agree: bool
    """No recorder's clock is known to be wrong, so that times stamped by servers are comparable."""
    passed_us: int | None = None
    """Messages skipped by deliveries after this instant may still be delivered; None if the recording is complete."""


@dataclass(frozen=True, slots=True)
class Frame:
    """How the rows are derived, and what is counted."""

    name: str
    rows: Callable[[Recording], DataFrame]
    kinds: tuple[str, ...]
    """Without events of these kinds there are no rows."""
    cell: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Grouping keys of the counts: column and expression."""
    counts: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Further aggregates of each cell: one expression over rows, and one to merge partial results."""
