"""Heartbeats, the members of groups, filters, and queue locks (6.2 to 6.4, 6.10, 6.20)."""

from __future__ import annotations

from collections.abc import Mapping

from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.values.classic_model import Heartbeat, Member, Membership, QueueKey, Subscribed
from aiorocketmq_fake.core.values.codes import FilterType, Refusal
from aiorocketmq_fake.core.values.model import FilterExpression
from aiorocketmq_fake.core.values.placement import java_hash
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting.bodies import dump, load
from aiorocketmq_fake.edge.remoting.frames import Frame, FrameError, clean
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, ResponseCode

__all__ = ["SQL", "Groups", "locked_queues", "memberships"]

SQL = "SQL92"
"""The `expressionType` of SQL; every other one is about tags."""


class Groups:
    """The requests of members."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._core = driver.core

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code."""
        return {
            RequestCode.HEART_BEAT: self.beat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.client_ids,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.CHECK_CLIENT_CONFIG: self.check,
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
        }

    def beat(self, request: Request) -> Frame:
        """Register a client in its groups."""
        body = load(request.frame.body)
        peer = request.peer
        beat = Heartbeat(
            client_id=_text(body, "clientID"),
            consumers=memberships(body),
            producers=tuple(_text(group, "groupName") for group in _objects(body, "producerDataSet")),
            language=request.frame.language,
            version=request.frame.version,
            address=peer.address,
        )
        self._driver.run(self._core.beat, peer.channel, beat)
        peer.client_id = beat.client_id
        return answer()

    def unregister(self, request: Request) -> Frame:
        """Unregister a client from its groups."""
        groups = [request.frame.fields.get(name, "") for name in ("consumerGroup", "producerGroup")]
        self._driver.run(self._core.unregister, request.peer.channel, request.text("clientID"), *groups)
        return answer()

    def client_ids(self, request: Request) -> Frame:
        """List the client ids of a group, one for each connection."""
        name = request.text("consumerGroup")
        group = self._core.members(name)
        if group is None:
            text = f"no consumer for this group, {name}"
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=text)
        return answer(body=dump({"consumerIdList": sorted(member.client_id for member in group.members)}))

    def connections(self, request: Request) -> Frame:
        """Describe a group by its connections and subscriptions."""
        name = request.text("consumerGroup")
        group = self._core.members(name)
        if group is None:
            text = f"the consumer group[{name}] not online"
            return answer(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=text)
        membership = group.membership
        body = {
            "connectionSet": list(map(_connection, group.members)),
            "consumeFromWhere": membership.consume_from,
            "consumeType": membership.consume_type,
            "messageModel": membership.message_model,
            "subscriptionTable": {each.topic: _subscription(each) for each in membership.subscriptions},
        }
        return answer(body=dump(body))

    def producers(self, request: Request) -> Frame:
        """Describe a producer group by its connections."""
        name = request.text("producerGroup")
        members = self._core.producers(name)
        if not members:
            text = f"the producer group[{name}] not exist"
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=text)
        return answer(body=dump({"connectionSet": list(map(_connection, members))}))

    def check(self, request: Request) -> Frame:
        """Check whether an SQL expression can be parsed."""
        data = load(request.frame.body).get("subscriptionData")
        if not isinstance(data, dict):
            return answer(code=ResponseCode.SYSTEM_ERROR, remark="the body has no subscriptionData")
        subscription = _subscribed(data)
        if subscription.type is FilterType.SQL:
            try:
                parse(FilterExpression(subscription.expression, subscription.type), self._core.profile)
            except Refusal as refused:
                return answer(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=refused.message)
        return answer()

    def lock(self, request: Request) -> Frame:
        """Lock queues; the answer lists those that the client has locked."""
        group, client_id, queues = locked_queues(request)
        held = set(self._driver.run(self._core.lock_queues, group, client_id, tuple(queues)))
        return answer(body=dump({"lockOKMQSet": [queues[key] for key in queues if key in held]}))

    def unlock(self, request: Request) -> Frame:
        """Release locks."""
        group, client_id, queues = locked_queues(request)
        self._driver.run(self._core.unlock_queues, group, client_id, tuple(queues))
        return answer()


def _connection(member: Member) -> dict[str, object]:
    return {
        "clientAddr": member.address,
        "clientId": member.client_id,
        "language": member.language,
        "version": member.version,
    }


def memberships(body: Mapping[str, object]) -> tuple[Membership, ...]:
    """Return the consumer groups of a heartbeat."""
    return tuple(map(_membership, _objects(body, "consumerDataSet")))


def locked_queues(request: Request) -> tuple[str, str, dict[QueueKey, Mapping[str, object]]]:
    """Return group, client id and queues of a lock or an unlock."""
    body = load(request.frame.body)
    queues: dict[QueueKey, Mapping[str, object]] = {}
    for queue in _objects(body, "mqSet"):
        queues[_text(queue, "topic"), _number(queue, "queueId")] = queue
    return _text(body, "consumerGroup"), _text(body, "clientId"), queues


def _membership(data: Mapping[str, object]) -> Membership:
    return Membership(
        _text(data, "groupName"),
        tuple(map(_subscribed, _objects(data, "subscriptionDataSet"))),
        _text(data, "consumeType", "CONSUME_PASSIVELY"),
        _text(data, "messageModel", "CLUSTERING"),
        _text(data, "consumeFromWhere", "CONSUME_FROM_LAST_OFFSET"),
    )


def _subscribed(data: Mapping[str, object]) -> Subscribed:
    kind = FilterType.SQL if data.get("expressionType") == SQL else FilterType.TAG
    return Subscribed(_text(data, "topic"), _text(data, "subString", "*"), kind, _number(data, "subVersion"))


def _subscription(wanted: Subscribed) -> dict[str, object]:
    is_sql = wanted.type is FilterType.SQL
    tags = set() if is_sql else {tag.strip() for tag in wanted.expression.split("||")} - {"", "*"}
    return {
        "classFilterMode": False,
        "codeSet": sorted(map(java_hash, tags)),
        "expressionType": SQL if is_sql else "TAG",
        "subString": wanted.expression,
        "subVersion": wanted.version,
        "tagsSet": sorted(tags),
        "topic": wanted.topic,
    }


def _objects(data: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    items = data.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise FrameError(f"{name} is no list of objects")
    return items


def _text(data: Mapping[str, object], name: str, default: str = "") -> str:
    value = data.get(name, default)
    if not isinstance(value, str):
        raise FrameError(f"{name} is no text")
    return clean(value)


def _number(data: Mapping[str, object], name: str) -> int:
    value = data.get(name, 0)
    if type(value) is not int:
        raise FrameError(f"{name} is no number")
    return value
