"""Every Python block of the README and of the documentation runs as pasted: as a file, in an empty folder.

A block whose first line is a comment with a file name is written under that name; `test_*.py` are run by pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (?P<name>[\w.]+\.\w+)\n")


def blocks(page: Path) -> list[tuple[str | None, str]]:
    """Return the named blocks and all Python blocks of a page: file name and code.

    A program without a name is moved down to its line numbers on the page.
    """
    text = page.read_text(encoding="utf-8")
    pairs: list[tuple[str | None, str]] = []
    for match in FENCE.finditer(text):
        if name := NAME.match(match["code"]):
            pairs.append((name["name"], match["code"]))
        elif match["language"] == "python":
            pairs.append((None, "\n" * (text.count("\n", 0, match.start()) + 1) + match["code"]))
    return pairs


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "```python" in page.read_text(encoding="utf-8")
]


PAGES_OF_CONTAINERS = [
    page for page in PAGES if "aiorocketmq_fake.testcontainers" in page.read_text(encoding="utf-8")
]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in PAGES_OF_CONTAINERS],
    ids=lambda page: str(page.relative_to(ROOT)),
)
async def test_python_blocks_run_as_files(page: Path, tmp_path: Path) -> None:
    """Programs of a page share nothing and run side by side; its named files share a folder."""
    named = [(name, code) for name, code in blocks(page) if name is not None]
    programs = [code for name, code in blocks(page) if name is None]
    assert all("asyncio.run(" in code for code in programs), "a program of this page does not run"
    async with anyio.create_task_group() as runs:
        for number, code in enumerate(programs):
            folder = tmp_path / f"program-{number}"
            folder.mkdir()
            (folder / "program.py").write_text(code, encoding="utf-8")
            runs.start_soon(_run, folder, "program.py")
        if named:
            folder = tmp_path / "files"
            folder.mkdir()
            for name, code in named:
                (folder / name).write_text(code, encoding="utf-8")
            if any(name.startswith("test_") for name, _ in named):  # they run what else is there
                runs.start_soon(_run, folder, "-m", "pytest", "-q", f"--rootdir={folder}")
            else:
                for name, code in named:
                    if "asyncio.run(" in code:
                        runs.start_soon(_run, folder, name)


@pytest.mark.containers
@pytest.mark.skipif("AIOROCKETMQ_IMAGE" not in os.environ, reason="needs containers: run nox -s containers")
@pytest.mark.parametrize("page", PAGES_OF_CONTAINERS, ids=lambda page: str(page.relative_to(ROOT)))
async def test_programs_with_containers_run_as_files(page: Path, tmp_path: Path) -> None:
    await test_python_blocks_run_as_files(page, tmp_path)


async def _run(folder: Path, *arguments: str) -> None:
    ended = await anyio.run_process(
        [sys.executable, *arguments], cwd=folder, stderr=subprocess.STDOUT, check=False
    )
    assert ended.returncode == 0, ended.stdout.decode()
