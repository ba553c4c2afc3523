"""A small process that runs one command and ends it when its own standard input closes.

The operating system closes that input however the parent ends, kill -9 included, so that no server outlives
the run that started it. Run as a script, it imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

PAUSE, RESUME, KILL = signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP
"""Signals with which the guard pauses, resumes or kills its program."""


def _end_with_parent(command: subprocess.Popen[bytes], grace: float) -> None:
    while os.read(0, 4096):
        pass
    command.terminate()
    try:
        command.wait(grace)
    except subprocess.TimeoutExpired:
        command.kill()


def main(arguments: list[str]) -> int:
    """Run a command until it ends, or until standard input closes; return its exit code.

    The first of `arguments` is the grace: seconds that the command has to exit after it was terminated.
    """
    # Ctrl-C is for the parent, which closes our input when it has cleaned up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = subprocess.Popen(arguments[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: command.terminate())
    # Faults of the program itself: it is paused, resumed, killed. The guard keeps running.
    signal.signal(PAUSE, lambda *_: command.send_signal(signal.SIGSTOP))
    signal.signal(RESUME, lambda *_: command.send_signal(signal.SIGCONT))
    signal.signal(KILL, lambda *_: command.kill())
    threading.Thread(target=_end_with_parent, args=(command, float(arguments[0])), daemon=True).start()
    return command.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
