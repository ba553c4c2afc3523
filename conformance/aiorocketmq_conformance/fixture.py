"""What a case stands on: fresh topics and groups, a producer, primed consumers, and a clean end."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import grpc.aio
from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.declaration import NO_GRPC
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_name, status_text
from aiorocketmq_conformance.probe.client import CallFailed, ProbeClient
from aiorocketmq_conformance.probe.clock import Clock, within
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import told
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.target import DEFAULT_QUEUES, Target
from aiorocketmq_conformance.tolerances import PROMPT
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable

P = ParamSpec("P")
T = TypeVar("T")

# The least a server polls (rule R5.1 row 3): an empty answer costs this much.
SHORT_POLL = 5.0
# What the priming receive and other bystanders ask for; any legal value does.
LEASE = 30.0
BUSY_TRIES = 10
# Servers forget a client that they have not heard of for two minutes (rule R2.15).
HEARTBEAT_EVERY = 30.0
# A proxy apart from its broker does not know the broker's groups while that is away, and for a while afterwards.
FORGOTTEN = 60.0


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
        codes = [code_name(entry.status.code) for entry in response.entries]
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
    if answer.error or not (answer.deliveries or _is_empty(answer)):
        raise AssertionError(f"receive answered {_told(answer)}")


EMPTY = {"OK", "MESSAGE_NOT_FOUND"}
"""What empty answers say (inventory O8); a false empty is legal too (rule R5.6)."""


def answered(answer: Received) -> str:
    """What a receive was answered with, by name; AssertionError where its stream broke."""
    assert answer.error is None, f"the stream ended with {answer.error}"
    return code_name(answer.code)


def _is_empty(answer: Received) -> bool:
    return code_name(answer.code) in EMPTY


def _told(answer: Received) -> str:
    return answer.error or status_text(answer.statuses[0])


@dataclass(slots=True)
class Stage:
    """One case's own corner of the broker."""

    target: Target
    stack: AsyncExitStack
    _producer: ProbeClient | None = None
    _consumers: list[Consumer] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        """The case's clock."""
        return self.target.clock

    async def client(self, endpoint: str | None = None, **headers: str | None) -> ProbeClient:
        """A client with a fresh id that has not said anything yet; closed at the end of the case."""
        if not (endpoint or self.target.endpoint):
            raise NotApplicable(NO_GRPC)
        client_id = self.target.fresh("client")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        where = endpoint or self.target.endpoint
        client = ProbeClient(
            where,
            client_id,
            self.clock,
            headers=named,
            require=self.target.require,
            unjudged=self.target.first_uses,
        )
        self.stack.push_async_callback(client.close)
        return client

    def member(self, client_id: str | None = None) -> RemotingProbe:
        """A client of the classic protocol that has not said anything yet, with a fresh id unless one is given; closed
        at the end."""
        if self.target.name_server is None:
            raise NotApplicable("nobody said where the target's name server is")
        client_id = self.target.fresh("client") if client_id is None else client_id
        probe = RemotingProbe(self.target.name_server, client_id, self.clock)
        self.stack.push_async_callback(probe.close)
        return probe

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` beside the case, no longer than the case; its error counts where the case awaits it."""
        task = asyncio.create_task(work)
        self.stack.push_async_callback(_end, task)
        return task

    async def topic(self, queues: int = DEFAULT_QUEUES, *, type: str = "NORMAL") -> str:  # noqa: A002
        """A fresh topic."""
        return await self.target.create_topic(type=type, queues=queues)

    async def producer(self, *topics: str) -> ProbeClient:
        """A fresh producer that presented itself."""
        client = await self.client()
        await client.present(requests.producer_settings(*topics))
        return client

    async def consumer(
        self,
        topic: str,
        *,
        group: str | None = None,
        ordered: bool = False,
        max_attempts: int = 17,
        expression: str = "*",
        prime: bool = True,
        kind: int | None = None,
    ) -> Consumer:
        """A consumer of `topic`, in a fresh group unless one is named, that presented itself.

        Priming is one empty receive: a group that nobody knew may start anywhere (inventory O3).
        """
        if group is None:
            group = await self.target.create_group(ordered=ordered, max_attempts=max_attempts)
        kind = pb.ClientType.SIMPLE_CONSUMER if kind is None else kind
        client = await self._presented(requests.consumer_settings(group, {topic: expression}, kind))
        consumer = Consumer(client, topic, group, expression, kind)
        self._consumers.append(consumer)
        if prime:
            answer = await consumer.receive(poll=SHORT_POLL, invisible=LEASE)
            if answer.error or not _is_empty(answer):
                raise Inconclusive(f"the priming receive answered {_told(answer)}")
            if answer.deliveries:
                raise Inconclusive(f"a fresh group received {answer.deliveries} before anything was sent")
        return consumer

    async def _presented(self, settings: pb.Settings) -> ProbeClient:
        """A fresh client that presented itself; after a restart it is patient with a proxy that knows no group yet."""
        until = self.clock.now() + (FORGOTTEN if self.target.was_disturbed else 0.0)
        while True:
            client = await self.client()
            try:
                await client.present(settings)
            except StreamEnded as ended:
                if ended.code != "INVALID_ARGUMENT" or self.clock.now() >= until:
                    raise
            else:
                return client
            await self.clock.sleep(1.0)

    async def send(self, topic: str, *bodies: str | bytes, **fields: Any) -> list[Sent]:
        """Send the bodies one after the other; AssertionError unless each is taken.

        `fields` are those of `requests.message`.
        """
        return [
            await self.send_message(requests.message(topic, body, **self._born(fields))) for body in bodies
        ]

    async def backlog(self, topic: str, *bodies: str | bytes, **fields: Any) -> list[Sent]:
        """The same as `send`, and wait until another group was handed all of them: a server shows a message some time
        after its receipt, and what it does not show yet is not part of an answer."""
        witness = await self.consumer(topic)
        sent = await self.send(topic, *bodies, **fields)
        await witness.take(len(sent), within=60.0)
        return sent

    async def send_all(
        self, topic: str, bodies: Iterable[str | bytes], *, lanes: int = 8, **fields: Any
    ) -> list[Sent]:
        """Send the bodies over several concurrent lanes; the receipts in order of the bodies."""
        free = asyncio.Semaphore(lanes)
        await self._main_producer(topic)

        async def one(body: str | bytes) -> Sent:
            async with free:
                return (await self.send(topic, body, **fields))[0]

        return list(await asyncio.gather(*(one(body) for body in bodies)))

    async def send_message(self, message: pb.Message, client: ProbeClient | None = None) -> Sent:
        """Send one message; AssertionError unless the server took it, Inconclusive when it is too busy to say."""
        self.target.require(Step.SEND)
        client = client or await self._main_producer(message.topic.name)
        for _ in range(BUSY_TRIES):
            at, wall = self.clock.now(), self.clock.wall()
            response = await client.send(message)
            if response.status.code != pb.Code.TOO_MANY_REQUESTS:
                break
            # Throttling breaks no promise; nothing was stored (broker-semantics.md 13.1).
            await self.clock.sleep(0.5)
        else:
            raise Inconclusive(f"the server refused a message {BUSY_TRIES} times as too much")
        assert response.status.code == pb.Code.OK, f"send answered {status_text(response.status)}"
        assert len(response.entries) == 1, f"send of one message answered {len(response.entries)} entries"
        return Sent(message, response.entries[0], at, self.clock.now(), wall)

    async def send_over(
        self,
        member: RemotingProbe,
        topic: str,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        *,
        queue: int = 0,
    ) -> None:
        """Send one message over remoting; AssertionError unless it is taken, Inconclusive if the server is too busy."""
        for _ in range(BUSY_TRIES):
            answer = await member.send(topic, body, properties, queue=queue)
            if answer.code != ResponseCode.SYSTEM_BUSY:
                assert answer.code == ResponseCode.SUCCESS, f"a message was answered {told(answer)}"
                return
            await self.clock.sleep(0.5)
        raise Inconclusive(f"the server refused a message {BUSY_TRIES} times as too busy")

    async def nothing_but(
        self, consumer: Consumer, seconds: float, *, sentinel: dict[str, Any] | None = None, **asked: Any
    ) -> list[Delivery]:
        """Everything that comes within `seconds`, closed by a sentinel that must come on the same path.

        Inconclusive when the sentinel (`sentinel` are its fields as of `requests.message`) does not arrive: then
        quiet proves nothing. What comes is acked, unless `settle=False` is asked.
        """
        settle = asked.pop("settle", True)
        seen = await consumer.watch(seconds, settle=settle, **asked)
        return seen + await self.sentinel(consumer, settle=settle, sentinel=sentinel, **asked)

    async def sentinel(
        self, consumer: Consumer, *, settle: bool = True, sentinel: dict[str, Any] | None = None, **asked: Any
    ) -> list[Delivery]:
        """Send a sentinel and receive until it comes; what came beside it. Inconclusive when it does not."""
        (sent,) = await self.send(consumer.topic, "sentinel", **(sentinel or {}))
        end = self.clock.now() + 2 * PROMPT
        beside: list[Delivery] = []
        while self.clock.now() < end:
            answer = await consumer.receive(**{"invisible": LEASE, **asked, "poll": SHORT_POLL})
            closing = [one for one in answer.deliveries if one.id == sent.id]
            beside += [one for one in answer.deliveries if one.id != sent.id]
            await consumer.ack(*(answer.deliveries if settle else closing))
            if closing:
                return beside
        raise Inconclusive("the sentinel that should close the quiet window never came")

    async def settle(self) -> None:
        """Ack what the case left over, if the target accepts that at all."""
        if self.target.blocks.reason(Step.ACKNOWLEDGE):
            return
        for consumer in self._consumers:
            await consumer.leave_nothing()

    def _born(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"born_at": self.clock.wall(), **fields}

    async def _main_producer(self, topic: str) -> ProbeClient:
        if self._producer is None:
            self._producer = await self.client()
            await self._producer.present(requests.producer_settings(topic))
        return self._producer


@asynccontextmanager
async def open_stage(target: Target) -> AsyncIterator[Stage]:
    """A stage that drains and closes itself at the end."""
    async with AsyncExitStack() as stack:
        stage = Stage(target, stack)
        try:
            yield stage
        finally:
            # Before the stack closes the clients.
            await stage.settle()


def on_stage(
    function: Callable[Concatenate[Stage, P], Awaitable[None]],
) -> Callable[..., Awaitable[None]]:
    """Let a case be written over a `Stage`; the engine calls it with the target."""

    @functools.wraps(function)
    async def run(target: Target, *args: P.args, **kwargs: P.kwargs) -> None:
        async with open_stage(target) as stage:
            await function(stage, *args, **kwargs)

    return run


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def notices(member: RemotingProbe, count: int, *, patience: float = PROMPT) -> None:
    """Return when a member has been told so often of a change in its group; AssertionError when it is not in time."""
    try:
        await within(member.clock, patience, member.notified(count))
    except TimeoutError:
        raise AssertionError(f"{len(member.notices)} of {count} notices within {patience:g} s") from None


def once_each(sent: Iterable[Sent], seen: Iterable[Delivery]) -> None:
    """AssertionError unless exactly the sent messages were seen, each once."""
    expected, got = Counter(one.id for one in sent), Counter(one.id for one in seen)
    assert got == expected, f"missing {len(expected - got)}, unexpected or double {len(got - expected)}"
