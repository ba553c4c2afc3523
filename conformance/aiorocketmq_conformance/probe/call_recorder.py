"""Emits events about the probe clients of a case to a recorder, as the hooks of the client library would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ChangeReason,
    ClientEvent,
    ClientIdentity,
    DeliverEvent,
    Event,
    ForwardEvent,
    Phase,
    RecallEvent,
    ReceiveEvent,
    Role,
    SendEvent,
    SettingsEvent,
    TransactionEndEvent,
)
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage, SendReceipt
from aiorocketmq.subscription import Sql, Tags
from aiorocketmq.transaction import Resolution
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.answers import seconds_of

OnResponse = Callable[[Any], None]
"""Records the outcome of a call: a response, the frames of a stream, None if unknown."""
ROLES = {
    pb.ClientType.PUSH_CONSUMER: Role.PUSH,
    pb.ClientType.LITE_PUSH_CONSUMER: Role.PUSH,
    pb.ClientType.SIMPLE_CONSUMER: Role.SIMPLE,
}
RESOLUTIONS = {
    pb.TransactionResolution.COMMIT: Resolution.COMMIT,
    pb.TransactionResolution.ROLLBACK: Resolution.ROLLBACK,
}
# From here on a code reports a failure of the server, and the outcome of the request is unknown.
FIRST_SERVER_ERROR = 50_000
# Properties added by Apache's brokers (live-broker-session.md 4.5 and 11).
BROKER_PROPERTIES = frozenset(
    {
        *("__SHARDINGKEY", "__transactionId__", "CHECK_IMMUNITY_TIME_IN_SECONDS"),
        *("INNER_MULTI_DISPATCH", "TRACE_CONTEXT", "TRANSACTION_CHECK_TIMES"),
    }
)


@dataclass(frozen=True, slots=True)
class _Sent:
    """The fields of a message in a recording; unlike the library's own class, with any content."""

    topic: str
    body: bytes
    properties: Mapping[str, str]
    tag: str | None
    message_group: str | None
    priority: int | None
    lite_topic: str | None


@dataclass(slots=True)
class _Lease:
    """A delivery that can still be settled."""

    message: ReceivedMessage
    delivery: str
    """Its first handle."""


@dataclass(slots=True)
class CallRecorder:
    """Converts the calls of a case's probe clients to events; calls without an event are left out."""

    emit: Callable[[Event], None]
    order_grain: str | None = None
    """What ordered groups of this server lock: `group` or `queue`."""
    _clients: dict[str, ClientIdentity] = field(default_factory=dict)
    _leases: dict[str, _Lease] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def settings_accepted(self, client_id: str, settings: pb.Settings) -> None:
        """Record that a client's settings were accepted; `settings` are the server's."""
        client = self._client(client_id, ROLES.get(settings.client_type), settings.subscription.group.name)
        self.emit(ClientEvent(client=client, running=True, phase=Phase.OK))
        if client.group is None:
            return
        policy = settings.backoff_policy
        steps = tuple(seconds_of(step) for step in policy.customized_backoff.next)
        limit = policy.max_attempts or None
        ordered = settings.subscription.fifo
        grain = "message_group" if self.order_grain == "group" else self.order_grain
        self.emit(
            SettingsEvent(client=client, ordered=ordered, max_attempts=limit, steps=steps, order_grain=grain)
        )

    def terminated(self, client_id: str) -> None:
        """Record that a client was terminated."""
        if (client := self._clients.pop(client_id, None)) is not None:
            self.emit(ClientEvent(client=client, running=False, phase=Phase.OK))

    def call(self, client_id: str, method: str, request: Any) -> OnResponse:
        """Record the start of a call; the returned function records its end."""
        record = _CALLS.get(method)
        return ignore if record is None else record(self, client_id, request)

    def _client(self, client_id: str, role: Role | None = None, group: str = "") -> ClientIdentity:
        client = self._clients.get(client_id)
        if client is None or (group and client.group != group):
            if role is None:
                role = Role.SIMPLE if group else Role.PRODUCER
            client = ClientIdentity(client_id, role, group or None)
            self._clients[client_id] = client
        return client

    def _operation(self) -> str:
        return str(next(self._numbers))

    def _send(self, client_id: str, request: pb.SendMessageRequest) -> OnResponse:
        client = self._client(client_id)
        common: list[dict[str, Any]] = [
            {
                "client": client,
                "operation": self._operation(),
                "message": _sent(message),
                "message_id": message.system_properties.message_id,
                "due_us": _moment(message.system_properties, "delivery_timestamp"),
                "is_half": message.system_properties.message_type == pb.MessageType.TRANSACTION,
            }
            for message in request.messages
        ]
        for each in common:
            self.emit(SendEvent(**each, phase=Phase.INVOKE))

        def on_response(reply: pb.SendMessageResponse | None) -> None:
            entries = [] if reply is None else list(reply.entries)
            alone = len(entries) == len(common)
            for number, each in enumerate(common):
                # Some servers answer a batch with one entry, which has no message's offset.
                entry = entries[number] if alone else None
                status = entry.status if entry is not None and entry.HasField("status") else _status(reply)
                phase, error = _outcome(status)
                receipt = _receipt(each["message_id"], each["message"].topic, entry) if entry else None
                if phase is not Phase.OK:
                    receipt = None
                self.emit(SendEvent(**each, phase=phase, error=error, receipt=receipt))

        return on_response

    def _receive(self, client_id: str, request: pb.ReceiveMessageRequest) -> OnResponse:
        queue = request.message_queue
        shared: dict[str, Any] = {
            "client": self._client(client_id, None, request.group.name),
            "operation": self._operation(),
            "invisible": seconds_of(request.invisible_duration)
            if request.HasField("invisible_duration")
            else None,
            "auto_renew": request.auto_renew,
            "attempt_id": request.attempt_id or None,
            "filter": _filter_of(request.filter_expression),
        }
        place = MessageQueue(queue.topic.name, queue.broker.name, queue.id)
        poll: dict[str, Any] = {**shared, "queue": place, "max_messages": request.batch_size}
        self.emit(ReceiveEvent(**poll, phase=Phase.INVOKE))

        def on_response(frames: Any) -> None:
            status = next((frame.status for frame in frames if frame.HasField("status")), None)
            messages = [frame.message for frame in frames if frame.HasField("message")]
            for position, message in enumerate(messages):
                message_view = _received(message, request.group.name)
                handle = message.system_properties.receipt_handle
                self._leases[handle] = _Lease(message_view, handle)
                self.emit(DeliverEvent(**shared, message=message_view, handle=handle, position=position))
            phase, error = _outcome(status)
            if status is not None and status.code == pb.Code.MESSAGE_NOT_FOUND:
                phase, error = Phase.OK, None
            self.emit(ReceiveEvent(**poll, phase=phase, error=error, count=len(messages)))

        return on_response

    def _ack(self, client_id: str, request: pb.AckMessageRequest) -> OnResponse:
        # With another topic a handle settles ignore, whatever the response.
        leases = [self._held(entry.receipt_handle, request.topic.name) for entry in request.entries]
        common = [
            None if lease is None else self._settling(client_id, request, lease, entry.receipt_handle)
            for lease, entry in zip(leases, request.entries, strict=True)
        ]
        for each in common:
            if each is not None:
                self.emit(AckEvent(**each, phase=Phase.INVOKE))

        def on_response(reply: pb.AckMessageResponse | None) -> None:
            entries = [] if reply is None else list(reply.entries)
            for number, each in enumerate(common):
                if each is not None:
                    status = entries[number].status if number < len(entries) else _status(reply)
                    phase, error = _outcome(status)
                    self.emit(AckEvent(**each, phase=phase, error=error))

        return on_response

    def _change(self, client_id: str, request: pb.ChangeInvisibleDurationRequest) -> OnResponse:
        lease = self._held(request.receipt_handle, request.topic.name)
        if lease is None:
            return ignore
        common = self._settling(client_id, request, lease, request.receipt_handle)
        # The reason of a probe's lease change is unknown; it sets the time of redelivery.
        reason = ChangeReason.SUSPEND if request.suspend else ChangeReason.RETRY
        common |= {"invisible": seconds_of(request.invisible_duration), "reason": reason}
        self.emit(ChangeEvent(**common, phase=Phase.INVOKE))

        def on_response(reply: pb.ChangeInvisibleDurationResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            now = dict(common)
            if phase is Phase.OK and reply is not None and reply.receipt_handle:
                self._leases[reply.receipt_handle] = lease
                now |= {"handle": reply.receipt_handle, "previous_handle": request.receipt_handle}
            self.emit(ChangeEvent(**now, phase=phase, error=error))

        return on_response

    def _forward(self, client_id: str, request: pb.ForwardMessageToDeadLetterQueueRequest) -> OnResponse:
        lease = self._held(request.receipt_handle, request.topic.name)
        if lease is None:
            return ignore
        common = self._settling(client_id, request, lease, request.receipt_handle)
        self.emit(ForwardEvent(**common, phase=Phase.INVOKE))

        def on_response(reply: pb.ForwardMessageToDeadLetterQueueResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            self.emit(ForwardEvent(**common, phase=phase, error=error))

        return on_response

    def _terminate(self, client_id: str, request: pb.NotifyClientTerminationRequest) -> OnResponse:
        del request

        def on_response(reply: pb.NotifyClientTerminationResponse | None) -> None:
            if _outcome(_status(reply))[0] is Phase.OK:
                self.terminated(client_id)

        return on_response

    def _held(self, handle: str, topic: str) -> _Lease | None:
        lease = self._leases.get(handle)
        return lease if lease is not None and lease.message.topic == topic else None

    def _settling(self, client_id: str, request: Any, lease: _Lease, handle: str) -> dict[str, Any]:
        return {
            "client": self._client(client_id, None, request.group.name),
            "operation": self._operation(),
            "message": lease.message,
            "delivery": lease.delivery,
            "handle": handle,
        }

    def _recall(self, client_id: str, request: pb.RecallMessageRequest) -> OnResponse:
        common: dict[str, Any] = {
            "client": self._client(client_id),
            "operation": self._operation(),
            "topic": request.topic.name,
        }
        self.emit(RecallEvent(**common, phase=Phase.INVOKE))

        def on_response(reply: pb.RecallMessageResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            id_ = reply.message_id if reply is not None and phase is Phase.OK else None
            self.emit(RecallEvent(**common, phase=phase, error=error, message_id=id_))

        return on_response

    def _end(self, client_id: str, request: pb.EndTransactionRequest) -> OnResponse:
        resolution = RESOLUTIONS.get(request.resolution)
        if resolution is None:
            return ignore
        common: dict[str, Any] = {
            "client": self._client(client_id),
            "operation": self._operation(),
            "topic": request.topic.name,
            "message_id": request.message_id,
            "transaction_id": request.transaction_id,
            "resolution": resolution,
            "from_check": request.source == pb.TransactionSource.SOURCE_SERVER_CHECK,
        }
        self.emit(TransactionEndEvent(**common, phase=Phase.INVOKE))

        def on_response(reply: pb.EndTransactionResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            self.emit(TransactionEndEvent(**common, phase=phase, error=error))

        return on_response


_CALLS: Mapping[str, Callable[[CallRecorder, str, Any], OnResponse]] = {
    "SendMessage": CallRecorder._send,
    "ReceiveMessage": CallRecorder._receive,
    "AckMessage": CallRecorder._ack,
    "ChangeInvisibleDuration": CallRecorder._change,
    "ForwardMessageToDeadLetterQueue": CallRecorder._forward,
    "RecallMessage": CallRecorder._recall,
    "EndTransaction": CallRecorder._end,
    "NotifyClientTermination": CallRecorder._terminate,
}


def ignore(answer: Any) -> None:
    """Record ignore."""
    del answer


def _status(reply: Any) -> pb.Status | None:
    return None if reply is None else reply.status


def _outcome(status: pb.Status | None) -> tuple[Phase, RocketMQError | None]:
    if status is None:
        return Phase.INFO, None
    if status.code == pb.Code.OK:
        return Phase.OK, None
    unknown = status.code >= FIRST_SERVER_ERROR
    return Phase.INFO if unknown else Phase.FAIL, RocketMQError(status.message, code=status.code)


def _filter_of(expression: pb.FilterExpression) -> Sql | Tags | None:
    """Return the filter of a receive; None if it is invalid, as some probes send."""
    try:
        return (Sql if expression.type == pb.FilterType.SQL else Tags)(expression.expression or "*")
    except ValueError:
        return None


def _sent(message: pb.Message) -> Message:
    system = message.system_properties
    sent = _Sent(
        message.topic.name,
        message.body,
        dict(message.user_properties),
        system.tag if system.HasField("tag") else None,
        system.message_group or None,
        system.priority if system.HasField("priority") else None,
        system.lite_topic or None,
    )
    # It has all that a recorder reads; the library's own class rejects illegal values that probes send.
    return cast(Message, sent)


def _receipt(message_id: str, topic: str, entry: pb.SendResultEntry) -> SendReceipt:
    return SendReceipt(message_id, topic, None, entry.offset, transaction_id=entry.transaction_id or None)


def _received(message: pb.Message, group: str) -> ReceivedMessage:
    system = message.system_properties
    raw = dict(message.user_properties)
    return ReceivedMessage(
        topic=message.topic.name,
        body=message.body,
        message_id=system.message_id,
        queue=MessageQueue(message.topic.name, "", system.queue_id),
        offset=system.queue_offset,
        attempt=system.delivery_attempt,
        group=group,
        tag=system.tag if system.HasField("tag") else None,
        properties={name: value for name, value in raw.items() if name not in BROKER_PROPERTIES},
        raw_properties=raw,
        message_group=system.message_group or None,
        priority=system.priority if system.HasField("priority") else None,
        lite_topic=system.lite_topic or None,
        born_us=_moment(system, "born_timestamp"),
        stored_us=_moment(system, "store_timestamp"),
        deliver_us=_moment(system, "delivery_timestamp"),
    )


def _moment(system: pb.SystemProperties, name: str) -> int | None:
    if not system.HasField(name):  # type: ignore[arg-type]  # one of its fields
        return None
    stamp = getattr(system, name)
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1000
