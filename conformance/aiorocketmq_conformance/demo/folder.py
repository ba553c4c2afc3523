"""The folder that a demonstration writes into."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

# What a demonstration leaves; nothing else is ever removed.
OWN = ("recording", "audit", "index.html", "demo.log")


def make_room(out: Path) -> None:
    """Remove an earlier demonstration from `out`; click.UsageError when something else is in it."""
    if not out.exists():
        return
    foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in OWN)
    if foreign:
        raise click.UsageError(
            f"{str(out)!r} holds something that is not an earlier demo's ({foreign[0]!r}): give --out an empty folder."
        )
    for name in OWN:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
