"""Prints the result of a command: JSON for machines; for people columns, or lines if columns are too wide."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import click

from aiorocketmq._core.bounds import one_line
from aiorocketmq._core.route import MessageQueue

_EMPTY: tuple[object, ...] = (None, "", [], {})


def show(result: object, *, as_json: bool, hidden: Collection[str] = ()) -> None:
    """Print a list as one row for each value, another value as one line for each field; None is null in JSON.

    Times are in UTC in JSON, local for people. They get no `hidden` fields and none that are empty everywhere."""
    values = plain(result)
    if as_json:
        click.echo(json.dumps(values, default=_utc))
    elif isinstance(values, list):
        _print_rows([{name: item for name, item in row.items() if name not in hidden} for row in values])
    elif isinstance(values, dict):
        for name, value in values.items():
            click.echo(f"{one_line(name)}: {printable(value)}")


# Any: what JSON can hold has no better type.
def plain(value: object) -> Any:
    """Return `value` as JSON values and datetimes; a queue's topic, broker and number become fields of its owner."""
    if is_dataclass(value) and not isinstance(value, type):
        return _row({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return _row(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _row(items: Mapping[Any, object]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, item in items.items():
        if isinstance(item, MessageQueue):
            row |= {"topic": item.topic, "broker": item.broker, "queue": item.id}
        elif isinstance(item, bytes):
            try:
                row[name] = item.decode()
            except UnicodeDecodeError:
                row[f"{name}_base64"] = base64.b64encode(item).decode()
        else:
            row[str(name)] = plain(item)
    return row


def _utc(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds")


def _print_rows(rows: Sequence[Mapping[str, object]]) -> None:
    """Print columns; in a terminal that is too narrow for them, the fields of each row as lines."""
    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(row.get(name) not in _EMPTY for row in rows)
    ]
    # Bodies are the longest, and the columns behind them would move far to the right.
    names.sort(key=lambda name: name.startswith("body"))
    cells = [[printable(row.get(name)) for name in names] for row in rows]
    lines = _aligned([names, *cells]) if rows else []
    if sys.stdout.isatty() and max(map(len, lines), default=0) > shutil.get_terminal_size().columns:
        blocks = [
            _aligned([pair for pair in zip(names, row, strict=True) if pair[1] != "-"]) for row in cells
        ]
        lines = [line for block in blocks for line in ("", *block)][1:]
    for line in lines:
        click.echo(line)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def printable(value: object) -> str:
    """One line of text: names come from servers and may hold control characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return value.astimezone().isoformat(timespec="milliseconds")
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(name)}: {printable(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return " ".join(map(printable, value)) or "-"
    return one_line(str(value)) or "-"
