"""The handlers of a push consumer by topic; their exceptions are returned as values."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import cast

import anyio

from aiorocketmq._consume.handlers import Handler, as_coroutine_function
from aiorocketmq._core.outcomes import DeadLetter, Outcome, RetryLater
from aiorocketmq.errors import ServerError
from aiorocketmq.hooks import HandleCall, Hook, around_handle
from aiorocketmq.message import ReceivedMessage

logger = logging.getLogger("aiorocketmq.push_consumer")


def handlers_by_topic(
    handler: Handler | None, handlers: Mapping[str, Handler] | None, topics: Collection[str]
) -> dict[str, Handler]:
    """Return the handler of each subscribed topic; ValueError or TypeError if one is missing or invalid."""
    if (handler is None) == (handlers is None):
        raise ValueError("give either handler= for all topics or handlers= with one per topic")
    chosen = dict(handlers) if handlers is not None else dict.fromkeys(topics, cast("Handler", handler))
    for topic in topics:
        if topic not in chosen:
            raise ValueError(f"handlers= has no handler for the subscribed topic {topic!r}")
    for topic, function in chosen.items():
        if topic not in topics:
            raise ValueError(f"handlers= has a handler for {topic!r}, which is not subscribed")
        if not callable(function):
            raise TypeError(
                f"the handler of topic {topic!r} must be a function, not {type(function).__name__}"
            )
    return chosen


def log_failure(message: ReceivedMessage, failure: Exception, outcome: Outcome) -> None:
    """Log how a handler failed, and what follows."""
    if isinstance(failure, (RetryLater, DeadLetter)):
        logger.info("the handler of %r asked for %r", message, outcome)
    else:
        logger.warning("the handler of %r failed, %r follows", message, outcome, exc_info=failure)


class Handlers:
    """Calls the handler of a message's topic and returns its exception as a value."""

    def __init__(
        self,
        by_topic: Mapping[str, Handler],
        *,
        hooks: tuple[Hook, ...],
        timeout: float | None,
        concurrency: int,
    ) -> None:
        self._concurrency = concurrency
        self._threads: anyio.CapacityLimiter | None = None
        self._hooks = hooks
        self._timeout = timeout
        self._calls: dict[str, HandleCall] = {}
        for topic, handler in by_topic.items():
            self.set(topic, handler)

    def set(self, topic: str, handler: Handler) -> None:
        """Call `handler` for the messages of `topic` from now on."""
        call = as_coroutine_function(handler, self._limit_of_threads)
        self._calls[topic] = around_handle(self._hooks, call)

    def _limit_of_threads(self) -> anyio.CapacityLimiter:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._concurrency)
        return self._threads

    def has(self, topic: str) -> bool:
        """Whether `topic` has a handler."""
        return topic in self._calls

    async def run(self, message: ReceivedMessage) -> Exception | None:
        """Call the handler of the message's topic; return None for success, else its exception or that there is no
        handler.

        Cancelling the current task cancels the handler and raises here; a CancelledError that the handler raises for
        other reasons (a task of its own was cancelled) is a failure like any other."""
        call = self._calls.get(message.topic)
        if call is None:
            return ServerError(
                f"a message of topic {message.topic!r} arrived, which is not subscribed; look at the server's log",
                topic=message.topic,
                group=message.group,
            )
        try:
            if self._timeout is None:
                await call(message)
            else:
                await self._run_in_time(call, message, self._timeout)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure = RuntimeError("the handler raised CancelledError by itself")
            failure.__cause__ = error
            return failure
        except (
            Exception
        ) as error:  # of the application's code: the consumer logs it, and the message is redelivered
            return error
        return None

    async def _run_in_time(self, call: HandleCall, message: ReceivedMessage, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds) as scope:
                await call(message)
        except TimeoutError as error:
            if scope.expired():
                raise TimeoutError(f"the handler did not end within its timeout of {seconds} s") from error
            raise
