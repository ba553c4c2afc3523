"""The tables of the page about sessions are those of the code; run this file to write them anew."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from aiorocketmq._core import bounds
from aiorocketmq._core.session_states import CLIENT_TABLE, STREAM_TABLE
from aiorocketmq._core.settings import DEFAULT_CONSUMER_ATTEMPTS
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


def test_the_bounds_of_the_page_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = (
        f"| `receive_batch_size` | 1 to {bounds.MAX_RECEIVE_BATCH:,} |",
        f"| `long_polling_timeout` | {bounds.MIN_LONG_POLLING:g} s to {bounds.MAX_LONG_POLLING:g} s |",
        f"| `max_attempts` | 1 to {bounds.MAX_INT32:,} | otherwise {DEFAULT_CONSUMER_ATTEMPTS},",
        f"| {bounds.MAX_BACKOFF_STEPS:,} steps of 0 s to {bounds.MAX_BACKOFF:,.0f} s |",
        f"| 0 s to {bounds.MAX_BACKOFF:,.0f} s, multiplier {bounds.MIN_MULTIPLIER:g} to {bounds.MAX_MULTIPLIER:g} |",
        f"`max_lite_topic_size` | 1 to {bounds.MAX_INT32:,} |",
        f"| an endpoint of at most {bounds.MAX_ADDRESSES} addresses |",
        f"| queues | {bounds.MAX_QUEUES:,} |",
        f"| addresses of one server | {bounds.MAX_ADDRESSES}, ",
        f"| addresses of all queues | {bounds.MAX_ROUTE_ADDRESSES:,} |",
        f"| different servers | {bounds.MAX_SERVERS:,} |",
        f"| name of a broker | {bounds.MAX_BROKER_NAME} printable characters |",
        f"| queue id | {bounds.ALL_QUEUES} ",
        f"an error keeps {bounds.MAX_TEXT:,} characters",
    )
    assert [row for row in rows if row not in text] == []


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
