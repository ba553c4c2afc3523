"""Converts messages of the control service to values and back, field by field of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_type_hints

from google.protobuf.message import Message

__all__ = ["fill", "read"]

V = TypeVar("V")


def fill(message: Message, value: object) -> None:
    """Copy the fields of a dataclass into a message that has them all; None stays unset, enums go by value."""
    for field in fields(value):  # type: ignore[arg-type]  # every value here is a dataclass
        item = getattr(value, field.name)
        if item is None:
            continue
        if is_dataclass(item):
            fill(getattr(message, field.name), item)
        elif isinstance(item, tuple):
            getattr(message, field.name).extend(item)
        elif isinstance(item, Mapping):
            getattr(message, field.name).update(item)
        else:
            setattr(message, field.name, item.value if isinstance(item, Enum) else item)


def read(kind: type[V], message: Message) -> V:
    """Return a dataclass from the message with its fields; an unset optional field becomes None."""
    hints = get_type_hints(kind)
    return kind(**{name: _read_field(hints[name], message, name) for name in hints})


def _read_field(hint: Any, message: Message, name: str) -> object:
    """Read one field; Any: a type hint has no type of its own."""
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    item = getattr(message, name)
    if is_dataclass(hint):
        return read(hint, item)  # type: ignore[arg-type]  # a class, not an instance
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(item)
    if isinstance(item, (str, bytes, bool, int, float)):
        return None if descriptor.has_presence and not message.HasField(name) else item
    return dict(item) if hasattr(item, "keys") else tuple(item)
