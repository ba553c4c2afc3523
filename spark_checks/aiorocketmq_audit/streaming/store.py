"""What following writes: findings by batch, the state that a batch leaves to the next, and a page of figures.

Every folder is named by its batch, written beside its place and moved there whole. A batch that is done again after a
crash therefore replaces what it had written, and a state that exists is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from aiorocketmq_audit.errors import WrongUse
from aiorocketmq_audit.streaming.progress import Progress

KEPT_STATES = 2
"""States that are left on the disk: the last one, and the one that its batch would need if it were done again."""


def uri(path: Path) -> str:
    """A path as Spark takes it: `as_uri` would write `=` and blanks in another way, which Spark takes for names."""
    return f"file://{path}"


class Store:
    """The folder given by `--out`."""

    def __init__(self, out: Path) -> None:
        self.out = out.resolve()
        self.violations = self.out / "violations"
        self.checkpoint = self.out / "following" / "checkpoint"
        self._states = self.out / "following" / "states"
        self._states.mkdir(parents=True, exist_ok=True)
        self.violations.mkdir(exist_ok=True)
        # What a killed process had begun to write.
        for begun in [*self._states.glob(".*"), *self.violations.glob(".*")]:
            shutil.rmtree(begun, ignore_errors=True)

    def progress(self, batch: int) -> Progress:
        """What is known after `batch`; raises WrongUse when that state is gone."""
        if batch < 0:
            return Progress()
        try:
            return Progress.from_json((self._state(batch) / "progress.json").read_text("utf-8"))
        except FileNotFoundError as error:
            raise WrongUse(
                f"{self.out} has no state of batch {batch}: give --out a new folder and begin again."
            ) from error

    def latest(self) -> Progress:
        """What is known after the last batch that was completed."""
        return self.progress(max((int(each.name) for each in self._states.glob("[0-9]*")), default=-1))

    def files(self, batch: int) -> list[str]:
        """The files with the events that `batch` left."""
        return [uri(path) for path in sorted((self._state(batch) / "events").glob("[!._]*.parquet"))]

    def told(self, spark: SparkSession, batch: int) -> DataFrame:
        """The keys of the findings that were written, up to and with `batch`."""
        if batch < 0 or not (self._state(batch) / "told").exists():
            return spark.range(0).selectExpr("id as key")
        return spark.read.schema("key bigint").parquet(uri(self._state(batch) / "told"))

    def write_findings(self, findings: DataFrame | None, batch: int) -> None:
        """Replace what `batch` had found. None: nothing."""
        place = self.violations / f"batch={batch}"
        made = self._beside(place)
        if findings is not None:
            findings.coalesce(1).write.mode("overwrite").parquet(uri(made))
        shutil.rmtree(place, ignore_errors=True)
        if findings is not None:
            made.rename(place)

    def write_state(
        self, batch: int, progress: Progress, write: Callable[[Path], None], told: DataFrame | None
    ) -> None:
        """Leave to the next batch what it needs; `write` puts the events into a folder that it makes. `told` None: the
        same as before."""
        place = self._state(batch)
        made = self._beside(place)
        shutil.rmtree(made, ignore_errors=True)
        write(made / "events")
        if told is not None:
            told.coalesce(1).write.parquet(uri(made / "told"))
        elif (self._state(batch - 1) / "told").exists():
            shutil.copytree(self._state(batch - 1) / "told", made / "told")
        (made / "progress.json").write_text(progress.to_json(), "utf-8")
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
        for old in self._states.glob("[0-9]*"):
            if int(old.name) <= batch - KEPT_STATES:
                shutil.rmtree(old, ignore_errors=True)

    def write_summary(self, document: Mapping[str, Any]) -> None:
        """Replace `following.json` in one step."""
        place = self.out / "following.json"
        made = self._beside(place)
        made.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        os.replace(made, place)

    def _state(self, batch: int) -> Path:
        return self._states / str(batch)

    @staticmethod
    def _beside(place: Path) -> Path:
        # Spark and pyarrow take no notice of names that begin so.
        return place.with_name(f".{place.name}.{os.getpid()}")


def keep(files: Sequence[str], folder: Path) -> None:
    """Give local files another name in `folder`, so that they stay if somebody takes them away."""
    folder.mkdir(parents=True)
    for number, file in enumerate(files):
        there = Path(file)
        here = folder / f"{number:06}-{there.name[-100:]}"
        try:
            os.link(there, here)
        except OSError:
            # Another disk, or one that knows no links.
            shutil.copyfile(there, here)
