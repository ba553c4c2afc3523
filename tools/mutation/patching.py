"""Gives functions that are loaded already the code of a mutant, so that nothing need be imported again."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType

OURS = ("aiorocketmq", "aiorocketmq_fake", "aiorocketmq_conformance")
TESTS = ("sdk", "fake_broker", "conformance", "tools")
PROGRAMS = ("__main__", "process_main")


class Loaded:
    """All modules of some packages, and their functions."""

    def __init__(self, packages: Iterable[str] | None = None) -> None:
        """Import everything, from where `sys.path` has it."""
        for package in OURS if packages is None else packages:
            module = importlib.import_module(package)
            for info in pkgutil.walk_packages(module.__path__, f"{package}."):
                if info.name.rpartition(".")[2] not in PROGRAMS:
                    importlib.import_module(info.name)
        self._functions: dict[tuple[str, str], list[FunctionType]] = {}
        self._makers: set[tuple[str, str]] = set()
        """Functions that have made others already, with the code that those have."""
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                name, _, inner = each.__code__.co_qualname.partition(".<locals>")
                if inner:
                    self._makers.add((each.__code__.co_filename, name))
                else:
                    self._functions.setdefault((each.__code__.co_filename, name), []).append(each)

    def change(self, path: Path, before: str, after: str, *, in_place: bool = True) -> bool:
        """Have the functions of `path` do what the changed text does.

        False if that is not enough, or not wanted `in_place`: then all modules are forgotten, and imported once more by
        who needs them. In place, nobody notices a change of what an import has computed by calling a function.
        """
        if in_place and (swaps := self.swaps(path, before, after)) is not None:
            is_made = any((str(path), function.__code__.co_qualname) in self._makers for function in swaps)
            try:
                if not is_made:
                    swap(swaps)
                    return True
            except ValueError:
                pass  # It has other variables of its outer function.
        return self.forget()

    def swaps(self, path: Path, before: str, after: str) -> dict[FunctionType, CodeType] | None:
        """Return the code that the functions of `path` have by the changed text; None if other things change too."""
        old, new = compile(before, path, "exec"), compile(after, path, "exec")
        if _own_shape(old) != _own_shape(new):
            return None
        codes = dict(_functions(new))
        changed = [name for name, code in _functions(old) if _shape(code) != _shape(codes[name])]
        functions = {name: self._functions.get((str(path), name), []) for name in changed}
        if not all(functions.values()):
            return None
        return {function: codes[name] for name, found in functions.items() for function in found}

    def forget(self) -> bool:
        """Forget all modules of ours, of tests and of tools; return False."""
        for name in list(sys.modules):
            if name.partition(".")[0] in (*OURS, *TESTS) and not name.startswith("tools.mutation"):
                del sys.modules[name]
        return False


def swap(codes: Mapping[FunctionType, CodeType]) -> None:
    """Give functions other code; ValueError if one has other variables of its outer function."""
    for function, code in codes.items():
        function.__code__ = code


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Yield the functions of a module and its classes; what is inside of a function is part of it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & 2:  # CO_NEWLOCALS: a function, no body of a class
                yield each.co_qualname, each
            else:
                yield from _functions(each)


def _own_shape(code: CodeType) -> object:
    """Return what is executed at import."""
    inner = [
        each.co_qualname if each.co_flags & 2 else _own_shape(each)
        for each in code.co_consts
        if isinstance(each, CodeType)
    ]
    return _plain(code), inner


def _shape(code: CodeType) -> object:
    """Return what a function does, without its lines."""
    return _plain(code), [_shape(each) for each in code.co_consts if isinstance(each, CodeType)]


def _plain(code: CodeType) -> object:
    values = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_qualname, code.co_code, code.co_names, code.co_varnames, code.co_freevars, values
