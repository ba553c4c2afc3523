"""Prints what a server returned: JSON for machines, aligned columns for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import click

from aiorocketmq._core.bounds import one_line
from aiorocketmq._core.route import MessageQueue


def print_rows(values: Sequence[object], *, as_json: bool) -> None:
    """Print one row for each value, which all have the same fields; nothing for people if there is none."""
    rows = [plain(value) for value in values]
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        _print_table(rows)


# Any: what JSON can hold has no better type.
def plain(value: object) -> Any:
    """`value` as JSON values; a queue's topic, broker and number become fields of the object that has the queue."""
    if is_dataclass(value) and not isinstance(value, type):
        row: dict[str, Any] = {}
        for field in fields(value):
            item = getattr(value, field.name)
            if isinstance(item, MessageQueue):
                row |= {"topic": item.topic, "broker": item.broker, "queue": item.id}
            else:
                row[field.name] = plain(item)
        return row
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    return value.value if isinstance(value, Enum) else value


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    lines = [list(rows[0]), *([printable(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def printable(value: object) -> str:
    """One line of text: names come from servers and may hold control characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(name)}: {printable(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(printable, value))
    return one_line(str(value)) or "-"
