"""A short soak keeps every promise, and one in which messages do not arrive says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker

from tools.soak import faults, run
from tools.soak.__main__ import closing_line
from tools.soak.faults import STRIKES
from tools.soak.health import HealthWatch
from tools.soak.ledger import Balance, Ledger
from tools.soak.load import GROUPS, NORMAL, Load, prepare
from tools.soak.run import Plan, Soaked, soak


@pytest.mark.slow
async def test_a_short_soak_keeps_every_promise(tmp_path: Path) -> None:
    plan = Plan(minutes=0.1, pause=0.8, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert result.balance.promised > 0
    assert sum(result.faults.values()) >= 3
    assert (result.balance.lost, result.balance.unexplained, result.surprises) == ((), (), ())
    assert result.exit_code == 0
    assert list((tmp_path / "recording").rglob("*.parquet"))


@pytest.mark.slow
async def test_a_short_soak_with_garbled_answers_keeps_every_promise(tmp_path: Path) -> None:
    plan = Plan(minutes=0.15, pause=None, garble=0.03, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert result.balance.promised > 0
    assert sum(result.damages.values()) >= 10
    assert (result.balance.lost, result.balance.unexplained, result.surprises) == ((), (), ())
    assert result.exit_code == 0


@pytest.mark.slow
async def test_a_soak_with_an_idle_group_has_lost_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "GROUPS", {**GROUPS, NORMAL: (*GROUPS[NORMAL], "nobody")})
    monkeypatch.setattr(run, "DRAIN", 8.0)
    plan = Plan(minutes=0.05, pause=60.0, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert {group for group, _ in result.balance.lost} == {"nobody"}
    assert result.exit_code == 1


async def test_a_watch_or_faults_that_end_by_themselves_fail_the_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def strike(broker: FakeBroker, rng: Random) -> str:
        raise ValueError("odd strike")

    def look(watch: HealthWatch, clients: object) -> None:
        raise ValueError("odd health")

    monkeypatch.setattr(faults, "STRIKES", ((strike, 1),))
    monkeypatch.setattr(HealthWatch, "look", look)
    plan = Plan(minutes=0.02, pause=0.1, rate=40.0, seed=3, transactions=False, audited=False)
    result = await soak(plan, tmp_path)
    assert set(result.surprises) == {
        "the faults ended by ValueError('odd strike')",
        "the health watch ended by ValueError('odd health')",
    }
    assert result.exit_code == 1


async def test_the_reader_of_dead_letters_is_among_the_clients() -> None:
    ledger = Ledger(GROUPS)
    async with FakeBroker() as broker:
        await prepare(broker)
        async with Load(broker.endpoint, ledger, Random(1), (), rate=200.0, transactions=False) as load:
            async with asyncio.timeout(20):
                while "dead letters" not in load.clients:
                    await ledger.something_handled()
            assert load.surprises == []


@pytest.mark.parametrize(
    ("garble", "undecided", "exit_code", "line"),
    [
        (0.02, ("double delivery",), 0, "kept; the audit leaves open: double delivery"),
        (0.02, ("double delivery", "ordering"), 3, "no verdict"),
        (0.02, (), 3, "no verdict"),
        (0.0, ("double delivery",), 3, "no verdict"),
    ],
)
def test_only_damaged_answers_may_leave_double_delivery_open(
    garble: float, undecided: tuple[str, ...], exit_code: int, line: str
) -> None:
    result = Soaked(
        plan=Plan(garble=garble),
        seconds=60.0,
        balance=Balance(1, 1, (), (), ()),
        faults={},
        errors={},
        surprises=(),
        tasks=(1, 1),
        megabytes=(1.0, 1.0),
        audit_verdict="unknown",
        audit_checks=(("delay", "valid", ""), *((name, "unknown", "") for name in undecided)),
    )
    assert result.exit_code == exit_code
    assert closing_line(result) == line


@pytest.mark.parametrize("strike", [strike for strike, _ in STRIKES], ids=lambda strike: strike.__name__)
async def test_after_every_strike_the_broker_is_at_work(strike: Any) -> None:
    async with FakeBroker() as broker:
        await strike(broker, Random(1))
        assert broker.is_running
