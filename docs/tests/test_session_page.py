"""The tables of the page about sessions are those of the code; run this file to write them anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from aiorocketmq._core.session_states import CLIENT_TABLE, STREAM_TABLE
from aiorocketmq._core.stop_states import TRANSITIONS

PAGE = Path(__file__).parents[1] / "explanation/session.md"
TABLES: dict[str, Mapping[tuple[Enum, Enum], Enum]] = {
    "client": CLIENT_TABLE,  # type: ignore[dict-item]  # its keys are narrower
    "stream": STREAM_TABLE,  # type: ignore[dict-item]
    "consumer": TRANSITIONS,  # type: ignore[dict-item]
}


def drawn(table: Mapping[tuple[Enum, Enum], Enum]) -> str:
    """A state machine as a Markdown table."""
    rows = [
        f"| {state.name} | {given.name.lower()} | {after.name} |" for (state, given), after in table.items()
    ]
    return "\n".join(["| in | on | goes to |", "|---|---|---|", *rows])


def page_with_tables(text: str) -> str:
    """The page with the tables as they are in the code."""
    for name, table in TABLES.items():
        marker = f"<!-- table: {name} -->"
        text = re.sub(
            re.escape(marker) + r"\n*(\|[^\n]*\n?)*\n*",
            lambda _, marker=marker, table=table: f"{marker}\n\n{drawn(table)}\n\n",  # type: ignore[misc]
            text,
        )
    return text.rstrip() + "\n"


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page_with_tables(text), f"run python {__file__}"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
