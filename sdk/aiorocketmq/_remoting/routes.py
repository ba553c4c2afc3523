"""Routes and clusters as name servers describe them; remoting-protocol.md 6.1 and 6.18."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from aiorocketmq._core.bounds import ALL_QUEUES, MAX_QUEUES, check_queue
from aiorocketmq._core.endpoint import Address, endpoint_of
from aiorocketmq._core.remoting.json_dialect import JsonValue, loads

T = TypeVar("T")

READABLE = 4
WRITABLE = 2
MASTER = 0
"""The id of a broker name's master among its addresses; the others are slaves."""


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """One broker name with its addresses."""

    name: str
    cluster: str
    addresses: Mapping[int, Address]
    """By broker id; `MASTER` accepts changes."""

    @property
    def master(self) -> Address | None:
        """The address for changes; None while the master is unavailable."""
        return self.addresses.get(MASTER)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The number and permissions of a topic's queues on one broker."""

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
    """The route in the answer to GET_ROUTEINFO_BY_TOPIC; ValueError when it is none.

    Of a broker that is listed twice, the first entry counts: two of its queues would have one name."""
    data = as_object(loads(body))
    queues: dict[str, QueueCounts] = {}
    brokers: dict[str, BrokerAddresses] = {}
    for counts in map(_queue_counts, map(as_object, as_list(data.get("queueDatas")))):
        queues.setdefault(counts.broker, counts)
    for broker in map(_broker, map(as_object, as_list(data.get("brokerDatas")))):
        brokers.setdefault(broker.name, broker)
    route = Route(tuple(queues.values()), tuple(brokers.values()))
    count = sum(max(each.readable, each.writable, 0) for each in route.queues)
    if count > MAX_QUEUES:
        raise ValueError(f"it has {count} queues, and at most {MAX_QUEUES} are taken")
    return route


def parse_cluster(body: bytes) -> tuple[BrokerAddresses, ...]:
    """All brokers in the answer to GET_BROKER_CLUSTER_INFO; ValueError when it is none."""
    table = as_object(as_object(loads(body)).get("brokerAddrTable"))
    return tuple(_broker(as_object(each)) for each in table.values())


def parse_names(body: bytes, key: str) -> tuple[str, ...]:
    """The texts of the list under `key`, sorted; ValueError when it is none."""
    names = as_list(as_object(loads(body)).get(key) or [])
    return tuple(sorted(typed(name, str) for name in names))


def _queue_counts(data: dict[str, JsonValue]) -> QueueCounts:
    return QueueCounts(
        broker=_broker_name(data),
        readable=typed(data.get("readQueueNums"), int),
        writable=typed(data.get("writeQueueNums"), int),
        permission=typed(data.get("perm"), int),
    )


def _broker(data: dict[str, JsonValue]) -> BrokerAddresses:
    return BrokerAddresses(
        name=_broker_name(data),
        cluster=typed(data.get("cluster"), str),
        addresses={
            int(number): _address(typed(text, str))
            for number, text in as_object(data.get("brokerAddrs")).items()
        },
    )


def _broker_name(data: dict[str, JsonValue]) -> str:
    name = typed(data.get("brokerName"), str)
    check_queue(name, ALL_QUEUES)
    return name


def _address(text: str) -> Address:
    # Servers write IPv6 hosts without brackets; the port is what follows the last colon.
    host, _, port = text.rpartition(":")
    address = Address(host.strip("[]"), int(port))
    endpoint_of((address,))  # what no connection can be made to
    return address


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """`value` if it is an object; ValueError if not."""
    return typed(value, dict)


def as_list(value: JsonValue) -> list[JsonValue]:
    """`value` if it is a list; ValueError if not."""
    return typed(value, list)


def typed(value: JsonValue, kind: type[T]) -> T:
    """Return `value` if it is of this type; ValueError if not. Numbers have at most 64 bits, True and False are
    none."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{kind.__name__} expected, not {type(value).__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a number of at most 64 bits expected")
    return value
