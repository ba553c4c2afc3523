"""A short soak keeps every promise, and one in which messages do not arrive says so."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiorocketmq_conformance.soak import run
from aiorocketmq_conformance.soak.faults import STRIKES
from aiorocketmq_conformance.soak.load import GROUPS, NORMAL
from aiorocketmq_conformance.soak.run import Plan, soak
from aiorocketmq_fake import FakeBroker


async def test_a_short_soak_keeps_every_promise(tmp_path: Path) -> None:
    plan = Plan(minutes=0.1, pause=0.8, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert result.balance.promised > 0
    assert sum(result.faults.values()) >= 3
    assert (result.balance.lost, result.balance.unexplained, result.surprises) == ((), (), ())
    assert result.exit_code == 0
    assert list((tmp_path / "recording").rglob("*.parquet"))


async def test_a_short_soak_with_garbled_answers_keeps_every_promise(tmp_path: Path) -> None:
    plan = Plan(minutes=0.15, pause=None, garble=0.03, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert result.balance.promised > 0
    assert sum(result.damages.values()) >= 10
    assert (result.balance.lost, result.balance.unexplained, result.surprises) == ((), (), ())
    assert result.exit_code == 0


async def test_a_soak_of_which_somebody_gets_nothing_has_lost_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GROUPS", {**GROUPS, NORMAL: (*GROUPS[NORMAL], "nobody")})
    monkeypatch.setattr(run, "DRAIN", 8.0)
    plan = Plan(minutes=0.05, pause=60.0, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert {group for group, _ in result.balance.lost} == {"nobody"}
    assert result.exit_code == 1


@pytest.mark.parametrize("strike", [strike for strike, _ in STRIKES], ids=lambda strike: strike.__name__)
async def test_after_every_strike_the_broker_is_at_work(strike: Any) -> None:
    async with FakeBroker() as broker:
        await strike(broker, Random(1))
        assert broker.is_running
