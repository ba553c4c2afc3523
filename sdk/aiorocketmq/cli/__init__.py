"""The command line program `aiorocketmq`: finds its subcommands, and turns every error into one sentence."""

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the program on the process's arguments; exits with the codes of the command line's table."""
    # Our sentence has what failed; grpcio's log would print it a second time.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from aiorocketmq.cli.program import run
    except ModuleNotFoundError as missing:
        if missing.name != "click":
            raise
        print(
            "aiorocketmq: the command line needs click: run pip install 'aiorocketmq[cli]'.", file=sys.stderr
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
