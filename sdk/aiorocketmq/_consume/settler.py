"""Settles messages: ack, change and forward, the calls of one message one after the other (see `_core/lease.py`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from aiorocketmq._aio.limit import Limit
from aiorocketmq._core.codes import Code
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.lease import Lease, LeaseState, Outcome, Step, StepNotAllowedError, corrected_handle
from aiorocketmq._core.settings import LITE_PUSH, LITE_SIMPLE
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import ACK, CHANGE, FORWARD
from aiorocketmq._session.events import Acking
from aiorocketmq._session.session import Session
from aiorocketmq.errors import (
    LeaseLostError,
    MalformedAnswerError,
    RocketMQError,
    ServerError,
    UsageError,
    refusal,
)
from aiorocketmq.hooks import ChangeEvent, ChangeReason, ForwardEvent, Phase
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.wire import messages as pb

logger = logging.getLogger("aiorocketmq.consumer")

_Answer = TypeVar("_Answer")

LONGEST_LEASE = 43_200.0
"""Seconds; servers refuse more (live-broker-consumption.md, 2)."""
MAX_ENTRIES = 128
"""Acks in one call. Servers accept more, but process them one by one (64 take 20 ms, live-broker-consumption.md)."""
_TIMED_OUT_AT_SERVER = frozenset(
    {
        Code.REQUEST_TIMEOUT,
        Code.PROXY_TIMEOUT,
        Code.MASTER_PERSISTENCE_TIMEOUT,
        Code.SLAVE_PERSISTENCE_TIMEOUT,
    }
)
_ABANDON_SECONDS = 3.0
_OK = int(Code.OK)


class LeaseSettler:
    """Settles the messages of one consumer."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_lite = session.declaration.client_type in (LITE_PUSH, LITE_SIMPLE)

    async def ack(self, messages: Sequence[ReceivedMessage]) -> list[RocketMQError | None]:
        """Acknowledge many in one call per server and topic; return one outcome each, in the order of the call.

        Never raises for a single message. An acknowledged message counts as success. Waits for changes in flight, since
        an ack has to carry the newest handle."""
        for message in messages:
            lease = message._lease
            if lease is not None and lease.step is not None:
                await message._turn()
        outcomes: list[RocketMQError | None] = [None] * len(messages)
        batches: dict[tuple[Endpoint, str], list[tuple[int, ReceivedMessage, Lease, str]]] = {}
        identities: set[int] = set()
        source, topic = None, ""
        batch: list[tuple[int, ReceivedMessage, Lease, str]] = []
        for index, message in enumerate(messages):
            lease = _lease_of(message)
            if lease.state is LeaseState.SETTLED or id(message) in identities:
                continue
            identities.add(id(message))
            try:
                handle = lease.begin(Step.ACK)
            except StepNotAllowedError as reason:
                outcomes[index] = _not_allowed(message, reason)
                continue
            if (
                message._source is not source or message.topic != topic
            ):  # usually it is that of the previous one
                source, topic = _source_of(message), message.topic
                batch = batches.setdefault((source, topic), [])
            batch.append((index, message, lease, handle))
        calls = [
            self._ack_batch(endpoint, topic, batch[start : start + MAX_ENTRIES], outcomes)
            for (endpoint, topic), batch in batches.items()
            for start in range(0, len(batch), MAX_ENTRIES)
        ]
        if len(calls) == 1:
            await calls[0]
        elif calls:
            await asyncio.gather(*calls)
        return outcomes

    async def ack_one(self, message: ReceivedMessage) -> None:
        """Acknowledge one; raises its error."""
        error = (await self.ack((message,)))[0]
        if error is not None:
            raise error

    async def change(
        self,
        message: ReceivedMessage,
        seconds: float,
        *,
        reason: ChangeReason = ChangeReason.EXTEND,
    ) -> None:
        """Let the lease expire `seconds` from now; unless to extend it, the message counts as released afterwards."""
        if not 0 <= seconds <= LONGEST_LEASE:
            raise ValueError(f"a lease lasts from 0 to {LONGEST_LEASE:g} seconds, not {seconds!r}")
        await message._turn()
        lease = _lease_of(message)
        request = pb.ChangeInvisibleDurationRequest(
            group=self._session.group_resource,
            topic=self._session.resource(message.topic),
            receipt_handle=_begin(message, Step.CHANGE),
            invisible_duration=conversion.seconds_to_wire(seconds),
            message_id=message.message_id,
            lite_topic=self._lite_topic(message),
            suspend=reason is ChangeReason.SUSPEND or None,
        )
        lease.is_ending = lease.is_ending or reason is not ChangeReason.EXTEND
        event = partial(self._change_event, message, lease.handle, seconds, reason)
        begun = self._session.clock.time()
        wall = self._session.environment.wall()

        def ended(response: pb.ChangeInvisibleDurationResponse) -> None:
            lease.end(Outcome.OK, handle=corrected_handle(response.receipt_handle), ends_at=begun + seconds)
            message._lease_ends_us = int((wall + seconds) * 1_000_000)
            if reason is not ChangeReason.EXTEND:
                lease.release()

        await self._step(
            message,
            event,
            self._session.call(
                _source_of(message), CHANGE, request, topic=message.topic, group=message.group
            ),
            ended,
        )

    async def release(self, message: ReceivedMessage) -> None:
        """End the lease, so that the message is redelivered as soon as the server permits."""
        await self.change(message, 0.0, reason=ChangeReason.RETRY)

    async def forward(self, message: ReceivedMessage, *, max_attempts: int) -> None:
        """Move the message to the dead letters of its group, with the handle as first received (live-lessons.md, 3).

        In a normal group a message whose lease was changed is acked with its newest handle afterwards, because it would
        be redelivered for that one (live-broker-consumption.md, 5a)."""
        lease = _lease_of(message)
        if lease.state is not LeaseState.FORWARDED:
            try:
                await self._forward_once(message, max_attempts)
            except LeaseLostError:
                if not lease.is_open:
                    raise
                await self._forward_once(message, max_attempts)  # with the newest handle; see `Lease.end`
        if lease.state is LeaseState.FORWARDED and lease.changed and not self._session.in_order:
            error = (await self.ack((message,)))[0]
            if error is not None and not isinstance(error, LeaseLostError):
                raise error

    async def _forward_once(self, message: ReceivedMessage, max_attempts: int) -> None:
        await message._turn()
        lease = _lease_of(message)
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            group=self._session.group_resource,
            topic=self._session.resource(message.topic),
            receipt_handle=_begin(message, Step.FORWARD),
            message_id=message.message_id,
            delivery_attempt=message.attempt,
            max_delivery_attempts=max_attempts,
            lite_topic=self._lite_topic(message),
        )
        await self._step(
            message,
            partial(self._forward_event, message, request.receipt_handle),
            self._session.call(
                _source_of(message), FORWARD, request, topic=message.topic, group=message.group
            ),
            lambda _: lease.end(Outcome.OK),
        )

    async def abandon(self, message: ReceivedMessage) -> None:
        """Release the message after its handling failed; an error is logged, because another one propagates."""
        await self.abandon_all((message,))

    async def abandon_all(self, messages: Iterable[ReceivedMessage]) -> None:
        """Release all messages that are not settled, concurrently and within a few seconds; never raises."""
        with anyio.CancelScope(shield=True):
            async with Limit(_ABANDON_SECONDS):
                await asyncio.gather(
                    *(self._abandon(message) for message in messages if not message.is_settled)
                )

    async def _abandon(self, message: ReceivedMessage) -> None:
        try:
            await self.release(message)
        except RocketMQError as error:
            logger.warning("%r is redelivered when its lease expires: %s", message, error)

    async def _ack_batch(
        self,
        endpoint: Endpoint,
        topic: str,
        batch: Sequence[tuple[int, ReceivedMessage, Lease, str]],
        outcomes: list[RocketMQError | None],
    ) -> None:
        session = self._session
        request = pb.AckMessageRequest(group=session.group_resource, topic=session.resource(topic))
        for _, message, _, handle in batch:
            request.entries.add(
                message_id=message.message_id,
                receipt_handle=handle,
                lite_topic=self._lite_topic(message),
            )
        acking: Acking | None = None
        if session.emitter.is_watched:
            acking = session.emitter.acking(session.next_operations(len(batch)), batch)
        results: Sequence[RocketMQError | None] = (None,) * len(batch)
        is_known = False
        try:
            response = await session.call(endpoint, ACK, request, topic=topic, group=session.group)
            results, is_known = (
                self._entry_errors(endpoint, topic, [handle for *_, handle in batch], response),
                True,
            )
        except RocketMQError as error:
            results, is_known = [error] * len(batch), True
        finally:
            # Cancelled: it is unknown whether the acks took effect.
            for (index, message, lease, _), failure in zip(batch, results, strict=True):
                lease.end(_outcome(failure) if is_known else Outcome.UNKNOWN)
                outcomes[index] = failure
                if message._step_ended is not None:
                    message._turn_ended()
            if acking is not None:
                is_fine = is_known and not any(results)
                session.emitter.acked(
                    acking,
                    None
                    if is_fine
                    else [(_phase(failure) if is_known else Phase.INFO, failure) for failure in results],
                )

    def _entry_errors(
        self, endpoint: Endpoint, topic: str, handles: Sequence[str], response: pb.AckMessageResponse
    ) -> list[RocketMQError | None]:
        """The outcome of each handle; entries that are missing in the answer have the status of the whole answer."""
        by_handle = {entry.receipt_handle: entry.status for entry in response.entries}
        errors: list[RocketMQError | None] = []
        for handle in handles:
            own = by_handle.get(handle, response.status)
            if own.code == _OK:
                errors.append(None)
                continue
            errors.append(
                refusal(
                    own.code,
                    own.message,
                    what=ACK.name,
                    endpoint=str(endpoint),
                    topic=topic,
                    group=self._session.group,
                )
            )
        return errors

    async def _step(
        self,
        message: ReceivedMessage,
        event: Callable[..., str | None],
        call: Awaitable[_Answer],
        ended: Callable[[_Answer], None],
    ) -> None:
        """Make the call of a step that has begun, and end the step in any case."""
        lease = _lease_of(message)
        operation = event(Phase.INVOKE)
        try:
            response = await call
        except RocketMQError as error:
            lease.end(_outcome(error))
            event(_phase(error), operation, error)
            raise
        except BaseException:
            lease.end(Outcome.UNKNOWN)
            event(Phase.INFO, operation)
            raise
        else:
            ended(response)
            event(Phase.OK, operation)
        finally:
            message._turn_ended()

    def _lite_topic(self, message: ReceivedMessage) -> str | None:
        # Servers settle nothing for a lite consumer without the lite topic, and refuse any other consumer with it.
        return message.lite_topic if self._is_lite else None

    # Events; each method returns the operation, None without observers.

    def _change_event(
        self,
        message: ReceivedMessage,
        used: str,
        seconds: float,
        reason: ChangeReason,
        phase: Phase,
        operation: str | None = None,
        error: RocketMQError | None = None,
    ) -> str | None:
        session, lease = self._session, _lease_of(message)
        if not session.emitter.is_watched:
            return None
        operation = operation or session.next_operation()
        session.emitter.event(
            ChangeEvent(
                client=session.emitter.client,
                phase=phase,
                operation=operation,
                error=error,
                message=message,
                attempt=message.attempt,
                delivery=lease.first_handle,
                handle=lease.handle,
                previous_handle=used if phase is Phase.OK else None,
                invisible=seconds,
                reason=reason,
            )
        )
        return operation

    def _forward_event(
        self,
        message: ReceivedMessage,
        used: str,
        phase: Phase,
        operation: str | None = None,
        error: RocketMQError | None = None,
    ) -> str | None:
        session = self._session
        if not session.emitter.is_watched:
            return None
        operation = operation or session.next_operation()
        session.emitter.event(
            ForwardEvent(
                client=session.emitter.client,
                phase=phase,
                operation=operation,
                error=error,
                message=message,
                attempt=message.attempt,
                delivery=_lease_of(message).first_handle,
                handle=used,
            )
        )
        return operation


def _lease_of(message: ReceivedMessage) -> Lease:
    if message._lease is None:
        raise UsageError(f"{message!r} has no lease to settle", topic=message.topic, group=message.group)
    return message._lease


def _source_of(message: ReceivedMessage) -> Endpoint:
    if message._source is None:
        raise UsageError(f"{message!r} came from no server", topic=message.topic, group=message.group)
    return message._source


def _begin(message: ReceivedMessage, step: Step) -> str:
    try:
        return _lease_of(message).begin(step)
    except StepNotAllowedError as reason:
        raise _not_allowed(message, reason) from None


def _not_allowed(message: ReceivedMessage, reason: StepNotAllowedError) -> RocketMQError:
    kind = LeaseLostError if reason.lost else UsageError
    return kind(
        f"message {message.message_id} cannot be settled this way: {reason}",
        topic=message.topic,
        group=message.group,
    )


def _outcome(error: RocketMQError | None) -> Outcome:
    if error is None:
        return Outcome.OK
    if isinstance(error, LeaseLostError):
        return Outcome.LOST
    if isinstance(error, ServerError) and not isinstance(error, MalformedAnswerError):
        # A server that reports an internal error has normally done nothing; one that ran out of time may have.
        return Outcome.UNKNOWN if error.code in _TIMED_OUT_AT_SERVER else Outcome.REFUSED
    return Outcome.UNKNOWN if error.may_have_taken_effect else Outcome.REFUSED


def _phase(error: RocketMQError | None) -> Phase:
    if error is None:
        return Phase.OK
    return Phase.INFO if error.may_have_taken_effect else Phase.FAIL
