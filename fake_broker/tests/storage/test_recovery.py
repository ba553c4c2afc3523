"""Whatever happened to a broker, what comes back from its data file is the same broker."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.codes import Refusal
from aiorocketmq_fake.core.profiles import PROFILES
from aiorocketmq_fake.edge.storage.journal import Journal
from aiorocketmq_fake.edge.storage.recovery import open_data
from hypothesis import HealthCheck, given, settings, strategies as st

FAR = 1_000_000


def make(profile: str) -> Callable[[float], Broker]:
    return lambda now: Broker(PROFILES[profile], now=now, rng=random.Random(7), history=100)


def opened(folder: Path, profile: str, now: float, memory: int = FAR) -> tuple[Broker, Journal]:
    return open_data(folder / "broker-a.db", make(profile), now, memory=memory)


def steps(kinds: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int, int, float]]]:
    often = (*kinds, *("send", "receive", "settle") * 4, "checkpoint")
    one = st.tuples(
        st.sampled_from(often),
        st.integers(0, 60),
        st.integers(0, 60),
        st.sampled_from([0.0, 0.0, 0.001, 0.5, 3.0, 40.0]),
    )
    return st.lists(one, min_size=1, max_size=50)


@pytest.mark.parametrize("profile", ["documented", "apache-5.5"])
async def test_a_broker_cut_off_at_any_point_comes_back_as_it_was(
    profile: str, history: type[Any], kinds: tuple[str, ...], difference: Callable[[Any, Any], str | None]
) -> None:
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        drawn=steps(kinds),
        memory=st.sampled_from([4_000, FAR]),
        downtime=st.sampled_from([0.0, 15.0, 9_000.0]),
    )
    def check(drawn: list[tuple[str, int, int, float]], memory: int, downtime: float) -> None:
        folder = Path(tempfile.mkdtemp())
        twin = make(profile)(1_000.0)
        try:
            core, journal = opened(folder, profile, 1_000.0, memory)

            def note(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], now: float) -> None:
                journal.note(name, arguments, keywords, now)
                with suppress(Refusal):
                    getattr(twin, name)(*arguments, now=now, **keywords)

            past = history(core, note)
            past.begin()
            for step in drawn:
                if step[0] == "checkpoint":
                    journal.checkpoint()
                else:
                    past.do(step)
            journal.flush()
            journal.abandon()
            later = past.now + downtime
            back, reopened = opened(folder, profile, later, memory)
            twin.restart(now=later)
            twin.take_events()
            twin.take_outputs()
            twin.forget_deliveries()
            try:
                assert difference(twin, back) is None
            finally:
                reopened.abandon()
        finally:
            shutil.rmtree(folder)

    check()
