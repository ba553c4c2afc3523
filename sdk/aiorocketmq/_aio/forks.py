"""What a fork does to open clients: the child's copies are closed, because threads and event loop stay with the parent.

Without this a call in the child would wait for ever for a thread that is not there."""

from __future__ import annotations

import os
from functools import cache
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something open that does not work in a child process."""

    def orphan(self) -> None:
        """Be closed from now on; called in the child, before anything else runs there."""


_open: WeakSet[Forkable] = WeakSet()


def watch(one: Forkable) -> None:
    """Orphan `one` in every child that this process forks from now on."""
    _register()
    _open.add(one)


@cache
def _register() -> None:
    os.register_at_fork(after_in_child=_orphan_all)


def _orphan_all() -> None:
    for one in tuple(_open):
        one.orphan()
    _open.clear()
