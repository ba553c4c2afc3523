"""Tells what happens to every message: deliveries, handlers, acknowledgements and sends.

Hooks get an event for each. A tap, which is what a `Recorder` is, gets the same facts without the events, whole answers
and batches at a time, and messages by numbers: an event costs as much as ten such facts. All other facts are events for
everybody (`Telling.event`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from aiorocketmq._core.lease import Lease
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import (
    AckEvent,
    ClientIdentity,
    DeliverEvent,
    Event,
    HandleEvent,
    Hook,
    Phase,
    SendEvent,
)
from aiorocketmq.message import Message, ReceivedMessage, SendReceipt
from aiorocketmq.subscription import Sql, Tags

KNOWN = 16_384
"""Of how many of the latest messages of the process a tap remembers the numbers; a power of two."""
_HALF = KNOWN // 2
"""What they are counted on to remember: facts of several threads may change places meanwhile."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the messages of one answer have in common."""

    operation: str | None
    """The poll's, where that is told, too."""
    broker: str
    wanted: Tags | Sql | None
    is_leased: bool = False
    invisible: float | None = None
    auto_renew: bool = False
    attempt_id: str | None = None
    server_us: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """One try to send one message; the same object at its call and at its end."""

    operation: int
    message: Message
    message_id: str
    attempt: int
    due_us: int | None = None
    is_half: bool = False


AckEntry: TypeAlias = tuple[int, int, "str | None"]
"""A message's number, its attempt, and the handle that is used, where that is not the one it came with."""


class Acking:
    """A call that acknowledges, from its beginning to its end."""

    __slots__ = ("batch", "entries", "first")

    def __init__(
        self,
        first: int,
        batch: Sequence[tuple[int, ReceivedMessage, Lease, str]],
        entries: Sequence[AckEntry],
    ) -> None:
        self.first = first
        """The number of its first message's operation; those of the others follow."""
        self.batch = batch
        """Each message, with its lease and the handle that is used."""
        self.entries = entries
        """The same for taps."""


AckEnd: TypeAlias = "tuple[Phase, RocketMQError | None]"
"""What became of one message of the call."""


class Tap(Protocol):
    """Takes frequent facts down. Messages are told by their number: first when they are delivered, or `introduced`."""

    def introduced(self, client: ClientIdentity, serial: int, message: ReceivedMessage) -> None:
        """A message that was not delivered lately has this number from now on."""

    def delivered(
        self, client: ClientIdentity, answer: Answer, first: int, messages: Sequence[ReceivedMessage]
    ) -> None:
        """Messages arrived; they have the numbers from `first` on, and still hold what came by the wire."""

    def handling(self, client: ClientIdentity, operation: int, serial: int, attempt: int) -> None:
        """A handler starts."""

    def handled(
        self, client: ClientIdentity, operation: int, serial: int, attempt: int, is_success: bool
    ) -> None:
        """It has ended."""

    def acking(self, client: ClientIdentity, acking: Acking) -> None:
        """Messages are to be acknowledged, in one call."""

    def acked(self, client: ClientIdentity, acking: Acking, ends: Sequence[AckEnd] | None) -> None:
        """The call has ended; None where it took effect for all of them."""

    def sending(self, client: ClientIdentity, sent: Sent) -> None:
        """A message is to be sent."""

    def sent(
        self,
        client: ClientIdentity,
        sent: Sent,
        phase: Phase,
        error: RocketMQError | None,
        receipt: SendReceipt | None,
    ) -> None:
        """The call has ended."""


@runtime_checkable
class Tapping(Protocol):
    """A hook that may have a tap instead of frequent events."""

    def _tap(self) -> Tap | None: ...


class Telling:
    """Who watches one client, and the telling. What a hook raises is logged: it cannot undo a fact."""

    def __init__(self, hooks: Sequence[Hook], client: ClientIdentity) -> None:
        self.client = client
        """Whose facts they are; it has its name when it is started."""
        watching = [hook for hook in hooks if type(hook).observe is not Hook.observe]
        self._observers = tuple(hook.observe for hook in watching)
        taps = [hook._tap() if isinstance(hook, Tapping) else None for hook in watching]
        self._watchers = tuple(hook.observe for hook, tap in zip(watching, taps, strict=True) if tap is None)
        self._taps = tuple(tap for tap in taps if tap is not None)
        self.is_watched = bool(watching)
        self.keeps_wire = bool(self._taps)
        """Whether messages are to hold what came by the wire until they are told as delivered."""

    def event(self, event: Event) -> None:
        """Show an event to everybody; not for facts that have a method here."""
        _show(self._observers, event)

    def delivered(self, messages: Sequence[ReceivedMessage], answer: Answer) -> None:
        """Messages arrived, before any handler sees them."""
        if self._taps:
            first = _serials(len(messages))
            for serial, message in enumerate(messages, first):
                message._serial = serial
            _each(self._taps, lambda tap: tap.delivered(self.client, answer, first, messages))
            for message in messages:
                message._wire = None
        if self._watchers:
            for position, message in enumerate(messages):
                _show(self._watchers, self._deliver(message, position, answer))

    def handling(self, message: ReceivedMessage, operation: int, attempt: int) -> None:
        """A handler starts."""
        if self._taps:
            serial = message._serial
            if serial <= _latest - _HALF:
                serial = self._introduce(message)
            for tap in self._taps:
                try:
                    tap.handling(self.client, operation, serial, attempt)
                except Exception:
                    _log_failure("the start of a handler")
        if self._watchers:
            event = HandleEvent(
                client=self.client,
                phase=Phase.INVOKE,
                operation=f"{operation}",
                message=message,
                attempt=attempt,
            )
            _show(self._watchers, event)

    def handled(
        self, message: ReceivedMessage, operation: int, attempt: int, raised: BaseException | None
    ) -> None:
        """A handler has ended."""
        if self._taps:
            serial = message._serial
            if serial <= _latest - _HALF:
                serial = self._introduce(message)
            for tap in self._taps:
                try:
                    tap.handled(self.client, operation, serial, attempt, raised is None)
                except Exception:
                    _log_failure("the end of a handler")
        if self._watchers:
            event = HandleEvent(
                client=self.client,
                phase=Phase.OK if raised is None else Phase.FAIL,
                operation=f"{operation}",
                message=message,
                raised=raised,
                attempt=attempt,
            )
            _show(self._watchers, event)

    def acking(self, first: int, batch: Sequence[tuple[int, ReceivedMessage, Lease, str]]) -> Acking:
        """Messages are to be acknowledged, in one call; their operations have the numbers from `first` on."""
        entries: Sequence[AckEntry] = ()
        if self._taps:
            horizon = _latest - _HALF
            entries = [
                (
                    message._serial if message._serial > horizon else self._introduce(message),
                    message.attempt,
                    None if handle is lease.first_handle else handle,
                )
                for _, message, lease, handle in batch
            ]
        acking = Acking(first, batch, entries)
        if self._taps:
            _each(self._taps, lambda tap: tap.acking(self.client, acking))
        if self._watchers:
            for place in range(len(batch)):
                _show(self._watchers, self._ack(acking, place, Phase.INVOKE, None))
        return acking

    def acked(self, acking: Acking, ends: Sequence[AckEnd] | None) -> None:
        """The call has ended; None where it took effect for all of them."""
        if self._taps:
            _each(self._taps, lambda tap: tap.acked(self.client, acking, ends))
        if self._watchers:
            for place in range(len(acking.batch)):
                phase, error = (Phase.OK, None) if ends is None else ends[place]
                _show(self._watchers, self._ack(acking, place, phase, error))

    def sending(self, sent: Sent) -> None:
        """A message is to be sent."""
        if self._taps:
            _each(self._taps, lambda tap: tap.sending(self.client, sent))
        if self._watchers:
            _show(self._watchers, self._send(sent, Phase.INVOKE, None, None))

    def sent(
        self,
        sent: Sent,
        phase: Phase,
        *,
        error: RocketMQError | None = None,
        receipt: SendReceipt | None = None,
    ) -> None:
        """The call has ended."""
        if self._taps:
            _each(self._taps, lambda tap: tap.sent(self.client, sent, phase, error, receipt))
        if self._watchers:
            _show(self._watchers, self._send(sent, phase, error, receipt))

    def _introduce(self, message: ReceivedMessage) -> int:
        """Give a message that taps do not know (any more) a new number."""
        serial = message._serial = _serials(1)
        _each(self._taps, lambda tap: tap.introduced(self.client, serial, message))
        return serial

    def _deliver(self, message: ReceivedMessage, position: int, answer: Answer) -> DeliverEvent:
        return DeliverEvent(
            client=self.client,
            operation=answer.operation,
            message=message,
            handle=message.receipt_handle or "",
            position=position,
            invisible=answer.invisible,
            auto_renew=answer.auto_renew,
            attempt_id=answer.attempt_id,
            filter=answer.wanted,
            server_deliver_us=answer.server_us,
            attempt=message.attempt,
        )

    def _ack(self, acking: Acking, place: int, phase: Phase, error: RocketMQError | None) -> AckEvent:
        _, message, lease, handle = acking.batch[place]
        return AckEvent(
            client=self.client,
            phase=phase,
            operation=f"{acking.first + place}",
            error=error,
            message=message,
            attempt=message.attempt,
            delivery=lease.first_handle,
            handle=handle,
        )

    def _send(
        self, sent: Sent, phase: Phase, error: RocketMQError | None, receipt: SendReceipt | None
    ) -> SendEvent:
        return SendEvent(
            client=self.client,
            phase=phase,
            operation=f"{sent.operation}",
            error=error,
            message=sent.message,
            message_id=sent.message_id,
            attempt=sent.attempt,
            due_us=sent.due_us,
            is_half=sent.is_half,
            receipt=receipt,
        )


_lock = threading.Lock()
_latest = KNOWN
"""The last number given to a message; numbers are those of a process, as recorders may serve clients of many threads.
Beginning here, number 0 is one that is not known any more."""


def _serials(count: int) -> int:
    """The first of so many numbers that follow one another."""
    global _latest  # noqa: PLW0603  # one sequence for all clients, under its lock
    with _lock:
        first = _latest + 1
        _latest += count
    return first


def _each(taps: Sequence[Tap], tell: Callable[[Tap], None]) -> None:
    for tap in taps:
        try:
            tell(tap)
        except Exception:  # as for events
            _log_failure("what happened to messages")


def _show(observers: Sequence[Callable[[Event], None]], event: Event) -> None:
    for observe in observers:
        try:
            observe(event)
        except Exception:  # a hook is foreign code, and a fact cannot be undone by it
            _log_failure(type(event).__name__)


def _log_failure(what: str) -> None:
    logger.exception("a hook failed to observe %s", what)
