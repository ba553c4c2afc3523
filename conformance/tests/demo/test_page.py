"""The demonstration's page is one well-formed file that needs nothing from anywhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from aiorocketmq_conformance.demo.histories import EventKind, History, HistoryEvent, Retry
from aiorocketmq_conformance.demo.page import Card, JudgedCase, PageContent, page
from aiorocketmq_conformance.demo.shared_queues import Share

LIFE = History(
    "id<1>",
    "orders",
    "billing",
    (
        HistoryEvent(0.0, EventKind.STORED, None, "in queue 0"),
        HistoryEvent(1.0, EventKind.DELIVERED, 1, "attempt 1"),
        HistoryEvent(11.0, EventKind.DELIVERED, 2, "attempt 2"),
        HistoryEvent(12.0, EventKind.DEAD_LETTER, 2, "copied"),
    ),
)
SHOWN = PageContent(
    cards=[Card("17", "attempts", "good")],
    history=LIFE,
    retries=[Retry(1, 10.0, 10.0)],
    shares=[Share("a", (0, 1), (0, 2), 7), Share("b", (2,), (), 1)],
    leased_histories=[LIFE],
    judged={
        "fake": [JudgedCase("send.one", "A claim & more", "pass"), JudgedCase("fifo.two", "Another", "n/a")]
    },
    audit=[("ordering", "valid", "nothing to object to")],
    audit_page="audit/report.html",
    planted=None,
)
VOID = {"meta", "link", "br"}


class Balance(HTMLParser):
    """Counts what is open, and collects what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [
            value or "" for name, value in attrs if name == "src" or (tag == "link" and name == "href")
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_element_is_closed_and_nothing_is_loaded() -> None:
    parser = Balance()
    parser.feed(page(SHOWN))
    assert (parser.open, parser.loaded) == ([], [])
    assert "http" not in re.sub(r'xmlns="[^"]*"', "", page(SHOWN))


def test_text_from_outside_is_escaped() -> None:
    assert "id&lt;1&gt;" in page(SHOWN)
    assert "id<1>" not in page(SHOWN)


def test_the_shares_show_each_queue_with_and_without_the_member_that_left() -> None:
    text = page(SHOWN)
    (table,) = re.findall(r"<h2>Queues, shared.*?</table>", text)
    rows = re.findall(r"<tr><td>(\w)</td>(.*?)</tr>", table)
    assert [(name, re.findall(r'class="(\w+)"', cells)[:-1]) for name, cells in rows] == [
        ("a", ["cells", "pass", "pass", "na", "cells", "pass", "na", "pass"]),
        ("b", ["cells", "na", "na", "pass", "cells", "na", "na", "na"]),
    ]


def test_the_matrix_counts_what_passed_of_what_was_run() -> None:
    text = page(SHOWN)
    assert "1 of 2 passed" in text
    assert 'class="na" title="fifo.two: n/a. Another"' in text


def test_only_an_injected_fault_is_named() -> None:
    planted = PageContent(
        **{name: getattr(SHOWN, name) for name in SHOWN.__slots__ if name != "planted"}, planted="early retry"
    )
    assert "injected: early retry" in page(planted)
    assert "injected" not in page(SHOWN)
