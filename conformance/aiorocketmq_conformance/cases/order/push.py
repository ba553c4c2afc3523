"""Ordered groups under push consumption: inventory 4.3, driven by the probe's scripted push client."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import Delivery
from aiorocketmq_conformance.probe.push import Handled, Handler, PushClient

PUSHED = ("type.fifo", "autorenew")


async def _push(fixture: Fixture, topic: str, handler: Handler, *, group: str | None = None) -> PushClient:
    consumer = await fixture.consumer(
        topic, group=group, ordered=True, kind=pb.ClientType.PUSH_CONSUMER, prime=group is None
    )
    push = PushClient(consumer.client, topic, consumer.group, handler)
    return await fixture.stack.enter_async_context(push)


async def _succeed(_: Delivery) -> bool:
    return True


def _by_group(runs: list[Handled]) -> dict[str, list[Handled]]:
    runs_by_group: dict[str, list[Handled]] = defaultdict(list)
    for run in runs:
        runs_by_group[run.delivery.message_group].append(run)
    return runs_by_group


@case("fifo.two-groups-100", rules=("R8.1", "R8.4"), needs=PUSHED, timeout=90.0)
async def two_groups_100(fixture: Fixture) -> None:
    """A push consumer handles 100 messages of two alternating message groups each in the order they were sent."""
    topic = await fixture.topic(4, type="FIFO")
    groups = [fixture.fresh("mg") for _ in range(2)]
    primed = await fixture.consumer(topic, ordered=True)
    # Sent before the first receive, so that they are delivered in large batches.
    for n in range(50):
        for group in groups:
            await fixture.send(topic, str(n), group=group)
    one = await _push(fixture, topic, _succeed, group=primed.group)
    two = await _push(fixture, topic, _succeed, group=primed.group)
    end = fixture.clock.now() + 30.0
    while len(one.handled) + len(two.handled) < 100 and fixture.clock.now() < end:
        await fixture.clock.sleep(0.5)
    runs = sorted([*one.handled, *two.handled], key=lambda run: run.serial)
    numbers = {group: [int(run.delivery.text) for run in each] for group, each in _by_group(runs).items()}
    assert numbers == {group: list(range(50)) for group in groups}


@case("fifo.one-inflight-consumer", rules=("R8.4", "R8.16"), needs=PUSHED, timeout=90.0)
async def one_inflight_consumer(fixture: Fixture) -> None:
    """Two push consumers with a slow handler never work on one message group at the same time."""
    topic = await fixture.topic(4, type="FIFO")

    async def handle(_: Delivery) -> bool:
        await fixture.clock.sleep(0.3)
        return True

    one = await _push(fixture, topic, handle)
    two = await _push(fixture, topic, handle, group=one.group)
    await fixture.send(topic, *map(str, range(30)), group=fixture.fresh("mg"))
    end = fixture.clock.now() + 40.0
    while len(one.handled) + len(two.handled) < 30 and fixture.clock.now() < end:
        await fixture.clock.sleep(0.5)
    runs = sorted([*one.handled, *two.handled], key=lambda run: run.serial)
    assert [int(run.delivery.text) for run in runs] == list(range(30))
    overlaps = [
        (earlier.delivery, later.delivery) for earlier, later in pairwise(runs) if later.began < earlier.ended
    ]
    assert not overlaps, f"handled at the same time: {overlaps}"


async def _fail_odd_once(fixture: Fixture, group_count: int) -> None:
    topic = await fixture.topic(4, type="FIFO")
    groups = [fixture.fresh("mg") for _ in range(group_count)]
    failed: set[str] = set()

    async def handle(delivery: Delivery) -> bool:
        if int(delivery.text) % 2 and delivery.id not in failed:
            failed.add(delivery.id)
            return False
        return True

    push = await _push(fixture, topic, handle)
    for n in range(10):
        await fixture.send(topic, str(n), group=groups[n % group_count])
    await push.until(lambda runs: sum(run.succeeded for run in runs) >= 10, 60.0)
    runs_by_group = _by_group(push.handled)
    assert set(runs_by_group) == set(groups), "a message group without any message"
    for index, group in enumerate(groups):
        # A failed message is retried before its successor starts: so its two runs are adjacent.
        expected = [
            (n, succeeded)
            for n in range(index, 10, group_count)
            for succeeded in ((False, True) if n % 2 else (True,))
        ]
        assert [(int(run.delivery.text), run.succeeded) for run in runs_by_group[group]] == expected


@case("fifo.push-inline-retry", rules=("R8.19",), needs=PUSHED, timeout=120.0)
async def push_inline_retry(fixture: Fixture) -> None:
    """Messages that fail once are retried before their successors start, and succeed in sending order."""
    await _fail_odd_once(fixture, 1)


@case("fifo.push-retry-3-groups", rules=("R8.19",), needs=PUSHED, timeout=120.0)
async def push_retry_3_groups(fixture: Fixture) -> None:
    """The same with three message groups: each is complete and in order."""
    await _fail_odd_once(fixture, 3)
