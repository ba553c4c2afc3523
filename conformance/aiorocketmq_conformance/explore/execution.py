"""Executes a plan on a target and writes down every call for the model."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.explore.plan import ConsumerPlan, GroupPlan, Plan, Step
from aiorocketmq_conformance.model.calls import (
    UNKNOWN,
    Ack,
    Change,
    Content,
    Delivered,
    Drained,
    EndTransaction,
    Forward,
    Gone,
    GroupCreated,
    History,
    Instant,
    Lag,
    Outgoing,
    Recall,
    Receipt,
    Receive,
    Reset,
    Restart,
    Send,
    TopicCreated,
)
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_name, code_of
from aiorocketmq_conformance.probe.checker import end_transaction
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.clock import DrivenClock
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.target import Target

HEARTBEATS = 25.0
"""Servers forget a client that is silent for two minutes (R2.15)."""
LATENCY = 2.0
"""A real server sent a response at most so many seconds before its arrival."""
SWEEP_POLL = 5.0
RECONNECTS = 200
_MARK = "x-"
"""First characters of the names of properties, as servers add some of their own."""


@dataclass(slots=True)
class Member:
    """A consumer while it lives."""

    plan: ConsumerPlan
    client: ProbeClient
    name: str
    group: str
    topic: str
    filter: str
    kind: int
    is_alive: bool = True
    polls: set[asyncio.Task[None]] = field(default_factory=set)


@dataclass(slots=True)
class Held:
    """A delivery, and what was done with it, as its consumer knows."""

    delivery: Delivery
    member: Member
    handles: list[str]
    end: float
    renewed: bool
    is_settled: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        """Message id and newest handle."""
        return self.delivery.id, self.handles[-1]


@dataclass(slots=True)
class _Transaction:
    message: str
    topic: str
    id: str
    is_decided: bool = False


class Execution:
    """One history on one target."""

    def __init__(self, plan: Plan, target: Target, semantics: Semantics) -> None:
        self.history = History()
        self.operations = 0
        self._plan = plan
        self._target = target
        self._semantics = semantics
        self._clock = target.clock
        self._started = self._clock.now()
        self._numbers = itertools.count(1)
        self._times: list[float] = []
        """Time of every step, to find the last one before a moment."""
        self._settled = 0
        self._is_exact = isinstance(self._clock, DrivenClock)
        self._topics: list[str] = []
        self._groups: dict[int, str] = {}
        self._producers: list[ProbeClient] = []
        self._members: list[Member] = []
        self._held: list[Held] = []
        self._transactions: list[_Transaction] = []
        self._recalls: list[tuple[str, str, str]] = []
        self._messages = itertools.count(1)
        self._horizon = 0.0
        self._restarts = 0

    # Instants

    def _now(self) -> float:
        return self._clock.now() - self._started

    def instant(self, at: float | None = None) -> Instant:
        """Return the next step of the history, now or at a time."""
        step = next(self._numbers)
        moment = self._now()
        self._times.append(moment)
        return Instant(moment if at is None else at, step)

    def _note_settled(self) -> None:
        self._settled = len(self._times)

    async def _settle(self) -> None:
        if isinstance(self._clock, DrivenClock):
            await self._clock.settle()
        else:
            await asyncio.sleep(0.01)

    def _after(self, begun: Instant, at: float) -> Instant:
        """Return the point after which the server surely sent what arrived at a time."""
        if self._is_exact:
            return Instant(at, max(begun.step, self._settled))
        sent = max(begun.at, at - LATENCY)
        return Instant(sent, max(begun.step, bisect_left(self._times, sent)))

    # The whole

    async def run(self) -> History:
        """Execute everything and return the history; HistoryFailed if a call that must succeed fails."""
        if isinstance(self._clock, DrivenClock):
            self._clock.on_settled = self._note_settled
        try:
            await self._prepare()
            for step in self._plan.steps:
                self.operations += 1
                await getattr(self, f"_do_{step.kind}")(step)
                await self._settle()
            await self._finish()
        except (CallFailed, StreamEnded, grpc.aio.AioRpcError, ConnectionError) as error:
            raise HistoryFailed(" ".join(str(error).split())[:200], self.instant()) from error
        finally:
            await self._close()
        return self.history

    async def _prepare(self) -> None:
        for place, topic in enumerate(self._plan.topics):
            begun = self.instant()
            name = self._target.fresh(f"topic{place}")
            await self._target.create_topic(name, type=topic.type, queues=topic.queues)
            self._topics.append(name)
            self.history.add(
                TopicCreated(
                    begun=begun, ended=self.instant(), topic=name, type=topic.type, queues=topic.queues
                )
            )
        for place, group in enumerate(self._plan.groups):
            if not group.late:
                await self._create_group(place, group)
        for _ in range(2):
            client = self._client("producer")
            await client.send_settings(requests.producer_settings(*self._topics))
            self._producers.append(client)
        for plan in self._plan.consumers:
            if not plan.late and plan.group in self._groups:
                await self._join(plan)
        await self._settle()

    async def _create_group(self, place: int, group: GroupPlan) -> None:
        begun = self.instant()
        name = await self._target.create_group(
            self._target.fresh(f"group{place}"), ordered=group.ordered, max_attempts=group.max_attempts
        )
        self._groups[place] = name
        self.history.add(
            GroupCreated(
                begun=begun,
                ended=self.instant(),
                group=name,
                ordered=group.ordered,
                max_attempts=group.max_attempts,
            )
        )
        readers = await self._target.create_group(f"{name}-readers")
        self.history.add(
            GroupCreated(begun=begun, ended=self.instant(), group=readers, ordered=False, max_attempts=17)
        )

    def _client(self, stem: str) -> ProbeClient:
        return ProbeClient(self._target.endpoint, self._target.fresh(stem), self._clock)

    async def _join(
        self, plan: ConsumerPlan, *, group: str | None = None, topic: str | None = None
    ) -> Member:
        kind = pb.ClientType.PUSH_CONSUMER if plan.renews else pb.ClientType.SIMPLE_CONSUMER
        group = group or self._groups[plan.group]
        topic = topic or self._topics[self._plan.groups[plan.group].topic]
        client = self._client("consumer")
        member = Member(plan, client, client.client_id, group, topic, plan.filter, kind)
        await client.send_settings(requests.consumer_settings(group, {topic: plan.filter}, kind))
        self._members.append(member)
        return member

    async def _close(self) -> None:
        for member in self._members:
            for poll in member.polls:
                poll.cancel()
            await asyncio.gather(*member.polls, return_exceptions=True)
            await member.client.disconnect()
        for producer in self._producers:
            await producer.disconnect()

    # Choices

    def _alive(self) -> list[Member]:
        return [member for member in self._members if member.is_alive]

    def _member(self, step: Step) -> Member | None:
        members = self._alive()
        return members[step.integer("consumer") % len(members)] if members else None

    def _leased(self, group: str | None = None) -> list[Held]:
        now = self._now()
        return [
            held
            for held in self._held
            if not held.is_settled and (held.renewed or held.end > now) and group in (None, held.member.group)
        ]

    def _pick(self, step: Step, candidates: list[Held], count: int = 1) -> list[Held]:
        """Return some candidates, the latest ones first."""
        if not candidates:
            return []
        # Recent deliveries are chosen more often.
        first = (step.integer("pick") * step.integer("pick") // 64) % len(candidates)
        return list(reversed(candidates))[first : first + count]

    # Sends

    def _content(self, topic: str, step: Step) -> Content:
        number = next(self._messages)
        bare = bool(step.values["bare"])
        return Content(
            id=f"01{int(self._target.run_id, 16):016X}{number:016X}",
            topic=topic,
            body=f"m{number}",
            tag=step.text("tag") or None,
            keys=() if bare else (f"k{number}",),
            properties=() if bare else ((f"{_MARK}number", str(number)),),
        )

    async def _do_send(self, step: Step) -> None:
        await self._send(step, self._outgoing(step))

    async def _do_illegal(self, step: Step) -> None:
        messages = self._outgoing(step)
        place = step.integer("place") % len(messages)
        bad = messages[place]
        if step.text("fault") == "tag":
            content = Content(
                **{name: getattr(bad.content, name) for name in _CONTENT if name != "tag"}, tag="a|b"
            )
            messages[place] = Outgoing(
                content=content, type=bad.type, deliver_at=bad.deliver_at, is_legal=False
            )
        else:
            other = "FIFO" if bad.type != "FIFO" else "NORMAL"
            content = Content(
                **{name: getattr(bad.content, name) for name in _CONTENT if name != "message_group"},
                message_group="x" if other == "FIFO" else "",
            )
            messages[place] = Outgoing(content=content, type=other, is_legal=False)
        # Some servers look at the type of the first message only.
        if not self._semantics.checks_leases and place and step.text("fault") == "type":
            return
        await self._send(step, messages)

    def _outgoing(self, step: Step) -> list[Outgoing]:
        place = step.integer("topic") % len(self._topics)
        topic, kind = self._topics[place], self._plan.topics[place].type
        count = step.integer("count") if kind == "NORMAL" or self._semantics.checks_leases else 1
        messages = []
        for _ in range(count):
            content = self._content(topic, step)
            if kind == "FIFO":
                content = Content(
                    **{name: getattr(content, name) for name in _CONTENT if name != "message_group"},
                    message_group=step.text("message_group"),
                )
            due = self._now() + step.real("delay") if kind == "DELAY" else None
            messages.append(Outgoing(content=content, type=kind, deliver_at=due))
        return messages

    async def _send(self, step: Step, messages: list[Outgoing]) -> None:
        client = self._producers[step.integer("producer") % len(self._producers)]
        begun = self.instant()
        wall = self._clock.wall() - self._now()
        wire = [self._wire(each, wall) for each in messages]
        reply = await client.send(*wire)
        receipts = tuple(
            Receipt(
                code_of(entry) if entry.HasField("status") else code_of(reply),
                entry.offset,
                entry.transaction_id,
            )
            for entry in reply.entries
        )
        code = code_of(reply)
        self.history.add(
            Send(
                begun=begun,
                ended=self.instant(),
                client=client.client_id,
                messages=tuple(messages),
                code=code,
                receipts=receipts if code == "OK" else (),
            )
        )
        if code != "OK" or len(reply.entries) != len(messages):
            return
        for outgoing, entry in zip(messages, reply.entries, strict=True):
            content = outgoing.content
            if outgoing.deliver_at is not None:
                self._horizon = max(self._horizon, outgoing.deliver_at + self._semantics.delay_late)
                if entry.recall_handle:
                    self._recalls.append((content.id, content.topic, entry.recall_handle))
            if outgoing.type == "TRANSACTION":
                self._transactions.append(_Transaction(content.id, content.topic, entry.transaction_id))

    def _wire(self, outgoing: Outgoing, wall: float) -> pb.Message:
        content = outgoing.content
        return requests.message(
            content.topic,
            content.body,
            id=content.id,
            tag=content.tag,
            keys=content.keys,
            properties=dict(content.properties),
            group=content.message_group or None,
            born_at=self._clock.wall(),
            deliver_at=None if outgoing.deliver_at is None else outgoing.deliver_at + wall,
            kind=getattr(pb.MessageType, outgoing.type),
        )

    async def _do_commit(self, step: Step) -> None:
        await self._decide(step, commit=True)

    async def _do_rollback(self, step: Step) -> None:
        await self._decide(step, commit=False)

    async def _decide(self, step: Step, *, commit: bool) -> None:
        again = step.integer("again") % 8 == 0 and self._semantics.checks_leases
        candidates = [each for each in self._transactions if again or not each.is_decided]
        if not candidates:
            return
        chosen = candidates[step.integer("pick") % len(candidates)]
        begun = self.instant()
        resolution = pb.TransactionResolution.COMMIT if commit else pb.TransactionResolution.ROLLBACK
        reply = await end_transaction(
            self._producers[0], chosen.topic, chosen.id, resolution, message_id=chosen.message
        )
        chosen.is_decided = True
        self.history.add(
            EndTransaction(
                begun=begun,
                ended=self.instant(),
                client=self._producers[0].client_id,
                topic=chosen.topic,
                message=chosen.message,
                transaction=chosen.id,
                commit=commit,
                code=code_of(reply),
            )
        )

    async def _do_recall(self, step: Step) -> None:
        if not self._recalls:
            return
        message, topic, handle = self._recalls[step.integer("pick") % len(self._recalls)]
        begun = self.instant()
        reply = await self._producers[0].recall(topic, handle)
        self.history.add(
            Recall(
                begun=begun,
                ended=self.instant(),
                client=self._producers[0].client_id,
                topic=topic,
                message=message,
                code=code_of(reply),
            )
        )

    # Receives

    async def _do_receive(self, step: Step) -> None:
        member = self._member(step)
        if member is None or len(member.polls) > 1:
            return
        task = asyncio.create_task(
            self._receive(member, step.integer("batch"), step.real("invisible"), step.real("poll"))
        )
        member.polls.add(task)
        task.add_done_callback(member.polls.discard)
        await asyncio.sleep(0)

    async def _receive(self, member: Member, batch: int, invisible: float, poll: float) -> None:
        begun, restarts = self.instant(), self._restarts
        renews, expression = member.plan.renews, member.filter
        lease = self._semantics.renewed if renews else invisible
        code, deliveries = UNKNOWN, list[Delivered]()
        try:
            received = await member.client.receive(
                member.topic,
                member.group,
                batch=batch,
                invisible=None if renews else invisible,
                poll=poll,
                expression=expression,
                auto_renew=renews,
            )
            code = _code(received)
            for one in received.deliveries:
                deliveries.append(self._delivered(one, begun))
                end = one.at - self._started + lease
                self._held.append(Held(one, member, [one.handle], end, renews))
                self._horizon = max(self._horizon, end)
        finally:
            # A crash cancels it; its filter may have taken effect all the same.
            self.history.add(
                Receive(
                    begun=begun,
                    ended=self.instant(),
                    client=member.name,
                    group=member.group,
                    topic=member.topic,
                    filter=expression,
                    batch=batch,
                    invisible=lease,
                    poll=poll,
                    auto_renew=renews,
                    code=code,
                    deliveries=tuple(deliveries),
                    is_cut=not member.is_alive or self._restarts != restarts,
                )
            )

    def _delivered(self, one: Delivery, begun: Instant) -> Delivered:
        system = one.message.system_properties
        properties = sorted(one.message.user_properties.items())
        at = one.at - self._started
        return Delivered(
            content=Content(
                id=one.id,
                topic=one.topic,
                body=one.body.decode(errors="replace"),
                tag=system.tag if system.HasField("tag") else None,
                keys=tuple(system.keys),
                properties=tuple((name, value) for name, value in properties if name.startswith(_MARK)),
                message_group=one.message_group,
            ),
            attempt=one.attempt,
            handle=one.handle,
            queue=one.queue,
            offset=one.offset,
            after=self._after(begun, at),
            at=self.instant(at),
        )

    # Leases

    async def _do_ack(self, step: Step) -> None:
        member = self._member(step)
        if member is None:
            return
        chosen = self._pick(step, self._leased(member.group), step.integer("count"))
        if not chosen:
            return
        first = bool(step.values["first_handle"])
        entries = [
            (held.delivery.id, held.handles[0] if first and len(held.handles) == 1 else held.handles[-1])
            for held in chosen
        ]
        codes = await self._ack(member, member.group, member.topic, entries)
        for held, code in zip(chosen, codes, strict=True):
            held.is_settled = held.is_settled or code == "OK"

    async def _ack(self, member: Member, group: str, topic: str, entries: list[tuple[str, str]]) -> list[str]:
        begun = self.instant()
        reply = await member.client.ack(topic, group, *entries)
        codes = [code_of(entry) for entry in reply.entries]
        echoed = tuple((entry.message_id, entry.receipt_handle) for entry in reply.entries)
        self.history.add(
            Ack(
                begun=begun,
                ended=self.instant(),
                client=member.name,
                group=group,
                topic=topic,
                entries=tuple(entries),
                code=code_of(reply),
                codes=tuple(codes),
                echoed=echoed,
            )
        )
        return codes if len(codes) == len(entries) else [code_of(reply)] * len(entries)

    async def _do_change(self, step: Step) -> None:
        member = self._member(step)
        if member is None:
            return
        for held in self._pick(step, self._leased(member.group)):
            suspend = bool(step.values["suspend"]) and self._target.has("suspend")
            await self._change(member, held, held.handles[-1], step.real("seconds"), suspend=suspend)

    async def _change(
        self, member: Member, held: Held, handle: str, seconds: float, *, suspend: bool = False
    ) -> None:
        request = pb.ChangeInvisibleDurationRequest(
            group=requests.resource(held.member.group),
            topic=requests.resource(held.member.topic),
            receipt_handle=handle,
            message_id=held.delivery.id,
        )
        requests.duration(request.invisible_duration, seconds)
        if suspend:
            request.suspend = True
        begun = self.instant()
        reply = await member.client.unary("ChangeInvisibleDuration", request)
        code = code_of(reply)
        new_handle = reply.receipt_handle if code == "OK" else ""
        self.history.add(
            Change(
                begun=begun,
                ended=self.instant(),
                client=member.name,
                group=held.member.group,
                topic=held.member.topic,
                message=held.delivery.id,
                handle=handle,
                seconds=seconds,
                suspend=suspend,
                code=code,
                new_handle=new_handle,
            )
        )
        if code == "OK":
            held.end, held.renewed = self._now() + seconds, False
            self._horizon = max(self._horizon, held.end)
            if new_handle:
                held.handles.append(new_handle)

    async def _do_forward(self, step: Step) -> None:
        member = self._member(step)
        if member is None:
            return
        for held in self._pick(step, self._leased(member.group)):
            # With a changed or renewed handle, Apache's servers move another message (live-broker-consumption 5a).
            is_safe = len(held.handles) == 1 and not held.member.plan.renews
            if self._semantics.checks_leases or is_safe:
                await self._forward(member, held, held.handles[-1])

    async def _forward(self, member: Member, held: Held, handle: str) -> None:
        begun = self.instant()
        limit = next(
            self._plan.groups[place].max_attempts
            for place, name in self._groups.items()
            if name == held.member.group
        )
        reply = await member.client.forward_to_dead_letters(held.delivery, limit, handle=handle)
        code = code_of(reply)
        held.is_settled = held.is_settled or code == "OK"
        self.history.add(
            Forward(
                begun=begun,
                ended=self.instant(),
                client=member.name,
                group=held.member.group,
                topic=held.member.topic,
                message=held.delivery.id,
                handle=handle,
                code=code,
            )
        )

    async def _do_stale(self, step: Step) -> None:
        """Use a handle that is not good, alone or among good ones."""
        member = self._member(step)
        if member is None:
            return
        state, call, now = step.text("state"), step.text("call"), self._now()
        group, topic = member.group, member.topic
        if state == "settled":
            candidates = [held for held in self._held if held.is_settled]
        elif state == "expired":
            candidates = [held for held in self._held if not held.is_settled and held.end < now]
        elif state == "replaced":
            candidates = [held for held in self._leased() if len(held.handles) > 1]
        else:
            candidates = self._leased()
        if state not in ("group", "topic"):
            candidates = [held for held in candidates if held.member.group == group]
        chosen = self._pick(step, candidates)
        if not chosen:
            return
        (held,) = chosen
        handle = held.handles[0] if state == "replaced" else held.handles[-1]
        handle = "no handle" if state == "garbage" else handle
        if state in ("group", "topic"):
            group, topic = held.member.group, held.member.topic
            if state == "group":
                group = next((name for name in self._groups.values() if name != group), group)
            else:
                topic = next((name for name in self._topics if name != topic), topic)
            if (group, topic) == (held.member.group, held.member.topic):
                return
        elif call == "change" and self._semantics.checks_leases:
            await self._change(member, held, handle, step.real("seconds"))
            return
        elif call == "forward" and self._semantics.checks_leases:
            await self._forward(member, held, handle)
            return
        entries = [(held.delivery.id, handle)]
        good: list[Held] = []
        if call == "mixed":
            good = [each for each in self._leased(group) if each is not held][-3:]
            entries = [each.pair for each in good]
            entries.insert(step.integer("place") % (len(good) + 1), (held.delivery.id, handle))
        codes = await self._ack(member, group, topic, entries)
        for each in good:
            each.is_settled = each.is_settled or (
                topic == each.member.topic and codes[entries.index(each.pair)] == "OK"
            )

    # Time

    async def _do_wait(self, step: Step) -> None:
        await self._wait(step.real("seconds"))

    async def _wait(self, seconds: float) -> None:
        until = self._now() + seconds
        while (left := until - self._now()) > 1e-6:
            await self._clock.sleep(min(left, HEARTBEATS))
            for member in self._alive():
                await member.client.heartbeat(member.group, member.kind)
            for producer in self._producers:
                await producer.heartbeat()

    # Sessions

    async def _do_settings(self, step: Step) -> None:
        member = self._member(step)
        if member is not None:
            if step.integer("again") % 2:
                await member.client.open_stream()
            await member.client.send_settings(self._settings(member))

    def _settings(self, member: Member) -> pb.Settings:
        return requests.consumer_settings(member.group, {member.topic: member.filter}, member.kind)

    async def _do_subscribe(self, step: Step) -> None:
        member = self._member(step)
        if member is not None:
            member.filter = step.text("filter")
            await member.client.send_settings(self._settings(member))

    async def _do_join(self, step: Step) -> None:
        late = [place for place, group in enumerate(self._plan.groups) if place not in self._groups]
        for place in late[:1]:
            await self._create_group(place, self._plan.groups[place])
        plans = [plan for plan in self._plan.consumers if plan.group in self._groups]
        if len(self._alive()) < 5 and plans:
            await self._join(plans[step.integer("consumer") % len(plans)])

    async def _do_leave(self, step: Step) -> None:
        member = self._member(step)
        if member is not None:
            await self._leave(member, crashes=bool(step.values["crashes"]) and self._is_exact)

    async def _leave(self, member: Member, *, crashes: bool) -> None:
        if not crashes and not self._semantics.checks_leases:
            # There a poll goes on without its client, and takes messages.
            await self._polled(member)
        begun = self.instant()
        member.is_alive = False
        if crashes:
            await member.client.disconnect()
            await asyncio.sleep(0.005)  # until the server has seen it
        else:
            await member.client.terminate(member.group)
        self.history.add(Gone(begun=begun, ended=self.instant(), client=member.name, crashed=crashes))
        rest = self._semantics.expiry if crashes else 0.0
        for held in self._held:
            if held.member is member and held.renewed and not held.is_settled:
                held.renewed, held.end = False, self._now() + rest + 2.0
                self._horizon = max(self._horizon, held.end)

    async def _polled(self, member: Member) -> None:
        """Wait for the end of a consumer's polls."""
        while member.polls:
            await self._settle()
            if member.polls:
                await self._clock.sleep(0.5 if self._is_exact else 0.05)

    # Administration

    def _started_group(self, step: Step) -> tuple[str, str]:
        place = sorted(self._groups)[step.integer("group") % len(self._groups)]
        return self._groups[place], self._topics[self._plan.groups[place].topic]

    async def _do_lag(self, step: Step) -> None:
        group, topic = self._started_group(step)
        begun = self.instant()
        waiting, in_flight = await self._target.admin.lag(group, topic)
        self.history.add(
            Lag(
                begun=begun,
                ended=self.instant(),
                group=group,
                topic=topic,
                waiting=waiting,
                in_flight=in_flight,
            )
        )

    async def _do_reset(self, step: Step) -> None:
        group, topic = self._started_group(step)
        begun = self.instant()
        to_end = bool(step.values["to_end"])
        await self._target.admin.reset_offset(group, topic, "end" if to_end else "beginning")
        self.history.add(Reset(begun=begun, ended=self.instant(), group=group, topic=topic, to_end=to_end))

    async def _do_restart(self, step: Step) -> None:
        begun = self.instant()
        self._restarts += 1
        await self._target.restart()
        settings = requests.producer_settings(*self._topics)
        for producer in self._producers:
            await self._reconnected(producer, settings)
        for member in self._alive():
            await self._reconnected(member.client, self._settings(member))
        self.history.add(Restart(begun=begun, ended=self.instant()))
        for held in self._held:
            if held.renewed and not held.is_settled:
                age = self._now() - (held.delivery.at - self._started)
                rest = self._semantics.rest_of_renewed(age)
                held.renewed, held.end = False, self._now() + rest + 2.0
                self._horizon = max(self._horizon, held.end)

    async def _reconnected(self, client: ProbeClient, settings: pb.Settings) -> None:
        for _ in range(RECONNECTS):
            with suppress(ConnectionError, grpc.aio.AioRpcError):
                await client.open_stream()
                await client.send_settings(settings)
                return
            await asyncio.sleep(0.02)
        raise ConnectionError("the server does not answer after a restart")

    # The end

    async def _finish(self) -> None:
        """Wait for every lease and delay, and receive what is left, and all dead letters."""
        for member in self._alive():
            await self._leave(member, crashes=False)
            await self._settle()
        late = max(self._semantics.revive[1], self._semantics.nack[1], self._semantics.ordered[1])
        await self._wait(max(0.0, self._horizon - self._now()) + late + self._semantics.wake + 1.0)
        for place, group in sorted(self._groups.items()):
            topic = self._topics[self._plan.groups[place].topic]
            await self._sweep(ConsumerPlan(place, False, "*"), group, topic)
        await self._wait(self._semantics.wake + 1.0)
        for place, group in sorted(self._groups.items()):
            await self._sweep(ConsumerPlan(place, False, "*"), f"{group}-readers", f"%DLQ%{group}")

    async def _sweep(self, plan: ConsumerPlan, group: str, topic: str) -> None:
        begun = self.instant()
        member = await self._join(plan, group=group, topic=topic)
        route = await member.client.query_route(topic)
        while code_of(route) == "OK":
            known, started = len(self._held), self._now()
            task = asyncio.create_task(self._receive(member, 32, 30.0, SWEEP_POLL))
            member.polls.add(task)
            task.add_done_callback(member.polls.discard)
            await self._polled(member)
            await task
            fresh = self._held[known:]
            if not fresh and self._now() - started > SWEEP_POLL / 2:
                break
            if not fresh:
                continue  # all that was found is given up
            entries = [held.pair for held in fresh]
            codes = await self._ack(member, group, topic, entries)
            for held, code in zip(fresh, codes, strict=True):
                held.is_settled = code == "OK"
            await self._settle()
        self.history.add(Drained(begun=begun, ended=self.instant(), group=group, topic=topic))
        await self._leave(member, crashes=False)


_CONTENT = ("id", "topic", "body", "tag", "keys", "properties", "message_group")


class HistoryFailed(Exception):
    """A call that has to succeed failed; the text has the error, `at` is when."""

    def __init__(self, text: str, at: Instant) -> None:
        super().__init__(text)
        self.at = at


def _code(received: Received) -> str:
    if received.error is not None or not received.statuses:
        return UNKNOWN if received.error in (None, "CANCELLED", "UNAVAILABLE") else f"gRPC {received.error}"
    return code_name(received.statuses[0].code)
