"""The page: self-contained, well-formed, legible without its pictures; in a real browser painted in both themes."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import replace
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from aiorocketmq_audit.bars import latency_histogram, latency_names, letters_over_time, slice_names
from aiorocketmq_audit.figures import BUCKETS_S, Figures, Step, Subject
from aiorocketmq_audit.lanes import lane_chart
from aiorocketmq_audit.overview import BINS, LATENCY_S, Group, Overview
from aiorocketmq_audit.plots import bucket_names, lateness_histogram, ordering_strip, retry_ladder
from aiorocketmq_audit.recording.gates import Gates
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


OVERVIEW = Overview(
    (
        Group("broker", "shipping", 40, 0, 0, {}),
        Group("client", "bill<ing", 5, 2, 3, {"INV-EARLY": {"broken": 1}}),
    ),
    {"client": tuple(range(len(LATENCY_S) + 1))},
    {"broker": (0, 3) + (1,) * (BINS - 2)},
    0.5,
)


@pytest.fixture
def audit() -> Audit:
    tally = Tally(5, broken=1)
    result = CheckResult(
        "retry timing", Verdict.INVALID, ("1 broken promise(s).",), tally, {"INV-EARLY": {"broken": 1}}, True
    )
    numbers = Figures(
        5,
        3,
        2,
        3,
        5,
        5,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        2,
        0,
        {"retry asked for": 2},
        {1: 3, 2: 2},
        STEPS,
        LATENESS,
        {},
        None,
    )
    gates = Gates(20, ("r",), False, (), False, {}, (), 0, ("1",), 0, 7_000_000)
    samples = {"retry timing": (SAMPLE,)}
    return Audit(
        ("runs/<a>",), Verdict.INVALID, gates, (result,), numbers, samples, (SUBJECT,), EVENTS, OVERVIEW
    )


def test_the_page_fetches_nothing_and_runs_nothing(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?[^"'\s)#]+""", page) == []
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
    assert pictures == ["ladder-1", "latency", "lateness", "letters", "message-1", "order-1"]
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
        latency_histogram(OVERVIEW.latency),
        letters_over_time(OVERVIEW.letters, 0.5),
    ],
    ids=[
        "ladder",
        "empty ladder",
        "lateness",
        "order",
        "empty order",
        "message",
        "message without its beginning",
        "latency",
        "dead letters",
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


def test_each_group_has_its_verdict_with_what_it_rests_on(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    cells = ("bill&lt;ing", "client", "invalid", "INV-EARLY: 1 broken", "5", "2", "3")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "<td>shipping</td><td>broker</td><td>nothing broken</td><td>nothing</td><td>40</td>" in page


def test_a_rule_with_findings_has_a_verdict_of_its_own(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    assert "<td>retry timing</td><td>INV-EARLY</td><td>invalid</td><td>1</td><td>0</td><td>5</td>" in page


def test_everything_that_happened_to_the_message_of_a_finding_is_told(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    fold = page.partition("All that happened to M&lt;1&gt;")[2].partition("</details>")[0]
    assert fold.count("<tr>") == 1 + len(EVENTS)


def test_every_bar_of_the_new_pictures_has_a_name() -> None:
    assert len(latency_names()) == len(LATENCY_S) + 1
    assert len(slice_names(BINS, 0.5)) == BINS


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(audit: Audit, tmp_path: Path) -> None:
    page = write(audit, tmp_path).read_text("utf-8")
    boxes = re.findall(r'<div class="(?:scroll|picture)"([^>]*)>', page)
    assert len(boxes) > 6
    assert all('tabindex="0"' in box and "aria-label" in box for box in boxes)


def schema() -> dict[str, Any]:
    text = (files("aiorocketmq_audit") / "summary.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def test_the_summary_is_what_its_schema_says(audit: Audit) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(json.dumps(summary(audit)))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert set(document) == set(schema()["properties"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "perhaps"),
        (("checks", 0, "judged"), -1),
        (("groups", 0, "deliveries"), "many"),
        (("schema",), 2),
    ],
)
def test_the_schema_refuses_what_the_audit_would_not_say(
    audit: Audit, path: tuple[str | int, ...], value: object
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(json.dumps(summary(audit)))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not jsonschema.Draft202012Validator(schema()).is_valid(document)


BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
in_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium on this machine: apt-get install chromium"
)

DARK, LIGHT = 0, 1
"""Chromium's numbers of the schemes that a reader may prefer."""


def chromium(folder: Path, *options: str) -> str:
    assert BROWSER is not None
    always = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
    )
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [BROWSER, *always, profile, *options], capture_output=True, text=True, timeout=180, check=True
    )
    return done.stdout


def screenshot(page: Path, picture: Path, scheme: int, width: int, height: int) -> bytes:
    chromium(
        picture.parent,
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--window-size={width},{height}",
        f"--screenshot={picture}",
        page.as_uri(),
    )
    return picture.read_bytes()


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """The left upper pixel: its row's filter is none, or adds nothing there."""
    position, data = 8, b""
    while position < len(png):
        (size,), kind = struct.unpack(">I", png[position : position + 4]), png[position + 4 : position + 8]
        data += png[position + 8 : position + 8 + size] if kind == b"IDAT" else b""
        position += 12 + size
    raw = zlib.decompress(data)
    return raw[1], raw[2], raw[3]


@in_browser
@pytest.mark.parametrize(("scheme", "paper"), [(LIGHT, (0xFB, 0xFB, 0xF9)), (DARK, (0x14, 0x17, 0x1A))])
@pytest.mark.parametrize("width", [1000, 500])
def test_the_page_is_painted_in_the_theme_that_the_reader_prefers(
    audit: Audit, tmp_path: Path, scheme: int, paper: tuple[int, int, int], width: int
) -> None:
    picture = tmp_path / f"{'dark' if scheme == DARK else 'light'}-{width}.png"
    png = screenshot(write(audit, tmp_path), picture, scheme, width, 1400)
    assert png.startswith(b"\x89PNG")
    assert first_pixel(png) == paper
    if kept := os.environ.get("AUDIT_SCREENSHOTS"):
        shutil.copy(picture, kept)


MEASURE = """<script>
addEventListener("load", () => {
  const stops = [...document.querySelectorAll("a,summary,[tabindex='0']")];
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const seen = stops.filter(stop => { stop.focus(); return document.activeElement === stop; });
  const said = {width: document.documentElement.scrollWidth, room: innerWidth, stops: stops.length,
    focused: seen.length, pictures: document.querySelectorAll("svg").length,
    small: [...document.querySelectorAll("svg")].filter(one => one.getBoundingClientRect().width < 300).length};
  parent.postMessage(JSON.stringify(said), "*");
});
</script>"""

FRAME = """<!doctype html><body><p id="said"></p><iframe src="page.html" width="WIDTH" height="900"></iframe><script>
addEventListener("message", told => { document.getElementById("said").textContent = told.data; });
</script>"""


@in_browser
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_fits_the_screen_and_all_its_parts_can_be_reached_by_keyboard(
    audit: Audit, tmp_path: Path, width: int
) -> None:
    """The page itself has no script; what measures it is put into a copy."""
    page = write(audit, tmp_path).read_text("utf-8")
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{MEASURE}</body>"), "utf-8")
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), "utf-8")
    shown = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "frame.html").as_uri())
    found = re.search(r'<p id="said">(.*?)</p>', shown)
    assert found is not None
    said = json.loads(unescape(found[1]))
    assert said["width"] <= said["room"] <= width
    assert said["focused"] == said["stops"] > 10
    assert (said["pictures"], said["small"]) == (6, 0)
