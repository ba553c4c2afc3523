"""Executes a plan on a target, step by step, and drains all groups at the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc.aio

from aiorocketmq_conformance.explore.classic import Classic
from aiorocketmq_conformance.explore.consuming import Consuming, Member
from aiorocketmq_conformance.explore.plan import READERS, ConsumerPlan, Plan, Step
from aiorocketmq_conformance.explore.producing import Producing
from aiorocketmq_conformance.explore.scribe import Scribe
from aiorocketmq_conformance.model.calls import (
    Drained,
    GroupCreated,
    Instant,
    Lag,
    Pause,
    Reset,
    Restart,
    Route,
    TopicCreated,
    Trim,
)
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.target import Moment, Target

HEARTBEATS = 25.0
"""Servers forget a client that is silent for two minutes (R2.15)."""
SWEEP_POLL, SWEEP_LEASE = 5.0, 30.0
RECONNECTS = 200
PRODUCERS, MEMBERS = 2, 5
KEPT = 259_200.0
"""Servers keep messages for three days."""
READER_ATTEMPTS = 17
"""Attempts of the groups that read dead letters."""


class HistoryFailed(Exception):
    """A call that has to succeed failed; the text has the error, `at` is when."""

    def __init__(self, text: str, at: Instant) -> None:
        super().__init__(text)
        self.at = at


class Execution:
    """One history on one target."""

    def __init__(self, plan: Plan, target: Target, semantics: Semantics) -> None:
        self.scribe = Scribe(target.clock)
        self._plan = plan
        self._target = target
        self._semantics = semantics
        self._topics = [target.fresh(f"topic{place}") for place in range(len(plan.topics))]
        self._queues = [topic.queues for topic in plan.topics]
        self._limits = [group.max_attempts for group in plan.groups]
        self._groups: dict[int, str] = {}
        """Names by number; late ones are added by a step."""
        self._consuming = Consuming(self.scribe, semantics, suspends=target.has("suspend"))
        topics = list(zip(self._topics, plan.topics, strict=True))
        self._producers = Producing(
            self.scribe,
            semantics,
            topics,
            [self._client("producer") for _ in range(PRODUCERS)],
            target.run_id,
        )
        self._classic = Classic(
            self.scribe, topics, self._classic_client, self._producers, target.fresh("classic")
        )
        self._steps = {
            **self._classic.steps,
            "send": self._producers.send,
            "illegal": self._producers.send_illegal,
            "commit": self._producers.end,
            "rollback": self._producers.end,
            "recall": self._producers.recall,
            "reopen": self._producers.reopen,
            "trim": self._trim,
            "join": self._join_late,
            "wait": self._wait_step,
            "lag": self._lag,
            "limit": self._limit,
            "more queues": self._more_queues,
            "anew": self._anew,
            "route": self._route,
            "reset": self._reset,
            "restart": self._restart,
            "kill": self._restart,
            "pause": self._pause,
        }
        self._member_steps = {
            "receive": self._consuming.receive,
            "ack": self._consuming.ack,
            "change": self._consuming.change,
            "forward": self._consuming.forward,
            "stale": self._stale,
            "settings": self._consuming.settings,
            "subscribe": self._consuming.subscribe,
            "assignment": self._consuming.assignment,
            "leave": self._leave,
            "cancel": self._consuming.cancel,
            "pull": self._pull,
        }
        """Steps of one consumer; without any left, they do nothing."""

    async def run(self) -> None:
        """Execute everything; HistoryFailed if a call that must succeed fails."""
        try:
            await self._prepare()
            for step in self._plan.steps:
                await self._execute(step)
                await self.scribe.settle()
                self._check()
            await self._finish()
            self._check()
        except (AssertionError, CallFailed, StreamEnded, grpc.aio.AioRpcError, ConnectionError) as error:
            raise HistoryFailed(" ".join(str(error).split())[:200], self.scribe.instant()) from error
        finally:
            self._producers.stop()
            await self._consuming.close()
            await self._classic.close()
            for client in self._producers.clients:
                await client.disconnect()

    def _check(self) -> None:
        """Raise what failed in the background."""
        self._consuming.check()
        self._classic.pulls.check()

    # The beginning

    async def _prepare(self) -> None:
        for place in range(len(self._topics)):
            await self._put_topic(place)
        for place, group in enumerate(self._plan.groups):
            if not group.late:
                await self._create_group(place)
        if self._plan.is_classic:
            await self._target.create_group(self._classic.group)
        for client in self._producers.clients:
            await client.send_settings(self._producers.settings())
        self._producers.listen()
        for plan in self._plan.consumers:
            if not plan.late and plan.group in self._groups:
                await self._join(plan)
        await self.scribe.settle()

    async def _put_topic(self, place: int) -> None:
        """Create a topic, or give it its number of queues."""
        name, type_, queues = self._topics[place], self._plan.topics[place].type, self._queues[place]
        begun = self.scribe.instant()
        await self._target.create_topic(name, type=type_, queues=queues)
        self.scribe.add(begun, TopicCreated(topic=name, type=type_, queues=queues))

    async def _create_group(self, place: int) -> None:
        name = self._target.fresh(f"group{place}")
        self._groups[place] = name
        await self._put_group(place)
        begun, readers = self.scribe.instant(), f"{name}{READERS}"
        await self._target.create_group(readers, max_attempts=READER_ATTEMPTS)
        self.scribe.add(begun, GroupCreated(group=readers, ordered=False, max_attempts=READER_ATTEMPTS))

    async def _put_group(self, place: int, *, is_anew: bool = False) -> None:
        """Create a group, or give it its limit of attempts; `is_anew`: delete it before."""
        plan, name, limit = self._plan.groups[place], self._groups[place], self._limits[place]
        parent = self._topics[plan.topic] if plan.is_lite else ""
        begun = self.scribe.instant()
        if is_anew:
            await self._target.admin.delete_group(name)
        await self._target.create_group(
            name, ordered=plan.ordered, max_attempts=limit, backoff=plan.steps or None, lite_topic=parent
        )
        self.scribe.add(
            begun,
            GroupCreated(
                group=name,
                ordered=plan.ordered or plan.is_lite,
                max_attempts=limit,
                steps=plan.steps,
                is_anew=is_anew,
            ),
        )

    def _client(self, stem: str) -> ProbeClient:
        target = self._target
        channel = target.connect and target.connect(target.endpoint)
        return ProbeClient(target.endpoint, target.fresh(stem), target.clock, channel=channel)

    def _classic_client(self) -> RemotingProbe:
        target = self._target
        assert target.name_server is not None, "steps of the classic protocol need a name server"
        return RemotingProbe(target.name_server, target.fresh("classic-client"), target.clock)

    async def _join(self, plan: ConsumerPlan) -> Member:
        group = self._plan.groups[plan.group]
        return await self._consuming.join(
            plan,
            self._client("consumer"),
            self._groups[plan.group],
            self._topics[group.topic],
            group.max_attempts,
            is_lite=group.is_lite,
        )

    # Steps

    async def _execute(self, step: Step) -> None:
        if step.kind in self._steps:
            await self._steps[step.kind](step)
        elif members := self._consuming.alive():
            await self._member_steps[step.kind](members[step.integer("consumer") % len(members)], step)

    async def _stale(self, member: Member, step: Step) -> None:
        await self._consuming.stale(member, step, list(self._groups.values()), self._topics)

    async def _join_late(self, step: Step) -> None:
        late = [place for place in range(len(self._plan.groups)) if place not in self._groups]
        for place in late[:1]:
            await self._create_group(place)
        plans = [plan for plan in self._plan.consumers if plan.group in self._groups]
        if len(self._consuming.alive()) < MEMBERS and plans:
            await self._join(plans[step.integer("consumer") % len(plans)])

    async def _leave(self, member: Member, step: Step) -> None:
        crashes = bool(step.values["crashes"]) and self.scribe.is_exact
        await self._consuming.leave(member, crashes=crashes)

    async def _wait_step(self, step: Step) -> None:
        await self._wait(step.real("seconds"))

    async def _wait(self, seconds: float) -> None:
        until = self.scribe.now() + seconds
        while (left := until - self.scribe.now()) > 1e-6:
            await self._target.clock.sleep(min(left, HEARTBEATS))
            for member in self._consuming.alive():
                await member.client.heartbeat(member.group, member.kind)
                await self._consuming.sync(member)
            for producer in self._producers.clients:
                await producer.heartbeat()
            await self._classic.beat()

    def _place(self, step: Step) -> int:
        """Return the number of a group that has been created."""
        return sorted(self._groups)[step.integer("group") % len(self._groups)]

    def _group(self, step: Step) -> tuple[str, str] | None:
        """Return name and topic of a group; None if it consumes lite topics."""
        place = self._place(step)
        plan = self._plan.groups[place]
        return None if plan.is_lite else (self._groups[place], self._topics[plan.topic])

    async def _lag(self, step: Step) -> None:
        if (chosen := self._group(step)) is None:
            return
        group, topic = chosen
        begun = self.scribe.instant()
        waiting, in_flight = await self._target.admin.lag(group, topic)
        self.scribe.add(begun, Lag(group=group, topic=topic, waiting=waiting, in_flight=in_flight))

    async def _limit(self, step: Step) -> None:
        place = self._place(step)
        self._limits[place] = step.integer("limit")
        await self._put_group(place)

    async def _more_queues(self, step: Step) -> None:
        place = step.integer("topic") % len(self._topics)
        # Message groups may go to other queues then, and there are as many priorities as queues.
        if self._plan.topics[place].type not in {"FIFO", "PRIORITY", "LITE"}:
            self._queues[place] += step.integer("count") % 3
            await self._put_topic(place)

    async def _anew(self, step: Step) -> None:
        """Delete a group and create it again, while its consumers are away."""
        place = self._place(step)
        if self._plan.groups[place].is_lite:
            return  # which begins again at the first messages of its lite topics
        members = [member for member in self._consuming.alive() if member.group == self._groups[place]]
        for member in members:
            await self._consuming.leave(member, crashes=False)
            await self._consuming.polled(member)
        await self._put_group(place, is_anew=True)
        for member in members:
            await self._join(member.plan)

    async def _route(self, step: Step) -> None:
        topic = self._topics[step.integer("topic") % len(self._topics)]
        client = self._producers.clients[0]
        begun = self.scribe.instant()
        reply = await client.query_route(topic)
        queues = tuple(sorted(queue.id for queue in reply.message_queues))
        self.scribe.add(
            begun,
            Route(client=client.client_id, topic=topic, code=code_of(reply), queues=queues),
        )

    async def _reset(self, step: Step) -> None:
        if (chosen := self._group(step)) is None:
            return
        group, topic = chosen
        begun = self.scribe.instant()
        to_end, at = bool(step.values["to_end"]), None
        if step.values["back"] is not None and self._semantics.checks_leases:
            to_end, at = False, self.scribe.now() - step.real("back")
        moment: Moment = ("end" if to_end else "beginning") if at is None else self.scribe.wall(at)
        await self._target.admin.reset_offset(group, topic, moment)
        self.scribe.add(begun, Reset(group=group, topic=topic, to_end=to_end, at=at))

    async def _pull(self, member: Member, step: Step) -> None:
        queues = self._queues[self._topics.index(member.topic)]
        await self._consuming.pull(member, step, queues)

    async def _trim(self, step: Step) -> None:
        begun = self.scribe.instant()
        await self._target.admin.set_retention(step.real("age"))
        await self._target.admin.delete_expired()
        await self._target.admin.set_retention(KEPT)
        self.scribe.add(begun, Trim(age=step.real("age")))

    async def _restart(self, step: Step) -> None:
        begun = self.scribe.instant()
        self.scribe.restarts += 1
        self._classic.restarted()
        await (self._target.restart() if step.kind == "restart" else self._target.process.kill())
        for producer in self._producers.clients:
            await self._reconnect(producer)
            await producer.send_settings(self._producers.settings())
        self._producers.listen()
        for member in self._consuming.alive():
            await self._reconnect(member.client)
            await self._consuming.send_settings(member)
        self.scribe.add(begun, Restart())
        self._consuming.end_renewals()

    async def _reconnect(self, client: ProbeClient) -> None:
        for _ in range(RECONNECTS):
            with suppress(ConnectionError, grpc.aio.AioRpcError):
                await client.query_route(self._topics[0])
                await client.open_stream()
                return
            await asyncio.sleep(0.02)
        raise ConnectionError("the server does not answer after a restart")

    async def _pause(self, step: Step) -> None:
        begun = self.scribe.instant()
        await self._target.process.pause(step.real("seconds"))
        self.scribe.add(begun, Pause())

    # The end

    async def _finish(self) -> None:
        """Wait for every lease and delay, and receive what is left, and all dead letters."""
        for member in self._consuming.alive():
            await self._consuming.leave(member, crashes=False)
            await self.scribe.settle()
        horizon = max(self._consuming.horizon, self._producers.horizon)
        late = max(self._semantics.revive[1], self._semantics.nack[1], self._semantics.ordered[1])
        late += self._semantics.wake + 1.0
        await self._wait(max(0.0, horizon - self.scribe.now()) + late)
        for place, group in sorted(self._groups.items()):
            its = self._plan.groups[place]
            await self._sweep(place, group, self._topics[its.topic], is_lite=its.is_lite)
        await self._wait(self._semantics.wake + 1.0)
        for place, group in sorted(self._groups.items()):
            await self._sweep(place, f"{group}{READERS}", f"%DLQ%{group}")

    async def _sweep(self, place: int, group: str, topic: str, *, is_lite: bool = False) -> None:
        """Receive and acknowledge until a poll is empty."""
        begun = self.scribe.instant()
        plan = ConsumerPlan(place, renews=False, filter="*")
        member = await self._consuming.join(
            plan, self._client("consumer"), group, topic, READER_ATTEMPTS, is_lite=is_lite
        )
        route = await member.client.query_route(topic)
        while code_of(route) == "OK":
            count, started = len(self._consuming.held), self.scribe.now()
            # Some servers look for messages in lite topics every ten seconds only.
            wait = 3 * SWEEP_POLL if is_lite else SWEEP_POLL
            task = self._consuming.poll(member, 32, SWEEP_LEASE, wait)
            await self._consuming.polled(member)
            await task
            fresh = self._consuming.held[count:]
            if not fresh and self.scribe.now() - started > SWEEP_POLL / 2:
                break
            if fresh:  # else all that was found is given up
                await self._consuming.acknowledge(member, fresh)
                await self.scribe.settle()
        self.scribe.add(begun, Drained(group=group, topic=topic))
        await self._consuming.leave(member, crashes=False)
