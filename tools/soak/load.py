"""The load of a soak: every kind of message, every kind of client, and applications that go on after errors."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from random import Random

from aiorocketmq import (
    AckManyError,
    Connection,
    DeadLetter,
    Hook,
    LeaseLostError,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SendManyError,
    SendReceipt,
    SimpleConsumer,
    Timeouts,
    TopicNotFoundError,
    TransactionUnconfirmedError,
    dead_letters,
)
from aiorocketmq.transaction import Resolution
from aiorocketmq_fake import FakeBroker

from tools.soak.health import Watched, listed
from tools.soak.ledger import Ledger

logger = logging.getLogger(__name__)

NORMAL, FIFO, DELAYED, PAID = "soak-normal", "soak-fifo", "soak-delayed", "soak-paid"
STRICT = "soak-strict"
"""Read by a group of few attempts, whose dead letters another one reads."""
LITE = "soak-lite"
"""Read by a consumer of lite topics, where the server has them."""
LITE_TOPICS = ("alice", "bob", "carol")
TOPICS = {
    NORMAL: "NORMAL",
    FIFO: "FIFO",
    DELAYED: "DELAY",
    PAID: "TRANSACTION",
    STRICT: "NORMAL",
    LITE: "LITE",
}
GROUPS = {
    NORMAL: ("push", "simple", "pull"),
    FIFO: ("ordered",),
    DELAYED: ("push",),
    PAID: ("push",),
    STRICT: ("strict",),
    LITE: ("lite",),
}
ATTEMPTS = 1000
"""So many that no message becomes a dead letter: then each that was promised has to be handled."""
FEW_ATTEMPTS = 3
"""Of the group `strict`, which has to handle what it was promised, or to give it up."""
VISITOR = "visitor"
"""The group of the guests that are PullConsumers."""
BURYING = "burying"
"""The group that reads the dead letters of `strict`."""
POISONED = 0.3
"""Part of the messages for `strict` that it never handles."""
REJECTED = 0.1
"""Part of the messages for `strict` that its handler sends to the dead letters at once."""
MANY = 8
"""Messages of one call of send_many."""
FAILING = 0.03
"""Part of the handlings that fail on purpose."""
EXPECTED = (AckManyError, LeaseLostError, TransactionUnconfirmedError)
"""Errors after which an application goes on without trying the same again: the broker sees to the message."""
RECALLED_BEFORE = 6.0
"""Seconds before which no message that is taken back is due."""
PAUSE = 0.2
"""Seconds that an application waits after an error that may pass."""


async def prepare(broker: FakeBroker) -> None:
    """Create topics and groups."""
    for topic, kind in TOPICS.items():
        await broker.create_topic(topic, type=kind)
    for group in sorted({BURYING, VISITOR, *(group for groups in GROUPS.values() for group in groups)}):
        attempts = FEW_ATTEMPTS if group == "strict" else ATTEMPTS
        await broker.create_group(
            group,
            ordered=group == "ordered",
            max_attempts=attempts,
            backoff=(0.5, 1.0, 2.0),
            lite_topic=LITE if group == "lite" else "",
        )


class Errors:
    """The errors that applications see."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How many, by class."""
        self.surprises: list[str] = []
        """Errors that no fault of the soak may lead to."""

    def add(self, error: RocketMQError) -> None:
        """Count `error`, and keep it if no fault may lead to it."""
        self.counts[type(error).__name__] += 1
        if not (error.may_retry or isinstance(error, EXPECTED)):
            self.surprises.append(repr(error))


class Load:
    """Clients at work until `drain` has seen that everything promised was handled."""

    def __init__(
        self,
        endpoint: str,
        ledger: Ledger,
        rng: Random,
        hooks: Sequence[Hook],
        *,
        rate: float,
        transactions: bool = True,
        gathering: bool = True,
        pulling: bool = True,
        burying: bool = True,
        recalling: bool = True,
        lite: bool = False,
        timeouts: Timeouts | None = None,
    ) -> None:
        """Prepare; without `gathering` all messages travel alone, without `pulling` there is no PullConsumer, without
        `burying` nothing is sent to STRICT, and without `recalling` nothing is taken back; with `lite` there is a
        consumer of lite topics."""
        self._errors = Errors()
        self.clients: dict[str, Watched] = {}
        """The clients at work, by name."""
        self._connection = Connection(endpoint, timeouts=timeouts)
        self._ledger = ledger
        self._rng = rng
        self._hooks = hooks
        self._rate = rate
        self._transactions = transactions
        self._gathering = gathering
        self._pulling = pulling
        self._burying = burying
        self._recalling = recalling
        self._lite = lite
        self._sending: list[asyncio.Task[None]] = []
        self._fetching: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        self._count = 0

    @property
    def errors(self) -> Counter[str]:
        """The errors that the applications saw, by class."""
        return self._errors.counts

    @property
    def surprises(self) -> list[str]:
        """What no fault of the soak may lead to: errors, and loops that ended."""
        return self._errors.surprises

    async def __aenter__(self) -> Load:
        enter = self._stack.enter_async_context
        await enter(self._connection)
        single = await enter(Producer(self._connection, hooks=self._hooks, transaction_checker=_decide))
        linger = 0.005 if self._gathering else None
        gathering = await enter(Producer(self._connection, hooks=self._hooks, linger=linger))
        pushed = {"push": [NORMAL, DELAYED, PAID], "ordered": [FIFO]}
        if self._burying:
            pushed["strict"] = [STRICT]
        if self._lite:
            pushed["lite"] = [LITE]
        for group, topics in pushed.items():
            consumer = await enter(
                PushConsumer(
                    self._connection,
                    group=group,
                    subscriptions=topics,
                    handler=self._handle,
                    hooks=self._hooks,
                    invisible=10.0,
                    shutdown_timeout=10.0,
                    lite_topics=LITE_TOPICS if group == "lite" else None,
                )
            )
            self.clients[group] = consumer
            self._begin(self._fetching, self._run(consumer, group))
        simple = await enter(
            SimpleConsumer(self._connection, group="simple", subscriptions=[NORMAL], hooks=self._hooks)
        )
        self.clients |= {"producer": single, "gathering producer": gathering, "simple": simple}
        self._begin(self._fetching, self._fetch(simple, self._ledger.handled, "simple"))
        if self._burying:
            self._begin(self._fetching, self._bury())
        if self._pulling:
            pull = await enter(
                PullConsumer(self._connection, group="pull", auto_commit=1.0, hooks=self._hooks)
            )
            self.clients["pull"] = pull
            pull.assign(await pull.queues(NORMAL))
            self._begin(self._fetching, self._pull(pull))
        senders = [
            self._send(single, 0.3, lambda: Message(NORMAL, self._body())),
            self._send(gathering, 0.3, lambda: Message(NORMAL, self._body())),
            self._send_many(gathering, 0.1),
            self._send(single, 0.25, self._ordered),
            self._send(
                single, 0.05, lambda: Message(DELAYED, self._body(), delay=self._rng.uniform(1.0, 5.0))
            ),
        ]
        if self._transactions:
            senders.append(self._pay(single, 0.03))
        if self._burying:
            senders.append(self._send(single, 0.05, self._strict))
        if self._lite:
            senders.append(self._send(single, 0.05, self._to_lite_topic))
        if self._recalling:
            senders.append(self._recall(single, 0.03))
        self._ledger.start_timing(self._topics())
        self._begin(self._sending, *senders)
        return self

    def _topics(self) -> list[str]:
        """The topics to which this load sends."""
        optional = {PAID: self._transactions, STRICT: self._burying, LITE: self._lite}
        return [topic for topic in TOPICS if optional.get(topic, True)]

    async def __aexit__(self, *failure: object) -> None:
        for task in (*self._sending, *self._fetching):
            task.cancel()
        await asyncio.gather(*self._sending, *self._fetching, return_exceptions=True)
        await self._stack.aclose()

    async def drain(self, patience: float) -> None:
        """Send no more, and wait up to `patience` seconds until everybody has got everything."""
        self._ledger.stop_timing()
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        try:
            async with asyncio.timeout(patience):
                while self._ledger.missing():
                    await self._ledger.something_handled()
        except TimeoutError:
            logger.warning("not everything was handled within %g s", patience)

    def _begin(self, tasks: list[asyncio.Task[None]], *works: Coroutine[None, None, None]) -> None:
        for work in works:
            task = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(self._ended)
            tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.surprises.append(f"a loop of the load ended by {error!r}")

    def _body(self) -> bytes:
        self._count += 1
        return b"%d" % self._count

    def _ordered(self) -> Message:
        return Message(FIFO, self._body(), message_group=f"group {self._rng.randrange(8)}")

    def _strict(self) -> Message:
        chance = self._rng.random()
        fate = "poison" if chance < POISONED else "rejected" if chance < POISONED + REJECTED else "food"
        return Message(STRICT, self._body(), properties={"fate": fate})

    def _to_lite_topic(self) -> Message:
        return Message(LITE, self._body(), lite_topic=self._rng.choice(LITE_TOPICS))

    async def _send(self, producer: Producer, part: float, make: Callable[[], Message]) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self._rate * part))
            message = make()

            async def send(message: Message = message) -> None:
                self._promise([await producer.send(message)])

            await self._forgiving(send)

    async def _send_many(self, producer: Producer, part: float) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self._rate * part / MANY))
            messages = [Message(NORMAL, self._body()) for _ in range(MANY)]

            async def send(messages: list[Message] = messages) -> None:
                try:
                    self._promise(await producer.send_many(messages))
                except SendManyError as error:
                    self._promise(error.receipts)
                    raise

            await self._forgiving(send)

    def _promise(self, receipts: Sequence[SendReceipt]) -> None:
        for receipt in receipts:
            self._ledger.promised(receipt.topic, receipt.message_id)

    async def _run(self, consumer: PushConsumer, group: str) -> None:
        await consumer.run()
        self.surprises.append(f"run() of the consumer of {group!r} returned")

    async def _pay(self, producer: Producer, part: float) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self._rate * part))
            commits = self._rng.random() < 0.7
            word = "commit" if commits else "rollback"
            message = Message(PAID, self._body(), properties={"decision": word})

            async def pay(message: Message = message, commits: bool = commits) -> None:
                try:
                    async with producer.transaction(message) as begun:
                        # From here on the message is in the broker's hands, and the checker says the same as the block.
                        if commits:
                            self._ledger.promised(PAID, begun.receipt.message_id)
                        else:
                            self._ledger.withdrawn(begun.receipt.message_id)
                            raise _TakenBack
                except _TakenBack:
                    return

            await self._forgiving(pay)

    async def _recall(self, producer: Producer, part: float) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self._rate * part))
            delay = self._rng.uniform(RECALLED_BEFORE, 10.0)

            async def recall(delay: float = delay) -> None:
                began = asyncio.get_running_loop().time()
                receipt = await producer.send(Message(DELAYED, self._body(), delay=delay))
                if asyncio.get_running_loop().time() > began + delay:
                    return  # A server that was back after its time took it as one without delay.
                await producer.recall(receipt)
                if asyncio.get_running_loop().time() < began + RECALLED_BEFORE - 2.0:
                    self._ledger.withdrawn(receipt.message_id)

            await self._forgiving(recall)

    async def _handle(self, message: ReceivedMessage) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, 0.02))
        if self._rng.random() < FAILING or message.properties.get("fate") == "poison":
            raise RuntimeError("fails on purpose")
        if message.properties.get("fate") == "rejected":
            raise DeadLetter("rejected on purpose")
        self._ledger.handled(message.group or "", message.message_id)

    async def _fetch(self, consumer: SimpleConsumer, done: Callable[[str, str], None], group: str) -> None:
        async def once() -> None:
            messages = await consumer.receive(max_messages=32, invisible=10.0, wait=5.0)
            for message in messages:
                done(group, message.message_id)
            await consumer.ack(messages)

        while True:
            await self._forgiving(once)

    async def _bury(self) -> None:
        async def read() -> None:
            topic = dead_letters("strict")
            try:
                async with SimpleConsumer(
                    self._connection, group=BURYING, subscriptions=[topic], hooks=self._hooks
                ) as consumer:
                    with listed(self.clients, "dead letters", consumer):
                        await self._fetch(consumer, self._ledger.buried, "strict")
            except TopicNotFoundError:
                await asyncio.sleep(PAUSE)  # Nothing was given up yet.

        while True:
            await self._forgiving(read)

    async def _pull(self, consumer: PullConsumer) -> None:
        async for batch in consumer:
            for message in batch:
                self._ledger.handled("pull", message.message_id)

    async def _forgiving(self, call: Callable[[], Awaitable[None]]) -> None:
        """Go on after what a fault may cause; keep what none may."""
        try:
            await call()
        except RocketMQError as error:
            self._errors.add(error)
            await asyncio.sleep(PAUSE)


class _TakenBack(Exception):
    """The application changes its mind in the middle of a transaction."""


async def _decide(message: ReceivedMessage) -> Resolution:
    return Resolution.COMMIT if message.properties["decision"] == "commit" else Resolution.ROLLBACK
