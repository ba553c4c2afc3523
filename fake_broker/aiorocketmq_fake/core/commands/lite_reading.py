"""Reading lite topics: what differs from other receives (4.11)."""

from __future__ import annotations

from aiorocketmq_fake.core.commands.lite_subscriptions import LiteSubscriptions, is_lite
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import ReceiveRequest, StoredMessage


class LiteWanted:
    """Accepts the messages of the lite topics that a client wants at the moment."""

    __slots__ = ("_request", "_subscriptions")

    def __init__(self, subscriptions: LiteSubscriptions, request: ReceiveRequest) -> None:
        self._subscriptions = subscriptions
        self._request = request

    def selects(self, message: StoredMessage) -> bool:
        """Look into the subscription."""
        request = self._request
        names = self._subscriptions.names(request.client_id, request.group, request.topic)
        return message.content.lite_topic in names

    def confirms(self, message: StoredMessage) -> bool:
        """Selected is meant."""
        return True


class LiteReading:
    """What a receive of a lite consumer reads, and how."""

    def __init__(self, state: State, topics: LiteTopics, subscriptions: LiteSubscriptions) -> None:
        self._state = state
        self._topics = topics
        self._subscriptions = subscriptions

    def serves(self, request: ReceiveRequest) -> bool:
        """Tell whether a receive is a lite consumer's; it is ordered then, whatever its group."""
        return is_lite(self._state.clients.get(request.client_id))

    def check(self, request: ReceiveRequest) -> None:
        """Refuse a lite consumer what is not served, or what its group is not bound to (R4.30)."""
        profile = self._state.profile
        if profile.lite_service is LiteService.REFUSED:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "Lite topics are not served in this mode.")
        group = self._state.groups.get(request.group)
        if group is None or group.config.lite_bind_topic != request.topic:
            raise Refusal(
                profile.store_refusal_code,
                f"The consumer group {request.group} is not bound to the topic {request.topic}.",
            )

    def wanted(self, request: ReceiveRequest) -> LiteWanted:
        """Make the filter that says which new messages concern a lite consumer that waits."""
        return LiteWanted(self._subscriptions, request)

    def consumption(self, request: ReceiveRequest) -> Consumption:
        """Look the group's way through the lite topics of the parent up."""
        return self._topics.consumption(request.group, self._state.topics[request.topic])

    def queues(self, request: ReceiveRequest) -> list[Queue]:
        """Order the queues to read from."""
        topic = self._state.topics.get(request.topic)
        return [] if topic is None else self._topics.reading(request.client_id, request.group, topic)
