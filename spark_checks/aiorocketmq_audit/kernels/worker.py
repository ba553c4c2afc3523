"""One worker of `processes`: reads work and tasks from its standard input, and answers on its standard output.

Work is a callable; a task is ("task", argument), which the last callable is called with.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    """Work until the input ends."""
    # Ctrl-C is for whoever started this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints shall not be taken for an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work: Callable[[Any], Any] | None = None
    while True:
        try:
            message = pickle.load(asked)
        except EOFError:
            return
        if not isinstance(message, tuple):
            work = message
            continue
        assert work is not None
        answers.write(_answer(work, message[1]))
        answers.flush()


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    try:
        return pickle.dumps((True, work(task)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            return pickle.dumps((False, error), pickle.HIGHEST_PROTOCOL)
        except Exception:
            return pickle.dumps((False, RuntimeError(repr(error))), pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
