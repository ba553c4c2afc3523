"""Escapes text of other programs, so that terminals, editors and build servers do not interpret it.

The audit imports none of our packages and has the same rule in `aiorocketmq_audit.text`; a test compares them."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    # Control characters with line ends, what changes the direction of text, and lone surrogates.
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    # Commands of build servers: `::error::` before a line's text, `##[error]` anywhere.
    r"|(?<!\S)::(?=\w)|##\["
)


def plain(text: object) -> str:
    r"""Return `text` on one line, with such characters as `\u001b`."""
    return _UNSAFE.sub(lambda unsafe: "".join(map(escaped, unsafe[0])), str(text))


def escaped(char: str) -> str:
    r"""Return a character as `\u001b`."""
    return f"\\u{ord(char):04x}"


def plain_lines(text: str) -> str:
    """Return `text` with its line ends as they are, and each line as `plain` writes it."""
    return "\n".join(map(plain, text.replace("\r\n", "\n").split("\n")))
