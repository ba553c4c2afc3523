"""The command line program `aiorocketmq`: finds its subcommands, and turns every error into one sentence."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the program on the process's arguments; exits with the codes of the command line's table."""
    try:
        from aiorocketmq.cli.program import run
    except ModuleNotFoundError as missing:
        if missing.name not in {"click", "rich"}:
            raise
        print(
            f"aiorocketmq: the command line needs {missing.name}: run pip install 'aiorocketmq[cli]'.",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
