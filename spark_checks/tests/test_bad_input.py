"""Bad input, each through the command: one sentence, unknown or a refusal, never a stack trace, never a false valid."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiorocketmq_audit.cli import audit
from aiorocketmq_audit.generator import Shape, generate
from pyarrow import parquet
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

UNKNOWN, REFUSED, WRONG_USE = 3, 4, 2

JAVA = re.compile(r"\w+\.\w+\.[A-Z]|Exception|Error:")

BROKER = "broker-generated-5-00000.parquet"


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


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
        # One check is enough: bad input is reported before any of them.
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            audit.main([*map(str, arguments), "--json", "--check", check], prog_name="audit")
        output = capsys.readouterr()
        ended = Ended(int(done.value.code or 0), output.out, output.err)
        assert ended.code == code, output
        assert "Traceback" not in output.out + output.err
        if code in (REFUSED, WRONG_USE):
            assert (ended.out, ended.err.count("\n")) == ("", 1)
        else:
            assert json.loads(ended.out)["verdict"] == {0: "valid", 1: "invalid", 3: "unknown"}[code]
        return ended

    return run


def every(damage: Callable[[Path], object]) -> Callable[[Path], None]:
    def all_of(runs: Path) -> None:
        for file in runs.iterdir():
            damage(file)

    return all_of


def broker(damage: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda runs: damage(runs / BROKER)


def of_table(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    return lambda file: parquet.write_table(change(parquet.read_table(file)), file)


def put(name: str, value: Callable[[Any, int], Any]) -> Callable[[Path], None]:
    """Other values of a column, by the old one and the number of the row."""

    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        values = [value(old, number) for number, old in enumerate(table[name].to_pylist())]
        return table.set_column(
            place, table.schema.field(place), pa.array(values, table.schema.field(place).type)
        )

    return of_table(change)


def stepped(runs: Path) -> None:
    file = next(runs.glob("client-*ordered-0@0*"))
    half = parquet.read_metadata(file).num_rows // 2
    put("t_wall_us", lambda time, number: time + 5_000_000 * (number >= half))(file)


def shared_name(runs: Path) -> None:
    put("t_wall_us", lambda time, _: time + 7)(Path(shutil.copy(runs / BROKER, runs / "other.parquet")))


def damaged_page(file: Path) -> None:
    """In the column of bodies, which only some checks read."""
    group = parquet.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    body = next(column for column in columns if column.path_in_schema == "body_sha")
    damaged = bytearray(file.read_bytes())
    start = min(body.data_page_offset, body.dictionary_page_offset or body.data_page_offset)
    damaged[start : start + body.total_compressed_size] = b"\xff" * body.total_compressed_size
    file.write_bytes(damaged)


DAMAGES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "none": (lambda _: None, 0, ""),
    "no rows": (every(of_table(lambda table: table.slice(0, 0))), UNKNOWN, "holds no"),
    "a file of no bytes": (
        lambda runs: (runs / "x.parquet").touch(),
        UNKNOWN,
        "1 file(s) were never finished",
    ),
    "half a file": (
        broker(lambda file: os.truncate(file, file.stat().st_size // 2)),
        UNKNOWN,
        f"never finished, such as {BROKER}",
    ),
    "a column that is gone": (
        broker(of_table(lambda table: table.drop_columns(["attempt"]))),
        UNKNOWN,
        "lack the column(s) attempt",
    ),
    "a stepped clock": (stepped, UNKNOWN, "was stepped by 5.000 s"),
    "two recorders of one name": (shared_name, UNKNOWN, "two writers shared a name"),
    "no file": (every(Path.unlink), REFUSED, "holds no Parquet file"),
    "no folder": (shutil.rmtree, WRONG_USE, "does not exist"),
    "a foreign file": (
        lambda runs: parquet.write_table(pa.table({"id": [1, 2]}), runs / "people.parquet"),
        REFUSED,
        "people.parquet has no column run_id",
    ),
    "another version": (
        broker(put("cfg", lambda cfg, _: [("version", "2")] if cfg and dict(cfg).get("version") else cfg)),
        REFUSED,
        "has version 2 and this program reads 1 to 1: upgrade",
    ),
    "another type": (
        broker(
            of_table(
                lambda table: table.cast(
                    table.schema.set(
                        table.schema.get_field_index("attempt"), pa.field("attempt", pa.string())
                    )
                )
            )
        ),
        REFUSED,
        f"{BROKER}: column attempt has the type string, it must be int",
    ),
    # It would end before it began, by an overflow, and hide a double delivery.
    "a lease of millions of years": (
        broker(put("invisible_ms", lambda hold, _: hold and 1 << 62)),
        REFUSED,
        f"holds '{1 << 62}', allowed is -1000000000000 to 1000000000000",
    ),
    "settings that are none": (
        broker(
            put("cfg", lambda cfg, _: [("steps_ms", "1000,,x")] if cfg and "steps_ms" in dict(cfg) else cfg)
        ),
        REFUSED,
        "holds '1000,,x', allowed is steps_ms: milliseconds",
    ),
    "a damaged page": (broker(damaged_page), REFUSED, BROKER),
    "what the disk cannot read": (
        lambda runs: (runs / "client-y-00000.parquet").symlink_to("/proc/self/mem"),
        REFUSED,
        "client-y-00000.parquet cannot be read",
    ),
}
"""By what is damaged: how, the exit code, and words of the sentence."""


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_in_a_sentence_and_never_valid(name: str, runs: Path, command: Command) -> None:
    damage, code, words = DAMAGES[name]
    damage(runs)
    # Where things came from no clock changes.
    ended = command(runs, code=code, check="double delivery" if damage is stepped else "origin")
    assert words in (ended.err or ended.out)
    assert not JAVA.search(ended.err)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few kilobytes."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", folder], capture_output=True, check=False
    )
    if process.returncode:
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


def test_what_java_cannot_write_is_reported_by_its_cause_though_java_has_ended(
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
