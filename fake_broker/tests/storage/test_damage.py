"""Whatever file of a data folder is damaged, the next start serves all that was acknowledged, or refuses by name."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake.edge.storage import recovery
from aiorocketmq_fake.edge.storage.database import Database
from aiorocketmq_fake.edge.storage.errors import DamagedDataError

from tools.damage import NAME, WAYS, Folders, folders, judge, opened, view

COUNT = 48


@pytest.fixture(scope="module")
def known() -> Iterator[Folders]:
    with folders(1) as samples:
        yield samples


@pytest.fixture
def closed(known: Folders, tmp_path: Path) -> Path:
    """A copy of a folder that a broker has closed: all of it is in the data file."""
    return shutil.copytree(known.whole[-1], tmp_path / "closed")


def refused(folder: Path) -> str:
    with pytest.raises(DamagedDataError) as caught:
        opened(folder)
    return caught.value.what


def repaired(folder: Path) -> tuple[dict[str, Any], str]:
    """What is served after a repair, and what the repair said."""
    core, journal = opened(folder, repair=True)
    served = view(core)
    journal.close()
    return served, journal.repaired or ""


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / NAME, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount == 1


def test_damage_of_any_kind_is_served_whole_or_refused_by_name(known: Folders) -> None:
    judgement = judge(known, COUNT, seed=2)
    assert judgement.broken == []
    assert judgement.served + judgement.refused == COUNT
    assert min(judgement.served, judgement.refused) > COUNT // 5
    assert {way.partition(":")[0] for way in judgement.ways} == set(WAYS)


def test_the_judge_finds_a_start_that_forgets(known: Folders) -> None:
    whole = known.whole[0]
    less = {**known.views[whole], "group_positions": []}
    problems = judge(Folders((whole,), known.older, known.other, {whole: less}), 40, seed=2)
    assert any("served with other group_positions" in sentence for sentence in problems.broken)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE message SET copy = zeroblob(9) WHERE key = (SELECT min(key) FROM message)",
            "message 0 of its queue",
        ),
        ("DELETE FROM message WHERE key = (SELECT max(key) FROM message)", "are missing after place"),
        (
            "UPDATE message SET key = key + 7 WHERE key = (SELECT max(key) FROM message)",
            "are missing after place",
        ),
        ("UPDATE checkpoint SET upto = upto + 1", "its checkpoint has another checksum"),
        ("UPDATE checkpoint SET state = 'text'", "its checkpoint has another checksum"),
        (
            "UPDATE about SET value = 'documentee' WHERE name = 'profile'",
            "its description has another checksum",
        ),
        ("UPDATE about SET value = 'other' WHERE name = 'shape'", "its description has another checksum"),
    ],
)
def test_a_damaged_row_is_named_before_serving(closed: Path, statement: str, said: str) -> None:
    change(closed, statement)
    assert said in refused(closed)
    served, report = repaired(closed)
    assert said in report
    assert served["messages"]["plain"]


def test_a_message_of_another_place_is_no_message(closed: Path) -> None:
    change(
        closed,
        "UPDATE message SET (crc, copy) = (SELECT crc, copy FROM message AS first ORDER BY key LIMIT 1) "
        "WHERE key = (SELECT max(key) FROM message)",
    )
    assert "has another checksum" in refused(closed)


@pytest.mark.parametrize("name", [NAME, f"{NAME}-mark"])
def test_a_file_of_another_folder_is_named(known: Folders, closed: Path, name: str) -> None:
    shutil.copy(known.other[-1] / name, closed / name)
    assert refused(closed) == f"it and {NAME}-mark belong to different folders"


def test_a_log_of_another_folder_brings_none_of_its_messages(known: Folders, tmp_path: Path) -> None:
    folder = shutil.copytree(known.whole[0], tmp_path / "killed")
    shutil.copy(known.other[3] / f"{NAME}-wal", folder / f"{NAME}-wal")
    assert refused(folder)


def test_a_journal_of_another_time_than_its_checkpoint_is_named(known: Folders, tmp_path: Path) -> None:
    folder = shutil.copytree(known.whole[0], tmp_path / "killed")
    older = shutil.copytree(known.older[1], tmp_path / "older")
    with closing(sqlite3.connect(folder / NAME, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS older", (str(older / NAME),))
        connection.execute("REPLACE INTO checkpoint SELECT * FROM older.checkpoint")
    assert re.search(r"command \d+ comes where command \d+ should", refused(folder))


def test_garbage_in_the_lock_file_is_ignored(known: Folders, closed: Path) -> None:
    (closed / "broker-a.lock").write_bytes(b"garbage" * 1_000)
    core, journal = opened(closed)
    served = view(core)
    journal.abandon()
    assert served == known.views[known.whole[-1]]


def test_a_head_that_forbids_writing_is_damage(closed: Path) -> None:
    content = bytearray((closed / NAME).read_bytes())
    content[18] = 3  # "file format write version" of SQLite's header: newer than it knows
    (closed / NAME).write_bytes(content)
    assert "readonly" in refused(closed)
    _, report = repaired(closed)
    assert "Repaired: " in report


def test_a_kill_before_the_first_checkpoint_is_no_damage(tmp_path: Path) -> None:
    with closing(Database(tmp_path / NAME)) as database:
        database.describe({"profile": "documented"})
    core, journal = opened(tmp_path)
    journal.abandon()
    assert core.topics() == ()


def test_in_a_large_file_damage_is_named_where_it_is_read(
    known: Folders, closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "CHECKED", 0)
    change(closed, "DELETE FROM message WHERE key = (SELECT max(key) FROM message)")
    core, journal = opened(closed)
    with pytest.raises(DamagedDataError, match="are missing after place"):
        view(core)
    journal.abandon()
    killed = shutil.copytree(known.whole[0], tmp_path / "killed")
    with closing(sqlite3.connect(killed / NAME, isolation_level=None)) as connection:
        connection.execute("UPDATE message SET crc = 0")
    assert "has another checksum" in refused(killed)


def test_an_error_without_a_code_of_sqlite_means_damage(closed: Path) -> None:
    with closing(Database(closed / NAME)) as database:
        assert isinstance(database.failure(sqlite3.DatabaseError("odd")), DamagedDataError)
