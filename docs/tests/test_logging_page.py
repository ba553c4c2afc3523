"""The page "what is logged" names exactly the loggers and messages of the packages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = [
    ROOT / "sdk/aiorocketmq",
    ROOT / "fake_broker/aiorocketmq_fake",
    ROOT / "conformance/aiorocketmq_conformance",
    ROOT / "spark_checks/aiorocketmq_audit",
]
LEVELS = {
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "CRITICAL",
}
PLACEHOLDER = re.compile(r"%[-.\d]*[a-z]")
ROW = re.compile(r"^\| (?P<level>[A-Z]+) \| `(?P<text>[^`]+)` \| (?P<meaning>.+) \|$")


class Logged(NamedTuple):
    """A message at its logger and level."""

    logger: str
    level: str
    text: str


def logged_in(module: ast.Module) -> Iterator[Logged]:
    """Yield what a module logs at INFO and above; its logger is the global `logger`."""
    names = [
        ast.literal_eval(node.value.args[0])
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.targets[0]) == "logger"
    ]
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method = node.func.attr
        if ast.unparse(node.func.value) != "logger" or method not in {*LEVELS, "log"} or not names:
            continue
        text = PLACEHOLDER.sub("…", ast.literal_eval(node.args[1 if method == "log" else 0]))
        yield Logged(names[0], LEVELS.get(method, ""), text)


def logged() -> set[Logged]:
    return {
        each
        for package in PACKAGES
        for path in package.rglob("*.py")
        for each in logged_in(ast.parse(path.read_text(encoding="utf-8")))
    }


def on_the_page() -> list[Logged]:
    rows, logger = [], ""
    for line in (ROOT / "docs/reference/logging.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## `"):
            logger = line.removeprefix("## `").removesuffix("`")
        elif row := ROW.match(line):
            rows.append(Logged(logger, row["level"], row["text"]))
    return rows


def test_the_page_names_each_message_once() -> None:
    """A call of `logger.log` computes its level: the page decides between INFO and above."""
    rows = on_the_page()
    computed = {each[::2] for each in logged() if not each.level}
    expected = {each for each in logged() if each.level} | {each for each in rows if each[::2] in computed}
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert computed <= {each[::2] for each in rows}


def test_loggers_have_public_names() -> None:
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert "getLogger(__name__)" not in text, f"{path} logs under the name of a module"
            assert "= logger." not in text, f"{path} hides calls of its logger from this test"
    assert not [each.logger for each in logged() if "._" in each.logger]
