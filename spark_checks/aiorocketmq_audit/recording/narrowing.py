"""The part of a recording that an audit judges, and its tolerances: groups, a time range, clock skew.

The gates are evaluated for the whole recording; events are filtered afterwards. Operations that began before the range
count as not recorded, which never causes a finding: rules compare recorded events only, and exemptions are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.recording.schema import GRAIN

STAYING = ("config", "lite.sync", "fault", "tx.end")
"""Kinds of events that are kept whatever their time: settings of groups, lists of lite topics, faults, and ends of
transactions; as well as sends of transactions, and polls that reported a server as unavailable."""
AWAY = "away"
"""The `result` of such a poll, of any group."""


def away_polls() -> Column:
    """Return the condition for polls that reported a server as unavailable."""
    return (F.col("kind") == "receive") & F.col("result").eqNullSafe(AWAY)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Filters and tolerances; by default everything. Times in microseconds since 1970, on the observers' own clocks."""

    groups: tuple[str, ...] = ()
    from_us: int | None = None
    to_us: int | None = None
    early_ms: int | None = None
    """Tolerance for early deliveries, instead of the recording's own setting; None: as recorded."""
    skew_ms: int | None = None
    """Tolerated difference of clocks; None: 50 ms."""

    @property
    def is_cut(self) -> bool:
        """Whether answers of some calls may be filtered out."""
        return self.to_us is not None

    def events(self, events: DataFrame) -> DataFrame:
        """Return the events to judge."""
        chosen, away = events, away_polls()
        if self.groups:
            chosen = chosen.where(F.col("group").isNull() | F.col("group").isin(*self.groups) | away)
        if self.from_us is not None:
            is_half = (F.col("kind") == "send") & F.col("tx_id").isNotNull()
            # Broadcast assignments count as a setting of the group.
            is_broadcast = (F.col("kind") == "assign") & F.expr(f"{GRAIN} = 'broadcast'")
            stays = F.col("kind").isin(*STAYING) | is_half | away | is_broadcast
            chosen = chosen.where((F.col("t_wall_us") >= self.from_us) | stays)
        if self.to_us is not None:
            chosen = chosen.where(F.col("t_wall_us") <= self.to_us)
        return chosen

    def ended(self, ended_us: int | None) -> int | None:
        """Return the last instant that is judged."""
        if ended_us is None or self.to_us is None:
            return ended_us
        return min(ended_us, self.to_us)

    @property
    def skew_us(self) -> int:
        """The tolerated difference of clocks, in microseconds."""
        return 50_000 if self.skew_ms is None else self.skew_ms * 1000


EVERYTHING = Narrowing()
