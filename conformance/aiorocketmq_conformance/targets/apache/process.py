"""One server process under its guard: started until ready, ended gracefully or killed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

from aiorocketmq_fake.testcontainers.apache import Program

from aiorocketmq_conformance.targets.apache import guard
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

logger = logging.getLogger("aiorocketmq_conformance.servers")

_LOOK_EVERY = 0.1
_GUARD_MARGIN = 10.0


class ServerProcess:
    """A `Program` that can be started, ended, and restarted; its output is appended to one log."""

    def __init__(self, program: Program, home: Path, *, grace: float) -> None:
        """Prepare; `grace` is how many seconds `end` lets the program clean up before it is killed."""
        self._program = program
        self._home = home
        self._grace = grace
        self._log = home / f"{program.name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *, timeout: float) -> None:
        """Start and wait until the program reports that it is ready; ApacheUnavailableError after `timeout` s.

        It is running, and must be ended, whatever this raises.
        """
        with self._log.open("ab") as output:
            already = output.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", guard.__file__, str(self._grace), *self._program.command,
                stdin=asyncio.subprocess.PIPE, stdout=output, stderr=asyncio.subprocess.STDOUT,
                cwd=self._home, env={**os.environ, **self._program.environment}, start_new_session=True,
            )  # fmt: skip
        try:
            async with asyncio.timeout(timeout):
                while self._program.ready not in self._output(already):
                    if self._process.returncode is not None:
                        raise ApacheUnavailableError(self._complaint("exited before it was ready", already))
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise ApacheUnavailableError(
                self._complaint(f"was not ready within {timeout:g} s", already)
            ) from None
        logger.info("%s is ready", self._program.name)

    @property
    def has_ended(self) -> bool:
        """Return whether the program was started and has exited."""
        return self._process is not None and self._process.returncode is not None

    async def finish(self, *, timeout: float) -> None:
        """Terminate the program and wait until it has flushed its store; kill it after `timeout` seconds."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), timeout)
            except TimeoutError:
                logger.warning("%s did not stop within %g s: ending it", self._program.name, timeout)
        await self.end()

    async def kill(self) -> None:
        """Kill the program as kill -9 does, and wait until it has exited."""
        self._signal(guard.KILL)
        await self.end()

    def pause(self) -> None:
        """Pause the program, as SIGSTOP does; its guard keeps running."""
        self._signal(guard.PAUSE)

    def resume(self) -> None:
        """Resume it."""
        self._signal(guard.RESUME)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def end(self) -> None:
        """End the program and its guard; without effect if they have exited."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            # The guard kills the program after its grace, and exits soon after.
            await asyncio.wait_for(process.wait(), self._grace + _GUARD_MARGIN)
        except TimeoutError:
            logger.warning("the guard of %s (%d) did not exit: killing it", self._program.name, process.pid)
            process.kill()
            await process.wait()

    def _output(self, since: int) -> str:
        return self._log.read_bytes()[since:].decode(errors="replace")

    def _complaint(self, what: str, since: int) -> str:
        lines = [line.strip() for line in self._output(since).splitlines() if line.strip()]
        last_words = " / ".join(lines[-3:])[:400] or "nothing"
        return f"the {self._program.name} {what}; last output: {last_words}"
