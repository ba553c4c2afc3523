"""Workers that are processes of this machine: without Spark, whose start takes longer than most recordings do.

Each is a fresh interpreter that is told by its standard input what to do, one task after the other, and ends with it.
Rows are exchanged by files in a temporary folder, one for each worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from aiorocketmq_audit.errors import WorkerLost
from aiorocketmq_audit.kernels.events import Piece
from aiorocketmq_audit.kernels.question import Told
from aiorocketmq_audit.kernels.tasks import Answer, Cut

T = TypeVar("T")

ALONE = 400_000
"""Rows up to which this process does it all: to start others takes as long."""

Place = tuple[str, int, int]
"""A file, and from where on so many bytes of it are a block."""


@dataclass(frozen=True, slots=True)
class _Spill:
    """Write blocks to a file of this process."""

    cut: Cut
    folder: str

    def __call__(self, pieces: Sequence[Piece]) -> dict[tuple[int, int], Place]:
        path = Path(self.folder) / str(os.getpid())
        places: dict[tuple[int, int], Place] = {}
        with path.open("ab") as file:
            for key, block in self.cut(pieces).items():
                places[key] = str(path), file.tell(), len(block)
                file.write(block)
        return places


@dataclass(frozen=True, slots=True)
class _Gather:
    """Read the blocks of a unit, and answer it."""

    answer: Answer

    def __call__(self, asked: tuple[int, Mapping[int, Sequence[Place]]]) -> Told:
        unit, places = asked
        with ExitStack() as stack:
            files: dict[str, IO[bytes]] = {}

            def read(place: Place) -> bytes:
                path, at, size = place
                if path not in files:
                    files[path] = stack.enter_context(open(path, "rb"))
                files[path].seek(at)
                return files[path].read(size)

            return self.answer(unit, {part: [read(place) for place in mine] for part, mine in places.items()})


class Processes:
    """Some worker processes; none of them where this one is enough."""

    def __init__(self, workers: Sequence[subprocess.Popen[bytes]]) -> None:
        self._workers = workers

    def each(self, look: Callable[[Sequence[Piece]], T], tasks: Sequence[Sequence[Piece]]) -> list[T]:
        """What a look at each task's pieces says, in any order. Raises WorkerLost, and whatever a task raises."""
        return self._map(look, tasks)

    def exchanged(self, cut: Cut, answer: Answer, tasks: Sequence[Sequence[Piece]]) -> list[Told]:
        """Cut all tasks' pieces, and answer each unit that has any rows. Raises as `each` does."""
        with tempfile.TemporaryDirectory(prefix="aiorocketmq-audit-") as folder:
            units: dict[int, dict[int, list[Place]]] = defaultdict(lambda: defaultdict(list))
            for places in self._map(_Spill(cut, folder), tasks):
                for (unit, part), place in places.items():
                    units[unit][part].append(place)
            return self._map(_Gather(answer), [(unit, dict(parts)) for unit, parts in units.items()])

    def _map(self, work: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
        if not self._workers:
            return [work(task) for task in tasks]
        waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        found: list[T] = []
        errors: list[BaseException] = []

        def drive(worker: subprocess.Popen[bytes]) -> None:
            try:
                _send(worker, work)
                while not errors:
                    try:
                        task = waiting.get_nowait()
                    except queue.Empty:
                        return
                    found.append(_asked(worker, task))
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=drive, args=(worker,), daemon=True, name="audit worker")
            for worker in self._workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return found


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Start `count` workers, and end them afterwards; 0 for none but this process."""
    with ExitStack() as stack:
        yield Processes([stack.enter_context(_worker()) for _ in range(count)])


@contextmanager
def _worker() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "aiorocketmq_audit.kernels.worker"]
    # Threads of libraries would only fight for the processors that the other workers have.
    variables = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | variables
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _send(worker: subprocess.Popen[bytes], message: object) -> None:
    assert worker.stdin is not None
    try:
        pickle.dump(message, worker.stdin, pickle.HIGHEST_PROTOCOL)
        worker.stdin.flush()
    except OSError as error:
        raise WorkerLost("a worker of the audit ended") from error


def _asked(worker: subprocess.Popen[bytes], task: object) -> Any:
    assert worker.stdout is not None
    _send(worker, ("task", task))
    try:
        done, found = pickle.load(worker.stdout)
    except (EOFError, pickle.UnpicklingError) as error:
        raise WorkerLost("a worker of the audit ended") from error
    if not done:
        raise found
    return found
