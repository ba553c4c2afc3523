"""Bodies of requests about consumer groups, and of their answers; remoting-protocol.md 6.2 to 6.20."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from aiorocketmq._core.remoting.json_dialect import JsonValue, loads
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._core.tags import parse_tags

CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"


def heartbeat_body(
    client_id: str, *, consumers: Sequence[JsonValue] = (), producers: Sequence[str] = ()
) -> bytes:
    """Return the body of a heartbeat: the groups that a client consumes for, and those that it produces for."""
    data = {
        "clientID": client_id,
        "consumerDataSet": [*consumers],
        "producerDataSet": [{"groupName": group} for group in producers],
        "heartbeatFingerprint": 0,
        "withoutSub": False,
    }
    return json.dumps(data).encode()


def consumer_data(
    group: str,
    subscriptions: Mapping[str, FilterText],
    *,
    model: str,
    from_where: str,
    version: int,
    is_push: bool = False,
) -> dict[str, JsonValue]:
    """A consumer in a heartbeat: its whole subscription, which replaces that of its group.

    `version` is when the subscription was made, in milliseconds since 1970: brokers keep a topic's newest. `is_push`
    distinguishes a push consumer from a pull consumer; both pull."""
    return {
        "consumeFromWhere": from_where,
        "consumeType": "CONSUME_PASSIVELY" if is_push else "CONSUME_ACTIVELY",
        "groupName": group,
        "messageModel": model,
        "subscriptionDataSet": [
            subscription(topic, filter_text, version=version) for topic, filter_text in subscriptions.items()
        ],
        "unitMode": False,
    }


def subscription(topic: str, wanted: FilterText, *, version: int) -> dict[str, JsonValue]:
    """One topic with its filter, as in heartbeats and checks of filters."""
    tags = [] if wanted.is_sql else sorted(parse_tags(wanted.expression))
    return {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags],
        "expressionType": "SQL92" if wanted.is_sql else "TAG",
        "subString": wanted.expression,
        "subVersion": version,
        "tagsSet": [*tags],
        "topic": topic,
    }


def check_body(client_id: str, group: str, topic: str, wanted: FilterText) -> bytes:
    """A filter for a broker to check."""
    data = {"clientId": client_id, "group": group, "subscriptionData": subscription(topic, wanted, version=0)}
    return json.dumps(data).encode()


def java_hash(text: str) -> int:
    """The hash by which brokers compare tags: of UTF-16 units, as a signed 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def parse_consumers(body: bytes) -> tuple[str, ...]:
    """Return the client ids of a group's members in the answer to request 38, sorted; ValueError if malformed.

    Servers list a member once for each of its connections: after a network failure, the old one counts in addition to
    the new one until it expires, which takes two minutes. Counted twice, a member would leave queues without an
    owner."""
    data = loads(body)
    client_ids = data.get("consumerIdList") if isinstance(data, dict) else None
    if not isinstance(client_ids, list) or not all(isinstance(each, str) for each in client_ids):
        raise ValueError("a list of client ids expected")
    return tuple(sorted({str(each) for each in client_ids}))


def lock_body(client_id: str, group: str, queues: Iterable[MessageQueue]) -> bytes:
    """The queues to lock, or to unlock."""
    data = {
        "clientId": client_id,
        "consumerGroup": group,
        "mqSet": [_queue_data(queue) for queue in queues],
        "onlyThisBroker": False,
    }
    return json.dumps(data).encode()


def parse_locked(body: bytes) -> frozenset[MessageQueue]:
    """Return the queues that are locked in the answer to request 41; ValueError if malformed."""
    data = loads(body)
    locked = data.get("lockOKMQSet") if isinstance(data, dict) else None
    if not isinstance(locked, list):
        raise ValueError("a list of queues expected")
    return frozenset(map(parse_queue, locked))


def parse_offsets(body: bytes) -> dict[MessageQueue, int]:
    """The offsets by queue that a server resets, or that a broadcast consumer keeps; ValueError if malformed."""
    data = loads(body)
    table = data.get("offsetTable") if isinstance(data, dict) else None
    if not isinstance(table, dict):
        raise ValueError("offsets by queue expected")
    offsets = {parse_queue(loads(key.encode())): value for key, value in table.items()}
    if not all(type(value) is int and -(2**63) <= value < 2**63 for value in offsets.values()):
        raise ValueError("an offset is no whole number of 64 bits")
    return {queue: value for queue, value in offsets.items() if isinstance(value, int)}


def running_info(positions: Mapping[MessageQueue, int], *, version: str, started_ms: int) -> bytes:
    """The running info of a member for administrators: its position in each queue."""
    properties = {
        "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
        "PROP_CLIENT_VERSION": version,
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
    }
    table = {_queue_text(queue): {"commitOffset": offset} for queue, offset in positions.items()}
    return json.dumps({"properties": properties, "subscriptionSet": [], "mqTable": table}).encode()


def status(positions: Mapping[MessageQueue, int]) -> bytes:
    """The position of a member in each queue, for servers that use the older request."""
    table = {_queue_text(queue): offset for queue, offset in positions.items()}
    return json.dumps({"messageQueueTable": table, "consumerTable": {}}).encode()


def _queue_text(queue: MessageQueue) -> str:
    """A queue as the key of a table."""
    return json.dumps(_queue_data(queue), separators=(",", ":"))


def offset_file(offsets: Mapping[MessageQueue, int]) -> str:
    """The file with a broadcast consumer's progress, as Java's clients from 5.0 on write it."""
    if not offsets:
        return '{\n\t"offsetTable":{}\n}'
    entries = (
        f'\t\t{{\n\t\t\t"brokerName":{json.dumps(queue.broker)},\n\t\t\t"queueId":{queue.id},\n'
        f'\t\t\t"topic":{json.dumps(queue.topic)}\n\t\t}}:{offset}'
        for queue, offset in sorted(offsets.items())
    )
    return '{\n\t"offsetTable":{\n' + ",\n".join(entries) + "\n\t}\n}"


def _queue_data(queue: MessageQueue) -> dict[str, JsonValue]:
    return {"brokerName": queue.broker, "queueId": queue.id, "topic": queue.topic}


def parse_queue(value: JsonValue) -> MessageQueue:
    """The queue that an object describes; ValueError if it is none."""
    if isinstance(value, dict):
        topic, broker, number = value.get("topic"), value.get("brokerName"), value.get("queueId")
        if isinstance(topic, str) and isinstance(broker, str) and type(number) is int:
            return MessageQueue(topic, broker, number)
    raise ValueError("a queue expected")
