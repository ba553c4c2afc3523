"""A Spark session for one audit: the caller's own where there is one, else a local one tuned for its size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aiorocketmq_audit import java
from aiorocketmq_audit.errors import NoJava
from aiorocketmq_audit.failures import reason

SMALL = 32 << 20
"""Recordings up to this many bytes (about a million events) are done before Java's second compiler pays."""

ARCHIVING = 300.0
"""Seconds that Java may take to write its class archive as it ends; 13 to 20 are usual."""

TINY = 1 << 20
"""Recordings up to this many bytes (some ten thousand events) are done before compiled queries pay."""

_ALONE = 8 << 20
"""Recordings up to this many bytes are shuffled into one part."""

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

_IN_ONE_PART = {
    # Rows that are all in one part need not be sent anywhere: a broadcast is a job of its own, and there are dozens.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}

_STARTED = {
    # Errors would name the line of this package that built a column; asking for it costs a call for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""For every session that is started here."""

_PLANS = {
    # What follows from conditions is worked out for every column of every step: seconds for plans as wide as ours.
    "spark.sql.constraintPropagation.enabled": "false",
    # Java never compiles a longer method, and Spark's own limit is eight times that: one step of the screen, 8,162
    # bytes long, was interpreted for all rows. Above the limit Spark makes many short methods instead.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
"""What makes plans like ours quick, in every session that is made for an audit."""

_LOCAL = {
    **_STARTED,
    **_PLANS,
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    # Of three large tasks on two cores the last one runs alone.
    "spark.sql.files.maxPartitionBytes": "32m",
}

_SMALL = {
    # Each sort and each hash table takes a page at least, and one task of a small audit has dozens of them.
    "spark.buffer.pageSize": "1m",
}


@contextmanager
def session(
    master: str | None = None,
    *,
    size: int = 0,
    warm_up: bool = False,
    memory: str | None = None,
    lasting: bool = False,
) -> Iterator[SparkSession]:
    """Yield a session for a recording of `size` bytes and end it afterwards, unless it was there before.

    A running session is the caller's, and stays as it is. That of `spark-submit`, Spark Connect or a `master` that is
    not local keeps what was chosen for it; what nobody chose is set for this size. Otherwise a Java is found and
    started with settings for this size (spark-audit.md section 3), and with `memory` as its heap ("4g"), if given.
    `lasting` sessions serve many audits: Java compiles better there.
    """
    running = SparkSession.getActiveSession()
    if running is not None and master is None:
        yield running
        return
    if not _is_ours(master):
        builder = SparkSession.builder.appName("aiorocketmq audit")
        if master:
            builder = builder.master(master).config(map={**_STARTED})
        spark = builder.getOrCreate()
        try:
            set_unchosen(spark, size)
            yield spark
        finally:
            spark.stop()
        return
    options = _machine_options(size, memory, lasting=lasting)
    with _own_session(master or "local[*]", size, options, warm_up=warm_up) as spark:
        yield spark


def set_unchosen(spark: SparkSession, size: int) -> None:
    """Set, in the session of a cluster, what nobody has chosen, for a recording of `size` bytes (0: unknown)."""
    wanted = dict(_PLANS)
    if size:
        # Some to share, and of large recordings about a million events in each: nobody knows the cluster's cores.
        # Spark's own 200 are minutes of overhead for a recording of a few megabytes.
        wanted["spark.sql.shuffle.partitions"] = str(1 if size <= _ALONE else max(8, size >> 25))
    for name, value in wanted.items():
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, value)


def _is_ours(master: str | None) -> bool:
    if os.environ.get("PYSPARK_GATEWAY_PORT") or os.environ.get("SPARK_REMOTE"):
        return False
    return master is None or (master.startswith("local") and not master.startswith("local-cluster"))


@contextmanager
def _own_session(
    master: str, size: int, machine: tuple[str, ...], *, warm_up: bool
) -> Iterator[SparkSession]:
    runtime = java.find()
    with as_file(files("aiorocketmq_audit") / "log4j2.properties") as logging:
        options = (
            *machine,
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
            *java.archive_options(runtime, make=warm_up),
        )
        conf = _LOCAL | {"spark.master": master, "spark.sql.shuffle.partitions": str(partitions(size))}
        if size <= SMALL:
            conf |= _SMALL
        if size <= TINY:
            conf |= _INTERPRETED
        if 0 < size <= TINY:
            conf |= _IN_ONE_PART
        process, variables = java.start(runtime, conf, options)
        try:
            with _environment(variables):
                try:
                    spark = SparkSession.builder.appName("aiorocketmq audit").getOrCreate()
                except (PySparkException, Py4JError) as error:
                    # Now, as Java is asked for the text of its errors, and it ends with this attempt.
                    raise NoJava(
                        f"Spark did not start ({reason(error)}): look at --master, or give another Java than "
                        f"{runtime.program} by JAVA_HOME."
                    ) from error
            _remember(spark.sparkContext)
            try:
                yield spark
            finally:
                spark.stop()
        finally:
            _detach()
            # A class archive is written while Java ends.
            process.close(ARCHIVING if warm_up else 10.0)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set these, only as long as PySpark reads them: other programs that this one starts shall not find our Java."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _machine_options(size: int, memory: str | None, *, lasting: bool) -> tuple[str, ...]:
    if size <= SMALL and lasting:
        return (f"-Xmx{memory or '2g'}", "-XX:+UseSerialGC")
    if size <= SMALL:
        # What the wheel of PySpark holds need not be verified at each start: that takes 2 of 19 seconds.
        unverified = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
        heap = f"-Xmx{memory or '1g'}"
        return (heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", *unverified)
    return (f"-Xmx{memory or '4g'}", "-XX:+UseParallelGC")


def partitions(size: int) -> int:
    """How many parts a shuffle of a recording of `size` bytes has: about three million events in each."""
    cores = os.cpu_count() or 1
    return 1 if size <= _ALONE else max(cores, min(4 * cores, size >> 25), size // (96 << 20))


_ASKED_OFTEN: Mapping[str, tuple[str, ...]] = {
    "org.apache.spark.sql.functions": ("col", "lit", "when", "coalesce", "count_if"),
    "functions": (),
    "PythonUtils": ("toSeq",),
}
"""Java classes, and functions of theirs, that PySpark looks up anew for every column."""


def _remember(context: SparkContext) -> None:
    """Look these up once: each lookup is a call, and for a class a search through all of Spark's jars."""
    for name, functions in _ASKED_OFTEN.items():
        found = getattr(context._jvm, name)
        for function in functions:
            setattr(found, function, getattr(found, function))
        setattr(context._jvm, name, found)


def _detach() -> None:
    """Forget the Java process, so that this Python may start another one later."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
