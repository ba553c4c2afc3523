"""Made-up recordings: as their seed and shape say, in the recorders' own layout, and written in one go or refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiorocketmq.recording_format import arrow_schema
from aiorocketmq_audit.generator import Shape, generate
from aiorocketmq_audit.generator.faults import KINDS, rows_of
from aiorocketmq_audit.generator.faults.scenario import Scenario
from aiorocketmq_audit.generator.histories import one_after_the_other
from aiorocketmq_audit.generator.injection import chosen
from aiorocketmq_audit.recording.schema import COLUMNS, REQUIRED
from click.testing import CliRunner

from sdk.tests.cli.terminal import in_terminal

parquet = pytest.importorskip("pyarrow.parquet")

EVENTS = 6_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "runs"
    generate(folder, events=EVENTS, seed=7, shape=Shape(hot=0.3, retries=0.1, rows_per_file=400))
    return folder


@pytest.fixture(scope="module")
def rows(recording: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(recording.iterdir()) for row in parquet.read_table(file).to_pylist()]


def test_the_same_seed_makes_the_same_recording_and_another_seed_another(tmp_path: Path) -> None:
    def made(name: str, seed: int) -> list[bytes]:
        generate(tmp_path / name, events=500, seed=seed, plants={"acked.soon": 2, "honest.pull": 1})
        return [file.read_bytes() for file in sorted((tmp_path / name).iterdir())]

    assert made("first", 1) == made("second", 1) != made("third", 2)


def test_as_many_events_as_asked_for_and_few_more(rows: list[dict[str, Any]]) -> None:
    assert EVENTS <= len(rows) < EVENTS * 1.1


def test_every_recorder_begins_ends_and_numbers_its_rows_without_gaps_in_the_order_of_its_clock(
    rows: list[dict[str, Any]],
) -> None:
    recorders = {row["recorder"] for row in rows}
    assert len(recorders) == 1 + 2 * 4 + 1
    for recorder in recorders:
        mine = sorted((row for row in rows if row["recorder"] == recorder), key=lambda row: row["seq"])
        assert [row["seq"] for row in mine] == list(range(len(mine)))
        assert [mine[0]["kind"], mine[-1]["kind"]] == ["recorder.start", "recorder.end"]
        times = [row["t_wall_us"] for row in mine]
        assert times == sorted(times)
        assert len({row["t_wall_us"] * 1000 - row["t_mono_ns"] for row in mine}) == 1
        assert all(row[name] is not None for row in mine for name in REQUIRED)


def test_every_answer_names_the_row_of_its_call(rows: list[dict[str, Any]]) -> None:
    at = {(row["recorder"], row["seq"]): row for row in rows}
    answers = [row for row in rows if row["observer"] == "client" and row["phase"] in ("ok", "fail", "info")]
    assert answers
    for row in answers:
        call = at[row["recorder"], row["invoked_seq"]]
        assert (call["phase"], call["op_id"], call["t_wall_us"]) == (
            "invoke",
            row["op_id"],
            row["invoked_us"],
        )


def test_columns_have_the_types_of_the_contract(recording: Path) -> None:
    schema = parquet.read_schema(next(recording.iterdir()))
    assert schema == arrow_schema()
    assert schema.metadata == arrow_schema().metadata
    assert schema.names == list(COLUMNS)


def test_no_file_is_longer_than_was_said(recording: Path) -> None:
    lengths = [parquet.ParquetFile(file).metadata.num_rows for file in recording.iterdir()]
    assert max(lengths) <= 400 < sum(lengths)


def test_the_hot_message_group_has_its_share(rows: list[dict[str, Any]]) -> None:
    sent = [row for row in rows if row["kind"] == "send" and row["observer"] == "broker"]
    share = sum(row["message_group"] == "key-0" for row in sent) / len(sent)
    assert 0.15 < share < 0.45


def test_what_is_allowed_to_go_wrong_does(tmp_path: Path) -> None:
    shape = Shape(retries=0.2, expiries=0.05, slow=0.05, lost=0.1, extended=0.1, dead=0.05, refused=0.05)
    generate(tmp_path / "runs", events=5_000, shape=shape)
    table = [row for file in (tmp_path / "runs").iterdir() for row in parquet.read_table(file).to_pylist()]
    kinds = {(row["kind"], row["phase"]) for row in table}
    assert kinds >= {
        ("send", "fail"),
        ("send", "info"),
        ("receive", "info"),
        ("ack", "fail"),
        ("ack", "info"),
        ("change", "ok"),
        ("forward", "ok"),
        ("dlq.deliver", None),
        ("expire", None),
        ("client.crash", None),
        ("fault", None),
        ("clock.sample", None),
    }


def test_messages_of_a_lane_wait_for_each_other() -> None:
    """Against the plain loop, with what was left from before."""
    chance = np.random.default_rng(3)
    for _ in range(50):
        count, lanes = int(chance.integers(0, 30)), 4
        ready, length = np.sort(chance.integers(0, 100, count)), chance.integers(1, 20, count)
        lane, busy = chance.integers(0, lanes, count), chance.integers(0, 50, lanes)
        free, expected = busy.tolist(), []
        for want, take, of in zip(ready.tolist(), length.tolist(), lane.tolist(), strict=True):
            expected.append(max(want, free[of]))
            free[of] = expected[-1] + take
        assert one_after_the_other(ready, length, lane, busy).tolist() == expected
        assert busy.tolist() == free


SHAPE = Shape()
AT = 1_770_000_000_000_000


def test_scenes_name_what_must_be_found_among_their_messages() -> None:
    for number, (name, kind) in enumerate(KINDS.items()):
        rows, expected = rows_of(name, number=number, start_us=AT, shape=SHAPE)
        assert {row["observer"] for row in rows} == {kind.observer}, name
        assert set().union(*rows) <= set(arrow_schema().names), name
        assert bool(expected) == bool(kind.check) == bool(kind.invariant), name
        # Some are about queues: no message is found.
        if kind.check not in ("queues", "commits") and kind.invariant != "INV-LOCK":
            assert {each.message_id for each in expected} <= {row.get("message_id") for row in rows}, name


def played(script: str, observer: str = "broker") -> Scenario:
    scene = Scenario("case", 0, AT, SHAPE, observer)
    scene.play(script)
    return scene


def test_times_are_sums_of_the_shape_and_of_the_steps_before() -> None:
    scene = played(
        "0 send m0; 1 deliver m0 nack=.5; back+.1 deliver m0/2; t+2H ack m0; 1,2 fault fault=kind:crash"
    )
    assert [(row["kind"], (row["t_wall_us"] - AT) / 1e6) for row in scene.rows] == [
        ("send", 0),
        ("deliver", 1),
        ("change", 1.5),
        ("deliver", 2.6),
        ("ack", 62.6),
        ("fault", 1),
        ("fault", 2),
    ]
    assert [row.get("attempt") for row in scene.rows] == [None, 1, 1, 2, 2, None, None]
    assert [row.get("invisible_ms") for row in scene.rows[1:4]] == [30_000, 1_000, 30_000]


def test_a_step_with_a_range_is_played_for_each_number_and_marks_what_must_be_found() -> None:
    scene = played(".{0-2} send o{} !; 1+{0-1} deliver o{} !; 5 unsent m7b !!")
    assert [row["t_wall_us"] - AT for row in scene.rows] == [0, 100_000, 200_000, 1_000_000, 2_000_000]
    names = [f"planted-case-0-{name}" for name in ("o0", "o1", "o2", "o0", "o1", "m7b", "m7b")]
    attempts = [None, None, None, 1, 1, None, None]
    assert scene.expected == [("scene-case-0", *each) for each in zip(names, attempts, strict=True)]


def test_messages_of_one_step_come_in_one_answer_to_their_poll() -> None:
    rows = played("1 deliver m0,m1 asked=.5 ack=1").rows
    poll, first, second, *acks = sorted(rows, key=lambda row: row["t_wall_us"])
    assert (poll["kind"], poll["invoked_us"] - AT) == ("receive", 500_000)
    assert first["batch"] == second["batch"] == poll["op_id"]
    assert [first["batch_pos"], second["batch_pos"], len(acks)] == [0, 1, 2]


def test_clients_record_a_call_and_its_answer() -> None:
    rows = played("0 unsent m0; 2 recall m0 for=.5", "client").rows
    assert [(row["phase"], row["t_wall_us"] - AT) for row in rows] == [
        ("invoke", 1_500_000),
        ("ok", 2_000_000),
    ]


@pytest.mark.parametrize(
    "step",
    ["1 delivr m0", "1 deliver m0 asks=1", "1+X deliver m0", "1* deliver m0", "deliver m0", "1 ack m0"],
)
def test_a_step_that_is_none_is_refused(step: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        played(step)


Make = Callable[..., Any]


@pytest.fixture
def command() -> Make:
    from aiorocketmq_audit.cli import audit

    return lambda *arguments: CliRunner().invoke(audit, [str(argument) for argument in arguments])


def test_the_command_says_what_it_made(command: Make, tmp_path: Path) -> None:
    done = command("--generate", tmp_path / "runs", "--events", 500, "--shape", "observers=broker")
    assert done.exit_code == 0
    assert "in 1 file(s)" in done.output
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["broker-generated-1-00000.parquet"]


def test_what_would_excuse_others_is_planted_by_its_name_only() -> None:
    restart = "acked.restart-long-after"
    assert KINDS[restart].alone
    for name in ("all", "acked"):
        assert restart not in chosen([name])
        assert "acked.soon" in chosen([name])
    assert chosen([restart]) == {restart: 1}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--events", "0"], "--events must be at least 1"),
        (["--seed", "-1"], "--seed at least 0"),
        (["--shape", "hot"], "--shape hot is not understood: use NAME=VALUE with one of groups,"),
        (["--shape", "heat=1"], "--shape heat=1 is not understood"),
        (["--shape", "hot=much"], "--shape hot=much is no number: for example hot=0.0."),
        (["--shape", "hot=0.9"], "hot must be at most ordered_share"),
        (["--shape", "max_attempts=1"], "max_attempts must be at least 2"),
        (["--shape", "steps_ms=1"], "steps_ms must be waits of at least 100"),
        (["--shape", "observers=me"], "observers must be broker, client, or broker+client"),
        (["--shape", "groups=0", "--shape", "ordered_groups=0"], "groups must be at least 1"),
        (
            ["--plant", "nonsense"],
            "there is no kind of fault 'nonsense': use all, or one of handle, ",
        ),
        (["--plant", "acked.son"], "there is no kind of fault 'acked.son': use all, or acked.soon"),
        (["--plant", "acked.soon:x"], "use KIND:COUNT, for example acked.soon:3"),
        (["--plant", "acked", "--shape", "groups=1"], "--plant needs a shape with groups=2"),
        (["runs"], "--generate judges nothing: leave out runs"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(
    command: Make, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = command("--generate", tmp_path / "runs", *arguments)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert sentence in done.output
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_holds_something_is_left_alone(command: Make, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = command("--generate", tmp_path)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "is not empty: give a new folder" in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_a_path_that_is_no_folder_is_refused(command: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command("--generate", tmp_path / "file" / "below")
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "is no folder that can be written to" in done.output


def test_events_without_a_folder_to_generate_into_is_wrong_use(command: Make) -> None:
    done = command("--events", 5)
    assert (done.exit_code, done.output) == (
        2,
        "aiorocketmq audit: --events, --seed, --shape and --plant belong to --generate DIR.\n",
    )


def test_without_numpy_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """And neither Spark nor Java is needed."""
    program = (
        "import sys; sys.modules |= dict.fromkeys({!r}); from aiorocketmq_audit.cli import audit; audit()"
    )

    def run(*missing: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program.format(missing), "--generate", str(tmp_path / "runs")]
        return subprocess.run([*command, "--events", "1"], capture_output=True, text=True, check=False)

    refused = run("numpy")
    assert (refused.returncode, refused.stderr) == (
        2,
        "aiorocketmq audit: --generate needs numpy: run pip install 'aiorocketmq[generator]'.\n",
    )
    assert run("pyspark", "py4j").returncode == 0


def test_a_terminal_shows_that_it_generates(tmp_path: Path) -> None:
    code = f"""
import threading
from rich.progress import Progress
from aiorocketmq_audit import generator
from aiorocketmq_audit.generator.command import make
from aiorocketmq_audit.spark import progress
shown, add_task, generate = threading.Event(), Progress.add_task, generator.generate
def add(bar, *arguments, **options):
    number = add_task(bar, *arguments, **options)
    bar.refresh()
    shown.set()
    return number
progress.AFTER, Progress.add_task = 0, add
generator.generate = lambda *arguments, **options: shown.wait(30) and generate(*arguments, **options)
make({str(tmp_path / "recording")!r}, (), events=100, seed=None, shape=(), plants=())
"""
    assert "generating" in in_terminal(code)
