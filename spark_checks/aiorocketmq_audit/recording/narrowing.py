"""What an audit is told to look at, and how much it lets pass: groups, a span of time, tolerances.

The gates judge the recording as a whole; only then are events left out. What began before the span is as if
nobody had recorded it, which never makes a finding: checks compare what they have, and what excuses stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, functions as F

from aiorocketmq_audit.recording.schema import GRAIN

STAYING = ("config", "lite.sync", "fault", "tx.end")
"""Kinds of events that count, however long ago they were: settings of groups, lists of lite topics, what was done to
servers, and ends of transactions; with these their sends, and polls that told that a server was away."""
AWAY = "away"
"""The `result` of such a poll, whatever group's it was."""


def away_polls() -> Column:
    """Polls that told so."""
    return (F.col("kind") == "receive") & F.col("result").eqNullSafe(AWAY)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Everything, unless said otherwise. Times in microseconds since 1970, on the observers' own clocks."""

    groups: tuple[str, ...] = ()
    from_us: int | None = None
    to_us: int | None = None
    early_ms: int | None = None
    """How much early is tolerated, whatever the recording's own settings say; None: as they say."""
    skew_ms: int | None = None
    """How far clocks may be apart; None: 50 ms."""

    @property
    def is_cut(self) -> bool:
        """Calls may have answers that are left out."""
        return self.to_us is not None

    def events(self, events: DataFrame) -> DataFrame:
        """The events to judge."""
        chosen, away = events, away_polls()
        if self.groups:
            chosen = chosen.where(F.col("group").isNull() | F.col("group").isin(*self.groups) | away)
        if self.from_us is not None:
            is_half = (F.col("kind") == "send") & F.col("tx_id").isNotNull()
            # That members share nothing is a setting of their group.
            is_broadcast = (F.col("kind") == "assign") & F.expr(f"{GRAIN} = 'broadcast'")
            stays = F.col("kind").isin(*STAYING) | is_half | away | is_broadcast
            chosen = chosen.where((F.col("t_wall_us") >= self.from_us) | stays)
        if self.to_us is not None:
            chosen = chosen.where(F.col("t_wall_us") <= self.to_us)
        return chosen

    def ended(self, ended_us: int | None) -> int | None:
        """The last instant that is judged."""
        if ended_us is None or self.to_us is None:
            return ended_us
        return min(ended_us, self.to_us)

    @property
    def skew_us(self) -> int:
        """How far clocks may be apart, in microseconds."""
        return 50_000 if self.skew_ms is None else self.skew_ms * 1000


EVERYTHING = Narrowing()
