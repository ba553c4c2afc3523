"""Prints the results of `fake ctl` as the other commands print theirs, with instants as times."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from aiorocketmq.cli import tables

__all__ = ["show"]

INSTANTS = frozenset(
    {"at", "born_at", "deliver_at", "ends_at", "last_seen", "next_deadline", "now", "stored_at", "visible_at"}
)
"""Fields that hold Unix seconds."""


def show(result: object, *, as_json: bool, hidden: Collection[str] = ()) -> None:
    """Print a result as `tables.show`; for people, None and an empty list print nothing."""
    tables.show(_dated(tables.plain(result)), as_json=as_json, hidden=hidden)


# Any: what JSON can hold has no better type.
def _dated(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _time(item) if name in INSTANTS else _dated(item) for name, item in value.items()}
    return [_dated(item) for item in value] if isinstance(value, list) else value


def _time(value: Any) -> Any:
    if isinstance(value, list):
        return [_time(item) for item in value]
    return datetime.fromtimestamp(value, UTC) if isinstance(value, (int, float)) else value
