"""Fetching jars: what is refused, what is kept, and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java, has_proxy
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Maven is a shell script")


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> Callable[[str], object]:
    """Put a program called mvn on the search path; what it does is the text given."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.touch()
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program.write_text


COPIES = """#!/bin/sh
for argument in "$@"; do case "$argument" in -DoutputDirectory=*) out="${argument#*=}";; esac; done
mkdir -p "$out" && cp pom.xml "$out/pom.xml" && echo run >> "%s"
"""


def text_of(jars: Path) -> str:
    return (jars / "pom.xml").read_text()


def counted(runs: Path) -> str:
    return runs.read_text()


def names(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


@pytest.mark.usefixtures("no_programs")
def test_without_java_the_error_names_what_to_install() -> None:
    with pytest.raises(
        ApacheUnavailableError, match="needs Java, which was not found: install a JDK 17 or set JAVA_HOME"
    ):
        find_java()


@posix
def test_the_java_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == str(java)


@pytest.mark.usefixtures("no_programs")
async def test_without_maven_the_error_names_what_to_install(empty_cache: Path) -> None:
    with pytest.raises(ApacheUnavailableError, match="mvn was not found: install Maven"):
        await fetch_jars("5.5.0")


@pytest.mark.parametrize("version", ["", "latest", "5.5", "5.5.0-SNAPSHOT", "../../etc", "5.5.0<x>"])
async def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(ApacheUnavailableError, match=r"is not a version .*5\.5\.0"):
        await fetch_jars(version)


@posix
async def test_jars_are_fetched_once_and_kept(
    maven: Callable[[str], object], empty_cache: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    maven(COPIES % runs)
    first = await fetch_jars("5.5.0")
    assert await fetch_jars("5.5.0") == first == empty_cache / "5.5.0"
    assert counted(runs) == "run\n"
    assert "<artifactId>rocketmq-proxy</artifactId><version>5.5.0</version>" in text_of(first)
    assert names(empty_cache) == ["5.5.0"], "nothing half-made stays"


@posix
async def test_a_4_x_server_has_no_proxy_to_fetch(
    maven: Callable[[str], object], empty_cache: Path, tmp_path: Path
) -> None:
    maven(COPIES % (tmp_path / "runs"))
    pom = text_of(await fetch_jars("4.9.7"))
    assert "rocketmq-proxy" not in pom
    assert "rocketmq-broker" in pom
    assert not has_proxy("4.9.7")


@posix
@pytest.mark.parametrize(
    ("says", "told"),
    [
        (
            "[ERROR] Could not find artifact org.apache.rocketmq:rocketmq-tools:jar:5.3.1 in central",
            r"5\.3\.1 is not complete in Maven's repository \(rocketmq-tools is missing\): try one of 5\.5\.0",
        ),
        (
            "[ERROR] Could not transfer artifact: no network",
            "could not fetch .*: Could not transfer artifact",
        ),
        ("", "no reason given"),
    ],
)
async def test_errors_of_maven_become_one_sentence(
    maven: Callable[[str], object], empty_cache: Path, says: str, told: str
) -> None:
    maven(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    with pytest.raises(ApacheUnavailableError, match=told):
        await fetch_jars("5.3.1")
    assert names(empty_cache) == []


@posix
async def test_a_hanging_maven_is_ended(maven: Callable[[str], object], empty_cache: Path) -> None:
    maven("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(ApacheUnavailableError, match=r"within 0\.05 s"):
        await fetch_jars("5.5.0", timeout=0.05)
    assert names(empty_cache) == []


@posix
async def test_a_cancelled_fetch_leaves_the_cache_as_it_was(
    maven: Callable[[str], object], empty_cache: Path, tmp_path: Path
) -> None:
    started = asyncio.Event()
    maven("#!/bin/sh\nexec sleep 600\n")
    task = asyncio.ensure_future(fetch_jars("5.5.0"))
    asyncio.get_running_loop().call_later(0.05, started.set)
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(empty_cache) == []
