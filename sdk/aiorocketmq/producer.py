"""The producer: sends messages, tries again where that can help, takes delayed ones back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

import anyio

from aiorocketmq._calls import RECALL
from aiorocketmq._core.codes import Code
from aiorocketmq._core.names import check_topic
from aiorocketmq._core.retries import send_delay
from aiorocketmq._core.route import QueueChoice, Route, RouteQueue
from aiorocketmq._core.settings import Declaration
from aiorocketmq._retrying import retried
from aiorocketmq._sending import Sending
from aiorocketmq._session import Session
from aiorocketmq.config import SendRetry
from aiorocketmq.connection import Connection, ConnectionOptions, loop_time, process_message_ids
from aiorocketmq.errors import (
    Busy,
    MessageTooLarge,
    PermissionDenied,
    RocketMQError,
    TypeMismatch,
    Unreachable,
    UsageError,
)
from aiorocketmq.hooks import Hook, Phase, RecallEvent, Role, around_send
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, MessageType, SendReceipt
from aiorocketmq.wire import messages as pb

logger = logging.getLogger(__name__)


class Producer:
    """Sends messages to any topics.

        async with Producer("localhost:8081") as producer:
            receipt = await producer.send(Message("orders", b"..."))

    The first parameter is an endpoint or a `Connection`; with an endpoint the producer owns its connection, and takes
    the connection's settings (`credentials`, `tls`, `namespace`, `address_map`, `timeouts` …) by keyword. `topics`
    are those to look up while starting, so that a missing one shows at once; any other topic is looked up at its first
    send. `hooks` wrap every send, the first one outermost.

    Entering returns when a server has answered, or raises within `timeouts.start`; leaving it closes everything."""

    def __init__(
        self,
        where: str | Connection,
        *,
        topics: Iterable[str] = (),
        retry: SendRetry | None = None,
        hooks: Sequence[Hook] = (),
        **options: Unpack[ConnectionOptions],
    ) -> None:
        if isinstance(topics, str):
            raise TypeError(f"topics must be a list of topics; write [{topics!r}]")
        names = tuple(dict.fromkeys(topics))
        for topic in names:
            check_topic(topic)
        self._retry = retry or SendRetry()
        self._session = Session(
            where,
            Declaration(client_type="PRODUCER", topics=names, attempts=self._retry.attempts),
            role=Role.PRODUCER,
            hooks=hooks,
            options=options,
        )
        connection = self._session.connection
        self._session.declaration = replace(
            self._session.declaration,
            request_timeout=connection.timeouts.request,
            client_properties=connection.client_properties,
        )
        self._queues = QueueChoice(connection.surroundings.random)
        self._send = around_send(self._session.hooks, self._perform)

    @property
    def client_id(self) -> str:
        """The name that servers know this client by; empty before the start."""
        return self._session.client_id

    async def __aenter__(self) -> Self:
        await self._session.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.stop()

    async def send(self, message: Message) -> SendReceipt:
        """Send one message and return the server's receipt.

        Failures that may pass are tried again, up to `retry.attempts` times on different brokers where there are
        several, and with the same message id, so that consumers can tell a message that was stored twice. Raises
        TopicNotFound, TypeMismatch, MessageTooLarge, PermissionDenied … where the server refuses, Busy where it
        throttles, Unreachable where it does not answer, Closed after the end. An error whose `may_have_taken_effect`
        is true leaves open whether the message is stored; so does a cancellation."""
        return await self._send(message)

    async def send_many(self, messages: Iterable[Message]) -> tuple[SendReceipt, ...]:
        """Send many side by side, at most 64 at a time, and return their receipts in the order given.

        Messages of one message group are sent one after the other, so that their order holds. Every message is tried;
        where some fail, SendManyError carries an outcome for each."""
        wanted = tuple(messages)
        outcomes: list[SendReceipt | RocketMQError | None] = [None] * len(wanted)
        lanes: dict[tuple[str, str] | int, list[int]] = {}
        for number, message in enumerate(wanted):
            lane = number if message.message_group is None else (message.topic, message.message_group)
            lanes.setdefault(lane, []).append(number)
        limit = anyio.CapacityLimiter(64)

        async def send_lane(numbers: Sequence[int]) -> None:
            async with limit:
                for number in numbers:
                    try:
                        outcomes[number] = await self.send(wanted[number])
                    except RocketMQError as error:
                        outcomes[number] = error

        async with anyio.create_task_group() as group:
            for numbers in lanes.values():
                group.start_soon(send_lane, numbers)
        done = tuple(outcome for outcome in outcomes if outcome is not None)
        receipts = tuple(outcome for outcome in done if isinstance(outcome, SendReceipt))
        if len(receipts) == len(wanted):
            return receipts
        first = next(outcome for outcome in done if isinstance(outcome, RocketMQError))
        raise SendManyError(
            f"{len(wanted) - len(receipts)} of {len(wanted)} messages were not stored, the first because {first.text}",
            outcomes=done,
        ) from first

    async def recall(self, receipt: SendReceipt) -> None:
        """Take a delayed message back before it is delivered.

        That the server agrees does not prove that the message was still there (live-lessons.md, 12). Raises UsageError
        for a receipt without recall handle: only delayed messages have one, on servers that allow it."""
        session = self._session
        session.check_running()
        if not receipt.recall_handle:
            raise UsageError(
                f"message {receipt.message_id} cannot be recalled: its receipt has no recall handle, "
                "because it was not delayed or the server does not offer it",
                topic=receipt.topic,
            )
        request = pb.RecallMessageRequest(
            topic=session.resource(receipt.topic), recall_handle=receipt.recall_handle
        )
        operation = session.next_operation()
        self._recall_event(receipt, operation, Phase.INVOKE)
        try:
            await session.call(session.access, RECALL, request, topic=receipt.topic)
        except RocketMQError as error:
            phase = Phase.INFO if error.may_have_taken_effect else Phase.FAIL
            self._recall_event(receipt, operation, phase, error)
            raise
        except BaseException:
            self._recall_event(receipt, operation, Phase.INFO)
            raise
        self._recall_event(receipt, operation, Phase.OK)

    # One send: the first try stands by itself, because nearly every send ends with it.

    async def _perform(self, message: Message) -> SendReceipt:
        session = self._session
        session.check_running()
        topic = message.topic
        route = session.routes.cached.get(topic)
        if route is None:
            route = await session.route(topic)
            await self._declare(topic)
        kind = message.message_type
        self._check(message, kind, route)
        turn = 0
        chosen: RouteQueue | None
        if message.message_group is not None:
            chosen = self._queues.of_message_group(route, message.message_group)
        else:
            first = self._queues.first(route, session.isolated)
            chosen, turn = first if first is not None else (None, 0)
        if chosen is None:
            raise PermissionDenied(
                f"topic {topic!r} has no writable queue; check its permission and that its brokers run",
                endpoint=str(session.access),
                topic=topic,
            )
        sending = Sending(session, message, kind, process_message_ids().next(session.surroundings.wall()))
        try:
            return await sending.attempt(chosen)
        except RocketMQError as error:
            return await self._try_again(sending, route, chosen, turn, error)

    async def _try_again(
        self, sending: Sending, route: Route, chosen: RouteQueue, turn: int, error: RocketMQError
    ) -> SendReceipt:
        """Carry out the retries that `_core/retries.py` decides on, after the first try has failed with `error`."""
        session = self._session
        failed: RocketMQError | None = error
        until = None if self._retry.total is None else sending.begun + self._retry.total

        async def attempt() -> SendReceipt:
            nonlocal chosen, failed
            if failed is not None:
                earlier, failed = failed, None
                raise earlier
            if sending.message.message_group is None:
                candidates = self._queues.candidates(route, turn, self._retry.attempts, session.isolated)
                chosen = candidates[sending.attempts % len(candidates)]
            return await sending.attempt(chosen)

        def delay_after(error: RocketMQError) -> float | None:
            if error.may_retry:
                session.isolated.add(chosen.endpoint)
            delay = send_delay(
                attempt=sending.attempts,
                may_retry=error.may_retry,
                throttled=isinstance(error, Busy),
                unreachable=isinstance(error, Unreachable),
                backoff=replace(session.settings.backoff, max_attempts=self._retry.attempts),
                random=session.surroundings.random,
            )
            if delay is None or (until is not None and loop_time() + delay >= until):
                return None
            logger.info(
                "send %d of message %s failed, trying again: %s",
                sending.attempts,
                sending.message_id,
                error,
                extra=session.log_facts(),
            )
            return delay

        return await retried(attempt, delay_after)

    def _check(self, message: Message, kind: MessageType, route: Route) -> None:
        """Refuse what the server's settings say it would refuse, before it travels."""
        settings = self._session.settings
        if len(message.body) > settings.max_body:
            raise MessageTooLarge(
                f"the body of {len(message.body)} bytes for topic {message.topic!r} is over the server's limit of "
                f"{settings.max_body} bytes; send less, or raise the server's limit",
                code=Code.MESSAGE_BODY_TOO_LARGE,
                topic=message.topic,
            )
        accepts = route.accepts
        if accepts and settings.validate_message_type and kind.value not in accepts:
            raise TypeMismatch(
                f"topic {message.topic!r} takes {' or '.join(sorted(accepts))} messages, not {kind.value}; "
                "send to a topic of the right type",
                code=Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                endpoint=str(self._session.access),
                topic=message.topic,
            )

    async def _declare(self, topic: str) -> None:
        """Tell the servers of a topic that was not declared, because they look producers up by topic."""
        declaration = self._session.declaration
        if topic not in declaration.topics:
            self._session.declaration = replace(declaration, topics=(*declaration.topics, topic))
            await self._session.write_settings()

    def _recall_event(
        self, receipt: SendReceipt, operation: str, phase: Phase, error: RocketMQError | None = None
    ) -> None:
        session = self._session
        if session.observers:
            session.emit(
                RecallEvent(
                    client=session.identity,
                    phase=phase,
                    operation=operation,
                    error=error,
                    topic=receipt.topic,
                    message_id=receipt.message_id,
                )
            )
