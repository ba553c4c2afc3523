"""Each message is handled once: the same promises of every store, and of the hook on a broker that delivers twice."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq._deduplication import sqlite
from aiorocketmq.connection import Connection
from aiorocketmq.deduplication import (
    Claim,
    DeduplicationHook,
    DeduplicationStore,
    MemoryStore,
    RedisStore,
    SqliteStore,
)
from aiorocketmq.errors import ClosedError
from aiorocketmq.hooks import AckEvent, Event, Hook, Phase
from aiorocketmq.message import Message, MessageQueue, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.push_consumer import PushConsumer, RetryLater
from aiorocketmq_fake import FakeBroker
from hypothesis import given, strategies as st

from sdk.tests.clients import push_consumer, simple_consumer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Shop:
    """A store, a second view of the same memory, and time."""

    store: DeduplicationStore
    elsewhere: DeduplicationStore
    pass_time: Callable[[float], Awaitable[None]]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis server of this test run; skips where none is installed."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    # Not below pytest's own folder: the path of a socket has room for 107 bytes.
    folder = tmp_path_factory.mktemp("redis")
    socket = folder / "s"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    clock = Clock()

    async def move(seconds: float) -> None:
        clock.now += seconds

    if request.param == "memory":
        memory = MemoryStore(clock=clock)
        yield Shop(memory, memory, move)
    elif request.param == "sqlite":
        path = tmp_path / "handled.db"
        async with SqliteStore(path, clock=clock) as store, SqliteStore(path, clock=clock) as elsewhere:
            yield Shop(store, elsewhere, move)
    else:
        url = request.getfixturevalue("redis_url")
        async with _redis_shop(url, prefix=f"{tmp_path.name}:") as shop:
            yield shop


class _redis_shop:
    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix

    async def __aenter__(self) -> Shop:
        from redis import exceptions
        from redis.asyncio import Redis

        self._redis = Redis.from_url(self._url)
        async with asyncio.timeout(20):
            while True:
                try:
                    await self._redis.ping()
                    break
                except (exceptions.ConnectionError, exceptions.BusyLoadingError):
                    await asyncio.sleep(0.01)  # the server has just been started
        self._own = RedisStore(self._url, prefix=self._prefix)
        return Shop(RedisStore(self._redis, prefix=self._prefix), self._own, self._pass_time)

    async def _pass_time(self, seconds: float) -> None:
        """A server's time cannot be moved, but the rest of every key's time can."""
        async for key in self._redis.scan_iter(self._prefix + "*"):
            await self._redis.pexpire(key, await self._redis.pttl(key) - round(seconds * 1000))

    async def __aexit__(self, *failure: object) -> None:
        async with self._own:
            pass
        await self._redis.aclose()


async def test_a_claim_keeps_others_away_until_it_is_given_up(shop: Shop) -> None:
    assert await shop.store.claim("m", "a", 60) is Claim.GRANTED
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.HELD
    await shop.store.release("m", "a")
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.GRANTED


async def test_a_repeated_claim_of_one_owner_is_granted_with_a_new_end(shop: Shop) -> None:
    """The answer to the first one may have been lost."""
    assert await shop.store.claim("m", "a", 60) is Claim.GRANTED
    await shop.pass_time(50)
    assert await shop.elsewhere.claim("m", "a", 60) is Claim.GRANTED
    await shop.pass_time(50)
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.HELD


async def test_what_is_done_stays_done_for_its_time(shop: Shop) -> None:
    await shop.store.claim("m", "a", 60)
    await shop.store.done("m", "a", 3600)
    await shop.pass_time(3599)
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.DONE
    await shop.pass_time(2)
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.GRANTED


async def test_the_claim_of_one_who_died_ends_and_a_renewed_one_does_not(shop: Shop) -> None:
    for key in ("dead", "alive"):
        await shop.store.claim(key, "a", 60)
    await shop.pass_time(50)
    await shop.store.renew("alive", "a", 60)
    await shop.pass_time(11)
    assert await shop.elsewhere.claim("dead", "b", 60) is Claim.GRANTED
    assert await shop.elsewhere.claim("alive", "b", 60) is Claim.HELD


async def test_who_has_lost_a_claim_can_do_nothing_to_it(shop: Shop) -> None:
    await shop.store.claim("m", "slow", 1)
    await shop.pass_time(2)
    assert await shop.elsewhere.claim("m", "b", 60) is Claim.GRANTED
    await shop.store.renew("m", "slow", 600)
    await shop.store.release("m", "slow")
    await shop.store.done("m", "slow", 600)
    assert await shop.store.claim("m", "c", 60) is Claim.HELD
    await shop.pass_time(61)
    assert await shop.store.claim("m", "c", 60) is Claim.GRANTED


async def test_of_many_who_ask_at_once_one_is_granted(shop: Shop) -> None:
    stores = (shop.store, shop.elsewhere)
    answers = await asyncio.gather(*(stores[n % 2].claim("m", f"owner {n}", 60) for n in range(20)))
    assert sorted(answer.value for answer in answers) == ["granted", *["held"] * 19]


async def test_a_memory_store_forgets_the_oldest_beyond_its_size() -> None:
    store = MemoryStore(max_entries=2)
    for key in ("1", "2", "3"):
        await store.claim(key, "a", 60)
        await store.done(key, "a", 60)
    assert len(store) == 2
    assert await store.claim("1", "b", 60) is Claim.GRANTED
    assert await store.claim("3", "b", 60) is Claim.DONE


async def test_for_a_memory_store_a_message_is_as_old_as_its_last_step() -> None:
    store = MemoryStore(max_entries=2)
    await store.claim("long", "a", 60)
    await store.claim("short", "a", 60)
    await store.done("long", "a", 60)
    await store.claim("next", "a", 60)
    assert await store.claim("long", "b", 60) is Claim.DONE
    assert await store.claim("short", "b", 60) is Claim.GRANTED


async def test_a_memory_store_keeps_claims_that_are_renewed_or_granted_anew() -> None:
    now = [0.0]
    store = MemoryStore(max_entries=3, clock=lambda: now[0])
    await store.claim("anew", "a", 1)
    await store.claim("renewed", "a", 60)
    await store.claim("oldest", "a", 60)
    now[0] = 2.0
    await store.renew("renewed", "a", 60)
    await store.claim("anew", "b", 60)
    await store.claim("next", "a", 60)
    answers = [await store.claim(key, "c", 60) for key in ("renewed", "anew", "next", "oldest")]
    assert answers == [Claim.HELD, Claim.HELD, Claim.HELD, Claim.GRANTED]


async def test_a_sqlite_store_removes_what_has_ended_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_SWEEP_EVERY", 3)
    now = [1000.0]
    async with SqliteStore(tmp_path / "handled.db", clock=lambda: now[0]) as store:
        await store.claim("ended", "a", 1)
        await store.claim("running", "a", 60)
        now[0] += 2
        await store.claim("third", "a", 600)
        assert store._database is not None
        kept = store._database.execute("SELECT key FROM handled ORDER BY key").fetchall()
        assert kept == [("running",), ("third",)]
        assert await store.claim("running", "b", 60) is Claim.HELD


async def test_a_sqlite_store_outlives_its_process_and_is_open_only_inside_its_block(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "handled.db") as store:
        await store.claim("m", "a", 60)
        await store.done("m", "a", 60)
    with pytest.raises(ClosedError):
        await store.claim("m", "b", 60)
    async with SqliteStore(tmp_path / "handled.db") as again:
        assert await again.claim("m", "b", 60) is Claim.DONE


async def test_what_has_expired_does_not_fill_a_sqlite_store_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    async with SqliteStore(tmp_path / "handled.db", clock=clock) as store:
        for number in range(2500):
            clock.now += 1
            await store.claim(f"m{number}", "a", 10)
            if number % 2:
                await store.done(f"m{number}", "a", 10)
        count = await store._step(
            lambda database: database.execute("SELECT count(*) FROM handled").fetchone()[0]
        )
    assert count < 1100


class Deliveries(Hook):
    """Counts what a handler was called with, and reports acks; called before the hook under test."""

    def __init__(self) -> None:
        self.calls = 0
        self.acks = 0
        self._more = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, AckEvent) and event.phase is Phase.OK:
            self.acks += 1
            self._more.set()

    async def acked(self, times: int) -> None:
        async with asyncio.timeout(20):
            while self.acks < times:
                self._more.clear()
                await self._more.wait()


async def test_a_message_that_was_stored_twice_is_handled_once(broker: FakeBroker, shop: Shop) -> None:
    bodies: list[bytes] = []
    hook = Deliveries()

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    with broker.faults.drop_reply("SendMessage", times=1):
        async with Producer(broker.endpoint) as producer:
            await producer.send(Message("orders", b"1"))
    assert len(broker.messages("orders")) == 2
    hooks = [hook, DeduplicationHook(shop.store, busy_wait=0)]
    async with push_consumer(broker.endpoint, handler=handle, hooks=hooks):
        await hook.acked(2)
    assert bodies == [b"1"]


async def test_a_redelivery_of_the_classic_protocol_is_known_by_its_topic(shop: Shop) -> None:
    """It comes from a queue of the group's retry topic."""
    bodies: list[bytes] = []
    hook = DeduplicationHook(shop.store, busy_wait=0)

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    for queue in ("orders", "%RETRY%billing"):
        await hook.handle(
            ReceivedMessage(
                topic="orders",
                body=b"1",
                message_id="M1",
                queue=MessageQueue(queue, "broker-a", 0),
                offset=7,
                group="billing",
            ),
            handle,
        )
    assert bodies == [b"1"]


async def test_two_sends_of_one_order_are_one_by_a_key_of_the_users(broker: FakeBroker) -> None:
    bodies: list[bytes] = []
    hook = Deliveries()

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    async with Producer(broker.endpoint) as producer:
        for body in (b"1", b"again"):
            await producer.send(Message("orders", body, keys=["order 42"]))
    hooks = [hook, DeduplicationHook(MemoryStore(), key=lambda message: message.keys[0], busy_wait=0)]
    async with push_consumer(broker.endpoint, handler=handle, hooks=hooks, concurrency=1):
        await hook.acked(2)
    assert len(bodies) == 1


@pytest.mark.parametrize("across_groups", [False, True])
async def test_each_group_handles_a_message_unless_groups_share_the_keys(
    broker: FakeBroker, across_groups: bool
) -> None:
    await broker.create_group("shipping")
    bodies: list[bytes] = []
    store = MemoryStore()

    async def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"1", keys=["order 42"]))
    for group in ("billing", "shipping"):
        deliveries = Deliveries()
        hook = DeduplicationHook(store, key=lambda message: message.keys[0], across_groups=across_groups)
        async with PushConsumer(
            broker.endpoint, group=group, subscriptions=["orders"], handler=handle, hooks=[deliveries, hook]
        ):
            await deliveries.acked(1)
    assert bodies == ([b"1"] if across_groups else [b"1", b"1"])


async def test_a_received_message_knows_its_namespace(broker: FakeBroker) -> None:
    await broker.create_topic("shop%orders")
    await broker.create_group("shop%billing")
    async with (
        Connection(broker.endpoint, namespace="shop") as shop,
        Producer(shop) as producer,
        simple_consumer(shop) as consumer,
    ):
        await producer.send(Message("orders", b"1"))
        (message,) = await consumer.receive(max_messages=1, invisible=30, wait=5)
    assert (message.namespace, message.topic, message.group) == ("shop", "orders", "billing")


class BrokerRequests(MemoryStore):
    """Keeps the last key that it was asked for."""

    key = ""

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        self.key = key
        return Claim.DONE


NAMES = st.text(alphabet='a/%,"[] \\\0', max_size=3)
SCOPES = st.tuples(NAMES, NAMES, NAMES, NAMES)


@given(SCOPES, SCOPES, st.booleans())
async def test_no_two_scopes_and_keys_are_stored_alike(
    one: tuple[str, ...], other: tuple[str, ...], across_groups: bool
) -> None:
    async def never(message: ReceivedMessage) -> None:
        raise AssertionError("the handler ran")

    keys = []
    for namespace, topic, group, key in (one, other):
        store = BrokerRequests()
        hook = DeduplicationHook(store, key=lambda message, key=key: key, across_groups=across_groups)  # type: ignore[misc]
        await hook.handle(received(namespace=namespace, topic=topic, group=group), never)
        keys.append(store.key)
    same = [
        part for place, part in enumerate(zip(one, other, strict=True)) if place != 2 or not across_groups
    ]
    assert (keys[0] == keys[1]) == all(left == right for left, right in same)


async def test_a_failed_message_is_handled_again(broker: FakeBroker) -> None:
    attempts: list[int] = []
    hook = Deliveries()

    async def fail_once(message: ReceivedMessage) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise ValueError("not yet")

    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"1"))
    async with push_consumer(
        broker.endpoint,
        handler=fail_once,
        hooks=[hook, DeduplicationHook(MemoryStore())],
    ):
        await hook.acked(1)
    assert attempts == [1, 2]


def received(topic: str = "orders", group: str = "billing", namespace: str = "") -> ReceivedMessage:
    return ReceivedMessage(
        topic=topic,
        body=b"",
        message_id="1",
        queue=MessageQueue(topic, "b", 0),
        offset=0,
        group=group,
        namespace=namespace,
    )


class Broken(MemoryStore):
    """Fails from the step `broken` on."""

    def __init__(self, broken: str) -> None:
        super().__init__()
        self._broken = broken
        self.renewed = asyncio.Event()

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        if self._broken == "claim":
            raise OSError("the store is away")
        return await super().claim(key, owner, seconds)

    async def done(self, key: str, owner: str, seconds: float) -> None:
        if self._broken == "done":
            raise OSError("the store is away")
        await super().done(key, owner, seconds)

    async def release(self, key: str, owner: str) -> None:
        if self._broken == "release":
            raise OSError("the store is away")
        await super().release(key, owner)

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        self.renewed.set()
        if self._broken == "renew":
            raise OSError("the store is away")
        await super().renew(key, owner, seconds)


async def test_a_message_that_another_consumer_is_handling_is_retried_later() -> None:
    store = MemoryStore()

    async def never(message: ReceivedMessage) -> None:
        raise AssertionError("the handler ran")

    async def handle(message: ReceivedMessage) -> None:
        with pytest.raises(RetryLater) as raised:
            await DeduplicationHook(store, busy_wait=7).handle(received(), never)
        assert raised.value.seconds == 7

    await DeduplicationHook(store).handle(received(), handle)


async def test_a_handled_message_is_known_for_its_time() -> None:
    clock = Clock()
    hook = DeduplicationHook(MemoryStore(clock=clock), keep=600, claim=60)
    calls: list[ReceivedMessage] = []

    async def handle(message: ReceivedMessage) -> None:
        calls.append(message)

    for seconds, count in ((0, 1), (599, 1), (2, 2)):
        clock.now += seconds
        await hook.handle(received(), handle)
        assert len(calls) == count


async def test_a_store_that_cannot_be_asked_fails_the_message() -> None:
    async def never(message: ReceivedMessage) -> None:
        raise AssertionError("the handler ran")

    with pytest.raises(OSError, match="the store is away"):
        await DeduplicationHook(Broken("claim")).handle(received(), never)


async def test_a_store_that_fails_does_not_undo_the_handling(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(message: ReceivedMessage) -> None:
        return

    await DeduplicationHook(Broken("done")).handle(received(), handle)
    assert "could not be recorded" in caplog.text


async def test_the_error_of_a_handler_is_reported_even_if_the_claim_cannot_be_given_up() -> None:
    async def fail(message: ReceivedMessage) -> None:
        raise ValueError("the handler's own")

    with pytest.raises(ValueError, match="the handler's own"):
        await DeduplicationHook(Broken("release")).handle(received(), fail)


@pytest.mark.parametrize("broken", ["nothing", "renew"])
async def test_the_claim_of_a_long_handler_is_renewed(broken: str) -> None:
    store = Broken(broken)

    async def wait(message: ReceivedMessage) -> None:
        async with asyncio.timeout(20):
            for _ in range(3):
                store.renewed.clear()
                await store.renewed.wait()

    await DeduplicationHook(store, claim=0.05).handle(received(), wait)
    assert store.renewed.is_set()


async def test_a_claim_is_renewed_when_a_third_of_it_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    call_later = loop.call_later

    def noted(delay: float, *arguments: Any, **more: Any) -> asyncio.TimerHandle:
        delays.append(delay)
        return call_later(delay, *arguments, **more)

    async def handle(message: ReceivedMessage) -> None:
        return

    monkeypatch.setattr(loop, "call_later", noted)
    await DeduplicationHook(MemoryStore(), claim=60).handle(received(), handle)
    assert delays == [20.0]


async def test_a_cancelled_handler_gives_its_claim_up() -> None:
    store, started = MemoryStore(), asyncio.Event()

    async def wait(message: ReceivedMessage) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(DeduplicationHook(store).handle(received(), wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(store) == 0


class Slow(MemoryStore):
    """Does one of its steps only when let go, and ends a cancelled one only then."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self._slow = slow
        self.begun = 0
        self.running = 0
        self.news = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()

    async def reached(self, begun: int) -> None:
        async with asyncio.timeout(20):
            while self.begun < begun:
                self.news.clear()
                await self.news.wait()

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        await self._wait("renew")
        await super().renew(key, owner, seconds)

    async def done(self, key: str, owner: str, seconds: float) -> None:
        await self._wait("done")
        await super().done(key, owner, seconds)

    async def _wait(self, step: str) -> None:
        if step != self._slow:
            return
        self.begun += 1
        self.running += 1
        self.news.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            await self.go_on.wait()
            raise
        finally:
            self.running -= 1


async def test_no_renewal_continues_behind_its_handler() -> None:
    store = Slow("renew")
    side_by_side: list[int] = []

    async def wait(message: ReceivedMessage) -> None:
        await store.reached(1)
        # The first one takes longer than until the next is due, and its end takes as long again.
        asyncio.get_running_loop().call_later(0.1, store.go_on.set)
        await store.go_on.wait()
        side_by_side.append(store.running)
        await store.reached(store.begun + 1)

    await DeduplicationHook(store, claim=0.05).handle(received(), wait)
    assert side_by_side == [1]
    assert store.running == 0


async def test_a_cancellation_while_the_renewal_ends_keeps_the_message_done() -> None:
    store = Slow("renew")

    async def wait(message: ReceivedMessage) -> None:
        await store.reached(1)

    hook = DeduplicationHook(store, claim=0.05)
    task = asyncio.get_running_loop().create_task(hook.handle(received(), wait))
    await asyncio.wait_for(store.cancelled.wait(), 20)
    task.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.claim(store_key(store), "b", 60) is Claim.DONE


async def test_a_cancellation_while_the_store_notes_keeps_the_message_done() -> None:
    store = Slow("done")

    async def handle(message: ReceivedMessage) -> None:
        return

    task = asyncio.get_running_loop().create_task(DeduplicationHook(store).handle(received(), handle))
    await store.reached(1)
    task.cancel()
    await asyncio.sleep(0)
    store.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.claim(store_key(store), "b", 60) is Claim.DONE


async def test_a_store_that_never_notes_does_not_hold_up_a_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("aiorocketmq.deduplication._LAST_SECONDS", 0.01)

    class Silent(Slow):
        async def done(self, key: str, owner: str, seconds: float) -> None:
            self.begun += 1
            self.news.set()
            await asyncio.Event().wait()

    async def handle(message: ReceivedMessage) -> None:
        return

    store = Silent("done")
    task = asyncio.get_running_loop().create_task(DeduplicationHook(store).handle(received(), handle))
    await store.reached(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert "could not be recorded within" in caplog.text


def store_key(store: MemoryStore) -> str:
    (key,) = store._entries
    return key


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"claim": -1}, {"busy_wait": -0.1}])
def test_what_is_wrong_is_said_where_it_is_written(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        DeduplicationHook(MemoryStore(), **wrong)


def test_a_memory_store_needs_room() -> None:
    with pytest.raises(ValueError, match="max_entries"):
        MemoryStore(max_entries=0)
