"""The fixture of a case: fresh topics and groups, a producer, primed consumers, and clean-up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq.config import Credentials
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer, Sent, answer_text, is_empty
from aiorocketmq_conformance.declaration import NO_GRPC, Number
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, status_text
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import Clock, within
from aiorocketmq_conformance.probe.remoting import RemotingProbe
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.target import DEFAULT_QUEUES, Note, Target
from aiorocketmq_conformance.tolerances import PROMPT
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable

T = TypeVar("T")

BUSY_TRIES = 10
# A separate proxy does not know the broker's groups while that is unavailable, and for some time afterwards.
FORGOTTEN = 60.0


@dataclass(slots=True)
class Fixture:
    """One case's topics, groups and clients on a broker."""

    target: Target
    stack: AsyncExitStack
    _producer: ProbeClient | None = None
    _consumers: list[Consumer] = field(default_factory=list)

    @property
    def clock(self) -> Clock:
        """The case's clock."""
        return self.target.clock

    @property
    def numbers(self) -> Mapping[str, Number]:
        """The target's declared limits and tolerances."""
        return self.target.numbers

    def number(self, name: str) -> float:
        """Return one declared number; KeyError if the target declares none of that name."""
        return self.target.number(name)

    def fresh(self, stem: str) -> str:
        """Return a name that was not used before; `stem` makes it readable."""
        return self.target.fresh(stem)

    def note(self, key: str, value: Note) -> None:
        """Record a measured value, to be printed with the verdict."""
        self.target.note(key, value)

    async def client(self, endpoint: str | None = None, **headers: str | None) -> ProbeClient:
        """Return a client with a fresh id that has sent nothing yet; closed at the end of the case."""
        endpoint = endpoint or self.target.endpoint
        if not endpoint:
            raise NotApplicable(NO_GRPC)
        client = ProbeClient(
            endpoint,
            self.fresh("client"),
            self.clock,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            require=self.target.require,
            unjudged=self.target.first_uses,
        )
        self.stack.push_async_callback(client.close)
        return client

    def member(self, client_id: str | None = None, credentials: Credentials | None = None) -> RemotingProbe:
        """Return a client of the classic protocol that has sent nothing yet, with a fresh id unless one is given;
        closed at the end. With credentials it signs its requests."""
        if self.target.name_server is None:
            raise NotApplicable("the target has no known name server")
        client_id = self.target.fresh("client") if client_id is None else client_id
        probe = RemotingProbe(self.target.name_server, client_id, self.clock, credentials)
        self.stack.push_async_callback(probe.close)
        return probe

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` as a task that ends with the case; exceptions propagate where the case awaits it."""
        task = asyncio.create_task(work)
        self.stack.push_async_callback(_end, task)
        return task

    async def topic(self, queues: int = DEFAULT_QUEUES, *, type: str = "NORMAL") -> str:  # noqa: A002
        """Create a fresh topic."""
        return await self.target.create_topic(type=type, queues=queues)

    async def group(self, name: str | None = None, **settings: Any) -> str:
        """Create or replace a group, a fresh one unless it is named; the keywords are those of `GroupSettings`."""
        return await self.target.create_group(name, **settings)

    async def subscribed(
        self,
        queues: int = DEFAULT_QUEUES,
        *,
        type: str = "NORMAL",  # noqa: A002
        **consumer: Any,
    ) -> tuple[str, Consumer]:
        """Create a fresh topic and a consumer of it; other keywords are those of `consumer`."""
        topic = await self.topic(queues, type=type)
        return topic, await self.consumer(topic, **consumer)

    async def producer(self, *topics: str) -> ProbeClient:
        """Return a fresh producer that has sent its settings."""
        client = await self.client()
        await client.send_settings(requests.producer_settings(*topics))
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
        """Return a consumer of `topic`, in a fresh group unless one is named, that has sent its settings.

        Priming is one empty receive: a new group may start anywhere (inventory O3).
        """
        if group is None:
            group = await self.target.create_group(ordered=ordered, max_attempts=max_attempts)
        kind = pb.ClientType.SIMPLE_CONSUMER if kind is None else kind
        client = await self._client_with_settings(
            requests.consumer_settings(group, {topic: expression}, kind)
        )
        consumer = Consumer(client, topic, group, expression, kind)
        self._consumers.append(consumer)
        if prime:
            answer = await consumer.receive(poll=SHORT_POLL, invisible=LEASE)
            if answer.error or not is_empty(answer):
                raise Inconclusive(f"the priming receive was answered with {answer_text(answer)}")
            if answer.deliveries:
                raise Inconclusive(f"a fresh group received {answer.deliveries} before anything was sent")
        return consumer

    async def _client_with_settings(self, settings: pb.Settings) -> ProbeClient:
        """Return a fresh client that has sent its settings; retried after a restart, when a proxy may not know
        the group yet."""
        until = self.clock.now() + (FORGOTTEN if self.target.was_interrupted else 0.0)
        while True:
            client = await self.client()
            try:
                await client.send_settings(settings)
            except StreamEnded as ended:
                if ended.code != "INVALID_ARGUMENT" or self.clock.now() >= until:
                    raise
            else:
                return client
            await self.clock.sleep(1.0)

    def message(self, topic: str, body: str | bytes, **fields: Any) -> pb.Message:
        """Return a message that is born now; `fields` are those of `requests.message`."""
        return requests.message(topic, body, **{"born_at": self.clock.wall(), **fields})

    def message_of_type(
        self,
        topic: str,
        body: str | bytes,
        type: str,  # noqa: A002
        *,
        delay: float = 2.0,
    ) -> pb.Message:
        """Return a message of type NORMAL, FIFO, DELAY or TRANSACTION."""
        return self.message(
            topic,
            body,
            group="mg" if type == "FIFO" else None,
            deliver_at=self.clock.wall() + delay if type == "DELAY" else None,
            kind=pb.MessageType.TRANSACTION if type == "TRANSACTION" else None,
        )

    async def send(
        self, topic: str, *bodies: str | bytes, client: ProbeClient | None = None, **fields: Any
    ) -> list[Sent]:
        """Send the bodies one after the other; AssertionError unless each is accepted.

        `fields` are those of `requests.message`.
        """
        return [await self.send_message(self.message(topic, body, **fields), client) for body in bodies]

    async def backlog(self, topic: str, *bodies: str | bytes, **fields: Any) -> list[Sent]:
        """Send, and wait until another group has received all messages: servers make a message
        visible some time after its receipt."""
        witness = await self.consumer(topic)
        sent = await self.send(topic, *bodies, **fields)
        await witness.take(len(sent), within=60.0)
        return sent

    async def send_all(
        self, topic: str, bodies: Iterable[str | bytes], *, concurrency: int = 8, **fields: Any
    ) -> list[Sent]:
        """Send the bodies, `concurrency` at a time; return the receipts in order of the bodies."""
        free = asyncio.Semaphore(concurrency)
        await self._main_producer(topic)

        async def one(body: str | bytes) -> Sent:
            async with free:
                return (await self.send(topic, body, **fields))[0]

        return list(await asyncio.gather(*(one(body) for body in bodies)))

    async def send_message(self, message: pb.Message, client: ProbeClient | None = None) -> Sent:
        """Send one message; AssertionError unless the server accepts it, Inconclusive if it is throttled."""
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
            raise Inconclusive(f"the server throttled a message {BUSY_TRIES} times")
        assert response.status.code == pb.Code.OK, f"send was answered with {status_text(response.status)}"
        assert len(response.entries) == 1, (
            f"send of one message was answered with {len(response.entries)} entries"
        )
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
        """Send one message over remoting; AssertionError unless it is accepted, Inconclusive if the server is too
        busy."""
        for _ in range(BUSY_TRIES):
            answer = await member.send(topic, body, properties, queue=queue)
            if answer.code != ResponseCode.SYSTEM_BUSY:
                assert answer.code == ResponseCode.SUCCESS, f"send was answered with {response_text(answer)}"
                return
            await self.clock.sleep(0.5)
        raise Inconclusive(f"the server refused a message {BUSY_TRIES} times as too busy")

    async def deliveries_within(
        self, consumer: Consumer, seconds: float, *, sentinel: dict[str, Any] | None = None, **arguments: Any
    ) -> list[Delivery]:
        """Return all deliveries within `seconds`, closed by a sentinel on the same path.

        Inconclusive if the sentinel (`sentinel` are its fields as of `requests.message`) does not arrive: then
        silence proves nothing. Deliveries are acked, unless `settle=False`.
        """
        settle = arguments.pop("settle", True)
        deliveries = await consumer.receive_for(seconds, settle=settle, **arguments)
        return deliveries + await self.sentinel(consumer, settle=settle, sentinel=sentinel, **arguments)

    async def expect_nothing(
        self, consumer: Consumer, seconds: float, failure: str = "delivered", **arguments: Any
    ) -> None:
        """AssertionError with `failure` if anything is delivered within `seconds`, as of `deliveries_within`."""
        deliveries = await self.deliveries_within(consumer, seconds, **arguments)
        assert not deliveries, f"{failure}: {deliveries}"

    async def expect_settled(self, consumer: Consumer, lease: float, settlement: str) -> None:
        """AssertionError if a settled message is redelivered when its lease of `lease` seconds would have expired."""
        seconds = lease + self.number("revive.high")
        await self.expect_nothing(consumer, seconds, f"{settlement}, and delivered again")

    async def sentinel(
        self,
        consumer: Consumer,
        *,
        settle: bool = True,
        sentinel: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> list[Delivery]:
        """Send a sentinel and receive until it arrives; return the other deliveries. Inconclusive if it does not
        arrive."""
        (sent,) = await self.send(consumer.topic, "sentinel", **(sentinel or {}))
        end = self.clock.now() + 2 * PROMPT
        others: list[Delivery] = []
        while self.clock.now() < end:
            answer = await consumer.receive(**{"invisible": LEASE, **arguments, "poll": SHORT_POLL})
            closing = [one for one in answer.deliveries if one.id == sent.id]
            others += [one for one in answer.deliveries if one.id != sent.id]
            await consumer.ack(*(answer.deliveries if settle else closing))
            if closing:
                return others
        raise Inconclusive("the sentinel that closes the quiet window was not delivered")

    async def settle(self) -> None:
        """Ack what the case has not acked, if the target accepts acks."""
        if self.target.blocks.reason(Step.ACKNOWLEDGE):
            return
        for consumer in self._consumers:
            await consumer.ack_remaining()

    async def _main_producer(self, topic: str) -> ProbeClient:
        if self._producer is None:
            self._producer = await self.client()
            await self._producer.send_settings(requests.producer_settings(topic))
        return self._producer


@asynccontextmanager
async def open_fixture(target: Target) -> AsyncIterator[Fixture]:
    """Open a fixture, and clean up at the end."""
    async with AsyncExitStack() as stack:
        fixture = Fixture(target, stack)
        try:
            yield fixture
        finally:
            # Before the stack closes the clients.
            await fixture.settle()


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def notices(member: RemotingProbe, count: int, *, patience: float = PROMPT) -> None:
    """Wait until a member has received `count` change notifications; AssertionError if it is not in time."""
    try:
        await within(member.clock, patience, member.notified(count))
    except TimeoutError:
        raise AssertionError(f"{len(member.notices)} of {count} notices within {patience:g} s") from None


def once_each(sent: Iterable[Sent], deliveries: Iterable[Delivery]) -> None:
    """Assert that exactly the sent messages were delivered, each once."""
    expected, got = Counter(one.id for one in sent), Counter(one.id for one in deliveries)
    assert got == expected, f"missing {len(expected - got)}, unexpected or duplicate {len(got - expected)}"
