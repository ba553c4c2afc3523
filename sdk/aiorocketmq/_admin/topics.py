"""Topics on the masters of a cluster: settings, queues and their spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from aiorocketmq._admin.bodies import (
    Settings,
    instant,
    parse_by_queue,
    parse_settings,
    parse_table,
    topic_settings,
)
from aiorocketmq._admin.masters import Masters, gathered, number_of, reading
from aiorocketmq._admin.values import (
    QueueRange,
    QueueSpan,
    TopicDescription,
    TopicRoute,
    TopicType,
)
from aiorocketmq._core.endpoint import Address
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.routes import READABLE, WRITABLE, Route, parse_names, typed
from aiorocketmq.errors import NotSupportedError, TopicNotFoundError, UnreachableError

_LOOK_EVERY = 0.02
DEFAULT_TOPIC = "TBW102"
"""The template topic that creation requests must name."""


async def create(
    masters: Masters,
    topic: str,
    *,
    kind: TopicType,
    queues: int,
    readable: bool,
    writable: bool,
    lite_expiration: float | None,
) -> None:
    """Create `topic` on every master; return when it has a route. Request 17, remoting-protocol.md 6.18."""
    settings: Settings = {
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": READABLE * readable + WRITABLE * writable,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    attributes = f"+message.type={kind.value}"
    if lite_expiration is not None:
        attributes += f",+lite.topic.expiration={round(lite_expiration / 60)}"
    fields = {**_fields(topic, settings), "attributes": attributes}
    await masters.on_each(RequestCode.UPDATE_AND_CREATE_TOPIC, fields, topic=topic)
    # A topic without permissions has no route.
    if readable or writable:
        await _routed(masters, topic, "created", lambda _: True)


async def alter(
    masters: Masters, topic: str, *, queues: int | None, readable: bool | None, writable: bool | None
) -> None:
    """Change the given settings on every master that has `topic`; return when the route shows the change."""
    changed = {}
    for address, (settings, knows_types) in (await _settings(masters, topic)).items():
        with reading(address, "settings of a topic"):
            topic_settings(str(address), settings, knows_types=knows_types)
        permission = typed(settings["perm"], int)
        for bit, is_allowed in ((READABLE, readable), (WRITABLE, writable)):
            if is_allowed is not None:
                permission = permission | bit if is_allowed else permission & ~bit
        counts = {} if queues is None else {"readQueueNums": queues, "writeQueueNums": queues}
        changed[address] = {**settings, **counts, "perm": permission}
    for address, wanted_settings in changed.items():
        # Without attributes, those of the topic stay.
        fields = _fields(topic, wanted_settings)
        await masters.call(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields, topic=topic)

    def is_shown(route: Route) -> bool:
        names = {broker.name for broker in route.brokers if broker.master in changed}
        return all(
            (queues is None or counts.readable == counts.writable == queues)
            and (readable is None or bool(counts.permission & READABLE) == readable)
            and (writable is None or bool(counts.permission & WRITABLE) == writable)
            for counts in route.queues
            if counts.broker in names
        )

    if any(typed(settings["perm"], int) & (READABLE | WRITABLE) for settings in changed.values()):
        await _routed(masters, topic, "altered", is_shown)


async def delete(masters: Masters, topic: str) -> None:
    """Delete `topic` on every master, then at every name server. Requests 215 and 216."""
    await masters.on_each(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}, topic=topic)
    if masters.through_namesrv:
        for address in masters.given:
            await masters.call(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic}, topic=topic)


async def describe(masters: Masters, topic: str) -> TopicDescription:
    """The settings of `topic` on each broker, and the spans of its queues."""
    settings = []
    for address, (each, knows_types) in (await _settings(masters, topic)).items():
        with reading(address, "settings of a topic"):
            settings.append(topic_settings(str(address), each, knows_types=knows_types))
    return TopicDescription(topic, tuple(settings), await spans(masters, topic))


async def spans(masters: Masters, topic: str) -> tuple[QueueSpan, ...]:
    """The spans of all queues of `topic`. Requests 202 and 32."""

    async def with_earliest(item: tuple[Address, QueueSpan]) -> QueueSpan:
        address, span = item
        queue = span.queue
        answer = await masters.call(
            address,
            RequestCode.GET_EARLIEST_MSG_STORETIME,
            {"topic": queue.topic, "queueId": str(queue.id), "bname": queue.broker},
            topic=topic,
        )
        at = number_of(address, answer, "timestamp")
        with reading(address, "a time"):
            return replace(span, earliest=instant(at))

    by_master = await stats(masters, topic)
    items = [(address, span) for address, each in by_master.items() for span in each]
    return tuple(sorted(await gathered(with_earliest, items), key=lambda span: span.queue))


async def stats(masters: Masters, topic: str) -> dict[Address, tuple[QueueSpan, ...]]:
    """Queue spans of `topic` by master, without the earliest time; raises TopicNotFoundError. Request 202."""

    return await masters.that_have_it(lambda address: stats_at(masters, address, topic))


async def stats_at(masters: Masters, address: Address, topic: str) -> tuple[QueueSpan, ...]:
    """The spans of the queues that one master has of `topic`, without the earliest time. Request 202."""
    answer = await masters.call(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}, topic=topic)
    with reading(address, "figures of a topic"):
        return _parse_spans(answer.body)


async def route(masters: Masters, topic: str) -> TopicRoute:
    """Return the route of `topic` as the name server knows it. Request 105."""
    current = await masters.name_servers.route(topic)
    addresses = {broker.name: broker.master for broker in current.brokers}
    return TopicRoute(
        topic,
        tuple(
            QueueRange(
                broker=queues.broker,
                address=str(addresses.get(queues.broker) or ""),
                readable=queues.readable if queues.permission & READABLE else 0,
                writable=queues.writable if queues.permission & WRITABLE else 0,
            )
            for queues in current.queues
        ),
    )


async def names(masters: Masters) -> tuple[str, ...]:
    """The names of all topics, sorted. Request 206."""
    answer = await masters.name_servers.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {})
    with reading(masters, "a list of topics"):
        return parse_names(answer.body, "topicList")


async def _settings(masters: Masters, topic: str) -> dict[Address, tuple[Settings, bool]]:
    """Return the settings of `topic` by master, and whether types are known there; raises TopicNotFoundError."""
    return await masters.that_have_it(lambda address: _settings_at(masters, address, topic))


async def _settings_at(masters: Masters, address: Address, topic: str) -> tuple[Settings, bool]:
    try:
        answer = await masters.call(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic}, topic=topic)
    except NotSupportedError:  # 4.x
        answer = await masters.call(address, RequestCode.GET_ALL_TOPIC_CONFIG, {}, topic=topic)
        with reading(address, "settings of topics"):
            table = parse_table(answer.body, "topicConfigTable")
        if topic not in table:
            raise TopicNotFoundError(
                f"the server at {address} has no topic {topic!r}; {TopicNotFoundError.remedy}",
                endpoint=str(address),
                topic=topic,
            ) from None
        return table[topic], False
    with reading(address, "settings of a topic"):
        return parse_settings(answer.body), True


def _fields(topic: str, settings: Settings) -> dict[str, str]:
    """Return the fields of the request that sets these settings."""
    return {
        "topic": topic,
        "defaultTopic": DEFAULT_TOPIC,
        "readQueueNums": str(settings.get("readQueueNums")),
        "writeQueueNums": str(settings.get("writeQueueNums")),
        "perm": str(settings.get("perm")),
        "topicFilterType": str(settings.get("topicFilterType", "SINGLE_TAG")),
        "topicSysFlag": str(settings.get("topicSysFlag", 0)),
        "order": str(settings.get("order", False)).lower(),
    }


def _parse_spans(body: bytes) -> tuple[QueueSpan, ...]:
    return tuple(
        QueueSpan(
            queue=queue,
            min_offset=typed(each.get("minOffset"), int),
            max_offset=typed(each.get("maxOffset"), int),
            earliest=None,
            latest=instant(each.get("lastUpdateTimestamp", 0)),
        )
        for queue, each in parse_by_queue(body).items()
    )


async def _routed(masters: Masters, topic: str, done: str, is_shown: Callable[[Route], bool]) -> None:
    """Wait until the name server shows the change: 1 to 34 ms on a real server (live-broker-remoting.md 2)."""
    if not masters.through_namesrv:
        return
    try:
        async with asyncio.timeout(masters.timeout):
            while True:
                try:
                    if is_shown(await masters.name_servers.route(topic)):
                        return
                except TopicNotFoundError:
                    pass
                await asyncio.sleep(_LOOK_EVERY)
    except TimeoutError as error:
        raise UnreachableError(
            f"topic {topic!r} was {done}, but no route shows the change within {masters.timeout:g} s",
            may_have_taken_effect=True,
            timed_out=True,
            topic=topic,
        ) from error
