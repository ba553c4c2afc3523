"""The package's root and its public modules list the same names."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import aiorocketmq
import pytest

PUBLIC_MODULES = [
    path.stem
    for path in sorted(Path(aiorocketmq.__file__).parent.glob("*.py"))
    if not path.stem.startswith("_")
]
# The type checker reads the stub, which lists no `__all__`.
NAMES: list[str] = vars(aiorocketmq)["__all__"]
# Public where they are defined, for those who write hooks or recordings: too many and too special for the root.
STAY_HOME = {"hooks", "recording_format"}


def test_names_are_sorted_and_unique() -> None:
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported(name: str) -> None:
    value = getattr(aiorocketmq, name)
    assert inspect.isclass(value) or inspect.isfunction(value)


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_public_modules_list_their_public_classes(module: str) -> None:
    loaded = importlib.import_module(f"aiorocketmq.{module}")
    own = {
        name
        for name, value in vars(loaded).items()
        if inspect.isclass(value) and value.__module__ == loaded.__name__ and not name.startswith("_")
    }
    assert own <= set(loaded.__all__) <= vars(loaded).keys()


@pytest.mark.parametrize("module", [module for module in PUBLIC_MODULES if module not in STAY_HOME])
def test_every_public_class_of_a_public_module_is_a_name_of_the_root(module: str) -> None:
    loaded = importlib.import_module(f"aiorocketmq.{module}")
    classes = {name for name in loaded.__all__ if inspect.isclass(getattr(loaded, name))}
    assert classes <= set(NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Consumer'"):
        aiorocketmq.Consumer  # type: ignore[attr-defined]  # noqa: B018 - the look-up is the test


def test_importing_the_wire_loads_no_client() -> None:
    code = "import sys, aiorocketmq.wire.methods; print([m for m in sys.modules if m == 'grpc' or m == 'asyncio'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
