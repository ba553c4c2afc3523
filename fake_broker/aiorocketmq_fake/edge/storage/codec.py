"""Serializes the core's commands, messages and whole state.

The format is pickle, since it stores any state of the core, new attributes included, or fails. Reading builds only
allow-listed classes of the core and plain containers, and calls at most their own methods: a crafted data file can
make an inconsistent broker, but runs no other code.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import EnumType
from functools import cache
from hashlib import sha256
from importlib import import_module
from inspect import getattr_static, isfunction
from operator import attrgetter
from pkgutil import walk_packages
from types import MappingProxyType
from typing import Any, TypeVar

from aiorocketmq_fake import core
from aiorocketmq_fake.core.filters import sql
from aiorocketmq_fake.core.values import model
from aiorocketmq_fake.core.values.model import NO_PROPERTIES, StoredMessage

__all__ = ["UNREADABLE", "dump", "dump_state", "load", "load_state", "read_message", "shape", "write_message"]

CORE = core.__name__
PLAIN = frozenset(
    {
        *(("builtins", name) for name in ("set", "frozenset", "list", "dict", "tuple", "bytearray", "range")),
        *(("collections", name) for name in ("deque", "OrderedDict", "Counter", "defaultdict")),
        ("random", "Random"),
    }
)

UNREADABLE = (pickle.UnpicklingError, ValueError, TypeError, KeyError, AttributeError, EOFError, IndexError)
"""What reading may raise for malformed bytes."""

# Any in this module: pickle's own hooks take and return any object.
R = TypeVar("R")
Reduction = tuple[Callable[..., Any], tuple[Any, ...]]


def _properties(pairs: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(pairs)) if pairs else NO_PROPERTIES


def _reduce_properties(properties: Mapping[str, str]) -> Reduction:
    return _properties, (dict(properties),)


def _by_fields(kind: type) -> Callable[[Any], Reduction]:
    """Reduce a dataclass by one C call: its own reduction is ten times slower, and there are millions."""
    names = tuple(field.name for field in fields(kind))
    get = attrgetter(*names)
    if len(names) == 1:
        return lambda value: (kind, (get(value),))
    return lambda value: (kind, get(value))


REDUCERS: dict[Any, Callable[[Any], Reduction]] = {
    MappingProxyType: _reduce_properties,
    **{
        kind: _by_fields(kind)
        for kind in vars(model).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == model.__name__
    },
}


class _Pickler(pickle.Pickler):
    dispatch_table = REDUCERS


class _StatePickler(_Pickler):
    """Writes some objects by name only: they belong to the process, not to the state."""

    def __init__(self, file: io.BytesIO, foreign: Mapping[str, object]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names = {id(item): name for name, item in foreign.items()}

    def persistent_id(self, item: Any) -> str | None:
        return self._names.get(id(item))


class _Unpickler(pickle.Unpickler):
    """Builds allow-listed classes; everything else is refused."""

    def __init__(
        self, data: bytes, foreign: Mapping[str, object], classes: Mapping[str, type] = MappingProxyType({})
    ) -> None:
        super().__init__(io.BytesIO(data))
        self._foreign = foreign
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return self._method
        if (module, name) == (__name__, _properties.__name__):
            return _properties
        kind = self._classes.get(f"{module}.{name}") or _ours().get((module, name))
        if kind is None and (module, name) in PLAIN:
            kind = getattr(import_module(module), name)
        if kind is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a data file")
        return kind

    def persistent_load(self, pid: Any) -> Any:
        return self._foreign[pid]

    def _method(self, owner: object, name: str) -> object:
        """Return a method of a core object or foreign one, or an enumeration member as Python before 3.11.4 writes
        it."""
        if isinstance(owner, EnumType):
            return owner[name]
        kind = type(owner)
        is_ours = _ours().get((kind.__module__, kind.__name__)) is kind
        is_ours = is_ours or any(owner is each for each in self._foreign.values())
        if not is_ours or name.startswith("__") or not isfunction(getattr_static(kind, name, None)):
            raise pickle.UnpicklingError(f"{name!r} of a {kind.__name__} is not allowed in a data file")
        return getattr(owner, name)


def dump(value: object) -> bytes:
    """Write plain values and those of `core.values.model`."""
    file = io.BytesIO()
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def load(data: bytes) -> Any:
    """Read what `dump` wrote; one of UNREADABLE if it is malformed."""
    return _Unpickler(data, {}).load()


def dump_state(root: object, foreign: Mapping[str, object]) -> bytes:
    """Write the object graph of `root`, `foreign` objects by name only."""
    file = io.BytesIO()
    _StatePickler(file, foreign).dump(root)
    return file.getvalue()


def load_state(data: bytes, foreign: Mapping[str, object], kind: type[R]) -> R:
    """Read what `dump_state` wrote of a `kind`, which may be outside of the core."""
    root = _Unpickler(data, foreign, {f"{kind.__module__}.{kind.__qualname__}": kind}).load()
    if not isinstance(root, kind):
        raise pickle.UnpicklingError(f"expected a {kind.__name__}, got a {type(root).__name__}")
    return root


def write_message(message: StoredMessage) -> bytes:
    """Write one stored copy."""
    return dump(message)


def read_message(data: bytes) -> StoredMessage:
    """Read what `write_message` wrote."""
    message = load(data)
    if not isinstance(message, StoredMessage):
        raise pickle.UnpicklingError("the row has no message")
    return message


def shape() -> str:
    """Return a fingerprint of the core's classes: states of equal fingerprints are compatible."""
    lines = []
    for (module, name), kind in sorted(_ours().items()):
        parts = getattr(kind, "__slots__", ())
        lines.append(f"{module}.{name}:{parts if isinstance(parts, str) else ','.join(parts)}")
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


@cache
def _ours() -> Mapping[tuple[str, str], type]:
    """Return the classes that a state may consist of by module and name; SQL filters are stored as text."""
    names = [info.name for info in walk_packages(core.__path__, f"{CORE}.")]
    modules = [name for name in names if not name.startswith(f"{sql.__name__}.")]
    return {
        (module, name): kind
        for module in modules
        for name, kind in vars(import_module(module)).items()
        if isinstance(kind, type) and kind.__module__ == module
    }
