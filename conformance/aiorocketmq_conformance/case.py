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
from typing import Concatenate

from aiorocketmq_conformance.fixture import Fixture, open_fixture
from aiorocketmq_conformance.target import Target

Body = Callable[Concatenate[Fixture, ...], Awaitable[None]]
"""The body of a case: called with a `Fixture` and, if there are parameters, the value of one."""

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
    """Judged only if the target declares the capability."""
    INFORMATIONAL = "I"
    """Recorded and printed: the specifications disagree. Only a target that answers as the documents say fails it."""


MUST, SHOULD, EXTENSION, INFORMATIONAL = Level


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
    """Seconds on the case's clock after which it is aborted; cases on a real server wait concurrently."""
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
        """Add `case`; ValueError if the id is a duplicate or malformed, or the claim is missing."""
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
        """Return the cases whose id, with or without its parameter, matches any of `patterns`, of any of `levels`.

        Empty means all. A pattern is a shell glob in which brackets stand for themselves:
        `send.body-roundtrip[cjk]` names one case, `send.body-roundtrip` all of its parameters.
        """
        selected = frozenset(levels)
        return [
            case
            for case in self._cases.values()
            if (not selected or case.level in selected)
            and (not patterns or any(_matches(case, pattern) for pattern in patterns))
        ]


def _matches(case: Case, pattern: str) -> bool:
    literal = pattern.replace("[", "[[]")
    return fnmatchcase(case.id, literal) or fnmatchcase(case.stem, literal)


CASES = Registry()
"""The suite's own registry; filled by `load`."""

PREPARED = ("@topic", "@group")
"""The abilities that nearly all cases need: a topic and a group are created for them."""


def case(
    case_id: str,
    *,
    rules: Sequence[str] = (),
    level: Level = Level.MUST,
    needs: Sequence[str] = (),
    prepared: Sequence[str] = PREPARED,
    timeout: float = DEFAULT_TIMEOUT,
    params: Mapping[str, object] | None = None,
    registry: Registry = CASES,
) -> Callable[[Body], Body]:
    """Declare the decorated coroutine function as a case; the first paragraph of its docstring is the claim.

    It is called with a `Fixture`. With `params` (label to value) it is called as `function(fixture, value)` and makes
    one case `case_id[label]` for each; in the claim `{}` stands for the label. The case needs `prepared` and `needs`.
    """

    def declare(function: Body) -> Body:
        claim = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
        variants: dict[str, tuple[str, tuple[object, ...]]] = {case_id: (claim, ())}
        if params is not None:
            variants = {
                f"{case_id}[{label}]": (claim.replace("{}", label), (value,))
                for label, value in params.items()
            }
        for variant, (text, values) in variants.items():
            run = _over_fixture(function, *values)
            registry.add(Case(variant, tuple(rules), level, (*prepared, *needs), text, timeout, run))
        return function

    return declare


def load() -> Registry:
    """Import every module below `aiorocketmq_conformance.cases`, and return the registry that they fill."""
    package = importlib.import_module("aiorocketmq_conformance.cases")
    for module in sorted(
        info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ):
        importlib.import_module(module)
    return CASES


def _over_fixture(function: Body, *values: object) -> Callable[[Target], Awaitable[None]]:
    async def run(target: Target) -> None:
        async with open_fixture(target) as fixture:
            await function(fixture, *values)

    return run
