"""Whatever happened to a broker, what comes back from its data file is the same broker."""

from __future__ import annotations

import inspect
import os
import pickle
import random
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.driver import READS
from aiorocketmq_fake.edge.storage.database import checksum
from aiorocketmq_fake.edge.storage.errors import DamagedDataError
from aiorocketmq_fake.edge.storage.journal import _GO_ON, Journal
from aiorocketmq_fake.edge.storage.recovery import open_data
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

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
async def test_a_broker_recovers_exactly_from_any_point(
    profile: str, history: type[Any], kinds: tuple[str, ...], difference: Callable[[Any, Any], str | None]
) -> None:
    @settings(
        max_examples=60,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
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
            twin.clear_deliveries()
            try:
                assert difference(twin, back) is None
            finally:
                reopened.abandon()
        finally:
            shutil.rmtree(folder)

    check()


READERS = frozenset(
    {
        *(
            "clients",
            "dead_letters",
            "deliveries",
            "entries",
            "groups",
            "half_messages",
            "retention",
            "leases",
        ),
        *(
            "lite_topics",
            "mark",
            "message",
            "message_at",
            "messages",
            "next_deadline",
            "offsets",
            "order_records",
            "group_positions",
            "topics",
        ),
        *("take_events", "take_outputs", "totals", "transient"),
        *("has_group", "members", "producers", "queue", "subscription", "topic"),
    }
)
BEFORE_ANYTHING = frozenset({"clear_deliveries", "set_entries_factory", "rebuild"})


def commands() -> set[str]:
    """Every method of a broker that is told the time: the driver writes those down."""
    methods = inspect.getmembers(Broker, inspect.isfunction)
    return {
        name for name, method in methods if "now" in inspect.signature(method).parameters and name[0] != "_"
    }


def test_every_changing_command_takes_the_time() -> None:
    public = {name for name, _ in inspect.getmembers(Broker, inspect.isfunction) if not name.startswith("_")}
    assert public - commands() == READERS | BEFORE_ANYTHING, (
        "a command without `now` would not survive a kill"
    )


def test_the_histories_know_every_command(history: type[Any], kinds: tuple[str, ...]) -> None:
    done: set[str] = set()
    past = history(make("documented")(1_000.0), lambda name, *_: done.add(name))
    past.begin()
    # What takes topics away or refuses sends comes last.
    for kind in sorted(kinds, key=lambda kind: kind in ("admission", "catalogue", "keeping")):
        for first in range(6):
            for second in range(8):
                past.do_send(first, second)
                past.do((kind, first, second, 0.1))
    assert commands() - done == READS | {"advance", "query_assignment"}
    assert commands() > _GO_ON


def test_a_part_that_is_not_stored_is_detected(difference: Callable[[Any, Any], str | None]) -> None:
    ours, theirs = make("documented")(1_000.0), make("documented")(1_000.0)
    assert difference(ours, theirs) is None
    theirs._state.serial += 1
    assert difference(ours, theirs) == "core._state.serial: 0 became 1"


def test_only_the_cores_own_classes_come_out_of_a_file(tmp_path: Path) -> None:
    _, journal = opened(tmp_path, "documented", 1_000.0)
    journal.abandon()
    for evil in (os.system, eval, getattr, subprocess.Popen):
        state = pickle.dumps((evil, "echo"))
        connection = sqlite3.connect(tmp_path / "broker-a.db")
        with connection:
            (folder,) = connection.execute("SELECT value FROM about WHERE name = 'folder'").fetchone()
            (upto,) = connection.execute("SELECT upto FROM checkpoint").fetchone()
            seal = checksum(folder, upto, state)
            connection.execute("UPDATE checkpoint SET state = ?, crc = ?", (state, seal))
        connection.close()
        with pytest.raises(DamagedDataError, match="its checkpoint cannot be read"):
            opened(tmp_path, "documented", 1_000.0)
