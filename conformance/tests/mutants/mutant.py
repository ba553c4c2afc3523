"""A mutant: one injected defect of the fake, and the cases that must fail on it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import aiorocketmq_fake

from tools.mutation.patching import Loaded, swap

FAKE = Path(aiorocketmq_fake.__file__).parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One injected defect of the fake: a change of one text in the functions of one file, or of fields of a profile."""

    name: str
    """MU and its number in inventory section 7; `mu-` and words where that list has none."""
    kills: tuple[str, ...]
    """Globs of the cases that must fail on it."""
    defect: str = ""
    """In words."""
    file: str = ""
    """A file of the fake, from the folder of its package."""
    before: str = ""
    """What stands in the file once; the ends of lines included, its lines are indented as there."""
    after: str = ""
    """What stands there instead."""
    spares: tuple[str, ...] = (
        "life.settings-simple",
        "life.heartbeat-ok[simple]",
        "send.body-roundtrip[cjk]",
    )
    """Cases that must still pass: a mutant that breaks everything proves little."""
    profile: str = "documented"
    changes: Mapping[str, object] = field(default_factory=dict)
    """Fields of the profile with other values."""
    subject: str = ""
    """The name of the file that has the mutant."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Have the fake in this process do what the changed text does, until the block is left."""
        if not self.file:
            yield
            return
        path = FAKE / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.file} must have this once: {self.before!r}")
        swaps = _loaded().swaps(path, text, text.replace(self.before, self.after))
        if not swaps:
            raise ValueError(f"{self.name}: the change must be inside of functions, and change what they do")
        own = {function: function.__code__ for function in swaps}
        try:
            swap(swaps)
            _forget_results()
            yield
        finally:
            swap(own)
            _forget_results()


def _forget_results() -> None:
    """Clear what functions of the fake have kept of earlier calls."""
    for name, module in sys.modules.items():
        if name.startswith(aiorocketmq_fake.__name__):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@cache
def _loaded() -> Loaded:
    return Loaded([aiorocketmq_fake.__name__])


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a file: a table of tables by the file that they change, "profile" for those of a profile."""
    for file, tables in tomllib.loads(path.read_text(encoding="utf-8")).items():
        for name, table in tables.items():
            fields: dict[str, Any] = dict(table)  # Any: fields of many types
            for key in ("kills", "spares"):
                if key in fields:
                    fields[key] = tuple(fields[key])
            yield Mutant(name, file="" if file == "profile" else file, subject=path.stem, **fields)
