"""A terminal of 80 columns around a process."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping


def in_terminal(code: str, *, environment: Mapping[str, str] | None = None) -> str:
    """Run Python code whose output and errors go to a terminal, and return what that was sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    unset = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "TERM"}}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=theirs,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env={**unset, "TERM": "xterm", **(environment or {})},
    ):
        os.close(theirs)
        pieces = []
        while piece := _read(ours):
            pieces.append(piece)
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux: the other end is closed.
        return b""
