"""Drawings as values: shapes with coordinates in pixels and styles by name, which templates/drawing.svg renders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

WIDTH = 860.0
"""Width of a drawing that fills the page; a narrow one has half of it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One SVG element; `look` contains classes of templates/drawing.css, `tip` is its tooltip."""

    tag: str
    look: str
    at: Mapping[str, float | str]
    text: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing that scales with its container; title and description are for screen readers."""

    title: str
    description: str
    width: float
    height: float
    shapes: Sequence[Shape]


def _rounded(**places: float) -> dict[str, float | str]:
    return {name: round(value, 1) for name, value in places.items()}


def box(look: str, x: float, y: float, width: float, height: float, tip: str = "") -> Shape:
    """Return a rectangle with rounded corners; `x` and `y` are its upper left corner."""
    return Shape("rect", f"box {look}", _rounded(x=x, y=y, width=width, height=height, rx=2), tip=tip)


def dot(look: str, x: float, y: float, r: float, tip: str = "") -> Shape:
    """Return a disc; `x` and `y` are its centre."""
    return Shape("circle", f"dot {look}", _rounded(cx=x, cy=y, r=r), tip=tip)


def line(x1: float, y1: float, x2: float, y2: float, look: str = "grid") -> Shape:
    """Return a line, by default in the style of the grid."""
    return Shape("line", look, _rounded(x1=x1, y1=y1, x2=x2, y2=y2))


def text(x: float, y: float, content: str, look: str = "", tip: str = "") -> Shape:
    """Return a line of text; the styles `middle` and `end` set its alignment at x."""
    return Shape("text", look, _rounded(x=x, y=y), content, tip)


def legend(x: float, y: float, entries: Iterable[tuple[str, str]]) -> list[Shape]:
    """Return swatches with their names in one row; entries are (look, name)."""
    shapes = []
    for look, name in entries:
        shapes += [box(look, x, y - 9, 10, 10), text(x + 15, y, name)]
        x += 15 + 6.4 * len(name) + 18
    return shapes
