"""The root command says every foreseen error in one sentence and ends with the code of the command line's table."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from aiorocketmq.cli import program
from aiorocketmq.errors import RocketMQError, ServerError, UsageError

COMMANDS = ("audit", "client", "conformance", "demo", "fake", "group", "message", "receive", "send", "topic")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "aiorocketmq", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_every_part() -> None:
    done = command("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_a_closed_pipe_is_no_verdict() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "aiorocketmq", "conformance", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_version_and_a_short_help_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert (program.run(["-h"]), program.run(["--version"])) == (0, 0)
    text = capsys.readouterr().out
    assert text.startswith("Usage: aiorocketmq")
    assert text.endswith(f"aiorocketmq, version {version('aiorocketmq')}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    done = command(name, "--help")
    assert done.returncode == 0
    assert f"aiorocketmq {name}" in done.stdout.replace("\n", " ")


def test_the_help_loads_neither_grpc_nor_spark_nor_arrow() -> None:
    code = (
        "import sys; from aiorocketmq.cli.program import run; run(['--help']);"
        "print([name for name in ('grpc', 'pyspark', 'pyarrow', 'rich') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr.strip() == "[]"


def test_a_shell_completes_commands_and_options() -> None:
    for words, completion in (("topic cr", "create"), ("fake ctl clock advance --ho", "--hours")):
        line = f"aiorocketmq {words}"
        completing = {
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split()) - 1),
            "_AIOROCKETMQ_COMPLETE": "bash_complete",
        }
        done = subprocess.run(
            [sys.executable, "-m", "aiorocketmq"],
            env={**os.environ, **completing},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout == f"plain,{completion}\n"


def test_an_unknown_command_is_wrong_use() -> None:
    done = command("destroy")
    assert done.returncode == 2
    assert "destroy" in done.stderr


def test_a_server_that_cannot_be_reached_is_one_sentence_and_code_4() -> None:
    done = command("topic", "list", "--endpoint", "namesrv://127.0.0.1:1")
    assert done.returncode == 4, done.stdout + done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "127.0.0.1:1" in done.stderr


def test_a_missing_extra_is_named_with_the_command_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask_for_spark(**options: object) -> None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")

    monkeypatch.setattr(program.program, "main", ask_for_spark)
    assert program.run(["audit"]) == 2
    assert "pip install 'aiorocketmq[spark]'" in capsys.readouterr().err


def test_a_program_without_click_names_the_extra_that_brings_it() -> None:
    code = "import sys; sys.modules['click'] = None; from aiorocketmq.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    sentence = "aiorocketmq: the command line needs click: run pip install 'aiorocketmq[cli]'.\n"
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.parametrize(("error", "code"), [(UsageError("not so"), 2), (ServerError("not now"), 4)])
def test_wrong_use_and_a_refusal_of_a_server_have_codes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: RocketMQError, code: int
) -> None:
    def fail(**options: object) -> None:
        raise error

    monkeypatch.setattr(program.program, "main", fail)
    assert program.run(["topic"]) == code
    assert capsys.readouterr().err == f"aiorocketmq: {error}\n"


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("planted"), ModuleNotFoundError("planted", name="aiorocketmq.gone")]
)
def test_a_defect_shows_its_lines_and_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def break_down(**options: object) -> None:
        raise error

    monkeypatch.setattr(program.program, "main", break_down)
    assert program.run(["audit"]) == 3
    assert f"{type(error).__name__}: planted" in capsys.readouterr().err
