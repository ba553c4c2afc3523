"""Pages: short histories by name, each with everything that the audit must find in it; all are judged together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiorocketmq_audit.generator.injection import numbered

from spark_checks.tests.histories.history import SECOND, START, History

__all__ = ["PAGES", "SECOND", "START", "History", "Page", "Write", "history", "rows_of"]

Write = Callable[[History], None]


@dataclass(frozen=True, slots=True)
class Page:
    """One history."""

    write: Write
    found: frozenset[tuple[str, str]]
    """(invariant, verdict) pairs that must come out, and no others."""
    ordered: bool
    attested: bool
    """The broker recorded the group's settings, too, so that its own account of the group is there."""


PAGES: dict[str, Page] = {}
"""By their claims."""


def history(
    name: str, *found: tuple[str, str], ordered: bool = False, attested: bool = False
) -> Callable[[Write], Write]:
    """Register a page."""

    def register(write: Write) -> Write:
        assert name not in PAGES, f"two pages claim that {name}"
        PAGES[name] = Page(write, frozenset(found), ordered, attested)
        return write

    return register


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a page, in a case of its name, as its recorders would have written them."""
    page, h = PAGES[name], History(name)
    h.config(ordered=page.ordered, max_attempts=17, steps_ms="40000")
    if page.attested:
        h.rows[-1]["observer"] = "broker"
    page.write(h)
    recorders = sorted({row["recorder"] for row in h.rows})
    if len(recorders) == 1:
        return h.end().rows
    rows = []
    for recorder in recorders:
        mine = [row for row in h.rows if row["recorder"] == recorder and row["kind"] != "recorder.start"]
        constant = {key: h.rows[0][key] for key in ("run_id", "case_id", "boot", "observer")} | {
            "recorder": recorder
        }
        rows += numbered(mine, constant, (START, START))
    return rows
