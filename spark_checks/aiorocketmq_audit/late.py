"""A Spark session that is started when somebody asks for it first: most audits of a healthy recording never do."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from aiorocketmq_audit.spark.session import session


class LateSession:
    """The session for a recording of `size` bytes, as `session` chooses it by `master` and `memory`; `given` one is the
    caller's."""

    def __init__(
        self,
        size: int,
        *,
        master: str | None = None,
        memory: str | None = None,
        given: SparkSession | None = None,
    ) -> None:
        self._size, self._wanted, self._memory = size, master, memory
        self._spark = given
        self._stack = ExitStack()

    def __enter__(self) -> LateSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def master(self) -> str:
        """Where Spark works, or would work; empty where nobody here can tell."""
        is_chosen_elsewhere = os.environ.get("PYSPARK_GATEWAY_PORT") or os.environ.get("SPARK_REMOTE")
        running = self._spark or SparkSession.getActiveSession()
        if running is None and not is_chosen_elsewhere:
            return self._wanted or "local[*]"
        if running is not self._spark and self._wanted is not None:
            return self._wanted
        spark = self.spark()
        return "" if is_remote() else str(spark.conf.get("spark.master", ""))

    def spark(self, size: int | None = None) -> SparkSession:
        """The session; if it is started now, for so many bytes. Raises NoJava without Java."""
        if self._spark is None:
            self._spark = self._stack.enter_context(
                session(self._wanted, size=self._size if size is None else size, memory=self._memory)
            )
        return self._spark
