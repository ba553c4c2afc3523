"""An exchange of blocks by files in a temporary folder, for workers that are all on this machine."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from aiorocketmq_audit.kernels.events import Piece
from aiorocketmq_audit.kernels.question import Told
from aiorocketmq_audit.kernels.tasks import Answer, Cut, Tasks

T = TypeVar("T")

Place = tuple[str, int, int]
"""A file, and from where on so many bytes of it are a block."""


class Exchange(ABC):
    """Workers that can each do a task: this makes them exchange what they cut."""

    @abstractmethod
    def _map(self, work: Callable[[Any], T], tasks: Sequence[Any]) -> list[T]:
        """What `work` makes of each task, in any order."""

    def each(self, look: Callable[[Sequence[Piece]], T], tasks: Tasks) -> list[T]:
        """What a look at each task's pieces says, in any order. Raises whatever a task raises."""
        return self._map(look, tasks)

    def exchanged(self, cut: Cut, answer: Answer, tasks: Tasks) -> list[Told]:
        """Cut all tasks' pieces, and answer each unit that has any rows, and of each question one at least. Raises as
        `each` does."""
        with tempfile.TemporaryDirectory(prefix="aiorocketmq-audit-") as folder:
            units: dict[int, dict[int, list[Place]]] = defaultdict(lambda: defaultdict(list))
            units |= {number * answer.count: defaultdict(list) for number in range(len(answer.questions))}
            for places in self._map(_Spill(cut, folder), tasks):
                for (unit, part), place in places.items():
                    units[unit][part].append(place)
            return self._map(_Gather(answer), [(unit, dict(parts)) for unit, parts in units.items()])


@dataclass(frozen=True, slots=True)
class _Spill:
    """Write blocks to a file of this process."""

    cut: Cut
    folder: str

    def __call__(self, pieces: Sequence[Piece]) -> dict[tuple[int, int], Place]:
        path = Path(self.folder) / str(os.getpid())
        places: dict[tuple[int, int], Place] = {}
        with path.open("ab") as file:
            for key, block in self.cut(pieces).items():
                places[key] = str(path), file.tell(), len(block)
                file.write(block)
        return places


@dataclass(frozen=True, slots=True)
class _Gather:
    """Read the blocks of a unit, and answer it."""

    answer: Answer

    def __call__(self, asked: tuple[int, Mapping[int, Sequence[Place]]]) -> Told:
        unit, places = asked
        with ExitStack() as stack:
            files: dict[str, IO[bytes]] = {}

            def read(place: Place) -> bytes:
                path, at, size = place
                if path not in files:
                    files[path] = stack.enter_context(open(path, "rb"))
                files[path].seek(at)
                return files[path].read(size)

            return self.answer(unit, {part: [read(place) for place in mine] for part, mine in places.items()})
