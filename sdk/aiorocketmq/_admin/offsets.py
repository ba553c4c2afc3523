"""Progress of consumer groups, and how it is reset; remoting-protocol.md 6.9, 6.15 and 6.19."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from aiorocketmq._admin.bodies import (
    Connections,
    Settings,
    instant,
    milliseconds,
    parse_by_queue,
    parse_owned,
)
from aiorocketmq._admin.groups import check_known, connections
from aiorocketmq._admin.masters import Masters, gathered, number_of, reading
from aiorocketmq._admin.topics import stats, stats_at
from aiorocketmq._admin.values import QueueProgress, QueueSpan
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.pull_positions import lag
from aiorocketmq._core.remoting.bodies import BROADCASTING, parse_offsets
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.routes import typed
from aiorocketmq.errors import NotFoundError, NotSupportedError, RocketMQError, ServerError

Target: TypeAlias = datetime | Literal["beginning", "end"] | Mapping[MessageQueue, int]
"""Where a group is moved."""

_OWNER_WAIT = 1.0
"""Seconds for a member to report its queues: clients at gRPC addresses own none and do not answer."""
_SERVER_SIDE = 453
"""Version 5.2.0, from which on brokers reset offsets themselves instead of notifying the members."""
_NOBODY = "consumer group"
"""Text in the refusal of a server that resets by a group's members, if it has never had one."""
_ENDS = {"beginning": "0", "end": "-1"}
"""The two ends as times."""


@dataclass(frozen=True, slots=True)
class _Broker:
    """One master, and a group with a topic or all of them."""

    masters: Masters
    address: Address
    group: str
    topic: str | None

    async def ask(
        self, code: RequestCode, fields: Mapping[str, str], *, timeout: float | None = None
    ) -> Frame:
        return await self.masters.call(
            self.address, code, fields, timeout=timeout, topic=self.topic, group=self.group
        )

    async def clients(self) -> Connections:
        return await connections(self.masters, self.address, self.group)

    async def progress(self, spans: Iterable[QueueSpan] = ()) -> dict[MessageQueue, QueueProgress]:
        """Return the group's progress in each queue, without owners. Request 208, and for topics without `spans`
        202."""
        fields = {"consumerGroup": self.group, **({} if self.topic is None else {"topic": self.topic})}
        answer = await self.ask(RequestCode.GET_CONSUME_STATS, fields)
        with reading(self.address, "a group's progress"):
            rows = parse_by_queue(answer.body)
        minimum = {span.queue: span.min_offset for span in spans}
        unknown = {queue.topic for queue in rows} - {queue.topic for queue in minimum}
        topic_spans = await gathered(
            lambda topic: stats_at(self.masters, self.address, topic), sorted(unknown)
        )
        minimum |= {span.queue: span.min_offset for each in topic_spans for span in each}
        with reading(self.address, "a group's progress"):
            return {queue: _progress(queue, each, minimum.get(queue, 0)) for queue, each in rows.items()}

    async def owners(self) -> dict[MessageQueue, str]:
        """Return which member reads which queue, as members report it: a moving queue may have two. Request 307."""
        connections = await self.clients()
        if connections.model == BROADCASTING:
            return {}

        async def owned(client_id: str) -> tuple[MessageQueue, ...]:
            fields = {"consumerGroup": self.group, "clientId": client_id, "jstackEnable": "false"}
            wait = min(_OWNER_WAIT, self.masters.timeout)
            try:
                answer = await self.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, timeout=wait)
                return parse_owned(answer.body)
            except (RocketMQError, ValueError):  # progress is worth reporting without
                return ()

        clients = [client_id for client_id, *_ in connections.clients]
        owned_queues = await gathered(owned, clients)
        return {
            queue: client for client, queues in zip(clients, owned_queues, strict=True) for queue in queues
        }


async def progress(masters: Masters, group: str, topic: str | None) -> tuple[QueueProgress, ...]:
    """Return the progress of `group` in each queue; raises GroupNotFoundError, and TopicNotFoundError for `topic`."""
    await check_known(masters, group)
    spans: Mapping[Address, tuple[QueueSpan, ...]]
    spans = dict.fromkeys(await masters.addresses(), ()) if topic is None else await stats(masters, topic)
    results: list[QueueProgress] = []
    for address, own in spans.items():
        broker = _Broker(masters, address, group, topic)
        rows = await broker.progress(own)
        owners = await broker.owners() if rows else {}
        results += [replace(each, client_id=owners.get(queue)) for queue, each in rows.items()]
    return tuple(sorted(results, key=lambda each: each.queue))


def check_target(to: Target) -> None:
    """Raise ValueError or TypeError unless `to` is a valid target."""
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
        # Brokers without any of these queues are not contacted.
        spans = {address: own for address, own in spans.items() if any(span.queue in to for span in own)}
    done: dict[MessageQueue, int] = {}
    for address, own in spans.items():
        done |= await _reset_at(_Broker(masters, address, group, topic), to, own, force)
    return done


async def _reset_at(
    broker: _Broker, to: Target, spans: tuple[QueueSpan, ...], force: bool
) -> dict[MessageQueue, int]:
    if await _version(broker) >= _SERVER_SIDE:
        try:
            return await _reset_by_server(broker, to, spans, force)
        except (NotFoundError, ServerError) as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE and _NOBODY not in error.server_text:
                raise
    elif (await broker.clients()).clients:
        if isinstance(to, Mapping):
            raise _no_single_queues(broker, "is older than 5.2, and the group has members")
        return await _reset_whole(broker, to, force)
    return await _reset_each(broker, _commit, to, spans, force)


async def _reset_by_server(
    broker: _Broker, to: Target, spans: tuple[QueueSpan, ...], force: bool
) -> dict[MessageQueue, int]:
    if force and not isinstance(to, Mapping):
        return await _reset_whole(broker, to, force)
    return await _reset_each(broker, _reset_queue, to, spans, force)


async def _reset_each(
    broker: _Broker,
    move: Callable[[_Broker, MessageQueue, int], Awaitable[None]],
    to: Target,
    spans: tuple[QueueSpan, ...],
    force: bool,
) -> dict[MessageQueue, int]:
    """Find the offset of each queue, and `move` those that must be moved."""
    offsets = await _targets(broker, to, spans)
    if not force:
        now = await broker.progress(spans)
        offsets = {
            queue: offset for queue, offset in offsets.items() if queue in now and offset < now[queue].offset
        }
    for queue, offset in offsets.items():
        await move(broker, queue, offset)
    return offsets


async def _reset_whole(
    broker: _Broker, to: datetime | Literal["beginning", "end"], force: bool
) -> dict[MessageQueue, int]:
    """Let the server find the offsets; an old one notifies the members. Request 222."""
    # A millisecond before 1970 would be the number that stands for the end.
    moment = str(milliseconds(to)) if isinstance(to, datetime) else _ENDS[to]
    return await _invoke(broker, {"timestamp": moment, "isForce": str(force).lower()})


async def _reset_queue(broker: _Broker, queue: MessageQueue, offset: int) -> None:
    """Set the offset of one queue at the server. Request 222."""
    # A server that is configured to reset by its members ignores queue and offset: so it moves nothing either.
    nothing = {"timestamp": _ENDS["end"], "isForce": "false"}
    done = await _invoke(broker, {"queueId": str(queue.id), "offset": str(offset), **nothing})
    if done != {queue: offset}:
        raise _no_single_queues(broker, "resets by its members (useServerSideResetOffset is off)")


async def _invoke(broker: _Broker, fields: Mapping[str, str]) -> dict[MessageQueue, int]:
    named = {"group": broker.group, "topic": str(broker.topic), **fields}
    answer = await broker.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, named)
    with reading(broker.address, "offsets that were reset"):
        return parse_offsets(answer.body)


async def _commit(broker: _Broker, queue: MessageQueue, offset: int) -> None:
    """Commit an offset as a member would, which is possible only while the group has none. Request 15."""
    fields = {"topic": queue.topic, "queueId": str(queue.id), "commitOffset": str(offset)}
    await broker.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {"consumerGroup": broker.group, **fields})


async def _targets(broker: _Broker, to: Target, spans: tuple[QueueSpan, ...]) -> dict[MessageQueue, int]:
    """Return the offset of each queue of one server for `to`."""
    if isinstance(to, Mapping):
        return {span.queue: to[span.queue] for span in spans if span.queue in to}
    if isinstance(to, datetime):
        offsets = await gathered(lambda span: search(broker.masters, broker.address, span.queue, to), spans)
        return {span.queue: offset for span, offset in zip(spans, offsets, strict=True)}
    return {span.queue: span.min_offset if to == "beginning" else span.max_offset for span in spans}


async def search(masters: Masters, address: Address, queue: MessageQueue, moment: datetime) -> int:
    """The first offset stored at or after `moment`. Request 29; before 5.1.1 the nearest one, which may be earlier."""
    fields = {
        "topic": queue.topic, "queueId": str(queue.id), "bname": queue.broker,
        "timestamp": str(milliseconds(moment)), "boundaryType": "LOWER",
    }  # fmt: skip
    answer = await masters.call(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields, topic=queue.topic)
    return max(0, number_of(address, answer, "offset"))


async def _version(broker: _Broker) -> int:
    """The protocol version that a server declares in its answers."""
    return (await broker.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": str(broker.topic)})).version


def _progress(queue: MessageQueue, figures: Settings, minimum: int) -> QueueProgress:
    offset, end = typed(figures.get("consumerOffset"), int), typed(figures.get("brokerOffset"), int)
    return QueueProgress(
        queue=queue,
        offset=offset,
        max_offset=end,
        lag=lag(position=None, committed=offset, minimum=minimum, maximum=end),
        consumed_at=instant(figures.get("lastTimestamp", 0)),
        client_id=None,
    )


def _no_single_queues(broker: _Broker, why: str) -> NotSupportedError:
    return NotSupportedError(
        f"the server at {broker.address} cannot move single queues: it {why}; stop the members, or reset to a time",
        endpoint=str(broker.address),
        topic=broker.topic,
        group=broker.group,
    )


def _check_offsets(
    topic: str, offsets: Mapping[MessageQueue, int], spans: Mapping[Address, tuple[QueueSpan, ...]]
) -> None:
    by_queue = {span.queue: span for own in spans.values() for span in own}
    for queue, offset in offsets.items():
        if queue not in by_queue:
            raise ValueError(f"topic {topic!r} has no queue {queue.id} on broker {queue.broker!r}")
        lowest, highest = by_queue[queue].min_offset, by_queue[queue].max_offset
        if not lowest <= offset <= highest:
            raise ValueError(
                f"the offset of queue {queue.id} on broker {queue.broker!r} must be {lowest} to {highest}, got {offset}"
            )
