"""`aiorocketmq conformance`: what it prints, writes, and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiorocketmq.cli.program import run as run_program
from aiorocketmq_conformance.case import load

from sdk.tests.cli.terminal import in_terminal

ONE = "send.receipt"


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int
    out: str
    err: str


Invoke = Callable[..., Outcome]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run `aiorocketmq conformance` with the arguments given."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        exit_code = run_program(["conformance", *arguments])
        return Outcome(exit_code, *capsys.readouterr())

    return call


def test_a_run_ends_with_the_headline_and_writes_three_reports(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("run", "--target", "fake", "--select", ONE, "--report", str(tmp_path / "out"))
    assert result.exit_code == 0, result.out
    assert result.out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"result.json", "junit.xml", "report.html"}


def test_json_has_standard_output_for_itself(invoke: Invoke) -> None:
    result = invoke("run", "--target", "fake", "--select", ONE, "--json")
    document = json.loads(result.out)
    assert [case["id"] for case in document["runs"][0]["cases"]] == [ONE]
    assert result.err.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_a_terminal_shows_how_far_a_run_is(json_option: tuple[str, ...]) -> None:
    arguments = ["conformance", "run", "--select", ONE, *json_option]
    printed = in_terminal(f"from aiorocketmq.cli.program import run; run({arguments!r})")
    assert ("1 of 1 cases" in printed) == (not json_option)


def test_several_targets_are_run_in_turn(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke(
        "run", "--target", "fake", "--target", "fake:apache-5.5", "--select", ONE, "--report", str(tmp_path)
    )
    assert result.out.splitlines()[-2:] == [
        "fake:documented: 1 passed, 0 failed, 0 skipped",
        "fake:apache-5.5: 1 passed, 0 failed, 0 skipped",
    ]
    assert [run["target"] for run in json.loads((tmp_path / "result.json").read_text())["runs"]] == [
        "fake:documented",
        "fake:apache-5.5",
    ]


def test_a_deviation_that_does_not_occur_fails_the_run(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(f'[[deviation]]\ncase = "{ONE}"\nreason = "x"\nsource = "y"\n')
    result = invoke("run", "--target", "fake", "--select", ONE, "--deviations", str(file))
    assert result.exit_code == 1
    assert "remove it from the list" in result.out
    assert result.out.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--target", "nonsense"], "--target must be"),
        (["--level", "Z"], "got 'Z'"),
        (["--select", "no.such"], "no case matches"),
        (["--jobs", "0"], "0"),
        (["--target", "fake", "--namesrv", "h:1"], "apply to HOST:PORT targets only"),
        (["--target", "fake", "--create-topics", "auto"], "--create-topics"),
        (["--target", "h:1", "--create-topics", "never"], "'never' is not 'auto'"),
        (["--target", "h:1", "--create-topics", "auto", "--control", "h:2"], "pass one of them"),
        (
            ["--target", "h:1", "--namesrv", "http://h:2"],
            "must be namesrv://HOST:PORT or broker://HOST:PORT, got 'http://h:2'",
        ),
    ],
)
def test_wrong_usage_is_exit_code_2_and_one_sentence(invoke: Invoke, arguments: list[str], told: str) -> None:
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert told in result.err


def test_a_deviation_file_without_reasons_is_wrong_usage(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(f'[[deviation]]\ncase = "{ONE}"\n')
    result = invoke("run", "--target", "fake", "--select", ONE, "--deviations", str(file))
    assert result.exit_code == 2
    assert "has no reason" in result.err


def test_a_target_that_cannot_be_reached_is_exit_code_4(invoke: Invoke) -> None:
    result = invoke("run", "--target", "127.0.0.1:1", "--select", ONE)
    assert result.exit_code == 4
    assert "no RocketMQ 5 proxy answers" in result.err


def test_an_apache_server_without_java_is_exit_code_4_with_a_reason(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = invoke("run", "--target", "apache:5.5.0", "--select", ONE)
    assert result.exit_code == 4
    assert "needs Java" in result.err


def test_cases_are_listed_with_level_and_claim(invoke: Invoke) -> None:
    result = invoke("list", "--select", "send.*")
    assert result.exit_code == 0
    assert ONE in result.out
    assert all(
        case["id"].startswith("send.")
        for case in json.loads(invoke("list", "--select", "send.*", "--json").out)
    )


def test_explain_takes_an_id_with_or_without_its_parameter(invoke: Invoke) -> None:
    result = invoke("explain", ONE)
    assert result.exit_code == 0
    assert load()[ONE].claim in result.out
    parametrised = next(case for case in load() if case.stem != case.id)
    assert parametrised.id in invoke("explain", parametrised.stem).out
    assert invoke("explain", "no.such").exit_code == 2
