"""Members of groups as classic clients see them: connections that a heartbeat registered, and gRPC clients.

Only connections are notified of changes, and only of those that other connections make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aiorocketmq_fake.core.commands.registry import ensured_group
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.records.clients import Client
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.classic_model import (
    NO_CHANNEL,
    CloseChannel,
    Heartbeat,
    Member,
    MembersChanged,
    Membership,
    MembersOfGroup,
    Subscribed,
)
from aiorocketmq_fake.core.values.codes import ClientType
from aiorocketmq_fake.core.values.events import ClientJoined, ClientLeft
from aiorocketmq_fake.core.values.model import ForChannels
from aiorocketmq_fake.core.values.names import plain_retry_topic

_TYPES = {"CONSUME_ACTIVELY": ClientType.PULL_CONSUMER}
"""Other consumers receive messages without pulling."""
_PROXY_VERSION = 513
"""A proxy declares its own version, that of 5.5.0, for its clients (remoting §9)."""


class Channel(Timer):
    """A connection that has sent a heartbeat; its timer is its expiry."""

    __slots__ = ("beat", "groups", "id", "producers")

    def __init__(self, id_: int, beat: Heartbeat) -> None:
        self.ticket = 0
        self.id = id_
        self.beat = beat
        """The last heartbeat."""
        self.groups: dict[str, ClientType] = {}
        """Its consumer groups, each with its kind of consumer."""
        self.producers: dict[str, None] = {}
        """Its producer groups, in the order of their registration."""


class _Group:
    """A consumer group with at least one member."""

    def __init__(self, membership: Membership) -> None:
        self.channels: dict[int, Channel] = {}
        self.membership = membership


class Members:
    """The registry of members of classic groups."""

    def __init__(self, state: State, storage: Storage) -> None:
        self._state = state
        self._storage = storage
        self._channels: dict[int, Channel] = {}
        self._groups: dict[str, _Group] = {}
        self._turn = 0

    # What clients do

    def beat(self, channel_id: int, beat: Heartbeat) -> None:
        """Register a connection in the groups of its heartbeat, and postpone its expiry."""
        state = self._state
        for membership in beat.consumers:
            state.check_group(membership.group)
        channel = self._channels.setdefault(channel_id, Channel(channel_id, beat))
        channel.beat = beat
        for membership in beat.consumers:
            self._join(channel, membership)
        for group in beat.producers:
            if group not in channel.producers:
                channel.producers[group] = None
                state.events.append(ClientJoined(state.at, beat.client_id, ClientType.PRODUCER, group))
        state.timers.set(channel, state.now + milliseconds(state.profile.client_expiry), self._expire)

    def unregister(self, channel_id: int, consumer_group: str, producer_group: str) -> None:
        """Unregister a connection from a group of each kind; empty and unknown names are ignored."""
        channel = self._channels.get(channel_id)
        if channel is None:
            return
        self._leave(channel, consumer_group, expired=False)
        self._stop_producing(channel, producer_group, expired=False)
        if not channel.groups and not channel.producers:
            self._state.timers.cancel(channel)
            del self._channels[channel_id]

    def close(self, channel_id: int) -> None:
        """Drop a closed connection; unknown ones are ignored."""
        channel = self._channels.get(channel_id)
        if channel is not None:
            self._state.timers.cancel(channel)
            self._forget(channel, expired=False)

    def forget_all(self) -> None:
        """Drop every connection: the broker lost its memory."""
        for channel in self._channels.values():
            self._state.timers.cancel(channel)
        self._channels.clear()
        self._groups.clear()

    # What others ask

    def of_group(self, name: str) -> MembersOfGroup | None:
        """Return a consumer group, None without members."""
        membership = self._membership(name)
        if membership is None:
            return None
        group = self._groups.get(name)
        channels = group.channels.values() if group is not None else ()
        members = (*map(_member, channels), *map(_grpc_member, self._grpc_clients(name)))
        return MembersOfGroup(members, membership)

    def _membership(self, name: str) -> Membership | None:
        group = self._groups.get(name)
        if group is not None:
            return group.membership
        clients = self._grpc_clients(name)
        return _declared_by(name, clients) if clients else None

    def _grpc_clients(self, group: str) -> list[Client]:
        if not self._state.profile.grpc_members_listed:
            return []
        return [client for client in self._state.clients.values() if group in client.groups]

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        """Return the subscription of a group to a topic, None for an unknown group or topic."""
        group_members = self._membership(group)
        subscriptions = group_members.subscriptions if group_members is not None else ()
        return next((each for each in subscriptions if each.topic == topic), None)

    def producers(self, group: str) -> tuple[Member, ...]:
        """Return a producer group; to a gRPC client each topic that it sends to is one."""
        clients = self._state.clients.values() if self._state.profile.grpc_members_listed else ()
        listed = [client for client in clients if group in (client.settings.topics or ())]
        return (*self._connected_producers(group), *map(_grpc_member, listed))

    def _connected_producers(self, group: str) -> tuple[Member, ...]:
        return tuple(_member(each) for each in self._channels.values() if group in each.producers)

    def a_producer(self, group: str) -> Member | None:
        """Choose in turn among the connections of a producer group."""
        members = self._connected_producers(group)
        if not members:
            return None
        self._turn += 1
        return members[self._turn % len(members)]

    # Inside

    def _join(self, channel: Channel, membership: Membership) -> None:
        state = self._state
        name = membership.group
        ensured_group(state, name)
        self._storage.system_topic(plain_retry_topic(name))
        group = self._groups.setdefault(name, _Group(membership))
        before = {old.topic: old for old in group.membership.subscriptions}
        newest = tuple(
            max(each, before.get(each.topic, each), key=lambda one: one.version)
            for each in membership.subscriptions
        )
        group.membership = replace(membership, subscriptions=newest)
        is_new = channel.id not in group.channels
        if is_new:
            kind = _TYPES.get(membership.consume_type, ClientType.PUSH_CONSUMER)
            group.channels[channel.id] = channel
            channel.groups[name] = kind
            state.events.append(ClientJoined(state.at, channel.beat.client_id, kind, name))
        if is_new or before.keys() != {each.topic for each in newest}:
            self._notify(name)

    def _leave(self, channel: Channel, name: str, *, expired: bool) -> None:
        kind = channel.groups.pop(name, None)
        if kind is None:
            return
        state = self._state
        state.events.append(ClientLeft(state.at, channel.beat.client_id, kind, name, expired))
        group = self._groups[name]
        del group.channels[channel.id]
        if group.channels:
            self._notify(name)
        else:
            del self._groups[name]

    def _stop_producing(self, channel: Channel, group: str, *, expired: bool) -> None:
        if group in channel.producers:
            del channel.producers[group]
            state, client_id = self._state, channel.beat.client_id
            state.events.append(ClientLeft(state.at, client_id, ClientType.PRODUCER, group, expired))

    def _notify(self, name: str) -> None:
        """Notify every connection of a group, new ones included; members of a broadcast share nothing."""
        group = self._groups[name]
        if group.membership.message_model != "BROADCASTING":
            self._state.outputs.append(ForChannels(tuple(group.channels), MembersChanged(name)))

    def _expire(self, channel: Channel) -> None:
        self._forget(channel, expired=True)
        self._state.outputs.append(ForChannels((channel.id,), CloseChannel()))

    def _forget(self, channel: Channel, *, expired: bool) -> None:
        del self._channels[channel.id]
        for name in list(channel.groups):
            self._leave(channel, name, expired=expired)
        for name in list(channel.producers):
            self._stop_producing(channel, name, expired=expired)


def _grpc_member(client: Client) -> Member:
    return Member(NO_CHANNEL, client.id, client.settings.language, _PROXY_VERSION, client.settings.address)


def _declared_by(group: str, clients: Iterable[Client]) -> Membership:
    """Return the subscriptions of a group without classic members: the newest declaration for each topic."""
    subscriptions = {
        topic: Subscribed(topic, expression.expression, expression.type, client.last_seen)
        for client in clients
        if client.group == group and client.settings.subscription is not None
        for topic, expression in client.settings.subscription.filters
    }
    return Membership(group, tuple(subscriptions.values()))


def _member(channel: Channel) -> Member:
    beat = channel.beat
    return Member(channel.id, beat.client_id, beat.language, beat.version, beat.address)
