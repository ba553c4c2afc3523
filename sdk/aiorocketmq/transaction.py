"""Transactions: a message that is delivered when the block that belongs to it succeeds, and only then."""

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

logger = logging.getLogger(__name__)


class Transaction:
    """One message and the work that it tells of; made by `Producer.transaction`.

        async with producer.transaction(Message("orders-tx", b"...")) as tx:
            await db.execute(...)

    Entering sends the half message, which nobody sees yet; it raises what a send raises, and the block does not run
    then. Leaving commits: the message is delivered. An exception rolls back and goes on to the caller: the message is
    dropped. After `leave_unknown()`, and when the block is cancelled, nothing is decided, because nobody knows how far
    the work came: the server asks the producer's transaction checker, as it does when a process dies.

    The end is sent once and never repeated. Where it is not confirmed, a commit raises TransactionUnconfirmedError and
    a rollback is logged; the decision stays, and the server, which asks later, is told the same again. While the block
    runs, questions of the server are not answered; Apache's servers ask 15 times, every 30 seconds, and want the end
    within 30 seconds of the half message or of their last question."""

    def __init__(self, transactions: Transactions, message: Message, check_after: float | None) -> None:
        self.message = message
        self._transactions = transactions
        self._check_after = check_after
        self._half: Half | None = None
        self._receipt: SendReceipt | None = None
        self._is_unknown = False

    @property
    def receipt(self) -> SendReceipt:
        """The receipt of the half message; its offset is a place in a topic of the server's own."""
        if self._receipt is None:
            raise UsageError("the transaction has no receipt before its block", topic=self.message.topic)
        return self._receipt

    def leave_unknown(self) -> None:
        """Let leaving the block decide nothing: the server asks the checker, from some seconds later on."""
        self._is_unknown = True

    async def __aenter__(self) -> Self:
        if self._half is not None:
            raise UsageError(
                "a transaction was entered twice; begin another one with producer.transaction(...)",
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
                logger.warning("%s", unconfirmed)
