"""Errors of calls about many messages, which carry an outcome for each message."""

from __future__ import annotations

from aiorocketmq.errors import RocketMQError
from aiorocketmq.message import ReceivedMessage, SendReceipt

__all__ = ["AckManyError", "SendManyError"]


class SendManyError(RocketMQError):
    """Some of the messages of a `send_many` were not stored, or it is unknown whether they were.

    `may_retry` and `may_have_taken_effect` are true if they are for any of the errors."""

    def __init__(self, text: str, *, outcomes: tuple[SendReceipt | RocketMQError, ...]) -> None:
        super().__init__(text)
        self.outcomes = outcomes
        """One entry for each message, in the order of the call: its receipt or its error."""
        self.may_retry = any(isinstance(each, RocketMQError) and each.may_retry for each in outcomes)
        self.may_have_taken_effect = any(
            isinstance(each, RocketMQError) and each.may_have_taken_effect for each in outcomes
        )

    @property
    def receipts(self) -> tuple[SendReceipt, ...]:
        """The receipts of the messages that were stored, in the order of the call."""
        return tuple(each for each in self.outcomes if not isinstance(each, RocketMQError))

    @property
    def errors(self) -> tuple[RocketMQError, ...]:
        """The errors of the other messages, in the order of the call."""
        return tuple(each for each in self.outcomes if isinstance(each, RocketMQError))


class AckManyError(RocketMQError):
    """Some of the messages of an `ack` were not acknowledged, or it is unknown whether they were.

    `may_retry` and `may_have_taken_effect` are true if they are for any of the errors."""

    def __init__(
        self, text: str, *, outcomes: tuple[tuple[ReceivedMessage, RocketMQError | None], ...]
    ) -> None:
        super().__init__(text)
        self.outcomes = outcomes
        """One entry for each message, in the order of the call: the message and its error, None if acknowledged."""
        self.may_retry = any(error is not None and error.may_retry for _, error in outcomes)
        self.may_have_taken_effect = any(
            error is not None and error.may_have_taken_effect for _, error in outcomes
        )

    @property
    def failed(self) -> tuple[tuple[ReceivedMessage, RocketMQError], ...]:
        """The messages that were not acknowledged, each with its error."""
        return tuple((message, error) for message, error in self.outcomes if error is not None)
