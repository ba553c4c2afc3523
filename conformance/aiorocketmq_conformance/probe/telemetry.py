"""One telemetry stream of a probe client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.clock import STUCK, Clock
from aiorocketmq_conformance.probe.traffic import Call


class StreamEnded(AssertionError):
    """The server ended the telemetry stream; `code` is the name of the gRPC status. Unless expected, it fails the
    case."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"the telemetry stream ended with {code}: {details}")
        self.code = code


class Telemetry:
    """An open stream: sends commands, and receives the server's commands in order."""

    def __init__(self, call: Any, client_id: str, clock: Clock) -> None:  # Any: grpc.aio's stream call
        self._call = call
        self._client_id = client_id
        self._clock = clock
        self._commands: asyncio.Queue[pb.TelemetryCommand | StreamEnded] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(), name="conformance-telemetry")

    async def send(self, command: pb.TelemetryCommand) -> None:
        """Send one command unchanged."""
        self._clock.traffic.steps += 1
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):  # the reading side reports the end
            await self._call.write(command)

    async def next(self, seconds: float = STUCK) -> pb.TelemetryCommand:
        """Return the next command of the server.

        StreamEnded if it ended the stream or was silent for real `seconds`, ConnectionError without a server.
        """
        try:
            async with asyncio.timeout(seconds):
                item = await self._commands.get()
        except TimeoutError:
            raise StreamEnded("SILENCE", f"nothing arrived for {seconds:g} s") from None
        if isinstance(item, StreamEnded):
            self._commands.put_nowait(item)
            if item.code == "UNAVAILABLE":
                raise ConnectionError(str(item))  # without a server there is nothing to judge
            raise item
        return item

    async def settings(self, settings: pb.Settings) -> pb.TelemetryCommand:
        """Send settings and return the next command with settings or a refusal."""
        answers = {pb.Code.CODE_UNSPECIFIED, pb.Code.OK}
        return await self.exchange(
            pb.TelemetryCommand(settings=settings),
            lambda reply: reply.HasField("settings") or reply.status.code not in answers,
        )

    async def exchange(
        self, command: pb.TelemetryCommand, matches: Callable[[pb.TelemetryCommand], bool]
    ) -> pb.TelemetryCommand:
        """Send `command` and return the first reply that is `matches`. Others are dropped."""
        traffic, started = self._clock.traffic, self._clock.now()
        traffic.begin(waits_for_time=False)
        outcome = "cancelled"
        try:
            await self.send(command)
            while not matches(reply := await self.next()):
                pass
            outcome = code_of(reply)
            return reply
        except StreamEnded as ended:
            outcome = f"grpc:{ended.code}"
            raise
        finally:
            call = Call("Telemetry", self._client_id, started, self._clock.now(), outcome)
            traffic.end(call)

    async def ended(self, seconds: float = STUCK) -> str:
        """Return the name of the gRPC status the stream ended with, SILENCE if nothing arrived for real `seconds`."""
        while True:
            try:
                await self.next(seconds)
            except StreamEnded as ended:
                return ended.code
            except ConnectionError:
                return "UNAVAILABLE"

    async def cut(self) -> None:
        """Cancel the stream."""
        self._call.cancel()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self) -> None:
        try:
            while (command := await self._call.read()) is not grpc.aio.EOF:
                self._clock.traffic.steps += 1
                self._clock.traffic.commands += not command.HasField("settings")
                self._commands.put_nowait(command)
            error = StreamEnded((await self._call.code()).name, await self._call.details() or "")
        except grpc.aio.AioRpcError as failure:
            error = StreamEnded(failure.code().name, failure.details() or "")
        self._commands.put_nowait(error)
