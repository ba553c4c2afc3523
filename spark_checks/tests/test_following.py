"""Following a recording: the same findings as the audit of the whole, each once, whatever happens in between."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq.recording_format import arrow_schema
from aiorocketmq_audit.audit import audit, examined
from aiorocketmq_audit.cli import audit as command
from aiorocketmq_audit.engine import materialized
from aiorocketmq_audit.errors import InvalidRecordingError
from aiorocketmq_audit.frames.settings import settings
from aiorocketmq_audit.generator.faults import KINDS
from aiorocketmq_audit.judgement import judge
from aiorocketmq_audit.recording import files
from aiorocketmq_audit.recording.narrowing import EVERYTHING
from aiorocketmq_audit.rules import CHECKS
from aiorocketmq_audit.spark.metrics import Running
from aiorocketmq_audit.streaming import batches
from aiorocketmq_audit.streaming.batches import Batches, Limits
from aiorocketmq_audit.streaming.following import Options, follow
from aiorocketmq_audit.streaming.retention import kept
from aiorocketmq_audit.streaming.state import State
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from spark_checks.tests.bench import scene
from spark_checks.tests.histories import PAGES, SECOND, START, History, rows_of
from spark_checks.tests.histories.locks import lock
from spark_checks.tests.judging import recorders

pytestmark = pytest.mark.spark

Rows = list[dict[str, Any]]
Finding = tuple[str, str, str | None, str, int]
"""Invariant, verdict, exemption, and recorder and number of the event by which it is known."""

SHORT = Limits(horizon_us=30 * SECOND, longest_us=600 * SECOND, lateness_us=20 * SECOND, settle_us=5 * SECOND)
CHECKED = ("double delivery", "loss", "ordering")
"""One that is reported at once, one that waits for the horizon, one that compares messages."""
KILLS = int(os.environ.get("AIOROCKETMQ_KILLS", "2"))
"""How often a follower is killed; `nox -s durability` does it ten times."""


def write(folder: Path, name: str, rows: Rows) -> None:
    """Write rows as a file that is complete as soon as it can be seen."""
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, arrow_schema()), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def by_time(rows: Iterable[dict[str, Any]], seconds: Sequence[float]) -> list[Rows]:
    """What recorders had written by these times since START, from one to the next."""
    latest, parts = defaultdict[str, int](int), [Rows() for _ in seconds]
    for row in sorted(rows, key=lambda row: (row["recorder"], row["seq"])):
        at = latest[row["recorder"]] = max(latest[row["recorder"]], row["t_wall_us"])
        parts[sum(START + part * SECOND < at for part in seconds)].append(row)
    return parts


def found(findings: DataFrame, names: Mapping[int, str]) -> Counter[Finding]:
    event = batches.identifying_event()
    rows = findings.select("invariant", "verdict", "exemption", event["recorder"], event["seq"]).collect()
    return Counter((*row[:3], names[row[3]], row[4]) for row in rows)


BACK_TOO_LATE = {("INV-FAILED", "failed.hours-later"), ("INV-RECALL", "recall.comes-much-later")}
"""Messages that come back when they are forgotten, as the how-to says."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_following_finds_what_the_audit_of_the_whole_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages and scenes in uneven parts; some recorders come later than others, and some are killed."""
    rows = [row for name in PAGES for row in rows_of(name)]
    rows += [row for number, name in enumerate(KINDS) for row in scene(name, number, START)]
    killed = sorted({row["recorder"] for row in rows if row["recorder"] not in KINDS})[::5]
    rows = [row for row in rows if row["kind"] != "recorder.end" or row["recorder"] not in killed]
    write(tmp_path / "whole", "all-00000.parquet", rows)
    recording, gate = examined(spark, files.find((f"{tmp_path}/whole",)), EVERYTHING, Running(spark))
    names = recorders(recording)
    judgement = judge(recording, gate, tuple(CHECKS), Running(spark).stage)
    assert judgement.findings is not None
    expected = found(judgement.findings, names)

    findings = Counter[Finding]()

    def heard(rows: DataFrame) -> DataFrame:
        batch = materialized(rows)
        if "key" in batch.columns:
            findings.update(found(batch, names))
        return batch

    monkeypatch.setattr(batches, "materialized", heard)
    parts, late = by_time(rows, (10.2, 30, 65, 160, 1e6)), set(sorted(names.values())[::7])
    runs, of_late = tmp_path / "runs", [[row for row in part if row["recorder"] in late] for part in parts]
    # Who comes late is known by a file that is being written.
    runs.mkdir()
    (runs / "late-00000.parquet.open").touch()
    of_late[:2] = [[], of_late[0] + of_late[1]]
    following = Batches(
        spark, tmp_path / "out", tuple(CHECKS), SHORT, State(folders=[str(runs)]), lambda *_: None
    )
    for number, part in enumerate(parts):
        write(runs, f"all-{number:05}.parquet", [row for row in part if row["recorder"] not in late])
        write(runs, f"late-{number:05}.parquet", of_late[number])
        new = [f"{runs}/{name}-{number:05}.parquet" for name in ("all", "late")]
        following.take(new[: 1 + bool(of_late[number])], number)
    following.close()
    assert {(each[0], each[3]) for each in expected - findings} == BACK_TOO_LATE
    assert not findings - expected
    standing = sum(n for each, n in findings.items() if each[1] != "exempted")
    assert len(written(spark, tmp_path / "out")) == standing
    assert sum(following.state.findings.values()) == findings.total()


def written(spark: SparkSession, out: Path, name: str = "findings") -> list[Any]:
    """What was written there; an empty folder has no schema, and nothing was found."""
    return spark.read.parquet(f"{out}/{name}").collect() if list(out.glob(f"{name}/**/*.parquet")) else []


def keys(rows: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    return Counter((row.invariant, row.verdict, row.first_recorder, row.first_seq) for row in rows)


@pytest.fixture
def parts(plant: Callable[[str], tuple[History, History]]) -> list[dict[str, Rows]]:
    """By recorder: what two recorders with three faults wrote, in four parts; the recording continues for minutes."""
    for kind in CHECKED:
        histories = plant(kind)
    result: list[dict[str, Rows]] = [{} for _ in range(4)]
    for history in histories:
        for number, at in enumerate(range(200, 500, 20)):
            history.settle("ack", history.deliver(f"w/{1000 + number}", at, queue=3, offset=number), at + 1)
        history.end()
        # Written by hand the rows are not in the order of time; a recorder's are.
        rows = sorted(history.rows, key=lambda row: (row["t_wall_us"], row["seq"]))
        numbers = {row["seq"]: number for number, row in enumerate(rows)}
        for row in rows:
            row |= {"seq": numbers[row["seq"]], "invoked_seq": numbers.get(row["invoked_seq"])}
        for number, part in enumerate(by_time(rows, (60, 101.5, 300, 1e6))):
            result[number][rows[0]["recorder"]] = part
    return result


def add(parts: Iterable[Mapping[str, Rows]], folder: Path, first: int = 0) -> Path:
    for number, part in enumerate(parts, first):
        for recorder, rows in part.items():
            write(folder, f"{recorder}-{number:05}.parquet", rows)
    return folder


@pytest.fixture
def expected(parts: list[dict[str, Rows]], spark: SparkSession, tmp_path: Path) -> Counter[tuple[Any, ...]]:
    whole = add(parts, tmp_path / "whole")
    audit([str(whole)], spark=spark, checks=CHECKED, violations=f"file://{tmp_path}/batch/violations")
    return keys(written(spark, tmp_path / "batch", "violations"))


def once() -> threading.Event:
    """A wish to stop after the next look."""
    stop = threading.Event()
    stop.set()
    return stop


class Crashed(Exception):
    """As if the process had ended here."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whatever_is_interrupted_is_done_again_and_nothing_is_reported_twice(
    parts: list[dict[str, Rows]],
    expected: Counter[tuple[Any, ...]],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped between two batches; ended after findings were written, and after the state was, before Spark knows."""
    assert {each[0] for each in expected} == {"INV-EXCL", "INV-LOSS-MID", "INV-ORD-FIRST"}
    runs, out, options = tmp_path / "runs", tmp_path / "out", Options(until_complete=True, limits=SHORT)
    take = Batches.take

    def without_state(*_: object) -> State:
        raise Crashed

    def without_commit(self: Batches, paths: Sequence[str], batch: int) -> None:
        take(self, paths, batch)
        raise Crashed

    for number, (part, broken) in enumerate(
        zip(parts, (None, ("_carry", without_state), ("take", without_commit), None), strict=True)
    ):
        add([part], runs, number)
        if number == 2:
            # A file that is there twice counts once.
            shutil.copy(min(runs.iterdir()), runs / "copy-00000.parquet")
        if broken is not None:
            with monkeypatch.context() as patch:
                patch.setattr(Batches, *broken)
                with pytest.raises(Crashed):
                    follow([str(runs)], out, spark=spark, checks=CHECKED, options=options, stop=once())
        ended = follow([str(runs)], out, spark=spark, checks=CHECKED, options=options, stop=once())
        assert ended["verdict"] == "invalid"
    assert (ended["ended"], ended["late_rows"], ended["forgotten"]) == (True, 0, 0)
    assert ended["recorders"] == {"seen": 2, "ended": 2}
    assert keys(written(spark, out)) == expected


FOLLOWER = """
import sys
from aiorocketmq_audit.cli import audit
from aiorocketmq_audit.spark.session import session

with session("local[1]", size=1):
    audit(sys.argv[1:])
"""
"""The command in a session for little data."""


def started(runs: Path, out: Path) -> subprocess.Popen[bytes]:
    words = ["--follow", str(runs), "--out", str(out), "--until-complete", "--horizon", "60"]
    words += [word for name in CHECKED for word in ("--check", name)]
    with out.with_name("said").open("wb") as log:
        program = [sys.executable, "-c", FOLLOWER, *words]
        # In a process group of its own, as a terminal starts it: its signals reach Java, too.
        return subprocess.Popen(program, stdout=log, stderr=log, start_new_session=True)


def steps(out: Path) -> Iterator[int]:
    """How many files and folders were made below `out` since this began, again and again."""

    def entries() -> set[str]:
        # Unlike `rglob`, it bears folders that are gone when it comes to them.
        return {os.path.join(at, name) for at, *names in os.walk(out) for name in (*names[0], *names[1])}

    seen = entries()
    while True:
        yield len(entries() - seen)
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(300 + 120 * KILLS)
def test_neither_kill_nor_restart_loses_or_repeats_a_finding(
    parts: list[dict[str, Rows]], expected: Counter[tuple[Any, ...]], spark: SparkSession, tmp_path: Path
) -> None:
    """Killed at random points between two writes; every start continues with what the last one left."""
    runs, out, chance = tmp_path / "runs", tmp_path / "out", random.Random(11)
    out.mkdir()
    for number in range(KILLS):
        for index in range(number * len(parts) // KILLS, (number + 1) * len(parts) // KILLS):
            add([parts[index]], runs, index)
        target_steps, process = chance.randint(1, 60), started(runs, out)
        deadline = time.monotonic() + 100
        for count in steps(out):
            if count >= target_steps or process.poll() is not None or time.monotonic() > deadline:
                break
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    code = started(runs, out).wait(240)
    assert code == 1, out.with_name("said").read_text("utf-8")
    assert keys(written(spark, out)) == expected


@pytest.mark.timeout(300)
def test_a_signal_ends_it_with_the_verdict_so_far(parts: list[dict[str, Rows]], tmp_path: Path) -> None:
    runs, out = add(parts[:3], tmp_path / "runs"), tmp_path / "out"
    out.mkdir()
    process = started(runs, out)
    deadline = time.monotonic() + 200
    while not (out / "following.json").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    code, output = process.wait(60), out.with_name("said").read_text("utf-8")
    assert (code, output.splitlines()[-2]) == (1, "invalid: 3 broken promise(s)."), output


def test_a_clean_recording_is_valid_when_nothing_comes_any_more_and_its_end_was_reported(
    clean: tuple[History, History], record: Callable[..., Path], spark: SparkSession, tmp_path: Path
) -> None:
    runs = record(*(history.end() for history in clean))
    options = Options(until_idle=0.1, every=0.05)
    result = follow([str(runs)], tmp_path / "out", spark=spark, checks=["double delivery"], options=options)
    assert (result["verdict"], result["ended"]) == ("valid", True)
    # What unfinished files held is unknown.
    (runs / "x-00000.parquet.open").touch()
    (runs / "y-00000.parquet").write_bytes(next(runs.glob("*.parquet")).read_bytes()[:500])
    result = follow([str(runs)], tmp_path / "out", spark=spark, checks=["double delivery"], options=options)
    assert result["verdict"] == "unknown"
    assert result["reasons"] == [
        "1 recorder(s) have finished no file.",
        "1 file(s) were never finished, such as y-00000.parquet.",
    ]


def damaged(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100] + b"\0" * 96 + b"PAR1")


def of_something_else(file: Path) -> None:
    parquet.write_table(pa.table({"a": [1]}), file)


@pytest.mark.parametrize("harm", [damaged, of_something_else])
def test_files_that_cannot_be_read_end_it_with_a_sentence_and_may_be_taken_away(
    harm: Callable[[Path], None],
    clean: tuple[History, History],
    record: Callable[..., Path],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    file = next(record(clean[0].end()).iterdir())
    runs, whole = file.parent, file.rename(tmp_path / "a-00000.parquet")
    shutil.copy(whole, file)
    harm(file)
    options = Options(until_idle=0.1, every=0.05)
    with pytest.raises(InvalidRecordingError, match=str(file)) as error:
        follow([str(runs)], tmp_path / "out", spark=spark, checks=["double delivery"], options=options)
    assert "\n" not in str(error.value)
    file.unlink()
    whole.rename(runs / whole.name)
    result = follow([str(runs)], tmp_path / "out", spark=spark, checks=["double delivery"], options=options)
    assert (result["ended"], result["recorders"]) == (True, {"seen": 1, "ended": 1})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{}/nowhere", "--out", "{}/out"], "is not a folder"),
        (["{}/runs", "--out", "{}/runs/out"], "lies inside of the recording"),
        (["{}/runs", "--out", "{}"], "is not empty"),
        (["{}/runs", "--out", "{}/of-others"], "follows /other"),
        (["{}/runs", "--out", "{}/out", "--master", "sc://host:15002"], "needs a classic Spark session"),
        (["{}/runs", "--out", "{}/out", "--check", "taste"], "there is no check 'taste'"),
    ],
)
def test_wrong_use_is_refused_with_a_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    batches.replace_text(tmp_path / "of-others/following/states/0.json", State(["/other"], batch=0).to_json())
    code = command.main(["--follow", *(word.format(tmp_path) for word in words)], standalone_mode=False)
    errors = capsys.readouterr().err
    assert (code, errors.count("\n"), sentence in errors) == (2, 1, True), errors


def test_what_each_member_did_last_about_a_lock_is_carried(
    new_history: type[History], frame: Callable[[Iterable[History]], DataFrame]
) -> None:
    history = new_history(recorder="r")
    for at, client, phase in ((10, "c1", "ok"), (20, "c1", "ok"), (15, "c2", "ok"), (25, "c1", "fail")):
        lock(history, at, client, phase=phase)
    history.note("clock.sample", 99)
    events = frame([history])

    def carried(any_s: int) -> set[tuple[float, str]]:
        rows, _ = kept(events, settings(events), START + 50 * SECOND, START + any_s * SECOND)
        answers = rows.where("kind = 'lock' and phase <> 'invoke'").collect()
        return {((row.t_wall_us - START) / SECOND, row.client_id) for row in answers}

    assert carried(0) == {(10, "c1"), (20, "c1"), (15, "c2"), (25, "c1")}
    assert carried(40) == {(20, "c1"), (15, "c2"), (25, "c1")}


def test_what_may_still_matter_is_carried(
    new_history: type[History], frame: Callable[[Iterable[History]], DataFrame]
) -> None:
    history = new_history(recorder="r")
    history.config(ordered=False)
    for number, at in enumerate((10, 11, 12, 13)):
        history.send(f"/{number}", at - 1)
        delivery = history.deliver(f"/{number}", at)
        if number != 2:
            history.settle("ack", delivery, at + 1)
    history.send("/0", 20, phase="info", tx_id="T")
    history.note("tx.end", 21, phase="ok", topic="t", tx_id="T", resolution="commit")
    history.note("clock.sample", 22)
    history.note("fault", 23)
    history.note("clock.sample", 99)
    events = frame([history])

    def carried(any_s: int) -> tuple[set[tuple[str, str | None]], int]:
        rows, forgotten = kept(events, settings(events), START + 50 * SECOND, START + any_s * SECOND)
        return {(row.kind, row.message_id) for row in rows.collect()}, forgotten

    whole, forgotten = carried(0)
    # Message 1 is done, 2 is open; 0 and 3 are borders of what the group has read.
    assert {name for kind, name in whole if kind == "deliver"} == {"/0", "/2", "/3"}
    assert {("tx.end", None), ("fault", None), ("config", None), ("clock.sample", None)} <= whole
    assert ("send", "/1") not in whole
    assert forgotten == 0
    short, forgotten = carried(40)
    assert ("deliver", "/2") not in short
    assert ("tx.end", None) not in short
    assert forgotten == 1
