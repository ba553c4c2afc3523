"""Transactions: a message that is delivered if, and only if, a block of code succeeds."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from aiorocketmq._core.transactions import Resolution
from aiorocketmq._produce.interface import Half
from aiorocketmq._produce.transactions import TransactionChecker, Transactions
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.message import Message, SendReceipt

__all__ = ["Resolution", "Transaction", "TransactionChecker"]

logger = logging.getLogger("aiorocketmq.producer")


class Transaction:
    """A message and the local work that it announces; created by `Producer.transaction`.

        async with producer.transaction(Message("orders-tx", b"...")) as tx:
            await db.execute(...)

    Entering sends the half message, which is stored but invisible; if that fails, it raises what a send raises, and the
    block does not run. Leaving commits: the message is delivered. An exception rolls back and propagates: the message
    is dropped. After `leave_unknown()`, and if the block is cancelled, neither is sent, because the state of the work
    is unknown: the server calls the producer's transaction checker later, as it does if a process dies.

    Commit and rollback are sent once and never repeated. If the server does not confirm, a commit raises
    TransactionUnconfirmedError and a rollback is logged; the decision is remembered, and answers a later check of the
    server. While the block runs, checks are not answered; Apache's servers check 15 times, every 30 seconds, and accept
    the end within 30 seconds of the half message or of their last check. If leaving is cancelled, the call
    continues in the background."""

    def __init__(self, transactions: Transactions, message: Message, check_after: float | None) -> None:
        self.message = message
        self._transactions = transactions
        self._check_after = check_after
        self._half: Half | None = None
        self._receipt: SendReceipt | None = None
        self._is_unknown = False

    @property
    def receipt(self) -> SendReceipt:
        """The receipt of the half message; its offset is one in a system topic. UsageError before the block."""
        if self._receipt is None:
            raise UsageError("the transaction has no receipt before its block", topic=self.message.topic)
        return self._receipt

    def leave_unknown(self) -> None:
        """Send neither commit nor rollback on leaving: the server calls the transaction checker some seconds later.

        May be called more than once; an exception of the block then propagates without a rollback."""
        self._is_unknown = True

    async def __aenter__(self) -> Self:
        if self._half is not None:
            raise UsageError(
                "a transaction was entered twice; create another one with producer.transaction(...)",
                topic=self.message.topic,
            )
        half = self._half = self._transactions.new_half(self._check_after)
        try:
            self._receipt = await self._transactions.half_call(half)(self.message)
        except BaseException:
            self._transactions.abandoned(half)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        half = self._half
        assert half is not None  # it was entered
        if self._is_unknown or (error is not None and not isinstance(error, Exception)):
            self._transactions.left(half)
        elif error is None:
            await self._transactions.end(half, self.receipt, Resolution.COMMIT)
        else:
            try:
                await self._transactions.end(half, self.receipt, Resolution.ROLLBACK)
            except RocketMQError as unconfirmed:  # the block's own error is the one to see
                logger.warning("a rollback was not confirmed: %s", unconfirmed)
