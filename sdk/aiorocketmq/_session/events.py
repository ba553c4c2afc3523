"""Emits events of deliveries, handlers, acknowledgements and sends to the hooks of a client.

Hooks get one event object for each step. A tap, as a `Recorder` has one, gets the same information without event
objects, for whole answers and batches at a time, with messages referenced by serial numbers: an event object costs as
much as ten such calls. All other events go to all hooks (`Emitter.event`)."""

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
"""How many recent messages of the process a tap remembers by their serial numbers; a power of two."""
_HALF = KNOWN // 2
"""How many of them it may rely on: calls of several threads may change places meanwhile."""

logger = logging.getLogger("aiorocketmq.hooks")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the messages of one answer have in common."""

    operation: str | None
    """The operation of the poll, if events of polls are emitted as well."""
    broker: str
    filter: Tags | Sql | None
    is_leased: bool = False
    invisible: float | None = None
    auto_renew: bool = False
    attempt_id: str | None = None
    server_us: int | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """One attempt to send one message; the same object at its begin and its end."""

    operation: int
    message: Message
    message_id: str
    attempt: int
    due_us: int | None = None
    is_half: bool = False


AckEntry: TypeAlias = tuple[int, int, "str | None"]
"""A message's serial number, its attempt, and the handle in use if that is not the first one of the delivery."""


class Acking:
    """A call that acknowledges messages, from its begin to its end."""

    __slots__ = ("batch", "entries", "first")

    def __init__(
        self,
        first: int,
        batch: Sequence[tuple[int, ReceivedMessage, Lease, str]],
        entries: Sequence[AckEntry],
    ) -> None:
        self.first = first
        """The operation number of its first message; those of the others follow."""
        self.batch = batch
        """Each message, with its lease and the handle in use."""
        self.entries = entries
        """The same for taps."""


AckEnd: TypeAlias = "tuple[Phase, RocketMQError | None]"
"""The outcome of one message of the call."""


class Tap(Protocol):
    """Receiver of high-frequency events; messages are referenced by serial number, which `delivered` or `introduced`
    assign."""

    def introduced(self, client: ClientIdentity, serial: int, message: ReceivedMessage) -> None:
        """Assign this number to a message that was not delivered recently."""

    def delivered(
        self, client: ClientIdentity, answer: Answer, first: int, messages: Sequence[ReceivedMessage]
    ) -> None:
        """Messages were received; their numbers count from `first`, and they still have their wire messages."""

    def handling(self, client: ClientIdentity, operation: int, serial: int, attempt: int) -> None:
        """A handler starts."""

    def handled(
        self, client: ClientIdentity, operation: int, serial: int, attempt: int, is_success: bool
    ) -> None:
        """A handler has returned or raised."""

    def acking(self, client: ClientIdentity, acking: Acking) -> None:
        """A call that acknowledges messages begins."""

    def acked(self, client: ClientIdentity, acking: Acking, ends: Sequence[AckEnd] | None) -> None:
        """The call has completed; None if it succeeded for all messages."""

    def sending(self, client: ClientIdentity, sent: Sent) -> None:
        """An attempt to send a message begins."""

    def sent(
        self,
        client: ClientIdentity,
        sent: Sent,
        phase: Phase,
        error: RocketMQError | None,
        receipt: SendReceipt | None,
    ) -> None:
        """The attempt has completed."""


@runtime_checkable
class Tapping(Protocol):
    """A hook that has a tap for high-frequency events."""

    def _tap(self) -> Tap | None: ...


class Emitter:
    """The hooks of one client, and methods that emit its events to them. Exceptions of hooks are logged and ignored."""

    def __init__(self, hooks: Sequence[Hook], client: ClientIdentity) -> None:
        self.client = client
        """The identity of the client, which gets its id when it starts."""
        watching = [hook for hook in hooks if type(hook).observe is not Hook.observe]
        self._observers = tuple(hook.observe for hook in watching)
        taps = [hook._tap() if isinstance(hook, Tapping) else None for hook in watching]
        self._watchers = tuple(hook.observe for hook, tap in zip(watching, taps, strict=True) if tap is None)
        self._taps = tuple(tap for tap in taps if tap is not None)
        self.is_watched = bool(watching)
        self.keeps_wire = bool(self._taps)
        """Whether received messages must keep their wire messages until their delivery has been emitted."""

    def event(self, event: Event) -> None:
        """Emit an event for which there is no other method here."""
        _show(self._observers, event)

    def delivered(self, messages: Sequence[ReceivedMessage], answer: Answer) -> None:
        """Messages were received; no handler has been called yet."""
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
        """A handler has returned or raised."""
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
        """A call that acknowledges messages begins; their operation numbers count from `first`."""
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
        """The call has completed; None if it succeeded for all messages."""
        if self._taps:
            _each(self._taps, lambda tap: tap.acked(self.client, acking, ends))
        if self._watchers:
            for place in range(len(acking.batch)):
                phase, error = (Phase.OK, None) if ends is None else ends[place]
                _show(self._watchers, self._ack(acking, place, phase, error))

    def sending(self, sent: Sent) -> None:
        """An attempt to send a message begins."""
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
        """The attempt has completed."""
        if self._taps:
            _each(self._taps, lambda tap: tap.sent(self.client, sent, phase, error, receipt))
        if self._watchers:
            _show(self._watchers, self._send(sent, phase, error, receipt))

    def _introduce(self, message: ReceivedMessage) -> int:
        """Assign a new number to a message whose number taps no longer remember."""
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
            filter=answer.filter,
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
"""The last serial number assigned; numbers are unique in the process, as recorders may serve clients of many threads.
Starting here, number 0 is one that is no longer remembered."""


def _serials(count: int) -> int:
    """Reserve `count` consecutive numbers and return the first."""
    global _latest  # noqa: PLW0603  # one sequence for all clients, under its lock
    with _lock:
        first = _latest + 1
        _latest += count
    return first


def _each(taps: Sequence[Tap], emit: Callable[[Tap], None]) -> None:
    for tap in taps:
        try:
            emit(tap)
        except Exception:  # as for events
            _log_failure("what happened to messages")


def _show(observers: Sequence[Callable[[Event], None]], event: Event) -> None:
    for observe in observers:
        try:
            observe(event)
        except Exception:  # of a hook: it must not affect the operation that the event is about
            _log_failure(type(event).__name__)


def _log_failure(what: str) -> None:
    logger.exception("a hook failed to observe %s", what)
