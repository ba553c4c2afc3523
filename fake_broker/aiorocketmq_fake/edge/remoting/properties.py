"""The text of message properties: `name 0x01 value 0x02`, repeated (7.3)."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["join", "split"]

_NAME_END, _VALUE_END = "\x01", "\x02"


def split(text: str) -> dict[str, str]:
    """Read the text; entries without name or value are dropped, and the last end mark may be missing."""
    properties = {}
    for entry in text.split(_VALUE_END):
        name, _, value = entry.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def join(properties: Mapping[str, str]) -> str:
    """Write the text."""
    return "".join(f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in properties.items() if value)
