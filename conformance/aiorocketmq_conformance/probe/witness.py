"""Telling a recorder what the probe clients of a case did and saw, as the hooks of the client library would."""

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

Answered = Callable[[Any], None]
"""Notes the answer of a call: a response, the frames of a stream, None where nobody knows."""
ROLES = {
    pb.ClientType.PUSH_CONSUMER: Role.PUSH,
    pb.ClientType.LITE_PUSH_CONSUMER: Role.PUSH,
    pb.ClientType.SIMPLE_CONSUMER: Role.SIMPLE,
}
RESOLUTIONS = {
    pb.TransactionResolution.COMMIT: Resolution.COMMIT,
    pb.TransactionResolution.ROLLBACK: Resolution.ROLLBACK,
}
# From here on a code tells of the server's trouble, and not what became of the request.
SERVERS_FAULT = 50_000
# What Apache's brokers add to a sender's properties (live-broker-session.md 4.5 and 11).
BROKERS_OWN = frozenset(
    {
        *("__SHARDINGKEY", "__transactionId__", "CHECK_IMMUNITY_TIME_IN_SECONDS"),
        *("INNER_MULTI_DISPATCH", "TRACE_CONTEXT", "TRANSACTION_CHECK_TIMES"),
    }
)


@dataclass(frozen=True, slots=True)
class _Sent:
    """What a recording keeps of a message; unlike the library's own, with any content."""

    topic: str
    body: bytes
    properties: Mapping[str, str]
    tag: str | None
    message_group: str | None
    priority: int | None
    lite_topic: str | None


@dataclass(slots=True)
class _Lease:
    """A delivery that may still be settled."""

    message: ReceivedMessage
    delivery: str
    """The handle that it came with."""


@dataclass(slots=True)
class Witness:
    """Turns the calls of a case's probe clients into events for `tell`; calls that no recording knows are left out."""

    tell: Callable[[Event], None]
    order_grain: str | None = None
    """What ordered groups of this server lock: `group` or `queue`."""
    _clients: dict[str, ClientIdentity] = field(default_factory=dict)
    _leases: dict[str, _Lease] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def presented(self, client_id: str, settings: pb.Settings) -> None:
        """A client's settings were taken, and these are the server's."""
        client = self._client(client_id, ROLES.get(settings.client_type), settings.subscription.group.name)
        self.tell(ClientEvent(client=client, running=True, phase=Phase.OK))
        if client.group is None:
            return
        policy = settings.backoff_policy
        steps = tuple(_seconds(step) for step in policy.customized_backoff.next)
        limit = policy.max_attempts or None
        ordered = settings.subscription.fifo
        grain = "message_group" if self.order_grain == "group" else self.order_grain
        self.tell(
            SettingsEvent(client=client, ordered=ordered, max_attempts=limit, steps=steps, order_grain=grain)
        )

    def left(self, client_id: str) -> None:
        """A client said good-bye."""
        if (client := self._clients.pop(client_id, None)) is not None:
            self.tell(ClientEvent(client=client, running=False, phase=Phase.OK))

    def call(self, client_id: str, method: str, request: Any) -> Answered:
        """Note that a call begins; what is returned notes its end."""
        noting = _CALLS.get(method)
        return nothing if noting is None else noting(self, client_id, request)

    def _client(self, client_id: str, role: Role | None = None, group: str = "") -> ClientIdentity:
        known = self._clients.get(client_id)
        if known is None or (group and known.group != group):
            if role is None:
                role = Role.SIMPLE if group else Role.PRODUCER
            known = ClientIdentity(client_id, role, group or None)
            self._clients[client_id] = known
        return known

    def _operation(self) -> str:
        return str(next(self._numbers))

    def _send(self, client_id: str, request: pb.SendMessageRequest) -> Answered:
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
            self.tell(SendEvent(**each, phase=Phase.INVOKE))

        def answered(reply: pb.SendMessageResponse | None) -> None:
            entries = [] if reply is None else list(reply.entries)
            alone = len(entries) == len(common)
            for number, each in enumerate(common):
                # Some servers answer a batch with one entry, which tells the place of none.
                entry = entries[number] if alone else None
                status = entry.status if entry is not None and entry.HasField("status") else _status(reply)
                phase, error = _outcome(status)
                receipt = _receipt(each["message_id"], each["message"].topic, entry) if entry else None
                if phase is not Phase.OK:
                    receipt = None
                self.tell(SendEvent(**each, phase=phase, error=error, receipt=receipt))

        return answered

    def _receive(self, client_id: str, request: pb.ReceiveMessageRequest) -> Answered:
        queue = request.message_queue
        shared: dict[str, Any] = {
            "client": self._client(client_id, None, request.group.name),
            "operation": self._operation(),
            "invisible": _seconds(request.invisible_duration)
            if request.HasField("invisible_duration")
            else None,
            "auto_renew": request.auto_renew,
            "attempt_id": request.attempt_id or None,
        }
        place = MessageQueue(queue.topic.name, queue.broker.name, queue.id)
        poll: dict[str, Any] = {**shared, "queue": place, "max_messages": request.batch_size}
        self.tell(ReceiveEvent(**poll, phase=Phase.INVOKE))
        asked = _asked(request.filter_expression)

        def answered(frames: Any) -> None:
            status = next((frame.status for frame in frames if frame.HasField("status")), None)
            messages = [frame.message for frame in frames if frame.HasField("message")]
            for position, message in enumerate(messages):
                seen = _received(message, request.group.name)
                handle = message.system_properties.receipt_handle
                self._leases[handle] = _Lease(seen, handle)
                self.tell(
                    DeliverEvent(**shared, message=seen, handle=handle, position=position, filter=asked)
                )
            phase, error = _outcome(status)
            if status is not None and status.code == pb.Code.MESSAGE_NOT_FOUND:
                phase, error = Phase.OK, None
            self.tell(ReceiveEvent(**poll, phase=phase, error=error, count=len(messages)))

        return answered

    def _ack(self, client_id: str, request: pb.AckMessageRequest) -> Answered:
        # In the name of another topic a handle settles nothing, whatever the answer.
        held = [self._held(entry.receipt_handle, request.topic.name) for entry in request.entries]
        common = [
            None if lease is None else self._settling(client_id, request, lease, entry.receipt_handle)
            for lease, entry in zip(held, request.entries, strict=True)
        ]
        for each in common:
            if each is not None:
                self.tell(AckEvent(**each, phase=Phase.INVOKE))

        def answered(reply: pb.AckMessageResponse | None) -> None:
            entries = [] if reply is None else list(reply.entries)
            for number, each in enumerate(common):
                if each is not None:
                    told = entries[number].status if number < len(entries) else _status(reply)
                    phase, error = _outcome(told)
                    self.tell(AckEvent(**each, phase=phase, error=error))

        return answered

    def _change(self, client_id: str, request: pb.ChangeInvisibleDurationRequest) -> Answered:
        lease = self._held(request.receipt_handle, request.topic.name)
        if lease is None:
            return nothing
        common = self._settling(client_id, request, lease, request.receipt_handle)
        # A probe does not say why it changes a lease; what it asks for is when the message comes again.
        common |= {"invisible": _seconds(request.invisible_duration), "reason": ChangeReason.RETRY}
        self.tell(ChangeEvent(**common, phase=Phase.INVOKE))

        def answered(reply: pb.ChangeInvisibleDurationResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            now = dict(common)
            if phase is Phase.OK and reply is not None and reply.receipt_handle:
                self._leases[reply.receipt_handle] = lease
                now |= {"handle": reply.receipt_handle, "previous_handle": request.receipt_handle}
            self.tell(ChangeEvent(**now, phase=phase, error=error))

        return answered

    def _forward(self, client_id: str, request: pb.ForwardMessageToDeadLetterQueueRequest) -> Answered:
        lease = self._held(request.receipt_handle, request.topic.name)
        if lease is None:
            return nothing
        common = self._settling(client_id, request, lease, request.receipt_handle)
        self.tell(ForwardEvent(**common, phase=Phase.INVOKE))

        def answered(reply: pb.ForwardMessageToDeadLetterQueueResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            self.tell(ForwardEvent(**common, phase=phase, error=error))

        return answered

    def _good_bye(self, client_id: str, request: pb.NotifyClientTerminationRequest) -> Answered:
        del request

        def answered(reply: pb.NotifyClientTerminationResponse | None) -> None:
            if _outcome(_status(reply))[0] is Phase.OK:
                self.left(client_id)

        return answered

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

    def _recall(self, client_id: str, request: pb.RecallMessageRequest) -> Answered:
        common: dict[str, Any] = {
            "client": self._client(client_id),
            "operation": self._operation(),
            "topic": request.topic.name,
        }
        self.tell(RecallEvent(**common, phase=Phase.INVOKE))

        def answered(reply: pb.RecallMessageResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            id_ = reply.message_id if reply is not None and phase is Phase.OK else None
            self.tell(RecallEvent(**common, phase=phase, error=error, message_id=id_))

        return answered

    def _end(self, client_id: str, request: pb.EndTransactionRequest) -> Answered:
        resolution = RESOLUTIONS.get(request.resolution)
        if resolution is None:
            return nothing
        common: dict[str, Any] = {
            "client": self._client(client_id),
            "operation": self._operation(),
            "topic": request.topic.name,
            "message_id": request.message_id,
            "transaction_id": request.transaction_id,
            "resolution": resolution,
            "from_check": request.source == pb.TransactionSource.SOURCE_SERVER_CHECK,
        }
        self.tell(TransactionEndEvent(**common, phase=Phase.INVOKE))

        def answered(reply: pb.EndTransactionResponse | None) -> None:
            phase, error = _outcome(_status(reply))
            self.tell(TransactionEndEvent(**common, phase=phase, error=error))

        return answered


_CALLS: Mapping[str, Callable[[Witness, str, Any], Answered]] = {
    "SendMessage": Witness._send,
    "ReceiveMessage": Witness._receive,
    "AckMessage": Witness._ack,
    "ChangeInvisibleDuration": Witness._change,
    "ForwardMessageToDeadLetterQueue": Witness._forward,
    "RecallMessage": Witness._recall,
    "EndTransaction": Witness._end,
    "NotifyClientTermination": Witness._good_bye,
}


def nothing(answer: Any) -> None:
    """Note nothing, where nobody records."""
    del answer


def _status(reply: Any) -> pb.Status | None:
    return None if reply is None else reply.status


def _outcome(status: pb.Status | None) -> tuple[Phase, RocketMQError | None]:
    if status is None:
        return Phase.INFO, None
    if status.code == pb.Code.OK:
        return Phase.OK, None
    unknown = status.code >= SERVERS_FAULT
    return Phase.INFO if unknown else Phase.FAIL, RocketMQError(status.message, code=status.code)


def _asked(wanted: pb.FilterExpression) -> Sql | Tags | None:
    """The filter of a receive; None for what is none, as some probes send."""
    try:
        return (Sql if wanted.type == pb.FilterType.SQL else Tags)(wanted.expression or "*")
    except ValueError:
        return None


def _sent(message: pb.Message) -> Message:
    system = message.system_properties
    seen = _Sent(
        message.topic.name,
        message.body,
        dict(message.user_properties),
        system.tag if system.HasField("tag") else None,
        system.message_group or None,
        system.priority if system.HasField("priority") else None,
        system.lite_topic or None,
    )
    # It has all that a recorder reads; the library's own class refuses what probes send on purpose.
    return cast(Message, seen)


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
        properties={name: value for name, value in raw.items() if name not in BROKERS_OWN},
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


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos / 1e9)
