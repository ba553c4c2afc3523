"""The whole answers of the classic protocol: code, fields and body, as clients and tools of any language read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aiorocketmq._core.remoting.bodies import check_body, lock_body
from aiorocketmq._core.remoting.frame import CLIENT_VERSION, Frame
from aiorocketmq._core.remoting.json_dialect import loads
from aiorocketmq._core.remoting.records import read_records
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import RequestCode, ResponseCode, response_name

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.remoting import pull_fields, send_fields

QUEUES = 3
SENT: tuple[str, ...] = ("m0", "m1", "m2")
COMMITTED = 2
INDEXED = 1.5
"""Seconds after which servers surely find messages by their keys."""
FAR = 1 << 42
"""Beyond every time in milliseconds, and every position in a log."""
Fields = dict[str, object]
NAME_SERVER = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)
"""Requests to it; all others are for the broker."""
TRACED: Mapping[str, object] = {"MSG_REGION": str, "TRACE_ON": "true"}
"""Of every answer to a send that a broker has looked at."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and what it must be answered with; a type stands for any value of it."""

    request: RequestCode
    fields: Mapping[str, object] = field(default_factory=dict)
    code: ResponseCode = ResponseCode.SUCCESS
    gives: Mapping[str, object] = field(default_factory=dict)
    """Fields of the answer."""
    body: object = None
    """The answer's JSON, whose lists are in no order, or the bodies of its messages as a tuple."""
    sent: bytes = b""
    """The body of the request."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the requests are about."""

    reader: RemotingReader
    broker: str
    first_id: str
    """The id of the first message."""
    position: int
    """Where the second message is in the broker's log."""
    version: int
    """Of the subscription."""
    unknown: str
    """The name of no topic and no group."""
    stored: tuple[int, ...]
    """The store time of each message, milliseconds since 1970."""

    def queue(self, number: int) -> dict[str, object]:
        """Return a queue of the topic, as JSON."""
        return {"brokerName": self.broker, "queueId": number, "topic": self.reader.topic}

    def by_queue(self, first: object, others: object) -> dict[str, object]:
        """Return a table by queues, with one value for the first queue and one for each other."""
        keys = [json.dumps(self.queue(number), separators=(",", ":")) for number in range(QUEUES)]
        return {key: first if key == keys[0] else others for key in keys}


@case(
    "remoting.answers",
    rules=("remoting-protocol.md 6", "remoting-protocol.md 7"),
    level=EXTENSION,
    # Servers before 5.3, which cannot recall, answer some of it otherwise.
    needs=(*REMOTING, "recall"),
    timeout=120.0,
)
async def answers(fixture: Fixture) -> None:
    """Each request of clients and tools is answered with the code, and with every field and entry of the body, that
    servers give; so is one that names an unknown topic, group, member, queue, key or position."""
    reader = await over_remoting(fixture, topic=await fixture.topic(QUEUES))
    topic, group, probe = reader.topic, reader.group, reader.probe
    ids = [fixture.fresh("id") for _ in SENT]
    receipts = []
    for text, id_ in zip(SENT, ids, strict=True):
        receipts.append(
            await probe.send(topic, text.encode(), {"UNIQ_KEY": id_, "KEYS": f"{text} all", "TAGS": "A"})
        )
        await fixture.clock.sleep(0.01)
    assert {receipt.code for receipt in receipts} == {ResponseCode.SUCCESS}
    version = await probe.join(group, topic, filter_text=FilterText("A || B"))
    await probe.produce(group, topic)
    await reader.wait_visible(len(SENT))
    await fixture.clock.sleep(INDEXED)
    await reader.commit(COMMITTED)
    # Another group: servers remember how far one has pulled.
    stored = (await probe.pull(topic, await fixture.group(), 0)).records
    scene = _Scene(
        reader,
        (await probe.broker_of(topic)).name,
        ids[0],
        int(receipts[1].fields["msgId"][-16:], 16),
        version,
        fixture.fresh("unknown"),
        tuple(record.stored_ms for record in stored),
    )
    wrong = [
        f"{exchange.request.name} {dict(exchange.fields)}: {text}"
        for part in (_queues, _members, _messages, _settings, _sends, _leaving)
        for exchange in part(scene)
        for text in _wrong(exchange, await _ask(reader, exchange))
    ]
    assert not wrong, "; ".join(wrong)


def _queues(scene: _Scene) -> Iterator[Exchange]:
    """Yield what asks for the ends of queues, and for progress in them."""
    topic, group = scene.reader.topic, scene.reader.group
    queue, empty, unknown = (
        {"topic": name, "queueId": id_} for name, id_ in ((topic, 0), (topic, 2), (scene.unknown, 0))
    )
    for place, end, oldest in ((queue, len(SENT), scene.stored[0]), (empty, 0, -1), (unknown, 0, -1)):
        yield Exchange(RequestCode.GET_MAX_OFFSET, place, gives={"offset": end})
        yield Exchange(RequestCode.GET_MIN_OFFSET, place, gives={"offset": 0})
        yield Exchange(RequestCode.GET_EARLIEST_MSG_STORETIME, place, gives={"timestamp": oldest})
        for time, offset in ((0, 0), (FAR, end)):
            yield Exchange(
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**place, "timestamp": time}, gives={"offset": offset}
            )
    committed, missing = ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND
    for place, code in ((queue, committed), (empty, missing), (unknown, missing)):
        fields = {**place, "consumerGroup": group, "setZeroIfNotFound": "false"}
        gives = {"offset": COMMITTED} if code is committed else {}
        yield Exchange(RequestCode.QUERY_CONSUMER_OFFSET, fields, code, gives)
    commit: Fields = {**queue, "consumerGroup": group, "commitOffset": COMMITTED}
    yield Exchange(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    yield Exchange(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, **unknown}, ResponseCode.TOPIC_NOT_EXIST)
    yield Exchange(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {**commit, "consumerGroup": scene.unknown},
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )
    stats: Fields = {"lastUpdateTimestamp": scene.stored[-1], "maxOffset": len(SENT), "minOffset": 0}
    table = scene.by_queue(stats, dict.fromkeys(stats, 0))
    yield Exchange(
        RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}, body={"offsetTable": table, "topicPutTps": float}
    )
    yield Exchange(RequestCode.GET_TOPIC_STATS_INFO, unknown, ResponseCode.TOPIC_NOT_EXIST)
    consumed: Fields = {
        "consumerOffset": COMMITTED,
        "pullOffset": COMMITTED,
        "lastTimestamp": scene.stored[COMMITTED - 1],
    }
    nothing: Fields = dict.fromkeys(consumed, 0)
    for name, stats in ((group, consumed), (scene.unknown, nothing)):
        table = scene.by_queue({"brokerOffset": len(SENT), **stats}, {"brokerOffset": 0, **nothing})
        yield Exchange(
            RequestCode.GET_CONSUME_STATS,
            {"consumerGroup": name, "topic": topic},
            body={"consumeTps": float, "offsetTable": table},
        )


def _members(scene: _Scene) -> Iterator[Exchange]:
    """Yield what asks for members of groups, and for locks."""
    topic, group, client = scene.reader.topic, scene.reader.group, scene.reader.probe.client_id
    unknown = {"consumerGroup": scene.unknown}
    connections = [{"clientAddr": str, "clientId": client, "language": "PYTHON", "version": CLIENT_VERSION}]
    subscription = {
        "classFilterMode": False, "codeSet": [65, 66], "expressionType": "TAG", "subString": "A || B",
        "subVersion": scene.version, "tagsSet": ["A", "B"], "topic": topic,
    }  # fmt: skip
    yield Exchange(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}, body={"consumerIdList": [client]}
    )
    yield Exchange(RequestCode.GET_CONSUMER_LIST_BY_GROUP, unknown, ResponseCode.SYSTEM_ERROR)
    yield Exchange(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        {"consumerGroup": group},
        body={
            "connectionSet": connections,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "subscriptionTable": {topic: subscription},
        },
    )
    yield Exchange(RequestCode.GET_CONSUMER_CONNECTION_LIST, unknown, ResponseCode.CONSUMER_NOT_ONLINE)
    yield Exchange(
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        {"producerGroup": group},
        body={"connectionSet": connections},
    )
    yield Exchange(
        RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": scene.unknown}, ResponseCode.SYSTEM_ERROR
    )
    for name, id_ in ((group, scene.unknown), (scene.unknown, client)):
        fields = {"consumerGroup": name, "clientId": id_}
        yield Exchange(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, ResponseCode.SYSTEM_ERROR)
    for owner, queues, granted in ((client, (0, 2), [0, 2]), (scene.unknown, (0, 1), [1])):
        body = lock_body(owner, group, [MessageQueue(topic, scene.broker, queue) for queue in queues])
        locked = {"lockOKMQSet": [scene.queue(queue) for queue in granted]}
        yield Exchange(RequestCode.LOCK_BATCH_MQ, sent=body, body=locked)
    yield Exchange(RequestCode.UNLOCK_BATCH_MQ, sent=body)
    for text, code in (("a > 1", ResponseCode.SUCCESS), ("a >", ResponseCode.SUBSCRIPTION_PARSE_FAILED)):
        body = check_body(client, group, topic, FilterText(text, is_sql=True))
        yield Exchange(RequestCode.CHECK_CLIENT_CONFIG, code=code, sent=body)


def _messages(scene: _Scene) -> Iterator[Exchange]:
    """Yield what reads messages."""
    topic, group = scene.reader.topic, scene.reader.group
    index = {"indexLastUpdateTimestamp": int, "indexLastUpdatePhyoffset": int}
    queries: tuple[tuple[str, Fields, tuple[str, ...] | None], ...] = (
        ("all", {}, SENT),
        ("m1", {}, SENT[1:2]),
        (scene.first_id, {"_UNIQUE_KEY_QUERY": "true"}, SENT[:1]),
        (scene.unknown, {}, None),
    )
    for key, more, found in queries:
        query = {"topic": topic, "key": key, "maxNum": 32, "beginTimestamp": 0, "endTimestamp": FAR, **more}
        code = ResponseCode.QUERY_NOT_FOUND if found is None else ResponseCode.SUCCESS
        yield Exchange(RequestCode.QUERY_MESSAGE, query, code, index, found)
    yield Exchange(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": scene.position}, body=SENT[1:2])
    yield Exchange(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": FAR}, ResponseCode.SYSTEM_ERROR)
    pull = pull_fields(topic, group, 0, batch=2)
    pulls: tuple[tuple[Fields, ResponseCode, int, int, tuple[str, ...] | None], ...] = (
        ({}, ResponseCode.SUCCESS, 2, 3, SENT[:2]),
        ({"queueOffset": 2}, ResponseCode.SUCCESS, 3, 3, SENT[2:]),
        ({"queueOffset": 3}, ResponseCode.PULL_NOT_FOUND, 3, 3, None),
        ({"queueOffset": 4}, ResponseCode.PULL_OFFSET_MOVED, 3, 3, None),
        ({"queueOffset": -1}, ResponseCode.PULL_OFFSET_MOVED, 0, 3, None),
        ({"queueId": 2}, ResponseCode.PULL_NOT_FOUND, 0, 0, None),
        ({"subscription": "C"}, ResponseCode.PULL_RETRY_IMMEDIATELY, 3, 3, None),
        ({"sysFlag": 0, "subVersion": scene.version}, ResponseCode.SUCCESS, 2, 3, SENT[:2]),
    )
    for more, code, next_, end, found in pulls:
        gives = {
            "nextBeginOffset": next_, "minOffset": 0, "maxOffset": end, "suggestWhichBrokerId": 0,
            "topicSysFlag": 0, "groupSysFlag": 0,
        }  # fmt: skip
        yield Exchange(RequestCode.PULL_MESSAGE, {**pull, **more}, code, gives, found)
    refused: tuple[tuple[Fields, ResponseCode], ...] = (
        ({"queueId": QUEUES}, ResponseCode.INVALID_PARAMETER),
        ({"topic": scene.unknown}, ResponseCode.TOPIC_NOT_EXIST),
        ({"sysFlag": 0, "subVersion": scene.version + 1}, ResponseCode.SUBSCRIPTION_NOT_LATEST),
        ({"sysFlag": 0, "consumerGroup": scene.unknown}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
    )
    for more, code in refused:
        yield Exchange(RequestCode.PULL_MESSAGE, {**pull, **more}, code)


def _settings(scene: _Scene) -> Iterator[Exchange]:
    """Yield what reads routes and settings, and resets offsets."""
    topic, group = scene.reader.topic, scene.reader.group
    at = {"brokerAddrs": {"0": str}, "brokerName": scene.broker, "cluster": str}
    queues = {"readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6, "topicSysFlag": 0}
    route = {
        "brokerDatas": [at],
        "filterServerTable": {},
        "queueDatas": [{"brokerName": scene.broker, **queues}],
    }
    strict = {"acceptStandardJsonOnly": "true"}
    yield Exchange(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **strict}, body=route)
    yield Exchange(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": scene.unknown}, ResponseCode.TOPIC_NOT_EXIST)
    yield Exchange(
        RequestCode.GET_BROKER_CLUSTER_INFO,
        body={"brokerAddrTable": {scene.broker: at}, "clusterAddrTable": dict},
    )
    yield Exchange(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, body={"topicList": list})
    config = {"topicName": topic, "order": False, "topicFilterType": "SINGLE_TAG", **queues}
    config["attributes"] = {"message.type": "NORMAL"}
    yield Exchange(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}, body=config)
    yield Exchange(RequestCode.GET_TOPIC_CONFIG, {"topic": scene.unknown}, ResponseCode.TOPIC_NOT_EXIST)
    yield Exchange(RequestCode.GET_ALL_TOPIC_CONFIG, body={"topicConfigTable": {topic: config}})
    settings = {
        "groupName": group, "consumeEnable": True, "consumeMessageOrderly": False, "retryMaxTimes": 16,
        "retryQueueNums": 1,
    }  # fmt: skip
    yield Exchange(
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, body={"subscriptionGroupTable": {group: settings}}
    )
    reset = {"topic": topic, "group": group, "timestamp": -1, "isForce": "true"}
    yield Exchange(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset, body={"offsetTable": scene.by_queue(len(SENT), 0)}
    )
    for wrong, code in (
        ({"topic": scene.unknown}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 0, "offset": 77}, ResponseCode.SYSTEM_ERROR),
    ):
        yield Exchange(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, {**reset, **wrong}, code)


def _sends(scene: _Scene) -> Iterator[Exchange]:
    """Yield sends, legal ones and others."""
    topic, id_ = scene.reader.topic, scene.unknown
    send = send_fields(topic, {"UNIQ_KEY": id_}, scene.reader.fixture.clock.wall())
    receipt = {**TRACED, "msgId": object, "queueId": 1, "queueOffset": 0, "transactionId": id_}
    for offset in range(2):
        yield Exchange(
            RequestCode.SEND_MESSAGE_V2, {**send, "e": 1}, gives={**receipt, "queueOffset": offset}, sent=b"m"
        )
    nameless = {**send, "e": 1, "i": ""}
    gives = {**receipt, "queueOffset": 2, "transactionId": object}
    yield Exchange(RequestCode.SEND_MESSAGE_V2, nameless, gives=gives, sent=b"m")
    delayed = f"UNIQ_KEY\x01{id_}\x02TIMER_DELAY_SEC\x0130\x02"
    yield Exchange(
        RequestCode.SEND_MESSAGE_V2,
        {**send, "e": 1, "i": delayed},
        gives={**receipt, "queueOffset": int, "recallHandle": str},
        sent=b"m",
    )
    for more, code in (
        ({"e": QUEUES}, ResponseCode.INVALID_PARAMETER),
        ({"b": id_, "c": id_}, ResponseCode.TOPIC_NOT_EXIST),
        ({"b": "a b"}, ResponseCode.INVALID_PARAMETER),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"i": f"UNIQ_KEY\x01{id_}\x02TIMER_DELAY_SEC\x01999999999\x02"}, ResponseCode.MESSAGE_ILLEGAL),
    ):
        yield Exchange(RequestCode.SEND_MESSAGE_V2, {**send, **more}, code, TRACED, sent=b"m")
    yield Exchange(RequestCode.CHECK_TRANSACTION_STATE, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


def _leaving(scene: _Scene) -> Iterator[Exchange]:
    """Yield the member's leave: of its connection, whatever client id it names."""
    group = {"consumerGroup": scene.reader.group}
    yield Exchange(RequestCode.UNREGISTER_CLIENT, {"clientID": scene.unknown, **group})
    yield Exchange(RequestCode.GET_CONSUMER_LIST_BY_GROUP, group, ResponseCode.SYSTEM_ERROR)


async def _ask(reader: RemotingReader, exchange: Exchange) -> Frame:
    if exchange.request in NAME_SERVER:
        return await reader.probe.ask_name_server(exchange.request, exchange.fields)
    return await reader.probe.ask(reader.topic, exchange.request, exchange.fields, exchange.sent)


def _wrong(exchange: Exchange, answer: Frame) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if answer.code != exchange.code:
        yield f"the code is {response_name(answer.code)} and not {exchange.code.name}"
        return
    fields = {
        name: int(text) if text.removeprefix("-").isdecimal() else text
        for name, text in answer.fields.items()
    }
    yield from _unlike(exchange.gives, fields, "the answer")
    if isinstance(exchange.body, tuple):
        came = tuple(record.body.decode() for record in read_records(answer.body))
        if came != exchange.body:
            yield f"the messages are {came} and not {exchange.body}"
    elif exchange.body is None:
        if answer.body:
            yield f"there is a body of {len(answer.body)} bytes"
    else:
        yield from _unlike(exchange.body, loads(answer.body), "the body")


def _unlike(expected: object, came: object, place: str) -> Iterator[str]:
    """Yield where a value is not as expected. Objects may have more entries."""
    if isinstance(expected, type):
        if not isinstance(came, expected):
            yield f"{place} is {came!r}"
    elif isinstance(expected, Mapping) and isinstance(came, Mapping):
        for name, value in expected.items():
            if name in came:
                yield from _unlike(value, came[name], f"{name} in {place}")
            else:
                yield f"{place} has no {name}"
    elif isinstance(expected, list) and isinstance(came, list) and len(expected) == len(came):
        for one, other in zip(sorted(expected, key=repr), sorted(came, key=repr), strict=True):
            yield from _unlike(one, other, place)
    elif expected != came:
        yield f"{place} is {came!r} and not {expected!r}"
