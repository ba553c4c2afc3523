"""The producer: sends messages, tries again where that can help, takes delayed ones back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, Unpack

from aiorocketmq._core.names import check_group, check_topic
from aiorocketmq._produce.gathering import Gathering
from aiorocketmq._produce.interface import EndCall, SendCalls
from aiorocketmq._produce.many_sends import ManySends
from aiorocketmq._produce.sender import Sender
from aiorocketmq._produce.telling import told
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


logger = logging.getLogger(__name__)

MAX_LINGER = 1.0
"""Seconds; a send that waits longer is rather a mistake in the unit."""


class Producer:
    """Sends messages to any topics.

        async with Producer("localhost:8081") as producer:
            receipt = await producer.send(Message("orders", b"..."))

    The first parameter is an endpoint or a `Connection`; with an endpoint the producer owns its connection, and takes
    the connection's settings (`credentials`, `tls`, `namespace`, `address_map`, `timeouts` …) by keyword. `topics`
    are those to look up while starting, so that a missing one shows at once; any other topic is looked up at its first
    send. `hooks` wrap every send, the first one outermost. `transaction_checker` is a coroutine function that tells a
    server how a transaction ended, see `transaction`; declare the topics then, since servers ask any producer of the
    topic, also about transactions of processes that are gone.

    `compression` packs large bodies; they are sent as they are without it.

    `retry` bounds how long a send is tried when its server is unavailable, throttles, or fails for the moment: 15
    seconds by default, see `Retry`.

    At most `max_in_flight` requests are under way at a time; sends beyond that wait for a slot, as long as `retry`
    allows.

    `linger` lets messages wait up to so many seconds (0 to 1; 0 means one turn of the event loop) for others of their
    topic, sent concurrently, and travel with them in one request: up to `max_batch` messages or 1 MiB. That costs a
    fraction of the CPU of single requests on both sides. Only plain messages are gathered: ordered, delayed,
    prioritised, lite and transactional ones always travel alone, because a batch would break what they promise.
    Servers up to 5.3.3 garble batches: id, tag, keys and properties of the first message overwrite those of the
    others. So `linger` is off unless you ask for it: do so where your servers are 5.4 or later, or where consumers
    look at nothing but the body. The messages of a batch are stored one behind the other in one queue; their receipts
    hold their own ids, and offsets counted on from that of the first one. One that is refused does not harm the
    others; a cancelled send is in no later attempt of its batch.

    Entering returns when a server has answered, or raises within `timeouts.start`; leaving sends what still lingers and
    closes everything."""

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
                    "transactions over the remoting protocol need group=: servers ask any producer of the same group "
                    "how a transaction ended"
                )
            self._calls = remoting(endpoint, names, group=group, hooks=hooks, options=options)
        elif group is not None:
            raise ValueError(
                "group names producers to name servers ('namesrv://…') only, gRPC has no groups of producers: "
                "leave it out"
            )
        else:
            self._calls = grpc(endpoint, names, retry=retry, hooks=hooks, options=options)
        self._calls.on_check = self._on_check
        self._session = self._calls.client
        self._sender = Sender(self._calls, retry, max_in_flight, compression)
        self._gathering: Gathering | None = None
        self._max_batch = max_batch
        if linger is not None:
            self._gathering = Gathering(self._session, self._sender, linger=linger, max_batch=max_batch)
        innermost: SendCall = self._sender.send if self._gathering is None else self._gathering.send
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
            if self._gathering is not None and self._session.is_running:
                await self._gathering.close(self._session.timeouts.stop)
        finally:
            try:
                await self._session.stop()
            finally:
                self._sender.close()

    def health(self) -> Health:
        """The state of this client now; nothing is sent, and it may be called at any time."""
        return self._session.health()

    @property
    def is_ready(self) -> bool:
        """Whether it can do its work now: it is open, connected, has its settings, and has not failed."""
        return self._session.health().is_ready

    async def send(self, message: Message, *, timeout: float | None = None) -> SendReceipt:
        """Send one message and return the server's receipt.

        `timeout` bounds the whole call in seconds, all attempts and the wait for a slot included; None leaves it to
        `retry` and `timeouts.request`. When it expires, UnreachableError is raised.

        Failures that may pass are tried again within `retry.budget`, at another broker if there are several, and with
        the same message id, so that consumers can tell a message that was stored twice. Messages of one message group
        are stored in the order of the calls, also of concurrent ones: each waits until the one before it is stored or
        has failed.

        Raises TopicNotFoundError, TypeMismatchError, MessageTooLargeError, PermissionDeniedError … if the server
        refuses, ClosedError after the end. If the budget is spent: BusyError if the server throttles, ServerError if it
        fails, UnreachableError if it cannot be reached, does not answer in time, or if no slot became free
        (`timed_out`). An error whose `may_have_taken_effect` is true leaves open whether the message is stored, by any
        of its attempts; so does a cancellation."""
        if timeout is None:
            return await self._send(message)
        check_seconds("timeout", timeout)
        within = self._sender.send_within if self._gathering is None else self._gathering.send_within

        async def send(message: Message) -> SendReceipt:
            return await within(message, timeout)

        return await around_send(self._session.hooks, send)(message)

    async def send_many(
        self, messages: Iterable[Message], *, max_in_flight: int = 64
    ) -> tuple[SendReceipt, ...]:
        """Send many side by side, `max_in_flight` requests at a time, and return their receipts in the order given.

        Messages of one message group are sent one after the other, so that their order holds. With `linger`, plain
        messages of one topic travel in batches, without lingering. `retry` holds for each message; when none has been
        stored for `retry.budget` seconds, those whose turn has not come are given up without an attempt. If some fail,
        SendManyError carries an outcome for each. Cancelled, those on their way may or may not be stored."""
        wanted = tuple(messages)
        check_count("max_in_flight", max_in_flight)
        # Hooks see every send, so with hooks around them messages are gathered by their own sends.
        max_batch = None if self._gathering is None or self._has_send_hooks else self._max_batch
        many = ManySends(wanted, self._send, self._sender, max_batch)
        done = await many.run(max_in_flight)
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
        client = self._session
        client.check_running()
        if not receipt.recall_handle:
            raise UsageError(
                f"message {receipt.message_id} cannot be recalled: its receipt has no recall handle, "
                "because it was not delayed or the server does not offer it",
                topic=receipt.topic,
            )
        event = RecallEvent(client=client.telling.client, topic=receipt.topic, message_id=receipt.message_id)
        with told(client, event):
            await self._calls.recall(receipt)

    def transaction(self, message: Message, *, check_after: float | None = None) -> Transaction:
        """Begin a transaction: `async with producer.transaction(message):` commits when its block succeeds.

        `message` must be a plain one, without message group, delay, priority or lite topic, for a topic of type
        TRANSACTION. `check_after` (1 to 3,600 whole seconds) is how long the server waits before it first asks about
        an open transaction; None leaves it to the server (Apache: 6 seconds). Give more than the block takes: an end
        that comes later may be ignored until the server has asked (R9.3). Raises UsageError when the producer has no
        `transaction_checker`, without which an end that is lost would lose the message."""
        if self._transactions is None:
            raise UsageError(
                "transactions need a checker, which answers when a server asks how one ended; "
                "give the Producer transaction_checker=",
                topic=message.topic,
            )
        if message.message_type is not MessageType.NORMAL:
            raise ValueError(
                f"a {message.message_type.value} message cannot be transactional; leave message_group, delay, "
                "deliver_at, priority and lite_topic away"
            )
        if check_after is not None and not (1 <= check_after <= 3600 and check_after == int(check_after)):
            raise ValueError(f"check_after must be whole seconds from 1 to 3600, not {check_after!r}")
        return Transaction(self._transactions, message, check_after)

    async def _on_check(
        self, server: str, message: ReceivedMessage, transaction_id: str, end: EndCall
    ) -> None:
        """A server asks about a transaction, of this producer or of one that is gone."""
        if self._transactions is None:
            logger.warning(
                "%s asks about a transaction, but this producer has no transaction_checker; another producer of the "
                "topic, or this one with a checker, must answer",
                server,
                extra=self._session.log_facts(),
            )
            return
        await self._transactions.on_check(server, message, transaction_id, end)
