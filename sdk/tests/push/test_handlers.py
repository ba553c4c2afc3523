import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest
from aiorocketmq._consume.handlers import Handler
from aiorocketmq._push.handlers import Handlers, handlers_by_topic
from aiorocketmq.errors import ServerError
from aiorocketmq.hooks import HandleCall, Hook
from aiorocketmq.message import MessageQueue, ReceivedMessage


def message(topic: str = "orders") -> ReceivedMessage:
    return ReceivedMessage(
        topic=topic, body=b"x", message_id="01", queue=MessageQueue(topic, "broker-a", 0), offset=0
    )


def handlers(handler: Handler, *, hooks: tuple[Hook, ...] = (), timeout: float | None = None) -> Handlers:
    return Handlers({"orders": handler}, hooks=hooks, timeout=timeout, concurrency=2)


async def test_a_coroutine_function_runs_on_the_loop() -> None:
    calls: list[tuple[ReceivedMessage, threading.Thread]] = []

    async def handle(message: ReceivedMessage) -> None:
        calls.append((message, threading.current_thread()))

    delivered = message()
    assert await handlers(handle).run(delivered) is None
    assert calls == [(delivered, threading.current_thread())]


async def test_a_plain_function_runs_in_a_worker_thread() -> None:
    threads: list[threading.Thread] = []

    def handle(message: ReceivedMessage) -> None:
        threads.append(threading.current_thread())

    assert await handlers(handle).run(message()) is None
    assert threads != [threading.current_thread()]


async def test_what_a_handler_raises_is_returned() -> None:
    error = ValueError("no")

    async def handle(message: ReceivedMessage) -> None:
        raise error

    def handle_in_thread(message: ReceivedMessage) -> None:
        raise error

    assert await handlers(handle).run(message()) is error
    assert await handlers(handle_in_thread).run(message()) is error


async def bare(calls: list[str], message: ReceivedMessage) -> None:
    calls.append(message.topic)


class Callable_:
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    async def __call__(self, message: ReceivedMessage) -> None:
        self.calls.append(message.topic)


@pytest.mark.parametrize(
    "make",
    [
        lambda calls: partial(bare, calls),
        Callable_,
        lambda calls: lambda message: bare(calls, message),
    ],
    ids=["partial", "object", "lambda"],
)
async def test_whatever_leads_to_a_coroutine_is_awaited(make: Callable[[list[str]], Handler]) -> None:
    calls: list[str] = []
    assert await handlers(make(calls)).run(message()) is None
    assert calls == ["orders"]


async def test_a_handler_over_its_timeout_is_cancelled_and_has_failed() -> None:
    cancelled = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    failure = await handlers(handle, timeout=0.001).run(message())
    assert isinstance(failure, TimeoutError)
    assert "did not end within its timeout" in str(failure)
    assert cancelled.is_set()


async def test_a_timeout_of_the_handlers_own_keeps_its_text() -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise TimeoutError("database")

    failure = await handlers(handle, timeout=60).run(message())
    assert str(failure) == "database"


async def test_a_cancelled_error_of_the_handlers_own_is_a_failure() -> None:
    async def handle(message: ReceivedMessage) -> None:
        raise asyncio.CancelledError

    failure = await handlers(handle).run(message())
    assert isinstance(failure, RuntimeError)


async def test_cancelling_the_runner_cancels_the_handler() -> None:
    started = asyncio.Event()

    async def handle(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(handlers(handle).run(message()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_hooks_wrap_the_handler_the_first_outermost() -> None:
    order: list[str] = []

    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        async def handle(self, message: ReceivedMessage, call: HandleCall) -> None:
            order.append(f"{self.name} in")
            await call(message)
            order.append(f"{self.name} out")

    async def handle(message: ReceivedMessage) -> None:
        order.append("handler")

    await handlers(handle, hooks=(Named("a"), Named("b"))).run(message())
    assert order == ["a in", "b in", "handler", "b out", "a out"]


async def handle(message: ReceivedMessage) -> None: ...


def test_one_handler_serves_all_topics() -> None:
    assert handlers_by_topic(handle, None, ["a", "b"]) == {"a": handle, "b": handle}


def test_each_topic_may_have_its_handler() -> None:
    assert handlers_by_topic(None, {"a": handle}, ["a"]) == {"a": handle}


def test_handler_and_handlers_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="either handler= for all topics or handlers="):
        handlers_by_topic(handle, {"a": handle}, ["a"])
    with pytest.raises(ValueError, match="either handler= for all topics or handlers="):
        handlers_by_topic(None, None, ["a"])


def test_a_topic_without_handler_and_a_handler_without_topic_are_refused() -> None:
    with pytest.raises(ValueError, match="no handler for the subscribed topic 'b'"):
        handlers_by_topic(None, {"a": handle}, ["a", "b"])
    with pytest.raises(ValueError, match="a handler for 'b', which is not subscribed"):
        handlers_by_topic(None, {"a": handle, "b": handle}, ["a"])


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a function, not str"):
        handlers_by_topic("handle", None, ["a"])  # type: ignore[arg-type]  # the point of the test


async def test_a_message_of_a_topic_that_was_not_requested_is_a_failure() -> None:
    """A worker that raised would keep the message, and renew its lease, for ever."""
    calls: list[str] = []
    failure = await handlers(partial(bare, calls)).run(message("elsewhere"))
    assert isinstance(failure, ServerError)
    assert (failure.topic, calls) == ("elsewhere", [])
