"""Every Python block of the README and of the documentation runs, page by page, against a fresh fake broker."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiorocketmq_fake import FakeBroker

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of one language on a page, each moved down to its own line numbers."""
    text = page.read_text(encoding="utf-8")
    return [
        "\n" * (text.count("\n", 0, match.start()) + 1) + match["code"]
        for match in FENCE.finditer(text)
        if match["language"] == language
    ]


PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks(page, "python")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one page share names, as a reader would type them; `broker` is a fake with the pages' topics."""
    monkeypatch.chdir(tmp_path)
    async with FakeBroker(clock="manual") as broker:
        for topic in ("orders", "reminders", "refunds"):
            await broker.create_topic(topic)
        await broker.create_group("billing")
        names: dict[str, Any] = {"__name__": "example", "broker": broker}
        for source in blocks(page, "python"):
            if "asyncio.run(" in source:
                # A whole program: it gets a process, as grpcio cannot serve a second event loop in this one.
                await anyio.run_process([sys.executable, "-c", source])
                continue
            code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result
