"""Starts a process that writes recordings of a busy program, and sends it records; `process_main` is what it runs.

Blocks of records, packed by `marshal`, are in an unnamed file that both have open, and the process gets their positions
through its standard input: so it may fall behind while the machine is busy without blocking the program. The first
block is the pipeline so far. It answers with a dot for each block that it has processed."""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
from contextlib import suppress
from tempfile import TemporaryFile

from aiorocketmq._recording.ring import Ring

READY = b"ready"
DONE = b"."
PLACE = struct.Struct("=QQ")
"""Offset and length of a block."""

ROOM = 1 << 30
"""Maximum size of the file in bytes: some two minutes of all that one core can consume, without any being written."""

_MANY_PLACES = 1 << 20
_F_SETPIPE_SZ = 1031


class WriterProcess:
    """Starts the process, sends records to it, and ends it."""

    def __init__(self) -> None:
        """Raises OSError if no process can be started."""
        self._ring = Ring(ROOM)
        self._spool = TemporaryFile(buffering=0)  # noqa: SIM115 # open as long as the process
        try:
            self._child = _started(self._spool.fileno())
        except OSError:
            self._spool.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        self._poll = select.poll()  # not `select`, which is limited to a thousand open files
        self._poll.register(self._out, select.POLLIN)
        self._output = b""
        """Its output apart from dots."""
        os.set_blocking(self._out.fileno(), False)
        with suppress(OSError):  # where a pipe is as it is
            fcntl.fcntl(self._in, _F_SETPIPE_SZ, _MANY_PLACES)

    def is_ready(self) -> bool:
        """Whether it accepts blocks; raises OSError if it never will."""
        self._listen()
        if self._output == READY:
            self._output = b""
            return True
        if self._child.poll() is not None:
            raise OSError(f"the process for it ended at its start with code {self._child.returncode}")
        return False

    def send(self, block: bytes) -> None:
        """Send a block, at first the pipeline, then records; waits if the file is full.

        Raises OSError with its message if it has failed."""
        try:
            self._in.write(PLACE.pack(self._spooled(block), len(block)))
        except BrokenPipeError:
            self.close()  # it has said why
            raise

    def close(self) -> None:
        """Let it complete its files, and wait for that; raises OSError with its message if it fails. Call it once."""
        if self._out.closed:
            return
        self._in.close()
        os.set_blocking(self._out.fileno(), True)
        while self._listen():
            pass
        self._out.close()
        self._spool.close()
        code = self._child.wait()
        if self._output:
            raise OSError(json.loads(self._output))
        if code:
            raise OSError(f"the process that writes it ended with code {code}")

    def abandon(self) -> None:
        """End it before it has begun."""
        self._child.kill()
        for each in (self._in, self._out, self._spool):
            each.close()
        self._child.wait()

    def _spooled(self, block: bytes) -> int:
        """Write a block, after waiting for room if necessary; return its position."""
        self._listen()
        while True:
            offset = self._ring.place(len(block))
            if offset is not None:
                try:
                    self._write(block, offset)
                except OSError:  # the disk is full
                    self._ring.unplace()
                    if self._ring.is_empty:
                        raise
                else:
                    return offset
            self._poll.poll()
            if not self._listen():
                raise BrokenPipeError

    def _write(self, block: bytes, offset: int) -> None:
        rest = memoryview(block)
        while rest:
            count = os.pwrite(self._spool.fileno(), rest, offset)
            rest, offset = rest[count:], offset + count

    def _listen(self) -> bool:
        """Read its output; False at the end of it."""
        output = self._out.read(1 << 16)
        if output is None:
            return True
        words = output if self._output else output.lstrip(DONE)
        self._ring.read(len(output) - len(words))
        self._output += words
        return bool(output)


def _started(spool: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            f"from {__package__}.process_main import main; main({os.getpid()}, {spool}, {ROOM})",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        pass_fds=(spool,),
        # It imports what this program imports, however its path was set.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
