"""Every command line of `aiorocketmq` in the documentation names commands and options that exist; README's run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import anyio
import click
import pytest
from aiorocketmq.cli.program import program
from aiorocketmq_fake import FakeBroker

ROOT = Path(__file__).parents[2]
CLIENT = ("topic", "group", "send", "receive")
LINE = re.compile(
    r"^(?:\s*\$ |[A-Z_]+=\S+ )?(?P<line>aiorocketmq .*)$|`(?P<span>aiorocketmq [^`]+)`", re.MULTILINE
)


def command_lines() -> list[tuple[str, str]]:
    """Return the lines with the pages that show them; those with a placeholder or an ellipsis are examples of none."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        (page.name, line)
        for page in pages
        for match in LINE.finditer(page.read_text(encoding="utf-8"))
        if not re.search(r"…|\.\.\.|\|", line := match["line"] or match["span"])
    ]


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_command_line_is_understood(page: str, line: str) -> None:
    command: click.Command = program
    words = shlex.split(line, comments=True)[1:]
    context = click.Context(command, info_name="aiorocketmq", **command.context_settings)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    command.make_parser(context).parse_args(words)


async def test_the_commands_of_the_readme_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a fake at other ports than the usual ones, as the variable says."""
    lines = [line for page, line in command_lines() if page == "README.md"]
    commands = [words for line in lines if (words := shlex.split(line, comments=True)[1:])[0] in CLIENT]
    assert [command[0] for command in commands] == list(CLIENT)
    output = ""
    async with FakeBroker(remoting_port=0) as broker:
        monkeypatch.setenv("AIOROCKETMQ_ENDPOINT", f"namesrv://{broker.remoting_endpoint}")
        for command in commands:
            ended = await anyio.run_process(
                [sys.executable, "-m", "aiorocketmq", *command], check=False, stderr=subprocess.STDOUT
            )
            output = ended.stdout.decode()
            assert ended.returncode == 0, output
    assert output.endswith("hello\n")


def test_an_unknown_option_is_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        test_command_line_is_understood("a page", "aiorocketmq topic create orders --colour red")
