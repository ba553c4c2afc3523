"""Closes open clients in forked child processes, since threads and event loop stay in the parent.

Without this, a call in the child would wait forever for a thread that does not exist."""

from __future__ import annotations

import os
from functools import cache
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An open object that does not work in a child process."""

    def orphan(self) -> None:
        """Mark it as closed; called in the child before anything else runs there."""


_open: WeakSet[Forkable] = WeakSet()


def watch(one: Forkable) -> None:
    """Call `one.orphan` in every child that this process forks from now on."""
    _register()
    _open.add(one)


@cache
def _register() -> None:
    os.register_at_fork(after_in_child=_orphan_all)


def _orphan_all() -> None:
    for one in tuple(_open):
        one.orphan()
    _open.clear()
