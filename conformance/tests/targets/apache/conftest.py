"""Fixtures of the Apache launcher."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from aiorocketmq_conformance.targets.apache.jars import cache_directory

MISSING = [program for program in ("java", "mvn") if shutil.which(program) is None]


@pytest.fixture(autouse=True)
def needs_java_and_maven(request: pytest.FixtureRequest) -> None:
    """Skip tests marked `real` where a real server cannot be started, and say why."""
    if request.node.get_closest_marker("real") and MISSING:
        pytest.skip(f"a real Apache server needs {' and '.join(MISSING)} on the search path")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return cache_directory()


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java and Maven."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
