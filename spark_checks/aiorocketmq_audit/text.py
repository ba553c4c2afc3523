"""Formatting of recorded text and numbers for people; recorded text is escaped before it reaches a terminal."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNSAFE = re.compile(
    # Control characters including line ends, bidirectional controls, and lone surrogates.
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    # Build servers interpret `::error::` at the start of a line and `##[error]` anywhere as commands.
    r"|(?<!\S)::(?=\w)|##\["
)


def plain(text: object) -> str:
    r"""Return `text` on one line with characters that terminals, editors or build servers interpret as `\u001b`."""
    return _UNSAFE.sub(lambda found: "".join(f"\\u{ord(char):04x}" for char in found[0]), str(text))


def duration(seconds: float) -> str:
    """Return a duration for people: 250 ms, 10 s, 4 min, 2 h."""
    size = abs(seconds)
    if size < 0.0005:
        return "0"
    if size < 1:
        return f"{seconds * 1000:.0f} ms"
    if size < 120:
        return f"{seconds:.3g} s"
    if size < 5400:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def instant(us: int) -> str:
    """Return microseconds since 1970 as a date and a time of day."""
    return f"{datetime.fromtimestamp(us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"


def volume(size: int) -> str:
    """Return a number of bytes for people: 812 B, 1.4 MB."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g} {units[0]}"
