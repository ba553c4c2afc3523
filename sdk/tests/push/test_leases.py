"""The keeper's timer runs on the loop's clock; leases here last a hundredth of a second."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from aiorocketmq._core.lease import Lease, Outcome, Step
from aiorocketmq._push.held import Held, lane_of
from aiorocketmq._push.leases import LeaseKeeper
from aiorocketmq.errors import LeaseLost, Unreachable, UsageError
from aiorocketmq.message import MessageQueue, ReceivedMessage

LEASE = 0.05
QUEUE = MessageQueue("orders", "broker-a", 0)


def held(name: str = "01") -> Held:
    lease = Lease(f"handle-{name}", ends_at=0.0)
    message = ReceivedMessage(topic="orders", body=b"x", message_id=name, queue=QUEUE, offset=0, lease=lease)
    return Held(message, lease, QUEUE, None, 1)


class Server:
    """Takes changes, and fails them as told."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.failures: list[Exception] = []
        self._news = asyncio.Event()

    async def change(self, message: ReceivedMessage, seconds: float) -> None:
        assert seconds == LEASE
        self.changed.append(message.message_id)
        self._news.set()
        if self.failures:
            raise self.failures.pop(0)

    async def reaches(self, changes: int) -> None:
        async with asyncio.timeout(5):
            while len(self.changed) < changes:
                self._news.clear()
                await self._news.wait()


Keep = Callable[[Server], LeaseKeeper]


@pytest.fixture
async def keep() -> AsyncIterator[Keep]:
    keepers: list[LeaseKeeper] = []
    tasks: set[asyncio.Task[None]] = set()

    def spawn(function: Callable[..., Coroutine[Any, Any, None]], *arguments: object, name: str) -> None:
        tasks.add(asyncio.create_task(function(*arguments), name=name))

    def make(server: Server) -> LeaseKeeper:
        keepers.append(LeaseKeeper(invisible=LEASE, change=server.change, spawn=spawn))
        return keepers[-1]

    yield make
    for keeper in keepers:
        keeper.close()
    await asyncio.gather(*tasks)


async def later(steps: int) -> None:
    """Let that many halves of a lease pass, and what is due in them happen."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(steps * LEASE / 2, passed.set)
    await passed.wait()


async def test_a_lease_in_hand_is_renewed_again_and_again(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    keeper.hold(held())

    await server.reaches(3)
    assert server.changed == ["01"] * 3


async def test_a_released_lease_is_not_renewed(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    done, other = held("done"), held("other")
    keeper.hold(done)
    keeper.hold(other)
    keeper.release(done)

    await server.reaches(2)
    assert set(server.changed) == {"other"}


async def test_a_message_that_its_handler_settled_itself_is_not_renewed(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    settled, other = held("settled"), held("other")
    settled.lease.begin(Step.ACK)
    settled.lease.end(Outcome.OK)
    keeper.hold(settled)
    keeper.hold(other)

    await server.reaches(2)
    assert set(server.changed) == {"other"}


async def test_a_renewal_that_fails_in_passing_is_repeated(keep: Keep) -> None:
    server = Server()
    server.failures = [Unreachable("gone")]
    keeper = keep(server)
    keeper.hold(held())

    await server.reaches(2)
    assert server.changed == ["01", "01"]


@pytest.mark.parametrize("error", [LeaseLost("over"), UsageError("in doubt")])
async def test_a_lost_lease_is_let_go(keep: Keep, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.failures = [error]
    keeper = keep(server)
    keeper.hold(held("lost"))
    await server.reaches(1)
    keeper.hold(held("next"))
    await server.reaches(3)

    assert server.changed == ["lost", "next", "next"]
    assert "may be delivered again" in caplog.text


async def test_a_keeper_with_nothing_in_hand_has_no_timer(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    only = held()
    keeper.hold(only)
    keeper.release(only)
    await later(3)

    assert server.changed == []
    assert keeper._timer is None


@pytest.mark.parametrize(
    ("message_group", "ordered", "expected"),
    [("a", True, ("orders", "a")), (None, True, QUEUE), ("a", False, None)],
)
def test_an_ordered_groups_message_keeps_order_with_its_message_group_or_queue(
    message_group: str | None, ordered: bool, expected: object
) -> None:
    message = ReceivedMessage(
        topic="orders", body=b"x", message_id="01", queue=QUEUE, offset=0, message_group=message_group
    )
    assert lane_of(message, ordered=ordered) == expected
