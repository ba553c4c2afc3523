"""A cluster of brokers on one clock: operations and inspection are about all of them, the rest about the first one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from aiorocketmq_fake.edge.node import Node, Partition
from aiorocketmq_fake.edge.operations import Operations

__all__ = ["Cluster"]


class Cluster(Operations):
    """One broker or several.

    Topics, groups, offsets, users, rates, the clock and all inspection are about the whole cluster. Starting, stopping,
    faults and streams are about the first broker, as they are about one with each of `brokers`.
    """

    def __init__(self, brokers: Sequence[Node]) -> None:
        self.brokers = tuple(brokers)
        """All brokers of the cluster, each for itself."""
        first = self.brokers[0]
        self._drivers = [node._driver for node in self.brokers]
        self._telemetry = first._telemetry
        self.name = first.name
        """The name of the first broker, in routes and receipt handles."""
        self.profile = first.profile
        """How the brokers behave where documents and servers differ."""
        self.faults = first.faults
        """Scripted faults of the first broker: `with broker.faults.drop_reply("AckMessage", times=1): ...`."""
        self.events = first.events
        """All events of the first broker, as they happen."""
        self.tls = first.tls
        """The certificate of the ports; None for plain ones."""
        self.clock = first.clock
        """The clock of all brokers; a manual one is moved here."""

    def broker(self, name: str) -> Node:
        """Return a broker by its name, such as `broker-b`; ValueError for an unknown name."""
        for node in self.brokers:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.brokers)
        raise ValueError(f"broker must be one of {names}, got {name!r}")

    @property
    def endpoint(self) -> str:
        """`host:port` for clients; the port stays the same over `restart`."""
        return self.brokers[0].endpoint

    @property
    def remoting_endpoint(self) -> str | None:
        """`host:port` of the classic protocol, as `Node.remoting_endpoint`; None without one."""
        return self.brokers[0].remoting_endpoint

    def another_proxy(self) -> AbstractAsyncContextManager[str]:
        """Serve the first broker on a second port, as `Node.another_proxy`."""
        return self.brokers[0].another_proxy()

    @property
    def is_running(self) -> bool:
        """Whether the first broker's port accepts calls."""
        return self.brokers[0].is_running

    async def start(self) -> None:
        """Start the first broker, as `Node.start`."""
        await self.brokers[0].start()

    async def stop(self) -> None:
        """Stop the first broker, as `Node.stop`."""
        await self.brokers[0].stop()

    async def crash(self) -> None:
        """Close the port of the first broker at once, as `Node.crash`."""
        await self.brokers[0].crash()

    async def restart(self) -> None:
        """Stop and start the first broker, as `Node.restart`."""
        await self.brokers[0].restart()

    @property
    def is_partitioned(self) -> bool:
        """Whether the first broker is cut off from all its clients."""
        return self.brokers[0].is_partitioned

    def partition(self) -> Partition:
        """Cut the first broker off from all its clients, as `Node.partition`."""
        return self.brokers[0].partition()

    def heal(self) -> None:
        """End a partition; without one, nothing happens."""
        self.brokers[0].heal()

    @property
    def is_paused(self) -> bool:
        """Whether the first broker is paused."""
        return self.brokers[0].is_paused

    def pause(self) -> Partition:
        """Pause the first broker, as `Node.pause`."""
        return self.brokers[0].pause()

    def resume(self) -> None:
        """End a pause; without one, nothing happens."""
        self.brokers[0].resume()
