"""Bodies of answers about topics, groups, clients and progress; remoting-protocol.md 6.15 to 6.19."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from aiorocketmq._admin.values import ExponentialBackoff, GroupSettings, TopicSettings, TopicType
from aiorocketmq._core.remoting.bodies import parse_queue
from aiorocketmq._core.remoting.json_dialect import JsonValue, loads
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._remoting.routes import READABLE, WRITABLE, as_list, as_object, typed

Settings: TypeAlias = dict[str, JsonValue]
"""Settings as received from a server, to be changed and sent back."""


class Connections(NamedTuple):
    """The clients of a group, and what they declared in common."""

    clients: list[tuple[str, str, str, int]]
    """Client id, address, language and version."""
    model: str
    start: str
    subscriptions: Mapping[str, str]


def milliseconds(moment: datetime) -> int:
    """Return a time in milliseconds since 1970, at least 0; ValueError without a time zone."""
    if moment.tzinfo is None:
        raise ValueError(f"the time {moment} has no time zone; give it one, for example UTC")
    return max(round(moment.timestamp() * 1000), 0)


def instant(value: JsonValue) -> datetime | None:
    """Return the time for milliseconds since 1970; None for 0 and less, by which servers mean "never"."""
    number = typed(value, int)
    try:
        return datetime.fromtimestamp(number / 1000, UTC) if number > 0 else None
    except (OverflowError, OSError):
        raise ValueError(f"{number} is no time") from None


def parse_settings(body: bytes) -> Settings:
    """The settings of one topic."""
    return as_object(loads(body))


def parse_table(body: bytes, key: str) -> dict[str, Settings]:
    """Settings by name, of the table under `key`."""
    table = as_object(as_object(loads(body)).get(key))
    return {name: as_object(settings) for name, settings in table.items()}


def topic_settings(broker: str, settings: Settings, *, knows_types: bool) -> TopicSettings:
    """Return a broker's settings of a topic."""
    permission = typed(settings.get("perm"), int)
    attributes = as_object(settings.get("attributes") or {})
    kind = typed(attributes.get("message.type", "NORMAL"), str) if knows_types else None
    minutes = int(typed(attributes.get("lite.topic.expiration", "0"), str))
    return TopicSettings(
        broker=broker,
        type=TopicType(kind) if kind in {each.value for each in TopicType} else None,
        read_queues=typed(settings.get("readQueueNums"), int),
        write_queues=typed(settings.get("writeQueueNums"), int),
        readable=bool(permission & READABLE),
        writable=bool(permission & WRITABLE),
        lite_expiration=minutes * 60.0 if minutes > 0 else None,
    )


def group_settings(broker: str, settings: Settings) -> GroupSettings:
    """Return a broker's settings of a group."""
    attributes = as_object(settings.get("attributes") or {})
    return GroupSettings(
        broker=broker,
        ordered=typed(settings.get("consumeMessageOrderly", False), bool),
        max_attempts=typed(settings.get("retryMaxTimes", 16), int) + 1,
        backoff=_backoff(as_object(settings.get("groupRetryPolicy") or {})),
        consume_enabled=typed(settings.get("consumeEnable", True), bool),
        lite_topic=typed(attributes.get("lite.bind.topic", ""), str),
    )


def _backoff(policy: Settings) -> tuple[float, ...] | ExponentialBackoff | None:
    if policy.get("type") == "EXPONENTIAL":
        values = as_object(policy.get("exponentialRetryPolicy"))
        initial, maximum = typed(values.get("initial"), int), typed(values.get("max"), int)
        return ExponentialBackoff(initial / 1000, maximum / 1000, typed(values.get("multiplier"), int))
    own = policy.get("customizedRetryPolicy")
    if own is None:
        return None
    return tuple(typed(step, int) / 1000 for step in as_list(as_object(own).get("next")))


def parse_by_queue(body: bytes) -> dict[MessageQueue, Settings]:
    """The figures of each queue in the answers to 202 and 208, sorted."""
    return _by_queue(as_object(loads(body)).get("offsetTable"))


def parse_owned(body: bytes) -> tuple[MessageQueue, ...]:
    """The queues that a member reads, in its answer to 307."""
    return tuple(_by_queue(as_object(loads(body)).get("mqTable") or {}))


def parse_connections(body: bytes) -> Connections:
    """The clients in the answer to 203 or 204."""
    data = as_object(loads(body))
    subscriptions = as_object(data.get("subscriptionTable") or {})
    return Connections(
        clients=[_connection(as_object(each)) for each in as_list(data.get("connectionSet"))],
        model=typed(data.get("messageModel") or "", str),
        start=typed(data.get("consumeFromWhere") or "", str),
        subscriptions={
            topic: typed(as_object(each).get("subString") or "", str) for topic, each in subscriptions.items()
        },
    )


def _connection(data: Settings) -> tuple[str, str, str, int]:
    return (
        typed(data.get("clientId"), str),
        typed(data.get("clientAddr"), str),
        typed(data.get("language"), str),
        typed(data.get("version", 0), int),
    )


def _by_queue(table: JsonValue) -> dict[MessageQueue, Settings]:
    by_queue = {parse_queue(loads(key.encode())): as_object(each) for key, each in as_object(table).items()}
    return dict(sorted(by_queue.items()))
