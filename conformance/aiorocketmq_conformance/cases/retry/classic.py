"""Retries, delays and transactions over the classic protocol, by members of a group who read queues themselves."""

from __future__ import annotations

from collections.abc import Mapping

from aiorocketmq._core.remoting.batches import Member
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import Record, read_records
from aiorocketmq._remoting.codes import RequestCode, ResponseCode

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.model.membership import LOCK_LIFE
from aiorocketmq_conformance.probe.clock import within
from aiorocketmq_conformance.probe.remoting_answers import number, response_text
from aiorocketmq_conformance.tolerances import PROMPT, Window, lag
from aiorocketmq_conformance.verdicts import NotApplicable

SENDING_BACK = ("remoting-protocol.md 6.11",)
TRANSACTIONS = ("remoting-protocol.md 6.13",)
PREPARED, COMMIT, ROLLBACK = 4, 8, 12
"""Flags of a half message and of its two ends."""


async def _next(reader: RemotingReader, topic: str, offset: int, *, within: float) -> tuple[Record, float]:
    """Return the message at an offset of a topic's queue 0, once it is there, and when it arrived."""
    clock = reader.fixture.clock
    until = clock.now() + within
    while clock.now() < until:
        answer = await reader.probe.pull(reader.topic, reader.group, offset, named=topic, poll=15.0)
        if answer.records:
            return answer.records[0], answer.ended
        if answer.code != ResponseCode.PULL_NOT_FOUND:
            await clock.sleep(0.2)  # the topic is made with its first message
    raise AssertionError(f"nothing came to offset {offset} of {topic} within {within:g} s")


async def _sent_back(reader: RemotingReader, record: Record, level: int, **more: object) -> float:
    """Send a message back, with `more` fields; return when that was answered."""
    fields = {
        "offset": record.commit_log_offset,
        "group": reader.group,
        "delayLevel": level,
        "originMsgId": record.properties().get("UNIQ_KEY", ""),
        "originTopic": reader.topic,
        "unitMode": "false",
        **more,
    }
    answer = await reader.probe.ask(reader.topic, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    assert answer.code == ResponseCode.SUCCESS, f"sending back was answered with {response_text(answer)}"
    return reader.fixture.clock.now()


def _window(fixture: Fixture, seconds: float) -> Window:
    return Window(
        seconds - fixture.number("early") - 0.2, seconds + fixture.number("delay.high") + lag(fixture.target)
    )


LATER = {"DELAY": "1"}
"""The property of the first delay level, which is a second."""


async def _reader(fixture: Fixture, max_attempts: int) -> RemotingReader:
    group = await fixture.group(max_attempts=max_attempts)
    reader = await over_remoting(fixture, group=group)
    await reader.join()
    return reader


@case("retry.sent-back", rules=SENDING_BACK, level=EXTENSION, needs=REMOTING, timeout=200.0)
async def sent_back(fixture: Fixture) -> None:
    """A message that a member sends back is in the group's retry topic after the time of its level, or without one
    after a time that grows with its attempts; one attempt is counted, and the rest of it is kept."""
    reader = await _reader(fixture, 9)
    sent = await reader.send_one("m", "tag", {"own": "value"})
    record, _ = await _next(reader, reader.topic, 0, within=PROMPT)
    origins: set[str] = set()
    for attempt, (level, seconds) in enumerate(((1, 1.0), (2, 5.0), (0, 60.0), (3, 10.0)), start=1):
        answered = await _sent_back(reader, record, level)
        record, at = await _next(
            reader,
            f"%RETRY%{reader.group}",
            attempt - 1,
            within=seconds + fixture.number("delay.high") + PROMPT,
        )
        _window(fixture, seconds).check(
            at - answered, f"a message sent back with level {level} is in its retry topic"
        )
        properties = record.properties()
        found = (record.reconsume_times, record.body, properties["UNIQ_KEY"], properties["TAGS"])
        assert found == (attempt, b"m", sent.id, "tag")
        assert (properties["own"], properties["RETRY_TOPIC"]) == ("value", reader.topic)
        origins.add(properties["ORIGIN_MESSAGE_ID"])
    assert len(origins) == 1, f"redeliveries of one message name several origins: {origins}"
    unknown = record.commit_log_offset + 10**9
    fields = {"offset": unknown, "group": reader.group, "delayLevel": 1}
    answer = await reader.probe.ask(reader.topic, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    assert answer.code != ResponseCode.SUCCESS, "a message that does not exist was sent back"


@case("dlq.sent-back", rules=SENDING_BACK, level=EXTENSION, needs=(*REMOTING, "dlq"), timeout=200.0)
async def dead_when_sent_back(fixture: Fixture) -> None:
    """A message that is sent back after the group's last attempt, or that of the request, is a dead letter, and at once
    with a level below 0."""
    for attempts, limit, levels in (
        (1, None, (1,)),
        (2, None, (1, 1)),
        (3, None, (1, 1, 1)),
        (9, None, (-1,)),
        (9, None, (1, -1)),
        (9, 0, (1,)),
        (9, 1, (1, 1)),
        (1, 1, (1, 1)),
    ):
        reader = await _reader(fixture, attempts)
        sent = await reader.send_one("m")
        record, _ = await _next(reader, reader.topic, 0, within=PROMPT)
        for place, level in enumerate(levels):
            await _sent_back(reader, record, level, **({} if limit is None else {"maxReconsumeTimes": limit}))
            last = place == len(levels) - 1
            topic = f"%DLQ%{reader.group}" if last else f"%RETRY%{reader.group}"
            record, _ = await _next(reader, topic, 0 if last else place, within=2 * PROMPT)
        what = f"of {attempts} attempts, at most {limit}, sent back with the levels {levels}"
        properties = record.properties()
        assert (properties["UNIQ_KEY"], properties["RETRY_TOPIC"]) == (sent.id, reader.topic), what
        # Long enough for a redelivery after the time of level 1.
        more = await reader.probe.pull(
            reader.topic, reader.group, len(levels) - 1, named=f"%RETRY%{reader.group}", poll=2.0
        )
        assert not more.records, f"a dead letter is in the retry topic, too: {what}"


@case("retry.own-copy", rules=SENDING_BACK, level=EXTENSION, needs=(*REMOTING, "dlq"), timeout=120.0)
async def own_copy(fixture: Fixture) -> None:
    """A member that sends a failed message itself has it redelivered, and after the last attempt among dead letters;
    as many failures as its limit are not too many."""
    rows: tuple[tuple[int, int, Mapping[str, str]], ...] = (
        (0, 2, {}),
        (1, 2, {}),
        (2, 2, LATER),
        (3, 2, {}),
        (1, 16, LATER),
        (0, 0, {}),
        (1, 0, {}),
    )
    for attempts, limit, delay in rows:
        reader = await _reader(fixture, 17)
        topics = {"retry": f"%RETRY%{reader.group}", "dead": f"%DLQ%{reader.group}"}
        properties = {"UNIQ_KEY": fixture.fresh("id"), "RETRY_TOPIC": reader.topic, **delay}
        answer = await reader.probe.send(
            reader.topic, b"m", properties, named=topics["retry"], j=attempts, l=limit
        )
        assert answer.code == ResponseCode.SUCCESS, f"answered with {response_text(answer)}"
        found = await _found(reader, topics)
        assert list(found) in (["retry"], ["dead"]), f"{attempts} of {limit} attempts: {found}"
        ((place, record),) = found.items()
        same = (record.body, record.properties()["UNIQ_KEY"], record.reconsume_times)
        assert same == (b"m", properties["UNIQ_KEY"], attempts)
        assert place == ("dead" if attempts > limit else "retry"), f"{attempts} of {limit} attempts"


@case("dlq.own-copy-locked", rules=SENDING_BACK, level=EXTENSION, needs=(*REMOTING, "dlq"), timeout=200.0)
async def own_copy_locked(fixture: Fixture) -> None:
    """A failed message that a member sends itself is a dead letter at once while its group holds a queue lock, until
    the lock is released or expires."""
    for state, expected in (("held", "dead"), ("released", "retry"), ("expired", "retry")):
        reader = await _reader(fixture, 17)
        assert await reader.probe.lock(reader.group, reader.topic, 0) == [0]
        if state == "released":
            await reader.probe.unlock(reader.group, reader.topic, 0)
        elif state == "expired":
            await fixture.clock.sleep(LOCK_LIFE + 10.0)
        topics = {"retry": f"%RETRY%{reader.group}", "dead": f"%DLQ%{reader.group}"}
        properties = {"UNIQ_KEY": fixture.fresh("id"), "RETRY_TOPIC": reader.topic}
        answer = await reader.probe.send(reader.topic, b"m", properties, named=topics["retry"], j=1, l=16)
        assert answer.code == ResponseCode.SUCCESS, f"answered with {response_text(answer)}"
        found = await _found(reader, topics)
        assert list(found) == [expected], f"with a lock that is {state} the message is in {list(found)}"


async def _found(reader: RemotingReader, topics: Mapping[str, str]) -> dict[str, Record]:
    """Return the first message of each topic that has one, once any has."""
    clock = reader.fixture.clock
    until = clock.now() + PROMPT
    found: dict[str, Record] = {}
    while not found and clock.now() < until:
        for name, topic in topics.items():
            answer = await reader.probe.pull(reader.topic, reader.group, 0, named=topic)
            if answer.records:
                found[name] = answer.records[0]
        await clock.sleep(0.2)
    return found


@case("send.fields-over-remoting", rules=("remoting-protocol.md 7.1",), level=EXTENSION, needs=REMOTING)
async def fields_over_the_classic_protocol(fixture: Fixture) -> None:
    """A stored message has the sender's flag, born time and properties, its place in the log, and a checksum."""
    reader = await over_remoting(fixture)
    before, places = fixture.clock.wall(), list[tuple[int, str]]()
    for place in range(3):
        born = round((before - 100.0 * place) * 1000)
        properties = {"UNIQ_KEY": fixture.fresh("id"), "TAGS": f"t{place}", "KEYS": "a b", "own": str(place)}
        # Bits of a body that its producer has compressed, by each kind.
        compressed = 0x1 | place + 1 << 8
        sent = await reader.probe.send(
            reader.topic, f"m{place}".encode(), properties, flags=compressed, h=1 << place, g=born, j=place
        )
        assert sent.code == ResponseCode.SUCCESS, f"answered with {response_text(sent)}"
        assert (number(sent, "queueId"), number(sent, "queueOffset")) == (0, place)
        record, _ = await _next(reader, reader.topic, place, within=PROMPT)
        assert (record.topic, record.queue_id, record.queue_offset) == (reader.topic, 0, place)
        found = (record.body, record.flag, record.born_ms, record.reconsume_times)
        assert found == (f"m{place}".encode(), 1 << place, born, place)
        assert record.sysflag & 0x701 == compressed
        assert properties.items() <= record.properties().items()
        assert (before - 0.2) * 1000 <= record.stored_ms <= fixture.clock.wall() * 1000 + 200
        assert record.is_intact
        assert record.offset_message_id == sent.fields["msgId"]
        places.append((record.commit_log_offset, properties["UNIQ_KEY"]))
    for position, id_ in places:
        fields = {"topic": reader.topic, "offset": position}
        answer = await reader.probe.ask(reader.topic, RequestCode.VIEW_MESSAGE_BY_ID, fields)
        assert [each.properties()["UNIQ_KEY"] for each in read_records(answer.body)] == [id_]


@case("send.creates-topic", rules=("live-broker-remoting.md 2",), level=EXTENSION, needs=REMOTING)
async def creates_topic(fixture: Fixture) -> None:
    """A topic that a send creates has as many queues as its producer requests, but at most the eight of the default
    topic."""
    reader = await over_remoting(fixture)
    for requested, queues in ((4, 4), (8, 8), (16, 8)):
        topic = fixture.fresh("created")
        properties = {"UNIQ_KEY": fixture.fresh("id")}
        answer = await reader.probe.send(reader.topic, b"m", properties, named=topic, d=requested)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NotApplicable("this server creates no topics")
        assert answer.code == ResponseCode.SUCCESS, f"answered with {response_text(answer)}"
        record, _ = await _next(reader, topic, 0, within=PROMPT)
        assert record.properties()["UNIQ_KEY"] == properties["UNIQ_KEY"]
        assert await reader.probe.queues(topic) == queues, f"{requested} queues were requested"


@case("delay.levels", rules=SENDING_BACK, level=EXTENSION, needs=REMOTING, timeout=120.0)
async def delay_levels(fixture: Fixture) -> None:
    """A message sent with a delay level is in its queue after the time of the level."""
    reader = await over_remoting(fixture)
    levels = {"1": 1.0, "2": 5.0, "3": 10.0, "4": 30.0}
    sent = [await reader.send_one(level, None, {"DELAY": level}) for level in levels]
    for place, (level, seconds) in enumerate(levels.items()):
        record, at = await _next(
            reader, reader.topic, place, within=seconds + fixture.number("delay.high") + PROMPT
        )
        assert record.body == level.encode()
        _window(fixture, seconds).check(at - sent[place].acked_at, f"a message of delay level {level} came")


@case("delay.times-over-remoting", rules=("live-broker-remoting.md 2",), level=EXTENSION, needs=REMOTING)
async def delay_times(fixture: Fixture) -> None:
    """A message sent with a delay in seconds or milliseconds, or with a delivery time, is in its queue then."""
    reader = await over_remoting(fixture)
    due = round((fixture.clock.wall() + 10.0) * 1000)
    times = {"TIMER_DELAY_SEC": 3, "TIMER_DELAY_MS": 6000, "TIMER_DELIVER_MS": due}
    sent = [await reader.send_one(name, None, {name: str(value)}) for name, value in times.items()]
    for place, (name, seconds) in enumerate(zip(times, (3.0, 6.0, 10.0), strict=True)):
        record, at = await _next(
            reader, reader.topic, place, within=seconds + fixture.number("delay.high") + PROMPT
        )
        assert record.body == name.encode()
        _window(fixture, seconds).check(at - sent[place].acked_at, f"a message with {name} came")


@case("delay.long-levels", rules=SENDING_BACK, level=EXTENSION, needs=(*REMOTING, "@clock"), timeout=9000.0)
async def long_delay_levels(fixture: Fixture) -> None:
    """The last delay levels are one and two hours; higher ones are the last."""
    reader = await over_remoting(fixture)
    for place, (level, seconds) in enumerate((("17", 3600.0), ("18", 7200.0), ("19", 7200.0))):
        sent = await reader.send_one(level, None, {"DELAY": level})
        await fixture.clock.sleep(seconds - 5.0)
        _, at = await _next(reader, reader.topic, place, within=fixture.number("delay.high") + PROMPT)
        _window(fixture, seconds).check(at - sent.acked_at, f"a message of delay level {level} came")


async def _end(
    reader: RemotingReader,
    group: str,
    id_: str,
    places: Mapping[str, object],
    end: int,
    *,
    from_check: bool = False,
) -> None:
    """End a half message, whose `places` are its offsets in its queue and in the log."""
    fields = {
        "producerGroup": group,
        "commitOrRollback": end,
        "fromTransactionCheck": str(from_check).lower(),
        "msgId": id_,
        "transactionId": id_,
        "topic": reader.topic,
        **places,
    }
    ended = await reader.probe.ask(reader.topic, RequestCode.END_TRANSACTION, fields)
    assert ended.code == ResponseCode.SUCCESS, f"an end was answered with {response_text(ended)}"


@case("tx.over-remoting", rules=TRANSACTIONS, level=EXTENSION, needs=(*REMOTING, "type.tx"), timeout=120.0)
async def over_the_classic_protocol(fixture: Fixture) -> None:
    """A half message is in its queue once it is committed, once, and never if it is rolled back."""
    topic = await fixture.topic(1, type="TRANSACTION")
    reader = await over_remoting(fixture, topic=topic)
    group = fixture.fresh("producers")
    for place, end in enumerate((COMMIT, ROLLBACK, COMMIT)):
        properties = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": fixture.fresh("id"), "own": "value"}
        sent = await reader.probe.send(topic, b"m", properties, group=group, flags=PREPARED)
        assert sent.code == ResponseCode.SUCCESS, f"a half message was answered with {response_text(sent)}"
        stored = await reader.query_offset("END")
        assert stored == (place + 1) // 2, (
            f"{stored} messages are visible before transaction {place} has ended"
        )
        places = {
            "tranStateTableOffset": number(sent, "queueOffset"),
            "commitLogOffset": int(sent.fields["msgId"][16:], 16),
        }
        await _end(reader, group, properties["UNIQ_KEY"], places, end)
        if end == COMMIT:
            record, _ = await _next(reader, topic, place // 2, within=PROMPT)
            found = record.properties()
            assert (record.body, found["UNIQ_KEY"], found["own"]) == (b"m", properties["UNIQ_KEY"], "value")
    await fixture.clock.sleep(2.0)
    assert await reader.query_offset("END") == 2


@case(
    "tx.check-over-remoting",
    rules=TRANSACTIONS,
    level=EXTENSION,
    needs=(*REMOTING, "type.tx"),
    timeout=200.0,
)
async def check_over_the_classic_protocol(fixture: Fixture) -> None:
    """The producer of an undecided half message is asked about it, with all of it, and its decision takes effect; also
    if its connection was a consumer, and is none any more."""
    topic = await fixture.topic(1, type="TRANSACTION")
    reader = await over_remoting(fixture, topic=topic)
    group = fixture.fresh("producers")
    await reader.join()
    await reader.probe.produce(group, topic)
    await reader.leave()
    properties = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": fixture.fresh("id"), "own": "value"}
    sent = await reader.probe.send(topic, b"m", properties, group=group, flags=PREPARED)
    assert sent.code == ResponseCode.SUCCESS, f"a half message was answered with {response_text(sent)}"
    patience = fixture.number("tx.immunity") + 2 * fixture.number("tx.interval") + lag(fixture.target)
    try:
        await within(fixture.clock, patience, reader.probe.checked(1))
    except TimeoutError:
        raise AssertionError(f"no check arrived within {patience:.0f} s") from None
    check = reader.probe.checks[0]
    (record,) = read_records(check.body)
    found = record.properties()
    assert (record.body, found["UNIQ_KEY"], found["own"], found["PGROUP"]) == (
        b"m",
        properties["UNIQ_KEY"],
        "value",
        group,
    )
    assert {check.fields[name] for name in ("msgId", "transactionId")} == {properties["UNIQ_KEY"]}
    assert check.fields["offsetMsgId"], "a check does not say where its message lies"
    places = {name: check.fields[name] for name in ("tranStateTableOffset", "commitLogOffset")}
    await _end(reader, group, properties["UNIQ_KEY"], places, COMMIT, from_check=True)
    record, _ = await _next(reader, topic, 0, within=PROMPT)
    assert (record.body, record.properties()["UNIQ_KEY"]) == (b"m", properties["UNIQ_KEY"])


@case("send.batch-over-remoting", rules=("remoting-protocol.md 6.12",), level=EXTENSION, needs=REMOTING)
async def batch_over_the_classic_protocol(fixture: Fixture) -> None:
    """The messages of one request, whichever its code, lie in its queue one behind the other, each with its own body,
    flag and properties."""
    reader = await over_remoting(fixture)
    await reader.send(2)
    end = 2
    for code in (RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2):
        members = [
            Member(
                f"b{each}".encode(),
                write_properties({"UNIQ_KEY": fixture.fresh("id"), "own": str(each)}),
                flag=each + 5,
            )
            for each in range(3)
        ]
        answer = await reader.probe.send_batch(reader.topic, members, code=code)
        assert answer.code == ResponseCode.SUCCESS, f"a batch was answered with {response_text(answer)}"
        assert number(answer, "queueOffset") == end
        for place, member in enumerate(members):
            record, _ = await _next(reader, reader.topic, end + place, within=PROMPT)
            assert (record.body, record.flag) == (member.body, member.flag)
            assert record.properties().get("own") == str(place)
        end += len(members)
        assert await reader.query_offset("END") == end
