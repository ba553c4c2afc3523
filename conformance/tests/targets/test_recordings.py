"""What a recording of the suite's own clients says, and which cases it leaves out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import pyarrow.parquet as pq
import pytest
from aiorocketmq.hooks import (
    AckEvent,
    ChangeEvent,
    ClientEvent,
    DeliverEvent,
    Event,
    Phase,
    ReceiveEvent,
    SendEvent,
    SettingsEvent,
)
from aiorocketmq.subscription import Tags
from aiorocketmq.wire import messages as pb
from aiorocketmq_conformance.case import Case, Level, load
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.call_recorder import CallRecorder
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.choice import choose
from aiorocketmq_conformance.targets.recordings import PROVOKED, Recordings, left_out
from aiorocketmq_fake import FakeBroker


async def _nothing(target: Target) -> None: ...


def case(*needs: str) -> Case:
    return Case("send.one", (), Level.MUST, needs, "It holds.", 60.0, _nothing)


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    async with FakeBroker() as fake:
        await fake.create_topic("orders")
        await fake.create_group("billing")
        yield fake


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
async def client(broker: FakeBroker, events: list[Event]) -> AsyncIterator[ProbeClient]:
    clock = RealClock()
    clock.traffic.call_recorder = CallRecorder(events.append)
    async with ProbeClient(broker.endpoint, "probe", clock) as client:
        settings = requests.consumer_settings("billing", {"orders": "*"}, pb.ClientType.SIMPLE_CONSUMER)
        await client.send_settings(settings)
        yield client


def of(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if type(event) is kind]


async def test_a_message_is_recorded_from_send_to_ack(client: ProbeClient, events: list[Event]) -> None:
    await client.send(requests.message("orders", "1"))
    (delivery,) = (await client.receive("orders", "billing")).deliveries
    await client.ack("orders", "billing", delivery)
    assert [(type(event), event.phase) for event in events[2:]] == [
        (SendEvent, Phase.INVOKE),
        (SendEvent, Phase.OK),
        (ReceiveEvent, Phase.INVOKE),
        (DeliverEvent, Phase.SINGLE),
        (ReceiveEvent, Phase.OK),
        (AckEvent, Phase.INVOKE),
        (AckEvent, Phase.OK),
    ]
    (delivered,) = of(events, DeliverEvent)
    assert isinstance(delivered, DeliverEvent)
    assert (delivered.message.message_id, delivered.message.body, delivered.client.group) == (
        delivery.id,
        b"1",
        "billing",
    )


async def test_a_changed_lease_continues_with_its_new_handle(
    client: ProbeClient, events: list[Event]
) -> None:
    await client.send(requests.message("orders", "1"))
    (delivery,) = (await client.receive("orders", "billing")).deliveries
    reply = await client.change_invisible(delivery, 30.0)
    await client.ack("orders", "billing", (delivery.id, reply.receipt_handle))
    changed, acked = of(events, ChangeEvent)[-1], of(events, AckEvent)[-1]
    assert isinstance(changed, ChangeEvent)
    assert isinstance(acked, AckEvent)
    assert (changed.previous_handle, changed.handle) == (delivery.handle, reply.receipt_handle)
    assert (acked.delivery, acked.handle) == (delivery.handle, reply.receipt_handle)


async def test_a_refused_send_failed_and_an_unanswered_one_is_unknown(
    broker: FakeBroker, client: ProbeClient, events: list[Event]
) -> None:
    await client.send(requests.message("nowhere", "1"))
    broker.faults.drop_reply("SendMessage")
    with pytest.raises(grpc.aio.AioRpcError):
        await client.send(requests.message("orders", "1"))
    assert [event.phase for event in of(events, SendEvent)] == [
        Phase.INVOKE,
        Phase.FAIL,
        Phase.INVOKE,
        Phase.INFO,
    ]


async def test_an_unknown_handle_is_not_recorded(client: ProbeClient, events: list[Event]) -> None:
    await client.ack("orders", "billing", ("id", "no handle"))
    assert not of(events, AckEvent)


async def test_an_ack_with_another_topic_is_not_recorded(client: ProbeClient, events: list[Event]) -> None:
    await client.send(requests.message("orders", "1"))
    (delivery,) = (await client.receive("orders", "billing")).deliveries
    await client.ack("others", "billing", delivery)
    assert not of(events, AckEvent)


async def test_settings_record_what_ordered_groups_lock(broker: FakeBroker) -> None:
    clock = RealClock()
    events: list[Event] = []
    clock.traffic.call_recorder = CallRecorder(events.append, "group")
    async with ProbeClient(broker.endpoint, "probe", clock) as client:
        settings = requests.consumer_settings("billing", {"orders": "*"}, pb.ClientType.SIMPLE_CONSUMER)
        await client.send_settings(settings)
    (declared,) = of(events, SettingsEvent)
    assert isinstance(declared, SettingsEvent)
    assert declared.order_grain == "message_group"


async def test_an_invalid_filter_is_recorded_as_unknown(client: ProbeClient, events: list[Event]) -> None:
    await client.send(requests.message("orders", "1"))
    await client.receive("orders", "billing", expression="||")
    await client.receive("orders", "billing")
    (delivery,) = of(events, DeliverEvent)
    assert isinstance(delivery, DeliverEvent)
    assert delivery.filter == Tags("*")
    assert [event.phase for event in of(events, ReceiveEvent)][1] is not Phase.OK


async def test_a_terminated_client_has_stopped(client: ProbeClient, events: list[Event]) -> None:
    await client.terminate("billing")
    (_, stopped) = of(events, ClientEvent)
    assert isinstance(stopped, ClientEvent)
    assert not stopped.running


def test_cases_with_causes_unobserved_by_clients_are_left_out() -> None:
    assert "administrator" in left_out(case("@reset"))
    assert left_out(case("@topic", "dlq")) == ""
    assert "administrator" in left_out(load()["retry.limit-lowered"])
    assert all(name in load() for name in PROVOKED)


async def test_what_a_case_does_to_a_server_is_recorded(tmp_path: Path) -> None:
    async with Recordings(tmp_path).of(case("@process"), RealClock()) as record_fault:
        with pytest.raises(OSError, match="not startable"), record_fault("crash"):
            raise OSError("not startable")
    faults = [row["fault"] for row in rows_in(tmp_path) if row["kind"] == "fault"]
    assert faults == [[("kind", "crash"), ("state", state)] for state in ("start", "stop")]


async def test_faults_without_a_recording_are_allowed(tmp_path: Path) -> None:
    async with Recordings(tmp_path).of(case("@process", "@reset"), RealClock()) as record_fault:
        with record_fault("crash"):
            assert rows_in(tmp_path) == []
    assert rows_in(tmp_path) == []


def rows_in(folder: Path) -> list[dict[str, object]]:
    """The rows of a recording, all of whose files are complete."""
    assert not list(folder.glob("*.open"))
    return [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]


async def test_a_recorded_run_of_a_server_names_its_cases(tmp_path: Path) -> None:
    chosen = load().select(["send.body-roundtrip[cjk]", "send.durable-restart"])
    async with (
        FakeBroker(control="127.0.0.1:0") as fake,
        choose(fake.endpoint, control=fake.control_endpoint, record=tmp_path) as target,
    ):
        await Run(chosen, target).finish()
    rows = rows_in(tmp_path)
    assert {row["case_id"] for row in rows} == {"send.body-roundtrip[cjk]"}
    assert {row["observer"] for row in rows} == {"client"}
    assert {"send", "receive", "deliver", "ack", "config", "client.start"} <= {row["kind"] for row in rows}


async def test_without_a_folder_nothing_is_recorded() -> None:
    clock = RealClock()
    async with Recordings(None).of(case(), clock):
        assert clock.traffic.call_recorder is None


def test_recording_without_pyarrow_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find: Callable[[str], None] = lambda name: None  # noqa: E731  one line says it
    monkeypatch.setattr("aiorocketmq_conformance.targets.choice.find_spec", find)
    with pytest.raises(ValueError, match="pip install"):
        choose("apache:5.5.0", record=tmp_path)
