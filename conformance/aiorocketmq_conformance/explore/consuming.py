"""The consumers of a history: receives, and what is done with the handles of deliveries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.explore.background import Background
from aiorocketmq_conformance.explore.expressions import filter_of, lite
from aiorocketmq_conformance.explore.plan import MESSAGE_GROUPS, ConsumerPlan, Step
from aiorocketmq_conformance.explore.producing import content_of
from aiorocketmq_conformance.explore.scribe import Scribe
from aiorocketmq_conformance.model.calls import (
    UNKNOWN,
    Ack,
    Assignment,
    Change,
    Delivered,
    Filter,
    Forward,
    Gone,
    Instant,
    Pull,
    Receive,
    Settings,
)
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.probe import queues, requests
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_name, code_of, seconds_of
from aiorocketmq_conformance.probe.client import ProbeClient

HOLD = 2.0
"""Seconds that a renewed lease lasts after its client has left, with some tolerance."""
POLLS = 2
"""Polls of one consumer at a time."""


@dataclass(slots=True, eq=False)
class Member:
    """A consumer while it lives."""

    plan: ConsumerPlan
    client: ProbeClient
    group: str
    topic: str
    limit: int
    filter: Filter
    kind: int
    """The type of the client."""
    seen: list[Filter] = field(default_factory=list)
    """All its filters so far."""
    is_alive: bool = True
    polls: Background = field(default_factory=Background)

    @property
    def name(self) -> str:
        """The client id."""
        return self.client.client_id

    @property
    def is_lite(self) -> bool:
        """Whether it subscribes to lite topics."""
        return self.filter.is_lite


@dataclass(slots=True, eq=False)
class Held:
    """A delivery, and what was done with it, as its consumer knows."""

    delivery: Delivery
    member: Member
    handles: list[str]
    end: float
    is_renewed: bool
    is_settled: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        """Message id and newest handle."""
        return self.delivery.id, self.handles[-1]


class Consuming:
    """All consumers, and the deliveries that they got."""

    def __init__(self, scribe: Scribe, semantics: Semantics, *, suspends: bool) -> None:
        """`suspends`: the target knows changes that do not count an attempt."""
        self.horizon = 0.0
        """When the last lease ends, at the latest."""
        self.members: list[Member] = []
        self.held: list[Held] = []
        self._next_offsets: dict[tuple[str, int], int] = {}
        """Where the last pull of a topic's queue ended."""
        self._lite_topics: dict[str, str] = {}
        """By message id."""
        self._scribe = scribe
        self._semantics = semantics
        self._suspends = suspends

    # Sessions

    def alive(self) -> list[Member]:
        """Return the consumers that have not left."""
        return [member for member in self.members if member.is_alive]

    async def join(
        self,
        plan: ConsumerPlan,
        client: ProbeClient,
        group: str,
        topic: str,
        limit: int,
        *,
        is_lite: bool = False,
    ) -> Member:
        """Let a consumer join a group; `is_lite`: it consumes lite topics."""
        filter_ = _names(plan.names) if is_lite else filter_of(plan.filter)
        kind = pb.ClientType.PUSH_CONSUMER if plan.renews else pb.ClientType.SIMPLE_CONSUMER
        if is_lite:
            # Apache's servers know no simple consumers of lite topics.
            is_simple = self._semantics.checks_leases and not plan.renews
            kind = pb.ClientType.LITE_SIMPLE_CONSUMER if is_simple else pb.ClientType.LITE_PUSH_CONSUMER
        member = Member(plan, client, group, topic, limit, filter_, kind)
        await self.send_settings(member)
        self.members.append(member)
        return member

    async def send_settings(self, member: Member) -> None:
        """Send a consumer's settings."""
        begun = self._scribe.instant()
        subscriptions = {member.topic: _expression(member.filter)}
        settings = requests.consumer_settings(member.group, subscriptions, member.kind)
        reply = await member.client.send_settings(settings)
        member.seen.append(member.filter)
        if member.is_lite:
            await self.sync(member)
            return
        self._scribe.add(
            begun,
            Settings(
                client=member.name,
                group=member.group,
                ordered=reply.subscription.fifo,
                max_attempts=reply.backoff_policy.max_attempts,
                steps=tuple(map(seconds_of, reply.backoff_policy.customized_backoff.next)),
            ),
        )

    async def sync(self, member: Member) -> None:
        """Replace or repeat the subscriptions to lite topics; other consumers have none."""
        if member.is_lite:
            request = pb.SyncLiteSubscriptionRequest(
                action=pb.LiteSubscriptionAction.COMPLETE_ADD,
                topic=requests.resource(member.topic),
                group=requests.resource(member.group),
                lite_topic_set=member.filter.text.split(),
            )
            code = code_of(await member.client.unary("SyncLiteSubscription", request))
            assert code == "OK", f"subscriptions to lite topics were answered with {code}"

    async def assignment(self, member: Member, step: Step) -> None:
        """Ask which queues a consumer may receive from."""
        if member.is_lite:
            return
        begun = self._scribe.instant()
        reply = await member.client.query_assignment(member.topic, member.group)
        queues = {each.message_queue.id for each in reply.assignments}
        self._scribe.add(
            begun,
            Assignment(
                client=member.name,
                group=member.group,
                topic=member.topic,
                code=code_of(reply),
                queues=tuple(sorted(queues)),
            ),
        )

    async def settings(self, member: Member, step: Step) -> None:
        """Send settings again, on the same stream or on another concurrent one."""
        if step.integer("again") % 2:
            await member.client.open_stream()
        await self.send_settings(member)
        if step.integer("again") % 4 == 3:
            await member.client.close_streams(1)

    async def subscribe(self, member: Member, step: Step) -> None:
        """Change the filter of a consumer, also while it polls."""
        is_lite = member.is_lite
        member.filter = _names(step.integer("names")) if is_lite else filter_of(step.text("filter"))
        await self.send_settings(member)

    async def leave(self, member: Member, *, crashes: bool) -> None:
        """Let a consumer terminate, or vanish."""
        if not crashes and not self._semantics.checks_leases:
            # There a poll goes on without its client, and takes messages.
            await self.polled(member)
        begun = self._scribe.instant()
        member.is_alive = False
        if crashes:
            await member.client.disconnect()
            await asyncio.sleep(0.005)  # until the server knows
        else:
            await member.client.terminate(member.group)
        self._scribe.add(begun, Gone(client=member.name, crashed=crashes))
        rest = self._semantics.expiry if crashes else 0.0
        for held in self.held:
            if held.member is member:
                self._end_renewal(held, rest)

    def end_renewals(self) -> None:
        """Note that a restart has ended all renewals."""
        now = self._scribe.now()
        for held in self.held:
            is_changed = len(held.handles) > 1
            if held.member.plan.renews and not is_changed and (held.is_renewed or held.end > now):
                age = now - (held.delivery.at - self._scribe.started)
                held.is_renewed = True
                self._end_renewal(held, self._semantics.rest_of_renewed(age))

    def _end_renewal(self, held: Held, rest: float) -> None:
        if held.is_renewed and not held.is_settled:
            held.is_renewed, held.end = False, self._scribe.now() + rest + HOLD
            self.horizon = max(self.horizon, held.end)

    async def close(self) -> None:
        """Disconnect everybody."""
        for member in self.members:
            await member.polls.cancel()
            await member.client.disconnect()

    # Receives

    async def receive(self, member: Member, step: Step) -> None:
        """Start a receive; it continues in the background if it finds nothing."""
        if len(member.polls) < POLLS:
            self.poll(member, step.integer("batch"), step.real("invisible"), step.real("poll"))
            await asyncio.sleep(0)

    def poll(self, member: Member, batch: int, invisible: float, poll: float) -> asyncio.Task[None]:
        """Start a poll of a consumer."""
        return member.polls.start(self._receive(member, batch, invisible, poll))

    async def cancel(self, member: Member, step: Step) -> None:
        """Cancel a receive or a pull in progress."""
        # Other servers go on without the client, and take messages.
        if member.polls and self._semantics.checks_leases:
            await member.polls.cancel(step.integer("pick") % len(member.polls))

    def check(self) -> None:
        """Raise the exception of a poll that failed, if there was one."""
        for member in self.members:
            member.polls.check()

    async def polled(self, member: Member) -> None:
        """Wait for the end of a consumer's polls."""
        while member.polls:
            await self._scribe.settle()
            if member.polls:
                await self._scribe.clock.sleep(0.5 if self._scribe.is_exact else 0.05)

    async def _receive(self, member: Member, batch: int, invisible: float, poll: float) -> None:
        begun, restarts = self._scribe.instant(), self._scribe.restarts
        renews, filter_, known = member.plan.renews, member.filter, len(member.seen)
        lease = self._semantics.renewed if renews else invisible
        code, deliveries, is_cancelled = UNKNOWN, list[Delivered](), True
        try:
            received = await member.client.receive(
                member.topic,
                member.group,
                batch=batch,
                invisible=None if renews else invisible,
                poll=poll,
                expression=_expression(filter_),
                auto_renew=renews,
            )
            code, is_cancelled = _code(received), False
            for one in received.deliveries:
                deliveries.append(self._delivered(one, begun))
                end = one.at - self._scribe.started + lease
                self.held.append(Held(one, member, [one.handle], end, renews))
                self._lite_topics[one.id] = one.lite_topic
                self.horizon = max(self.horizon, end)
        finally:
            # A crash cancels it; its filter may have taken effect all the same.
            self._scribe.add(
                begun,
                Receive(
                    client=member.name,
                    group=member.group,
                    topic=member.topic,
                    filter=_joined(filter_, *member.seen[known:]) if member.is_lite else filter_,
                    batch=batch,
                    invisible=lease,
                    poll=poll,
                    auto_renew=renews,
                    code=code,
                    deliveries=tuple(deliveries),
                    is_cut=is_cancelled or not member.is_alive or self._scribe.restarts != restarts,
                ),
            )

    async def pull(self, member: Member, step: Step, queues: int) -> None:
        """Start a pull of a queue in the background."""
        if len(member.polls) < POLLS:
            queue = step.integer("queue") % queues
            offset = step.behind(self._next_offsets.get((member.topic, queue), 0))
            member.polls.start(self._pull(member, step, queue, offset))
            await asyncio.sleep(0)

    async def _pull(self, member: Member, step: Step, queue: int, offset: int) -> None:
        begun, restarts = self._scribe.instant(), self._scribe.restarts
        filter_ = filter_of(step.text("filter"))
        received = await queues.pull(
            member.client,
            member.group,
            queues.queue_of(member.topic, queue),
            offset,
            batch=step.integer("batch"),
            poll=step.real("poll"),
            expression=_expression(filter_),
        )
        next_offset = received.next_offset
        if not member.is_alive or self._scribe.restarts != restarts or received.error or next_offset is None:
            return
        deliveries = [self._delivered(one, begun) for one in received.deliveries]
        self._next_offsets[member.topic, queue] = next_offset
        self._scribe.add(
            begun,
            Pull(
                client=member.name,
                group=member.group,
                topic=member.topic,
                queue=queue,
                offset=offset,
                batch=step.integer("batch"),
                poll=step.real("poll"),
                filter=filter_,
                code=_code(received),
                deliveries=tuple(deliveries),
                next_offset=next_offset,
            ),
        )

    def _delivered(self, one: Delivery, begun: Instant) -> Delivered:
        at, wall = one.at - self._scribe.started, self._scribe.wall(0.0)
        system = one.message.system_properties
        return Delivered(
            content=content_of(one.message),
            attempt=one.attempt,
            handle=one.handle,
            queue=one.queue,
            offset=one.offset,
            stored=one.stored_at - wall,
            due=seconds_of(system.delivery_timestamp) - wall
            if system.HasField("delivery_timestamp")
            else None,
            after=self._scribe.after(begun, at),
            at=self._scribe.instant(at),
        )

    # Handles

    def leased(self, group: str | None = None) -> list[Held]:
        """Return the deliveries whose leases are alive, as the consumers know."""
        now = self._scribe.now()
        return [
            held
            for held in self.held
            if not held.is_settled
            and (held.is_renewed or held.end > now)
            and group in (None, held.member.group)
        ]

    def _pick(self, step: Step, candidates: list[Held], count: int = 1) -> list[Held]:
        if not candidates:
            return []
        # Recent deliveries are chosen more often.
        first = (step.integer("pick") * step.integer("pick") // 64) % len(candidates)
        return list(reversed(candidates))[first : first + count]

    async def ack(self, member: Member, step: Step) -> None:
        """Acknowledge some deliveries of a group in one request."""
        if chosen := self._pick(step, self.leased(member.group), step.integer("count")):
            await self.acknowledge(member, chosen)

    async def acknowledge(self, member: Member, chosen: list[Held]) -> None:
        """Acknowledge deliveries with their newest handles."""
        codes = await self._ack(member, member.group, member.topic, [held.pair for held in chosen])
        for held, code in zip(chosen, codes, strict=True):
            held.is_settled = held.is_settled or code == "OK"

    async def _ack(self, member: Member, group: str, topic: str, entries: list[tuple[str, str]]) -> list[str]:
        begun = self._scribe.instant()
        names = [self._lite_topics.get(id_, "") for id_, _ in entries] if member.is_lite else []
        reply = await member.client.ack(topic, group, *entries, lite_topics=names)
        codes = [code_of(entry) for entry in reply.entries]
        self._scribe.add(
            begun,
            Ack(
                client=member.name,
                group=group,
                topic=topic,
                entries=tuple(entries),
                code=code_of(reply),
                codes=tuple(codes),
                echoed=tuple((entry.message_id, entry.receipt_handle) for entry in reply.entries),
            ),
        )
        return codes if len(codes) == len(entries) else [code_of(reply)] * len(entries)

    async def change(self, member: Member, step: Step) -> None:
        """Change the lease of a delivery."""
        for held in self._pick(step, self.leased(member.group)):
            suspends = bool(step.values["suspend"]) and self._suspends
            await self._change(member, held, held.handles[-1], step.real("seconds"), suspends=suspends)

    async def _change(
        self, member: Member, held: Held, handle: str, seconds: float, *, suspends: bool = False
    ) -> None:
        begun = self._scribe.instant()
        reply = await member.client.change_invisible(
            held.delivery, seconds, topic=held.member.topic, handle=handle, suspend=suspends
        )
        code = code_of(reply)
        new_handle = reply.receipt_handle if code == "OK" else ""
        self._scribe.add(
            begun,
            Change(
                client=member.name,
                group=held.member.group,
                topic=held.member.topic,
                message=held.delivery.id,
                handle=handle,
                seconds=seconds,
                suspend=suspends,
                code=code,
                new_handle=new_handle,
            ),
        )
        if code == "OK":
            held.end, held.is_renewed = self._scribe.now() + seconds, False
            self.horizon = max(self.horizon, held.end)
            if new_handle:
                held.handles.append(new_handle)

    async def forward(self, member: Member, step: Step) -> None:
        """Move a delivery to the dead letters."""
        for held in self._pick(step, self.leased(member.group)):
            # With a changed or renewed handle, Apache's servers move another message (live-broker-consumption 5a).
            is_safe = len(held.handles) == 1 and not held.member.plan.renews
            if self._semantics.checks_leases or is_safe:
                await self._forward(member, held, held.handles[-1])

    async def _forward(self, member: Member, held: Held, handle: str) -> None:
        begun = self._scribe.instant()
        reply = await member.client.forward_to_dead_letters(held.delivery, held.member.limit, handle=handle)
        code = code_of(reply)
        held.is_settled = held.is_settled or code == "OK"
        self._scribe.add(
            begun,
            Forward(
                client=member.name,
                group=held.member.group,
                topic=held.member.topic,
                message=held.delivery.id,
                handle=handle,
                code=code,
            ),
        )

    async def stale(self, member: Member, step: Step, groups: list[str], topics: list[str]) -> None:
        """Use a handle that is not good, or in the name of another group or topic, alone or among good ones."""
        state, call = step.text("state"), step.text("call")
        chosen = self._pick(step, self._in_state(state, member.group))
        if not chosen:
            return
        (held,) = chosen
        handle = held.handles[0] if state == "replaced" else held.handles[-1]
        handle = "no handle" if state == "garbage" else handle
        group, topic = held.member.group, held.member.topic
        if state == "group":
            group = next((name for name in groups if name != group), group)
        elif state == "topic":
            topic = next((name for name in topics if name != topic), topic)
        elif call == "change" and self._semantics.checks_leases:
            await self._change(member, held, handle, step.real("seconds"))
            return
        elif call == "forward" and self._semantics.checks_leases:
            await self._forward(member, held, handle)
            return
        if state in ("group", "topic") and (group, topic) == (held.member.group, held.member.topic):
            return
        good = [each for each in self.leased(group) if each is not held][-3:] if call == "mixed" else []
        entries = [each.pair for each in good]
        entries.insert(step.integer("place") % (len(good) + 1), (held.delivery.id, handle))
        codes = await self._ack(member, group, topic, entries)
        for each in good:
            is_ok = codes[entries.index(each.pair)] == "OK"
            each.is_settled = each.is_settled or (topic == each.member.topic and is_ok)

    def _in_state(self, state: str, group: str) -> list[Held]:
        now = self._scribe.now()
        if state == "settled":
            candidates = [held for held in self.held if held.is_settled]
        elif state == "expired":
            candidates = [held for held in self.held if not held.is_settled and held.end < now]
        elif state == "replaced":
            candidates = [held for held in self.leased() if len(held.handles) > 1]
        else:
            candidates = self.leased()
        return [held for held in candidates if held.member.group == group]


def _names(bits: int) -> Filter:
    """Return the filter of a consumer of some lite topics."""
    return lite(*(name for place, name in enumerate(MESSAGE_GROUPS) if bits >> place & 1))


def _joined(*filters: Filter) -> Filter:
    return lite(*{name for each in filters for name in each.text.split()})


def _expression(filter_: Filter) -> pb.FilterExpression:
    kind = pb.FilterType.SQL if filter_.is_sql else pb.FilterType.TAG
    return pb.FilterExpression(type=kind, expression="*" if filter_.is_lite else filter_.text)


def _code(received: Received) -> str:
    if received.error is not None or not received.statuses:
        return UNKNOWN if received.error in (None, "CANCELLED", "UNAVAILABLE") else f"gRPC {received.error}"
    return code_name(received.statuses[0].code)
