"""Admission of calls: qualifies names by namespace, and checks the user's rights (14)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiorocketmq.wire import messages as pb

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import Need, Right
from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.edge.caller import Caller
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.namespaces import qualify

__all__ = ["admit"]

# A name of the request, and the right that the call needs on it; None if it needs none (R14.2).
Named = tuple[Right | None, pb.Resource]

# Aliases: attribute access on the enum is ten times slower, for every call.
_PUBLISH, _SUBSCRIBE, _GROUP, _ROUTE = Right.PUBLISH, Right.SUBSCRIBE, Right.GROUP, Right.ROUTE


def admit(name: str, request: Any, caller: Caller, driver: Driver) -> None:
    """Prepare a parsed request of method `name` for the core; Refusal if the caller lacks a right.

    Any: each method has its own request class.
    """
    core = driver.core
    if core.profile.namespaces_isolate:
        for right, resource in NAMED[name](request):
            if resource.resource_namespace:
                illegal_group = Code.ILLEGAL_CONSUMER_GROUP if right is Right.GROUP else Code.ILLEGAL_TOPIC
                qualify(resource, illegal_group)
    if core.access.is_checked:
        _authorize(name, request, caller, driver, core)


def _authorize(name: str, request: Any, caller: Caller, driver: Driver, core: Broker) -> None:
    needs = {
        Need(right, resource.name): None for right, resource in NAMED[name](request) if right is not None
    }
    driver.run(core.check_access, name, caller.client_id, caller.signature, tuple(needs))


def _send(request: pb.SendMessageRequest) -> Iterable[Named]:
    # Session §9: a send without messages is refused for a right that cannot exist.
    return [(_PUBLISH, message.topic) for message in request.messages] or [(_PUBLISH, pb.Resource())]


def _publish(request: Any) -> Iterable[Named]:
    return ((_PUBLISH, request.topic),)


def _see(request: Any) -> Iterable[Named]:
    return ((_ROUTE, request.topic),)


def _consume(request: Any) -> Iterable[Named]:
    return ((_SUBSCRIBE, request.topic), (_GROUP, request.group))


def _consume_queue(request: Any) -> Iterable[Named]:
    return ((_SUBSCRIBE, request.message_queue.topic), (_GROUP, request.group))


def _see_queue(request: pb.QueryOffsetRequest) -> Iterable[Named]:
    return ((_SUBSCRIBE, request.message_queue.topic),)


def _change(request: pb.ChangeInvisibleDurationRequest) -> Iterable[Named]:
    return ((None, request.topic), (_GROUP, request.group))


def _heartbeat(request: pb.HeartbeatRequest) -> Iterable[Named]:
    if request.HasField("group") and request.client_type != pb.ClientType.PRODUCER:
        yield _GROUP, request.group


def _terminate(request: pb.NotifyClientTerminationRequest) -> Iterable[Named]:
    if request.group.name:
        yield _GROUP, request.group


def _settings(command: pb.TelemetryCommand) -> Iterable[Named]:
    settings = command.settings
    for topic in settings.publishing.topics:
        yield _PUBLISH, topic
    if settings.HasField("subscription"):
        yield _GROUP, settings.subscription.group
        for entry in settings.subscription.subscriptions:
            yield _SUBSCRIBE, entry.topic


NAMED: Mapping[str, Callable[[Any], Iterable[Named]]] = {
    "QueryRoute": _see,
    "QueryAssignment": _consume,
    "Heartbeat": _heartbeat,
    "NotifyClientTermination": _terminate,
    "SendMessage": _send,
    "RecallMessage": _publish,
    "EndTransaction": _publish,
    "AckMessage": _consume,
    "ChangeInvisibleDuration": _change,
    "ForwardMessageToDeadLetterQueue": _consume,
    "ReceiveMessage": _consume_queue,
    "PullMessage": _consume_queue,
    "UpdateOffset": _consume_queue,
    "GetOffset": _consume_queue,
    "QueryOffset": _see_queue,
    "SyncLiteSubscription": _consume,
    "Telemetry": _settings,
}
"""The names in each method's request, and the right it needs on them; those of pulls are ours, by analogy (R14.2)."""
