"""Declare cases, and select them by id, glob and level."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiorocketmq_conformance.target import Target

DEFAULT_TIMEOUT = 60.0
_ID = re.compile(r"[a-z]+\.[a-z0-9-]+(\[[^\[\]]+\])?")
_PARAMETER = re.compile(r"\[.*\]$")


class Level(Enum):
    """How binding a case is; inventory section 1."""

    MUST = "M"
    """Any broker that claims RocketMQ 5."""
    SHOULD = "S"
    """Documented or default Apache behaviour that users rely on."""
    EXTENSION = "X"
    """Judged only where the target claims the capability."""
    INFORMATIONAL = "I"
    """Recorded and printed, never failed: the oracles disagree."""


@dataclass(frozen=True, slots=True)
class Case:
    """One promise with a stable id; a parametrised function makes one case for each parameter."""

    id: str
    rules: tuple[str, ...]
    """Rule ids of broker-semantics.md, or section names of another reference page."""
    level: Level
    needs: tuple[str, ...]
    """Capabilities (`type.fifo`) and abilities (`@topic`) without which the case is not applicable."""
    claim: str
    """The promise in one sentence."""
    timeout: float
    """Seconds of the case's own clock after which it has failed to end; a real run overlaps such waits."""
    run: Callable[[Target], Awaitable[None]]

    @property
    def group(self) -> str:
        """The part before the first dot: `send` of `send.body-roundtrip[cjk]`."""
        return self.id.partition(".")[0]

    @property
    def stem(self) -> str:
        """The id without its parameter: `send.body-roundtrip` of `send.body-roundtrip[cjk]`."""
        return _PARAMETER.sub("", self.id)


class Registry:
    """Cases by id, in the order of their declaration."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}

    def add(self, case: Case) -> None:
        """Take `case` in; ValueError when the id is taken or malformed, or the claim is missing."""
        if not _ID.fullmatch(case.id):
            raise ValueError(f"case id {case.id!r} is not of the form group.name or group.name[parameter]")
        if case.id in self._cases:
            raise ValueError(f"case id {case.id!r} is declared twice")
        if not case.claim:
            raise ValueError(f"case {case.id!r} has no docstring: its first paragraph is the claim")
        if case.timeout <= 0:
            raise ValueError(f"case {case.id!r} has a timeout of {case.timeout:g} s; it must be positive")
        self._cases[case.id] = case

    def __getitem__(self, case_id: str) -> Case:
        return self._cases[case_id]

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._cases

    def __len__(self) -> int:
        return len(self._cases)

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases.values())

    def select(self, patterns: Sequence[str] = (), levels: Iterable[Level] = ()) -> list[Case]:
        """Cases whose id, with or without its parameter, matches any of `patterns`, of any of `levels`.

        Empty means all. A pattern is a shell glob in which brackets stand for themselves:
        `send.body-roundtrip[cjk]` names one case, `send.body-roundtrip` all of its parameters.
        """
        wanted = frozenset(levels)
        return [
            case
            for case in self._cases.values()
            if (not wanted or case.level in wanted)
            and (not patterns or any(_matches(case, pattern) for pattern in patterns))
        ]


def _matches(case: Case, pattern: str) -> bool:
    literal = pattern.replace("[", "[[]")
    return fnmatchcase(case.id, literal) or fnmatchcase(case.stem, literal)


CASES = Registry()
"""The suite's own registry; filled by `load`."""


def case(
    case_id: str,
    *,
    rules: Sequence[str] = (),
    level: Level = Level.MUST,
    needs: Sequence[str] = (),
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, object] | None = None,
    registry: Registry = CASES,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Declare the decorated coroutine function as a case; the first paragraph of its docstring is the claim.

    With `params` (label to value) it is called as `function(target, value)` and makes one case
    `case_id[label]` for each; in the claim `{}` stands for the label.
    """

    def declare(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        claim = _first_paragraph(function)
        common = {"rules": tuple(rules), "level": level, "needs": tuple(needs), "timeout": timeout}
        if params is None:
            register(case_id, claim=claim, run=function, registry=registry, **common)  # type: ignore[arg-type]
        for label, value in (params or {}).items():
            register(
                f"{case_id}[{label}]",
                claim=claim.replace("{}", label),
                run=_bound(function, value),
                registry=registry,
                **common,  # type: ignore[arg-type]
            )
        return function

    return declare


def register(
    case_id: str,
    *,
    claim: str,
    run: Callable[[Target], Awaitable[None]],
    rules: tuple[str, ...] = (),
    level: Level = Level.MUST,
    needs: tuple[str, ...] = (),
    timeout: float = DEFAULT_TIMEOUT,
    registry: Registry = CASES,
) -> Case:
    """Declare a case without the decorator; ValueError as in `Registry.add`."""
    made = Case(case_id, rules, level, needs, claim, timeout, run)
    registry.add(made)
    return made


def load() -> Registry:
    """Import every module below `aiorocketmq_conformance.cases`, and return the registry that they fill."""
    package = importlib.import_module("aiorocketmq_conformance.cases")
    for module in sorted(
        info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ):
        importlib.import_module(module)
    return CASES


def _bound(function: Callable[..., Awaitable[None]], value: object) -> Callable[[Target], Awaitable[None]]:
    async def run(target: Target) -> None:
        await function(target, value)

    return run


def _first_paragraph(function: Callable[..., Awaitable[None]]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
