"""What observers hear of the lite topics that a consumer wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiorocketmq.errors import QuotaExceededError, RocketMQError, ServerError
from aiorocketmq.hooks import Event, Hook, LiteChange, LiteSyncEvent, Phase
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_fake import FakeBroker

Told = tuple[Phase, LiteChange, tuple[str, ...]]

ADD, ALL, REMOVE, TAKEN = LiteChange.ADD, LiteChange.ALL, LiteChange.REMOVE, LiteChange.TAKEN


class Listening(Hook):
    """Keeps the events of lite topics."""

    def __init__(self) -> None:
        self.events: list[LiteSyncEvent] = []
        self.came = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, LiteSyncEvent):
            self.events.append(event)
            self.came.set()

    @property
    def told(self) -> list[Told]:
        return [(each.phase, each.change, each.lite_topics) for each in self.events]


@pytest.fixture
async def lite() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("sessions", type="LITE", queues=1)
        await broker.create_group("chat", lite_topic="sessions", lite_exclusive=True)
        yield broker


@pytest.fixture
def heard() -> Listening:
    return Listening()


def consumer_of(broker: FakeBroker, *names: str, hooks: tuple[Hook, ...] = ()) -> SimpleConsumer:
    return SimpleConsumer(
        broker.endpoint, group="chat", subscriptions=["sessions"], lite_topics=names, hooks=hooks
    )


async def test_each_list_is_reported_as_a_call_and_its_answer(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, "ann", "bob", hooks=(heard,)) as consumer:
        await consumer.add_lite_topics("bob", "carol")
        await consumer.remove_lite_topics("ann")
    assert heard.told == [
        (Phase.INVOKE, ALL, ("ann", "bob")),
        (Phase.OK, ALL, ("ann", "bob")),
        (Phase.INVOKE, ADD, ("carol",)),
        (Phase.OK, ADD, ("carol",)),
        (Phase.INVOKE, REMOVE, ("ann",)),
        (Phase.OK, REMOVE, ("ann",)),
    ]
    assert {event.topic for event in heard.events} == {"sessions"}
    calls, answers = heard.events[::2], heard.events[1::2]
    assert [each.operation for each in calls] == [each.operation for each in answers]
    assert len({each.operation for each in calls}) == 3


async def test_a_repeated_list_is_reported_as_the_first_one(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, "ann", hooks=(heard,)) as consumer:
        with (
            lite.faults.refuse("SyncLiteSubscription", "INTERNAL_SERVER_ERROR", times=1),
            pytest.raises(ServerError),
        ):
            await consumer._lite_topics()._repeat()
        await consumer._lite_topics()._repeat()
    phases = [phase for phase, *list_told in heard.told if list_told == [ALL, ("ann",)]]
    assert phases == [Phase.INVOKE, Phase.OK, Phase.INVOKE, Phase.INFO, Phase.INVOKE, Phase.OK]
    assert len(phases) == len(heard.told)


async def test_a_list_is_not_repeated_while_it_is_changed(lite: FakeBroker, heard: Listening) -> None:
    """The server would get what is removed once more."""
    async with consumer_of(lite, "ann", "bob", hooks=(heard,)) as consumer:
        await asyncio.gather(consumer.remove_lite_topics("ann"), consumer._lite_topics()._repeat())
    assert heard.told[2:] == [
        (Phase.INVOKE, REMOVE, ("ann",)),
        (Phase.OK, REMOVE, ("ann",)),
        (Phase.INVOKE, ALL, ("bob",)),
        (Phase.OK, ALL, ("bob",)),
    ]


async def test_a_list_without_names_is_reported_though_no_server_is(
    lite: FakeBroker, heard: Listening
) -> None:
    async with consumer_of(lite, hooks=(heard,)):
        assert heard.told == [(Phase.SINGLE, ALL, ())]


async def test_a_refused_list_has_failed(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, hooks=(heard,)) as consumer:
        refusing = lite.faults.refuse("SyncLiteSubscription", "LITE_SUBSCRIPTION_QUOTA_EXCEEDED", times=1)
        with refusing, pytest.raises(QuotaExceededError) as raised:
            await consumer.add_lite_topics("ann")
    assert heard.told[1:] == [(Phase.INVOKE, ADD, ("ann",)), (Phase.FAIL, ADD, ("ann",))]
    assert heard.events[-1].error is raised.value


async def test_a_list_that_a_server_refuses_changes_nothing(lite: FakeBroker) -> None:
    async with consumer_of(lite, "ann") as consumer:
        with lite.faults.refuse("SyncLiteSubscription", "INTERNAL_SERVER_ERROR") as refused:
            with pytest.raises(ServerError):
                await consumer.add_lite_topics("bob")
            with pytest.raises(ServerError):
                await consumer.remove_lite_topics("ann")
        assert consumer.lite_topics == {"ann"}
        assert refused.hits == 2


async def test_of_a_list_without_an_answer_is_of_unknown_outcome(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, hooks=(heard,)) as consumer:
        with lite.faults.drop_reply("SyncLiteSubscription", times=1), pytest.raises(RocketMQError):
            await consumer.add_lite_topics("ann")
    assert heard.told[-1] == (Phase.INFO, ADD, ("ann",))


async def test_of_a_cancelled_list_is_of_unknown_outcome(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, hooks=(heard,)) as consumer:
        heard.came.clear()
        with lite.faults.drop_reply("SyncLiteSubscription", hang=True, times=1):
            adding = asyncio.create_task(consumer.add_lite_topics("ann"))
            await heard.came.wait()
            adding.cancel()
            await asyncio.wait([adding])
    assert heard.told[-1] == (Phase.INFO, ADD, ("ann",))


async def test_what_the_server_takes_away_is_reported(lite: FakeBroker, heard: Listening) -> None:
    async with consumer_of(lite, "ann", hooks=(heard,)):
        heard.came.clear()
        async with consumer_of(lite, "ann"), asyncio.timeout(10):
            await heard.came.wait()
    assert heard.told[2:] == [(Phase.SINGLE, TAKEN, ("ann",))]


async def test_of_a_list_that_one_of_two_servers_took_is_of_unknown_outcome(heard: Listening) -> None:
    code = "LITE_SUBSCRIPTION_QUOTA_EXCEEDED"
    async with FakeBroker(brokers=2, clock="manual") as cluster:
        await cluster.create_topic("sessions", type="LITE", queues=1)
        await cluster.create_group("chat", lite_topic="sessions")
        async with consumer_of(cluster, hooks=(heard,)) as consumer:
            for broker in cluster.brokers:
                with (
                    broker.faults.refuse("SyncLiteSubscription", code, times=1),
                    pytest.raises(QuotaExceededError),
                ):
                    await consumer.add_lite_topics("ann")
    answers = [phase.value for phase, _, _ in heard.told[1:] if phase is not Phase.INVOKE]
    assert sorted(answers) == ["fail", "info"]
