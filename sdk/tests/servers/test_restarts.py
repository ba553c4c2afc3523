"""A server that is restarted or killed while every kind of client is at work: all go on, nothing confirmed is lost, and
the audit of what the clients recorded accuses nobody.

`AIOROCKETMQ_RESTARTS` is how often each way is tried, by default once.
"""

import asyncio
import json
import os
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pytest
from aiorocketmq import Recorder, Timeouts
from aiorocketmq_conformance.demo.audit import audit, is_installed

from tools.soak.guests import Guests
from tools.soak.ledger import Ledger
from tools.soak.load import ATTEMPTS, GROUPS, LITE, STRICT, TOPICS, VISITOR, Load

if TYPE_CHECKING:
    from sdk.tests.conftest import Place
else:
    Place = Any

pytestmark = pytest.mark.slow

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
        """Wait until each group has handled a message that is promised from now on; return how long that took."""
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
        if topic not in (STRICT, LITE)
    }
    for topic in groups:
        await place.topic(topic, kind=TOPICS[topic], queues=4)
    for name in sorted({VISITOR, *(name for names in groups.values() for name in names)}):
        await place.group(name, ordered=name == "ordered", max_attempts=ATTEMPTS, backoff=(1.0, 2.0))
    return groups


@pytest.mark.parametrize("way", ["stopped and started", "killed and started"])
@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("AIOROCKETMQ_RESTARTS", "1"))))
async def test_all_clients_continue_nothing_confirmed_is_lost_and_no_violation_is_reported(
    place: Place, way: str, seed: int, tmp_path: Path
) -> None:
    groups = await prepared(place)
    books, rng = Books(groups), Random(seed)
    grain: Literal["message_group", "queue"] = "message_group" if place.target == "documented" else "queue"
    with Recorder(tmp_path / "recording", order_grain=grain) as recorder:
        load = Load(
            place.endpoint,
            books,
            rng,
            [recorder],
            rate=50.0,
            gathering=not place.is_old,
            pulling=place.serves_pulls,
            burying=False,  # Real servers make dead-letter topics without read permission.
            recalling=not place.is_old,
            # A name server may carry out the last word of a server that was stopped after its first one as it is back,
            # and knows none of its topics until it registers again.
            timeouts=Timeouts(start=RECOVERY),
        )
        # Old servers keep a queue for a minute that an ordered group's consumer has left.
        guests = Guests(
            place.endpoint, books, rng, [recorder], ordering=not place.is_old, pulling=place.serves_pulls
        )
        async with load:
            visits = asyncio.get_running_loop().create_task(guests.come_and_go())
            try:
                await books.all_work()
                fault = "restart" if way == "stopped and started" else "crash"
                recorder.note_fault(fault, state="start")
                await (place.restart() if fault == "restart" else place.crash())
                recorder.note_fault(fault, state="stop")
                took = await books.all_recover()
            finally:
                visits.cancel()
                await asyncio.wait([visits])
            await load.drain(DRAIN)
    balance = books.balance()
    print(f"{place.target}, {way}: all were at work again after {took:.1f} s; {balance.promised} promised,")
    print(f"{balance.handled} handled, errors {dict(load.errors)}, surprises {load.surprises}")
    assert balance.lost == ()
    assert balance.withdrawn == ()
    assert load.surprises == []
    assert visits.cancelled()
    if is_installed():
        await audit(tmp_path / "recording", tmp_path / "audit")
        summary = json.loads((tmp_path / "audit" / "summary.json").read_text(encoding="utf-8"))
        checks = {check["name"]: check for check in summary["checks"]}
        # Not the verdict: if most redeliveries are exempt, it is unknown what was tested.
        wrong = {
            name: check["reasons"] for name, check in checks.items() if check["broken"] or check["possible"]
        }
        assert wrong == {}
        assert min(checks[name]["judged"] for name in ("ordering", "double delivery", "origin")) > BEFORE
