"""SVG by hand: elements, text, durations. Nothing is fetched, no script runs, light and dark follow the page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

# Pages may set these variables; the fallbacks are legible on white and on near-black.
INK = "currentColor"
GOOD = "var(--audit-good, #1a9c6b)"
BAD = "var(--audit-bad, #d6453d)"
WARN = "var(--audit-warn, #c98a04)"
ACCENT = "var(--audit-accent, #3b7dd8)"
SECOND = "var(--audit-second, #9a63d6)"
FAINT = 0.16
"""Opacity of grid lines."""


def element(tag: str, content: str = "", **attributes: object) -> str:
    """One element; underscores in names become hyphens, None is left out, numbers are rounded to a tenth."""
    texts = []
    for name, value in attributes.items():
        if value is not None:
            text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
            texts.append(f' {name.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return f"<{tag}{''.join(texts)}>{content}</{tag}>" if content else f"<{tag}{''.join(texts)}/>"


def tip(text: str) -> str:
    """A tooltip, to be put inside an element."""
    return f"<title>{escape(text)}</title>"


def text(x: float, y: float, content: str, *, anchor: str = "start", size: float = 11, **more: object) -> str:
    """A line of text."""
    return element("text", escape(content), x=x, y=y, text_anchor=anchor, font_size=size, fill=INK, **more)


def line(x1: float, y1: float, x2: float, y2: float, **more: object) -> str:
    """A line, faint unless told otherwise."""
    look: dict[str, object] = {"stroke": INK, "stroke_opacity": FAINT} | more
    return element("line", "", x1=x1, y1=y1, x2=x2, y2=y2, **look)


def drawing(width: float, height: float, parts: Iterable[str], *, title: str, description: str) -> str:
    """A whole picture that scales with its place; title and description are for those who do not see it."""
    head = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return element(
        "svg",
        head + "".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=title,
        style=f"width:100%;max-width:{width:.0f}px;height:auto;font-family:inherit",
    )


def legend(x: float, y: float, entries: Iterable[tuple[str, str]]) -> str:
    """Swatches with their names, in one row: (colour, name)."""
    parts = []
    for colour, name in entries:
        parts.append(element("rect", x=x, y=y - 9, width=10, height=10, rx=2, fill=colour))
        parts.append(text(x + 15, y, name))
        x += 15 + 6.4 * len(name) + 18
    return "".join(parts)


def duration(seconds: float) -> str:
    """A duration as people say it: 250 ms, 10 s, 4 min, 2 h."""
    size = abs(seconds)
    if size < 0.0005:
        return "0"
    if size < 1:
        return f"{seconds * 1000:.0f} ms"
    if size < 120:
        return f"{seconds:.3g} s"
    if size < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"
