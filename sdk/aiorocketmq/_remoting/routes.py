"""Routes and clusters as name servers describe them; remoting-protocol.md 6.1 and 6.18."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from aiorocketmq._core.bounds import MAX_QUEUES
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.json_dialect import JsonValue, loads

T = TypeVar("T")

READABLE = 4
WRITABLE = 2
MASTER = 0
"""The id of a broker name's master among its addresses; the others are slaves."""


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """One broker name with the addresses that stand behind it."""

    name: str
    cluster: str
    addresses: Mapping[int, Address]
    """By broker id; `MASTER` is the one that takes changes."""

    @property
    def master(self) -> Address | None:
        """Where changes go; None while the master is away."""
        return self.addresses.get(MASTER)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many queues a topic has on one broker, and what may be done with them."""

    broker: str
    readable: int
    writable: int
    permission: int
    """Bits: 4 read, 2 write."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic lives."""

    queues: tuple[QueueCounts, ...]
    brokers: tuple[BrokerAddresses, ...]


def parse_route(body: bytes) -> Route:
    """The route in the answer to GET_ROUTEINFO_BY_TOPIC; ValueError when it is none."""
    data = _object(loads(body))
    route = Route(
        queues=tuple(_queue_counts(_object(each)) for each in _list(data.get("queueDatas"))),
        brokers=tuple(_broker(_object(each)) for each in _list(data.get("brokerDatas"))),
    )
    count = sum(max(each.readable, each.writable, 0) for each in route.queues)
    if count > MAX_QUEUES:
        raise ValueError(f"it has {count} queues, and at most {MAX_QUEUES} are taken")
    return route


def parse_cluster(body: bytes) -> tuple[BrokerAddresses, ...]:
    """All brokers in the answer to GET_BROKER_CLUSTER_INFO; ValueError when it is none."""
    table = _object(_object(loads(body)).get("brokerAddrTable"))
    return tuple(_broker(_object(each)) for each in table.values())


def parse_names(body: bytes, key: str) -> tuple[str, ...]:
    """The texts of the list under `key`, or the keys of the object there, sorted."""
    found = _object(loads(body)).get(key) or []
    return tuple(sorted(_typed(name, str) for name in found)) if isinstance(found, list | dict) else ()


def parse_members(body: bytes) -> list[tuple[str, str, str]]:
    """Client id, address and language of each consumer in the answer to request 203; ValueError where it is none."""
    connections = _list(_object(loads(body)).get("connectionSet"))
    members = [_object(each) for each in connections]
    return [
        (
            _typed(each.get("clientId"), str),
            _typed(each.get("clientAddr"), str),
            _typed(each.get("language"), str),
        )
        for each in members
    ]


def _queue_counts(data: dict[str, JsonValue]) -> QueueCounts:
    return QueueCounts(
        broker=_typed(data.get("brokerName"), str),
        readable=_typed(data.get("readQueueNums"), int),
        writable=_typed(data.get("writeQueueNums"), int),
        permission=_typed(data.get("perm"), int),
    )


def _broker(data: dict[str, JsonValue]) -> BrokerAddresses:
    return BrokerAddresses(
        name=_typed(data.get("brokerName"), str),
        cluster=_typed(data.get("cluster"), str),
        addresses={
            int(number): _address(_typed(text, str))
            for number, text in _object(data.get("brokerAddrs")).items()
        },
    )


def _address(text: str) -> Address:
    # Servers write IPv6 hosts without brackets; the port is what follows the last colon.
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return _typed(value, dict)


def _list(value: JsonValue) -> list[JsonValue]:
    return _typed(value, list)


def _typed(value: JsonValue, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise ValueError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value
