"""Guests do their work, and their errors count like those of the load."""

from __future__ import annotations

from random import Random

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.choices import LiteService
from aiorocketmq_fake.core.values.profiles import PROFILES

from tools.soak import guests as guests_module
from tools.soak.guests import Guests
from tools.soak.ledger import Ledger
from tools.soak.load import GROUPS, NORMAL, prepare

LITE_PROFILE = next(name for name, each in PROFILES.items() if each.lite_service is LiteService.SERVED)


def guests_of(broker: FakeBroker, *, lite: bool = False) -> Guests:
    return Guests(broker.endpoint, Ledger(GROUPS), Random(1), (), lite=lite)


@pytest.mark.parametrize("kind", ["push", "poll", "order", "pull"])
async def test_every_guest_succeeds_at_an_undisturbed_broker(kind: str) -> None:
    async with FakeBroker() as broker:
        await prepare(broker)
        guests = guests_of(broker)
        await guests.visit(kind)
    assert (guests.succeeded, guests.failed, guests.surprises) == ({kind: 1}, {}, [])
    assert guests.clients == {}


async def test_a_guest_changes_its_lite_topics() -> None:
    async with FakeBroker(profile=LITE_PROFILE) as broker:
        await prepare(broker)
        guests = guests_of(broker, lite=True)
        await guests.visit("change lite topics")
    assert guests.succeeded == {"change lite topics": 1}


async def test_a_guests_final_error_is_a_surprise() -> None:
    async with FakeBroker() as broker:
        await broker.create_topic(NORMAL)
        guests = guests_of(broker)
        await guests.visit("pull")
    assert guests.errors.counts == {"GroupNotFoundError": 1}
    (surprise,) = guests.surprises
    assert "GroupNotFoundError" in surprise


async def test_a_guest_whose_every_visit_fails_is_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests_module, "ENOUGH", 2)
    async with FakeBroker() as broker:
        await prepare(broker)
        guests = guests_of(broker)
        broker.faults.fail("UpdateOffset", "INTERNAL")
        for _ in range(2):
            assert guests.surprises == []
            await guests.visit("pull")
        assert guests.surprises == ["all 2 visits of the guest 'pull' failed"]
        broker.faults.clear()
        await guests.visit("pull")
    assert guests.surprises == []
    assert guests.errors.counts == {"ServerError": 2}
