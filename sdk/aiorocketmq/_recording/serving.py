"""What runs in the process that writes down what happens in another one; see `process`.

It ends with its input, also when the process that it serves has died: all that was told by then is written. It works
when nobody else wants the processor, until it is too far behind, or is waited for: two threads, one of them of the
lowest priority, take turns.
"""

from __future__ import annotations

import fcntl
import gc
import json
import marshal
import os
import select
import signal
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from importlib.abc import MetaPathFinder

from aiorocketmq._recording.process import DONE, PLACE, READY
from aiorocketmq._recording.scribe import Scribe

PATIENT = 19
"""Niceness of the thread that works when nobody else wants the processor."""

SPARE = 0.5
"""Cores that must be idle for it to work at all: to slip into every gap of a busy program would slow that down, for its
caches are emptied."""

LOOKS = 0.25
"""Seconds over which that is measured."""

FAR_BEHIND = 4_096
"""Blocks, each of some 60 KB; a quarter of what there is room for."""

_LOOKS_FOR_ITS_PARENT = 5.0
"""Seconds; where the parent has forked, the end of the input does not tell that it has died."""


def main(parent: int, spool: int) -> None:
    """Serve the process `parent`; `spool` is the file in which its blocks lie."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # They are meant for the program, which then ends our input.
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.meta_path.insert(0, _WithoutPandas())
    gc.disable()  # nothing here makes circles
    os.write(1, READY)
    serving = _Serving(parent, spool)
    threads = [threading.Thread(target=serving.work, args=(patient,)) for patient in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if serving.failure is not None:
        error = serving.failure
        os.write(1, json.dumps(f"{error}" if isinstance(error, OSError) else repr(error)).encode())
        sys.exit(1)


class _Serving:
    """Blocks in, files out, by one of two threads at a time."""

    def __init__(self, parent: int, spool: int) -> None:
        self.failure: BaseException | None = None
        self._parent = parent
        self._spool = spool
        self._scribe: Scribe | None = None
        self._turn = threading.Condition()
        # A thread has a priority of its own on Linux alone.
        self._can_wait = sys.platform == "linux"
        self._hurries = not self._can_wait
        self._is_over = False
        self._load = _Load()

    def work(self, is_patient: bool) -> None:
        """Do what there is to do whenever it is this thread's turn, until the end."""
        if is_patient and self._can_wait:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PATIENT)
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._is_over or self._hurries is not is_patient)
                if self._is_over:
                    return
            if is_patient and not self._load.has_spare():
                time.sleep(LOOKS)
                with self._turn:
                    self._hurries = self._is_waited_for()
                    self._turn.notify_all()
                continue
            try:
                goes_on = self._step()
            except BaseException as error:  # the border of the process: the other side is told, and logs it
                self.failure = error
                goes_on = False
                if self._scribe is not None:
                    self._scribe.stop()
            with self._turn:
                self._is_over = not goes_on
                self._hurries = not self._can_wait or self._is_waited_for()
                self._turn.notify_all()

    def _step(self) -> bool:
        """Write one block down; False when that was the last one."""
        place = self._next()
        if place is None:
            if self._scribe is not None:
                self._scribe.close()
            return False
        offset, length = place
        block = os.pread(self._spool, length, offset)
        while len(block) < length:
            block += os.pread(self._spool, length - len(block), offset + len(block))
        if self._scribe is None:
            self._scribe = Scribe.unpacked(block)
        else:
            self._scribe.take(marshal.loads(block))
        with suppress(BrokenPipeError):  # nobody listens any more, and there is all the more to write down
            os.write(1, DONE)
        return True

    def _next(self) -> tuple[int, int] | None:
        """Where the next block lies; None after the last one. A place is written whole, so it is read whole."""
        while not select.select([0], [], [], _LOOKS_FOR_ITS_PARENT)[0]:
            if os.getppid() != self._parent:
                return None
        read = os.read(0, PLACE.size)
        return PLACE.unpack(read) if read else None

    def _is_waited_for(self) -> bool:
        """Whether the other side has ended, or there is much to do."""
        waiting = struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]
        if waiting > FAR_BEHIND * PLACE.size:
            return True
        poll = select.poll()
        poll.register(0, select.POLLHUP)
        return any(event & select.POLLHUP for _, event in poll.poll(0))


class _Load:
    """How busy this machine is."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._idle = _idle()
        self._has_spare = True

    def has_spare(self) -> bool:
        """Whether cores were idle lately, or would have been but for us."""
        now = time.monotonic()
        if now - self._at >= LOOKS:
            idle = _idle()
            self._has_spare = idle - self._idle >= SPARE * (now - self._at)
            self._at, self._idle = now, idle
        return self._has_spare


def _idle() -> float:
    """Seconds that all cores together were idle, or busy with what gives way."""
    with open("/proc/stat", encoding="ascii") as stat:
        _, nice, _, idle = map(int, stat.readline().split()[1:5])
    return (nice + idle) / os.sysconf("SC_CLK_TCK")


class _WithoutPandas(MetaPathFinder):
    """pyarrow looks for pandas at its first column, and loading that would take longer than all else here."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"no {fullname} is needed here", name=fullname)
