"""The telemetry streams: settings in, settings and commands out (2.1, 2.3)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import grpc
from aiorocketmq.wire import messages as pb
from google.protobuf.message import DecodeError
from grpc import aio

from aiorocketmq_fake.core.values.codes import Code, Refusal, Surface
from aiorocketmq_fake.core.values.model import CommandForClient
from aiorocketmq_fake.edge import conversion, settings_conversion
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.admission import admit
from aiorocketmq_fake.edge.caller import Caller, check_language
from aiorocketmq_fake.edge.calls import NO_CLIENT_ID, Context, abort, caller_of
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.faults import Disturbance, FaultRule, Faults

__all__ = ["ClientReply", "Telemetry"]

logger = logging.getLogger("aiorocketmq_fake.broker")

# Limit of unread frames; beyond, new ones are dropped with a warning.
BOUND = 10_000


@dataclass(frozen=True, slots=True)
class ClientReply:
    """A client's reply to a command of the server."""

    client_id: str
    nonce: str
    code: int
    """Status code of the reply; 0 without one."""
    text: str
    """A stack trace, or the message of the status."""


@dataclass(frozen=True, slots=True)
class _End:
    """Ends a stream: normally, or with a gRPC status."""

    status: str = "OK"
    text: str = ""


class _Stream:
    """One open stream, with its unwritten frames."""

    def __init__(self) -> None:
        self.outbox: asyncio.Queue[pb.TelemetryCommand | _End] = asyncio.Queue(BOUND)
        self.client_id = ""
        self.is_ending = False
        self.cut: FaultRule | None = None
        """A fault that ends the stream after some frames."""

    def end(self, status: str = "OK", text: str = "") -> None:
        """End the stream after the queued frames."""
        if not self.is_ending:
            self.is_ending = True
            self.put(_End(status, text))

    def put(self, item: pb.TelemetryCommand | _End) -> bool:
        """Queue a frame; return whether there was space."""
        try:
            self.outbox.put_nowait(item)
        except asyncio.QueueFull:
            logger.warning(
                "dropped a frame for client %s: it does not read its telemetry stream", self.client_id
            )
            return False
        return True


class Telemetry:
    """All telemetry streams of one broker."""

    def __init__(self, driver: Driver, faults: Faults, address: Address) -> None:
        self._driver = driver
        self._faults = faults
        self._address = address
        self._streams: list[_Stream] = []
        self._newest: dict[str, _Stream] = {}
        self._replies: dict[str, asyncio.Future[ClientReply]] = {}
        driver.deliver_command = self._deliver

    def handler(self) -> grpc.RpcMethodHandler[bytes, pb.TelemetryCommand]:
        """Return the handler of Telemetry."""
        return grpc.stream_stream_rpc_method_handler(
            self._serve, response_serializer=pb.TelemetryCommand.SerializeToString
        )

    def client_ids(self) -> tuple[str, ...]:
        """Return the clients with a stream."""
        return tuple(self._newest)

    def cut(
        self,
        client_id: str | None = None,
        status: str = "UNAVAILABLE",
        text: str = "cut by a fault of the test",
    ) -> int:
        """Break the open streams of a client, or all, with a gRPC status; return their number."""
        cut = [stream for stream in self._streams if client_id in (None, stream.client_id)]
        for stream in cut:
            stream.end(status, text)
        return len(cut)

    async def reply(self, nonce: str, timeout: float) -> ClientReply | None:
        """Wait up to `timeout` real seconds for a client's reply to the command with this nonce."""
        future = self._replies.setdefault(nonce, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            self._replies.pop(nonce, None)

    def _deliver(self, order: CommandForClient) -> None:
        stream = self._newest.get(order.client_id)
        if stream is None or stream.is_ending:
            logger.debug(
                "dropped %s for %s: it has no telemetry stream", type(order.command).__name__, order.client_id
            )
            return
        self._write(stream, conversion.command(order.command, self._address.endpoint))

    def _write(self, stream: _Stream, frame: pb.TelemetryCommand) -> None:
        """Queue a frame; it counts as work in progress until it is written."""
        if not stream.is_ending and stream.put(frame):
            self._driver.in_progress.enter()

    async def _serve(self, requests: object, context: Context) -> None:
        stream = _Stream()
        self._streams.append(stream)
        try:
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read(stream, context))
                end = await self._write_out(stream, context)
                reader.cancel()
        finally:
            self._streams.remove(stream)
            if self._newest.get(stream.client_id) is stream:
                del self._newest[stream.client_id]
                self._driver.run(self._driver.core.lose_stream, stream.client_id)
            while not stream.outbox.empty():
                if not isinstance(stream.outbox.get_nowait(), _End):
                    self._driver.in_progress.leave()
        if end.status != "OK":
            await abort(context, end.status, end.text)

    async def _write_out(self, stream: _Stream, context: Context) -> _End:
        """Write the outbox until it or a fault ends the stream."""
        written = 0
        while True:
            if stream.cut is not None and written >= stream.cut.frames:
                return _End(stream.cut.status, stream.cut.message)
            item = await stream.outbox.get()
            if isinstance(item, _End):
                return item
            try:
                await self._driver.gate.wait()
                await context.write(item)
                written += 1
            finally:
                self._driver.in_progress.leave()

    async def _read(self, stream: _Stream, context: Context) -> None:
        """Read the client's frames until one side ends the stream."""
        caller = caller_of(context)
        stream.client_id = caller.client_id
        while (payload := await context.read()) is not aio.EOF:
            self._driver.in_progress.enter()
            try:
                await self._driver.gate.wait()
                command = pb.TelemetryCommand.FromString(payload)
                rule = self._faults.take("Telemetry", caller.client_id, "", "") if self._faults else None
                if rule is not None and await self._disturb(rule, stream, caller, command):
                    continue
                self._take(stream, caller, command)
            except DecodeError:
                stream.end("INTERNAL", "the frame is no TelemetryCommand.")
            except Refusal as refused:
                self._refuse(stream, refused)
            except Exception:
                # Outermost handler of a stream: an internal error must not look like a decision (R1.6).
                logger.exception("Telemetry failed")
                stream.end("INTERNAL", "the fake broker failed in Telemetry: its log says why.")
            finally:
                self._driver.in_progress.leave()
        stream.end()

    def _take(self, stream: _Stream, caller: Caller, command: pb.TelemetryCommand) -> None:
        """Handle one frame of a client; all but settings and replies are ignored (session §2.2)."""
        admit("Telemetry", command, caller, self._driver)
        if not caller.client_id:
            raise Refusal(Code.CLIENT_ID_REQUIRED, NO_CLIENT_ID)
        kind = command.WhichOneof("command")
        if kind == "settings":
            check_language(caller, self._driver.core.profile, Surface.STREAM)
            settings = settings_conversion.client_settings(command.settings, caller)
            merged = self._driver.run(self._driver.core.settings, caller.client_id, settings)
            # R2.3: commands go to the stream with the newest settings.
            self._newest[caller.client_id] = stream
            self._write(stream, settings_conversion.settings_reply(command.settings, merged))
        elif kind == "verify_message_result":
            self._replied(caller, command, command.verify_message_result.nonce, command.status.message)
        elif kind == "thread_stack_trace":
            trace = command.thread_stack_trace
            self._replied(caller, command, trace.nonce, trace.thread_stack_trace)

    def _replied(self, caller: Caller, command: pb.TelemetryCommand, nonce: str, text: str) -> None:
        future = self._replies.get(nonce)
        if future is not None and not future.done():
            future.set_result(ClientReply(caller.client_id, nonce, command.status.code, text))

    def _refuse(self, stream: _Stream, refused: Refusal) -> None:
        """End a stream by a refusal: with a gRPC status (R1.6), or with one frame and normally (R1.2)."""
        if refused.surface is Surface.STREAM:
            client_fault = 40_000 <= refused.code <= 49_999
            stream.end("INVALID_ARGUMENT" if client_fault else "INTERNAL", refused.message)
        else:
            frame = pb.TelemetryCommand()
            conversion.set_status(frame.status, refused.code, refused.message)
            self._write(stream, frame)
            stream.end()

    async def _disturb(
        self, rule: FaultRule, stream: _Stream, caller: Caller, command: pb.TelemetryCommand
    ) -> bool:
        """Apply a fault to one frame; return whether the frame is done with."""
        match rule.disturbance:
            case Disturbance.REFUSE:
                raise Refusal(Code(rule.code), rule.message)
            case Disturbance.FAIL:
                stream.end(rule.status, rule.message)
            case Disturbance.DELAY:
                await self._driver.sleep(rule.seconds)
                return False
            case Disturbance.LOSE:
                return True
            case Disturbance.CUT_STREAM:
                stream.cut = rule
                if rule.frames:
                    return False
                stream.end(rule.status, rule.message)
            case Disturbance.DROP_REPLY:
                silent = _Stream()
                silent.is_ending = True
                self._take(silent, caller, command)
                self._newest[caller.client_id] = stream
                if not rule.hang:
                    stream.end(rule.status, rule.message)
        return True
