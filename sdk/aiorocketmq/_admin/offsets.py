"""Progress of consumer groups, and how it is reset; remoting-protocol.md 6.9, 6.15 and 6.19."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from aiorocketmq._admin.bodies import Settings, instant, milliseconds, parse_by_queue, parse_owned
from aiorocketmq._admin.groups import check_known, connections
from aiorocketmq._admin.masters import Masters, gathered, number_of, reading
from aiorocketmq._admin.topics import stats
from aiorocketmq._admin.values import QueueProgress, QueueSpan
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.bodies import BROADCASTING, parse_offsets
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.routes import typed
from aiorocketmq.errors import NotServed, RocketMQError

Target: TypeAlias = datetime | Literal["beginning", "end"] | Mapping[MessageQueue, int]
"""Where a group is moved."""

_OWNER_WAIT = 1.0
"""Seconds for a member to tell its queues: clients at gRPC addresses own none and do not answer."""
_SERVER_SIDE = 453
"""Version 5.2.0, from which on brokers reset offsets themselves instead of asking the members to."""
_ENDS = {"beginning": "0", "end": "-1"}
"""How the ends are written as times."""


async def progress(masters: Masters, group: str, topic: str | None) -> tuple[QueueProgress, ...]:
    """How far `group` is in each queue; raises GroupNotFound, TopicNotFound for `topic`. Requests 208, 203, 307."""
    await check_known(masters, group)
    if topic is not None:
        await stats(masters, topic)
    found: list[QueueProgress] = []
    for address in await masters.addresses():
        rows = await _figures(masters, address, group, topic)
        owners = await _owners(masters, address, group) if rows else {}
        with reading(address, "a group's progress"):
            found += [_progress(queue, each, owners.get(queue)) for queue, each in rows.items()]
    return tuple(sorted(found, key=lambda each: each.queue))


def check_target(to: Target) -> None:
    """Raise ValueError or TypeError unless a group can be moved there."""
    if isinstance(to, datetime):
        milliseconds(to)
    elif isinstance(to, Mapping):
        if not to:
            raise ValueError("to must name at least one queue")
        for queue, offset in to.items():
            if type(offset) is not int:
                raise TypeError(f"the offset of queue {queue.id} must be an integer, not {offset!r}")
    elif to not in _ENDS:
        raise ValueError(f"to must be 'beginning', 'end', a time or offsets by queue, not {to!r}")


async def reset(
    masters: Masters, group: str, topic: str, to: Target, *, force: bool
) -> dict[MessageQueue, int]:
    """Move `group` in the queues of `topic`; see `Admin.reset_offset`."""
    spans = await stats(masters, topic)
    await check_known(masters, group)
    if isinstance(to, Mapping):
        _check_offsets(topic, to, spans)
    done: dict[MessageQueue, int] = {}
    for address, own in spans.items():
        if isinstance(to, Mapping) and not any(span.queue in to for span in own):
            continue
        done |= await _reset_at(masters, address, group, topic, to, own, force)
    return done


async def _reset_at(
    masters: Masters,
    address: Address,
    group: str,
    topic: str,
    to: Target,
    spans: tuple[QueueSpan, ...],
    force: bool,
) -> dict[MessageQueue, int]:
    version = await _version(masters, address, topic)
    is_old = version < _SERVER_SIDE
    if is_old and (await connections(masters, address, group)).clients:
        if isinstance(to, Mapping):
            raise NotServed(
                f"the server at {address} is older than 5.2 and cannot move single queues while the group has members; "
                "stop them, or reset to a time",
                endpoint=str(address),
                topic=topic,
                group=group,
            )
        return await _reset_whole(masters, address, group, topic, to, force)
    if not is_old and force and not isinstance(to, Mapping):
        return await _reset_whole(masters, address, group, topic, to, force)
    offsets = await _targets(masters, address, to, spans)
    if not force:
        rows = await _figures(masters, address, group, topic)
        with reading(address, "a group's progress"):
            now = {queue: _progress(queue, each, None).offset for queue, each in rows.items()}
        offsets = {queue: offset for queue, offset in offsets.items() if offset < now.get(queue, 0)}
    for queue, offset in offsets.items():
        await (_commit if is_old else _reset_queue)(masters, address, group, queue, offset)
    return offsets


async def _reset_whole(
    masters: Masters,
    address: Address,
    group: str,
    topic: str,
    to: datetime | Literal["beginning", "end"],
    force: bool,
) -> dict[MessageQueue, int]:
    """Let the server find the offsets, and tell the members if it is an old one. Request 222."""
    # A millisecond before 1970 would be the number that stands for the end.
    moment = str(milliseconds(to)) if isinstance(to, datetime) else _ENDS[to]
    fields = {"group": group, "topic": topic, "timestamp": moment, "isForce": str(force).lower()}
    answer = await masters.call(
        address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, topic=topic, group=group
    )
    with reading(address, "offsets that were reset"):
        return parse_offsets(answer.body)


async def _reset_queue(
    masters: Masters, address: Address, group: str, queue: MessageQueue, offset: int
) -> None:
    """Set the offset of one queue at the server. Request 222."""
    fields = {
        "group": group,
        "topic": queue.topic,
        "queueId": str(queue.id),
        "offset": str(offset),
        # A server that is configured to reset by its members ignores queue and offset: so it moves nothing either.
        "timestamp": _ENDS["end"],
        "isForce": "false",
    }
    answer = await masters.call(
        address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields, topic=queue.topic, group=group
    )
    with reading(address, "offsets that were reset"):
        done = parse_offsets(answer.body)
    if done != {queue: offset}:
        raise NotServed(
            f"the server at {address} does not move single queues (useServerSideResetOffset is off); "
            "stop the group's members, or reset to a time",
            endpoint=str(address),
            topic=queue.topic,
            group=group,
        )


async def _commit(masters: Masters, address: Address, group: str, queue: MessageQueue, offset: int) -> None:
    """Store an offset as a member would, which lasts only while the group has none. Request 15."""
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.id),
        "commitOffset": str(offset),
    }
    await masters.call(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields, topic=queue.topic, group=group)


async def _targets(
    masters: Masters, address: Address, to: Target, spans: tuple[QueueSpan, ...]
) -> dict[MessageQueue, int]:
    """The offset of each queue of one server that `to` means."""
    if isinstance(to, Mapping):
        return {span.queue: to[span.queue] for span in spans if span.queue in to}
    if isinstance(to, datetime):
        found = await gathered(lambda span: search(masters, address, span.queue, to), spans)
        return {span.queue: offset for span, offset in zip(spans, found, strict=True)}
    return {span.queue: span.min_offset if to == "beginning" else span.max_offset for span in spans}


async def search(masters: Masters, address: Address, queue: MessageQueue, moment: datetime) -> int:
    """The first offset stored at or after `moment`. Request 29; before 5.1.1 the nearest one, which may be earlier."""
    answer = await masters.call(
        address,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        {
            "topic": queue.topic,
            "queueId": str(queue.id),
            "bname": queue.broker,
            "timestamp": str(milliseconds(moment)),
            "boundaryType": "LOWER",
        },
        topic=queue.topic,
    )
    return max(0, number_of(address, answer, "offset"))


async def _figures(
    masters: Masters, address: Address, group: str, topic: str | None
) -> dict[MessageQueue, Settings]:
    fields = {"consumerGroup": group, **({} if topic is None else {"topic": topic})}
    answer = await masters.call(address, RequestCode.GET_CONSUME_STATS, fields, topic=topic, group=group)
    with reading(address, "a group's progress"):
        return parse_by_queue(answer.body)


async def _owners(masters: Masters, address: Address, group: str) -> dict[MessageQueue, str]:
    """Which member reads which queue, as far as members tell; a queue on the move has the member that told last."""
    known = await connections(masters, address, group)
    if known.model == BROADCASTING:
        return {}

    async def owned(client_id: str) -> tuple[MessageQueue, ...]:
        fields = {"consumerGroup": group, "clientId": client_id, "jstackEnable": "false"}
        try:
            answer = await masters.call(
                address,
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                fields,
                timeout=min(_OWNER_WAIT, masters.timeout),
                group=group,
            )
            return parse_owned(answer.body)
        except (RocketMQError, ValueError):  # progress can be told without
            return ()

    clients = [client_id for client_id, *_ in known.clients]
    found = await gathered(owned, clients)
    return {queue: client for client, queues in zip(clients, found, strict=True) for queue in queues}


async def _version(masters: Masters, address: Address, topic: str) -> int:
    """The protocol version that a server declares in its answers."""
    fields = {"topic": topic}
    return (await masters.call(address, RequestCode.GET_TOPIC_STATS_INFO, fields, topic=topic)).version


def _progress(queue: MessageQueue, figures: Settings, client_id: str | None) -> QueueProgress:
    offset, end = typed(figures.get("consumerOffset"), int), typed(figures.get("brokerOffset"), int)
    return QueueProgress(
        queue=queue,
        offset=offset,
        max_offset=end,
        lag=max(0, end - offset),
        consumed_at=instant(figures.get("lastTimestamp", 0)),
        client_id=client_id,
    )


def _check_offsets(
    topic: str, offsets: Mapping[MessageQueue, int], spans: Mapping[Address, tuple[QueueSpan, ...]]
) -> None:
    known = {span.queue: span for own in spans.values() for span in own}
    for queue, offset in offsets.items():
        if queue not in known:
            raise ValueError(f"topic {topic!r} has no queue {queue.id} on broker {queue.broker!r}")
        lowest, highest = known[queue].min_offset, known[queue].max_offset
        if not lowest <= offset <= highest:
            raise ValueError(
                f"the offset of queue {queue.id} on broker {queue.broker!r} must be {lowest} to {highest}, got {offset}"
            )
