"""The producer: sends messages with retries, recalls delayed ones, begins transactions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._produce.batcher import Batcher
from aiorocketmq._produce.interface import EndCall, SendCalls
from aiorocketmq._produce.many_sends import ManySends
from aiorocketmq._produce.sender import Sender
from aiorocketmq._produce.transactions import TransactionChecker, Transactions
from aiorocketmq._produce.wires import grpc, remoting
from aiorocketmq.config import Compression, Retry, check_count, check_seconds
from aiorocketmq.connection import Connection, ConnectionOptions, is_remoting
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.health import Health
from aiorocketmq.hooks import Hook, RecallEvent, SendCall, around_send
from aiorocketmq.many import SendManyError
from aiorocketmq.message import Message, MessageType, ReceivedMessage, SendReceipt
from aiorocketmq.transaction import Transaction

__all__ = ["MAX_LINGER", "Producer"]


logger = logging.getLogger("aiorocketmq.producer")

MAX_LINGER = 1.0
"""Seconds; a longer `linger` is most likely a mistake in the unit."""


class Producer:
    """Sends messages to any topics.

        async with Producer("localhost:8081") as producer:
            receipt = await producer.send(Message("orders", b"..."))

    The first parameter is an endpoint or a `Connection`; with an endpoint the producer owns its connection, and accepts
    the connection's settings (`credentials`, `tls`, `namespace`, `address_map`, `timeouts` …) by keyword. `topics` are
    looked up at the start, so that a missing one is an error at once; other topics are looked up at their first send.
    `hooks` wrap every send, the first one outermost. `transaction_checker` is a coroutine function that resolves a
    server's check of a transaction, see `transaction`; declare the topics with it, since servers check with any
    producer of the topic, also for transactions of processes that have died. At `namesrv://` addresses they check with
    producers of the same `group`, which is required with a checker and not allowed at gRPC addresses.

    `compression` compresses large bodies; by default they are sent as they are.

    `retry` bounds how long a send is retried if its server is unavailable, throttles, or fails temporarily: 15 seconds
    by default, see `Retry`.

    At most `max_in_flight` requests (at least 1) are in flight at a time; further sends wait for a slot, as long as
    `retry` allows.

    `linger` lets a message wait up to that many seconds (0 to 1; 0 means one turn of the event loop) for others of its
    topic that are sent concurrently, and sends them in one request: up to `max_batch` messages or 1 MiB. That takes a
    fraction of the CPU of single requests on both sides. Only plain messages are batched: ordered, delayed,
    prioritised, lite and transactional ones are always sent alone, because a batch would break their guarantees.
    Servers up to 5.3.3 corrupt batches: id, tag, keys and properties of the first message overwrite those of the
    others. So `linger` is off by default: use it if your servers are 5.4 or later, or if consumers read nothing but the
    body. The messages of a batch are stored consecutively in one queue; each receipt has the message's own id, and
    offsets count from that of the first one. A refused message does not affect the others; a cancelled send is in no
    later attempt of its batch.

    Entering returns when a server has answered, or raises RocketMQError within `timeouts.start`; leaving sends
    lingering messages and closes everything. Arguments are checked at once: ValueError or TypeError."""

    def __init__(
        self,
        endpoint: str | Connection,
        *,
        topics: Iterable[str] = (),
        group: str | None = None,
        retry: Retry | None = None,
        hooks: Sequence[Hook] = (),
        transaction_checker: TransactionChecker | None = None,
        compression: Compression | None = None,
        linger: float | None = None,
        max_batch: int = 32,
        max_in_flight: int = 1024,
        **options: Unpack[ConnectionOptions],
    ) -> None:
        if isinstance(topics, str):
            raise TypeError(f"topics must be a list of topics; write [{topics!r}]")
        names = tuple(dict.fromkeys(topics))
        for topic in names:
            check_topic(topic)
        if transaction_checker is not None and not callable(transaction_checker):
            raise TypeError(f"transaction_checker must be a coroutine function, not {transaction_checker!r}")
        if linger is not None and not 0 <= linger <= MAX_LINGER:
            raise ValueError(f"linger must be 0 to {MAX_LINGER:g} seconds or None, not {linger!r}")
        if group is not None:
            check_group(group)
        check_count("max_batch", max_batch)
        check_count("max_in_flight", max_in_flight)
        retry = retry or Retry()
        self._calls: SendCalls
        if is_remoting(endpoint):
            if transaction_checker is not None and group is None:
                raise ValueError(
                    "transactions over the remoting protocol need group=: servers check them with any producer of "
                    "the same group"
                )
            self._calls = remoting(endpoint, names, group=group, hooks=hooks, options=options)
        elif group is not None:
            raise ValueError(
                "group is for name servers ('namesrv://…') only, gRPC has no producer groups: leave it out"
            )
        else:
            self._calls = grpc(endpoint, names, retry=retry, hooks=hooks, options=options)
        self._calls.on_check = self._on_check
        self._session = self._calls.client
        self._sender = Sender(self._calls, retry, max_in_flight, compression)
        self._batcher: Batcher | None = None
        self._max_batch = max_batch
        if linger is not None:
            self._batcher = Batcher(self._session, self._sender, linger=linger, max_batch=max_batch)
        innermost: SendCall = self._sender.send if self._batcher is None else self._batcher.send
        self._send = around_send(self._session.hooks, innermost)
        self._has_send_hooks = self._send is not innermost
        self._transactions: Transactions | None = None
        if transaction_checker is not None:
            self._transactions = Transactions(self._session, self._sender, transaction_checker)

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
        try:
            if self._batcher is not None and self._session.is_running:
                await self._batcher.close(self._session.timeouts.stop)
        finally:
            try:
                await self._session.stop()
            finally:
                self._sender.close()

    def health(self) -> Health:
        """Return the current state of this client; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can work: it is running, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def send(self, message: Message, *, timeout: float | None = None) -> SendReceipt:
        """Send one message and return the server's receipt.

        `timeout` (above 0) bounds the whole call in seconds, with all attempts and the wait for a slot; by default
        `retry` and `timeouts.request` do. When it expires, UnreachableError is raised.

        Transient failures are retried within `retry.budget`, at another broker if there are several, and with the same
        message id, so that consumers can recognise a message that was stored twice. Messages of one message group are
        stored in the order of the calls, also of concurrent ones: each waits until the previous one is stored or has
        failed.

        Raises TopicNotFoundError, TypeMismatchError, MessageTooLargeError, PermissionDeniedError … if the server
        refuses, ClosedError outside of `async with`. After the budget: BusyError if the server throttles, ServerError
        if it fails, UnreachableError if it cannot be reached, does not answer in time, or if no slot became free
        (`timed_out`). If an error's `may_have_taken_effect` is true, or the call is cancelled, the message may or may
        not be stored, by any of its attempts."""
        if timeout is None:
            return await self._send(message)
        check_seconds("timeout", timeout)
        within = self._sender.send_within if self._batcher is None else self._batcher.send_within

        async def send(message: Message) -> SendReceipt:
            return await within(message, timeout)

        return await around_send(self._session.hooks, send)(message)

    async def send_many(
        self, messages: Iterable[Message], *, max_in_flight: int = 64
    ) -> tuple[SendReceipt, ...]:
        """Send many messages, `max_in_flight` requests (at least 1) at a time; return the receipts in the same order.

        Messages of one message group are sent one after the other, which keeps their order. With `linger`, plain
        messages of one topic are sent in batches, without lingering. `retry` applies to each message; if none has been
        stored for `retry.budget` seconds, those that were not attempted yet fail without an attempt. If some fail,
        raises SendManyError with an outcome for each message. If the call is cancelled, messages in flight may or may
        not be stored, and the others are not sent."""
        batch = tuple(messages)
        check_count("max_in_flight", max_in_flight)
        # Hooks observe every send, so with hooks around them messages are batched by their own sends.
        max_batch = None if self._batcher is None or self._has_send_hooks else self._max_batch
        outcomes = await ManySends(batch, self._send, self._sender, max_batch).run(max_in_flight)
        receipts = tuple(outcome for outcome in outcomes if isinstance(outcome, SendReceipt))
        if len(receipts) == len(batch):
            return receipts
        first = next(outcome for outcome in outcomes if isinstance(outcome, RocketMQError))
        raise SendManyError(
            f"{len(batch) - len(receipts)} of {len(batch)} messages were not stored, the first because {first.text}",
            outcomes=outcomes,
        ) from first

    async def recall(self, receipt: SendReceipt) -> None:
        """Recall a delayed message before it is delivered.

        Success does not prove that the message was not delivered before. Raises UsageError for a
        receipt without recall handle: only delayed messages have one, on servers that support it; further RefusedError,
        UnreachableError, and ClosedError outside of `async with`. Cancelled or unanswered, it may or may not have taken
        effect, and may be repeated."""
        client = self._session
        client.check_running()
        if not receipt.recall_handle:
            raise UsageError(
                f"message {receipt.message_id} cannot be recalled: its receipt has no recall handle, "
                "because it was not delayed or the server does not offer it",
                topic=receipt.topic,
            )
        event = RecallEvent(client=client.emitter.client, topic=receipt.topic, message_id=receipt.message_id)
        with client.observed(event):
            await self._calls.recall(receipt)

    def transaction(self, message: Message, *, check_after: float | None = None) -> Transaction:
        """Return a transaction: `async with producer.transaction(message):` commits if its block succeeds.

        Nothing is sent before its block is entered. `message` must be a plain one, without message group, delay,
        priority or lite topic, for a topic of type TRANSACTION; ValueError otherwise. `check_after` (1 to 3,600 whole
        seconds) is the time until the server first checks an open transaction; by default the server's own (Apache: 6
        seconds). Choose it longer than the block takes: a later commit may be ignored until the server has checked
        (R9.3). Raises UsageError if the producer has no `transaction_checker`, without which a lost commit would lose
        the message."""
        if self._transactions is None:
            raise UsageError(
                "transactions need a checker, which resolves the checks of servers; "
                "give the Producer transaction_checker=",
                topic=message.topic,
            )
        if message.message_type is not MessageType.NORMAL:
            raise ValueError(
                f"a {message.message_type.value} message cannot be transactional; leave message_group, delay, "
                "deliver_at, priority and lite_topic out"
            )
        if check_after is not None and not (1 <= check_after <= 3600 and check_after == int(check_after)):
            raise ValueError(f"check_after must be whole seconds from 1 to 3600, not {check_after!r}")
        return Transaction(self._transactions, message, check_after)

    async def _on_check(
        self, server: str, message: ReceivedMessage, transaction_id: str, end: EndCall
    ) -> None:
        """A server checks a transaction, of this producer or of one that has died."""
        if self._transactions is None:
            logger.warning(
                "%s checks a transaction, but this producer has no transaction_checker; another producer of the "
                "topic, or this one with a checker, must answer",
                server,
                extra=self._session.log_fields(),
            )
            return
        await self._transactions.on_check(server, message, transaction_id, end)
