"""Every error that an answer of a server becomes, with all of its fields; each is a line of a page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from aiorocketmq import (
    AckManyError,
    Connection,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    Retry,
    RocketMQError,
    SendManyError,
    SimpleConsumer,
    Sql,
    Timeouts,
)
from aiorocketmq._core.codes import Code
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._transport.interface import Metadata, Take
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.pull_consumer import Offset
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker

from sdk.tests.remoting.conftest import serve as serve, start as start
from sdk.tests.remoting.script import QUEUE, Reply, Script, Start, answer
from sdk.tests.stories.story import Overheard, Story
from sdk.tests.stories.test_over_grpc import START, put

HASTY = Timeouts(start=1.0, not_found_grace=0.001)
Alter = Callable[[Any], object]
"""Changes an answer in place. Any: it is a message of protobuf."""


class Altering(Overheard):
    """The ordinary transport, which changes answers of a call; of a stream, it drops those that `alter` says."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.altered: dict[str, Alter] = {}

    def _heard(self, path: str, payload: bytes, timeout: float | None = None) -> None:
        """Keep no requests, only errors."""

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        name, content = (
            path.rpartition("/")[2],
            await super().unary(endpoint, path, payload, metadata, timeout),
        )
        return self._changed(name, content) or b""

    async def server_stream(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float, take: Take
    ) -> None:
        name = path.rpartition("/")[2]

        def changed(content: bytes) -> None:
            altered = self._changed(name, content)
            if altered is not None:
                take(altered)

        await super().server_stream(endpoint, path, payload, metadata, timeout, changed)

    def _changed(self, name: str, content: bytes) -> bytes | None:
        alter = self.altered.get(name)
        if alter is None:
            return content
        message = METHODS[name].response.FromString(content)
        result = alter(message)
        return (
            None if result is DROP else result if isinstance(result, bytes) else message.SerializeToString()
        )


DROP = object()


def garbage(_: object) -> bytes:
    return b"\xff\xfe\xfd"


def says(code: int, text: str = "why.") -> Alter:
    """The status of the whole answer."""

    def alter(message: Any) -> None:
        message.status.code = code
        message.status.message = text

    return alter


def entries(*codes: int) -> Alter:
    """The entries of the answer, with these codes."""

    def alter(message: Any) -> None:
        handles = [getattr(each, "receipt_handle", "") for each in message.entries]
        del message.entries[:]
        for number, code in enumerate(codes):
            entry = message.entries.add()
            entry.status.code = code
            entry.status.message = f"entry {number}"
            if hasattr(entry, "receipt_handle"):
                entry.receipt_handle = handles[number]

    return alter


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual", start=START) as broker:
        await broker.create_topic("ns%orders", queues=1)
        await broker.create_topic("ns%sure", type="TRANSACTION", queues=1)
        await broker.create_topic("ns%later", type="DELAY", queues=1)
        await broker.create_group("ns%billing")
        yield broker


async def accept(message: ReceivedMessage) -> None:
    pass


async def unknown(message: ReceivedMessage) -> Any:
    raise AssertionError("nobody checks")


async def test_over_grpc(broker: FakeBroker) -> None:
    story = Story(broker)
    transport = Altering(story)
    options: dict[str, Any] = {
        "namespace": "ns",
        "transport": transport,
        "environment": story.environment,
        "clock": broker.clock,
        "timeouts": HASTY,
    }

    async def fails(name: str, alter: Alter, call: Callable[[], Awaitable[object]], what: str = "") -> None:
        transport.altered[name] = alter
        try:
            with story.failing(f"{name} {what}"):
                await call()
        finally:
            transport.altered.clear()

    once = Retry(attempts=1)
    connection = Connection(broker.endpoint, **options)
    await put(broker, *(Message("orders", b"%d" % number) for number in range(70)))
    async with connection, AsyncExitStack() as stack:
        producer = Producer(connection, transaction_checker=unknown, retry=once)
        await stack.enter_async_context(producer)
        batching = Producer(connection, linger=0.0, retry=once)
        await stack.enter_async_context(batching)
        simple = SimpleConsumer(connection, group="billing", subscriptions=["orders"])
        await stack.enter_async_context(simple)
        pull = await stack.enter_async_context(PullConsumer(connection, group="billing"))

        # Sends
        def send() -> Awaitable[object]:
            return producer.send(Message("orders", b"x"))

        for what, alter in {
            "with garbage": garbage,
            "without a result": entries(),
            "with two results": entries(Code.OK, Code.OK),
            "refused": entries(Code.FORBIDDEN),
            "throttled": entries(Code.TOO_MANY_REQUESTS),
            "of a topic that was known": entries(Code.TOPIC_NOT_FOUND),
            "timed out at the server": entries(Code.PROXY_TIMEOUT),
            "with an unknown code": entries(12345),
        }.items():
            await fails("SendMessage", alter, send, what)
        for code in (Code.FORBIDDEN, Code.TOO_MANY_REQUESTS, Code.PROXY_TIMEOUT):
            await fails("SendMessage", says(code), send, code.name)

        async def send_many() -> None:
            try:
                await batching.send_many([Message("orders", b"1"), Message("orders", b"2")])
            except SendManyError as error:
                for outcome in error.outcomes:
                    story.result("outcome", outcome)
                raise

        await fails(
            "SendMessage", entries(Code.OK, Code.OK, Code.OK), send_many, "of many, with three results"
        )
        await fails(
            "SendMessage", entries(Code.OK, Code.FORBIDDEN), send_many, "of many, the last one refused"
        )
        await fails("SendMessage", entries(Code.FORBIDDEN), send_many, "of many, all refused")
        delayed = await producer.send(Message("later", b"x", delay=60))
        await fails("RecallMessage", garbage, lambda: producer.recall(delayed), "with garbage")

        async def commit() -> None:
            async with producer.transaction(Message("sure", b"x")):
                pass

        await fails("EndTransaction", garbage, commit, "with garbage")
        await fails("EndTransaction", says(Code.INVALID_TRANSACTION_ID), commit, "of an unknown transaction")
        await fails("QueryRoute", garbage, lambda: producer.send(Message("a", b"x")), "with garbage")
        for what, alter in ROUTES.items():
            await fails("QueryRoute", alter, partial(producer.send, Message(f"t{len(what)}", b"x")), what)

        # Received messages
        def receive() -> Awaitable[object]:
            return simple.receive(max_messages=1, wait=1)

        await fails("ReceiveMessage", garbage, receive, "with garbage")
        await fails("ReceiveMessage", lambda _: DROP, receive, "without a status")
        await fails("ReceiveMessage", lambda message: message.Clear(), receive, "without content")
        for code in (
            Code.FORBIDDEN,
            Code.TOO_MANY_REQUESTS,
            Code.CONSUMER_GROUP_NOT_FOUND,
            Code.TOPIC_NOT_FOUND,
        ):
            await fails("ReceiveMessage", refusing(code), receive, code.name)
        for what, alter in {
            "garbage": garbage,
            **{
                code.name: says(code) for code in (Code.FORBIDDEN, Code.TOO_MANY_REQUESTS, Code.PROXY_TIMEOUT)
            },
        }.items():
            for name in ("AckMessage", "ChangeInvisibleDuration"):
                (message,) = await simple.receive(max_messages=1, wait=1)
                use = message.ack if name == "AckMessage" else partial(message.extend, 30)
                await fails(name, alter, use, what)
                assert message._lease is not None
                story.result(f"its lease after {name} {what}", message._lease.state)
        for code in Code:
            if code is not Code.OK:
                (message,) = await simple.receive(max_messages=1, wait=1)
                transport.altered["AckMessage"] = entries(code)
                with pytest.raises(RocketMQError):
                    await message.ack()
                assert message._lease is not None
                story.result(f"a lease after an ack with an entry {code.name}", message._lease.state)
        transport.altered.clear()

        async def ack_three() -> None:
            messages = await simple.receive(max_messages=3, wait=1)
            try:
                await simple.ack([*messages, messages[0]])
            except AckManyError as error:
                for acked, outcome in error.outcomes:
                    story.result(f"ack of {acked.body!r}", outcome)
                raise

        def missing(message: Any) -> None:
            entries(Code.OK, Code.FORBIDDEN)(message)
            says(Code.MULTIPLE_RESULTS, "several")(message)

        await broker.clock.advance(seconds=60)
        await fails("AckMessage", missing, ack_three, "with an entry too few")

        # Pulls
        (queue,) = await pull.queues("orders")
        await fails("GetOffset", garbage, lambda: pull.committed(queue), "with garbage")
        await fails("UpdateOffset", garbage, lambda: pull.commit({queue: 1}), "with garbage")
        pull.assign([queue])
        await pull.poll(10)
        await fails(
            "QueryOffset",
            lambda message: setattr(message, "offset", -1),
            lambda: pull.seek(queue, Offset.END),
            "with -1",
        )

        def reading() -> Awaitable[object]:
            return pull._calls.pull(queue, 0, lambda usual: usual)

        await fails("PullMessage", garbage, reading, "with garbage")
        await fails("PullMessage", lambda message: message.Clear(), reading, "without content")
        await fails("PullMessage", of_content("next_offset", -1), reading, "with the next offset -1")
        transport.altered["PullMessage"] = without("status")
        answer_without = await pull._calls.pull(queue, 0, lambda usual: usual)
        story.result("a pull without a status", [message.body for message in answer_without.messages][:3])
        transport.altered["PullMessage"] = without("next_offset")
        story.result(
            "a pull without a next offset",
            (await pull._calls.pull(queue, 0, lambda usual: usual)).next_offset,
        )
        transport.altered.clear()
        with story.failing("an unknown queue"):
            await pull.committed(queue._replace(id=7))
        with story.failing("a foreign queue"):
            await pull.position(queue._replace(id=7))
        pull.assign([])  # its pull, which fails and is repeated, would get the one refusal
        for what, alter in {
            "FORBIDDEN": refusing(Code.FORBIDDEN),
            "UNSUPPORTED": refusing(Code.UNSUPPORTED),
        }.items():
            async with PullConsumer(connection, group="billing") as pull:
                pull.assign([queue])
                await fails("PullMessage", alter, lambda: pull.poll(10), what)

        async def start_pushing() -> None:
            async with PushConsumer(
                connection, group="billing", subscriptions=["orders"], handler=accept
            ) as consumer:
                await consumer.run()

        def queue_of(**values: Any) -> Alter:
            def alter(message: Any) -> None:
                for name, value in values.items():
                    setattr(message.assignments[0].message_queue, name, value)

            return alter

        await fails("QueryAssignment", queue_of(id=-2), start_pushing, "with a queue -2")
        await fails("QueryAssignment", says(Code.FORBIDDEN), start_pushing, "FORBIDDEN")
        await fails(
            "ReceiveMessage", refusing(Code.ILLEGAL_FILTER_EXPRESSION), start_pushing, "of a push consumer"
        )
    story.check("errors")


def refusing(code: int) -> Alter:
    """A stream of one answer: its status."""
    sent = False

    def alter(message: Any) -> object:
        nonlocal sent
        if sent:
            return DROP
        sent = message.WhichOneof("content") == "status"
        message.Clear()
        says(code)(message)
        return None

    return alter


def without(name: str) -> Alter:
    """A stream without the answers of this content."""
    return lambda message: DROP if message.WhichOneof("content") == name else None


def of_content(name: str, value: int) -> Alter:
    """A stream whose answers of this content have another value."""

    def alter(message: Any) -> None:
        if message.WhichOneof("content") == name:
            setattr(message, name, value)

    return alter


def of_route(change: Callable[[Any], object]) -> Alter:
    """Another route than the answer's: one of its queues, changed."""

    def alter(message: Any) -> None:
        says(Code.OK)(message)
        queue = message.message_queues.add()
        queue.broker.name = "broker-a"
        queue.broker.endpoints.scheme = 1
        queue.broker.endpoints.addresses.add(host="127.0.0.1", port=1)
        queue.permission = 3
        change(queue)

    return alter


ROUTES: dict[str, Alter] = {
    "with a port 0": of_route(lambda queue: setattr(queue.broker.endpoints.addresses[0], "port", 0)),
    "without an address": of_route(lambda queue: queue.broker.endpoints.ClearField("addresses")),
    "with a queue -2": of_route(lambda queue: setattr(queue, "id", -2)),
}


# Remoting

NUMBERS = (
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.PULL_MESSAGE,
)
REFUSALS = (
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
)


def replying(code: int = 0, **values: Any) -> Reply:
    """Always the same answer."""
    return lambda frame: answer(frame, code, **values)


async def test_over_remoting(start: Start, broker: FakeBroker) -> None:
    story = Story(broker)
    script = Script()
    server = await start(script)
    options: dict[str, Any] = {"environment": story.environment, "timeouts": HASTY}
    endpoint = f"namesrv://{server.address}"

    async def fails(code: RequestCode, reply: Any, call: Callable[[], Awaitable[object]], what: str) -> None:
        script.answers[code] = reply
        try:
            with story.failing(f"{code.name} {what}"):
                await call()
        finally:
            del script.answers[code]

    def stored(frame: Frame) -> Frame:
        return answer(frame, fields={"queueOffset": "7", "msgId": f"{'7F' * 8}{9:016X}", "queueId": "0"})

    async with AsyncExitStack() as stack:
        producer = Producer(
            endpoint, group="sellers", transaction_checker=unknown, retry=Retry(attempts=1), **options
        )
        await stack.enter_async_context(producer)
        pull = PullConsumer(endpoint, group="billing", filters={"S": Sql("a >")}, **options)
        await stack.enter_async_context(pull)
        script.answers[RequestCode.SEND_MESSAGE_V2] = stored

        async def commit() -> None:
            async with producer.transaction(Message("T", b"x")):
                pass

        calls: dict[RequestCode, Callable[[], Awaitable[object]]] = {
            RequestCode.END_TRANSACTION: commit,
            RequestCode.QUERY_CONSUMER_OFFSET: lambda: pull.committed(QUEUE),
            RequestCode.UPDATE_CONSUMER_OFFSET: lambda: pull.commit({QUEUE: 5}),
            RequestCode.GET_MIN_OFFSET: lambda: pull._calls.resolve(QUEUE, Offset.BEGIN),
            RequestCode.GET_MAX_OFFSET: lambda: pull._calls.resolve(QUEUE, Offset.END),
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda: pull._calls.resolve(
                QUEUE, datetime(2030, 1, 1, tzinfo=UTC)
            ),
            RequestCode.PULL_MESSAGE: lambda: pull._calls.pull(QUEUE, 3, lambda usual: usual),
            RequestCode.CHECK_CLIENT_CONFIG: lambda: pull._calls.pull(
                QUEUE._replace(topic="S"), 3, lambda usual: usual
            ),
        }
        for code, call in calls.items():
            for refusal in REFUSALS[:2]:
                await fails(code, replying(refusal, remark="why\nmore"), call, refusal.name)
            if code in NUMBERS:
                await fails(code, replying(fields={"offset": "x"}), call, "with no number")
        del script.answers[RequestCode.SEND_MESSAGE_V2]

        def send() -> Awaitable[object]:
            return producer.send(Message("T", b"x"))

        for refusal in REFUSALS:
            await fails(RequestCode.SEND_MESSAGE_V2, replying(refusal), send, refusal.name)
        for offset in ("x", "-1", str(2**63)):
            reply = replying(fields={"queueOffset": offset})
            await fails(RequestCode.SEND_MESSAGE_V2, reply, send, f"with the offset {offset}")
        for message_id in ("zz", ""):
            reply = replying(fields={"queueOffset": "1", "msgId": message_id})
            await fails(RequestCode.SEND_MESSAGE_V2, reply, commit, f"with the id {message_id!r}")
        await fails(RequestCode.SEND_MESSAGE_V2, replying(), send, "without an offset")
        await fails(
            RequestCode.SEND_MESSAGE_V2, replying(fields={"queueOffset": "1"}), commit, "without an id"
        )
        pulling = calls[RequestCode.PULL_MESSAGE]
        for what, following, body in (
            ("that leads back", "3", b"x"),
            ("without messages", "4", b""),
            ("with a damaged message", "4", b"x" * 100),
        ):
            reply = replying(fields={"nextBeginOffset": following}, body=body)
            await fails(RequestCode.PULL_MESSAGE, reply, pulling, what)
        await fails(
            RequestCode.PULL_MESSAGE,
            lambda frame: answer(frame, ResponseCode.PULL_RETRY_IMMEDIATELY, {"nextBeginOffset": "3"}),
            calls[RequestCode.PULL_MESSAGE],
            "that is to be repeated",
        )
        with story.failing("a broker without address"):
            await pull.committed(QUEUE._replace(broker="b"))
        for name in ("broker without master", "queues without permission"):
            script.queues = 0 if name.startswith("queues") else 1
            with story.failing(name):
                await producer.send(Message(f"T{len(name)}", b"x"))
    story.check("errors_remoting")
