"""Kinds of faults, and of what only looks like one, that can be planted into a recording: scenes by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from aiorocketmq_audit.generator.plants.scene import Row, Scene
from aiorocketmq_audit.generator.shape import Shape

__all__ = ["KINDS", "Kind", "Planted", "rows_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break one promise in a scene in which all else is as promised; or none, without an invariant."""

    check: str
    invariant: str
    script: str
    """Steps in the language of `scene`."""
    observer: str
    """Who records it: `broker` or `client`."""
    alone: bool
    """It concerns whole groups or servers, and so needs a recording of its own: it would exempt others."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A finding that the audit must come to."""

    kind: str
    check: str
    invariant: str
    observer: str
    topic: str
    """Of its scene alone."""
    message_id: str
    attempt: int | None
    """Of the delivery that must be found; None if it is the message."""


def rows_of(name: str, *, number: int, start_us: int, shape: Shape) -> tuple[list[Row], tuple[Planted, ...]]:
    """The rows of a scene of this kind in the order of its steps, and what must be found in them.

    `number` tells apart scenes of one kind; times are microseconds from `start_us` on. See `planting.numbered`.
    """
    kind = KINDS[name]
    scene = Scene(name, number, start_us, shape, kind.observer)
    scene.play(kind.script)
    expected = (Planted(name, kind.check, kind.invariant, kind.observer, *each) for each in scene.expected)
    return scene.rows, tuple(expected)


def _read(text: str) -> dict[str, Kind]:
    """Kinds under `[check: invariant]` or `[none]`, one a line: `name [client] [alone]: steps`."""
    kinds: dict[str, Kind] = {}
    check = invariant = ""
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("["):
            check, _, invariant = line.strip("[]").removeprefix("none").partition(": ")
        elif line and not line.startswith("#"):
            head, _, script = line.partition(": ")
            name, *flags = head.split()
            observer = "client" if "client" in flags else "broker"
            kinds[name] = Kind(check, invariant, script, observer, "alone" in flags)
    return kinds


def _all() -> dict[str, Kind]:
    names = ("content", "allowed", "deliveries", "queues")
    texts = (files(__package__).joinpath(f"{name}.scenes").read_text(encoding="utf-8") for name in names)
    return _read("\n".join(texts))


KINDS = _all()
"""By name: what is broken, and how."""
