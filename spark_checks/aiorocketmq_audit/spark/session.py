"""The Spark session of an audit: the caller's, a cluster's, Spark Connect's, or a local one tuned for the recording."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from aiorocketmq_audit.errors import NoJava, WrongUse
from aiorocketmq_audit.failures import reason
from aiorocketmq_audit.spark.java import java_home

TINY = 1 << 20
"""Recordings up to this many bytes (some ten thousand events) are judged before compiled queries pay."""

SMALL = 32 << 20
"""Recordings up to this many bytes (about a million events) are judged before Java's second compiler pays."""

_NAME = "aiorocketmq audit"

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
    # Spark counts the fields of structs, too, and would interpret our rows.
    "spark.sql.codegen.maxFields": "1000",
    # What follows from conditions is worked out for every column of every step: seconds for plans as wide as ours.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java never compiles a longer method, and Spark's own limit is eight times that.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Otherwise each column asks Java for the line of this package that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}

_TINY = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def session(
    master: str | None = None, *, size: int = 0, memory: str | None = None, lasting: bool = False
) -> Iterator[SparkSession]:
    """Yield a session for a recording of `size` bytes (0: unknown), and stop it unless it was running before.

    Without `master`: the caller's running session, that of `spark-submit` or `SPARK_REMOTE`, else `local[*]`.
    `master` is any that Spark knows, or the `sc://` address of a Spark Connect server. Only local sessions are tuned;
    `lasting` ones serve many audits, so that Java compiles better. `memory` is the heap of a driver that is started
    here, such as "4g". Raises NoJava if Spark does not start, WrongUse if packages for Spark Connect are missing.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        yield running
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_submitted or "SPARK_REMOTE" in os.environ or (master or "").startswith("sc://"):
        with _attached(master) as spark:
            yield spark
        return
    with _launched(settings(master or "local[*]", size, memory, lasting=lasting)) as spark:
        yield spark


@contextmanager
def _attached(master: str | None) -> Iterator[SparkSession]:
    """Use the Java process of `spark-submit`, or a Spark Connect server; both keep what was chosen for them."""
    builder = SparkSession.builder.appName(_NAME)
    if master:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    try:
        spark = builder.getOrCreate()
    except ImportError as error:
        raise WrongUse(
            f"Spark Connect needs more packages ({reason(error)}): run pip install 'aiorocketmq[connect]'."
        ) from error
    except (PySparkException, Py4JError) as error:
        raise NoJava(f"Spark did not start ({reason(error)}): look at --master and SPARK_REMOTE.") from error
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _launched(conf: dict[str, str]) -> Iterator[SparkSession]:
    """Start Java by PySpark's launcher and stop it afterwards; local sessions print nothing of their own."""
    chosen = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    with TemporaryFile() as output:
        is_quiet = conf["spark.master"].startswith("local")
        streams = {"stdout": output, "stderr": output} if is_quiet else None
        try:
            with java_home():
                # PySpark has no types for it.
                gateway = launch_gateway(chosen, streams)  # type: ignore[no-untyped-call]
        except PySparkException as error:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines() or [str(error)]
            # Java's last line; the launcher's script complains after it, or alone.
            why = next((line for line in reversed(lines) if "spark-class: " not in line), lines[0])
            raise NoJava(
                f"Spark did not start ({reason(Exception(why))}): set JAVA_HOME to another Java, "
                "or run pip install 'aiorocketmq[jre]'."
            ) from error
    try:
        try:
            SparkContext(conf=chosen, gateway=gateway)
        except (PySparkException, Py4JError) as error:
            raise NoJava(f"Spark did not start ({reason(error)}): look at --master.") from error
        spark = SparkSession.builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        # PySpark would use the ended process for the next session of this program.
        SparkContext._gateway = SparkContext._jvm = None


def settings(master: str, size: int, memory: str | None, *, lasting: bool = False) -> dict[str, str]:
    """Return what a session that is started here is configured with, for a recording of `size` bytes."""
    conf = {"spark.app.name": _NAME, "spark.master": master}
    if memory:
        conf["spark.driver.memory"] = memory
    if not master.startswith("local") or master.startswith("local-cluster"):
        return conf
    conf = _LOCAL | conf
    if size > SMALL:
        # Some to share, and of large recordings about a million events in each.
        parts = str(max(os.cpu_count() or 1, size >> 25))
        return {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": parts} | conf
    java = "-XX:+UseSerialGC" if lasting else "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    small = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    return small | _SMALL | conf | (_TINY if size <= TINY else {})
