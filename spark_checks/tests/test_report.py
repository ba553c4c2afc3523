"""What shows an audit: the page, self-contained and in a real browser painted in both themes; terminal; summary."""

from __future__ import annotations

import io
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
from aiorocketmq_audit.audit import Audit
from aiorocketmq_audit.evidence import Subject
from aiorocketmq_audit.figures import Figures, Step
from aiorocketmq_audit.frames.deliveries import LATENESS_S
from aiorocketmq_audit.frames.overview import LATENCY_S, Group, Overview
from aiorocketmq_audit.recording.gates import Gates
from aiorocketmq_audit.report.charts import bars, message_order, retry_ladder
from aiorocketmq_audit.report.drawing import Drawing
from aiorocketmq_audit.report.page import files as report_files, templates
from aiorocketmq_audit.report.sentences import SENTENCES, sentence
from aiorocketmq_audit.report.summary import summary
from aiorocketmq_audit.report.terminal import show
from aiorocketmq_audit.report.timeline import timeline
from aiorocketmq_audit.spark.metrics import SparkRun, Stage
from aiorocketmq_audit.text import duration, plain, volume
from aiorocketmq_audit.verdicts import CheckResult, Overall, Tally, Verdict
from rich.console import Console

SUBJECT = Subject("run", "", "client", "orders", "billing", "M<1>", "x")
STEPS = (
    Step("broker", "billing", 1, 4, 10.0, 10.0, 10.0, 10.1, 10.4),
    Step("broker", "billing", 2, 4, 30.0, 30.0, 15.0, 26.0, 30.0),
)
LATENESS = {
    "retry requested": (0, 1) + (2,) * (len(LATENESS_S) - 1),
    "lease ended": (0,) * (len(LATENESS_S) + 1),
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
        "finding": "",
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
        Group("broker", "shipping", {}, 40, 0, 0),
        Group("client", "bill<ing", {"INV-EARLY": {"broken": 1}}, 5, 2, 3),
    ),
    {"client": tuple(range(len(LATENCY_S) + 1))},
    {"broker": (0, 3) + (1,) * 40},
    0.5,
)


STAGES = (Stage("recorders", 0.9, 4), Stage("frame <deliveries>", 5.1, 8))
RUN = SparkRun("4.3.0", "local[2]", 9, 31, 1_482_113, 14.2, STAGES)


@pytest.fixture
def audit() -> Audit:
    tally = Tally(5, broken=1)
    result = CheckResult(
        "retry timing", Verdict.INVALID, ("1 broken promise(s).",), tally, {"INV-EARLY": {"broken": 1}}, True
    )
    numbers = Figures(
        deliveries=5,
        first_deliveries=3,
        redeliveries=2,
        dead_letters=3,
        traced=5,
        confirmed=5,
        recovered=0,
        unknown_order=0,
        causes={"retry requested": 2},
        attempts={1: 3, 2: 2},
        ladder=STEPS,
        lateness=LATENESS,
        farthest=None,
    )
    gates = Gates(20, ("r",), False, (), False, {}, (), 0, ("1",), 0, 7_000_000)
    samples: dict[str, tuple[dict[str, Any], ...]] = {"retry timing": (SAMPLE,)}
    silent = CheckResult("loss", Verdict.UNKNOWN, ("nothing to judge: no messages.",), Tally(0), {}, False)
    overall = Overall(Verdict.INVALID, ("loss",))
    results = (result, silent)
    return Audit(("runs/<a>",), overall, gates, results, numbers, samples, RUN, (SUBJECT,), EVENTS, OVERVIEW)


def document_of(audit: Audit) -> dict[str, Any]:
    return summary(audit, {"retry timing": "Not <too> early."})


def files_of(audit: Audit) -> dict[str, str]:
    return report_files(audit, document_of(audit))


def page_of(audit: Audit) -> str:
    return files_of(audit)["report.html"]


def printed(audit: Audit) -> str:
    out = io.StringIO()
    show(document_of(audit), Path("out"), Console(file=out, width=200))
    return out.getvalue()


def cell_text(page: str) -> str:
    """What stands in the page, without its tags."""
    return " ".join(re.sub("<[^>]+>", " ", page.partition("</style>")[2]).split())


def test_the_page_fetches_nothing_and_runs_nothing(audit: Audit) -> None:
    page = page_of(audit)
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?[^"'\s)#]+""", page) == []
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_recorded_text_is_escaped(audit: Audit) -> None:
    page = page_of(audit)
    assert "M&lt;1&gt;" in page
    for raw in ("M<1>", "runs/<a>", "bill<ing", "<too>"):
        assert raw not in page


def test_every_drawing_is_a_file_and_has_a_table_beside_it(audit: Audit) -> None:
    texts = files_of(audit)
    drawings = sorted(name for name in texts if name.endswith(".svg"))
    names = ("ladder-1", "latency", "lateness", "letters", "message-1")
    assert drawings == [f"plots/{name}.svg" for name in names]
    assert texts["report.html"].count("The same as a table") == len(drawings)
    assert set(texts) == {"report.html", "summary.json", *drawings}


def test_order_is_drawn_if_several_messages_of_a_group_were_delivered(audit: Audit) -> None:
    other = event("deliver", 5, 8, message_id="M2", offset=6)
    assert "plots/order-1.svg" in files_of(replace(audit, events=(*EVENTS, other)))


@pytest.mark.parametrize(
    "drawing",
    [
        retry_ladder(STEPS),
        retry_ladder(()),
        message_order([row for row in EVENTS if row["kind"] == "deliver"]),
        timeline(EVENTS),
        timeline(EVENTS[1:]),
        timeline([]),
        bars("Counts", "axis", {"broker": (1, 0), "client": (0, 2)}, [("a", ""), ("b", "1 s")]),
        bars("Counts", "axis", LATENESS, [("", "")] * 10, is_stacked=True, early=3),
        timeline([event("deliver", 1, 0, client_id='"<&\x00\x1b', message_id="\ud800")]),
    ],
    ids=[
        "ladder",
        "empty ladder",
        "order",
        "message",
        "message without its beginning",
        "no events",
        "bars beside each other",
        "bars upon each other",
        "hostile names",
    ],
)
def test_a_drawing_is_well_formed_and_describes_itself(drawing: Drawing) -> None:
    module: Any = templates().get_template("drawing.svg").module
    root = ElementTree.fromstring(str(module.draw(drawing, True)))
    name = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{name}svg"
    assert root.findtext(f"{name}title")
    assert root.findtext(f"{name}desc")
    assert all("nan" not in str(shape.at) for shape in drawing.shapes)


def looks(drawing: Drawing) -> list[str]:
    return [shape.look for shape in drawing.shapes]


def test_a_step_that_was_too_early_is_marked() -> None:
    assert "span bad" in looks(retry_ladder(STEPS))
    assert "span bad" not in looks(retry_ladder(STEPS[:1]))


def test_an_event_that_broke_a_rule_is_marked_with_it() -> None:
    drawing = timeline([*EVENTS[:2], EVENTS[2] | {"finding": "INV-EARLY"}])
    assert looks(drawing).count("box lease bad") == 2, "the legend and the lease"
    assert "INV-EARLY" in [shape.text for shape in drawing.shapes]


def test_the_page_marks_the_events_of_findings(audit: Audit) -> None:
    late = {**SAMPLE, "invariant": "INV-LATE", "second_recorder": None, "second_seq": None}
    both = {**SAMPLE, "invariant": "INV-EARLY-TOO"}
    page = cell_text(page_of(replace(audit, samples={"retry timing": (both, SAMPLE, late)})))
    assert "+0.000 s deliver c1 M&lt;1&gt; 7 1 30 s INV-LATE" in page, "nothing came after the first one"
    assert "30 s INV-EARLY-TOO, INV-EARLY" in page


def test_a_lease_ends_when_it_is_settled_or_changed() -> None:
    changed = [shape.tip for shape in timeline(EVENTS).shapes if "leased for" in shape.tip]
    assert changed == ["attempt 1 to c1, leased for 11 s ", "attempt 2 to c2, leased for 1 s "]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (0.25, "250 ms"), (10, "10 s"), (600, "10 min"), (7200, "2 h"), (-1, "-1 s")],
)
def test_durations_are_written_as_people_write_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_volumes_are_written_as_people_write_them() -> None:
    assert [volume(size) for size in (0, 812, 1_400_000, 2 * 10**15)] == [
        "0 B",
        "812 B",
        "1.4 MB",
        "2e+03 TB",
    ]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("orders::eu [x]", "orders::eu [x]"),
        ("a\x1b[31mb\r\n", r"a\u001b[31mb\u000d\u000a"),
        ("a\n::error::no", r"a\u000a\u003a\u003aerror::no"),
        ("::set-output name=x", r"\u003a\u003aset-output name=x"),
        ("##[group]", r"\u0023\u0023\u005bgroup]"),
        ("\x9b2J \u202e \u2028 \ud800 \x7f", r"\u009b2J \u202e \u2028 \ud800 \u007f"),
        ("größe 消息 👩\u200d🚀", "größe 消息 👩\u200d🚀"),
    ],
)
def test_plain_text_holds_nothing_that_a_terminal_obeys(raw: str, text: str) -> None:
    assert plain(raw) == text


HOSTILE = "\x1b]0;owned\x07\n::error::M"


def test_hostile_names_reach_neither_terminal_nor_page_raw(audit: Audit) -> None:
    sample = SAMPLE | {"message_id": HOSTILE, "group": "[red]g[/] :bomb:", "first_recorder": HOSTILE}
    rows = tuple(row | {"message_id": HOSTILE, "client_id": HOSTILE} for row in EVENTS)
    gates = replace(audit.gates, recorders=(HOSTILE,), missing=(f"{HOSTILE} is cut.",))
    bad = replace(
        audit,
        recording=(HOSTILE,),
        gates=gates,
        samples={"retry timing": (sample,)},
        events=rows,
        subjects=(replace(SUBJECT, message_id=HOSTILE),),
    )
    for text in (printed(bad), *files_of(bad).values()):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|^\s*::", text, re.MULTILINE)
    assert "[red]g[/] :bomb:" in printed(bad), "neither markup nor emoji"


def test_the_summary_is_json_with_a_version_of_its_own(audit: Audit) -> None:
    document = json.loads(files_of(audit)["summary.json"])
    assert (document["schema"], document["verdict"], document["silent"]) == (2, "invalid", ["loss"])
    assert document["checks"][0]["samples"][0]["message_id"] == "M<1>"
    assert document["checks"][0]["samples"][0]["text"] == (
        "M<1> was redelivered to group billing sooner than requested (by 5 s), observed by the client."
    )


def bare(audit: Audit) -> Audit:
    none = {"retry requested": (0,) * 10, "lease ended": (0,) * 10}
    numbers = replace(audit.numbers, deliveries=0, ladder=(), lateness=none)
    gates = replace(audit.gates, started_us=None, ended_us=None)
    return replace(
        audit,
        overall=Overall(Verdict.UNKNOWN, ("loss",)),
        gates=gates,
        numbers=numbers,
        samples={},
        subjects=(),
        events=(),
        overview=Overview(),
    )


def test_a_recording_without_deliveries_still_gives_a_page(audit: Audit) -> None:
    texts = files_of(bare(audit))
    assert set(texts) == {"report.html", "summary.json"}
    assert "unknown" in texts["report.html"]


@pytest.mark.parametrize("shown", [page_of, printed], ids=["page", "terminal"])
def test_checks_that_judged_nothing_stand_beside_the_verdict(audit: Audit, shown: Any) -> None:
    honest = CheckResult("retry timing", Verdict.VALID, ("5 judged.",), Tally(5), {}, True)
    valid = replace(
        audit, overall=Overall(Verdict.VALID, ("loss",)), checks=(honest, audit.checks[1]), samples={}
    )
    assert "nothing broken in 1 of 2 checks; nothing to judge: loss" in shown(valid)
    assert "1 broken in 1 of 2 checks; nothing to judge: loss" in shown(audit)
    required = replace(valid, overall=replace(valid.overall, required=("loss",)))
    assert "nothing broken in 1 of 2 checks; nothing to judge, though required: loss" in shown(required)


@pytest.mark.parametrize("shown", [page_of, printed], ids=["page", "terminal"])
def test_what_ran_in_spark_is_shown_with_its_stages(audit: Audit, shown: Any) -> None:
    assert "Spark 4.3.0, master local[2]: 9 jobs, 31 tasks, 1.48 MB shuffled, 14.2 s." in shown(audit)
    for stage in ("recorders", "frame &lt;deliveries&gt;" if shown is page_of else "frame <deliveries>"):
        assert stage in shown(audit)


@pytest.mark.parametrize("shown", [page_of, printed], ids=["page", "terminal"])
def test_what_spark_connect_does_not_tell_is_left_out(audit: Audit, shown: Any) -> None:
    part = replace(RUN, master="", jobs=0, tasks=0, shuffle_bytes=None, stages=())
    assert "Spark 4.3.0: 14.2 s." in shown(replace(audit, spark=part))


def test_reasons_of_the_whole_recording_are_printed_once(audit: Audit) -> None:
    cut = "Recorder r was cut."
    checks = tuple(replace(check, reasons=(*check.reasons, cut)) for check in audit.checks)
    torn = replace(audit, gates=replace(audit.gates, missing=(cut,)), checks=checks)
    assert printed(torn).count(cut) == page_of(torn).count(cut) == 1


def test_each_group_is_shown_with_its_findings(audit: Audit) -> None:
    text = cell_text(page_of(audit))
    assert "bill&lt;ing client INV-EARLY: 1 broken 5 2 3" in text
    assert "shipping broker none 40 0 0" in text
    assert text.index("bill&lt;ing client") < text.index("shipping broker"), "groups with findings come first"


def test_each_check_is_shown_with_the_rules_that_were_broken(audit: Audit) -> None:
    text = cell_text(page_of(audit))
    assert (
        "retry timing Not &lt;too&gt; early. INV-EARLY: 1 broken 1 broken promise(s). invalid 5 1 0 0" in text
    )
    assert "loss nothing to judge: no messages. nothing to judge 0 0 0 0" in text


def test_a_finding_links_to_the_history_of_its_message(audit: Audit) -> None:
    page = page_of(audit)
    assert '<a href="#message-1">history</a>' in page
    history = page.partition('<figure id="message-1">')[2].partition("</figure>")[0]
    assert history.count("<tr>") == 1 + len(EVENTS)


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(audit: Audit) -> None:
    boxes = re.findall(r'<div class="(?:scroll|picture)[^"]*"([^>]*)>', page_of(audit))
    assert len(boxes) > 6
    assert all('tabindex="0"' in box and "aria-label" in box for box in boxes)


@pytest.mark.parametrize("rule", [*SENTENCES, "INV-NEW"])
def test_every_rule_has_a_sentence_even_about_unknown_names(rule: str) -> None:
    check, _, invariant = rule.rpartition(" ")
    text = sentence(dict.fromkeys(SAMPLE) | {"check": check, "invariant": invariant, "observer": "broker"})
    assert text.endswith(", observed by the broker; possible, not certain.")
    assert "None" not in text
    assert "{" not in text


def schema() -> dict[str, Any]:
    text = (files("aiorocketmq_audit.report") / "summary.schema.json").read_text("utf-8")
    return dict(json.loads(text))


@pytest.mark.parametrize("is_bare", [False, True])
def test_the_summary_is_what_its_schema_says(audit: Audit, is_bare: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(json.dumps(document_of(bare(audit) if is_bare else audit)))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert set(document) == set(schema()["properties"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "perhaps"),
        (("checks", 0, "judged"), -1),
        (("groups", 0, "deliveries"), "many"),
        (("spark", "stages", 0, "tasks"), "all"),
        (("schema",), 1),
    ],
)
def test_the_schema_refuses_what_the_audit_does_not_write(
    audit: Audit, path: tuple[str | int, ...], value: object
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(json.dumps(document_of(audit)))
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
    (tmp_path / "report.html").write_text(page_of(audit), "utf-8")
    png = screenshot(tmp_path / "report.html", picture, scheme, width, 1400)
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
    (tmp_path / "page.html").write_text(page_of(audit).replace("</body>", f"{MEASURE}</body>"), "utf-8")
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), "utf-8")
    shown = chromium(tmp_path, "--virtual-time-budget=5000", "--dump-dom", (tmp_path / "frame.html").as_uri())
    match = re.search(r'<p id="said">(.*?)</p>', shown)
    assert match is not None
    report = json.loads(unescape(match[1]))
    assert report["width"] <= report["room"] <= width
    assert report["focused"] == report["stops"] > 10
    assert (report["pictures"], report["small"]) == (5, 0)
