"""What a command shows on a terminal while it takes longer than a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_PATIENCE = 1.0


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` on standard error once the block has taken a second; the block may replace it by the function.

    Nothing is shown if standard error is no terminal, nor in a command with `--json`."""
    context = click.get_current_context(silent=True)
    if not sys.stderr.isatty() or (context is not None and context.params.get("as_json")):
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    # As Text: names in brackets would be parsed as markup.
    status = Console(stderr=True).status(Text(text))
    # A thread, since the block may keep the event loop busy.
    timer = threading.Timer(_PATIENCE, status.start)
    timer.start()
    try:
        yield lambda text: status.update(Text(text))
    finally:
        timer.cancel()
        timer.join()
        status.stop()
