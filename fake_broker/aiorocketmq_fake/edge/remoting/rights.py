"""Authentication and needed rights of requests (8, live 11); the rights themselves are those of the gRPC port."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import FrameSignature, Need, Right
from aiorocketmq_fake.core.values.limits import RETRY_PREFIX
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.bodies import load
from aiorocketmq_fake.edge.remoting.groups import locked_queues, memberships
from aiorocketmq_fake.edge.remoting.requests import Request
from aiorocketmq_fake.edge.remoting_codes import RequestCode, command_name

__all__ = ["NEEDS", "SIGNATURE_FIELDS", "authorize"]

Needs = Callable[[Request, Broker], Iterator[Need]]
"""Returns the needed rights of a request, after authentication: others learn nothing of its errors."""

_ACCESS_KEY, _SIGNATURE, _TOKEN = SIGNATURE_FIELDS = ("AccessKey", "Signature", "SecurityToken")
"""Additional fields of a signed request."""


_OF_GROUP = {Right.ADMINISTER_TOPIC: Right.ADMINISTER_GROUP}
"""The right to a retry topic for each right to a topic; all others are the right to consume in the group."""


def authorize(request: Request, driver: Driver) -> None:
    """Refuse with UNAUTHORIZED a request that is not signed by a user who may make it."""
    fields = request.frame.fields
    values = "".join(fields[name] for name in sorted(fields) if name != _SIGNATURE)
    signature = FrameSignature(
        fields.get(_ACCESS_KEY, ""),
        fields.get(_SIGNATURE, ""),
        values.encode() + request.frame.body,
        fields.get(_TOKEN, ""),
        request.peer.address.rpartition(":")[0],
    )
    core, code = driver.core, request.frame.code
    needs = NEEDS.get(code, _nothing)(request, core)
    driver.run(core.check_access, command_name(code), request.peer.client_id, signature, needs)


def _need(right: Right, name: str) -> Need:
    """Return the right to a resource; a group's retry topic belongs to the group."""
    if name.startswith(RETRY_PREFIX):
        return Need(_OF_GROUP.get(right, Right.GROUP), name.removeprefix(RETRY_PREFIX))
    return Need(right, name)


def _named(right: Right, field: str, *, optional: bool = False) -> Needs:
    """Need a right to the resource in a field; with `optional`, none for an empty field."""

    def needs(request: Request, core: Broker) -> Iterator[Need]:
        if not optional or request.frame.fields.get(field):
            yield _need(right, request.text(field))

    return needs


def _nothing(request: Request, core: Broker) -> Iterator[Need]:
    yield from ()


def _cluster(request: Request, core: Broker) -> Iterator[Need]:
    yield Need(Right.ADMINISTER, core.cluster)


def _unless_forgotten(needs: Needs) -> Needs:
    """Need nothing on servers that do not check these requests."""

    def checked(request: Request, core: Broker) -> Iterator[Need]:
        return iter(()) if core.profile.rights_forgotten else needs(request, core)

    return checked


def _read(topic: str, core: Broker) -> Iterator[Need]:
    """Need the right to read a topic; servers check no rights to retry topics, of any group."""
    if not (core.profile.rights_forgotten and topic.startswith(RETRY_PREFIX)):
        yield _need(Right.SUBSCRIBE, topic)


def _consume(request: Request, core: Broker) -> Iterator[Need]:
    yield from _read(request.text("topic"), core)
    yield Need(Right.GROUP, request.text("consumerGroup"))


def _queue_ends(request: Request, core: Broker) -> Iterator[Need]:
    right = Right.ADMINISTER_TOPIC if core.profile.queue_ends_managed else Right.SUBSCRIBE
    yield _need(right, request.text("topic"))


def _beat(request: Request, core: Broker) -> Iterator[Need]:
    for membership in memberships(load(request.frame.body)):
        yield Need(Right.GROUP, membership.group)
        for subscription in membership.subscriptions:
            yield from _read(subscription.topic, core)


def _lock(request: Request, core: Broker) -> Iterator[Need]:
    group, _, queues = locked_queues(request)
    yield Need(Right.GROUP, group)
    for topic, _ in queues:
        yield from _read(topic, core)


NEEDS: Mapping[int, Needs] = {
    RequestCode.SEND_MESSAGE: _named(Right.PUBLISH, "topic"),
    RequestCode.SEND_MESSAGE_V2: _named(Right.PUBLISH, "b"),
    RequestCode.SEND_BATCH_MESSAGE: _named(Right.PUBLISH, "b"),
    RequestCode.RECALL_MESSAGE: _named(Right.PUBLISH, "topic"),
    # Clients before 5.0 name no topic.
    RequestCode.END_TRANSACTION: _named(Right.PUBLISH, "topic", optional=True),
    RequestCode.CONSUMER_SEND_MSG_BACK: _named(Right.GROUP, "group"),
    RequestCode.PULL_MESSAGE: _consume,
    RequestCode.LITE_PULL_MESSAGE: _unless_forgotten(_consume),
    RequestCode.QUERY_CONSUMER_OFFSET: _consume,
    RequestCode.UPDATE_CONSUMER_OFFSET: _consume,
    RequestCode.HEART_BEAT: _beat,
    RequestCode.UNREGISTER_CLIENT: _named(Right.GROUP, "consumerGroup", optional=True),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _named(Right.GROUP, "consumerGroup"),
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _lock,
    RequestCode.CHECK_CLIENT_CONFIG: _nothing,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _queue_ends,
    RequestCode.GET_MAX_OFFSET: _queue_ends,
    RequestCode.GET_MIN_OFFSET: _queue_ends,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _queue_ends,
    RequestCode.QUERY_MESSAGE: _named(Right.SUBSCRIBE, "topic"),
    RequestCode.VIEW_MESSAGE_BY_ID: _named(Right.SUBSCRIBE, "topic", optional=True),
    RequestCode.UPDATE_AND_CREATE_TOPIC: _named(Right.ADMINISTER_TOPIC, "topic"),
    RequestCode.DELETE_TOPIC_IN_BROKER: _named(Right.ADMINISTER_TOPIC, "topic"),
    RequestCode.GET_TOPIC_CONFIG: _named(Right.ADMINISTER_TOPIC, "topic"),
    RequestCode.GET_TOPIC_STATS_INFO: _named(Right.ADMINISTER_TOPIC, "topic"),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _named(Right.ADMINISTER_GROUP, "group"),
    RequestCode.GET_ALL_TOPIC_CONFIG: _unless_forgotten(_cluster),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _unless_forgotten(_cluster),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _unless_forgotten(_cluster),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _named(Right.ADMINISTER_GROUP, "groupName"),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _named(Right.ADMINISTER_GROUP, "consumerGroup"),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _named(Right.ADMINISTER_GROUP, "consumerGroup"),
    RequestCode.GET_CONSUME_STATS: _named(Right.ADMINISTER_GROUP, "consumerGroup"),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _cluster,
}
"""The needed rights of each request to a broker; a name server checks none."""
