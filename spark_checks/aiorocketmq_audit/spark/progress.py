"""A progress bar on standard error, if that is a terminal and rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Event, Thread

AFTER, EVERY = 1.0, 0.5
"""Seconds before the bar appears, and between updates."""


@contextmanager
def progress(name: str, tasks: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> Iterator[None]:
    """Show `tasks`, completed and total (0: unknown), while the block runs; nothing if it takes less than AFTER."""
    if sys.stderr is None or not sys.stderr.isatty() or find_spec("rich") is None:
        yield
        return
    ended = Event()
    drawing = Thread(target=_draw, args=(name, tasks, ended), daemon=True)
    drawing.start()
    try:
        yield
    finally:
        ended.set()
        drawing.join()


def _draw(name: str, tasks: Callable[[], tuple[int, int]], ended: Event) -> None:
    if ended.wait(AFTER):
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(name, total=None)
        while not ended.wait(EVERY):
            done, total = tasks()
            bar.update(shown, completed=done, total=total or None)
