"""The reference names everything that users import from a package, once."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import aiorocketmq
import aiorocketmq_fake
import pytest

REFERENCE = Path(__file__).parents[1] / "reference"


@pytest.mark.parametrize(("page", "package"), [("client.md", aiorocketmq), ("fake.md", aiorocketmq_fake)])
def test_page_lists_every_public_name_once(page: str, package: ModuleType) -> None:
    directive = rf"^\.\. (?:auto\w+|py:data):: {package.__name__}\.(\w+)$"
    documented = re.findall(directive, (REFERENCE / page).read_text(encoding="utf-8"), re.MULTILINE)
    # Modules are named by their path, names of the package by theirs.
    assert sorted(name for name in documented if name in package.__all__) == sorted(package.__all__)
