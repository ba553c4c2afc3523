"""A broker that leads others: topics and groups are made on all of them, and one look shows what all of them hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TypeVar

from aiorocketmq_fake.core.values.snapshots import OrderSnapshot, Totals
from aiorocketmq_fake.edge.node import Node
from aiorocketmq_fake.views import Client, DeliveredMessage, Group, HalfMessage, Lease, Message, Progress

__all__ = ["Cluster"]

R = TypeVar("R")


class Cluster(Node):
    """The first broker of a cluster, perhaps the only one.

    What makes and deletes topics and groups, moves offsets and the clock, and all inspection is about the whole
    cluster. Starting, stopping, faults and streams are about this one broker, as with each of `brokers`, which speak
    for themselves only.
    """

    _others: tuple[Node, ...] = ()

    @property
    def brokers(self) -> tuple[Node, ...]:
        """All brokers of the cluster, each for itself; the first one is this one, alone."""
        if not self._others:
            return (self,)
        alone = Node.__new__(Node)
        # The same broker, but what is said to it means no other.
        alone.__dict__ = self.__dict__
        return (alone, *self._others)

    def broker(self, name: str) -> Node:
        """Return a broker by its name, such as `broker-b`; ValueError where none is called so."""
        for node in self.brokers:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.brokers)
        raise ValueError(f"no broker is called {name!r}: use one of {names}.")

    async def _do(self, command: Callable[..., R], *arguments: object, **keywords: object) -> R:
        """Run a command on every broker; the answer is this one's, or where it is a list, that of all."""
        answer = await super()._do(command, *arguments, **keywords)
        for node in self._others:
            other = await node._do(getattr(node._core, command.__name__), *arguments, **keywords)
            if isinstance(answer, tuple):
                answer = (*answer, *other)  # type: ignore[assignment]  # of the same kind
        return answer

    # What is in them

    def deliveries(
        self, topic: str | None = None, *, group: str | None = None
    ) -> tuple[DeliveredMessage, ...]:
        """Return what was handed out so far, oldest first."""
        found = super().deliveries(topic, group=group)
        if not self._others:
            return found
        every = [*found, *_of_all(node.deliveries(topic, group=group) for node in self._others)]
        return tuple(sorted(every, key=lambda delivery: delivery.at))

    def dead_letters(self, group: str) -> tuple[Message, ...]:
        """Return what the group has given up, broker by broker, oldest first."""
        return (*super().dead_letters(group), *_of_all(node.dead_letters(group) for node in self._others))

    def messages(self, topic: str) -> tuple[Message, ...]:
        """Return what is stored in a topic, by broker, queue and offset."""
        return (*super().messages(topic), *_of_all(node.messages(topic) for node in self._others))

    def half_messages(self, topic: str | None = None) -> tuple[HalfMessage, ...]:
        """Return the messages whose transactions are open, broker by broker."""
        found = _of_all(node.half_messages(topic) for node in self._others)
        return (*super().half_messages(topic), *found)

    def lite_topics(self, topic: str) -> dict[str, int]:
        """Return the lite topics below a parent, by name, with the number of messages in each on all brokers."""
        counts = Counter(super().lite_topics(topic))
        for node in self._others:
            counts.update(node.lite_topics(topic))
        return dict(sorted(counts.items()))

    def groups(self) -> tuple[Group, ...]:
        """Return all consumer groups by name, each with its clients at any broker."""
        members: dict[str, set[str]] = {}
        for node in self._others:
            for group in node.groups():
                members.setdefault(group.name, set()).update(group.client_ids)
        return tuple(
            replace(group, client_ids=tuple(sorted({*group.client_ids, *members.get(group.name, ())})))
            for group in super().groups()
        )

    def clients(self) -> tuple[Client, ...]:
        """Return all clients whose settings are stored at any broker, by id."""
        known = {client.client_id: client for node in self._others for client in node.clients()}
        known |= {client.client_id: client for client in super().clients()}
        return tuple(known[client_id] for client_id in sorted(known))

    def leases(self, group: str | None = None) -> tuple[Lease, ...]:
        """Return the messages that are in the hands of consumers, broker by broker."""
        return (*super().leases(group), *_of_all(node.leases(group) for node in self._others))

    def progress(self, group: str | None = None) -> tuple[Progress, ...]:
        """Return how far groups have come, by broker, group, topic and queue."""
        return (*super().progress(group), *_of_all(node.progress(group) for node in self._others))

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """Return what ordered groups wait for, broker by broker."""
        return (*super().order_records(group), *_of_all(node.order_records(group) for node in self._others))

    def totals(self) -> Totals:
        """Count what the brokers hold together."""
        every = [super().totals(), *(node.totals() for node in self._others)]
        names = [field.name for field in fields(Totals) if field.name != "by_topic"]
        by_topic: dict[str, int] = {}
        for totals in every:
            for topic, count in totals.by_topic.items():
                by_topic[topic] = by_topic.get(topic, 0) + count
        return Totals(**{name: sum(getattr(one, name) for one in every) for name in names}, by_topic=by_topic)


def _of_all(parts: Iterable[Iterable[R]]) -> Iterable[R]:
    return (item for part in parts for item in part)
