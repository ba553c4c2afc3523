"""The life of one message is history from a recording's rows as they stand."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_conformance.demo.histories import (
    EventKind,
    Retry,
    duration,
    group_waits,
    history_of,
    retries_of,
)

COLUMNS = (
    "observer",
    "kind",
    "phase",
    "message_id",
    "group",
    "topic",
    "queue",
    "offset",
    "attempt",
    "client_id",
    "invisible_ms",
    "cfg",
)


def row(kind: str, seconds: float, **values: Any) -> dict[str, Any]:
    """One row of a broker's recording about message m."""
    columns = {"observer": "broker", "message_id": "m", "topic": "orders", "phase": "ok", **values}
    return {
        **dict.fromkeys(COLUMNS),
        **columns,
        "kind": kind,
        "t_wall_us": 1_000_000_000 + int(seconds * 1e6),
    }


ROWS = [
    row("deliver", 14.0, group="g", attempt=2, client_id="c2", phase=None),
    row("send", 0.0, queue=3, offset=7),
    row("deliver", 1.0, group="g", attempt=1, client_id="c1", phase=None),
    row("change", 2.0, group="g", attempt=1, invisible_ms=10_000),
    row("deliver", 3.0, group="another", attempt=1, client_id="c9", phase=None),
    row("dlq.deliver", 15.0, group="g", attempt=2, phase=None),
    row("send", 5.0, message_id="other"),
    row("ack", 6.0, group="g", phase="fail"),
]


def test_a_history_has_the_events_of_one_message_in_one_group_in_order() -> None:
    history = history_of(ROWS, message_id="m", group="g")
    assert [(event.at, event.kind) for event in history.events] == [
        (0.0, EventKind.STORED),
        (1.0, EventKind.DELIVERED),
        (2.0, EventKind.NACKED),
        (14.0, EventKind.DELIVERED),
        (15.0, EventKind.DEAD_LETTER),
    ]
    assert history.topic == "orders"


def test_a_message_that_was_never_stored_has_no_history() -> None:
    with pytest.raises(ValueError, match="no stored message 'unknown'"):
        history_of(ROWS, message_id="unknown", group="g")


def test_retries_have_observed_and_expected_waits_of_a_repeating_table() -> None:
    history = history_of(
        [
            row("send", 0.0),
            *(row("deliver", at, group="g", attempt=n) for n, at in enumerate((1, 12, 43, 74), start=1)),
        ],
        message_id="m",
        group="g",
    )
    assert retries_of(history, (10.0, 30.0)) == (
        Retry(1, 10.0, 11.0),
        Retry(2, 30.0, 31.0),
        Retry(3, 30.0, 31.0),
    )


def test_the_groups_table_is_the_last_one_recorded() -> None:
    settings = [
        row("config", 0.0, group="g", cfg=[("steps_ms", "1000")]),
        row("config", 1.0, group="other", cfg=[("steps_ms", "9")]),
        row("config", 2.0, group="g", cfg=[("steps_ms", "10000,30000")]),
    ]
    assert group_waits(settings, "g") == (10.0, 30.0)
    assert group_waits(settings, "nobody") == ()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (12.4, "12.4 s"), (60, "1 min"), (125, "2 min 5 s"), (7200, "2 h"), (5400, "1 h 30 min")],
)
def test_durations_are_formatted_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words
