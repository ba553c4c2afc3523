"""Commands that an operator sends through the server: verify a message, print stacks."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback

from aiorocketmq._consume.collect import lone_message
from aiorocketmq._core.bounds import one_line
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._session.session import Session
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.wire import messages as pb

VERIFICATIONS_AT_ONCE = 16
"""Messages that are verified concurrently: their handlers run in addition to those of the workers."""


class Verifications:
    """Calls handlers with messages of commands, outside of cache and leases (client-behaviour.md 7.1)."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._running = 0

    async def verify(self, session: Session, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        """Call the handler once with the message of the command, and reply how it ended."""
        request = command.verify_message_command
        if self._running >= VERIFICATIONS_AT_ONCE:
            status = pb.Status(
                code=pb.Code.TOO_MANY_REQUESTS, message=f"{self._running} messages are being verified"
            )
        else:
            self._running += 1
            try:
                status = await self._handled(await lone_message(session, request.message, endpoint))
            finally:
                self._running -= 1
        answer = pb.TelemetryCommand(
            status=status, verify_message_result=pb.VerifyMessageResult(nonce=request.nonce)
        )
        await session.reply(endpoint, answer)

    async def _handled(self, message: ReceivedMessage) -> pb.Status:
        failure: Exception | None
        if self._handlers.has(message.topic):
            failure = await self._handlers.run(message)
        else:
            failure = LookupError(f"topic {message.topic!r} has no handler here")
        if failure is None:
            return pb.Status(code=pb.Code.OK)
        return pb.Status(code=pb.Code.FAILED_TO_CONSUME_MESSAGE, message=one_line(repr(failure)))


async def print_stacks(session: Session, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
    """Reply with the stacks of all threads and of all tasks of this loop."""
    request = command.print_thread_stack_trace_command
    answer = pb.TelemetryCommand(
        status=pb.Status(code=pb.Code.OK),
        thread_stack_trace=pb.ThreadStackTrace(nonce=request.nonce, thread_stack_trace=stacks()),
    )
    await session.reply(endpoint, answer)


def stacks() -> str:
    """The stacks of all threads of the process and of all tasks of the running loop, as text."""
    text = io.StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        text.write(f"thread {names.get(ident, ident)}\n")
        traceback.print_stack(frame, file=text)
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        text.write(f"\ntask {task.get_name()}\n")
        # Not print_stack(): it fails on the compiled frames of a transport, which have no line numbers.
        for frame in task.get_stack():
            code = frame.f_code
            text.write(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n')
    return text.getvalue()
