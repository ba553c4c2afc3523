"""`FakeBroker(data=...)`: what is acknowledged is on disk, what is on disk comes back, what is damaged is named."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.profiles import DOCUMENTED
from aiorocketmq_fake.edge.storage.database import FORMAT, sealed
from aiorocketmq_fake.edge.storage.errors import DamagedDataError, DataInUseError, ForeignDataError
from aiorocketmq_fake.edge.storage.pages import PagedEntries

OK = 20000
FULL = 50001
BIG = b"x" * 20_000


async def subscribed(broker: FakeBroker, connect: Callable[..., Any], **options: Any) -> Any:
    """Return a client of the group `g`, which reads the topic `t` of one queue; both are new."""
    await broker.create_topic("t", queues=1, **options)
    await broker.create_group("g")
    client = connect(broker)
    await client.subscribe("g", "t")
    return client


async def filled(folder: Path, connect: Callable[..., Any], count: int = 20, **options: Any) -> None:
    """Leave a folder behind with a topic, a group that consumed half of it, and a lease."""
    async with FakeBroker(data=folder, clock="manual", **options) as broker:
        client = await subscribed(broker, connect)
        for number in range(count):
            await client.send("t", b"%d" % number)
        taken = await client.receive("g", "t", batch=count // 2 + 1, wait=5)
        await client.ack("g", "t", *taken.messages[:-1])


def kill(broker: FakeBroker) -> None:
    """Let the data file be as a kill -9 of its process would leave it."""
    assert broker._journals
    broker._journals[0].abandon()


async def test_what_was_stored_leased_and_acked_is_there_again(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    await filled(tmp_path, connect)
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert [message.body for message in broker.messages("t")] == [b"%d" % n for n in range(20)]
        assert [lease.offset for lease in broker.leases("g")] == [10]
        assert [place.offset for place in broker.progress("g")] == [11]
        assert broker.clients() == (), "clients must say who they are anew"


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, connect: Callable[..., Any]) -> None:
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        client = await subscribed(broker, connect)
        await client.send("t", b"acked")
        await client.send("t", b"held")
        taken = await client.receive("g", "t", batch=2, wait=5)
        await client.ack("g", "t", taken.messages[0])
        kill(broker)
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert [lease.message_id for lease in broker.leases("g")] == ["id-b'held'-0"]
        client = connect(broker)
        await client.subscribe("g", "t")
        await broker.clock.advance(seconds=60)
        again = await client.receive("g", "t", wait=5)
        assert again.bodies == [b"held"]
        assert again.messages[0].system_properties.delivery_attempt == 2


async def test_many_sends_share_one_wait_for_the_disk(
    tmp_path: Path, connect: Callable[..., Any], until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    async with FakeBroker(data=tmp_path) as broker:
        await broker.create_topic("t")
        client, journal = connect(broker), broker._journals[0]
        before = journal.flushes
        other = sqlite3.connect(journal._database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # the disk takes nothing until then
        sends = [asyncio.ensure_future(client.send("t", b"%d" % number)) for number in range(200)]
        await until(lambda: len(broker.messages("t")) == 200)
        other.execute("ROLLBACK")
        other.close()
        assert {answer.status.code for answer in await asyncio.gather(*sends)} == {OK}
        assert journal.flushes - before == 2, "one for the first, one for all that came meanwhile"


async def test_time_does_not_fall_between_two_runs(tmp_path: Path) -> None:
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        await broker.clock.advance(hours=5)
        later = broker.clock.now()
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert broker.clock.now() == pytest.approx(later, abs=0.01)
    async with FakeBroker(data=tmp_path) as broker:
        first = broker.clock.now()
        assert first >= later - 0.01
        await asyncio.sleep(0)
        assert broker.clock.now() >= first


async def test_two_brokers_cannot_have_one_folder(tmp_path: Path) -> None:
    async with FakeBroker(data=tmp_path):
        with pytest.raises(DataInUseError, match="used by another broker"):
            FakeBroker(data=tmp_path)


async def test_another_profile_is_refused(tmp_path: Path) -> None:
    async with FakeBroker(data=tmp_path):
        pass
    with pytest.raises(ForeignDataError, match="profile 'documented'"):
        FakeBroker(data=tmp_path, profile="apache-5.5", repair=True)


async def test_a_version_whose_state_differs_is_refused_and_can_be_repaired(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    await filled(tmp_path, connect)
    with closing(sqlite3.connect(tmp_path / "broker-a.db")) as connection:
        about = dict(connection.execute("SELECT name, value FROM about WHERE name <> 'crc'"))
    seal = sealed({**about, "shape": "other"})["crc"]
    change(
        tmp_path,
        "UPDATE about SET value = iif(name = 'shape', 'other', ?) WHERE name IN ('shape', 'crc')",
        seal,
    )
    with pytest.raises(ForeignDataError, match="whose state differs"):
        FakeBroker(data=tmp_path, clock="manual")
    async with FakeBroker(data=tmp_path, clock="manual", repair=True) as broker:
        assert len(broker.messages("t")) == 20
        assert [place.offset for place in broker.progress("g")] == [10], "the leased one must come again"
        assert "20 messages, 1 topics and 1 groups were kept" in (broker.repaired or "")


def describe_as(folder: Path, about: dict[str, str]) -> None:
    """Let a data file say something else of itself."""
    with closing(sqlite3.connect(folder / "broker-a.db")) as connection, connection:
        connection.execute("DELETE FROM about")
        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("number", ["2", "999"])
async def test_a_folder_of_another_format_is_another_version(
    tmp_path: Path, number: str, repair: bool
) -> None:
    """Format 2 had no seal, and what a future format has is unknown; neither is damage that a repair could read."""
    async with FakeBroker(data=tmp_path):
        pass
    describe_as(tmp_path, {"format": number, "shape": "x", "version": "0.0.7", "profile": "documented"})
    change(tmp_path, "DROP TABLE checkpoint")
    with pytest.raises(ForeignDataError) as caught:
        FakeBroker(data=tmp_path, repair=repair)
    assert str(caught.value) == (
        f"{tmp_path / 'broker-a.db'} has data format {number}, written by aiorocketmq 0.0.7; "
        f"aiorocketmq {version('aiorocketmq')} reads data format {FORMAT}: start with the version that wrote it, "
        "or give another --data folder."
    )
    with closing(sqlite3.connect(tmp_path / "broker-a.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "checkpoint" not in names, "a file of another version is not changed"


async def test_a_damaged_format_number_is_damage(tmp_path: Path) -> None:
    async with FakeBroker(data=tmp_path):
        pass
    change(tmp_path, "UPDATE about SET value = ? WHERE name = 'format'", str(int(FORMAT) + 1))
    with pytest.raises(DamagedDataError, match="another checksum"):
        FakeBroker(data=tmp_path)


def change(folder: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(folder / "broker-a.db")
    with connection:
        connection.execute(statement, values)
    connection.close()


async def test_a_damaged_checkpoint_is_named_and_its_messages_can_be_kept(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    await filled(tmp_path, connect)
    change(tmp_path, "UPDATE checkpoint SET state = zeroblob(1000)")
    with pytest.raises(DamagedDataError, match="checkpoint has another checksum") as caught:
        FakeBroker(data=tmp_path, clock="manual")
    assert caught.value.path == tmp_path / "broker-a.db"
    async with FakeBroker(data=tmp_path, clock="manual", repair=True) as broker:
        assert [message.body for message in broker.messages("t")] == [b"%d" % n for n in range(20)]
        client = connect(broker)
        await client.subscribe("g", "t")
        again = await client.receive("g", "t", wait=5)
        assert again.bodies == [b"%d" % n for n in range(10, 20)]
    assert (tmp_path / "broker-a.db.damaged-1").exists()
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert broker.repaired is None
        assert len(broker.messages("t")) == 20


async def test_a_damaged_journal_is_cut_at_the_damage(tmp_path: Path, connect: Callable[..., Any]) -> None:
    async with FakeBroker(data=tmp_path) as broker:
        await broker.create_topic("t", queues=1)
        client = connect(broker)
        for number in range(6):
            await client.send("t", b"%d" % number)
        kill(broker)
    change(tmp_path, "UPDATE journal SET commands = x'00' WHERE id = (SELECT max(id) - 2 FROM journal)")
    with pytest.raises(DamagedDataError, match=r"batch \d+ of its journal has another checksum"):
        FakeBroker(data=tmp_path)
    async with FakeBroker(data=tmp_path, repair=True) as broker:
        assert [message.body for message in broker.messages("t")] == [b"0", b"1", b"2"]
        assert "3 later writes are lost" in (broker.repaired or "")


async def test_lost_messages_leave_no_hole_behind(tmp_path: Path, connect: Callable[..., Any]) -> None:
    await filled(tmp_path, connect)
    change(
        tmp_path, "DELETE FROM message WHERE key IN (SELECT key FROM message ORDER BY key LIMIT 3 OFFSET 12)"
    )
    with pytest.raises(DamagedDataError, match="messages of its queue 1 are missing after place 12"):
        FakeBroker(data=tmp_path, clock="manual")
    async with FakeBroker(data=tmp_path, clock="manual", repair=True) as broker:
        bodies = [message.body for message in broker.messages("t")]
        assert bodies == [b"%d" % n for n in range(20) if n not in (12, 13, 14)]
        assert [message.offset for message in broker.messages("t")] == list(range(17))


async def test_a_file_that_is_no_database_is_named_and_set_aside(tmp_path: Path) -> None:
    (tmp_path / "broker-a.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(DamagedDataError, match="file is not a database"):
        FakeBroker(data=tmp_path)
    async with FakeBroker(data=tmp_path, repair=True) as broker:
        assert "nothing of it could be read" in (broker.repaired or "")
    assert (tmp_path / "broker-a.db.damaged-1").read_bytes().startswith(b"no database")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8])
async def test_whatever_bytes_are_damaged_are_found_or_harmless(
    tmp_path: Path, connect: Callable[..., Any], share: float
) -> None:
    await filled(tmp_path, connect, count=120)
    bodies = [b"%d" % number for number in range(120)]
    path = tmp_path / "broker-a.db"
    content = bytearray(path.read_bytes())
    start = int(len(content) * share)
    content[start : start + 5000] = b"\xa5" * 5000
    path.write_bytes(content)
    try:
        async with FakeBroker(data=tmp_path, clock="manual") as broker:
            stored_bodies = [message.body for message in broker.messages("t")]
    except DamagedDataError:
        async with FakeBroker(data=tmp_path, clock="manual", repair=True) as broker:
            assert str(path) in (broker.repaired or "")
            assert {message.body for message in broker.messages("t")} <= set(bodies)
    else:
        assert stored_bodies == bodies, "damage in a part that nobody reads"


async def test_a_full_disk_refuses_then_recovers_and_loses_nothing_acknowledged(
    tmp_path: Path, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aiorocketmq_fake.data")
    acknowledged = []
    async with FakeBroker(data=tmp_path) as broker:
        client = await subscribed(broker, connect)
        database = broker._journals[0]._database
        database.bound(database.pages() + 40)
        codes = []
        for number in range(20):
            body = b"%d:" % number + BIG
            answer = await client.send("t", body)
            codes.append(answer.status.code)
            if answer.status.code == OK:
                acknowledged.append(body)
        assert set(codes) == {OK, FULL}
        assert codes == sorted(codes), "first all is well, then nothing is taken"
        stored = len(broker.messages("t"))
        assert (await client.receive("g", "t", wait=5)).code == FULL
        with pytest.raises(Refusal, match="disk"):
            await broker.create_topic("u")
        assert len(broker.messages("t")) == stored, "what is refused up front changes nothing"
        database.bound(0)
        async with asyncio.timeout(10):
            while (await client.send("t", b"again")).status.code != OK:  # noqa: ASYNC110  # it is told to try again
                await asyncio.sleep(0.05)
        kill(broker)
    async with FakeBroker(data=tmp_path) as broker:
        bodies = [message.body for message in broker.messages("t")]
        assert bodies[: len(acknowledged)] == acknowledged
        assert bodies[-1] == b"again"


async def test_streams_end_while_the_disk_is_full(
    tmp_path: Path, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aiorocketmq_fake.data")
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        await broker.create_topic("t", queues=1)
        client = connect(broker)
        stream, _ = await client.publish("t")
        database = broker._journals[0]._database
        database.bound(database.pages())
        assert (await client.send("t", BIG * 10)).status.code == FULL
        await stream.done_writing()
        async with asyncio.timeout(10):
            assert await stream.code() == grpc.StatusCode.OK
        assert not broker.brokers[0]._core._state.clients["raw-1"].reachable
        database.bound(0)


@pytest.mark.skipif(os.name == "nt", reason="files have other rights there")
async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    async with FakeBroker(data=folder):
        assert folder.stat().st_mode & 0o077 == 0
        files = {each.name: each.stat().st_mode & 0o077 for each in folder.iterdir()}
    assert {"broker-a.db", "broker-a.db-wal", "broker-a.db-mark", "broker-a.lock"} <= files.keys()
    assert not any(files.values()), files


AS_SOMEBODY_ELSE = """
import os, sys
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.storage import recovery
if os.geteuid() == 0:  # the administrator may write everywhere
    os.seteuid(65534)
FakeBroker(data=sys.argv[1])
"""


@pytest.mark.skipif(os.name == "nt", reason="folders have other rights there")
def test_a_folder_that_cannot_be_written_is_not_called_damaged() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        FakeBroker(data=folder)._journals[0].close()
        folder.chmod(0o555)
        for each in folder.iterdir():
            each.chmod(0o444)
        command = [sys.executable, "-c", AS_SOMEBODY_ELSE, temporary]
        tried = subprocess.run(command, check=False, capture_output=True, text=True)
        folder.chmod(0o755)
    assert tried.stderr.splitlines()[-1].endswith(
        f"cannot keep data in {temporary}: Permission denied. Free space and permit this user to write there, "
        "or give another --data folder."
    )


async def test_a_waiting_receiver_gets_nothing_that_is_not_kept(
    tmp_path: Path, connect: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aiorocketmq_fake.data")
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        await broker.create_topic("t", queues=1)
        await broker.create_group("g")
        producer, consumer = connect(broker), connect(broker, "consumer")
        await consumer.subscribe("g", "t")
        waiting = asyncio.create_task(consumer.receive("g", "t", wait=5))
        async with asyncio.timeout(10):
            while not broker.clock.parked:  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0)
        database = broker._journals[0]._database
        database.bound(database.pages())
        assert (await producer.send("t", BIG * 10)).status.code == FULL
        assert (await waiting).code == FULL
        database.bound(0)


async def test_messages_beyond_the_bound_are_read_from_disk(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    bodies = [b"%d:" % number + BIG for number in range(150)]
    async with FakeBroker(data=tmp_path, data_memory=1 << 20) as broker:
        client = await subscribed(broker, connect)
        for body in bodies:
            await client.send("t", body)
        (entries,) = broker.brokers[0]._core.entries("t")
        assert isinstance(entries, PagedEntries)
        assert len(entries._held) < 60
        received = await client.receive("g", "t", batch=32, wait=5)
        assert received.bodies == bodies[:32]
        assert [message.body for message in broker.messages("t")] == bodies


async def test_polls_of_before_a_kill_take_nothing_while_the_broker_is_down(
    tmp_path: Path, connect: Callable[..., Any], until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    async with FakeBroker(data=tmp_path, clock="manual", start=begin) as broker:
        client = await subscribed(broker, connect, type="DELAY")
        poll = asyncio.ensure_future(client.receive("g", "t", wait=20))
        await until(lambda: broker.clock.parked == 1)
        due = pb.SystemProperties()
        due.delivery_timestamp.FromDatetime(begin + timedelta(seconds=10))
        answer = await client.send("t", b"later", delivery_timestamp=due.delivery_timestamp)
        assert answer.status.code == OK
        kill(broker)
    await asyncio.gather(poll, return_exceptions=True)
    after = begin + timedelta(seconds=15)
    async with FakeBroker(data=tmp_path, clock="manual", start=after) as broker:
        assert broker.leases("g") == ()
        client = connect(broker)
        await client.subscribe("g", "t")
        taken = await client.receive("g", "t", wait=5)
        assert [message.system_properties.delivery_attempt for message in taken.messages] == [1]


async def test_what_a_waiting_poll_was_given_stays_leased_over_a_kill(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    """A timer answers it; no command of a client comes after that."""
    async with FakeBroker(data=tmp_path) as broker:
        client = await subscribed(broker, connect)
        await client.send("t", b"1")
        await client.receive("g", "t", invisible=1, wait=5)
        again = await client.receive("g", "t", wait=10)
        assert again.bodies == [b"1"]
        kill(broker)
    async with FakeBroker(data=tmp_path) as broker:
        assert [lease.attempt for lease in broker.leases("g")] == [2]


async def test_a_manual_clocks_events_happen_once(tmp_path: Path, connect: Callable[..., Any]) -> None:
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        await broker.create_topic("t", type="DELAY", queues=1)
        client = connect(broker)
        due = pb.SystemProperties()
        due.delivery_timestamp.FromSeconds(int(broker.clock.now()) + 60)
        answer = await client.send("t", b"later", delivery_timestamp=due.delivery_timestamp)
        assert answer.status.code == OK
        kill(broker)
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert broker.messages("t") == ()
        await broker.clock.advance(minutes=2)
        kill(broker)
    async with FakeBroker(data=tmp_path, clock="manual") as broker:
        assert [message.body for message in broker.messages("t")] == [b"later"]


async def test_what_fired_before_a_leap_of_the_clock_has_fired_before_it(
    tmp_path: Path, connect: Callable[..., Any], until: Callable[[Callable[[], object]], Awaitable[None]]
) -> None:
    profile = replace(DOCUMENTED, revive_latency=5.0)
    async with FakeBroker(data=tmp_path, profile=profile) as broker:
        client = await subscribed(broker, connect)
        await client.send("t", b"1")
        await client.receive("g", "t", invisible=1, wait=5)
        await until(lambda: not broker.leases("g"))
        # The message comes back after five seconds, of which none is left.
        broker.clock.jump(60)
        await client.send("t", b"2")
        kill(broker)
    async with FakeBroker(data=tmp_path, profile=profile) as broker:
        client = connect(broker)
        await client.subscribe("g", "t")
        again = await client.receive("g", "t", batch=2, wait=5)
        assert sorted(again.bodies) == [b"1", b"2"]


async def test_a_closed_port_is_no_reason_to_lose_data(tmp_path: Path, connect: Callable[..., Any]) -> None:
    async with FakeBroker(data=tmp_path) as broker:
        await broker.create_topic("t", queues=1)
        await connect(broker).send("t", b"before")
        await broker.restart()
        client = connect(broker, "other")
        assert (await client.send("t", b"after")).status.code == OK
        await broker.crash()
        with pytest.raises(grpc.RpcError):
            await client.send("t", b"never")
    async with FakeBroker(data=tmp_path) as broker:
        assert [message.body for message in broker.messages("t")] == [b"before", b"after"]
