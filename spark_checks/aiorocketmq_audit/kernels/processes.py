"""Workers that are processes of this machine: without Spark, whose start takes longer than most recordings do.

Each is a fresh interpreter that is told by its standard input what to do, one task after the other, and ends with it.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from aiorocketmq_audit.errors import WorkerLost
from aiorocketmq_audit.kernels.exchange import Exchange

T = TypeVar("T")


class Processes(Exchange):
    """Some worker processes; none of them where this one is enough. What fails raises WorkerLost, or whatever a task
    raises."""

    def __init__(self, workers: Sequence[subprocess.Popen[bytes]]) -> None:
        self._workers = workers

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
