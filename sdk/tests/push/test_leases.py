"""Leases here last an hour; the tests fire the keeper's timer themselves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from aiorocketmq._core.lease import Lease, Outcome, Step
from aiorocketmq._push.held import Held, lane_of
from aiorocketmq._push.leases import LeaseKeeper
from aiorocketmq.errors import LeaseLost, Unreachable, UsageError
from aiorocketmq.message import MessageQueue, ReceivedMessage

LEASE = 3600.0
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

    async def change(self, message: ReceivedMessage, seconds: float) -> None:
        assert seconds == LEASE
        self.changed.append(message.message_id)
        if self.failures:
            raise self.failures.pop(0)


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


def now() -> float:
    return asyncio.get_running_loop().time()


async def fire(keeper: LeaseKeeper) -> None:
    """Let the time come for which the timer is set, and what is due then happen."""
    assert keeper._timer is not None
    due = keeper._timer.when()
    keeper._timer.cancel()
    keeper._on_timer(due)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_timer_is_set_before_two_thirds_of_the_lease_have_passed(keep: Keep) -> None:
    keeper = keep(Server())
    keeper.hold(held(), now())

    assert keeper._timer is not None
    assert 0 < keeper._timer.when() - now() < LEASE * 2 / 3


async def test_a_lease_in_hand_is_renewed_again_and_again(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    keeper.hold(held(), now())
    for _ in range(3):
        await fire(keeper)

    assert server.changed == ["01"] * 3


async def test_a_released_lease_is_not_renewed(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    done, other = held("done"), held("other")
    keeper.hold(done, now())
    keeper.hold(other, now())
    keeper.release(done)
    await fire(keeper)  # set for the one that was released: finds nothing
    await fire(keeper)
    await fire(keeper)

    assert server.changed == ["other", "other"]


async def test_a_message_that_its_handler_settled_itself_is_not_renewed(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    settled, other = held("settled"), held("other")
    settled.lease.begin(Step.ACK)
    settled.lease.end(Outcome.OK)
    keeper.hold(settled, now())
    keeper.hold(other, now())
    await fire(keeper)
    await fire(keeper)
    await fire(keeper)

    assert set(server.changed) == {"other"}


async def test_a_renewal_that_fails_in_passing_is_repeated(keep: Keep) -> None:
    server = Server()
    server.failures = [Unreachable("gone")]
    keeper = keep(server)
    keeper.hold(held(), now())
    await fire(keeper)
    await fire(keeper)

    assert server.changed == ["01", "01"]
    assert server.failures == []


@pytest.mark.parametrize("error", [LeaseLost("over"), UsageError("in doubt")])
async def test_a_lost_lease_is_let_go(keep: Keep, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    server.failures = [error]
    keeper = keep(server)
    keeper.hold(held("lost"), now())
    await fire(keeper)
    keeper.hold(held("next"), now())
    await fire(keeper)

    assert server.changed == ["lost", "next"]
    assert "may be delivered again" in caplog.text


async def test_a_keeper_with_nothing_in_hand_sets_no_timer_anew(keep: Keep) -> None:
    server = Server()
    keeper = keep(server)
    only = held()
    keeper.hold(only, now())
    keeper.release(only)
    await fire(keeper)

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
