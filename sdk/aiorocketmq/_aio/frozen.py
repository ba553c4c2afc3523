"""Facts: frozen dataclasses that are made quickly, for there are five in the life of every message that hooks watch.

A frozen dataclass fills its fields through `object.__setattr__`, one slow call for each. A fact is filled by plain
assignments while it is an instance of a twin, a class of the same layout that may be written, and becomes what it is at
the end. That takes a third of the time; afterwards nothing tells it from a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def fact(cls: type[T]) -> type[T]:
    """Make a class what `@dataclass(frozen=True, slots=True, kw_only=True)` makes of it, with a faster `__init__`."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    made.__init__ = wraps(made.__init__)(_init(made))  # type: ignore[method-assign]  # the point of it all
    return made


def _init(made: type[Any]) -> Callable[..., None]:
    """Write the function that fills a fact."""
    # Both, or Python would look for methods of the class at each assignment.
    plain = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    twin = type(made.__name__, made.__bases__, {"__slots__": made.__slots__, **plain})
    # Plain assignment to `__class__` would meet the frozen `__setattr__`.
    become = object.__dict__["__class__"].__set__
    defaults = {f"default_{each.name}": each.default for each in fields(made) if each.default is not MISSING}
    names = [each.name for each in fields(made)]
    parameters = [f"{name}=default_{name}" if f"default_{name}" in defaults else name for name in names]
    lines = ["become(self, twin)", *(f"self.{name} = {name}" for name in names), "self.__class__ = made"]
    source = f"def __init__(self, *, {', '.join(parameters)}):\n    " + "\n    ".join(lines)
    given: dict[str, Any] = {"made": made, "twin": twin, "become": become, **defaults}
    exec(source, given)  # as dataclasses do: the text is made of the names of fields
    init: Callable[..., None] = given["__init__"]
    return init
