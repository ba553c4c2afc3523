"""A data file that lost its end is never taken for a whole one, wherever its write-ahead log is damaged."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.model import OutgoingMessage, TopicConfig
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.storage.errors import DamagedDataError
from aiorocketmq_fake.edge.storage.journal import Journal
from aiorocketmq_fake.edge.storage.recovery import open_data

COUNT = 40
POSITIONS = 500
NAME = "broker-a.db"
WAL, MARK = f"{NAME}-wal", f"{NAME}-mark"
WAL_HEAD, FRAME = 32, 24 + 4096
LOST = r"(\d+) of the (\d+) commands that were written are missing at its end"


def make(now: float) -> Broker:
    return Broker(PROFILES["documented"], now=now, rng=random.Random(7), history=100)


def opened(folder: Path, *, repair: bool = False) -> tuple[Broker, Journal]:
    return open_data(folder / NAME, make, 2_000.0, memory=1_000_000, repair=repair)


def stored(folder: Path) -> int:
    """How many messages a start finds."""
    core, journal = opened(folder)
    try:
        return len(core.messages("t"))
    finally:
        journal.abandon()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a kill leaves it: each of its messages is a write of its own."""
    running, folder = tmp_path_factory.mktemp("running"), tmp_path_factory.mktemp("killed")
    core, journal = opened(running)
    config = TopicConfig("t", TopicType.NORMAL, 1, 1)
    core.create_topic(config, now=2_000.0)
    journal.note("create_topic", (config,), {}, 2_000.0)
    journal.flush()
    for number in range(COUNT):
        message = OutgoingMessage("t", b"%d" % number, f"m{number}")
        core.send((message,), client_id="producer", now=2_001.0)
        journal.note("send", ((message,),), {"client_id": "producer"}, 2_001.0)
        journal.flush()
    for name in (NAME, WAL, MARK):
        shutil.copy(running / name, folder / name)
    journal.abandon()
    assert stored(copied(folder, tmp_path_factory.mktemp("control"))) == COUNT
    return folder


def copied(killed: Path, folder: Path) -> Path:
    for each in killed.iterdir():
        shutil.copy(each, folder / each.name)
    return folder


@pytest.fixture
def damaged(killed: Path, tmp_path: Path) -> Callable[[Callable[[bytearray], object]], Path]:
    """Change a fresh copy's write-ahead log."""

    def change(how: Callable[[bytearray], object]) -> Path:
        for each in tmp_path.iterdir():
            each.unlink()
        copied(killed, tmp_path)
        log = bytearray((tmp_path / WAL).read_bytes())
        how(log)
        (tmp_path / WAL).write_bytes(log)
        return tmp_path

    return change


def is_whole(folder: Path) -> bool:
    """Whether everything is there; where it is not, the error must say how much is missing."""
    try:
        messages = stored(folder)
    except DamagedDataError as damage:
        text = str(damage)
    else:
        assert messages == COUNT
        return True
    lost = re.search(LOST, text)
    assert lost, text
    assert 0 < int(lost[1]) <= int(lost[2]) == COUNT + 1
    return False


def test_one_flipped_bit_anywhere_is_named_or_harmless(
    killed: Path, damaged: Callable[[Callable[[bytearray], object]], Path]
) -> None:
    rng = random.Random(1)
    size = (killed / WAL).stat().st_size
    named = 0
    for _ in range(POSITIONS):
        position, bit = rng.randrange(size), rng.randrange(8)

        def flip(log: bytearray, position: int = position, bit: int = bit) -> None:
            log[position] ^= 1 << bit

        named += not is_whole(damaged(flip))
    assert named > POSITIONS * 0.9


def test_a_log_that_ends_at_any_record_is_named(
    killed: Path, damaged: Callable[[Callable[[bytearray], object]], Path]
) -> None:
    ends = range(WAL_HEAD, (killed / WAL).stat().st_size, FRAME)
    assert len(ends) > COUNT
    for end in ends:

        def cut(log: bytearray, end: int = end) -> None:
            del log[end:]

        assert not is_whole(damaged(cut)), end


def test_a_missing_log_is_named_and_the_rest_can_be_repaired(killed: Path, tmp_path: Path) -> None:
    copied(killed, tmp_path)
    (tmp_path / WAL).unlink()
    assert not is_whole(tmp_path)
    core, journal = opened(tmp_path, repair=True)
    assert core.messages("t") == ()
    journal.close()
    assert re.search(LOST, journal.repaired or "")
    core, journal = opened(tmp_path)
    journal.close()
    assert journal.repaired is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda mark: mark.unlink(), "broker-a.db-mark is missing, which counts the written commands"),
        (
            lambda mark: mark.write_bytes(b"0" * 30),
            "broker-a.db-mark is damaged: its checksum differs",
        ),
    ],
    ids=["gone", "damaged"],
)
def test_an_empty_mark_is_named(
    killed: Path, tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    copied(killed, tmp_path)
    change(tmp_path / MARK)
    with pytest.raises(DamagedDataError, match=said):
        opened(tmp_path)
    core, journal = opened(tmp_path, repair=True)
    assert len(core.messages("t")) == COUNT
    journal.close()
    assert stored(tmp_path) == COUNT


def test_a_missing_data_file_is_named(killed: Path, tmp_path: Path) -> None:
    copied(killed, tmp_path)
    for name in (NAME, WAL):
        (tmp_path / name).unlink()
    with pytest.raises(DamagedDataError, match=f"{COUNT + 1} of the {COUNT + 1} commands"):
        opened(tmp_path)


def test_a_kill_before_the_first_write_is_no_damage(tmp_path: Path) -> None:
    core, journal = opened(tmp_path)
    journal.abandon()
    (tmp_path / MARK).unlink()
    assert core.topics() == ()
    assert stored(tmp_path) == 0
