"""A process that writes down what happens in a busy one: this is the side that is served; `serving` is the other.

Blocks of facts, as `marshal` packs them, lie in a file without a name that both have open, and the other process hears
through its standard input where: so it may fall behind while the machine has nothing to spare, and nobody waits for it.
The first block is the scribe who has written so far. It answers with a dot for each block that it is done with.
"""

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
"""Bytes that the file may have: some two minutes of all that a core can consume, with no time for writing it."""

_MANY_PLACES = 1 << 20
_F_SETPIPE_SZ = 1031


class ScribeProcess:
    """Starts the process, hands facts over to it, and ends it."""

    def __init__(self) -> None:
        """Raises OSError where no process can be started."""
        self._ring = Ring(ROOM)
        self._spool = TemporaryFile(buffering=0)  # noqa: SIM115  # open for as long as the process
        try:
            self._child = _started(self._spool.fileno())
        except OSError:
            self._spool.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin, self._child.stdout
        self._poll = select.poll()  # not `select`, which knows a thousand open files
        self._poll.register(self._out, select.POLLIN)
        self._said = b""
        """What it has said beside dots."""
        os.set_blocking(self._out.fileno(), False)
        with suppress(OSError):  # where a pipe is as it is
            fcntl.fcntl(self._in, _F_SETPIPE_SZ, _MANY_PLACES)

    def is_ready(self) -> bool:
        """Whether it can be given work; raises OSError where it will never be."""
        self._listen()
        if self._said == READY:
            self._said = b""
            return True
        if self._child.poll() is not None:
            raise OSError(f"the process for it ended at its start with code {self._child.returncode}")
        return False

    def send(self, block: bytes) -> None:
        """Hand a block over, at first the scribe, then facts; waits where there is no room for more.

        Raises OSError with what it says where it has failed."""
        try:
            self._in.write(PLACE.pack(self._spooled(block), len(block)))
        except BrokenPipeError:
            self.close()  # it has said why
            raise

    def close(self) -> None:
        """Let it complete its files, and wait for that; raises OSError with what went wrong. Once is enough."""
        if self._out.closed:
            return
        self._in.close()
        os.set_blocking(self._out.fileno(), True)
        while self._listen():
            pass
        self._out.close()
        self._spool.close()
        code = self._child.wait()
        if self._said:
            raise OSError(json.loads(self._said))
        if code:
            raise OSError(f"the process that writes it ended with code {code}")

    def abandon(self) -> None:
        """End it before it has begun."""
        self._child.kill()
        for each in (self._in, self._out, self._spool):
            each.close()
        self._child.wait()

    def _spooled(self, block: bytes) -> int:
        """Write a block where there is room, or will be; gives its place."""
        self._listen()
        while True:
            offset = self._ring.place(len(block))
            if offset is not None:
                try:
                    self._write(block, offset)
                except OSError:  # this disk has no more
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
        """Take what it has said; False when it will say nothing more."""
        said = self._out.read(1 << 16)
        if said is None:
            return True
        words = said if self._said else said.lstrip(DONE)
        self._ring.read(len(said) - len(words))
        self._said += words
        return bool(said)


def _started(spool: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__package__}.serving import main; main({os.getpid()}, {spool})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        pass_fds=(spool,),
        # It finds what this program finds, however its path was made.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
