"""Makes plausible requests right: fields that must fit each other, and values that only the broker can know."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aiorocketmq.wire import messages as pb
from google.protobuf.message import DecodeError, Message

__all__ = ["Memory", "make_sense"]

NOW = 1_800_000_000
LITE_TOPICS = ("l1", "l2", "l3", "l4", "l5")


def _recent() -> deque[Any]:
    """Any: each pool holds values of its own."""
    return deque(maxlen=64)


@dataclass
class Memory:
    """What the broker has answered so far, as far as later requests can name it."""

    deliveries: deque[tuple[pb.Resource, pb.Resource, str, str]] = field(default_factory=_recent)
    """Topic, group, receipt handle, message id."""
    transactions: deque[tuple[str, str]] = field(default_factory=_recent)
    """Transaction id, message id."""
    recalls: deque[str] = field(default_factory=_recent)
    sent: int = 0

    def learn(self, method: str, payload: bytes, frames: list[Any]) -> None:
        """Take what an answer tells. Any: each method has its own response class."""
        if method == "SendMessage":
            for entry in (entry for frame in frames for entry in frame.entries):
                if entry.transaction_id:
                    self.transactions.append((entry.transaction_id, entry.message_id))
                if entry.recall_handle:
                    self.recalls.append(entry.recall_handle)
        elif method == "ReceiveMessage":
            try:
                request = pb.ReceiveMessageRequest.FromString(payload)
            except DecodeError:
                return
            for frame in frames:
                if frame.HasField("message"):
                    system = frame.message.system_properties
                    known = (frame.message.topic, request.group, system.receipt_handle, system.message_id)
                    self.deliveries.append(known)


def make_sense(method: str, request: Any, rng: random.Random, memory: Memory) -> None:
    """Change a plausible request so that the broker is likely to do it. Any: each method has its own class."""
    match method:
        case "SendMessage":
            _send(request, rng, memory)
        case "Telemetry":
            _settings(request, rng)
        case "ReceiveMessage":
            request.message_queue.topic.name = rng.choice(
                ("normal", "normal", "fifo", "delay", "transaction")
            )
            request.invisible_duration.FromSeconds(30)
            if rng.random() < 0.5:
                request.ClearField("long_polling_timeout")
            if rng.random() < 0.7:
                request.ClearField("filter_expression")
            request.group.name = rng.choice(("group", "group", "ordered"))
            if rng.random() < 0.15:
                request.message_queue.topic.name, request.group.name = "lite", "light"
        case "SyncLiteSubscription":
            request.topic.name, request.group.name = "lite", "light"
            request.topic.resource_namespace = request.group.resource_namespace = ""
            request.lite_topic_set[:] = rng.sample(LITE_TOPICS, rng.randint(0, 4))
        case "AckMessage" if memory.deliveries:
            topic, group, handle, message_id = rng.choice(memory.deliveries)
            _name(request, topic, group)
            del request.entries[:]
            request.entries.add(receipt_handle=handle, message_id=message_id)
        case "ChangeInvisibleDuration" | "ForwardMessageToDeadLetterQueue" if memory.deliveries:
            topic, group, handle, message_id = rng.choice(memory.deliveries)
            _name(request, topic, group)
            request.receipt_handle, request.message_id = handle, message_id
        case "EndTransaction" if memory.transactions:
            request.topic.name, request.topic.resource_namespace = "transaction", ""
            request.transaction_id, request.message_id = rng.choice(memory.transactions)
            request.resolution = rng.choice((1, 2))
        case "RecallMessage" if memory.recalls:
            request.topic.name, request.topic.resource_namespace = "delay", ""
            request.recall_handle = rng.choice(memory.recalls)


def _name(request: Any, topic: Message, group: Message) -> None:
    """Set topic and group. Any: one of several requests."""
    request.topic.CopyFrom(topic)
    request.group.CopyFrom(group)


def _send(request: pb.SendMessageRequest, rng: random.Random, memory: Memory) -> None:
    topic = rng.choice(("normal", "normal", "fifo", "delay", "transaction", "lite"))
    for message in request.messages:
        message.topic.name = topic
        message.topic.resource_namespace = ""
        system = message.system_properties
        for name in ("priority", "lite_topic", "message_group", "delivery_timestamp", "recovery_duration"):
            if name in system.DESCRIPTOR.fields_by_name:
                system.ClearField(name)  # type: ignore[arg-type]  # a field of the message, as just seen
        memory.sent += 1
        system.message_id = f"m-{memory.sent}"
        system.message_type = pb.MessageType.NORMAL
        if topic == "fifo":
            system.message_group = rng.choice(("g1", "g2"))
        elif topic == "lite":
            system.lite_topic = rng.choice(LITE_TOPICS)
        elif topic == "delay":
            system.delivery_timestamp.FromSeconds(NOW + rng.choice((1, 30, 3600)))
        elif topic == "transaction":
            system.message_type = pb.MessageType.TRANSACTION
            system.ClearField("orphaned_transaction_recovery_duration")


def _settings(command: pb.TelemetryCommand, rng: random.Random) -> None:
    settings = command.settings
    settings.SetInParent()
    settings.ClearField("client_properties")
    if rng.random() < 0.3:
        settings.client_type = pb.ClientType.PRODUCER
        settings.publishing.topics.add(name="normal")
        return
    settings.client_type = rng.choice((pb.ClientType.PUSH_CONSUMER, pb.ClientType.SIMPLE_CONSUMER))
    settings.subscription.group.name = rng.choice(("group", "ordered"))
    settings.subscription.group.resource_namespace = ""
    if rng.random() < 0.2:
        settings.client_type = pb.ClientType.LITE_PUSH_CONSUMER
        settings.subscription.group.name = "light"
    entry = settings.subscription.subscriptions.add()
    entry.topic.name = rng.choice(("normal", "fifo", "delay", "transaction"))
