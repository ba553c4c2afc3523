"""Calls the application's handlers: coroutine functions on the loop, plain functions in worker threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, cast

import anyio
import anyio.to_thread

from aiorocketmq._session.client import Client
from aiorocketmq.hooks import HandleCall
from aiorocketmq.message import ReceivedMessage

Handler: TypeAlias = Callable[[ReceivedMessage], Awaitable[object] | object]
"""Called with each message. Returning is success, raising is failure."""


def as_coroutine_function(
    handler: Handler, threads: Callable[[], anyio.CapacityLimiter | None] = lambda: None
) -> HandleCall:
    """Return `handler` itself, or for a plain function a coroutine function that runs it in one of `threads`, by
    default those of the process."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return cast("HandleCall", handler)
    limiter = threads()

    async def in_thread(message: ReceivedMessage) -> None:
        # abandon_on_cancel: a thread cannot be stopped, and the stop of the consumer must not wait for it.
        result = await anyio.to_thread.run_sync(
            partial(handler, message), abandon_on_cancel=True, limiter=limiter
        )
        if inspect.isawaitable(result):  # a lambda around a coroutine function
            await result

    return in_thread


async def watched(
    client: Client, message: ReceivedMessage, run: Callable[[ReceivedMessage], Awaitable[Exception | None]]
) -> Exception | None:
    """Run a handler, and emit events of its begin and its end."""
    if not client.emitter.is_watched:
        return await run(message)
    emitter, operation = client.emitter, client.next_operations(1)
    # Copied: it is incremented before the next local retry, while these events may not be written yet.
    attempt = message.attempt
    emitter.handling(message, operation, attempt)
    raised: BaseException | None = None
    try:
        raised = await run(message)
    except asyncio.CancelledError as error:
        raised = error
        raise
    finally:
        emitter.handled(message, operation, attempt, raised)
    return raised
