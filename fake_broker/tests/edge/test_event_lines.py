"""Events as lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.core.values import events
from aiorocketmq_fake.core.values.codes import ClientType, Code
from aiorocketmq_fake.edge.event_lines import EventLog, as_line


def test_a_line_names_time_kind_and_what_it_is_about() -> None:
    event = events.ClientLeft(12.3456, "c", ClientType.PUSH_CONSUMER, "g", expired=True)
    assert json.loads(as_line(event)) == {
        "at": 12.346,
        "event": "ClientLeft",
        "client_id": "c",
        "client_type": "PUSH_CONSUMER",
        "group": "g",
        "expired": True,
    }


def test_codes_are_named() -> None:
    line = json.loads(as_line(events.Refused(1.0, "SendMessage", "c", Code.ILLEGAL_TOPIC, "no")))
    assert line["code"] == "ILLEGAL_TOPIC"


async def test_a_log_file_has_all_events_without_bodies(tmp_path: Path, connect: Any) -> None:
    file = tmp_path / "events.jsonl"
    async with FakeBroker(event_log=file, users=[User("app", "s3cret")]) as broker:
        await broker.create_topic("t")
        await connect(broker).send("t", b"a private thing")
        await broker.remove_user("app")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["UserChanged", "TopicChanged", "Refused", "UserChanged"]
    assert "s3cret" not in file.read_text()


async def test_a_refused_route_names_its_client(tmp_path: Path, connect: Any) -> None:
    file = tmp_path / "events.jsonl"
    async with FakeBroker(event_log=file) as broker:
        request = pb.QueryRouteRequest(topic=pb.Resource(name="nowhere"))
        await connect(broker, "curious").call("QueryRoute", request)
    (line,) = (json.loads(line) for line in file.read_text().splitlines())
    assert (line["event"], line["command"], line["client_id"]) == ("Refused", "QueryRoute", "curious")


async def test_messages_are_logged_by_their_position(tmp_path: Path, connect: Any) -> None:
    file = tmp_path / "events.jsonl"
    async with FakeBroker(event_log=file) as broker:
        await broker.create_topic("t", queues=1)
        await broker.create_group("g")
        client = connect(broker)
        await client.subscribe("g", "t")
        await client.send("t", b"a private thing", message_id="m1", tag="blue")
        frames = await client.receive("g", "t")
        await client.ack("g", "t", *frames.messages)
        lines = {line["event"]: line for line in map(json.loads, file.read_text().splitlines())}
    assert lines["Stored"]["topic"] == "t"
    assert (lines["Stored"]["queue_id"], lines["Stored"]["offset"]) == (0, 0)
    assert (lines["Stored"]["message_id"], lines["Stored"]["tag"]) == ("m1", "blue")
    assert lines["Delivered"]["attempt"] == 1
    assert lines["Delivered"]["receipt_handle"] == lines["Acked"]["receipt_handle"]
    assert "private" not in file.read_text()


def refused(at: float, client_id: str = "c", message: str = "no") -> events.Refused:
    return events.Refused(at, "ReceiveMessage", client_id, Code.UNAUTHORIZED, message)


def test_equal_refusals_share_a_line(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with EventLog(file) as log:
        for number in range(1000):
            log.write([refused(10 + number / 1000)])
        log.write([refused(10.5, "other"), refused(10.6, message="never")])
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(line["at"], line["client_id"], line["message"], line.get("times")) for line in rows] == [
            (10.0, "c", "no", None),
            (10.5, "other", "no", None),
            (10.6, "c", "never", None),
        ]
        log.write([events.ClientLeft(11.0, "x", ClientType.PRODUCER, "", expired=True)])
        log.write([refused(11.0), refused(11.2), refused(11.3), refused(11.4, "other")])
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["at"], line.get("client_id"), line.get("times")) for line in rows[3:]] == [
        (10.999, "c", 999),
        (11.0, "x", None),
        (11.0, "c", None),
        (11.4, "other", 1),
        (11.3, "c", 2),
    ]
    assert sum(line.get("times", 1) for line in rows if line["event"] == "Refused") == 1006
