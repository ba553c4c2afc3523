"""Makes docstrings fit for readers: code is code, rules are links, and notes that they do not have are left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RULE = re.compile(r"\bR\d+\.\d+\b")
PARENTHESIS = re.compile(r"\s?\(([^()]*)\)")
MEASURED = re.compile(r"\b(?:session|consumption|remoting)\s+§[\w.]+(?:,\s+§[\w.]+)*")
"""Notes of measurements on servers, by section."""
NOTES = re.compile(r"(?:\d+\.\d+|11|14|15)(?:\s+row\s+\d+)?|trap\s+\d+|O\d+")
"""Sections of the contract that the rules were taken from, and lists of what is easily misread in it."""


def for_readers(cited: re.Match[str]) -> str:
    """Return a parenthesis with the rules and measurements that it cites, and without the notes."""
    parts = re.split(r"[,;]\s+", MEASURED.sub("measured", cited[1]))
    kept = [part for part in dict.fromkeys(parts) if not NOTES.fullmatch(part)]
    if kept == parts and not MEASURED.search(cited[1]):
        return cited[0]
    return f" ({', '.join(kept)})" if kept else ""


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Rewrite one docstring: its indented blocks, which people read as code, are code for Sphinx as well."""
    rewritten: list[str] = []
    in_block = False
    for line in PARENTHESIS.sub(for_readers, "\n".join(lines)).split("\n"):
        indented = line.startswith("    ")
        after_blank = not rewritten or not rewritten[-1].strip()
        if indented and after_blank and not in_block:
            rewritten += [".. code-block:: python", ""]
            in_block = True
        elif line.strip() and not indented:
            in_block = False
        rewritten.append(line if indented else RULE.sub(r":doc:`\g<0> </reference/rules>`", line))
    lines[:] = rewritten


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True}
