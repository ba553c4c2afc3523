"""Following a recording: the same findings as the audit of the whole, each once, whatever the order of files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq._recording.files import SCHEMA
from aiorocketmq_audit.errors import NotARecording, WrongUse
from aiorocketmq_audit.run import audit
from aiorocketmq_audit.streaming import retention
from aiorocketmq_audit.streaming.batches import Limits, Told
from aiorocketmq_audit.streaming.command import run
from aiorocketmq_audit.streaming.following import Options, follow
from pyarrow import parquet
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Histories = tuple[Any, Any]
Key = tuple[str, str, str, str, int]

KINDS = (
    "ordering",
    "double delivery",
    "retry timing",
    "attempts",
    "dead letters",
    "delay",
    "filters",
    "loss",
    "origin",
)
KILLS = int(os.environ.get("AIOROCKETMQ_KILLS", "3"))
"""How often a follower is killed; `nox -s durability` does it ten times."""
SHORT = Limits(horizon=30, longest=600, lateness=20, settle=5)


@pytest.fixture
def faulty(plant: Callable[[str], Histories]) -> Histories:
    """One recording with a fault of every kind; it goes on for some minutes after the last one."""
    for kind in KINDS:
        normal, ordered = plant(kind)
    for number, at in enumerate(range(200, 500, 10)):
        normal.settle("ack", normal.deliver(f"/{1000 + number}", at), at + 1)
        ordered.send(f"w/{1000 + number}", at, broker="b", queue=3, offset=number)
        given = ordered.deliver(f"w/{1000 + number}", at + 1, queue=3, offset=number, body_sha="body")
        ordered.settle("ack", given, at + 2)
    return normal.end(), ordered.end()


@pytest.fixture
def pieces(record: Callable[..., Path]) -> Callable[[Iterable[Any], int], list[Path]]:
    """Write each history as several files, by time, as a recorder does that begins a new file now and then."""

    def write(histories: Iterable[Any], parts: int) -> list[Path]:
        files = []
        for history in histories:
            # Written by hand the rows of a history are not in the order of time; a recorder's are.
            rows = sorted(history.rows, key=lambda row: row["t_wall_us"])
            numbers = {row["seq"]: number for number, row in enumerate(rows)}
            for row in rows:
                row |= {"seq": numbers[row["seq"]], "invoked_seq": numbers.get(row["invoked_seq"])}
            size = -(-len(rows) // parts)
            for part in range(parts):
                history.rows = rows[part * size : (part + 1) * size]
                folder = record(history, name=f"part-{part}")
                made = folder / f"{rows[0]['recorder']}-00000.parquet"
                files.append(made.rename(folder / f"{rows[0]['recorder']}-{part:05}.parquet"))
            history.rows = rows
        return files

    return write


def laid_out(files: Iterable[Path], folder: Path) -> Path:
    """Copy files into a folder, so that they were finished one after the other."""
    folder.mkdir(parents=True)
    for number, file in enumerate(files):
        made = Path(shutil.copy(file, folder / file.name))
        os.utime(made, (1_700_000_000 + number, 1_700_000_000 + number))
    return folder


def told(spark: SparkSession, out: Path) -> Counter[Key]:
    # An empty folder has no schema, and nothing was told.
    if not list(out.rglob("violations/**/*.parquet")):
        return Counter()
    rows = spark.read.parquet(str(out / "violations")).collect()
    return Counter((r["check"], r.invariant, r.verdict, r.first_recorder, r.first_seq) for r in rows)


def test_following_finds_what_the_audit_finds_in_whatever_order_files_come(
    faulty: Histories, pieces: Callable[..., list[Path]], spark: SparkSession, tmp_path: Path
) -> None:
    files = pieces(faulty, 3)
    whole = laid_out(files, tmp_path / "whole")
    audit([str(whole)], spark=spark, checks=KINDS, violations=f"file://{tmp_path}/batch/violations")
    expected = told(spark, tmp_path / "batch")
    assert {check for check, *_ in expected} == set(KINDS)
    by_time, by_chance = sorted(files, key=lambda file: file.name[-13:]), random.Random(5)
    orders = (by_time, by_chance.sample(files, len(files)), by_chance.sample(files, len(files)))
    ways = zip(orders, (True, False, None), strict=True)
    for number, (order, screen) in enumerate(ways):
        folder, out = laid_out(order, tmp_path / f"order-{number}"), tmp_path / f"out-{number}"
        options = Options(until_complete=True, every=0.1, files_per_batch=3, screen=screen, limits=SHORT)
        ended = follow([str(folder)], out, spark=spark, checks=KINDS, options=options)
        assert told(spark, out) == expected
        assert (ended.verdict.value, ended.progress.late_rows) == ("invalid", 0)


@pytest.fixture
def lite(new_history: Callable[..., Any]) -> Any:
    """A consumer of lite topics that repeats its list for some minutes, removes one, and gets what it may not."""
    made = new_history(recorder="lite-", group="chat")
    made.config(ordered=False, max_attempts=17)
    who = {"topic": "t", "group": "chat", "client_id": "c1"}

    def tells(at: float, what: str, names: str, phase: str = "ok") -> None:
        cells = who | {"cfg": {what: names}, "op_id": f"list-{at}"}
        called = made.note("lite.sync", at, phase="invoke", **cells)
        made.note("lite.sync", at + 0.1, phase=phase, invoked_seq=called, **cells)

    tells(0, "all", "ann,bob,carol")
    tells(1, "remove", "carol", phase="info")
    tells(2, "remove", "ann")
    for number, at in enumerate(range(10, 500, 10)):
        if at % 30 == 0 and at < 300:
            tells(at, "all", "bob,carol")
        lite_topic = {0: "bob", 1: "carol"}.get(number % 4, "ann" if number % 4 == 2 else "dora")
        asked = made.note("receive", at + 5, phase="invoke", op_id=f"P{at}", **who)
        row = {"lite_topic": lite_topic, "invoked_seq": asked, "batch": f"P{at}"}
        made.settle("ack", made.deliver(f"/{number}", at + 6, **row), at + 7)
        made.note("receive", at + 8, phase="ok", op_id=f"P{at}", invoked_seq=asked, **who)
    return made.end()


def test_following_finds_lite_topics_that_nobody_wanted_by_lists_of_long_ago(
    lite: Any, pieces: Callable[..., list[Path]], spark: SparkSession, tmp_path: Path
) -> None:
    files, checks = pieces([lite], 3), ("filters",)
    audit(
        [str(laid_out(files, tmp_path / "whole"))],
        spark=spark,
        checks=checks,
        violations=f"file://{tmp_path}/batch/violations",
    )
    expected = told(spark, tmp_path / "batch")
    assert {(check, invariant, verdict) for check, invariant, verdict, *_ in expected} == {
        ("filters", "INV-ISOLATE", "broken")
    }
    assert expected.total() == 24
    options = Options(until_complete=True, every=0.1, files_per_batch=1, limits=SHORT)
    folder = laid_out(files, tmp_path / "runs")
    ended = follow([str(folder)], tmp_path / "out", spark=spark, checks=checks, options=options)
    assert told(spark, tmp_path / "out") == expected
    assert (ended.verdict.value, ended.progress.late_rows) == ("invalid", 0)


def test_lists_of_lite_topics_are_carried_from_the_latest_whole_one_on(
    lite: Any, frame: Callable[..., Any], spark: SparkSession
) -> None:
    begin = lite.rows[0]["t_wall_us"]
    window = retention.Window(begin + 100_000_000, begin)
    old = retention.kept(frame([lite]), window).events.where(
        f"kind = 'lite.sync' and t_wall_us < {window.done_before}"
    )
    seen = [((row.t_wall_us - begin) / 1e6, row.phase) for row in old.orderBy("t_wall_us").collect()]
    assert seen == [(1.1, "info"), (90.0, "invoke"), (90.1, "ok")]


def test_a_second_answer_to_a_call_of_an_earlier_batch_leaves_a_clean_recording_unknown(
    new_history: Callable[..., Any],
    pieces: Callable[..., list[Path]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    made = new_history(recorder="twice-")
    made.config(ordered=False, max_attempts=17)
    acks = [made.settle("ack", made.deliver(f"/{at}", at), at + 0.5) for at in range(1, 7)]
    answer = made.rows[acks[0]]
    again = {name: answer[name] for name in ("phase", "op_id", "message_id", "topic", "group", "delivery")}
    made.note("ack", 8, invoked_seq=answer["invoked_seq"], **again)
    files = pieces([made.end()], 2)
    folder = laid_out(files, tmp_path / "runs")
    sentence = (
        f"recorder {answer['recorder']} tells 1 call(s) or answer(s) twice: its operations are in doubt."
    )
    options = Options(until_complete=True, every=0.1, files_per_batch=1, limits=SHORT)
    ended = follow([str(folder)], tmp_path / "out", spark=spark, checks=("filters",), options=options)
    whole = audit([str(folder)], spark=spark, checks=("filters",))
    assert (ended.verdict.value, whole.verdict.value) == ("unknown", "unknown")
    assert ended.reasons == (sentence,)
    assert whole.gates.missing == (sentence,)


def test_a_clean_recording_is_valid_at_its_end_and_told_at_once_before(
    clean: Histories, pieces: Callable[..., list[Path]], spark: SparkSession, tmp_path: Path
) -> None:
    for history in clean:
        history.end()
    folder = laid_out(pieces(clean, 1), tmp_path / "runs")
    heard: list[Told] = []
    options = Options(until_complete=True, every=0.1, limits=SHORT)
    ended = follow([str(folder)], tmp_path / "out", spark=spark, options=options, tell=heard.append)
    document = json.loads((tmp_path / "out" / "following.json").read_text("utf-8"))
    assert (ended.verdict.value, ended.reasons[0]) == ("valid", "13 deliveries judged, none broken.")
    assert (document["verdict"], document["ended"], document["recorders"]) == (
        "valid",
        True,
        {"seen": 2, "ended": 2},
    )
    assert told(spark, tmp_path / "out") == Counter()


def test_a_violation_is_told_while_the_recording_goes_on_and_stopping_leaves_the_rest_unknown(
    plant: Callable[[str], Histories],
    pieces: Callable[..., list[Path]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    normal, _ = plant("double delivery")
    normal.settle("ack", normal.deliver("/50", 150.0), 151.0)
    folder = laid_out(pieces([normal], 1), tmp_path / "runs")
    stop, heard = threading.Event(), []

    def hear(told: Told) -> None:
        heard.append(told)
        stop.set()

    ended = follow(
        [str(folder)], tmp_path / "out", spark=spark, options=Options(every=0.1), stop=stop, tell=hear
    )
    assert [each.standing for each in heard] == [{"double delivery": 1}]
    assert ended.verdict.value == "invalid"
    assert not json.loads((tmp_path / "out" / "following.json").read_text("utf-8"))["ended"]


@pytest.mark.parametrize("screen", [None, False])
def test_rows_that_are_missing_within_a_file_are_told(
    screen: bool | None,
    new_history: type[Any],
    pieces: Callable[..., list[Path]],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """By a recorder whose name is written otherwise where files are named by URI."""
    made = new_history(recorder="client%20@1 ")
    made.config(ordered=False, max_attempts=16)
    for number in range(20):
        made.settle("ack", made.deliver(f"/{number}", 10.0 + number), 10.5 + number)
    made.end()
    del made.rows[30]
    for number, row in enumerate(made.rows):
        assert row["seq"] == number + (number >= 30)
    folder = tmp_path / "runs"
    folder.mkdir()
    table = pa.Table.from_pylist([{name: row[name] for name in SCHEMA.names} for row in made.rows], SCHEMA)
    parquet.write_table(table, folder / f"{made.rows[0]['recorder']}-00000.parquet")
    stop = threading.Event()
    options = Options(every=0.1, screen=screen, limits=SHORT)
    ended = follow(
        [str(folder)], tmp_path / "out", spark=spark, options=options, stop=stop, tell=lambda _: stop.set()
    )
    ((first, last), (then, end)) = (span[:2] for span in ended.progress.spans["client%20@1 "])
    assert (first, last, then, end) == (0, 29, 31, made.rows[-1]["seq"])


def test_files_that_are_no_recording_end_it_with_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "runs"))
    with pytest.raises(NotARecording, match="lack run_id"):
        follow([str(tmp_path / "runs")], tmp_path / "out", spark=spark, options=Options(every=0.1))


@pytest.mark.parametrize(
    ("recording", "out", "sentence"),
    [
        ("nowhere", "out", "is not a folder"),
        ("runs", "runs/out", "lies inside of the recording"),
        ("runs", None, "needs --out"),
    ],
)
def test_wrong_use_is_refused_with_a_sentence(
    recording: str, out: str | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    code = run(
        [str(tmp_path / recording)],
        None if out is None else str(tmp_path / out),
        (),
        None,
        as_json=False,
        until_complete=True,
        until_idle=None,
        horizon=None,
    )
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert sentence in said


def test_another_recording_needs_another_folder_for_its_findings(tmp_path: Path) -> None:
    state = tmp_path / "out" / "following" / "states" / "0"
    state.mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    (state / "progress.json").write_text('{"folders": ["/other"], "batch": 0, "spans": {}, "writers": {}}')
    with pytest.raises(WrongUse, match="follows /other"):
        follow([str(tmp_path / "runs")], tmp_path / "out")


FOLLOWER = """
import sys
from aiorocketmq_audit.spark.session import session
from aiorocketmq_audit.streaming.command import run

ends = {"as_json": False, "until_complete": True, "until_idle": None, "horizon": 120.0}
with session("local[1]"):
    code = run([sys.argv[1]], sys.argv[2], sys.argv[3:], None, **ends)
sys.exit(code)
"""
"""The command in a session for little data: one for much data compiles its queries for most of a minute. Its horizon
is longer than any message of `faulty` stays away: what comes back later is not known again."""


def started(folder: Path, out: Path, *checks: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", FOLLOWER, str(folder), str(out), *checks]
    with out.with_name("said").open("wb") as said:
        return subprocess.Popen(command, stdout=said, stderr=said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_after_the_batch_at_hand(
    number: signal.Signals,
    plant: Callable[[str], Histories],
    pieces: Callable[..., list[Path]],
    tmp_path: Path,
) -> None:
    normal, _ = plant("double delivery")
    normal.settle("ack", normal.deliver("/50", 150.0), 151.0)
    folder, out = laid_out(pieces([normal], 1), tmp_path / "runs"), tmp_path / "out"
    process = started(folder, out, "double delivery")
    deadline = time.monotonic() + 300
    while not (out / "following.json").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    code = process.wait(120)
    said = out.with_name("said").read_text("utf-8")
    assert (code, said.splitlines()[-2:-1]) == (1, ["invalid: 1 broken promise(s)."]), said
    assert len(list((out / "violations").glob("batch=0/*.parquet"))) == 1
    assert list((out / "following" / "states").glob(".*")) == []


def ended(file: Path) -> int:
    """When the last row of a file was written."""
    return max(parquet.read_table(file, columns=["t_wall_us"]).column(0).to_pylist())


def paths_of(out: Path) -> set[str]:
    """Everything below `out`: names hold the process or the batch, so each step of a batch makes new ones."""
    return {f"{folder}/{name}" for folder, folders, files in os.walk(out) for name in (*folders, *files)}


def wait_for_steps(process: subprocess.Popen[bytes], out: Path, steps: int) -> None:
    """Until so many new files or folders were made, or a batch has been reported."""
    before, summary = paths_of(out), out / "following.json"
    reported = summary.stat().st_mtime_ns if summary.exists() else 0
    seen, deadline = set(before), time.monotonic() + 240
    while len(seen) < len(before) + steps and process.poll() is None and time.monotonic() < deadline:
        if summary.exists() and summary.stat().st_mtime_ns != reported:
            return
        time.sleep(0.01)
        seen |= paths_of(out)


@pytest.mark.timeout(300 + 120 * KILLS)
def test_neither_kill_nor_restart_loses_or_repeats_a_finding(
    faulty: Histories, pieces: Callable[..., list[Path]], spark: SparkSession, tmp_path: Path
) -> None:
    """Killed at random points between two writes; every start goes on with what the last one left."""
    # One that is told at once, one that waits for the horizon, one that compares messages.
    checks = ("double delivery", "loss", "ordering")
    files = sorted(pieces(faulty, 10), key=ended)
    whole = laid_out(files, tmp_path / "whole")
    audit([str(whole)], spark=spark, checks=checks, violations=f"file://{tmp_path}/batch/violations")
    expected = told(spark, tmp_path / "batch")
    assert {check for check, *_ in expected} == set(checks)
    folder, out = tmp_path / "runs", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    chance = random.Random(11)
    for number in range(KILLS):
        for file in files[number * len(files) // KILLS : (number + 1) * len(files) // KILLS]:
            shutil.copy(file, folder / f".{file.name}")
            (folder / f".{file.name}").rename(folder / file.name)
        process = started(folder, out, *checks)
        wait_for_steps(process, out, chance.randint(1, 40))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, out.with_name("said").read_text("utf-8")
    code = started(folder, out, *checks).wait(300)
    assert code == 1, out.with_name("said").read_text("utf-8")
    # Who is told of later than others may wait for is judged as if it had not been there.
    assert json.loads((out / "following.json").read_text("utf-8"))["late_rows"] == 0
    assert told(spark, out) == expected
