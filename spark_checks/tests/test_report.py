"""The page: self-contained, well-formed, legible without its pictures."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from aiorocketmq_audit.figures import BUCKETS_S, Figures, Step, Subject
from aiorocketmq_audit.gates import Gates
from aiorocketmq_audit.lanes import lane_chart
from aiorocketmq_audit.plots import bucket_names, lateness_histogram, ordering_strip, retry_ladder
from aiorocketmq_audit.report import write
from aiorocketmq_audit.run import Audit
from aiorocketmq_audit.summary import summary
from aiorocketmq_audit.svg import duration
from aiorocketmq_audit.verdicts import CheckResult, Tally, Verdict

SUBJECT = Subject("run", "", "client", "orders", "billing", "M<1>", "x")
STEPS = (
    Step("broker", "billing", 1, 4, 10.0, 10.0, 10.0, 10.1, 10.4),
    Step("broker", "billing", 2, 4, 30.0, 30.0, 15.0, 26.0, 30.0),
)
LATENESS = {
    "retry asked for": (0, 1) + (2,) * (len(BUCKETS_S) - 1),
    "lease ended": (0,) * (len(BUCKETS_S) + 1),
}


def event(kind: str, seq: int, at_s: float, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run_id": "run",
        "case_id": "",
        "observer": "client",
        "recorder": "r",
        "topic": "orders",
        "group": "billing",
        "kind": kind,
        "seq": seq,
        "t_wall_us": round(at_s * 1e6),
        "invoked_us": None,
        "phase": None,
        "client_id": "c1",
        "broker": "b",
        "queue": 0,
        "offset": 7,
        "message_id": "M<1>",
        "message_group": "x",
        "attempt": 1,
        "invisible_ms": None,
        "reason": None,
        "result": None,
    }
    return row | more


EVENTS = (
    event("deliver", 1, 0, invisible_ms=30_000),
    event("change", 2, 1, phase="ok", invisible_ms=10_000, reason="retry"),
    event("deliver", 3, 6, invisible_ms=30_000, attempt=2, client_id="c2"),
    event("ack", 4, 7, phase="ok", attempt=2, client_id="c2"),
)
SAMPLE = {
    "check": "retry timing",
    "invariant": "INV-EARLY",
    "verdict": "broken",
    "run_id": "run",
    "case_id": "",
    "observer": "client",
    "topic": "orders",
    "group": "billing",
    "broker": "b",
    "queue": 0,
    "offset": 7,
    "message_group": "x",
    "message_id": "M<1>",
    "client_id": "c2",
    "attempt": 2,
    "margin_ms": 5000.0,
    "at_us": 6,
    "other_message_id": "M<1>",
    "other_client_id": "c1",
    "other_attempt": 1,
    "other_offset": 7,
    "first_recorder": "r",
    "first_seq": 1,
    "second_recorder": "r",
    "second_seq": 3,
}


@pytest.fixture
def audit() -> Audit:
    tally = Tally(5, broken=1)
    result = CheckResult(
        "retry timing", Verdict.INVALID, ("1 broken promise(s).",), tally, {"INV-EARLY": {"broken": 1}}, True
    )
    numbers = Figures(
        5, 3, 2, 3, 5, 5, 0, 0, 0, 0, 0, 2, 0, {"retry asked for": 2}, {1: 3, 2: 2}, STEPS, LATENESS, {}, None
    )
    gates = Gates(20, ("r",), False, (), False, {}, (), 0, ("1",), 0, 7_000_000)
    samples = {"retry timing": (SAMPLE,)}
    return Audit(("runs/<a>",), Verdict.INVALID, gates, (result,), numbers, samples, (SUBJECT,), EVENTS)


def test_the_page_fetches_nothing_and_runs_nothing(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?[^"'\s)]+""", page) == []
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_what_came_from_outside_is_escaped(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    assert "M&lt;1&gt;" in page
    assert "M<1>" not in page
    assert "runs/<a>" not in page


def test_every_picture_is_a_file_of_its_own_and_has_a_table_beside_it(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    pictures = sorted(path.stem for path in (tmp_path / "plots").iterdir())
    assert pictures == ["ladder-1", "lateness", "message-1", "order-1"]
    assert page.count("<figure>") == page.count("The same as a table") == len(pictures)


@pytest.mark.parametrize(
    "picture",
    [
        retry_ladder(STEPS),
        retry_ladder(()),
        lateness_histogram(LATENESS),
        ordering_strip([row for row in EVENTS if row["kind"] == "deliver"]),
        ordering_strip([]),
        lane_chart(EVENTS, frozenset({("r", 3)})),
        lane_chart(EVENTS[1:]),
    ],
    ids=[
        "ladder",
        "empty ladder",
        "lateness",
        "order",
        "empty order",
        "message",
        "message without its beginning",
    ],
)
def test_a_picture_is_well_formed_and_describes_itself(picture: str) -> None:
    root = ElementTree.fromstring(picture)
    name = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{name}svg"
    assert root.findtext(f"{name}title")
    assert root.findtext(f"{name}desc")
    assert "nan" not in picture.lower().replace("finance", "")


def test_a_step_that_was_seen_too_early_is_marked() -> None:
    assert retry_ladder(STEPS).count("#d6453d") > retry_ladder(STEPS[:1]).count("#d6453d")


def test_an_accused_delivery_is_marked_in_the_lanes() -> None:
    assert lane_chart(EVENTS, frozenset({("r", 3)})).count("#d6453d") > lane_chart(EVENTS).count("#d6453d")


def test_every_bucket_has_a_name() -> None:
    assert len(bucket_names()) == len(BUCKETS_S) + 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0"), (0.25, "250 ms"), (10, "10 s"), (600, "10 min"), (7200, "2 h"), (-1, "-1 s")],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_the_summary_is_json_with_a_version_of_its_own(audit: Audit) -> None:
    document = json.loads(json.dumps(summary(audit)))
    assert (document["schema"], document["verdict"]) == (1, "invalid")
    assert document["checks"][0]["samples"][0]["message_id"] == "M<1>"


def test_a_recording_without_deliveries_still_gives_a_page(audit: Audit, tmp_path: Path) -> None:
    nothing = replace(
        audit.numbers,
        deliveries=0,
        ladder=(),
        lateness={"retry asked for": (0,) * 10, "lease ended": (0,) * 10},
    )
    bare = replace(audit, numbers=nothing, samples={}, subjects=(), events=(), verdict=Verdict.UNKNOWN)
    assert "unknown" in write(bare, tmp_path).read_text("utf-8")
