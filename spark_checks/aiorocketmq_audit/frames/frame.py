"""A frame: one row for each thing that rules judge, made of the events by one exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql import DataFrame

SCOPE = ("run_id", "case_id")
ACCOUNT = (*SCOPE, "observer")
"""What one observer told of one case."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What frames are made of."""

    events: DataFrame
    settings: DataFrame
    """As `frames.settings` tells them, kept in memory."""
    kinds: Mapping[str, int]
    """How many events of each kind there are."""
    ended_us: int
    has_open_calls: bool
    """Some acks, changes or forwards have no answer."""
    has_order: bool
    """Some group asked for ordered messages."""
    clocks_agree: bool
    """No recorder's clock is known to be off, so that a server's own times can be believed."""
    passed_us: int | None = None
    """What deliveries after this instant have passed over may still come; None: the recording has ended."""


@dataclass(frozen=True, slots=True)
class Frame:
    """How the rows are made, and what is counted of them."""

    name: str
    rows: Callable[[Recording], DataFrame]
    kinds: tuple[str, ...]
    """Without any event of these kinds there are no rows."""
    cell: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What counts are told apart by: column and expression."""
    counts: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Aggregates of each cell, beside the numbers of what was judged: over rows, and over parts of the cell."""
