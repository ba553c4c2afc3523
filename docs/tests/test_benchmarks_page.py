"""The page of benchmarks shows its raw data and nothing else, and a slower client or fake would not pass."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import audit_page, remoting_page
from benchmarks.page import demands, page, real_demands, rounds
from benchmarks.plan import OURS, SIZES, WORKS, Size

REFERENCE = Path(__file__).resolve().parents[1] / "reference"


@pytest.fixture
def run() -> dict[str, Any]:
    """The published run."""
    return dict(json.loads((REFERENCE / "benchmarks.json").read_text(encoding="utf-8")))


def test_the_page_is_what_its_raw_data_gives(run: dict[str, Any]) -> None:
    assert (REFERENCE / "benchmarks.md").read_text(encoding="utf-8") == page(run)


def test_the_page_of_remoting_is_what_its_raw_data_gives() -> None:
    sections = json.loads((REFERENCE / "remoting-speed.json").read_text(encoding="utf-8"))
    assert (REFERENCE / "remoting-speed.md").read_text(encoding="utf-8") == remoting_page.page(sections)


LIMITED = [(size, size.limit) for size in SIZES if size.limit is not None]


def test_every_demand_is_judged(run: dict[str, Any]) -> None:
    assert len(demands(run)) == sum(len(work.demands) for work in WORKS) + len(LIMITED)


def test_works_that_were_measured_apart_may_have_other_rounds(run: dict[str, Any]) -> None:
    run["results"] = {WORKS[0].title: {OURS: [{}] * 7}, WORKS[1].title: {OURS: [{}] * 3}, WORKS[2].title: {}}
    assert rounds(run) == "3 to 7"
    del run["results"][WORKS[1].title]
    assert rounds(run) == "7"


@pytest.mark.parametrize(("key", "factor"), [("rate", 0.1), ("cpu_us", 10.0)])
def test_a_producer_ten_times_as_slow_or_dear_does_not_pass(
    run: dict[str, Any], key: str, factor: float
) -> None:
    worse = copy.deepcopy(run)
    for result in worse["results"][WORKS[0].title][OURS]:
        result[key] *= factor
    assert not any(
        holds for words, holds in demands(worse) if WORKS[0].title in words and key[:3] in words.lower()
    )


@pytest.mark.parametrize(("size", "limit"), LIMITED, ids=[size.key for size, _ in LIMITED])
def test_what_is_slower_or_larger_than_allowed_does_not_pass(
    run: dict[str, Any], size: Size, limit: float
) -> None:
    worse = copy.deepcopy(run)
    worse["sizes"][size.key] = [limit * 1.01, limit * 1.02]
    assert [holds for words, holds in demands(worse) if words.startswith(size.title)] == [False]


def test_a_run_against_a_real_server_is_a_part_of_its_own_and_judged_alike(run: dict[str, Any]) -> None:
    run.pop("real", None)
    without = page(run)
    assert real_demands(run) == []
    run["real"] = {
        "version": "5.5.0",
        "effort": {"rounds": 1, "seconds": 1.0, "warm_up": 1.0, "queues": 4},
        "machine": run["machine"],
        "results": copy.deepcopy(run["results"]),
    }
    assert page(run).startswith(without)
    assert "## Against a real server" in page(run)
    assert all(holds for _, holds in real_demands(run)) == all(
        holds for _, holds in demands(run)[: len(real_demands(run))]
    )
    for result in run["real"]["results"][WORKS[0].title][OURS]:
        result["cpu_us"] *= 10
    assert not all(holds for _, holds in real_demands(run))


@pytest.fixture
def audit_speed() -> dict[str, Any]:
    """The published speed of the audit."""
    return dict(json.loads((REFERENCE / "audit-speed.json").read_text(encoding="utf-8")))


def test_the_page_of_the_audits_speed_shows_what_was_measured(audit_speed: dict[str, Any]) -> None:
    assert (REFERENCE / "audit-speed.md").read_text(encoding="utf-8") == audit_page.page(audit_speed)


def _row(engine: str, cpu: float, **more: Any) -> dict[str, Any]:
    return {
        "events": 20_000,
        "shape": audit_page.EVEN,
        "engine": engine,
        "seconds": cpu,
        "cpu_seconds": cpu,
    } | more


def test_an_audit_that_takes_more_cpu_does_not_hold() -> None:
    other = _row(audit_page.PLAIN, 10.0)
    for cpu, expected in ((45.0, True), (45.1, False)):
        rows = [other, _row(audit_page.WARM, cpu), _row(audit_page.AUDIT, 50.0)]
        assert [holds for _, holds in audit_page.demands({"runs": rows})] == [expected, True]


def test_faults_are_judged_beside_the_even_recording_of_their_own_size() -> None:
    even = _row(audit_page.AUDIT, 10.0)
    larger = even | {"events": 40_000, "cpu_seconds": 20.0}
    for cpu, expected in ((15.0, True), (15.1, False)):
        faulty = even | {"shape": audit_page.FAULTY, "cpu_seconds": cpu}
        judged = dict(audit_page.demands({"runs": [even, faulty, larger]}))
        (holds,) = (holds for text, holds in judged.items() if "fault" in text)
        assert holds is expected


@pytest.mark.parametrize(
    ("two", "agree", "expected"), [(9.0, True, [True, True]), (9.1, False, [False, False])]
)
def test_a_second_worker_that_saves_too_little_or_judges_otherwise_does_not_hold(
    two: float, agree: bool, expected: list[bool]
) -> None:
    workers = {"events": 10, "agree": agree, audit_page.ONE_WORKER: 10.0, audit_page.TWO_WORKERS: two}
    assert [holds for _, holds in audit_page.demands({"runs": [], "workers": workers})] == expected


def test_what_is_measured_again_takes_the_place_of_what_was_published() -> None:
    row = _row(audit_page.AUDIT, 1.0)
    other = row | {"events": 20}
    before = {"runs": [row, other], "follow": {"events": 1}}
    now = audit_page.merged(before, {"runs": [row | {"seconds": 2.0}]})
    assert now == {"runs": [other, row | {"seconds": 2.0}], "follow": {"events": 1}}
