"""Prints the result of a command: JSON for machines, a table for people."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from typing import Any

from aiorocketmq.wire.plain_text import plain

__all__ = ["show"]


def show(result: object, *, as_json: bool) -> None:
    """Print a result of `fake ctl`; None prints nothing for people and null for machines."""
    values = _values(result)
    if as_json:
        print(json.dumps(values))
    elif isinstance(values, list):
        silent = _silent(result)
        _table([{name: item for name, item in row.items() if name not in silent} for row in values])
    elif isinstance(values, dict):
        for name, value in values.items():
            print(f"{plain(name)}: {_cell(value)}")


def _silent(rows: object) -> set[str]:
    """Return the columns with default values only, which tables omit."""
    if not isinstance(rows, (list, tuple)) or not rows or not is_dataclass(rows[0]):
        return set()
    return {
        field.name
        for field in fields(rows[0])
        if all(getattr(row, field.name) == field.default for row in rows)
    }


# Any: what JSON can hold has no better type.
def _values(value: object) -> Any:
    """Convert values to JSON; bytes become text if they are UTF-8, else base64."""
    if is_dataclass(value) and not isinstance(value, type):
        return _values(
            {name: item for name, item in asdict(value).items() if not isinstance(item, dict) or item}
        )
    if isinstance(value, Mapping):
        return {str(name): _values(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_values(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return value


def _table(rows: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [name for name, item in rows[0].items() if not isinstance(item, dict)] if rows else []
    table = Table(*columns) if columns else Table("nothing")
    for row in rows:
        # As Text: names in brackets would be parsed as markup.
        table.add_row(*(Text(_cell(row.get(name))) for name in columns))
    # No truncation in a pipe; a terminal has a width.
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return "" if value is None else plain(value)
