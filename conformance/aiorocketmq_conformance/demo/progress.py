"""Progress of the demonstration: a live table on a terminal, plain lines otherwise."""

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
class ProgressStep:
    """One step: its title, its last text, its duration."""

    title: str
    text: str = ""
    started: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    failed: bool = False
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    def update(self, text: str) -> None:
        """Replace the text after the title."""
        self.text = text


class Progress:
    """`with progress.step("produce") as step: step.update("...")`; several may be open at once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._steps: list[ProgressStep] = []
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=12, transient=False)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    @contextmanager
    def step(self, title: str) -> Iterator[ProgressStep]:
        """Show a step while the block runs."""
        step = ProgressStep(title)
        self._steps.append(step)
        try:
            yield step
        except BaseException:
            step.failed = True
            raise
        finally:
            step.seconds = time.monotonic() - step.started
            if not self._console.is_terminal:
                mark = "failed" if step.failed else "done"
                self._console.print(f"{mark} {step.seconds:6.1f} s  {title}: {step.text}", soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for step in self._steps:
            running = step.seconds is None
            mark = (
                step.spinner if running else Text("✘", "bold red") if step.failed else Text("✔", "bold green")
            )
            took = time.monotonic() - step.started if step.seconds is None else step.seconds
            table.add_row(mark, Text(step.title, "bold"), Text(f"{took:5.1f} s", "dim"), Text(step.text))
        return table
