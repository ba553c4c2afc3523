"""The applications of a world: producers and consumers as users write them, restarted after errors and crashes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from random import Random
from typing import Any

from aiorocketmq._core.message_ids import MessageIds
from aiorocketmq._core.outcomes import DeadLetter, RetryLater
from aiorocketmq.config import CacheLimits
from aiorocketmq.connection import Connection, Environment
from aiorocketmq.errors import BackgroundTaskError, RocketMQError
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer
from aiorocketmq.push_consumer import PushConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.transaction import Resolution

from tools.simulation.ledger import Handling, Ledger, Sending
from tools.simulation.loop import Process
from tools.simulation.network import MemoryTransport, Network
from tools.simulation.world import GroupPlan, MemberPlan, SendPlan, World, work_of

LEAVING = 90.0
"""Seconds that a client may take to leave."""
RESTART = 1.0
"""Seconds after which an application that has failed is started again."""
LOOK = 10.0
"""Seconds between two looks of a pull consumer at the queues of its topic."""
ATTEMPTS = 5
"""Attempts of a pull consumer's application at one message."""


class HandlerFailed(Exception):
    """A handler fails as planned."""


class Rollback(Exception):
    """A block of a transaction fails as planned."""


class Client(ABC):
    """One application over all of its lives."""

    def __init__(
        self,
        world: World,
        network: Network,
        ledger: Ledger,
        plan: MemberPlan,
        place: int,
        address: str,
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self.life = 0
        self.process = Process(plan.name)
        self.client: Any = None
        """The client of the library that runs now; None without one. Any: they share no class."""
        self.main: asyncio.Task[None] | None = None
        self._world = world
        self._network = network
        self._ledger = ledger
        self._place = place
        self._address = address
        self._leaving = asyncio.Event()
        self._skew = 0.0

    def launch(self) -> None:
        """Start a new process, unless it was told to leave."""
        if self._leaving.is_set() or (
            self.main is not None and not self.main.done() and not self.process.is_dead
        ):
            return
        self.life += 1
        self.process = Process(self.name)
        self.process.skew = self._skew
        self.client = None
        self.main = self.process.start(self._run())

    def crash(self, *, silently: bool) -> None:
        """Kill the process; its connections are reset, or nobody learns of it."""
        for connection in self._network.of(self.name):
            if silently:
                connection.half_open()
            else:
                connection.break_now()
        self.process.kill()

    def cancel(self) -> None:
        """Cancel the application from outside; what it does about that may take its time."""
        if self.main is not None:
            self.main.cancel()

    async def cancelled(self, main: asyncio.Task[None]) -> None:
        """Wait until a life has ended after its cancellation, which must not be lost."""
        await asyncio.wait((main,), timeout=LEAVING)
        if not main.done():
            stack = [f"{frame.f_code.co_name}:{frame.f_lineno}" for frame in main.get_stack()]
            self._ledger.failures.append(("cancel", f"{self.name} goes on after a cancellation: {stack}"))
            main.cancel()
            await asyncio.wait((main,), timeout=LEAVING)

    def leave(self) -> None:
        """Leave in good order."""
        self._leaving.set()

    def skew(self, seconds: float) -> None:
        """Set the clock of its machine."""
        self._skew += seconds
        self.process.skew = self._skew

    async def _run(self) -> None:
        loop = self._network.loop
        while not self._leaving.is_set():
            try:
                async with (
                    Connection(
                        self._address,
                        transport=MemoryTransport(self._network, self.process),
                        environment=Environment(
                            wall=loop.wall,
                            random=Random(f"{self._world.seed}/{self.name}/{self.life}"),
                            host=self.name,
                            process=self.life,
                            message_ids=MessageIds(bytes([2, 0, 0, 0, 0, self._place]), self.life),
                        ),
                    ) as connection,
                    self._opened(connection) as client,
                ):
                    self.client = client
                    try:
                        await self._use(client)
                    finally:
                        self.client = None
            except BackgroundTaskError as error:
                self._ledger.failures.append(("task", f"{self.name}: {error}"))
            except RocketMQError as error:
                self._ledger.errors.append(f"{loop.elapsed:.3f} {self.name}: {error}")
            await asyncio.sleep(RESTART)

    @abstractmethod
    def _opened(self, connection: Connection) -> AbstractAsyncContextManager[Any]: ...

    @abstractmethod
    async def _use(self, client: Any) -> None: ...


class ProducerClient(Client):
    """An application that sends."""

    async def send(self, plan: SendPlan) -> None:
        """Send a message; runs in the process of the client."""
        producer: Producer | None = self.client
        if producer is None or self.process.is_dead:
            return
        topic = self._world.topics[plan.topic]
        message = Message(
            topic.name,
            f"m{plan.number}".encode(),
            tag=plan.tag,
            keys=(f"k{plan.number}",),
            properties={"x-number": str(plan.number)},
            message_group=plan.message_group,
            delay=plan.delay,
        )
        now = self._network.loop.time
        sending = Sending(plan.number, self.name, self.life, now())
        self._ledger.sendings[plan.number] = sending
        try:
            if plan.outcome:
                await self._in_transaction(producer, message, plan.outcome, sending)
            else:
                await producer.send(message)
            sending.result = "ok"
        except (RocketMQError, Rollback) as error:
            sending.result, sending.error = "failed", str(error)
        except asyncio.CancelledError:
            sending.result = "cancelled"
            raise
        finally:
            sending.ended = now()

    async def _in_transaction(
        self, producer: Producer, message: Message, outcome: str, sending: Sending
    ) -> None:
        async with producer.transaction(message) as transaction:
            await asyncio.sleep(0.05)
            sending.truth = outcome.rstrip("?")
            if outcome.endswith("?"):
                transaction.leave_unknown()
            elif outcome == "rollback":
                raise Rollback

    async def _check(self, message: ReceivedMessage) -> Resolution:
        sending = self._ledger.sendings[int(message.body[1:])]
        if sending.result == "open" and not sending.truth:
            return Resolution.UNKNOWN  # after a clock has jumped, its producer may not have decided yet
        return Resolution.COMMIT if sending.truth == "commit" else Resolution.ROLLBACK

    def _opened(self, connection: Connection) -> AbstractAsyncContextManager[Producer]:
        topics = [topic.name for topic in self._world.topics]
        has_transactions = any(topic.type == "TRANSACTION" for topic in self._world.topics)
        return Producer(
            connection,
            topics=topics,
            linger=self.plan.linger,
            transaction_checker=self._check if has_transactions else None,
        )

    async def _use(self, client: Producer) -> None:
        await self._leaving.wait()


class ConsumerClient(Client):
    """An application that consumes."""

    @property
    def group(self) -> GroupPlan:
        """Its group."""
        assert self.plan.group is not None
        return self._world.groups[self.plan.group]

    @property
    def topic(self) -> str:
        """The topic of its group."""
        return self._world.topics[self.group.topic].name

    async def handle(self, message: ReceivedMessage) -> None:
        """Handle a message as its plan says."""
        now, process, life = self._network.loop.time, self.process, self.life
        number = int(message.body[1:])
        if (
            message.properties.get("x-number") != str(number)
            or message.keys != (f"k{number}",)
            or message.topic != self.topic
        ):
            self._ledger.failures.append(("content", f"{self.name} got {message!r} with other content"))
        handling = self._ledger.begin(
            Handling(self.group.name, number, self.name, life, message.attempt, now())
        )
        work = work_of(self._world, self.group, number, message.attempt)
        try:
            await asyncio.sleep(work.seconds)
            handling.result = work.result
            if work.result == "fail":
                raise HandlerFailed
            if work.result == "later":
                raise RetryLater(3.0)
            if work.result == "dead":
                raise DeadLetter("as planned") if self.group.kind == "push" else HandlerFailed
        except asyncio.CancelledError:
            handling.result = "cancelled"
            raise
        finally:
            handling.ended = now()
            if process.is_dead:
                handling.result = "cancelled"


class PushClient(ConsumerClient):
    """A push consumer."""

    def _opened(self, connection: Connection) -> AbstractAsyncContextManager[PushConsumer]:
        plan = self.plan
        return PushConsumer(
            connection,
            group=self.group.name,
            subscriptions={self.topic: self.group.filter},
            handler=self.handle,
            concurrency=plan.concurrency,
            cache=CacheLimits(messages=plan.cache),
            invisible=plan.invisible,
        )

    async def _use(self, client: PushConsumer) -> None:
        running = asyncio.create_task(client.run())
        try:
            await _first(running, self._leaving.wait())
        finally:
            client.stop()
            await running


class SimpleClient(ConsumerClient):
    """A simple consumer."""

    def _opened(self, connection: Connection) -> AbstractAsyncContextManager[SimpleConsumer]:
        return SimpleConsumer(
            connection, group=self.group.name, subscriptions={self.topic: self.group.filter}
        )

    async def _use(self, client: SimpleConsumer) -> None:
        await _first(asyncio.create_task(self._loop(client)), self._leaving.wait())

    async def _loop(self, client: SimpleConsumer) -> None:
        plan = self.plan
        messages = client.messages(
            max_messages=plan.batch, invisible=plan.invisible, keep_alive=plan.keep_alive
        )
        async with aclosing(messages):  # type: ignore[type-var]  # it is an async generator
            async for message in messages:
                try:
                    await client.handle(message, self.handle)
                except HandlerFailed:
                    continue
                except RocketMQError as error:
                    self._ledger.errors.append(f"{self._network.loop.elapsed:.3f} {self.name}: {error}")
                    self._ledger.handlings[self.group.name, int(message.body[1:])][-1].is_unsettled = True


class PullClient(ConsumerClient):
    """A pull consumer, the only one of its group that is assigned queues."""

    def _opened(self, connection: Connection) -> AbstractAsyncContextManager[PullConsumer]:
        group = self.group
        return PullConsumer(
            connection,
            group=group.name,
            filters={self.topic: group.filter},
            max_messages=self.plan.batch,
            auto_commit=self.plan.auto_commit,
        )

    async def _use(self, client: PullConsumer) -> None:
        client.assign(await client.queues(self.topic))
        assigning = asyncio.create_task(self._assign(client))
        try:
            await _first(asyncio.create_task(self._loop(client)), self._leaving.wait())
        finally:
            assigning.cancel()

    async def _assign(self, client: PullConsumer) -> None:
        """Assign the queues of a broker that was away when the client began."""
        while True:
            await asyncio.sleep(LOOK)
            with suppress(RocketMQError):
                queues = await client.queues(self.topic)
                if not set(queues) <= set(client.assigned):
                    client.assign(queues)

    async def _loop(self, client: PullConsumer) -> None:
        async for batch in client:
            for message in batch:
                for attempt in range(1, ATTEMPTS + 1):
                    message.attempt = attempt
                    try:
                        await self.handle(message)
                        break
                    except (HandlerFailed, RetryLater):
                        continue
            if self.plan.auto_commit is None:
                await client.commit(batch)


async def _first(task: asyncio.Task[None], leaving: Awaitable[object]) -> None:
    """Wait until the task has ended, raising its error, or until the client leaves; the task is cancelled then."""
    waiting = asyncio.ensure_future(leaving)
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait((task, waiting))


CONSUMERS: Mapping[str, Callable[..., Client]] = {
    "push": PushClient,
    "simple": SimpleClient,
    "pull": PullClient,
}
