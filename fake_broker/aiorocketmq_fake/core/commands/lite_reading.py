"""Receives of lite consumers: how they differ from other receives (4.11)."""

from __future__ import annotations

from aiorocketmq_fake.core.commands.lite_subscriptions import LiteSubscriptions, is_lite
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import ReceiveRequest, StoredMessage


class LiteFilter:
    """Filter of the lite topics that a client is subscribed to at the moment."""

    __slots__ = ("_request", "_subscriptions")

    def __init__(self, subscriptions: LiteSubscriptions, request: ReceiveRequest) -> None:
        self._subscriptions = subscriptions
        self._request = request

    def selects(self, message: StoredMessage) -> bool:
        """Return whether the client is subscribed to the message's lite topic."""
        request = self._request
        names = self._subscriptions.names(request.client_id, request.group, request.topic)
        return message.content.lite_topic in names

    def confirms(self, message: StoredMessage) -> bool:
        """Always true: selection is exact."""
        return True


class LiteReading:
    """Decides what a receive of a lite consumer reads."""

    def __init__(self, state: State, topics: LiteTopics, subscriptions: LiteSubscriptions) -> None:
        self._state = state
        self._topics = topics
        self._subscriptions = subscriptions

    def serves(self, request: ReceiveRequest) -> bool:
        """Return whether a receive is a lite consumer's; if so, it is ordered, whatever its group."""
        return is_lite(self._state.clients.get(request.client_id))

    def check(self, request: ReceiveRequest) -> None:
        """Refuse a receive if lite topics are not served or the group is not bound to the topic (R4.30)."""
        profile = self._state.profile
        if profile.lite_service is LiteService.REFUSED:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "Lite topics are not served in this mode.")
        group = self._state.groups.get(request.group)
        if group is None or group.config.lite_bind_topic != request.topic:
            raise Refusal(
                profile.store_refusal_code,
                f"The consumer group {request.group} is not bound to the topic {request.topic}.",
            )

    def filter(self, request: ReceiveRequest) -> LiteFilter:
        """Return the filter of new messages for a parked lite receive."""
        return LiteFilter(self._subscriptions, request)

    def consumption(self, request: ReceiveRequest) -> Consumption:
        """Return the group's progress in the lite topics of the parent."""
        return self._topics.consumption(request.group, self._state.topics[request.topic])

    def queues(self, request: ReceiveRequest) -> list[Queue]:
        """Return the queues to read from, in order."""
        topic = self._state.topics.get(request.topic)
        return [] if topic is None else self._topics.reading(request.client_id, request.group, topic)
