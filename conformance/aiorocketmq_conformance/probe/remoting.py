"""A client of the classic remoting protocol that decides nothing by itself: every request is sent by the case."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from time import time_ns
from typing import TypedDict, Unpack

from aiorocketmq._admin.bodies import Connections, parse_by_queue, parse_connections
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.batches import Member, encode_batch
from aiorocketmq._core.remoting.bodies import (
    CLUSTERING,
    check_body,
    consumer_data,
    heartbeat_body,
    lock_body,
    parse_consumers,
    parse_locked,
    parse_offsets,
)
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._core.remoting.json_dialect import JsonValue
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import read_records
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import RequestCode, ResponseCode, response_name
from aiorocketmq._remoting.pool import Pool
from aiorocketmq._remoting.routes import BrokerAddresses, Route, parse_route, typed
from aiorocketmq.config import Credentials
from aiorocketmq.errors import UnreachableError

from aiorocketmq_conformance.probe.clock import STUCK, Clock
from aiorocketmq_conformance.probe.remoting_answers import Notice, Progress, Pulled, number, response_text
from aiorocketmq_conformance.probe.traffic import Call

_ANY = range(1 << 16)
"""The case judges the response, whatever its code."""
_COMMIT, _SUSPEND, _INLINE = 1, 2, 4
_HOLD_MARGIN = 15.0
"""Servers check held pulls every five seconds (live-broker-remoting.md 4)."""
EVERYTHING = FilterText()
_VERSIONS = itertools.count(time_ns() // 1_000_000)
"""Every subscription has a newer version than the previous one: servers keep the newest."""


PRODUCERS = "conformance-producers"
"""The group of producers by default."""


class PullOptions(TypedDict, total=False):
    """What a pull may have in addition to its topic, group and offset."""

    queue: int
    batch: int
    poll: float
    """Seconds that the server may hold it."""
    filter_text: FilterText | None
    """None: the filter is that of the group's heartbeats, which must be of `version` or newer."""
    version: int
    commit: int | None
    """The offset to store for the group."""


class RemotingProbe:
    """One client id with one connection to each server; the topic of a request selects the broker."""

    def __init__(
        self, name_server: str, client_id: str, clock: Clock, credentials: Credentials | None = None
    ) -> None:
        """With `credentials` every request is signed."""
        self.client_id = client_id
        self.clock = clock
        self.notices: list[Notice] = []
        """Changes in its groups that the server reported, in order of arrival. Request 40."""
        self.resets: list[dict[int, int]] = []
        """Offsets by queue to which the server reset its groups, in order of arrival. Request 220."""
        self.checks: list[Frame] = []
        """Half messages about whose transactions the server asked, in order of arrival. Request 39."""
        self._name_server = _address(name_server)
        self._brokers: dict[str, BrokerAddresses] = {}
        self._joined: dict[str, str] = {}
        self._heard = asyncio.Event()
        self._credentials = credentials
        self._pool = Pool(credentials=self._current_credentials, on_request=self._on_request)

    # Lifecycle

    async def close(self) -> None:
        """Leave every group, and disconnect. Never raises."""
        for group, topic in list(self._joined.items()):
            try:
                await self.leave(group, topic)
            except UnreachableError:
                break
        await self.disconnect()

    async def disconnect(self) -> None:
        """Disconnect without leaving, as a crashed process does."""
        self._joined.clear()
        await self._pool.close()

    async def notified(self, count: int) -> None:
        """Wait for `count` notifications in total."""
        await self._until(lambda: len(self.notices) >= count)

    async def checked(self, count: int) -> None:
        """Wait for `count` checks in total."""
        await self._until(lambda: len(self.checks) >= count)

    async def moved(self) -> dict[int, int]:
        """Return the offsets by queue to which the server reset its group last; wait for the first ones."""
        await self._until(lambda: bool(self.resets))
        return self.resets[-1]

    async def _until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            self._heard.clear()
            await self._heard.wait()

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
        """Send a request to the master of a topic's broker; return the response, whatever its code.

        `hold` is how long the server may hold it.
        """
        broker = await self.broker_of(topic)
        assert broker.master is not None, f"the broker of {topic} has no master"
        return await self._request(broker.master, code, fields or {}, body, hold=hold)

    async def ask_name_server(self, code: RequestCode, fields: Mapping[str, object] | None = None) -> Frame:
        """Send a request to the name server; return the response, whatever its code."""
        return await self._request(self._name_server, code, fields or {})

    async def broker_of(self, topic: str) -> BrokerAddresses:
        """Return the first broker of a topic in its route."""
        if topic not in self._brokers:
            self._brokers[topic] = (await self.route(topic)).brokers[0]
        return self._brokers[topic]

    async def route(self, topic: str) -> Route:
        """Return the current route of a topic. Request 105."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = await self.ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        assert answer.code == ResponseCode.SUCCESS, (
            f"the route of {topic} was answered with {response_text(answer)}"
        )
        return parse_route(answer.body)

    async def queues(self, topic: str) -> int:
        """Return the number of readable queues of a topic."""
        return (await self.route(topic)).queues[0].readable

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
        except UnreachableError:
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
        group: str = PRODUCERS,
        flags: int = 0,
        named: str | None = None,
        **more: object,
    ) -> Frame:
        """Send one message to a queue of `topic`, or of another one `named`; the response's fields have its offset.

        `more` are fields of the request. Request 310.
        """
        fields = send_fields(topic if named is None else named, properties or {}, self.clock.wall())
        fields |= {"a": group, "e": queue, "f": flags, **more}
        return await self.ask(topic, RequestCode.SEND_MESSAGE_V2, fields, body)

    async def send_batch(
        self,
        topic: str,
        members: Sequence[Member],
        *,
        queue: int = 0,
        code: RequestCode = RequestCode.SEND_BATCH_MESSAGE,
        **more: object,
    ) -> Frame:
        """Send several messages to a queue in one request; the response has the offset of the first. `more` are fields
        of the request. Requests 320 and 310."""
        fields = send_fields(topic, {"WAIT": "true"}, self.clock.wall()) | {"e": queue, "m": "true", **more}
        return await self.ask(topic, code, fields, encode_batch(members))

    async def beat(
        self, topic: str, *, consumers: Sequence[JsonValue] = (), producers: Sequence[str] = ()
    ) -> Frame:
        """Send a heartbeat to the topic's broker. Request 34."""
        body = heartbeat_body(self.client_id, consumers=consumers, producers=producers)
        return await self.ask(topic, RequestCode.HEART_BEAT, body=body)

    async def produce(self, group: str, topic: str) -> None:
        """Send a heartbeat of a member of a producer group."""
        answer = await self.beat(topic, producers=[group])
        assert answer.code == ResponseCode.SUCCESS, f"a heartbeat was answered with {response_text(answer)}"

    async def pull(
        self,
        topic: str,
        group: str,
        offset: int,
        *,
        named: str | None = None,
        **options: Unpack[PullOptions],
    ) -> Pulled:
        """Read a queue of `topic`, or of another one `named`, from `offset`. Request 11."""
        fields = pull_fields(topic if named is None else named, group, offset, **options)
        poll = options.get("poll", 0.0)
        started = self.clock.now()
        answer = await self.ask(topic, RequestCode.PULL_MESSAGE, fields, hold=poll if poll > 0 else None)
        return Pulled(
            answer.code,
            answer.remark or "",
            tuple(read_records(answer.body)) if answer.code == ResponseCode.SUCCESS else (),
            number(answer, "nextBeginOffset"),
            (number(answer, "minOffset"), number(answer, "maxOffset")),
            started,
            self.clock.now(),
        )

    # Offsets

    async def committed(self, topic: str, group: str, *, queue: int = 0, **more: object) -> Frame:
        """Query a group's committed offset. Request 14."""
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue, **more}
        return await self.ask(topic, RequestCode.QUERY_CONSUMER_OFFSET, fields)

    async def commit(
        self, topic: str, group: str, offset: int, *, queue: int = 0, named: str | None = None
    ) -> Frame:
        """Commit a group's offset, of `topic` or of another one `named`, and wait for the response. Request 15."""
        fields = {
            "consumerGroup": group,
            "topic": topic if named is None else named,
            "queueId": queue,
            "commitOffset": offset,
        }
        return await self.ask(topic, RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    async def reset(self, topic: str, group: str, to: float | None = 0.0, **more: object) -> None:
        """Reset a group in every queue to a time in Unix seconds, or to the end, as an administrator does; `more` are
        further fields.

        AssertionError if that is refused. Request 222.
        """
        moment = -1 if to is None else round(to * 1000)
        fields = {"topic": topic, "group": group, "timestamp": moment, "isForce": "true", **more}
        answer = await self.ask(topic, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert answer.code == ResponseCode.SUCCESS, f"a reset was answered with {response_text(answer)}"

    async def progress(self, topic: str, group: str) -> dict[int, Progress]:
        """Query the progress of a group in each queue that it has read. Request 208."""
        fields = {"topic": topic, "consumerGroup": group}
        answer = await self.ask(topic, RequestCode.GET_CONSUME_STATS, fields)
        assert answer.code == ResponseCode.SUCCESS, (
            f"the query of progress was answered with {response_text(answer)}"
        )
        return {
            queue.id: Progress(typed(row.get("consumerOffset"), int), typed(row.get("brokerOffset"), int))
            for queue, row in parse_by_queue(answer.body).items()
        }

    async def end(self, topic: str, code: RequestCode, *, queue: int = 0) -> int | None:
        """Query the offset of an end of a queue: requests 30 (highest) and 31 (lowest)."""
        answer = await self.ask(topic, code, {"topic": topic, "queueId": queue})
        assert answer.code == ResponseCode.SUCCESS, f"{code.name} was answered with {response_text(answer)}"
        return number(answer, "offset")

    async def offset_at(self, topic: str, wall: float, *, queue: int = 0, **more: object) -> int | None:
        """Query the offset of a time in Unix seconds. Request 29."""
        fields = {"topic": topic, "queueId": queue, "timestamp": round(wall * 1000), **more}
        answer = await self.ask(topic, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        assert answer.code == ResponseCode.SUCCESS, (
            f"an offset by time was answered with {response_text(answer)}"
        )
        return number(answer, "offset")

    # Members and locks

    async def join(
        self,
        group: str,
        topic: str,
        *,
        filter_text: FilterText = EVERYTHING,
        subscribed: Sequence[str] | None = None,
        version: int | None = None,
        model: str = CLUSTERING,
    ) -> int:
        """Send a heartbeat of a member that consumes the topic, or the topics `subscribed`.

        Return the version of its subscription: newer than all before, unless one is given.
        """
        version = next(_VERSIONS) if version is None else version
        topics = (topic,) if subscribed is None else subscribed
        consumer = consuming(group, topics, filter_text=filter_text, version=version, model=model)
        answer = await self.beat(topic, consumers=[consumer])
        assert answer.code == ResponseCode.SUCCESS, f"a heartbeat was answered with {response_text(answer)}"
        self._joined[group] = topic
        return version

    async def check(self, group: str, topic: str, filter_text: FilterText) -> Frame:
        """Check whether a filter can be compiled. Request 46."""
        body = check_body(self.client_id, group, topic, filter_text)
        return await self.ask(topic, RequestCode.CHECK_CLIENT_CONFIG, body=body)

    async def connected(self, group: str, topic: str) -> Connections:
        """Query the connections of a group. Request 203."""
        fields = {"consumerGroup": group}
        answer = await self.ask(topic, RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
        assert answer.code == ResponseCode.SUCCESS, (
            f"the query of connections was answered with {response_text(answer)}"
        )
        return parse_connections(answer.body)

    async def leave(self, group: str, topic: str) -> None:
        """Unregister the member at the topic's broker. Request 35."""
        fields = {"clientID": self.client_id, "consumerGroup": group}
        answer = await self.ask(topic, RequestCode.UNREGISTER_CLIENT, fields)
        assert answer.code == ResponseCode.SUCCESS, f"leaving was answered with {response_text(answer)}"
        self._joined.pop(group, None)

    async def members(self, group: str, topic: str) -> tuple[str, ...]:
        """Query the client ids of a group; none if the broker knows no member. Request 38."""
        answer = await self.ask(topic, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
        return parse_consumers(answer.body) if answer.code == ResponseCode.SUCCESS else ()

    async def ask_lock(self, group: str, topic: str, *queues: int) -> Frame:
        """Lock queues, and return the response. Request 41."""
        return await self.ask(topic, RequestCode.LOCK_BATCH_MQ, body=await self._queues(group, topic, queues))

    async def lock(self, group: str, topic: str, *queues: int) -> list[int]:
        """Lock queues; return those that this client holds."""
        answer = await self.ask_lock(group, topic, *queues)
        assert answer.code == ResponseCode.SUCCESS, f"a lock was answered with {response_text(answer)}"
        return sorted(queue.id for queue in parse_locked(answer.body))

    async def unlock(self, group: str, topic: str, *queues: int) -> None:
        """Release queues. Request 42."""
        answer = await self.ask(
            topic, RequestCode.UNLOCK_BATCH_MQ, body=await self._queues(group, topic, queues)
        )
        assert answer.code == ResponseCode.SUCCESS, f"an unlock was answered with {response_text(answer)}"

    async def _queues(self, group: str, topic: str, queues: Sequence[int]) -> bytes:
        broker = (await self.broker_of(topic)).name
        return lock_body(self.client_id, group, [MessageQueue(topic, broker, queue) for queue in queues])

    def _on_request(self, _: Address, frame: Frame) -> None:
        self.clock.traffic.steps += 1
        if frame.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.notices.append(Notice(frame.fields.get("consumerGroup", ""), self.clock.now()))
        elif frame.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            moved = parse_offsets(frame.body)
            self.resets.append({queue.id: offset for queue, offset in moved.items()})
        elif frame.code == RequestCode.CHECK_TRANSACTION_STATE:
            self.clock.traffic.commands += 1
            self.checks.append(frame)
        self._heard.set()

    async def _current_credentials(self) -> Credentials | None:
        return self._credentials


def consuming(
    group: str,
    topics: Sequence[str],
    *,
    filter_text: FilterText = EVERYTHING,
    version: int = 1,
    model: str = CLUSTERING,
) -> JsonValue:
    """Return the part of a heartbeat about a group that consumes topics."""
    return consumer_data(
        group,
        dict.fromkeys(topics, filter_text),
        model=model,
        from_where="CONSUME_FROM_FIRST_OFFSET",
        version=version,
    )


def send_fields(topic: str, properties: Mapping[str, str], born: float) -> dict[str, object]:
    """Return the fields of a send to queue 0, of a message born at a time in Unix seconds. Requests 310 and 320."""
    return {
        "a": PRODUCERS,
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": round(born * 1000),
        "h": 0,
        "i": write_properties(properties),
        "j": 0,
        "k": "false",
        "m": "false",
    }


def pull_fields(
    topic: str,
    group: str,
    offset: int,
    *,
    queue: int = 0,
    batch: int = 32,
    poll: float = 0.0,
    filter_text: FilterText | None = EVERYTHING,
    version: int = 0,
    commit: int | None = None,
) -> dict[str, object]:
    """Return the fields of a pull; the options are those of `PullOptions`. Request 11."""
    flags = (
        _SUSPEND if poll > 0 else 0,
        0 if filter_text is None else _INLINE,
        0 if commit is None else _COMMIT,
    )
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue,
        "queueOffset": offset,
        "maxMsgNums": batch,
        "sysFlag": sum(flags),
        "commitOffset": commit or 0,
        "suspendTimeoutMillis": round(poll * 1000),
        "subVersion": version,
        "expressionType": "SQL92" if filter_text is not None and filter_text.is_sql else "TAG",
    }
    if filter_text is not None:
        fields["subscription"] = filter_text.expression
    return fields


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))
