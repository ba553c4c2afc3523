"""Main program of the process that writes the recording of another one; see `process`.

It ends with its input, also if the other process has died: all blocks that were sent by then are written. It works
while the processor is idle, until it is far behind, or is awaited: two threads, one of them of the lowest priority,
take turns."""

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
from collections import deque
from contextlib import suppress
from importlib.abc import MetaPathFinder

from aiorocketmq._recording.pipeline import Pipeline
from aiorocketmq._recording.process import DONE, PLACE, READY

PATIENT = 19
"""Niceness of the thread that works while the processor is idle."""

SPARE = 0.5
"""Cores that must be idle for it to work at all: using every gap of a busy program would slow that down, since its
caches are evicted."""

LOOKS = 0.25
"""Seconds over which idle time is measured."""

FAR_BEHIND = 0.25
"""Part of the room that unread blocks take."""

_LOOKS_FOR_ITS_PARENT = 5.0
"""Seconds; if the parent has forked, the end of its life does not close the input."""


def main(parent: int, spool: int, room: int) -> None:
    """Serve the process `parent`; `spool` is the file with its blocks, of `room` bytes."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # They are meant for the program, which then closes our input.
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    sys.meta_path.insert(0, _WithoutPandas())
    gc.disable()  # nothing here makes circles
    os.write(1, READY)
    serving = _Serving(parent, spool, room)
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
    """Reads blocks and writes files, by one of two threads at a time."""

    def __init__(self, parent: int, spool: int, room: int) -> None:
        self.failure: BaseException | None = None
        self._parent = parent
        self._spool = spool
        self._room = room
        self._places: deque[tuple[int, int]] = deque()
        """Positions of unread blocks."""
        self._behind = 0
        """Bytes of those blocks."""
        self._pipeline: Pipeline | None = None
        self._turn = threading.Condition()
        # Only Linux has a priority for each thread.
        self._can_wait = sys.platform == "linux"
        self._hurries = not self._can_wait
        self._is_over = False
        self._load = _Load()

    def work(self, is_patient: bool) -> None:
        """Work whenever it is this thread's turn, until the end."""
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
            except BaseException as error:  # of any kind: the other process gets and logs it
                self.failure = error
                goes_on = False
                if self._pipeline is not None:
                    self._pipeline.stop()
            with self._turn:
                self._is_over = not goes_on
                self._hurries = not self._can_wait or self._is_waited_for()
                self._turn.notify_all()

    def _step(self) -> bool:
        """Write one block; False after the last one."""
        place = self._next()
        if place is None:
            if self._pipeline is not None:
                self._pipeline.close()
            return False
        offset, length = place
        block = os.pread(self._spool, length, offset)
        while len(block) < length:
            block += os.pread(self._spool, length - len(block), offset + len(block))
        if self._pipeline is None:
            self._pipeline = Pipeline.unpacked(block)
        else:
            self._pipeline.take(marshal.loads(block))
        # If the other process has died, its blocks must be written all the more.
        with suppress(BrokenPipeError):
            os.write(1, DONE)
        return True

    def _next(self) -> tuple[int, int] | None:
        """Return the position of the next block; None after the last one."""
        while not self._places and not select.select([0], [], [], _LOOKS_FOR_ITS_PARENT)[0]:
            if os.getppid() != self._parent:
                return None
        self._read_places()
        if not self._places:
            return None
        place = self._places.popleft()
        self._behind -= place[1]
        return place

    def _read_places(self) -> None:
        """Read all positions that were sent. They are written atomically, so they are read whole.

        At once, since the other process would have to wait if the pipe were full."""
        while size := struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]:
            for place in PLACE.iter_unpack(os.read(0, size)):
                self._places.append((place[0], place[1]))
                self._behind += place[1]

    def _is_waited_for(self) -> bool:
        """Whether the other side has ended, or it is far behind."""
        self._read_places()
        if self._behind > FAR_BEHIND * self._room:
            return True
        poll = select.poll()
        poll.register(0, select.POLLHUP)
        return any(event & select.POLLHUP for _, event in poll.poll(0))


class _Load:
    """Measures the idle time of this machine."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._idle = _idle()
        self._has_spare = True

    def has_spare(self) -> bool:
        """Whether cores were idle recently, or would have been without this process."""
        now = time.monotonic()
        if now - self._at >= LOOKS:
            idle = _idle()
            self._has_spare = idle - self._idle >= SPARE * (now - self._at)
            self._at, self._idle = now, idle
        return self._has_spare


def _idle() -> float:
    """Idle seconds of all cores together, low-priority work included."""
    with open("/proc/stat", encoding="ascii") as stat:
        _, nice, _, idle = map(int, stat.readline().split()[1:5])
    return (nice + idle) / os.sysconf("SC_CLK_TCK")


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas at its first column, which would take longer than all else here."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(f"no {fullname} is needed here", name=fullname)
