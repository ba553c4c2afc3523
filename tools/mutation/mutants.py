"""The mutants of a file: what mutmut's operators make of it, one change each."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
from mutmut.mutation.file_mutation import MutationVisitor, _is_enum_class
from mutmut.mutation.mutators import mutation_operators
from mutmut.mutation.pragma_handling import IgnoredCode

from tools.mutation.coverage_map import ROOT

TYPES_ONLY = frozenset({"cast", "TypeVar", "TypeVarTuple", "NewType", "ParamSpec"})
LOGS = frozenset({"logger", "logging", "log"})
OPERATORS = (
    *(f"fake/edge/{name}" for name in ("control_", "event", "metrics", "recorder", "recording_", "storage/")),
    *(
        f"fake/edge/{name}"
        for name in ("broker_clock", "clock", "drains", "faults", "operations", "remoting/disturbances")
    ),
    *(f"fake/core/{name}" for name in ("commands/inspection", "commands/salvage", "values/events")),
    "fake/core/values/snapshots",
    "fake/core/broker.py:Broker.take_events",
    "fake/edge/calls.py:disturbance",
    "fake/edge/driver.py:Driver.check_loop",
    "fake/edge/parking",
    "fake/edge/telemetry.py:Telemetry._disturb",
    "fake/edge/timers.py:Timers.next_deadline",
)
"""Beginnings of modules and functions of the fake that serve its operators only: recordings, metrics, files, the
control port, and what a test sets of a broker in its process, such as clock and faults."""
EVENTS = m.Attribute(m.Attribute(attr=m.Name("events")) | m.Name("events"), m.Name("append"))
DECLARATIONS = m.Assign(targets=[m.AssignTarget(m.Name(m.MatchRegex("__.*__")))]) | m.AnnAssign(
    annotation=m.Annotation(m.Name("TypeAlias"))
)
MESSAGES = (cst.FormattedString, cst.ConcatenatedString)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file; its name stays if other functions of the file change."""

    file: str
    """Path below the checkout."""
    function: str
    """Qualified name of the innermost function, "" for what is executed at import."""
    operator: str
    """Name of mutmut's operator."""
    occurrence: int
    """Number among the mutants that the operator makes of the function, from 0."""
    first: int
    """First line of the statement's changed part."""
    last: int
    audience: str
    """Who may see it: "clients", or "operators" if it changes only what recordings, metrics and control ports show."""
    original: cst.CSTNode
    mutated: cst.CSTNode
    module: cst.Module

    @property
    def name(self) -> str:
        """Return file, function, operator and occurrence in one word."""
        return f"{self.file}:{self.function or '-'}:{self.operator}:{self.occurrence}"

    def source(self) -> str:
        """Return the file's text with the change."""
        changed = self.module.deep_replace(self.original, self.mutated)
        assert isinstance(changed, cst.Module)
        return changed.code

    def diff(self) -> str:
        """Return the changed lines, without context."""
        lines = difflib.unified_diff(
            self.module.code.splitlines(), self.source().splitlines(), lineterm="", n=0
        )
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


class _Visitor(MutationVisitor):
    """mutmut's choice of nodes; keeps the operator of each mutation, and leaves out what nobody is promised."""

    def __init__(self) -> None:
        super().__init__(mutation_operators, IgnoredCode(set(), set(), set()))
        self.found: list[tuple[cst.CSTNode, cst.CSTNode, str]] = []
        self.skipped: Counter[str] = Counter()
        self._names: set[cst.CSTNode] = set()
        """Members of enumerations whose values only name them."""

    def _create_mutations(self, node: cst.CSTNode) -> None:
        for kind, operator in self._operators:
            if isinstance(node, kind):
                for mutated in operator(node):
                    if _is_of_messages(node, mutated):
                        self.skipped["texts for people"] += 1
                    else:
                        self.found.append((node, mutated, _name(operator)))

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.ClassDef) and _is_enum_class(node):
            self._names.update(each for each in m.findall(node, m.Assign(value=m.SimpleString())))
        if node in self._names or m.matches(node, DECLARATIONS):
            self.skipped["names and declarations"] += 1
            return True
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Name) and node.func.value in TYPES_ONLY:
                return True
            if isinstance(node.func, cst.Attribute) and getattr(node.func.value, "value", None) in LOGS:
                self.skipped["logs"] += 1
                return True
        return super()._skip_node_and_children(node)


def _name(operator: Callable[[Any], object]) -> str:
    return operator.__name__.removeprefix("operator_")


def _is_message(node: cst.CSTNode | None) -> bool:
    """Whether it is a text for people: one with a space, or with values in it."""
    return isinstance(node, MESSAGES) or (isinstance(node, cst.SimpleString) and " " in node.value)


def _is_of_messages(node: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call) and isinstance(mutated, cst.Call):
        kept = {id(each) for each in mutated.args}
        lost = [each for each in node.args if id(each) not in kept]
        return bool(lost) and all(_is_message(each.value) for each in lost)
    return _is_message(node)


def mutants_of(file: str, root: Path = ROOT) -> tuple[list[Mutant], Counter[str]]:
    """Return the mutants of a file, in the order of its lines, and how much of it is not mutated, by reason."""
    wrapper = MetadataWrapper(cst.parse_module((root / file).read_text("utf-8")))
    visitor = _Visitor()
    wrapper.visit(visitor)
    positions, parents = wrapper.resolve(PositionProvider), wrapper.resolve(ParentNodeProvider)
    count: Counter[tuple[str, str]] = Counter()
    mutants: list[Mutant] = []
    for original, mutated, operator in visitor.found:
        function = _function(original, parents.get)
        position = positions[original]
        occurrence = count[function, operator]
        count[function, operator] += 1
        place = f"{file}:{function}"
        audience = "operators" if _is_of_operators(place, original, parents.get) else "clients"
        span = (position.start.line, position.end.line)
        mutants.append(
            Mutant(file, function, operator, occurrence, *span, audience, original, mutated, wrapper.module)
        )
    return mutants, visitor.skipped


def _function(node: cst.CSTNode, parent: Callable[[cst.CSTNode], Any]) -> str:
    names: list[str] = []
    above: cst.CSTNode | None = node
    is_inside = False
    while above is not None:
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            names.append(above.name.value)
            is_inside = is_inside or isinstance(above, cst.FunctionDef)
        above = parent(above)
    return ".".join(reversed(names)) if is_inside else ""


def _is_of_operators(place: str, node: cst.CSTNode, parent: Callable[[cst.CSTNode], Any]) -> bool:
    """Whether it is in a module or function that no client reaches, or in an event, which only recorders and metrics
    read."""
    if any(part in place for part in OPERATORS):
        return True
    above: cst.CSTNode | None = node
    while above is not None:
        if isinstance(above, cst.Call) and m.matches(above.func, EVENTS):
            return True
        above = parent(above)
    return False


def files_of(folders: Sequence[str], root: Path = ROOT) -> Iterator[str]:
    """Yield the Python files of folders, as paths below the checkout; generated code is left out."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not {"control_wire"} & set(path.parts):
                yield str(path.relative_to(root))
