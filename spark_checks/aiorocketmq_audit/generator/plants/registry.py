"""The register of faults that can be planted, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiorocketmq_audit.generator.scene import Handed, Mail, Scene

Accused: TypeAlias = Mail | Handed | tuple[Mail | Handed, ...]
"""Whom the findings must name: a message, or one delivery of it; a finding for each."""

Play: TypeAlias = Callable[[Scene], Accused]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break one promise, in a scene in which all else is as promised."""

    check: str
    invariant: str
    play: Play
    observer: str
    """By whose account."""
    alone: bool = False
    """It concerns whole groups or servers, and so needs a recording of its own: nothing to plant among others."""


KINDS: dict[str, Kind] = {}
"""By name: the invariant that is broken, and how."""


def kind(
    name: str, check: str = "", invariant: str = "", *, observer: str = "broker", alone: bool = False
) -> Callable[[Play], Play]:
    """Register a scene under its name."""

    def register(play: Play) -> Play:
        assert name not in KINDS, name
        KINDS[name] = Kind(check, invariant, play, observer, alone)
        return play

    return register
