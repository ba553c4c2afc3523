"""Runs a user's handler: coroutine functions on the loop, plain ones in worker threads, watched by hooks."""

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
"""What a consumer calls with each message. Returning is success, raising is failure."""


def as_coroutine_function(
    handler: Handler, threads: Callable[[], anyio.CapacityLimiter | None] = lambda: None
) -> HandleCall:
    """`handler` itself, or where it is a plain function a coroutine function that runs it in one of `threads`, by
    default of those that all of the process shares."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        return cast("HandleCall", handler)
    limiter = threads()

    async def in_thread(message: ReceivedMessage) -> None:
        # abandon_on_cancel: nothing can stop a thread, and a stop of the consumer must not wait for it for
        # ever.
        result = await anyio.to_thread.run_sync(
            partial(handler, message), abandon_on_cancel=True, limiter=limiter
        )
        if inspect.isawaitable(result):  # a lambda around a coroutine function
            await result

    return in_thread


async def watched(
    client: Client, message: ReceivedMessage, run: Callable[[ReceivedMessage], Awaitable[Exception | None]]
) -> Exception | None:
    """Run a handler, and tell the session's observers when it began and how it ended."""
    if not client.telling.is_watched:
        return await run(message)
    telling, operation = client.telling, client.next_operations(1)
    # Counted on before the next local run, while these facts may still wait to be looked at.
    attempt = message.attempt
    telling.handling(message, operation, attempt)
    raised: BaseException | None = None
    try:
        raised = await run(message)
    except asyncio.CancelledError as error:
        raised = error
        raise
    finally:
        telling.handled(message, operation, attempt, raised)
    return raised
