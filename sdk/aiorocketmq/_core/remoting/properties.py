"""Text of a message's properties, read and written: `name 0x01 value 0x02` repeated; remoting-protocol.md 7.3."""

from __future__ import annotations

from collections.abc import Mapping

MAX_PROPERTIES = 32767
"""Bytes of a message's whole property text: its length is a signed 16-bit number."""

_NAME_END = "\x01"
_ENTRY_END = "\x02"


def read_properties(text: str) -> dict[str, str]:
    """Return the properties of any text; of a name that occurs twice, the last value.

    Drops entries without separator, name or value, as all clients do; the rule that an entry has three characters
    follows from this."""
    properties = {}
    for entry in text.split(_ENTRY_END):
        name, _, value = entry.partition(_NAME_END)
        if name and value:
            properties[name] = value
    return properties


def write_properties(properties: Mapping[str, str]) -> str:
    """Return the text of `properties`; ValueError for the control characters 0x01 and 0x02, and beyond 32,767 bytes.

    Leaves out empty names and values, which no reader would return."""
    for each in (*properties, *properties.values()):
        if _NAME_END in each or _ENTRY_END in each:
            raise ValueError(f"property {each!r} must not contain the control characters 0x01 and 0x02")
    present = [(name, value) for name, value in properties.items() if name and value]
    text = "".join(f"{name}{_NAME_END}{value}{_ENTRY_END}" for name, value in present)
    encode_text(text)
    return text


def encode_text(text: str) -> bytes:
    """Return a property text as stored; ValueError if it takes more than 32,767 bytes."""
    encoded = text.encode()
    if len(encoded) > MAX_PROPERTIES:
        raise ValueError(f"properties take {len(encoded):,} bytes; a message has at most {MAX_PROPERTIES:,}")
    return encoded
