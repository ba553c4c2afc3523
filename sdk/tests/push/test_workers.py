"""Workers on a loop of their own, without any server."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiorocketmq._core.lease import Lease
from aiorocketmq._core.settings import Declaration
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._push.settler import Delivery
from aiorocketmq._push.workers import TURNS, Workers
from aiorocketmq._session.session import Session
from aiorocketmq.hooks import Role
from aiorocketmq.message import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("orders", "broker-a", 0)


def delivery(name: str, order_key: str | None = None) -> Delivery:
    lease = Lease(f"handle {name}", ends_at=1e9)
    message = ReceivedMessage(
        topic="orders", body=name.encode(), message_id=name, queue=QUEUE, offset=0, lease=lease
    )
    return Delivery(message, lease, QUEUE, order_key, 1)


class Bench:
    """Workers, and what they have done."""

    def __init__(self, session: Session, concurrency: int) -> None:
        self.started: list[str] = []
        self.finished: list[str] = []
        self.dropped: list[Delivery] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.on_finished: Callable[[Delivery], None] = lambda delivery: None
        handlers = Handlers({"orders": self._handle}, hooks=(), timeout=None, concurrency=concurrency)
        self.workers = Workers(
            session,
            handlers,
            concurrency=concurrency,
            is_lost=lambda delivery: False,
            finished=self._finished,
            dropped=self.dropped.append,
        )

    async def _handle(self, message: ReceivedMessage) -> None:
        self.started.append(message.message_id)
        if not self.gate.is_set():
            await self.gate.wait()

    def _finished(self, delivery: Delivery, failure: Exception | None) -> None:
        assert failure is None
        self.finished.append(delivery.message.message_id)
        self.workers.settled(delivery)
        self.on_finished(delivery)

    def add(self, *messages: Delivery) -> None:
        for message in messages:
            self.workers.add(message)
        self.workers.wake()


async def turns(count: int) -> None:
    """Let the loop turn so often."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def session() -> AsyncIterator[Session]:
    session = Session("localhost:1", Declaration(client_type="PUSH_CONSUMER", group="g"), role=Role.PUSH)
    yield session
    await session._tasks.end()


async def test_handlers_that_await_nothing_are_run_by_one_task(session: Session) -> None:
    bench = Bench(session, concurrency=20)
    bench.add(*(delivery(f"{number}") for number in range(TURNS - 1)))

    assert len(bench.workers._tasks) == 1
    await bench.workers.wait_idle()
    assert bench.finished == [f"{number}" for number in range(TURNS - 1)]


async def test_handlers_that_wait_get_more_tasks_up_to_the_limit(session: Session) -> None:
    bench = Bench(session, concurrency=5)
    bench.gate.clear()
    bench.add(*(delivery(f"{number}") for number in range(9)))
    await turns(20)

    assert bench.workers.running == 5
    assert bench.workers.waiting == 4
    bench.gate.set()
    await bench.workers.wait_idle()
    assert len(bench.finished) == 9


async def test_the_number_of_tasks_doubles_with_each_turn_of_the_loop(session: Session) -> None:
    bench = Bench(session, concurrency=64)
    bench.gate.clear()
    bench.add(*(delivery(f"{number}") for number in range(64)))
    turns = 0
    while bench.workers.running < 64:
        await asyncio.sleep(0)
        turns += 1

    assert turns <= 8
    bench.gate.set()
    await bench.workers.wait_idle()


async def test_a_message_that_comes_while_the_last_task_ends_is_started(session: Session) -> None:
    bench = Bench(session, concurrency=1)

    def add_late(done: Delivery) -> None:
        if done.message.message_id == "first":
            # Runs after the task has found nothing more to do, and before its end is noticed.
            asyncio.get_running_loop().call_soon(bench.add, delivery("late"))

    bench.on_finished = add_late
    bench.add(delivery("first"))
    await turns(20)

    assert bench.finished == ["first", "late"]


async def test_a_task_lets_others_have_the_loop_now_and_then(session: Session) -> None:
    bench = Bench(session, concurrency=1)
    seen_by_others: list[int] = []
    bench.add(*(delivery(f"{number}") for number in range(3 * TURNS)))

    while len(bench.finished) < 3 * TURNS:
        await asyncio.sleep(0)
        seen_by_others.append(len(bench.finished))

    assert seen_by_others[0] <= TURNS < seen_by_others[-1]


async def test_lanes_run_side_by_side_and_each_in_order(session: Session) -> None:
    bench = Bench(session, concurrency=4)
    bench.gate.clear()
    bench.add(
        delivery("a1", "a"), delivery("a2", "a"), delivery("b1", "b"), delivery("b2", "b"), delivery("free")
    )
    await turns(20)

    assert sorted(bench.started) == ["a1", "b1", "free"]
    bench.gate.set()
    await bench.workers.wait_idle()
    assert [name for name in bench.started if name.startswith("a")] == ["a1", "a2"]
    assert [name for name in bench.started if name.startswith("b")] == ["b1", "b2"]


async def test_a_message_to_run_again_goes_before_all_others(session: Session) -> None:
    bench = Bench(session, concurrency=1)
    again = delivery("a1", "a")
    bench.workers.add(again)
    assert bench.workers._next() is again
    bench.workers.add(delivery("b1", "b"))
    bench.workers.retry_locally(again)

    await bench.workers.wait_idle()
    assert bench.started == ["a1", "b1"]


async def test_a_stop_returns_what_waits_and_what_was_to_run_again(session: Session) -> None:
    bench = Bench(session, concurrency=1)
    bench.gate.clear()
    again = delivery("a1", "a")
    bench.workers.add(again)
    assert bench.workers._next() is again
    bench.add(delivery("running"), delivery("waiting"))
    await turns(5)
    bench.workers.add(delivery("a2", "a"))
    bench.workers.retry_locally(again)

    returned = bench.workers.stop_starting()
    assert [each.message.message_id for each in returned] == ["a1", "waiting"]
    behind = bench.workers.unsettled(again)
    assert [(each.message.message_id, each.order_key) for each in behind] == [("a2", None)]
    bench.gate.set()
    await bench.workers.wait_idle()
    assert bench.finished == ["running"]
    assert (bench.workers.waiting, bench.workers.stop_starting()) == (0, [])
