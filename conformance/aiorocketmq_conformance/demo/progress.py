"""The demonstration's steps on a terminal: a live table for people, plain lines where nobody watches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text


@dataclass(slots=True)
class Stage:
    """One step: what it is, what it last said, how long it took."""

    title: str
    words: str = ""
    started: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    failed: bool = False
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    def tell(self, words: str) -> None:
        """Replace what is said beside the title."""
        self.words = words


class Stages:
    """`with stages.stage("produce") as stage: stage.tell("...")`; several may be open at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages: list[Stage] = []
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=12, transient=False)

    def __enter__(self) -> Stages:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    @contextmanager
    def stage(self, title: str) -> Iterator[Stage]:
        """Show a step for as long as the block runs."""
        stage = Stage(title)
        self._stages.append(stage)
        try:
            yield stage
        except BaseException:
            stage.failed = True
            raise
        finally:
            stage.seconds = time.monotonic() - stage.started
            if not self._console.is_terminal:
                mark = "failed" if stage.failed else "done"
                self._console.print(f"{mark} {stage.seconds:6.1f} s  {title}: {stage.words}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for stage in self._stages:
            running = stage.seconds is None
            mark = (
                stage.spinner
                if running
                else Text("✘", "bold red")
                if stage.failed
                else Text("✔", "bold green")
            )
            took = time.monotonic() - stage.started if stage.seconds is None else stage.seconds
            table.add_row(mark, Text(stage.title, "bold"), Text(f"{took:5.1f} s", "dim"), Text(stage.words))
        return table
