"""Bad input, each through the command: one sentence, unknown or a refusal, never a stack trace, never a false valid."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq_audit import run
from aiorocketmq_audit.cli import audit
from aiorocketmq_audit.generator import Shape, generate
from pyarrow import parquet
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

UNKNOWN, REFUSED, WRONG_USE = 3, 4, 2

BROKER = "broker-generated-5-00000.parquet"


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    code: int
    out: str
    err: str

    @property
    def missing(self) -> list[str]:
        found: list[str] = json.loads(self.out)["recording"]["missing"]
        return found


Command = Callable[..., Ended]


@pytest.fixture(autouse=True)
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark judges all of it."""
    monkeypatch.setattr(run, "known", lambda *_: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording in which all is well."""
    folder = tmp_path_factory.mktemp("whole") / "runs"
    shape = Shape(groups=1, ordered_groups=1, consumers=1, crashes=0, restarts=0, message_groups=5)
    generate(folder, events=400, seed=5, shape=shape)
    return folder


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "runs"))


@pytest.fixture
def command(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Command:
    del spark

    def run(*arguments: object, code: int, check: str = "origin") -> Ended:
        # One check is enough: what is bad is told before any of them.
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            audit.main([*map(str, arguments), "--json", "--check", check], prog_name="audit")
        said = capsys.readouterr()
        ended = Ended(int(done.value.code or 0), said.out, said.err)
        assert ended.code == code, said
        assert "Traceback" not in said.out + said.err
        if code in (REFUSED, WRONG_USE):
            assert (ended.out, ended.err.count("\n")) == ("", 1)
        else:
            assert json.loads(ended.out)["verdict"] == {0: "valid", 1: "invalid", 3: "unknown"}[code]
        return ended

    return run


def rewritten(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    parquet.write_table(change(parquet.read_table(file)), file)


def put(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(
        place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
    )


def test_what_the_others_damage_is_valid(runs: Path, command: Command) -> None:
    command(runs, code=0)


def test_a_missing_recording_is_named(command: Command, tmp_path: Path) -> None:
    assert "does not exist" in command(tmp_path / "nowhere", code=WRONG_USE).err


def test_an_empty_folder_is_refused(command: Command, tmp_path: Path) -> None:
    assert "holds no Parquet file" in command(tmp_path, code=REFUSED).err


def test_a_file_of_no_bytes_is_one_that_was_never_finished(runs: Path, command: Command) -> None:
    (runs / "client-x-00000.parquet").touch()
    assert "1 file(s) were never finished" in command(runs, code=UNKNOWN).missing[-1]


def test_a_recording_of_no_rows_is_unknown(runs: Path, command: Command) -> None:
    for file in runs.iterdir():
        rewritten(file, lambda table: table.slice(0, 0))
    assert json.loads(command(runs, code=UNKNOWN).out)["recording"]["events"] == 0


def test_a_truncated_file_is_one_that_was_never_finished(runs: Path, command: Command) -> None:
    file = runs / BROKER
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert (
        "never finished, such as broker-generated-5-00000.parquet" in command(runs, code=UNKNOWN).missing[-1]
    )


def test_a_foreign_file_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,a\n")
    assert "is not a Parquet file" in command(tmp_path / "people.csv", code=REFUSED).err


def test_a_foreign_parquet_file_among_ours_is_refused(runs: Path, command: Command) -> None:
    parquet.write_table(pa.table({"id": [1, 2]}), runs / "people.parquet")
    assert "people.parquet has no column run_id" in command(runs, code=REFUSED).err


def test_a_recording_of_mixed_versions_is_refused(runs: Path, command: Command) -> None:
    def newer(table: pa.Table) -> pa.Table:
        told = table["cfg"].to_pylist()
        return put(
            table, "cfg", [[("version", "2")] if cfg and dict(cfg).get("version") else cfg for cfg in told]
        )

    rewritten(runs / BROKER, newer)
    assert "has version 2 and this program reads 1 to 1: upgrade" in command(runs, code=REFUSED).err


def test_a_stepped_clock_makes_it_unknown(runs: Path, command: Command) -> None:
    def stepped(table: pa.Table) -> pa.Table:
        times = table["t_wall_us"].to_pylist()
        half = len(times) // 2
        return put(table, "t_wall_us", times[:half] + [time + 5_000_000 for time in times[half:]])

    rewritten(next(runs.glob("client-*ordered-0@0*")), stepped)
    told = json.loads(command(runs, code=UNKNOWN, check="double delivery").out)["recording"]["clocks"]
    assert "was stepped by 5.000 s" in told[0]


def test_a_file_that_is_there_twice_counts_once(runs: Path, command: Command) -> None:
    expected = json.loads(command(runs, code=0).out)
    shutil.copy(runs / BROKER, runs / "copy.parquet")
    found = json.loads(command(runs, code=0).out)
    assert found["recording"].pop("duplicated_rows") is True
    assert expected["recording"].pop("duplicated_rows") is False
    assert found == expected


def test_two_recorders_of_one_name_make_it_unknown(runs: Path, command: Command) -> None:
    file = shutil.copy(runs / BROKER, runs / "other.parquet")
    rewritten(file, lambda table: put(table, "t_wall_us", [t + 7 for t in table["t_wall_us"].to_pylist()]))
    assert "two writers shared a name" in " ".join(command(runs, code=UNKNOWN).missing)


@pytest.mark.parametrize("column", ["attempt", "invisible_ms", "phase"])
def test_a_column_that_is_gone_makes_it_unknown(column: str, runs: Path, command: Command) -> None:
    rewritten(runs / BROKER, lambda table: table.drop_columns([column]))
    assert f"lack the column(s) {column}" in command(runs, code=UNKNOWN).missing[-1]


def test_a_required_column_that_is_gone_is_refused(runs: Path, command: Command) -> None:
    rewritten(runs / BROKER, lambda table: table.drop_columns(["seq"]))
    assert f"{BROKER} has no column seq" in command(runs, code=REFUSED).err


@pytest.mark.parametrize(
    ("column", "kind", "words"),
    [
        ("attempt", pa.string(), "the type string, it must be int"),
        ("t_wall_us", pa.string(), "the type string, it must be bigint"),
        ("t_wall_us", pa.timestamp("us"), "the type timestamp[us], it must be bigint"),
        ("invisible_ms", pa.float64(), "the type double, it must be bigint"),
    ],
)
def test_a_column_of_another_type_in_one_file_is_refused(
    column: str, kind: pa.DataType, words: str, runs: Path, command: Command
) -> None:
    def retyped(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(column), column, table[column].cast(kind))

    rewritten(runs / BROKER, retyped)
    assert f"{BROKER}: column {column} has {words}" in command(runs, code=REFUSED).err


def test_a_lease_of_millions_of_years_is_refused(runs: Path, command: Command) -> None:
    """It would end before it began, by an overflow, and hide a double delivery."""

    def longer(table: pa.Table) -> pa.Table:
        return put(table, "invisible_ms", [hold and 1 << 62 for hold in table["invisible_ms"].to_pylist()])

    rewritten(runs / BROKER, longer)
    ended = command(runs, code=REFUSED, check="double delivery").err
    assert f"{BROKER}: column invisible_ms of row " in ended
    assert f"holds '{1 << 62}', allowed is 0 to 1000000000000" in ended


def test_settings_that_cannot_be_read_are_refused(runs: Path, command: Command) -> None:
    def unreadable(table: pa.Table) -> pa.Table:
        steps = [("steps_ms", "1000,,x")]
        kinds, settings = table["kind"].to_pylist(), table["cfg"].to_pylist()
        return put(
            table, "cfg", [steps if k == "config" else cfg for k, cfg in zip(kinds, settings, strict=True)]
        )

    rewritten(runs / BROKER, unreadable)
    assert "holds '1000,,x', allowed is steps_ms: milliseconds" in command(runs, code=REFUSED).err


def test_a_damaged_partition_is_refused_and_named(runs: Path, command: Command) -> None:
    """In the column of bodies, which only some checks read."""
    file = runs / BROKER
    group = parquet.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    body = next(column for column in columns if column.path_in_schema == "body_sha")
    damaged = bytearray(file.read_bytes())
    start = min(body.data_page_offset, body.dictionary_page_offset or body.data_page_offset)
    damaged[start : start + body.total_compressed_size] = b"\xff" * body.total_compressed_size
    file.write_bytes(damaged)
    assert BROKER in command(runs, code=REFUSED).err


def test_a_file_that_the_disk_cannot_read_is_refused(runs: Path, command: Command) -> None:
    (runs / "client-y-00000.parquet").symlink_to("/proc/self/mem")
    assert "client-y-00000.parquet cannot be read" in command(runs, code=REFUSED).err


def test_a_recorder_that_stopped_in_the_middle_makes_it_unknown(runs: Path, command: Command) -> None:
    rewritten(runs / BROKER, lambda table: table.slice(0, table.num_rows // 2))
    assert command(runs, code=UNKNOWN).missing == [
        "recorder broker-generated-5 has no end: it was cut short."
    ]


def test_a_recorder_whose_middle_is_gone_makes_it_unknown(runs: Path, command: Command) -> None:
    rewritten(runs / BROKER, lambda table: pa.concat_tables([table.slice(0, 20), table.slice(25)]))
    assert command(runs, code=UNKNOWN).missing == ["recorder broker-generated-5 lost 5 of its rows."]


def test_results_that_may_not_be_written_are_refused_before_anything_is_read(
    runs: Path, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/here")):
        assert f"--out {out} cannot be written to" in command(runs, "--out", out, code=WRONG_USE).err


def test_results_are_written_through_no_link_and_over_nothing_foreign(
    runs: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "violations").mkdir(parents=True)
    (out / "violations" / "mine.parquet").touch()
    assert "was not written by an audit" in command(runs, "--out", out, code=WRONG_USE).err
    (out / "violations" / "mine.parquet").unlink()
    (out / "summary.json").symlink_to("/dev/full")
    assert "summary.json is a link" in command(runs, "--out", out, code=WRONG_USE).err
    (out / "summary.json").unlink()
    for _ in range(2):
        command(runs, "--out", out, code=0)
    assert (out / "summary.json").is_file()
    assert list((out / "violations").glob("*.parquet"))


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few kilobytes."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this machine mounts no disks for tests")
    yield folder
    # Lazily: Java may not have closed its last file yet.
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_is_full_while_spark_writes_is_one_sentence(
    runs: Path, command: Command, tiny: Path
) -> None:
    filler = tiny / "filler"
    with filler.open("wb") as stream:
        stream.write(b"x" * (8 << 10))
    assert "the disk is full" in command(runs, "--out", tiny / "out", code=REFUSED).err


def test_what_java_cannot_write_is_told_by_its_cause_though_java_has_ended(
    tmp_path: Path, programs: Callable[..., Path]
) -> None:
    """In a process with a session of its own, on a path without the `chmod` that Hadoop runs to write."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java on the path")
    home = Path(java).resolve().parent.parent
    runs = tmp_path / "broken"
    generate(runs, events=400, seed=5, plants={"delay.at-once": 1})
    command = [sys.executable, "-m", "aiorocketmq_audit", str(runs), "--out", str(tmp_path / "out")]
    known = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    environment = known | {"JAVA_HOME": str(home), "PATH": str(programs())}
    done = subprocess.run(
        [*command, "--check", "delay"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=environment,
    )
    assert (done.returncode, done.stdout) == (REFUSED, ""), done.stderr
    assert "Hadoop needs the program chmod: add its folder to PATH." in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_made_up_recording_for_which_there_is_no_room_is_one_sentence(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "from aiorocketmq_audit.cli import audit; audit(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "--generate", str(tmp_path / "runs"), "--events", "20000"]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert "could not be written: " in done.stderr
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
