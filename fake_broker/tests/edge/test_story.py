"""What recordings and metrics make of a long story, value by value."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED
from aiorocketmq_fake.edge.recording_rows import is_recorded, row_of

from fake_broker.tests.chapters.listed import CHAPTERS, TURNED, read
from fake_broker.tests.core.conftest import START, Desk
from fake_broker.tests.story import check, play, shown


def page(row: Mapping[str, object]) -> str:
    """Show the cells of a row that have a value, times since the start."""
    begin = int(START * 1e6)
    return " ".join(
        f"{name}={value - begin if name.endswith('_us') and isinstance(value, int) else shown(value)}"
        for name, value in row.items()
        if value is not None
    )


def test_every_row_of_a_recording() -> None:
    desk = Desk(DOCUMENTED)
    for _ in play(desk):
        pass
    rows = [row_of(event) for event in desk.broker.take_events() if is_recorded(event)]
    check("rows.txt", map(page, rows))


def test_a_row_of_each_kind_of_event_in_all_chapters() -> None:
    """The first two of each, as the story has not all of them."""
    rows: dict[str, list[str]] = {}
    for profile in (DOCUMENTED, APACHE_5_5, TURNED):
        for chapter in CHAPTERS:
            for event in filter(is_recorded, read(profile, chapter).events):
                told = rows.setdefault(type(event).__name__, [])
                if len(told) < 2:
                    told.append(page(row_of(event)))
    check("rows_of_chapters.txt", [f"{kind} {row}" for kind, told in sorted(rows.items()) for row in told])


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
