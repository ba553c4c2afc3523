"""Names of a package that are imported from its modules on first use, as its `__init__.pyi` lists them.

Uses the standard library alone: `aiorocketmq.wire` loads protobuf and nothing else."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module


def lazy_exports(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of the package with the `__init__.py` at `file`."""
    with open(f"{file}i", encoding="utf-8") as stub:
        imports = [node for node in ast.parse(stub.read()).body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: f"{package}.{node.module}" for node in imports for alias in node.names}

    names = sorted(module_of)

    def getter(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return getter, lambda: sorted({*vars(sys.modules[package]), *names}), names
