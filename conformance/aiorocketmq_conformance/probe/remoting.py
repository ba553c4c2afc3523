"""A client of the classic remoting protocol that decides nothing by itself: every request is the case's."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from time import time_ns

from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.bodies import (
    CLUSTERING,
    consumer_data,
    heartbeat_body,
    lock_body,
    parse_consumers,
    parse_locked,
)
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import read_records
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import RequestCode, ResponseCode, response_name
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.routes import BrokerAddresses, parse_route
from aiorocketmq.errors import Unreachable

from aiorocketmq_conformance.probe.clock import STUCK, Clock
from aiorocketmq_conformance.probe.remoting_answers import Notice, Pulled, number, told
from aiorocketmq_conformance.probe.traffic import Call

_ANY = range(1 << 16)
"""Whatever the answer's code, the case judges it."""
_SUSPEND, _INLINE = 2, 4
_HOLD_MARGIN = 15.0
"""Servers look at held pulls every five seconds (live-broker-remoting.md 4)."""
_VERSIONS = itertools.count(time_ns() // 1_000_000)
"""Every subscription is newer than the one before: servers keep the newest."""


class RemotingProbe:
    """One client id with one connection to each server; the topic of a request decides which broker is asked."""

    def __init__(self, name_server: str, client_id: str, clock: Clock) -> None:
        self.client_id = client_id
        self.clock = clock
        self.notices: list[Notice] = []
        """What the server said unasked, in order of arrival."""
        self._name_server = _address(name_server)
        self._brokers: dict[str, BrokerAddresses] = {}
        self._joined: dict[str, str] = {}
        self._noticed = asyncio.Event()
        self._pool = Pool(credentials=_nobody, on_request=self._on_request)

    # Life

    async def close(self) -> None:
        """Leave every group, and hang up. Never raises."""
        for group, topic in list(self._joined.items()):
            try:
                await self.leave(group, topic)
            except Unreachable:
                break
        await self.vanish()

    async def vanish(self) -> None:
        """Hang up without a word, as a crashed process does."""
        self._joined.clear()
        await self._pool.close()

    async def notified(self, count: int) -> None:
        """Return when so many notices have come in all."""
        while len(self.notices) < count:
            self._noticed.clear()
            await self._noticed.wait()

    # Requests

    async def ask(
        self,
        topic: str,
        code: RequestCode,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        hold: float | None = None,
    ) -> Frame:
        """Send a request to the master of a topic's broker; its answer, whatever its code. `hold` is how long the
        server may keep it."""
        broker = await self.broker_of(topic)
        assert broker.master is not None, f"the broker of {topic} has no master"
        return await self._request(broker.master, code, fields or {}, body, hold=hold)

    async def broker_of(self, topic: str) -> BrokerAddresses:
        """The first broker of a topic, as the name server tells it."""
        if topic not in self._brokers:
            fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
            answer = await self._request(self._name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
            assert answer.code == ResponseCode.SUCCESS, f"the route of {topic} answered {told(answer)}"
            self._brokers[topic] = parse_route(answer.body).brokers[0]
        return self._brokers[topic]

    async def _request(
        self,
        address: Address,
        code: RequestCode,
        fields: Mapping[str, object],
        body: bytes = b"",
        *,
        hold: float | None = None,
    ) -> Frame:
        traffic, started, outcome = self.clock.traffic, self.clock.now(), "cancelled"
        waits, texts = hold is not None, {name: str(value) for name, value in fields.items()}
        timeout = STUCK if hold is None else hold + _HOLD_MARGIN
        traffic.begin(waits_for_time=waits)
        try:
            answer = await self._pool.call(address, code, texts, body, timeout=timeout, accept=_ANY)
            outcome = response_name(answer.code)
            return answer
        except Unreachable:
            outcome = "unreachable"
            raise
        finally:
            traffic.end(Call(code.name, self.client_id, started, self.clock.now(), outcome, waits))

    # Messages

    async def send(
        self,
        topic: str,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        *,
        queue: int = 0,
        group: str = "conformance-producers",
    ) -> Frame:
        """Send one message to a queue; the answer's fields tell its place. Request 310."""
        fields = {
            "a": group,
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue,
            "f": 0,
            "g": round(self.clock.wall() * 1000),
            "h": 0,
            "i": write_properties(properties or {}),
            "j": 0,
            "k": "false",
            "m": "false",
        }
        return await self.ask(topic, RequestCode.SEND_MESSAGE_V2, fields, body)

    async def pull(
        self,
        topic: str,
        group: str,
        offset: int,
        *,
        queue: int = 0,
        batch: int = 32,
        poll: float = 0.0,
        expression: str | None = "*",
    ) -> Pulled:
        """Read a queue from `offset`; without `expression` by the filter of the group's heartbeats. Request 11."""
        fields: dict[str, object] = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue,
            "queueOffset": offset,
            "maxMsgNums": batch,
            "sysFlag": (_SUSPEND if poll > 0 else 0) | (0 if expression is None else _INLINE),
            "commitOffset": 0,
            "suspendTimeoutMillis": round(poll * 1000),
            "subVersion": 0,
            "expressionType": "TAG",
        }
        if expression is not None:
            fields["subscription"] = expression
        started = self.clock.now()
        answer = await self.ask(topic, RequestCode.PULL_MESSAGE, fields, hold=poll if poll > 0 else None)
        return Pulled(
            answer.code,
            answer.remark or "",
            tuple(read_records(answer.body)) if answer.code == ResponseCode.SUCCESS else (),
            number(answer, "nextBeginOffset"),
            started,
            self.clock.now(),
        )

    # Offsets

    async def committed(self, topic: str, group: str, *, queue: int = 0, **more: object) -> Frame:
        """Ask how far a group has read. Request 14."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, **more}
        return await self.ask(topic, RequestCode.QUERY_CONSUMER_OFFSET, fields)

    async def commit(
        self, topic: str, group: str, offset: int, *, queue: int = 0, named: str | None = None
    ) -> Frame:
        """Write down how far a group has read, of `topic` or of another one `named`, and wait for the answer. Request
        15."""
        fields = {
            "consumerGroup": group,
            "topic": topic if named is None else named,
            "queueId": queue,
            "commitOffset": offset,
        }
        return await self.ask(topic, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    async def end(self, topic: str, code: RequestCode, *, queue: int = 0) -> int | None:
        """The offset of an end of a queue: requests 30 (highest) and 31 (lowest)."""
        answer = await self.ask(topic, code, {"topic": topic, "queueId": queue})
        assert answer.code == ResponseCode.SUCCESS, f"{code.name} answered {told(answer)}"
        return number(answer, "offset")

    async def offset_at(self, topic: str, wall: float, *, queue: int = 0, **more: object) -> int | None:
        """The offset of a time in Unix seconds. Request 29."""
        fields = {"topic": topic, "queueId": queue, "timestamp": round(wall * 1000), **more}
        answer = await self.ask(topic, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        assert answer.code == ResponseCode.SUCCESS, f"an offset by time answered {told(answer)}"
        return number(answer, "offset")

    # Members and locks

    async def join(self, group: str, topic: str, *, wanted: str = "*", also: Sequence[str] = ()) -> None:
        """Tell the topic's broker of a member that consumes it, and others `also`. Request 34."""
        subscriptions = {name: FilterText(wanted) for name in (topic, *also)}
        consumer = consumer_data(
            group,
            subscriptions,
            model=CLUSTERING,
            from_where="CONSUME_FROM_FIRST_OFFSET",
            version=next(_VERSIONS),
        )
        body = heartbeat_body(self.client_id, consumers=[consumer])
        answer = await self.ask(topic, RequestCode.HEART_BEAT, body=body)
        assert answer.code == ResponseCode.SUCCESS, f"a heartbeat answered {told(answer)}"
        self._joined[group] = topic

    async def leave(self, group: str, topic: str) -> None:
        """Tell the topic's broker that the member is gone. Request 35."""
        fields = {"clientID": self.client_id, "consumerGroup": group}
        answer = await self.ask(topic, RequestCode.UNREGISTER_CLIENT, fields)
        assert answer.code == ResponseCode.SUCCESS, f"leaving answered {told(answer)}"
        self._joined.pop(group, None)

    async def members(self, group: str, topic: str) -> tuple[str, ...]:
        """The client ids of a group; none where the broker knows no member. Request 38."""
        answer = await self.ask(topic, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        return parse_consumers(answer.body) if answer.code == ResponseCode.SUCCESS else ()

    async def lock(self, group: str, topic: str, *queues: int) -> list[int]:
        """Lock queues; those that this client holds then. Request 41."""
        answer = await self.ask(
            topic, RequestCode.LOCK_BATCH_MQ, body=await self._queues(group, topic, queues)
        )
        assert answer.code == ResponseCode.SUCCESS, f"a lock answered {told(answer)}"
        return sorted(queue.id for queue in parse_locked(answer.body))

    async def unlock(self, group: str, topic: str, *queues: int) -> None:
        """Release queues. Request 42."""
        answer = await self.ask(
            topic, RequestCode.UNLOCK_BATCH_MQ, body=await self._queues(group, topic, queues)
        )
        assert answer.code == ResponseCode.SUCCESS, f"an unlock answered {told(answer)}"

    async def _queues(self, group: str, topic: str, queues: Sequence[int]) -> bytes:
        broker = (await self.broker_of(topic)).name
        return lock_body(self.client_id, group, [MessageQueue(topic, broker, queue) for queue in queues])

    def _on_request(self, _: Address, frame: Frame) -> None:
        self.clock.traffic.steps += 1
        if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.notices.append(Notice(frame.fields.get("consumerGroup", ""), self.clock.now()))
            self._noticed.set()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


async def _nobody() -> None:
    return None
