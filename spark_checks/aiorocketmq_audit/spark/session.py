"""The Spark session of an audit: the caller's, a cluster's, Spark Connect's, or a local one tuned for the recording."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from aiorocketmq_audit.errors import SparkUnavailableError, UsageError
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.spark.java import launching
from aiorocketmq_audit.spark.progress import progress

TINY = 1 << 20
"""Up to this many bytes (some ten thousand events), compiling queries costs more time than it saves."""

SMALL = 32 << 20
"""Up to this many bytes (about a million events), Java's second compiler costs more time than it saves."""

_NAME = "aiorocketmq audit"
_PARTITIONS = "spark.sql.shuffle.partitions"

_LOCAL = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.killEnabled": "false",
    # Any free port: Spark tries a fixed range only, too few for many concurrent audits.
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    # Spark counts fields of structs as well; above its default, rows as wide as ours would not be compiled.
    "spark.sql.codegen.maxFields": "1000",
    # Inferring constraints for every column of every step takes seconds for plans as wide as ours.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java does not compile longer methods; Spark's default limit is eight times that.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Otherwise a call to Java for each column records the line of this package that created it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.adaptive.enabled": "false",
}

_TINY = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def session(master: str | None = None, *, size: int = 0, memory: str | None = None) -> Iterator[SparkSession]:
    """Yield a session for a recording of `size` bytes (0: unknown), and stop it unless it was running before.

    An active session of the caller is used unchanged, else that of `spark-submit` or `SPARK_REMOTE`, else one for
    `master`: any that Spark supports, or the `sc://` address of a Spark Connect server; by default `local[*]`. Only
    local sessions are tuned; for others only the number of shuffle partitions is set, unless it is configured. `memory`
    is the heap of a driver that is started here, such as "4g".
    Raises JavaNotFoundError without Java, SparkUnavailableError if Spark does not start, and UsageError if packages
    for Spark Connect are missing.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    is_started = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    is_attached = is_started or (master or "").startswith("sc://")
    local = master or "local[*]"
    with ExitStack() as started:
        with progress("starting Spark"):
            spark = started.enter_context(
                _attached(master) if is_attached else _launched(settings(local, size, memory))
            )
        if size and _PARTITIONS not in spark.conf.getAll:
            spark.conf.set(_PARTITIONS, _partitions(size))
        yield spark


@contextmanager
def _attached(master: str | None) -> Iterator[SparkSession]:
    """Use the Java process of `spark-submit`, or a Spark Connect server, with their own configuration."""
    builder = SparkSession.builder.appName(_NAME)
    if master:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    try:
        spark = builder.getOrCreate()
    except ImportError as error:
        raise UsageError(
            f"Spark Connect needs more packages ({reason(error)}): run pip install 'aiorocketmq[connect]'."
        ) from error
    except (PySparkException, Py4JError) as error:
        raise SparkUnavailableError(
            f"Spark did not start ({reason(error)}): check --master and SPARK_REMOTE."
        ) from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _launched(conf: dict[str, str]) -> Iterator[SparkSession]:
    """Start Java by PySpark's launcher and stop it afterwards; local sessions log nothing."""
    chosen = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    with TemporaryFile() as output:
        is_local = _is_local(conf["spark.master"])
        streams = {"stdout": output, "stderr": output} if is_local else None
        try:
            # Otherwise Spark's UI listens on all addresses.
            with launching(**({"SPARK_LOCAL_IP": "127.0.0.1"} if is_local else {})):
                # PySpark has no types for it.
                gateway = launch_gateway(chosen, streams)  # type: ignore[no-untyped-call]
        except PySparkException as error:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines() or [str(error)]
            # The last line of Java; the launcher's script may add a message, or be the only one to print.
            why = next((line for line in reversed(lines) if "spark-class: " not in line), lines[0])
            raise SparkUnavailableError(
                f"Spark did not start ({reason(Exception(why))}): set JAVA_HOME to another Java, "
                "or run pip install 'aiorocketmq[jre]'."
            ) from error
    try:
        try:
            SparkContext(conf=chosen, gateway=gateway)
        except (PySparkException, Py4JError) as error:
            raise SparkUnavailableError(f"Spark did not start ({reason(error)}): check --master.") from error
        spark = SparkSession.builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        # Otherwise PySpark would use the stopped process for the next session of this program.
        SparkContext._gateway = SparkContext._jvm = None


def settings(master: str, size: int, memory: str | None) -> dict[str, str]:
    """Return the configuration of a session that is started here, for a recording of `size` bytes."""
    conf = {"spark.app.name": _NAME, "spark.master": master}
    if memory:
        conf["spark.driver.memory"] = memory
    if not _is_local(master):
        return conf
    conf = _LOCAL | conf
    parts = {_PARTITIONS: _partitions(size, os.cpu_count() or 1)}
    if not 0 < size <= SMALL:
        return {"spark.driver.memory": "2g"} | parts | conf
    return parts | _SMALL | conf | (_TINY if size <= TINY else {})


def _partitions(size: int, cores: int = 8) -> str:
    """Return the number of partitions: a few, and for large recordings one for each million events or so."""
    return "1" if 0 < size <= TINY else str(max(cores, size >> 25))


@contextmanager
def planned_for(spark: SparkSession, size: int) -> Iterator[None]:
    """Plan the block's queries for `size` bytes, like a session started for them; local sessions only."""
    is_tiny = size <= TINY and _is_local(spark.conf.get("spark.master") or "")
    fitting = _SMALL | _TINY | {_PARTITIONS: "1"} if is_tiny else {}
    names = [name for name in fitting if name.startswith("spark.sql.")]
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name in names:
            spark.conf.set(name, fitting[name])
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


def _is_local(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")
