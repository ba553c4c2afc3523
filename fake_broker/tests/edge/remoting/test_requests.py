"""Requests over a real port, with the answers that real servers gave (live-broker-remoting.md 2 to 6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.remoting.frames import Frame, encode
from aiorocketmq_fake.edge.remoting.records import Member, write_batch

from fake_broker.tests.edge.remoting.conftest import dial


@pytest.fixture
async def patient_broker() -> AsyncIterator[FakeBroker]:
    """Its clock is manual."""
    async with FakeBroker(remoting_port=0, clock="manual") as fake:
        await fake.create_topic("t", queues=1)
        yield fake


async def fill(wire: Any, topic: str, *tags: str) -> None:
    for tag in tags:
        await wire.produce(topic, b"body", f"TAGS\x01{tag}\x02a\x01{len(tag)}\x02" if tag else "")


# Name server


async def test_a_route_names_the_same_port(broker: FakeBroker, wire: Any) -> None:
    route = json.loads((await wire.ask(105, topic="wide", acceptStandardJsonOnly="true")).body)
    (data,) = route["brokerDatas"]
    assert data["brokerAddrs"] == {"0": broker.remoting_endpoint}
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
    assert route["queueDatas"] == [queues]
    assert (await wire.ask(105, topic="unknown")).code == 17
    assert (await wire.ask(105)).code == 17
    default = json.loads((await wire.ask(105, topic="TBW102")).body)
    assert (default["queueDatas"][0]["perm"], default["queueDatas"][0]["readQueueNums"]) == (7, 8)


async def test_a_route_names_the_advertised_host() -> None:
    async with FakeBroker(listen="0.0.0.0:0", advertise="localhost", remoting_port=0) as broker:
        await broker.create_topic("t")
        async with dial(broker) as wire:
            route = json.loads((await wire.ask(105, topic="t", acceptStandardJsonOnly="true")).body)
        (data,) = route["brokerDatas"]
        assert data["brokerAddrs"] == {"0": broker.remoting_endpoint}
        assert broker.remoting_endpoint.startswith("localhost:")


async def test_a_cluster_has_one_route_and_a_port_for_each_broker() -> None:
    async with FakeBroker(remoting_port=0, brokers=2) as cluster:
        await cluster.create_topic("t")
        for node in cluster.brokers:
            async with dial(node) as wire:
                route = json.loads((await wire.ask(105, topic="t")).body)
                names = await wire.ask(106)
            places = {data["brokerName"]: data["brokerAddrs"]["0"] for data in route["brokerDatas"]}
            assert places == {each.name: each.remoting_endpoint for each in cluster.brokers}
            assert f'{{0:"{node.remoting_endpoint}"}}'.encode() in names.body


# Sends


async def test_topics_are_created_by_sends_unless_that_is_switched_off() -> None:
    for is_on in (True, False):
        settings = {"autoCreateTopicEnable": is_on}
        async with FakeBroker(remoting_port=0, settings=settings) as fake, dial(fake) as wire:
            assert (await wire.ask(105, topic="TBW102")).code == (0 if is_on else 17)
            assert (b"TBW102" in (await wire.ask(206)).body) == is_on
            assert (await wire.produce("new", b"hello")).code == (0 if is_on else 17)
            assert [topic.name for topic in fake.topics()] == (["new"] if is_on else [])
            # What the server itself makes is not asked about.
            await wire.beat("c1", "g", "new")
            assert (await wire.ask(105, topic="%RETRY%g")).code == 0


async def test_a_send_is_answered_with_its_place(broker: FakeBroker, wire: Any) -> None:
    answer = await wire.produce("wide", b"hello", "UNIQ_KEY\x01U1\x02KEYS\x01a b\x02x\x01y\x02", e=2)
    assert answer.code == 0
    fields = {name: answer.fields[name] for name in ("queueId", "queueOffset", "transactionId", "TRACE_ON")}
    assert fields == {"queueId": "2", "queueOffset": "0", "transactionId": "U1", "TRACE_ON": "true"}
    assert len(answer.fields["msgId"]) == 32
    (stored,) = broker.messages("wide")
    assert (stored.message_id, stored.keys, dict(stored.properties)) == ("U1", ("a", "b"), {"x": "y"})


async def test_the_long_header_needs_no_properties(broker: FakeBroker, wire: Any) -> None:
    fields = {"producerGroup": "pg", "topic": "t", "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
    more = {"queueId": -1, "sysFlag": 0, "bornTimestamp": 1, "flag": 5}
    assert (await wire.ask(10, b"x", **fields, **more)).code == 0
    assert len(broker.messages("t")) == 1


async def test_batches_go_by_their_field_and_not_by_the_code(broker: FakeBroker, wire: Any) -> None:
    batch = write_batch(tuple(Member(b"%d" % number, 0, {"UNIQ_KEY": f"U{number}"}) for number in range(3)))
    fields = {"a": "pg", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}
    answer = await wire.ask(320, batch, **fields, m="true", i="UNIQ_KEY\x01outer\x02")
    assert (answer.fields["queueOffset"], answer.fields["transactionId"]) == ("0", "outer")
    assert answer.fields["msgId"].count(",") == 2
    await wire.ask(310, batch, **fields, m="true")
    assert [each.body for each in broker.messages("t")] == [b"0", b"1", b"2"] * 2
    await wire.ask(320, batch, **fields, m="false")
    assert broker.messages("t")[-1].body == batch
    assert (await wire.ask(320, batch[:-1], **fields, m="true")).code == 1


@pytest.mark.parametrize(
    ("topic", "body", "fields", "code"),
    [
        ("unknown", b"x", {"c": "other"}, 17),
        ("new", b"x", {}, 0),
        ("wide", b"x", {"e": 4}, 29),
        ("wide", b"x", {"e": -1}, 0),
        ("SCHEDULE_TOPIC_XXXX", b"x", {}, 16),
        ("a b", b"x", {}, 29),
        ("t", b"", {}, 1),
        ("t", bytes(4_194_304), {}, 0),
        ("t", bytes(4_194_305), {}, 13),
        ("t", b"x", {"i": "a\x01" + "b" * 32_500 + "\x02"}, 0),
        ("t", b"x", {"i": "a\x01" + "b" * 32_700 + "\x02"}, 13),
        ("t", b"x", {"i": "TIMER_DELAY_SEC\x01345600\x02"}, 13),
        ("t", b"x", {"i": "DELAY\x01soon\x02"}, 13),
    ],
)
async def test_sends_are_answered_as_by_real_servers(
    wire: Any, topic: str, body: bytes, fields: dict[str, object], code: int
) -> None:
    assert (await wire.produce(topic, body, **fields)).code == code


# Pulls


@pytest.mark.parametrize(
    ("offset", "code", "status", "following"),
    [
        (0, 0, "FOUND", 10),
        (7, 0, "FOUND", 10),
        (10, 19, "OFFSET_OVERFLOW_ONE", 10),
        (11, 21, "OFFSET_OVERFLOW_BADLY", 10),
        (1000, 21, "OFFSET_OVERFLOW_BADLY", 10),
        (-1, 21, "OFFSET_TOO_SMALL", 0),
    ],
)
async def test_pulls_are_answered_by_where_they_begin(
    wire: Any, offset: int, code: int, status: str, following: int
) -> None:
    await fill(wire, "t", *"A" * 10)
    answer = await wire.pulled("t", offset)
    assert (answer.code, answer.remark, answer.fields["nextBeginOffset"]) == (code, status, str(following))
    assert (answer.fields["minOffset"], answer.fields["maxOffset"]) == ("0", "10")


async def test_an_empty_queue_and_unknown_ones(wire: Any) -> None:
    empty, beyond = await wire.pulled("t", 0), await wire.pulled("t", 5)
    assert [(each.code, each.remark, each.fields["nextBeginOffset"]) for each in (empty, beyond)] == [
        (19, "NO_MESSAGE_IN_QUEUE", "0"),
        (21, "NO_MESSAGE_IN_QUEUE", "0"),
    ]
    assert (await wire.pulled("t", queueId=9)).code == 29
    assert (await wire.pulled("unknown")).code == 17


@pytest.mark.parametrize(
    ("kind", "expression", "count", "code", "following"),
    [
        ("TAG", "A", 2, 0, 6),
        ("TAG", "A || B", 3, 0, 6),
        ("TAG", "Z", 0, 20, 6),
        ("TAG", "", 6, 0, 6),
        ("FOO", "Z", 6, 0, 6),
        ("SQL92", "a > 1", 2, 0, 6),
        ("SQL92", "TAGS = 'A' AND a IS NOT NULL", 2, 0, 6),
        ("SQL92", "a >", 6, 0, 6),
    ],
)
async def test_filters(wire: Any, kind: str, expression: str, count: int, code: int, following: int) -> None:
    await fill(wire, "t", "A", "B", "", "Aa", "BB", "A")
    answer = await wire.pulled("t", subscription=expression, expressionType=kind)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (code, str(following))
    assert answer.body.count(b"\xda\xa3\x20\xa7") == count


async def test_without_a_filter_of_its_own_a_pull_goes_by_the_heartbeat(wire: Any) -> None:
    await fill(wire, "t", "A", "B")
    assert (await wire.pulled("t", sysFlag=0)).code == 24
    await wire.beat("c", "g", "wide")
    assert (await wire.pulled("t", sysFlag=0)).code == 24
    await wire.beat("c", "g", "t")
    assert (await wire.pulled("t", sysFlag=0, subVersion=2)).code == 25
    assert (await wire.pulled("t", sysFlag=0, subVersion=1)).code == 0


async def test_a_held_pull_is_answered_by_the_next_message(wire: Any, connect: Any) -> None:
    held = [wire.pull("t", consumerGroup=group, sysFlag=6, suspendTimeoutMillis=60_000) for group in "gh"]
    await (await connect()).produce("t", b"news")
    for answer in await asyncio.wait_for(asyncio.gather(*held), 10):
        assert (answer.code, answer.fields["nextBeginOffset"]) == (0, "1")


async def test_a_held_pull_ends_with_its_time(wire: Any) -> None:
    answer = await wire.pulled("t", sysFlag=6, suspendTimeoutMillis=10)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (19, "0")


async def test_a_pull_may_commit_even_backwards(wire: Any) -> None:
    for offset in (5, 3):
        await wire.pulled("t", sysFlag=5, commitOffset=offset)
        assert (await wire.ask(14, consumerGroup="g", topic="t", queueId=0)).fields == {"offset": str(offset)}


# Offsets


async def test_offsets_of_queues(broker: FakeBroker, wire: Any) -> None:
    await fill(wire, "t", "A", "A", "A")
    place = {"topic": "t", "queueId": 0}
    assert (await wire.ask(30, **place)).fields == {"offset": "3"}
    assert (await wire.ask(31, **place)).fields == {"offset": "0"}
    stored = int((await wire.ask(32, **place)).fields["timestamp"])
    assert abs(stored / 1000 - broker.clock.now()) < 60
    assert (await wire.ask(32, topic="wide", queueId=0)).fields == {"timestamp": "-1"}
    for code in (30, 31, 29):
        answer = await wire.ask(code, topic="unknown", queueId=9, timestamp=0)
        assert (answer.code, answer.fields) == (0, {"offset": "0"})


async def test_offsets_by_time(patient_broker: FakeBroker) -> None:
    async with dial(patient_broker) as wire:
        times = []
        for _ in range(10):
            await wire.produce("t", b"x")
            times.append(round(patient_broker.messages("t")[-1].stored_at * 1000))
            await patient_broker.clock.advance(seconds=1)

        async def found(boundary: str) -> list[str]:
            moments = (-1, 0, times[5], times[4] + 1, times[9] + 9)
            fields = {"topic": "t", "queueId": 0, "boundaryType": boundary}
            return [(await wire.ask(29, **fields, timestamp=each)).fields["offset"] for each in moments]

        assert await found("LOWER") == ["0", "0", "5", "5", "10"]
        assert await found("UPPER") == ["0", "0", "5", "4", "9"]


async def test_committed_offsets(wire: Any) -> None:
    await fill(wire, "t", "A")
    place = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    assert (await wire.ask(15, **place, commitOffset=1)).code == 26
    assert (await wire.ask(14, **place)).fields == {"offset": "0"}
    assert (await wire.ask(14, **place, setZeroIfNotFound="false")).code == 22
    assert (await wire.ask(14, **{**place, "topic": "wide"})).code == 22
    assert (await wire.ask(14, **{**place, "topic": "unknown"})).code == 22
    await wire.beat("c", "g", "t")
    assert (await wire.ask(15, **{**place, "topic": "unknown"}, commitOffset=1)).code == 17
    assert (await wire.ask(15, **place)).code == 29
    for offset, back in ((99_999, "99999"), (-5, "0")):
        assert (await wire.ask(15, **place, commitOffset=offset)).code == 0
        assert (await wire.ask(14, **place)).fields == {"offset": back}
    assert (await wire.ask(15, **{**place, "queueId": 9}, commitOffset=1)).code == 0


async def test_a_reset_moves_who_pulls_next_and_no_commit_undoes_it(wire: Any) -> None:
    await fill(wire, "t", *("a" * 6))
    place: dict[str, Any] = {"consumerGroup": "g", "topic": "t", "queueId": 0}
    assert (await wire.pulled("t")).code == 0
    assert (await wire.ask(15, **place, commitOffset=6)).code == 0
    reset = {"group": "g", "topic": "t", "isForce": "true"}
    assert (await wire.ask(222, **reset, queueId=0, offset=8)).code == 1
    assert (await wire.ask(222, **{**reset, "group": "nobody"}, timestamp=0)).code == 26
    assert (await wire.ask(222, **{**reset, "topic": "nowhere"}, timestamp=0)).code == 17
    answer = await wire.ask(222, **reset, queueId=0, offset=2, timestamp=-1)
    assert answer.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:2}}'
    assert (await wire.ask(14, **place)).fields["offset"] == "2"
    ignored = await wire.ask(15, **place, commitOffset=6)
    assert (ignored.code, ignored.remark) == (0, "Offset has been previously reset")
    moved = await wire.pulled("t", 6)
    assert (moved.code, moved.remark, moved.fields["nextBeginOffset"]) == (21, "OFFSET_RESET", "2")
    assert (await wire.pulled("t", 2)).code == 0
    assert (await wire.ask(15, **place, commitOffset=6)).remark is None
    assert (await wire.ask(14, **place)).fields["offset"] == "6"


async def test_a_question_about_a_member_is_answered_by_it(wire: Any, connect: Any) -> None:
    member = await connect()
    await member.beat("c", "g", "t")
    assert (await member.next_push()).code == 40
    opaque = wire.send(307, consumerGroup="g", clientId="c")
    question = await member.next_push()
    assert (question.code, question.fields) == (307, {"consumerGroup": "g", "clientId": "c"})
    member.writer.write(encode(Frame(0, {}, b"how I do", question.opaque, 1)))
    assert (await asyncio.wait_for(opaque, 5)).body == b"how I do"
    assert (await wire.ask(307, consumerGroup="g", clientId="d")).code == 1


async def test_a_member_that_does_not_answer_is_named(
    wire: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq_fake.edge.remoting.service._MEMBER_ANSWERS", 0.01)
    await (await connect()).beat("c", "g", "t")
    answer = await wire.ask(307, consumerGroup="g", clientId="c")
    assert (answer.code, answer.remark) == (207, "consumer <g> <c> Timeout")


async def test_a_busy_broker_does_not_say_that_there_is_no_offset(broker: FakeBroker, wire: Any) -> None:
    await broker.limit_rate("GetOffset", 0)
    assert (await wire.ask(14, consumerGroup="g", topic="t", queueId=0)).code == 2


# Groups


async def test_members_are_listed_and_notified(wire: Any, connect: Any) -> None:
    assert (await wire.ask(38, consumerGroup="g")).code == 1
    assert (await wire.ask(203, consumerGroup="g")).code == 206
    other = await connect()
    await wire.beat("b", "g", "t")
    await other.beat("a", "g", "t")
    for one, count in ((wire, 2), (other, 1)):
        for _ in range(count):
            pushed = await one.next_push()
            assert (pushed.code, pushed.flag, pushed.fields) == (40, 2, {"consumerGroup": "g"})
    listed = json.loads((await wire.ask(38, consumerGroup="g")).body)
    assert listed == {"consumerIdList": ["a", "b"]}
    described = json.loads((await wire.ask(203, consumerGroup="g")).body)
    assert {each["clientId"] for each in described["connectionSet"]} == {"a", "b"}
    assert described["subscriptionTable"]["t"]["subString"] == "*"
    await other.ask(35, clientID="a", consumerGroup="g")
    assert (await wire.next_push()).code == 40


@pytest.mark.parametrize(
    ("subscription", "described"),
    [
        ({"subString": "*"}, ("TAG", "*", [], [])),
        ({"subString": "red"}, ("TAG", "red", ["red"], [112785])),
        ({"subString": "red || b"}, ("TAG", "red || b", ["b", "red"], [98, 112785])),
        ({"subString": "a > 1", "expressionType": "SQL92"}, ("SQL92", "a > 1", [], [])),
    ],
    ids=["all", "one tag", "two tags", "sql"],
)
async def test_subscriptions_of_members_are_described(
    wire: Any, subscription: dict[str, str], described: tuple[object, ...]
) -> None:
    await wire.beat("c", "g", subscriptionDataSet=[{"topic": "t", "subVersion": 7, **subscription}])
    table = json.loads((await wire.ask(203, consumerGroup="g")).body)["subscriptionTable"]
    names = ("expressionType", "subString", "tagsSet", "codeSet", "subVersion", "topic")
    assert tuple(table["t"][name] for name in names) == (*described, 7, "t")


async def test_a_lost_connection_is_a_member_less(wire: Any, connect: Any) -> None:
    other = await connect()
    await wire.beat("b", "g", "t")
    await other.beat("a", "g", "t")
    for _ in range(2):
        await wire.next_push()
    other.writer.transport.abort()
    assert (await wire.next_push()).code == 40
    assert json.loads((await wire.ask(38, consumerGroup="g")).body) == {"consumerIdList": ["b"]}


async def test_the_retry_topic_is_routed_after_the_first_heartbeat(wire: Any) -> None:
    assert (await wire.ask(105, topic="%RETRY%g")).code == 17
    await wire.beat("c", "g", "t")
    route = json.loads((await wire.ask(105, topic="%RETRY%g")).body)
    assert (route["queueDatas"][0]["perm"], route["queueDatas"][0]["readQueueNums"]) == (6, 1)


async def test_locks_are_events_by_queue(wire: Any) -> None:
    queues = [{"topic": "wide", "brokerName": "broker-a", "queueId": number} for number in range(2)]

    async def ask(code: int, client: str, *wanted: Any) -> Any:
        body = {"consumerGroup": "g", "clientId": client, "mqSet": wanted, "onlyThisBroker": False}
        answer = await wire.ask(code, body)
        assert answer.code == 0
        return json.loads(answer.body)["lockOKMQSet"] if code == 41 else None

    assert await ask(41, "a", queues[0]) == [queues[0]]
    assert await ask(41, "b", *queues) == [queues[1]]
    await ask(42, "a", *queues)
    assert await ask(41, "b", *queues) == queues
    assert await ask(41, "c") == []


async def test_expressions_are_checked(wire: Any) -> None:
    def body(expression: str, kind: str) -> object:
        data = {"topic": "t", "subString": expression, "expressionType": kind}
        return {"clientId": "c", "group": "g", "subscriptionData": data}

    assert (await wire.ask(46, body("a > 1", "SQL92"))).code == 0
    assert (await wire.ask(46, body("a >", "SQL92"))).code == 23
    assert (await wire.ask(46, body("a >", "TAG"))).code == 0


# Retries, administration


async def test_what_is_sent_back_goes_to_the_dead_letters_in_the_end(broker: FakeBroker, wire: Any) -> None:
    answer = await wire.produce("t", b"x")
    position = int(answer.fields["msgId"][-16:], 16)
    back = {"group": "g", "offset": position, "originTopic": "t", "originMsgId": "M"}
    assert (await wire.ask(36, **back, delayLevel=-1)).code == 0
    assert [each.body for each in broker.dead_letters("g")] == [b"x"]
    route = json.loads((await wire.ask(105, topic="%DLQ%g")).body)
    assert route["queueDatas"][0]["perm"] == 6
    assert (await wire.ask(36, **{**back, "offset": 999}, delayLevel=0)).code == 1


@pytest.mark.parametrize(("version", "is_dead"), [(120, False), (121, True), (122, True)])
async def test_clients_since_3_4_9_say_how_often_a_message_may_be_sent_back(
    broker: FakeBroker, wire: Any, version: int, is_dead: bool
) -> None:
    answer = await wire.produce("t", b"x")
    wire.version = version
    position = int(answer.fields["msgId"][-16:], 16)
    back = {"group": "g", "offset": position, "originTopic": "t", "originMsgId": "M"}
    assert (await wire.ask(36, **back, delayLevel=0, maxReconsumeTimes=0)).code == 0
    assert bool(broker.dead_letters("g")) is is_dead


async def test_topics_and_groups_are_created_changed_and_deleted(broker: FakeBroker, wire: Any) -> None:
    topic = {"topic": "new", "defaultTopic": "TBW102", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}
    assert (await wire.ask(17, **topic, attributes="+message.type=FIFO")).code == 0
    assert (await wire.ask(17, **{**topic, "readQueueNums": 5})).code == 0
    assert (await wire.ask(17, **{**topic, "topic": "a b"})).code == 29
    assert (await wire.ask(17, **topic, attributes="+message.type=ODD")).code == 1
    for minutes in ("soon", "9" * 400):
        assert (await wire.ask(17, **topic, attributes=f"+lite.topic.expiration={minutes}")).code != 0
    (created,) = [each for each in broker.topics() if each.name == "new"]
    assert (created.type, created.read_queues) == ("FIFO", 5), "without attributes, those of the topic stay"
    assert "new" in json.loads((await wire.ask(206)).body)["topicList"]
    for _ in range(2):
        assert (await wire.ask(215, topic="new")).code == 0
        assert (await wire.ask(216, topic="new")).code == 0
    assert (await wire.ask(105, topic="new")).code == 17
    for retries in (3, 4):
        assert (await wire.ask(200, {"groupName": "made", "retryMaxTimes": retries})).code == 0
    (group,) = [each for each in broker.groups() if each.name == "made"]
    assert group.max_attempts == 5
    table = json.loads((await wire.ask(201)).body)["subscriptionGroupTable"]
    assert table["made"]["retryMaxTimes"] == 4
    for _ in range(2):
        assert (await wire.ask(207, groupName="made")).code == 0
    assert all(each.name != "made" for each in broker.groups())


@pytest.mark.parametrize(
    "policy",
    [
        {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2500, 7000]}},
        {
            "type": "EXPONENTIAL",
            "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2},
        },
        None,
    ],
    ids=["listed", "growing", "none"],
)
async def test_the_back_off_of_a_group_is_kept_and_shown(wire: Any, policy: object) -> None:
    assert (await wire.ask(200, {"groupName": "made", "groupRetryPolicy": policy})).code == 0
    table = json.loads((await wire.ask(201)).body)["subscriptionGroupTable"]
    assert table["made"].get("groupRetryPolicy") == policy


# Transactions


async def test_a_checked_producer_ends_its_transaction(patient_broker: FakeBroker) -> None:
    broker = patient_broker
    async with dial(broker) as wire:
        await wire.ask(34, {"clientID": "p", "producerDataSet": [{"groupName": "pg"}]})
        sent = await wire.produce("t", b"x", "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01U1\x02")
        assert (await wire.pulled("t")).code == 19
        unanswered = wire.send(37, tranStateTableOffset=sent.fields["queueOffset"], commitOrRollback=0)
        await broker.clock.advance(seconds=61)
        check = await wire.next_push()
        assert (check.code, check.flag, check.fields["transactionId"]) == (39, 2, "U1")
        assert b"TRANSACTION_CHECK_TIMES\x01" in check.body
        assert check.body[36:40] == bytes(4)
        end = {"tranStateTableOffset": check.fields["tranStateTableOffset"], "fromTransactionCheck": "true"}
        assert (await wire.ask(37, **end, commitOrRollback=7)).code == 1
        assert (await wire.ask(37, **end, commitOrRollback=8)).code == 0
        assert (await wire.ask(37, **end, commitOrRollback=8)).code == 1
        pulled = await wire.pulled("t")
        assert int.from_bytes(pulled.body[36:40]) == 8
        assert not unanswered.done()


async def test_a_silent_client_is_disconnected_after_120_seconds(patient_broker: FakeBroker) -> None:
    async with dial(patient_broker) as wire:
        await wire.beat("c", "g", "t")
        await patient_broker.clock.advance(seconds=121)
        assert await wire.is_closed()


async def test_a_delay_level_shows_in_the_message(patient_broker: FakeBroker) -> None:
    async with dial(patient_broker) as wire:
        sent = await wire.produce("t", b"x", "DELAY\x013\x02")
        assert "recallHandle" not in sent.fields
        assert "recallHandle" in (await wire.produce("t", b"x", "TIMER_DELAY_SEC\x0130\x02")).fields
        await patient_broker.clock.advance(seconds=9.9)
        assert (await wire.pulled("t")).code == 19
        await patient_broker.clock.advance(seconds=0.2)
        pulled = await wire.pulled("t")
        assert b"DELAY\x013\x02REAL_TOPIC\x01t\x02REAL_QID\x010\x02" in pulled.body


async def test_classic_clients_compare_tags_themselves() -> None:
    """A pull returns whatever has the hash of a selected tag, unlike a receive."""
    async with FakeBroker(profile="apache-5.5", remoting_port=0) as broker:
        await broker.create_topic("t", queues=1)
        async with dial(broker) as wire:
            await fill(wire, "t", "Aa", "BB", "C")
            answer = await wire.pulled("t", subscription="Aa", expressionType="TAG")
            assert (answer.code, answer.body.count(b"\xda\xa3\x20\xa7")) == (0, 2)
