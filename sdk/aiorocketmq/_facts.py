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
    given: dict[str, Any] = {"_made": made, "_twin": twin, "_become": become}
    parameters, lines = [], ["_become(self, _twin)"]
    for field in fields(made):
        if field.default is MISSING:
            parameters.append(field.name)
        else:
            given[f"_default_{field.name}"] = field.default
            parameters.append(f"{field.name}=_default_{field.name}")
        lines.append(f"self.{field.name} = {field.name}")
    lines.append("self.__class__ = _made")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n    " + "\n    ".join(lines)
    exec(source, given)  # as dataclasses do: the text is made of the names of fields
    init: Callable[..., None] = given["__init__"]
    return init
