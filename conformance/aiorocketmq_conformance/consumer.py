"""A consumer of one topic in one group, as most cases use it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_name, entry_codes, status_text
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.clock import Clock
from aiorocketmq_conformance.tolerances import PROMPT

SHORT_POLL = 5.0
"""The shortest poll that servers allow (rule R5.1 row 3): an empty answer takes this long."""
LEASE = 30.0
"""What receives ask for if the length of the lease does not matter."""
HEARTBEAT_EVERY = 30.0
"""Servers forget a client that sent nothing for two minutes (rule R2.15)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that the server took, and its receipt."""

    message: pb.Message
    receipt: pb.SendResultEntry
    at: float
    """When the request went out, seconds of the case's clock."""
    acked_at: float
    wall: float
    """When the request went out, Unix seconds."""

    @property
    def id(self) -> str:
        """The client-made message id."""
        return self.message.system_properties.message_id


class Consumer:
    """A consumer of one topic in one group that remembers every delivery."""

    def __init__(self, client: ProbeClient, topic: str, group: str, expression: str, kind: int) -> None:
        self.client = client
        self.kind = kind
        self.topic = topic
        self.group = group
        self.expression = expression
        self.seen: list[Delivery] = []
        """Every delivery in the order of arrival."""
        self._settled: set[str] = set()
        self._heard_of = client.clock.now()

    @property
    def clock(self) -> Clock:
        """The case's clock."""
        return self.client.clock

    async def receive(self, **asked: Any) -> Received:
        """One receive; arguments as of `ProbeClient.receive`. Before it a heartbeat where the last one is long ago."""
        self.client.require(Step.RECEIVE)
        if self.clock.now() > self._heard_of + HEARTBEAT_EVERY:
            self._heard_of = self.clock.now()
            await self.client.heartbeat(self.group, self.kind)
        asked.setdefault("expression", self.expression)
        answer = await self.client.receive(self.topic, self.group, **asked)
        if unjudged := [one for one in answer.deliveries if one.id in self.client.unjudged]:
            await self.client.ack(self.topic, self.group, *unjudged)
            others = tuple(one for one in answer.deliveries if one not in unjudged)
            answer = replace(answer, deliveries=others)
        self.seen += answer.deliveries
        return answer

    async def ack(self, *deliveries: Delivery) -> None:
        """Ack in one request; AssertionError unless every entry is OK."""
        if not deliveries:
            return
        self.client.require(Step.ACKNOWLEDGE)
        response = await self.client.ack(self.topic, self.group, *deliveries)
        codes = entry_codes(response)
        assert codes == ["OK"] * len(deliveries), (
            f"ack of unexpired handles answered {status_text(response.status)}, entries {codes}"
        )
        self._settled.update(delivery.handle for delivery in deliveries)

    async def take(
        self,
        count: int,
        *,
        within: float = PROMPT,
        settle: bool = True,
        until: float | None = None,
        **asked: Any,
    ) -> list[Delivery]:
        """Receive (and ack when `settle`) until `count` deliveries came.

        AssertionError after `within` seconds of the case's clock, or at the instant `until`; a poll that is under
        way then ends first.
        """
        asked.setdefault("poll", SHORT_POLL)
        asked.setdefault("invisible", LEASE)
        end = until if until is not None else self.clock.now() + within
        taken: list[Delivery] = []
        while len(taken) < count:
            answer = await self.receive(**asked)
            taken += answer.deliveries
            if settle:
                await self.ack(*answer.deliveries)
            late = self.clock.now() > end and len(taken) < count
            assert not late, f"{len(taken)} of {count} deliveries in time: {taken[-5:]}"
            check_served(answer)
        return taken

    async def one(self, **asked: Any) -> Delivery:
        """The next delivery, not acked; arguments as of `take`."""
        asked.setdefault("batch", 1)
        asked.setdefault("settle", False)
        return (await self.take(1, **asked))[0]

    async def find(
        self, sent: Sent, *, within: float = PROMPT, settle_others: bool = True, **asked: Any
    ) -> Delivery:
        """The next delivery of one message, not acked; others that come before it are acked unless said otherwise."""
        asked.setdefault("poll", SHORT_POLL)
        asked.setdefault("invisible", LEASE)
        end = self.clock.now() + within
        while self.clock.now() <= end:
            answer = await self.receive(**asked)
            wanted = [one for one in answer.deliveries if one.id == sent.id]
            if settle_others:
                await self.ack(*(one for one in answer.deliveries if one.id != sent.id))
            if wanted:
                return wanted[0]
        raise AssertionError(f"{sent.message.body[:24]!r} was not delivered within {within:g} s")

    async def watch(self, seconds: float, *, settle: bool = False, **asked: Any) -> list[Delivery]:
        """Everything that comes in the next `seconds`, polling all the time."""
        end = self.clock.now() + seconds
        seen: list[Delivery] = []
        while (left := end - self.clock.now()) > 0.05:
            answer = await self.receive(
                **{"invisible": LEASE, **asked, "poll": max(SHORT_POLL, min(left, 20.0))}
            )
            seen += answer.deliveries
            if settle:
                await self.ack(*answer.deliveries)
            check_served(answer)
        return seen

    async def leave_nothing(self) -> None:
        """Ack what was received and not acked; for the end of a case, so it never raises."""
        open_ = [delivery for delivery in self.seen if delivery.handle not in self._settled]
        for start in range(0, len(open_), 64):
            # A client that has vanished has no channel any more.
            with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, CallFailed):
                await self.client.ack(self.topic, self.group, *open_[start : start + 64])


def check_served(answer: Received) -> None:
    """AssertionError with the server's text, unless a receive brought messages or was empty."""
    if answer.error or not (answer.deliveries or is_empty(answer)):
        raise AssertionError(f"receive answered {answer_text(answer)}")


EMPTY = {"OK", "MESSAGE_NOT_FOUND"}
"""What empty answers say (inventory O8); a false empty is legal too (rule R5.6)."""


def answered(answer: Received) -> str:
    """What a receive was answered with, by name; AssertionError where its stream broke."""
    assert answer.error is None, f"the stream ended with {answer.error}"
    return code_name(answer.code)


def is_empty(answer: Received) -> bool:
    """Whether a receive was answered as empty."""
    return code_name(answer.code) in EMPTY


def answer_text(answer: Received) -> str:
    """Return the error of a receive, or its first status with the server's text."""
    return answer.error or status_text(answer.statuses[0])
