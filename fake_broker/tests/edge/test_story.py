"""What recordings and metrics make of a long story, value by value."""

from __future__ import annotations

import pytest
from aiorocketmq_fake.core.values.profiles import DOCUMENTED
from aiorocketmq_fake.edge.recording_rows import is_recorded, row_of

from fake_broker.tests.core.conftest import START, Desk
from fake_broker.tests.story import check, play, shown


def test_every_row_of_a_recording() -> None:
    desk = Desk(DOCUMENTED)
    for _ in play(desk):
        pass
    rows = [row_of(event) for event in desk.broker.take_events() if is_recorded(event)]
    begin = int(START * 1e6)
    check(
        "rows.txt",
        (
            " ".join(
                f"{name}={value - begin if name.endswith('_us') and isinstance(value, int) else shown(value)}"
                for name, value in row.items()
                if value is not None
            )
            for row in rows
        ),
    )


def test_every_number_of_the_metrics() -> None:
    pytest.importorskip("prometheus_client")
    from aiorocketmq_fake.edge.metrics import Metrics

    desk = Desk(DOCUMENTED)
    metrics = Metrics()
    observe = metrics.observer(desk.broker)
    pages = []
    for place, _ in enumerate(play(desk)):
        if place == 0:  # in the middle, with leases, polls and half messages
            observe(desk.broker.take_events())
            pages.append(metrics.page()[1].decode())
    observe(desk.broker.take_events())
    pages.append(metrics.page()[1].decode())
    check("metrics.txt", (line for page in pages for line in page.splitlines() if "_created" not in line))
