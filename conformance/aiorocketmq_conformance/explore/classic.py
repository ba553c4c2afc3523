"""Clients of the classic protocol in a history: they send, pull, commit, share queues out and lock them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace

from aiorocketmq._core.remoting.batches import Member as BatchMember
from aiorocketmq._core.remoting.compression import plain_body
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import COMPRESSED, Record
from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import RequestCode, ResponseCode, response_name
from aiorocketmq.errors import UnreachableError

from aiorocketmq_conformance.explore.background import Background
from aiorocketmq_conformance.explore.expressions import filter_of
from aiorocketmq_conformance.explore.plan import Step, TopicPlan
from aiorocketmq_conformance.explore.producing import MARK, Producing
from aiorocketmq_conformance.explore.scribe import Scribe
from aiorocketmq_conformance.model.calls import (
    EVERYTHING,
    UNKNOWN,
    Commit,
    Committed,
    Content,
    Delivered,
    Ends,
    Instant,
    Joined,
    Left,
    Lock,
    Members,
    Noticed,
    Outgoing,
    Pull,
    Receipt,
    Send,
    Unlock,
)
from aiorocketmq_conformance.model.pulling import EMPTY, OUTSIDE
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import number

CLIENTS = 3
HOLD_CHECKS = 5.0
"""Servers look at held pulls so often (live-broker-remoting.md 4)."""
_CODES: dict[int, str] = {
    ResponseCode.SUCCESS: "OK",
    ResponseCode.PULL_NOT_FOUND: EMPTY,
    ResponseCode.PULL_OFFSET_MOVED: OUTSIDE,
}
_SKIPPED = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
"""Codes of pulls whose filter has left out all that was read."""


@dataclass(slots=True)
class Classic:
    """Three clients, the queues that they read, and the group whose queues they share."""

    scribe: Scribe
    topics: list[tuple[str, TopicPlan]]
    connect: Callable[[], RemotingProbe]
    """Returns a new client."""
    producing: Producing
    group: str
    """The group of all of them."""
    _clients: list[RemotingProbe] = field(default_factory=list)
    _next_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """Where the last pull of a topic's queue ended."""
    pulls: Background = field(default_factory=Background)
    _members: set[str] = field(default_factory=set)
    """The ids of clients that are members of the group."""

    @property
    def steps(self) -> dict[str, Callable[[Step], Coroutine[None, None, None]]]:
        """The kinds of steps, and what they do."""
        return {
            "classic send": self._send,
            "classic pull": self._start_pull,
            "commit offset": self._commit,
            "ask offset": self._ask_offset,
            "ask ends": self._ask_ends,
            "join members": self._join,
            "leave members": self._leave,
            "ask members": self._ask_members,
            "lock": self._lock,
            "unlock": self._unlock,
        }

    def _client(self, step: Step) -> RemotingProbe:
        place = step.integer("client") % CLIENTS
        while len(self._clients) <= place:
            self._clients.append(self.connect())
        return self._clients[place]

    def _topic(self, step: Step) -> tuple[str, TopicPlan]:
        return self.topics[step.integer("topic") % len(self.topics)]

    def _queue(self, step: Step) -> tuple[str, int]:
        topic, plan = self._topic(step)
        return topic, step.integer("queue") % plan.queues

    async def close(self) -> None:
        """Disconnect everybody, and add what they were told."""
        await self.pulls.cancel()
        for client in self._clients:
            await client.disconnect()
            for notice in client.notices:
                at = self.scribe.instant(notice.at - self.scribe.started)
                told = Noticed(begun=at, ended=at, client=client.client_id, group=notice.group)
                self.scribe.history.append(told)

    async def beat(self) -> None:
        """Send the heartbeats of members."""
        for client in self._clients:
            if client.client_id in self._members:
                await self._send_heartbeat(client)

    def restarted(self) -> None:
        """Note that the server has forgotten all members."""
        self._members.clear()

    # Messages

    async def _send(self, step: Step) -> None:
        topic, plan = self._topic(step)
        if plan.type not in ("NORMAL", "DELAY"):
            return
        client, queue = self._client(step), step.integer("queue") % plan.queues
        count, due = step.integer("count"), None
        if plan.type == "DELAY":
            count, due = 1, self.producing.due(step)
        made = [self.producing.content(topic, plan, step, place) for place in range(count)]
        # All messages of a batch are born with it.
        contents = [replace(each, encoding="IDENTITY", born_ms=made[0].born_ms) for each in made]
        begun = self.scribe.instant()
        if len(contents) == 1:
            (only,) = contents
            properties = _properties(only)
            if due is not None:
                properties["TIMER_DELIVER_MS"] = str(round(self.scribe.wall(due) * 1000))
            answer = await client.send(topic, only.body.encode(), properties, queue=queue, g=only.born_ms)
        else:
            members = [
                BatchMember(each.body.encode(), write_properties(_properties(each))) for each in contents
            ]
            answer = await client.send_batch(topic, members, queue=queue, g=contents[0].born_ms)
        code = _CODES.get(answer.code, response_name(answer.code))
        first = number(answer, "queueOffset")
        self.scribe.add(
            begun,
            Send(
                client=client.client_id,
                messages=tuple(Outgoing(content=each, type=plan.type, deliver_at=due) for each in contents),
                code=code,
                receipts=tuple(
                    Receipt(code, -1 if first is None else first + place) for place in range(len(contents))
                ),
            ),
        )

    async def _start_pull(self, step: Step) -> None:
        client, (topic, queue) = self._client(step), self._queue(step)
        offset = step.behind(self._next_offsets.get((topic, queue), 0))
        self.pulls.start(self._pull(client, step, topic, queue, offset))
        await asyncio.sleep(0)

    async def _pull(self, client: RemotingProbe, step: Step, topic: str, queue: int, offset: int) -> None:
        begun, restarts, filter_ = self.scribe.instant(), self.scribe.restarts, filter_of(step.text("filter"))
        commit = offset if step.values["commits"] else None
        try:
            pulled = await client.pull(
                topic,
                self.group,
                offset,
                queue=queue,
                batch=step.integer("batch"),
                poll=step.real("poll"),
                filter_text=FilterText(filter_.text, filter_.is_sql),
                commit=commit,
            )
        except asyncio.CancelledError:
            self._lose(begun, client, topic, queue, commit)
            raise
        except UnreachableError:
            if self.scribe.restarts == restarts:
                raise
            self._lose(begun, client, topic, queue, commit)
            return
        deliveries = [self._delivered(record, begun) for record in pulled.records]
        if not filter_.is_sql:
            # The server compares hashes of tags, and its clients the tags (R5.23).
            deliveries = [one for one in deliveries if filter_.selects(one.content)]
        code = _CODES.get(pulled.code, pulled.name)
        if filter_ != EVERYTHING and not deliveries and pulled.code in _SKIPPED:
            code = EMPTY
        if self.scribe.restarts != restarts or pulled.next_offset is None:
            self._lose(begun, client, topic, queue, commit)
            return
        self._next_offsets[topic, queue] = pulled.next_offset
        self.scribe.add(
            begun,
            Pull(
                client=client.client_id,
                group=self.group,
                topic=topic,
                queue=queue,
                offset=offset,
                batch=step.integer("batch"),
                poll=step.real("poll"),
                filter=filter_,
                code=code,
                deliveries=tuple(deliveries),
                next_offset=pulled.next_offset,
                commit=commit,
                late=HOLD_CHECKS,
            ),
        )

    def _lose(
        self, begun: Instant, client: RemotingProbe, topic: str, queue: int, commit: int | None
    ) -> None:
        """Add what a pull without a response may have committed."""
        if commit is not None:
            name, group = client.client_id, self.group
            event = Commit(client=name, group=group, topic=topic, queue=queue, commit=commit, code=UNKNOWN)
            self.scribe.add(begun, event)

    def _delivered(self, record: Record, begun: Instant) -> Delivered:
        wall = self.scribe.wall(0.0)
        return Delivered(
            content=_content(record),
            attempt=record.reconsume_times + 1,
            handle="",
            queue=record.queue_id,
            offset=record.queue_offset,
            stored=record.stored_ms / 1000 - wall,
            due=None,
            after=self.scribe.after(begun, self.scribe.now()),
            at=self.scribe.instant(),
        )

    # Offsets

    async def _commit(self, step: Step) -> None:
        client, (topic, queue) = self._client(step), self._queue(step)
        offset = step.integer("offset") % (self._next_offsets.get((topic, queue), 0) + 1)
        begun = self.scribe.instant()
        answer = await client.commit(topic, self.group, offset, queue=queue)
        code = _CODES.get(answer.code, response_name(answer.code))
        name, group = client.client_id, self.group
        self.scribe.add(
            begun, Commit(client=name, group=group, topic=topic, queue=queue, commit=offset, code=code)
        )

    async def _ask_offset(self, step: Step) -> None:
        client, (topic, queue) = self._client(step), self._queue(step)
        begun = self.scribe.instant()
        answer = await client.committed(topic, self.group, queue=queue)
        offset = number(answer, "offset") if answer.code == ResponseCode.SUCCESS else None
        name, group = client.client_id, self.group
        self.scribe.add(begun, Committed(client=name, group=group, topic=topic, queue=queue, offset=offset))

    async def _ask_ends(self, step: Step) -> None:
        client, (topic, queue) = self._client(step), self._queue(step)
        begun = self.scribe.instant()
        low = await client.end(topic, RequestCode.GET_MIN_OFFSET, queue=queue)
        high = await client.end(topic, RequestCode.GET_MAX_OFFSET, queue=queue)
        ends = Ends(client=client.client_id, topic=topic, queue=queue, low=low or 0, high=high or 0)
        self.scribe.add(begun, ends)

    # Members and locks

    async def _join(self, step: Step) -> None:
        await self._send_heartbeat(self._client(step))

    async def _send_heartbeat(self, client: RemotingProbe) -> None:
        begun = self.scribe.instant()
        await client.join(self.group, self.topics[0][0])
        self._members.add(client.client_id)
        self.scribe.add(begun, Joined(client=client.client_id, group=self.group))

    async def _leave(self, step: Step) -> None:
        client = self._client(step)
        if client.client_id in self._members:
            self._members.remove(client.client_id)
            begun = self.scribe.instant()
            await client.leave(self.group, self.topics[0][0])
            self.scribe.add(begun, Left(client=client.client_id, group=self.group))

    async def _ask_members(self, step: Step) -> None:
        client = self._client(step)
        begun = self.scribe.instant()
        members = await client.members(self.group, self.topics[0][0])
        self.scribe.add(begun, Members(client=client.client_id, group=self.group, clients=members))

    def _queues(self, step: Step) -> tuple[str, tuple[int, ...]]:
        topic, plan = self._topic(step)
        first, count = step.integer("queue"), 1 + step.integer("count") % plan.queues
        return topic, tuple(sorted({(first + place) % plan.queues for place in range(count)}))

    async def _lock(self, step: Step) -> None:
        client, (topic, queues) = self._client(step), self._queues(step)
        begun = self.scribe.instant()
        granted = await client.lock(self.group, topic, *queues)
        name, group = client.client_id, self.group
        self.scribe.add(
            begun, Lock(client=name, group=group, topic=topic, asked=queues, granted=tuple(granted))
        )

    async def _unlock(self, step: Step) -> None:
        client, (topic, queues) = self._client(step), self._queues(step)
        begun = self.scribe.instant()
        await client.unlock(self.group, topic, *queues)
        name, group = client.client_id, self.group
        self.scribe.add(begun, Unlock(client=name, group=group, topic=topic, queues=queues))


def _properties(content: Content) -> dict[str, str]:
    """Return the properties of a message, those of the system included."""
    properties = {"UNIQ_KEY": content.id, "WAIT": "true", **dict(content.properties)}
    if content.tag is not None:
        properties["TAGS"] = content.tag
    if content.keys:
        properties["KEYS"] = " ".join(content.keys)
    return properties


def _content(record: Record) -> Content:
    """Return the content of a stored message."""
    properties = record.properties()
    body, damage = plain_body(record)
    text = body.decode(errors="replace") + ("" if record.is_intact else " with another checksum")
    return Content(
        id=properties.get("UNIQ_KEY", ""),
        topic=record.topic,
        body=text if damage is None else f"{text} is {damage}",
        encoding="GZIP" if record.sysflag & COMPRESSED else "IDENTITY",
        tag=properties.get("TAGS"),
        keys=tuple(properties.get("KEYS", "").split()),
        properties=tuple(
            (name, value) for name, value in sorted(properties.items()) if name.startswith(MARK)
        ),
        message_group=properties.get("__SHARDINGKEY", ""),
        born_ms=record.born_ms,
    )
