"""A Spark session for one audit: the caller's own where there is one, else a local one tuned for its size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files

from pyspark import SparkContext
from pyspark.sql import SparkSession

from aiorocketmq_audit import java

SMALL = 16 << 20
"""Recordings up to this many bytes (about a million events) are done before Java's second compiler pays."""

ARCHIVING = 300.0
"""Seconds that Java may take to write its class archive as it ends; 13 to 20 are usual."""

TINY = 1 << 20
"""Recordings up to this many bytes (some ten thousand events) are done before compiled queries pay."""

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
}


@contextmanager
def session(master: str | None = None, *, size: int = 0, warm_up: bool = False) -> Iterator[SparkSession]:
    """Yield a session for a recording of `size` bytes and end it afterwards, unless it was there before.

    A running session, `spark-submit`, Spark Connect and every `master` that is not local are the caller's: their
    settings stand. Otherwise a Java is found and started with settings for this size (spark-audit.md section 3).
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        yield running
        return
    if not _is_ours(master):
        builder = SparkSession.builder.appName("aiorocketmq audit")
        spark = (builder.master(master) if master else builder).getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
        return
    with _own_session(master or "local[*]", size=size, warm_up=warm_up) as spark:
        yield spark


def _is_ours(master: str | None) -> bool:
    if os.environ.get("PYSPARK_GATEWAY_PORT") or os.environ.get("SPARK_REMOTE"):
        return False
    return master is None or (master.startswith("local") and not master.startswith("local-cluster"))


@contextmanager
def _own_session(master: str, *, size: int, warm_up: bool) -> Iterator[SparkSession]:
    runtime = java.find()
    with as_file(files("aiorocketmq_audit") / "log4j2.properties") as logging:
        options = (
            *_machine_options(size),
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
            *java.archive_options(runtime, make=warm_up),
        )
        conf = _LOCAL | {"spark.master": master, "spark.sql.shuffle.partitions": str(partitions(size))}
        if size <= TINY:
            conf |= _INTERPRETED
        process, variables = java.start(runtime, conf, options)
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            spark = SparkSession.builder.appName("aiorocketmq audit").getOrCreate()
            try:
                yield spark
            finally:
                spark.stop()
        finally:
            _detach()
            # A class archive is written while Java ends.
            process.close(ARCHIVING if warm_up else 10.0)
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _machine_options(size: int) -> tuple[str, ...]:
    if size <= SMALL:
        return ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    return ("-Xmx4g", "-XX:+UseParallelGC")


def partitions(size: int) -> int:
    """How many parts a shuffle of a recording of `size` bytes has: about three million events in each."""
    cores = os.cpu_count() or 1
    return 1 if size <= 8 << 20 else max(cores, min(4 * cores, size >> 25), size // (96 << 20))


def _detach() -> None:
    """Forget the Java process, so that this Python may start another one later."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
