"""Settings stream to one endpoint: opened before any call, kept open, reopened when it breaks."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from aiorocketmq._aio.event import Signal
from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.retries import renewal_delay
from aiorocketmq._core.session_states import STREAM_TABLE, StreamInput, StreamState, step
from aiorocketmq._session.calls import TELEMETRY
from aiorocketmq._session.transport_errors import error_of, malformed_answer
from aiorocketmq._transport.interface import DuplexStream, Failure, TransportError
from aiorocketmq.errors import ClosedError, RocketMQError, UnreachableError, refusal
from aiorocketmq.wire import messages as pb

if TYPE_CHECKING:
    from aiorocketmq._session.session import Session

logger = logging.getLogger("aiorocketmq.client")


class SettingsStream:
    """Keeps one settings stream open; `run` is its task."""

    def __init__(self, session: Session, endpoint: Endpoint, *, answer_timeout: float) -> None:
        self.endpoint = endpoint
        self.state = StreamState.CLOSED
        self.commanded_at = -math.inf
        """When its server has last commanded a new connection, by the loop's clock."""
        self._session = session
        self._answer_timeout = answer_timeout
        self._stream: DuplexStream | None = None
        self._writing = asyncio.Lock()
        self._again = Signal()
        self._answer = _Answer()

    async def ready(self) -> None:
        """Wait until the server has answered our settings once; raises the error that broke the current stream."""
        if self.state is StreamState.READY:
            return
        if self.state is StreamState.BROKEN:
            self._again.set()
        await self._answer.wait()

    async def resync(self) -> None:
        """Send our settings again and wait for the answer; without one, the stream is reopened.

        Raises what broke the stream, or UnreachableError if no answer came in time."""
        if self.state is not StreamState.READY:
            await self.ready()
            return
        answer = self._answer
        try:
            async with asyncio.timeout(self._answer_timeout):
                await self.write(self._session.settings_command())
                await answer.wait()
        except TimeoutError:
            logger.warning("%s does not answer settings, reopening its stream", self.endpoint)
            await self.renew()
            raise self._silent() from None

    async def write(self, command: pb.TelemetryCommand) -> None:
        """Send one command; raises UnreachableError if the stream is not open."""
        stream = self._stream
        if stream is None:
            raise UnreachableError(
                f"the settings stream to {self.endpoint} is broken; it is being reopened, try again later",
                endpoint=str(self.endpoint),
                group=self._session.group,
            )
        try:
            async with self._writing:
                await stream.write(command.SerializeToString())
        except (TransportError, OSError) as failure:
            raise self._error(failure) from failure

    async def renew(self) -> None:
        """Close the current stream; it is reopened at once."""
        self._again.set()
        stream = self._stream
        if stream is not None:
            await stream.close()

    def fail(self, error: RocketMQError) -> None:
        """Raise `error` in all current and later waiters for an answer: the client has failed."""
        self._answer.resolve(error)

    async def run(self, watch: Watch) -> None:
        """Open the stream and read it; reopen it when it breaks, until cancelled."""
        try:
            while True:
                error = await self._live_once(watch)
                self._broke(error)
                await self._pause(watch.failed(error))
                self._again.clear()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # of something that was awaited; it is restarted
                self._broke(self._error(error))
                raise
            self.state = StreamState.CLOSED
            self._answer.resolve(
                ClosedError(f"the settings stream to {self.endpoint} was closed", endpoint=str(self.endpoint))
            )
            raise
        except Exception as error:  # it is restarted; waiters for an answer must not wait for that
            self._broke(self._error(error))
            raise

    def _broke(self, error: RocketMQError) -> None:
        if self.state is not StreamState.CLOSED:
            self._moved(StreamInput.BROKE)
        answer, self._answer = self._answer, _Answer()
        answer.resolve(error)

    async def _live_once(self, watch: Watch) -> RocketMQError:
        """Run one stream from its opening to its end, and return why it ended."""
        self._moved(StreamInput.OPEN)
        try:
            headers, _ = self._session.next_headers()
            async with asyncio.timeout(self._answer_timeout):
                self._stream = await self._session.transport.duplex(self.endpoint, TELEMETRY.path, headers)
                await self._stream.write(self._session.settings_command().SerializeToString())
                while self.state is not StreamState.READY:
                    await self._read_one(self._stream, watch)
            while True:
                await self._read_one(self._stream, watch)
        except (TransportError, OSError) as failure:
            return self._error(failure)
        except TimeoutError:
            return self._silent()
        except RocketMQError as error:
            return error
        finally:
            stream, self._stream = self._stream, None
            if stream is not None:
                await stream.close()

    async def _read_one(self, stream: DuplexStream, watch: Watch) -> None:
        payload = await stream.read()
        if payload is None:
            raise TransportError(Failure.UNREACHABLE, "the server ended the settings stream", was_sent=True)
        try:
            self._take(pb.TelemetryCommand.FromString(payload), watch)
        except (DecodeError, ValueError, OverflowError) as error:
            raise malformed_answer(
                error, what="our settings", endpoint=self.endpoint, group=self._session.group
            ) from error

    def _take(self, command: pb.TelemetryCommand, watch: Watch) -> None:
        name = command.WhichOneof("command")
        if name == "settings":
            self._session.take_settings(self.endpoint, command.settings)
            self._moved(StreamInput.SETTINGS)
            watch.worked()
            answer, self._answer = self._answer, _Answer()
            answer.resolve(None)
        elif name is not None:
            self._session.take_command(self.endpoint, name, command)
        elif command.HasField("status") and command.status.code not in (pb.Code.OK, 0):
            raise refusal(
                command.status.code,
                command.status.message,
                what="our settings",
                endpoint=str(self.endpoint),
                group=self._session.group,
            )

    async def _pause(self, failures: int) -> None:
        try:
            async with asyncio.timeout(renewal_delay(failures, self._session.environment.random)):
                await self._again.wait()
        except TimeoutError:
            return

    def _moved(self, given: StreamInput) -> None:
        self.state = step(STREAM_TABLE, self.state, given)

    def _error(self, failure: BaseException) -> RocketMQError:
        return error_of(failure, what="our settings", endpoint=self.endpoint, group=self._session.group)

    def _silent(self) -> UnreachableError:
        return UnreachableError(
            f"{self.endpoint} did not answer our settings in time; check the server's load and log",
            timed_out=True,
            endpoint=str(self.endpoint),
            group=self._session.group,
        )


class _Answer:
    """One answer that any number of tasks may wait for, now or later."""

    def __init__(self) -> None:
        self._event = Signal()
        self._error: RocketMQError | None = None

    def resolve(self, error: RocketMQError | None) -> None:
        """Wake all waiters, with an error or without."""
        self._error = error
        self._event.set()

    async def wait(self) -> None:
        """Wait for the answer, and raise it if it is an error."""
        await self._event.wait()
        if self._error is not None:
            raise self._error
