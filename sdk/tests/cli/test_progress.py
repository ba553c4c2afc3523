"""A command that takes longer than a second shows on a terminal what it waits for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sdk.tests.cli.terminal import in_terminal

CODE = """
import threading
from rich.status import Status
from aiorocketmq.cli import progress
shown, start = threading.Event(), Status.start
progress._PATIENCE = {patience}
Status.start = lambda status: (start(status), shown.set())
with progress.progress("waiting for [a]") as report:
    {work}
"""


@pytest.mark.parametrize(("work", "text"), [("", "waiting for [a]"), ("report('half done')", "half done")])
def test_a_terminal_shows_it_after_some_patience(work: str, text: str) -> None:
    assert text in in_terminal(CODE.format(patience=0, work=f"shown.wait(30); {work}"))


def test_a_quick_command_shows_nothing() -> None:
    assert "waiting" not in in_terminal(CODE.format(patience=30, work="pass"))


@pytest.mark.parametrize("error_is_terminal", [True, False])
def test_neither_json_nor_a_pipe_is_disturbed(error_is_terminal: bool) -> None:
    code = """
import click
from aiorocketmq.cli import progress
progress._PATIENCE = 0
@click.command()
@click.option("--json", "as_json", is_flag=True)
def command(as_json):
    with progress.progress("waiting"):
        print(len(__import__("threading").enumerate()))
"""
    if error_is_terminal:
        printed = in_terminal(f"{code}\ncommand(['--json'])")
    else:
        printed = subprocess.run(
            [sys.executable, "-c", f"{code}\ncommand([])"], check=True, capture_output=True, text=True
        ).stdout
    assert printed == "1\n", "no thread draws"
