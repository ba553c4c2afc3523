"""Values behave as frozen dataclasses do, however quickly they are made."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from inspect import signature
from typing import Any

import pytest
from aiorocketmq_fake.core.values import events, model, snapshots
from aiorocketmq_fake.core.values.frozen import value


@value
class Point:
    """A value with a default and a factory."""

    x: int
    name: str = "p"
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plain:
    x: int
    name: str = "p"
    marks: Mapping[str, str] = field(default_factory=dict)


def test_defaults_and_factories_are_those_of_a_dataclass() -> None:
    one, two = Point(1), Point(1)
    assert (one.x, one.name, one.marks) == (1, "p", {})
    assert one.marks is not two.marks
    assert str(signature(Point)) == str(signature(Plain))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]  # the fault


def test_nothing_of_a_value_can_be_changed() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]  # the fault
    with pytest.raises((AttributeError, TypeError)):
        point.other = 2  # type: ignore[attr-defined]  # the fault
    assert point == Point(1)


def test_values_compare_hash_copy_pickle_and_change_into_others() -> None:
    point = Point(1, "q", {"a": "b"})
    assert point == Point(1, "q", {"a": "b"}) != Point(2, "q", {"a": "b"})
    assert repr(point) == "Point(x=1, name='q', marks={'a': 'b'})"
    assert replace(point, x=3).name == "q"
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    assert type(point) is Point


def test_a_value_that_checks_itself_is_refused() -> None:
    class Checked:
        x: int

        def __post_init__(self) -> None: ...

    with pytest.raises(TypeError, match="use a dataclass"):
        value(Checked)


@pytest.mark.parametrize("module", [events, model, snapshots], ids=lambda module: module.__name__)
def test_every_value_of_the_core_holds_what_it_was_made_of(module: Any) -> None:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and is_dataclass(kind)]
    assert kinds
    for kind in kinds:
        arguments = {each.name: object() for each in fields(kind)}
        instance = kind(**arguments)
        assert {name: getattr(instance, name) for name in arguments} == arguments
