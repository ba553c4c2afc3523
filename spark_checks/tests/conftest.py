"""One tuned Spark session for all tests, and a builder of small histories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiorocketmq_audit.recording.schema import COLUMNS, RECORDING
from pyspark.sql import DataFrame, SparkSession

from spark_checks.tests.bench import Bench, Judged, of_pages_and_scenes, tagged
from spark_checks.tests.histories import SECOND, START, History


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark up to 4.2 leaves it to the garbage collector to close the sockets of its results."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as `aiorocketmq audit` starts it for small recordings, on one core with one partition."""
    from aiorocketmq_audit.errors import JavaNotFoundError
    from aiorocketmq_audit.spark.session import session

    with ExitStack() as stack:
        try:
            spark_session = stack.enter_context(session("local[1]", size=1))
        except JavaNotFoundError as missing:
            pytest.skip(str(missing))
        yield spark_session


@pytest.fixture(scope="session")
def bench(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """All pages and scenes as one recording, whose frames are worked out once."""
    return of_pages_and_scenes(spark, tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="session")
def base(bench: Bench) -> dict[str, Judged]:
    """What the rules find in it."""
    return bench.judge(tagged(), bench.frames)


@pytest.fixture
def new_history() -> type[History]:
    return History


@pytest.fixture
def frame(spark: SparkSession) -> Callable[[Iterable[History]], DataFrame]:
    """Histories as one DataFrame of events."""

    def make(histories: Iterable[History]) -> DataFrame:
        rows = [tuple(row[name] for name in COLUMNS) for history in histories for row in history.rows]
        return spark.createDataFrame(rows, RECORDING)

    return make


@pytest.fixture(autouse=True)
def _no_other_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the session must not see what a surrounding spark-submit may have set."""
    if "SPARK_REMOTE" in os.environ:
        monkeypatch.delenv("SPARK_REMOTE")


@pytest.fixture
def programs(tmp_path: Path) -> Callable[..., Path]:
    """A folder with the programs that Spark's launcher needs, and `more`, for a path without Java."""

    def linked(*more: str) -> Path:
        folder = tmp_path / "programs"
        folder.mkdir()
        for name in ("bash", "dirname", "head", "rm", *more):
            (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        return folder

    return linked


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Write histories as the recorders do, one file each; returns the folder."""
    parquet = pytest.importorskip("pyarrow.parquet")
    from aiorocketmq.recording_format import arrow_schema
    from pyarrow import Table

    def write(*histories: History, name: str = "runs") -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        for history in histories:
            rows = [{key: row[key] for key in arrow_schema().names} for row in history.rows]
            path = folder / f"{history.rows[0]['recorder']}-00000.parquet"
            parquet.write_table(Table.from_pylist(rows, arrow_schema()), path)
        return folder

    return write


@pytest.fixture
def clean(new_history: type[History]) -> tuple[History, History]:
    """Two recorders: a normal group that climbs a ladder, and an ordered one; everything as promised.

    The second one is the broker's own account, and tells of sends, a delayed message and a dead letter too.
    """
    normal = new_history(recorder="normal-", group="billing")
    normal.config(ordered=False, max_attempts=17, steps_ms="10000,30000")
    at = 1.0
    for attempt, wait in ((1, 10), (2, 30), (3, 0)):
        delivered = normal.deliver("/7", at, attempt=attempt)
        if wait:
            normal.settle("change", delivered, at + 1, seconds=wait, reason="retry")
        else:
            normal.settle("ack", delivered, at + 1)
        at += 1 + wait
    ordered = new_history(recorder="ordered-", group="shipping", observer="broker")
    ordered.config(ordered=True, max_attempts=2)
    for offset in range(4):
        ordered.send(f"x/{offset}", 0.0, broker="b", queue=0, offset=offset)
        delivered = ordered.deliver(f"x/{offset}", 2.0 * offset, body_sha="body")
        ordered.settle("ack", delivered, 2.0 * offset + 1)
    ordered.settle("ack", ordered.deliver("/20", 10.0, due_us=START + 9 * SECOND), 11)
    ordered.settle("change", ordered.deliver("y/21", 20.0, hold=10), 21, seconds=10, reason="retry")
    last = ordered.deliver("y/21", 31.0, hold=10, attempt=2)
    ordered.bury(last, 41.0)
    beside(normal, ordered)
    return normal, ordered


def beside(normal: History, ordered: History) -> None:
    """A little of everything else: a transaction, a recall, an assignment, progress, and a queue that is read on."""
    ordered.send("/30", 50.0, tx_id="G")
    ordered.note("tx.end", 51.0, phase="ok", topic="t", tx_id="G", resolution="commit")
    ordered.settle("ack", ordered.deliver("/30", 52.0, tx_id="G", body_sha="body"), 53.0)
    ordered.send("/31", 50.0, due_us=START + 90 * SECOND)
    ordered.note("recall", 55.0, phase="ok", topic="t", message_id="/31")
    for offset, at in ((1, 50.0), (2, 55.0)):
        ordered.note("commit", at, group="shipping", topic="t", broker="b", queue=9, commit_offset=offset)
        delivery = normal.deliver(f"/{31 + offset}", at + 8 * offset, store_us=START + round(at * SECOND))
        normal.settle("ack", delivery, at + 20)
    owned = [{"broker": "b", "queue": 9}]
    normal.note("assign", 60.0, role="pull", group="billing", topic="t", client_id="p9", queues=owned)


@pytest.fixture
def plant(clean: tuple[History, History]) -> Callable[[str], tuple[History, History]]:
    """Break one promise in the clean recording, the one that the check of this name is about."""

    def broken(kind: str) -> tuple[History, History]:
        normal, ordered = clean
        if kind == "ordering":
            early = ordered.deliver("x/5", 8.0)
            late = ordered.deliver("x/4", 9.5)
            ordered.settle("ack", early, 9.0)
            ordered.settle("ack", late, 10.0)
        elif kind == "double delivery":
            normal.deliver("/8", 100.0, client_id="c1")
            second = normal.deliver("/8", 101.0, client_id="c2", attempt=2)
            normal.settle("ack", second, 102.0)
        elif kind == "retry timing":
            first = normal.deliver("/9", 100.0)
            normal.settle("change", first, 101.0, seconds=10, reason="retry")
            second = normal.deliver("/9", 106.0, attempt=2)
            normal.settle("ack", second, 107.0)
        elif kind == "loss":
            for offset in (0, 1, 2):
                ordered.send(f"q/{offset}", 100.0, broker="b", queue=7, offset=offset, message_group="q")
            for offset in (0, 2):
                delivery = ordered.deliver(f"q/{offset}", 101.0 + offset, queue=7, body_sha="body")
                ordered.settle("ack", delivery, 102.0 + offset)
        else:
            raise ValueError(kind)
        return normal, ordered

    return broken
