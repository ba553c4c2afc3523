"""Functions of the documentation's programs, for tests on servers that the pages themselves do not start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def functions_of(page: str) -> dict[str, Any]:
    """Return the names that the Python blocks of a how-to page define, without running their `main`."""
    names: dict[str, Any] = {}
    text = (HOW_TO / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        program, call = block.rsplit("asyncio.run(main())", 1)
        assert not call.strip()
        exec(program, names)
    return names
