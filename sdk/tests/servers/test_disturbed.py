"""A real server behind a wire that is cut and goes silent, and that is killed: nothing acknowledged is lost, message
groups stay in order, and each client works again within seconds of the server.

Every client has a connection of its own, as programs on several machines have. How long it takes is measured from the
moment when the server can be reached:

- after a cut, at once: the wire takes new connections all the time;
- after a kill, when the restarted server answers a bare client;
- after connections went silent (half open), when the client can know it: two heartbeats, every 10 s, have to stay
  unanswered. New connections work all the time here, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import (
    AckManyError,
    Connection,
    LeaseLostError,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RocketMQError,
    SimpleConsumer,
    Timeouts,
)
from aiorocketmq.hooks import Event, Hook, Phase, ReceiveEvent, SendEvent

from tools.soak.ledger import Ledger
from tools.wire import Wire

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

pytestmark = pytest.mark.slow

FAKES = ()
"""Time passes as it does, for minutes: only for real servers."""
SEED = 1
CUTS = (7, 7, 6)
"""How often the wire is cut, before it goes silent once and the server is killed once."""
BACK = 5.0
"""Seconds within which each client works again."""
DETECTION = 2 * (10.0 * 1.1 + 1.0) + 3.0
"""Seconds within which two heartbeats, of 10 s and their jitter, have stayed unanswered for 3 s each: the first one may
end while the second is awaited."""
ECHO = 0.2
"""Seconds after a disturbance in which clients may still read what had reached them before."""
PATIENCE = 60.0
"""Seconds until a client that does not come back is given up."""
DRAIN = 60.0
QUEUES = 4
"""As many as members of the ordered group at the end."""
MESSAGE_GROUPS = 32
"""So many that each queue has some."""
SENDERS = 32
"""Tasks that send through one producer."""
EXPECTED = (AckManyError, LeaseLostError)
"""Errors of acknowledgements after an outage: the message is redelivered."""


class Successes(Hook):
    """The moments at which a server has answered a send or a poll of one client."""

    def __init__(self, name: str, news: asyncio.Event) -> None:
        self.name = name
        self.times: list[float] = []
        self._news = news

    def observe(self, event: Event) -> None:
        if isinstance(event, (SendEvent, ReceiveEvent)) and event.phase is Phase.OK:
            self.times.append(time.monotonic())
            self._news.set()

    def first_after(self, moment: float) -> float | None:
        """The first success from `moment` on."""
        return next((at for at in self.times if at >= moment), None)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What was done, when, and when clients could reach the server again."""

    kind: str
    struck: float
    reachable: float
    until: float
    """When the next disturbance struck, after which nothing is measured for this one."""

    def success(self, client: Successes) -> float:
        """When the client had its next success; `until` where it had none before."""
        success = client.first_after(self.struck)
        return self.until if success is None else min(success, self.until)

    def took(self, client: Successes) -> float:
        """Seconds without success."""
        return self.success(client) - self.struck

    def lateness(self, client: Successes) -> float:
        """Those of them in which the server could be reached."""
        return max(0.0, self.success(client) - self.reachable)


class Order:
    """Sees that no acknowledged message of a message group is overtaken; redeliveries are allowed."""

    def __init__(self) -> None:
        self._acknowledged: dict[str, list[int]] = defaultdict(list)
        self._handled: dict[str, set[int]] = defaultdict(set)
        self.overtaken: list[tuple[str, int, int]] = []
        """Message group, and the numbers of a message and of the one that was handled before it."""

    def acknowledged(self, message_group: str, number: int) -> None:
        self._acknowledged[message_group].append(number)

    def handled(self, message_group: str, number: int) -> None:
        handled = self._handled[message_group]
        if number not in handled:
            handled.add(number)
            self.overtaken += [
                (message_group, each, number)
                for each in self._acknowledged[message_group]
                if each < number and each not in handled
            ]


class Clients:
    """Producers and consumers at work behind a wire."""

    def __init__(self, endpoint: str, ledger: Ledger, rng: Random, names: dict[str, str]) -> None:
        self.order = Order()
        self.surprises: list[str] = []
        self.errors: Counter[str] = Counter()
        self.successes: dict[str, Successes] = {}
        self._endpoint = endpoint
        self._ledger = ledger
        self._rng = rng
        self._names = names
        self._news = asyncio.Event()
        self._stack = AsyncExitStack()
        self._sending: list[asyncio.Task[None]] = []
        self._receiving: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        enter = self._stack.enter_async_context
        for each in ("push", *(f"ordered {number}" for number in range(3))):
            await self.join(each)
        simple = await enter(
            SimpleConsumer(
                await self._connection(),
                group=self._names["simple"],
                subscriptions=[self._names["normal"]],
                hooks=[self._watched("simple")],
            )
        )
        quiet, loaded, ordering = [
            await enter(Producer(await self._connection(), hooks=[self._watched(name)]))
            for name in ("quiet producer", "loaded producer", "ordering producer")
        ]
        self._begin(self._receiving, self._receive(simple))
        self._begin(self._sending, self._send(quiet, lambda: 1.0))
        for _ in range(SENDERS):
            self._begin(self._sending, self._send(loaded, lambda: self._rng.uniform(0.5, 1.5)))
        for number in range(MESSAGE_GROUPS):
            self._begin(self._sending, self._send_in_order(ordering, f"g{number}", 0.3 + 0.1 * number))

    async def join(self, name: str) -> None:
        """A push consumer more: of the ordered group, or the one of the other group."""
        ordered = name.startswith("ordered")
        group, topic = ("ordered", "fifo") if ordered else ("push", "normal")
        consumer = await self._stack.enter_async_context(
            PushConsumer(
                await self._connection(),
                group=self._names[group],
                subscriptions=[self._names[topic]],
                handler=self._handle,
                hooks=[self._watched(name)],
                invisible=10.0,
                shutdown_timeout=5.0,
            )
        )
        self._begin(self._receiving, self._run(consumer, name))

    async def drain(self) -> None:
        """Send no more, and wait until everything was handled."""
        await self._end(self._sending)
        async with asyncio.timeout(DRAIN):
            while self._ledger.missing():
                await self._ledger.something_handled()

    async def close(self) -> None:
        await self._end(self._sending)
        await self._end(self._receiving)
        await self._stack.aclose()

    def judged(self) -> list[Successes]:
        """Who has traffic all the time; the members of the ordered group as one.

        A queue of an ordered group whose batch could not be acknowledged is blocked until the lease ends, so a single
        member may have to wait for longer than its connection."""
        together = Successes("ordered group", self._news)
        together.times = sorted(at for each in self.members() for at in each.times)
        return [*(each for each in self.successes.values() if each not in self.members()), together]

    def members(self) -> list[Successes]:
        """The members of the ordered group."""
        return [each for name, each in self.successes.items() if name.startswith("ordered ")]

    async def something_succeeded(self) -> None:
        """Wait for the next success of any client."""
        self._news.clear()
        await self._news.wait()

    def _watched(self, name: str) -> Successes:
        watched = self.successes[name] = Successes(name, self._news)
        return watched

    async def _connection(self) -> Connection:
        connection = Connection(
            self._endpoint,
            # A server that runs in one process names its own address, which is not the wire's.
            address_map=lambda _: self._endpoint,
            # A proxy that was asked for a topic before its broker had registered denies it for 20 s.
            timeouts=Timeouts(start=PATIENCE),
        )
        return await self._stack.enter_async_context(connection)

    def _begin(self, tasks: list[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._ended)
        tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.surprises.append(f"a loop of the application ended by {error!r}")

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, consumer: PushConsumer, name: str) -> None:
        await consumer.run()
        self.surprises.append(f"run() of {name} returned")

    async def _send(self, producer: Producer, pause: Callable[[], float]) -> None:
        while True:
            await asyncio.sleep(pause())
            try:
                receipt = await producer.send(Message(self._names["normal"], b"1"))
            except RocketMQError as error:
                self._failed(error)
            else:
                self._ledger.promised("normal", receipt.message_id)

    async def _send_in_order(self, producer: Producer, message_group: str, pause: float) -> None:
        number = 0
        while True:
            await asyncio.sleep(pause)
            number += 1
            message = Message(self._names["fifo"], b"%d" % number, message_group=message_group)
            try:
                receipt = await producer.send(message)
            except RocketMQError as error:
                self._failed(error)
            else:
                self.order.acknowledged(message_group, number)
                self._ledger.promised("fifo", receipt.message_id)

    async def _handle(self, message: ReceivedMessage) -> None:
        if message.message_group is not None:
            self.order.handled(message.message_group, int(message.body))
        await asyncio.sleep(self._rng.uniform(0.0, 0.02))
        group = "push" if message.message_group is None else "ordered"
        self._ledger.handled(group, message.message_id)

    async def _receive(self, consumer: SimpleConsumer) -> None:
        while True:
            try:
                messages = await consumer.receive(max_messages=32, invisible=10.0, wait=5.0)
                for message in messages:
                    self._ledger.handled("simple", message.message_id)
                await consumer.ack(messages)
            except RocketMQError as error:
                self._failed(error)
                await asyncio.sleep(0.2)

    def _failed(self, error: RocketMQError) -> None:
        self.errors[type(error).__name__] += 1
        if not (error.may_retry or isinstance(error, EXPECTED)):
            self.surprises.append(repr(error))


class Trouble:
    """Disturbs a wire and the server behind it, and waits until all clients are back each time."""

    def __init__(self, place: Place, wire: Wire, clients: Clients, rng: Random) -> None:
        self._place = place
        self._wire = wire
        self._clients = clients
        self._rng = rng
        self._marks: list[tuple[str, float, float]] = []

    async def cut(self, times: int) -> None:
        """Cut all connections, at moments of chance."""
        for _ in range(times):
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
            now = time.monotonic()
            self._wire.cut()
            self._marks.append(("cut", now + ECHO, now))
        await self.all_back()

    async def go_silent(self) -> None:
        """Let all connections be half open."""
        now = time.monotonic()
        self._wire.freeze()
        self._marks.append(("half open", now + ECHO, now + DETECTION))
        await self.all_back()

    async def kill(self) -> None:
        """Kill the server and start it again."""
        await self._place.kill()
        now = time.monotonic()
        await self._place.start()
        self._marks.append(("kill", now + ECHO, time.monotonic()))
        await self.all_back()

    async def all_back(self) -> None:
        """Wait until each client had a success since the last disturbance."""
        _, struck, reachable = self._marks[-1]
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, reachable - time.monotonic()) + PATIENCE):
                while any(each.first_after(struck) is None for each in self._clients.successes.values()):
                    await self._clients.something_succeeded()

    def disturbances(self) -> list[Disturbance]:
        """All of them."""
        ends = [struck for _, struck, _ in self._marks[1:]] + [time.monotonic()]
        return [Disturbance(*mark, until=end) for mark, end in zip(self._marks, ends, strict=True)]


async def prepared(place: Place) -> dict[str, str]:
    """Make topics and groups; gives their names on the server."""
    names = {
        "normal": await place.topic(queues=QUEUES),
        "fifo": await place.topic(kind="FIFO", queues=QUEUES),
    }
    for group in ("push", "simple", "ordered"):
        names[group] = await place.group(ordered=group == "ordered", max_attempts=1000, backoff=(1.0, 2.0))
    return names


@pytest.mark.timeout(420)
async def test_cuts_silence_and_kills_lose_nothing_and_all_are_back(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    # Every client warns of every disturbance.
    caplog.set_level(logging.ERROR)
    rng, names = Random(SEED), await prepared(place)
    ledger = Ledger({"normal": ("push", "simple"), "fifo": ("ordered",)})
    async with Wire(place.endpoint) as wire:
        clients = Clients(wire.endpoint, ledger, rng, names)
        trouble = Trouble(place, wire, clients, rng)
        try:
            await clients.start()
            await asyncio.sleep(3.0)
            for number, cuts in enumerate(CUTS):
                await trouble.cut(cuts)
                await trouble.go_silent()
                await trouble.kill()
                if number == 1:
                    await clients.join("ordered latecomer")
            disturbances = trouble.disturbances()
            last = disturbances[-1].struck
            with suppress(TimeoutError):
                await clients.drain()
        finally:
            await clients.close()
    balance = ledger.balance()
    judged = clients.judged()
    print(f"{Counter(each.kind for each in disturbances)}, {wire.connections} connections;")
    print(f"{balance.promised} promised, {balance.handled} handled, {len(balance.unexplained)} once more;")
    print(f"errors {dict(clients.errors)}; longest times without success, and those of them with the server:")
    late = {}
    for kind in ("cut", "half open", "kill"):
        ones = [each for each in disturbances if each.kind == kind]
        for client in (*judged, *clients.members()):
            met = [each for each in ones if client.times[0] < each.struck]
            took = max((each.took(client) for each in met), default=0.0)
            lateness = max((each.lateness(client) for each in met), default=0.0)
            print(f"  {kind}, {client.name}: {took:.1f} s, {lateness:.1f} s")
            if lateness > BACK and client in judged:
                late[kind, client.name] = round(lateness, 1)
    assert balance.lost == ()
    assert clients.order.overtaken == []
    assert clients.surprises == []
    assert {name for name, each in clients.successes.items() if each.first_after(last) is None} == set()
    assert late == {}
