"""A server that is restarted or killed while every kind of client is at work: all go on, nothing confirmed is lost."""

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from aiorocketmq import Timeouts
from aiorocketmq_conformance.soak.ledger import Ledger
from aiorocketmq_conformance.soak.load import ATTEMPTS, GROUPS, STRICT, TOPICS, Load

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

BEFORE = 50
"""Messages that each group has handled when it strikes."""
RECOVERY = 60.0
"""Seconds after a server answers again within which each client has got a message that was sent since then."""
DRAIN = 150.0
"""Seconds after the load within which everything was handled; transactions are asked about once a minute."""


class Books(Ledger):
    """The books of a load that also know what is new since a moment."""

    def __init__(self, groups: dict[str, tuple[str, ...]]) -> None:
        super().__init__(groups)
        self.counts = dict.fromkeys((group for each in groups.values() for group in each), 0)
        self.new: set[str] = set()
        self.counting_new = False
        self.recovered: set[str] = set()

    def promised(self, topic: str, message_id: str) -> None:
        super().promised(topic, message_id)
        if self.counting_new:
            self.new.add(message_id)

    def handled(self, group: str, message_id: str) -> None:
        super().handled(group, message_id)
        self.counts[group] += 1
        if message_id in self.new:
            self.recovered.add(group)

    async def all_work(self) -> None:
        """Wait until each group has handled a few messages."""
        async with asyncio.timeout(RECOVERY):
            while min(self.counts.values()) < BEFORE:
                await self.something_handled()

    async def all_recover(self) -> float:
        """Wait until each group has handled a message that is promised from now on; tells how long that took."""
        self.counting_new = True
        began = time.monotonic()
        async with asyncio.timeout(RECOVERY):
            while self.recovered < set(self.counts):
                await self.something_handled()
        return time.monotonic() - began


async def prepared(place: Place) -> dict[str, tuple[str, ...]]:
    """Make topics and groups of the load; gives the groups that read each topic."""
    groups = {
        topic: tuple(name for name in names if name != "pull" or place.serves_pulls)
        for topic, names in GROUPS.items()
        if topic != STRICT
    }
    for topic in groups:
        await place.topic(topic, kind=TOPICS[topic], queues=4)
    for name in sorted({name for names in groups.values() for name in names}):
        await place.group(name, ordered=name == "ordered", max_attempts=ATTEMPTS, backoff=(1.0, 2.0))
    return groups


@pytest.mark.parametrize("way", ["stopped and started", "killed and started"])
async def test_all_clients_go_on_and_nothing_confirmed_is_lost(place: Place, way: str) -> None:
    groups = await prepared(place)
    books = Books(groups)
    load = Load(
        place.endpoint,
        books,
        Random(1),
        (),
        rate=50.0,
        gathering=not place.is_old,
        pulling=place.serves_pulls,
        burying=False,  # Real servers make dead-letter topics that nobody may read.
        recalling=False,  # A real server has to be told to allow it.
        # A name server may carry out the last word of a server that was stopped after its first one as it is back, and
        # knows none of its topics until it registers again.
        timeouts=Timeouts(start=RECOVERY),
    )
    async with load:
        await books.all_work()
        await (place.restart() if way == "stopped and started" else place.crash())
        took = await books.all_recover()
        await load.drain(DRAIN)
    balance = books.balance()
    print(f"{place.target}, {way}: all were at work again after {took:.1f} s; {balance.promised} promised,")
    print(f"{balance.handled} handled, errors {dict(load.errors)}, surprises {load.surprises}")
    assert balance.lost == ()
    assert balance.withdrawn == ()
    assert load.surprises == []
