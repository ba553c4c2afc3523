"""The reference of the client names everything that users import, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import aiorocketmq

PAGE = Path(__file__).parents[1] / "reference" / "client.md"


def test_client_page_lists_every_public_name_once() -> None:
    documented = re.findall(
        r"^\.\. auto\w+:: aiorocketmq\.(\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(documented) == sorted(vars(aiorocketmq)["__all__"])
