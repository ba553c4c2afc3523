"""Subscriptions to lite topics, which clients repeat from time to time (R4.33, R4.34)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aiorocketmq_fake.core.commands.registry import check_session_group
from aiorocketmq_fake.core.records.clients import Client
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.codes import ClientType, Code, LiteAction, Refusal, TopicType
from aiorocketmq_fake.core.values.events import LiteSubscribed
from aiorocketmq_fake.core.values.model import (
    CommandForClient,
    GroupConfig,
    LiteStart,
    LiteSyncRequest,
    NotifyUnsubscribeLite,
)
from aiorocketmq_fake.core.values.names import check_lite_topic

Key = tuple[str, str, str]
"""Client, group, parent topic."""
Start = Callable[[str, Topic, str, "LiteStart | None"], None]
"""Starts a group in a lite topic."""

LITE_CLIENTS = frozenset({ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER})


class Subscription(Timer):
    """The lite topics that one client is subscribed to; its timer is the expiry without a sync."""

    __slots__ = ("key", "names")

    def __init__(self, key: Key) -> None:
        self.ticket = 0
        self.key = key
        # A dict keeps the order of subscribing.
        self.names: dict[str, None] = {}


def is_lite(client: Client | None) -> bool:
    """Return whether a client consumes lite topics."""
    return client is not None and client.settings.client_type in LITE_CLIENTS


def lite_quota(config: GroupConfig, default: int) -> int:
    """Return how many lite topics a client of a group may subscribe to."""
    return config.lite_quota or default


def next_scan(state: State, at: int) -> int:
    """Return when an expiry takes effect: at its time, or at the next scan."""
    step = milliseconds(state.profile.lite_scan)
    return -(-at // step) * step if step else at


class LiteSubscriptions:
    """The subscriptions of all clients."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._subscriptions: dict[Key, Subscription] = {}

    def serve(self, start: Start) -> None:
        """Set the function that starts groups in lite topics."""
        self._start = start

    def sync(self, request: LiteSyncRequest) -> None:
        """Change or replace a client's subscriptions (R4.33)."""
        topic, config = self._check(request)
        key = (request.client_id, request.group, request.topic)
        subscription = self._subscriptions.get(key) or Subscription(key)
        names = self._wanted(subscription, request)
        self._check_quota(config, request, names)
        added = [name for name in names if name not in subscription.names]
        subscription.names = dict.fromkeys(names)
        self._keep(subscription)
        for name in added:
            self._start(request.group, topic, name, request.start)
            if config.lite_exclusive:
                self._evict(key, name)
        if added:
            self._changed(topic.name, request.group)

    def on_change(self, changed: Callable[[str, str], None]) -> None:
        """Set the callback for new subscriptions of a group below a parent topic."""
        self._changed = changed

    def names(self, client_id: str, group: str, topic_name: str) -> Iterable[str]:
        """Return the lite topics that a client is subscribed to."""
        subscription = self._subscriptions.get((client_id, group, topic_name))
        return () if subscription is None else tuple(subscription.names)

    def withdraw(self, topic_name: str, name: str) -> None:
        """Unsubscribe all clients from a lite topic, and notify them."""
        for subscription in list(self._subscriptions.values()):
            if subscription.key[2] == topic_name and name in subscription.names:
                self._take(subscription, name)

    def forget_client(self, client_id: str) -> None:
        """Drop the subscriptions of a client."""
        self._forget(lambda key: key[0] == client_id)

    def forget_group(self, group: str) -> None:
        """Drop the subscriptions of a deleted group."""
        self._forget(lambda key: key[1] == group)

    def forget_topic(self, topic_name: str) -> None:
        """Drop the subscriptions below a deleted parent topic."""
        self._forget(lambda key: key[2] == topic_name)

    def forget_all(self) -> None:
        """Drop all subscriptions: the proxy lost its memory (R12.7)."""
        self._forget(lambda key: True)

    # Checks

    def _check(self, request: LiteSyncRequest) -> tuple[Topic, GroupConfig]:
        state = self._state
        state.check_topic(request.topic)
        state.check_group(request.group)
        check_session_group(state, request.group)
        if state.profile.lite_service is LiteService.REFUSED:
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "Lite topics are not served in this mode.")
        for name in request.names:
            check_lite_topic(name)
        topic, group = state.topics.get(request.topic), state.groups.get(request.group)
        if topic is None or topic.config.type is not TopicType.LITE:
            raise Refusal(Code.ILLEGAL_TOPIC, f"The topic {request.topic} has no lite topics.")
        if group is None or group.config.lite_bind_topic != request.topic:
            raise Refusal(
                Code.ILLEGAL_TOPIC, f"The consumer group {request.group} is not bound to {request.topic}."
            )
        if request.action is None:
            raise Refusal(state.profile.store_refusal_code, "The action on lite subscriptions is unknown.")
        return topic, group.config

    def _wanted(self, subscription: Subscription, request: LiteSyncRequest) -> list[str]:
        match request.action:
            case LiteAction.PARTIAL_ADD:
                return list(dict.fromkeys([*subscription.names, *request.names]))
            case LiteAction.PARTIAL_REMOVE:
                return [name for name in subscription.names if name not in request.names]
            case LiteAction.COMPLETE_ADD:
                return list(dict.fromkeys(request.names))
            case _:
                return []

    def _check_quota(self, config: GroupConfig, request: LiteSyncRequest, names: list[str]) -> None:
        profile = self._state.profile
        quota = lite_quota(config, profile.lite_subscription_quota) + profile.lite_quota_margin
        count = len(request.names) if profile.lite_quota_per_request else len(names)
        adds = request.action in (LiteAction.PARTIAL_ADD, LiteAction.COMPLETE_ADD)
        if adds and count > quota:
            raise Refusal(
                Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, f"{count} lite topics are more than {quota}."
            )

    # Changes

    def _keep(self, subscription: Subscription) -> None:
        state = self._state
        if not subscription.names:
            self._end(subscription)
            return
        self._subscriptions[subscription.key] = subscription
        end = state.now + milliseconds(state.profile.lite_subscription_life)
        state.timers.set(subscription, next_scan(state, end), self._end)
        self._tell(subscription)

    def _tell(self, subscription: Subscription) -> None:
        state = self._state
        state.events.append(LiteSubscribed(state.at, *subscription.key, tuple(subscription.names)))

    def _evict(self, key: Key, name: str) -> None:
        """Unsubscribe the other clients of the group from a lite topic: it has one consumer at a time (R4.34)."""
        for other in list(self._subscriptions.values()):
            if other.key != key and other.key[1:] == key[1:] and name in other.names:
                self._take(other, name)

    def _take(self, subscription: Subscription, name: str) -> None:
        del subscription.names[name]
        self._tell(subscription)
        self._state.outputs.append(CommandForClient(subscription.key[0], NotifyUnsubscribeLite(name)))

    def _forget(self, goes: Callable[[Key], bool]) -> None:
        for subscription in [each for key, each in self._subscriptions.items() if goes(key)]:
            self._end(subscription)

    def _end(self, subscription: Subscription) -> None:
        """End the subscriptions of a client that did not repeat them, unsubscribed or disconnected."""
        self._subscriptions.pop(subscription.key, None)
        self._state.timers.cancel(subscription)
        subscription.names = {}
        self._tell(subscription)
