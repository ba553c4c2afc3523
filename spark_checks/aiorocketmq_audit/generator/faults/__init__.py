"""Kinds of faults, and of exempted behaviour, that can be injected into a recording: scenarios by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from aiorocketmq_audit.generator.faults.scenario import Row, Scenario
from aiorocketmq_audit.generator.shape import Shape

__all__ = ["KINDS", "ExpectedFinding", "Kind", "rows_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A scenario that violates one invariant and no other; none if `invariant` is unset."""

    check: str
    invariant: str
    script: str
    """Steps in the language of `scenario`."""
    observer: str
    """The observer that records it: `broker` or `client`."""
    alone: bool
    """It affects whole groups or servers and would exempt other findings: it needs a recording of its own."""


@dataclass(frozen=True, slots=True)
class ExpectedFinding:
    """A finding that the audit must report."""

    kind: str
    check: str
    invariant: str
    observer: str
    topic: str
    """The topic of its scenario, which no other scenario uses."""
    message_id: str
    attempt: int | None
    """Attempt of the delivery that must be reported; None for the message itself."""


def rows_of(
    name: str, *, number: int, start_us: int, shape: Shape
) -> tuple[list[Row], tuple[ExpectedFinding, ...]]:
    """Return the rows of a scenario of this kind in the order of its steps, and the expected findings.

    `number` distinguishes scenarios of one kind; times are microseconds from `start_us` on. See `injection.numbered`.
    """
    kind = KINDS[name]
    scenario = Scenario(name, number, start_us, shape, kind.observer)
    scenario.play(kind.script)
    expected = (
        ExpectedFinding(name, kind.check, kind.invariant, kind.observer, *each) for each in scenario.expected
    )
    return scenario.rows, tuple(expected)


def _read(text: str) -> dict[str, Kind]:
    """Parse kinds under `[check: invariant]` or `[none]`, one a line: `name [client] [alone]: steps`."""
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
    texts = (files(__package__).joinpath(f"{name}.scenarios").read_text(encoding="utf-8") for name in names)
    return _read("\n".join(texts))


KINDS = _all()
"""All kinds by name."""
