"""The event stream: bounded subscriptions, listeners that may fail."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiorocketmq_fake import EventsLostError
from aiorocketmq_fake.core.values.events import Event, OffsetCommitted
from aiorocketmq_fake.edge.events import Events


def event(number: int) -> Event:
    return OffsetCommitted(at=0.0, group="g", topic="t", queue_id=0, offset=number)


async def test_a_reader_gets_what_happens_from_now_on_in_order() -> None:
    events = Events()
    events.publish((event(0),))
    async with events.subscribe() as stream:
        events.publish((event(1), event(2)))
        assert [await anext(stream), await anext(stream)] == [event(1), event(2)]


async def test_a_reader_that_waits_is_woken() -> None:
    events = Events()
    async with events.subscribe() as stream, asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(anext(stream))
        await asyncio.sleep(0)
        events.publish((event(1),))
    assert reading.result() == event(1)


async def test_a_slow_reader_learns_the_number_of_lost_events() -> None:
    events = Events()
    stream = events.subscribe(bound=2)
    events.publish((event(1), event(2), event(3)))
    assert [await anext(stream), await anext(stream)] == [event(1), event(2)]
    with pytest.raises(EventsLostError, match="1 events were lost"):
        await anext(stream)
    with pytest.raises(EventsLostError, match="1 events were lost"):
        stream.take()


async def test_a_closed_subscription_keeps_nothing_more() -> None:
    events = Events()
    async with events.subscribe() as stream:
        pass
    events.publish((event(1),))
    assert stream.take() == ()
    assert [item async for item in stream] == []


def test_a_listener_gets_each_commands_events() -> None:
    events = Events()
    heard: list[tuple[Event, ...]] = []
    with events.listen(heard.append):
        events.publish((event(1), event(2)))
    events.publish((event(3),))
    assert heard == [(event(1), event(2))]


def test_a_failing_listener_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    heard: list[tuple[Event, ...]] = []

    def fail(happened: tuple[Event, ...]) -> None:
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR), events.listen(fail), events.listen(heard.append):
        events.publish((event(1),))
    assert heard == [(event(1),)]
    assert "a listener failed" in caplog.text
