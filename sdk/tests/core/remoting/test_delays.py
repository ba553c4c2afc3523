"""Delay levels and instants."""

from __future__ import annotations

import pytest
from aiorocketmq._core.remoting.delays import LEVELS, delay_properties, level_of


def test_the_levels_are_those_of_brokers() -> None:
    assert LEVELS == (
        1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, 1), (1, 1), (1.01, 2), (5, 2), (11, 4), (600, 14), (601, 15), (7200, 18), (9999, 18)],
)
def test_a_level_lasts_at_least_as_long_as_asked(seconds: float, level: int) -> None:
    assert level_of(seconds) == level


@pytest.mark.parametrize(
    ("version", "delay", "properties"),
    [
        (412, 10.0, {"DELAY": "3"}),
        (412, 11, None),
        (412, None, None),
        (413, 10, {"TIMER_DELIVER_MS": "1700000000123"}),
        (513, None, {"TIMER_DELIVER_MS": "1700000000123"}),
    ],
)
def test_brokers_from_5_0_on_take_an_instant(
    version: int, delay: float | None, properties: dict[str, str] | None
) -> None:
    assert delay_properties(due_us=1_700_000_000_123_456, delay=delay, version=version) == properties
