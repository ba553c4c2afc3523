"""A small scripted push client: leases renewed by the server, acks on success, nacks or local retries on failure."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.probe.answers import Delivery, code_name, code_of, seconds_of, status_text
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import Clock, within
from aiorocketmq_conformance.verdicts import Blocked

Handler = Callable[[Delivery], Awaitable[bool]]
HEARTBEAT_EVERY = 10.0
_SERIALS = itertools.count()


@dataclass(frozen=True, slots=True)
class Handled:
    """One run of the handler."""

    delivery: Delivery
    attempt: int
    """The attempt as seen by the handler: the server's, plus local retries in an ordered group."""
    began: float
    ended: float
    succeeded: bool
    serial: int
    """Incremented with every run started in the process: their order if a manual clock does not move."""


class PushClient:
    """Receives with auto-renew and passes each message to a handler, as the push consumers of client libraries
    do.

    A group that is not ordered: success acks, failure nacks with the advertised interval of that attempt. An
    ordered group: one message at a time for each message group, a failure is retried locally after the advertised
    interval, the last failure forwards to the dead letters (broker-semantics.md 7.2). Used as `async with`.
    """

    def __init__(
        self, client: ProbeClient, topic: str, group: str, handler: Handler, *, poll: float = 20.0
    ) -> None:
        """Prepare; the client must have sent settings as a push consumer of `group`."""
        assert client.settings is not None, "the client must send its settings first"
        self.settings = client.settings
        """The server's settings for this client."""
        self.group = group
        self._client = client
        self.topic = topic
        self._handler = handler
        self._poll = poll
        self._fifo = self.settings.subscription.fifo
        self._attempts = self.settings.backoff_policy.max_attempts
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()
        self.received: list[Delivery] = []
        """Every delivery in the order of arrival, whether its handler has finished or not."""
        self.handled: list[Handled] = []
        """Every run of the handler in the order of its end."""
        self.errors: list[BaseException] = []
        """Errors of the client itself; a case asserts that it stays empty."""

    async def __aenter__(self) -> Self:
        self._loops = [asyncio.create_task(self._receive()), asyncio.create_task(self._beat())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def leave(self) -> None:
        """Stop at once and terminate: the server releases the leases of this client (R7.9)."""
        await self.stop()
        reply = await self._client.terminate(self.group)
        assert reply.status.code == pb.Code.OK, f"termination was answered with {code_of(reply)}"

    async def stop(self) -> None:
        """Cancel the poll and the handlers that run."""
        tasks = [*self._loops, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, enough: Callable[[list[Handled]], bool], seconds: float) -> None:
        """Wait until `enough(handled)`; AssertionError after `seconds` of the case's clock."""

        async def wait() -> None:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self.errors) or enough(self.handled))

        try:
            await within(self._clock, seconds, wait())
        except TimeoutError:
            last_runs = [(run.delivery.text, run.attempt, run.succeeded) for run in self.handled[-5:]]
            raise AssertionError(
                f"handled {len(self.handled)} times in {seconds:g} s, last {last_runs}"
            ) from None
        if self.errors:
            raise self.errors[0]

    @property
    def _clock(self) -> Clock:
        return self._client.clock

    def _interval(self, attempt: int) -> float:
        return interval(self.settings, attempt)

    async def _receive(self) -> None:
        try:
            self._client.require(Step.RECEIVE)
        except Blocked as blocked:
            await self._fail(blocked)
            return
        while True:
            answer = await self._client.receive(
                self.topic, self.group, invisible=None, auto_renew=True, poll=self._poll
            )
            if answer.error or answer.code not in {pb.Code.OK, pb.Code.MESSAGE_NOT_FOUND}:
                code = answer.error or code_name(answer.code)
                await self._fail(AssertionError(f"push receive was answered with {code}"))
                return
            self.received += answer.deliveries
            for delivery in answer.deliveries:
                task = asyncio.create_task(self._guarded(delivery))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _guarded(self, delivery: Delivery) -> None:
        try:
            if self._fifo:
                # asyncio.Lock is fair, and tasks start in the order of the batch: so messages of a group stay in
                # order.
                async with self._locks[delivery.message_group]:
                    await self._in_order(delivery)
            else:
                await self._once(delivery)
        except Exception as error:  # boundary of the task: raised in the case by `until`
            await self._fail(error)

    async def _once(self, delivery: Delivery) -> None:
        if await self._handle(delivery, delivery.attempt):
            await self._ack(delivery)
        else:
            reply = await self._client.change_invisible(delivery, self._interval(delivery.attempt))
            assert reply.status.code == pb.Code.OK, f"nack was answered with {code_of(reply)}"

    async def _in_order(self, delivery: Delivery) -> None:
        attempt = delivery.attempt
        while not await self._handle(delivery, attempt):
            if attempt >= self._attempts:
                reply = await self._client.forward_to_dead_letters(delivery, self._attempts)
                assert reply.status.code == pb.Code.OK, f"forward was answered with {code_of(reply)}"
                return
            await self._clock.sleep(self._interval(attempt))
            attempt += 1
        await self._ack(delivery)

    async def _handle(self, delivery: Delivery, attempt: int) -> bool:
        began, serial = self._clock.now(), next(_SERIALS)
        try:
            succeeded = await self._handler(delivery)
        except RuntimeError:  # scripted handlers fail with any exception
            succeeded = False
        self.handled.append(Handled(delivery, attempt, began, self._clock.now(), succeeded, serial))
        async with self._changed:
            self._changed.notify_all()
        return succeeded

    async def _ack(self, delivery: Delivery) -> None:
        self._client.require(Step.ACKNOWLEDGE)
        response = await self._client.ack(self.topic, self.group, delivery)
        assert response.status.code == pb.Code.OK, f"ack was answered with {status_text(response.status)}"

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(HEARTBEAT_EVERY)
            reply = await self._client.heartbeat(self.group, pb.ClientType.PUSH_CONSUMER)
            if reply.status.code != pb.Code.OK:
                await self._fail(AssertionError(f"heartbeat was answered with {code_of(reply)}"))

    async def _fail(self, error: BaseException) -> None:
        self.errors.append(error)
        async with self._changed:
            self._changed.notify_all()


def interval(settings: pb.Settings, attempt: int) -> float:
    """Return the seconds of the advertised back-off after delivery number `attempt` (rule table 7.2)."""
    policy = settings.backoff_policy
    if policy.WhichOneof("strategy") == "exponential_backoff":
        steps = policy.exponential_backoff
        first, most = seconds_of(steps.initial), seconds_of(steps.max)
        return float(min(first * steps.multiplier ** (attempt - 1), most))
    table = policy.customized_backoff.next
    return seconds_of(table[min(attempt, len(table)) - 1])
