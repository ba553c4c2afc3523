"""Tag expressions: `a || b`, or `*` for everything; remoting-protocol.md 6.8."""

from __future__ import annotations

_SEPARATOR = "||"
_SPACE = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` removes; Python's `strip` would also remove spaces that servers keep in tags."""


def parse_tags(expression: str) -> frozenset[str]:
    """Return the tags that `expression` names, empty if it is everything; ValueError if it names no tag."""
    if expression.strip(_SPACE) in ("", "*"):
        return frozenset()
    tags = frozenset(tag.strip(_SPACE) for tag in expression.split(_SEPARATOR)) - {""}
    if not tags:
        raise ValueError(f"tag expression {expression!r} names no tag; write 'a', 'a || b' or '*'")
    return tags


def matches_tags(tags: frozenset[str], tag: str | None) -> bool:
    """Whether a message with `tag`, or without one (None), matches `tags`, as returned by `parse_tags`.

    Brokers compare 32-bit hashes of tags only, so consumers must filter their answers again."""
    return not tags or tag in tags
