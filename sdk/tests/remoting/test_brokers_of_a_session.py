"""A session with several brokers: each is greeted and left, routes change, and a failing one hides no other."""

from __future__ import annotations

import json

import pytest
from aiorocketmq import Message, PullConsumer
from aiorocketmq._core.endpoint import Address, endpoint_of
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.routes import BrokerAddresses
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import BusyError, UnreachableError

from sdk.tests.remoting.script import (
    QUEUE,
    Script,
    Serve,
    Start,
    answer,
    consumer,
    requests,
    seen,
    session_of,
    start_two,
)
from sdk.tests.remoting.test_sending import producer, scripted
from sdk.tests.waiting import until


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Routes are looked up again and again."""
    monkeypatch.setattr("aiorocketmq._remoting.session.ROUTES", 0.01)


async def test_every_broker_is_told_that_a_member_leaves(start: Start) -> None:
    servers = await start_two(start, Script(), Script())
    async with consumer(servers[0], topics=["T"]) as reader:
        await until(lambda: len(reader.assigned) == 2)
    assert [len(requests(server, RequestCode.UNREGISTER_CLIENT)) for server in servers] == [1, 1]


@pytest.mark.usefixtures("restless")
async def test_a_queue_that_a_topic_gets_is_shared_as_soon_as_the_route_has_it(start: Start) -> None:
    script = Script()
    server = await start(script)
    async with consumer(server, topics=["T"]) as reader:
        await until(lambda: reader.assigned == (QUEUE,))
        script.queues = 3
        await until(lambda: [queue.id for queue in reader.assigned] == [0, 1, 2])


@pytest.mark.usefixtures("restless")
async def test_a_broker_that_a_topic_gets_knows_its_members_as_soon_as_the_route_has_it(start: Start) -> None:
    script, second = Script(), Script()
    server, other = await start_two(start, script, second)
    both = script.answers.pop(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    async with consumer(server, topics=["T"]) as reader:
        await until(lambda: reader.assigned == (QUEUE,))
        assert not requests(other, RequestCode.HEART_BEAT)
        script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = both
        await seen(other, RequestCode.HEART_BEAT)
        await until(lambda: len(reader.assigned) == 2)


@pytest.mark.usefixtures("restless")
async def test_a_topic_whose_route_cannot_be_had_keeps_no_other_from_being_looked_up(start: Start) -> None:
    script = Script()
    server = await start(script)
    degraded: list[bool] = []
    async with consumer(server) as reader:
        for topic in ("T", "U"):
            assert len(await reader.queues(topic)) == 1

        def route(frame: Frame) -> Frame:
            if frame.fields["topic"] == "T":
                degraded.append(bool(reader.health().degraded))
                return answer(frame, ResponseCode.TOPIC_NOT_EXIST, remark="gone")
            return answer(frame, body=script.route())

        script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route
        script.queues = 2
        session = session_of(reader)
        await until(lambda: session.routes["U"].queues[0].readable == 2)
        # The last route of the other one is used on.
        assert await reader.queues("T") == (QUEUE,)
        await until(lambda: len(degraded) >= 3)
        assert degraded[1:3] == [True, True]


async def test_queues_that_may_not_be_read_are_left_out(start: Start) -> None:
    script, second = Script(), Script()
    server, _ = await start_two(start, script, second)
    route = script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC]

    def without_right(frame: Frame) -> Frame:
        usual = route(frame)
        assert isinstance(usual, Frame)
        data = json.loads(usual.body)
        data["queueDatas"][0]["perm"] = 2
        return answer(frame, body=json.dumps(data).encode())

    script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = without_right
    async with consumer(server) as reader:
        assert await reader.queues("T") == (QUEUE._replace(broker="broker-b"),)


async def test_a_name_server_that_has_answered_is_asked_first_the_next_time(
    start: Start, serve: Serve
) -> None:
    """Otherwise each request would wait for the silent one before it."""
    broken, server = await serve(lambda frame: b""), await start(Script())
    async with PullConsumer(f"namesrv://{broken.address};{server.address}", group="g") as reader:
        asked = len(broken.seen)
        assert asked
        await reader.queues("T")
        await reader.queues("U")
    assert len(broken.seen) == asked


async def test_a_broker_that_did_not_answer_gets_another_heartbeat_soon(start: Start) -> None:
    script = scripted()
    usual = script.answers[RequestCode.HEART_BEAT]

    def refuse_once(frame: Frame) -> Frame:
        script.answers[RequestCode.HEART_BEAT] = usual
        return answer(frame, ResponseCode.SYSTEM_ERROR)

    script.answers[RequestCode.HEART_BEAT] = refuse_once
    server = await start(script)
    async with producer(server, group="payers") as sender:
        await sender.send(Message("T", b"x"))
        await seen(server, RequestCode.HEART_BEAT, 2)
        await until(lambda: sender.health().connected)


async def test_a_topic_that_is_left_changes_the_heartbeat_at_once(start: Start) -> None:
    server = await start(Script())
    async with consumer(server, topics=["T", "U"]) as reader:
        before = len(requests(server, RequestCode.HEART_BEAT))
        session_of(reader).remove_topic("U")
        await seen(server, RequestCode.HEART_BEAT, before + 1)


async def test_a_change_during_a_heartbeat_is_sent_with_the_next(start: Start) -> None:
    script = scripted()
    usual = script.answers[RequestCode.HEART_BEAT]
    server = await start(script)
    async with consumer(server, topics=["T"]) as reader:
        session = session_of(reader)

        def meanwhile(frame: Frame) -> Frame | bytes | None:
            script.answers[RequestCode.HEART_BEAT] = usual
            session.send_heartbeats()
            return usual(frame)

        script.answers[RequestCode.HEART_BEAT] = meanwhile
        before = len(requests(server, RequestCode.HEART_BEAT))
        session.send_heartbeats()
        await seen(server, RequestCode.HEART_BEAT, before + 2)


async def test_a_broker_that_answers_a_heartbeat_is_sent_to_again_and_no_other(start: Start) -> None:
    second = scripted()
    second.answers[RequestCode.HEART_BEAT] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
    server, failing = await start_two(start, scripted(), second)
    async with producer(server) as sender:
        session = sender._session
        assert isinstance(session, RemotingSession)
        await sender.send(Message("T", b"x"))
        session.isolated |= {endpoint_of((each.address,)) for each in (server, failing)}
        session.send_heartbeats()
        await until(lambda: session.isolated == {endpoint_of((failing.address,))})


ADDRESSES = [Address("broker", port) for port in range(4)]
GROUP = BrokerAddresses("broker-x", "c", dict(enumerate(ADDRESSES)))
"""A master and three replicas, none of which is there: requests are made by the test."""
OK = answer(Frame(code=0, opaque=0), fields={"offset": "7"})


class Asked:
    """Answers as the list for each address says, an error or a frame, the last one again and again."""

    def __init__(self, *answers: Exception | Frame) -> None:
        self.answers = dict(zip(ADDRESSES, answers, strict=False))
        self.asked: list[int] = []

    async def __call__(self, address: Address) -> Frame:
        self.asked.append(address.port)
        outcome = self.answers[address]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


AWAY, BUSY, BEHIND = UnreachableError("away"), BusyError("busy"), OK._replace(fields={"offset": "0"})


def is_usable(frame: Frame) -> bool:
    return frame.fields["offset"] != "0"


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param((OK,), [0], id="the master answers"),
        pytest.param((AWAY, OK), [0, 1], id="the first replica"),
        pytest.param((AWAY, AWAY, OK), [0, 1, 2], id="the second one, as the first does not answer either"),
        pytest.param((AWAY, BUSY, BEHIND, OK), [0, 1, 2, 3], id="the last one"),
    ],
)
async def test_the_first_replica_that_can_stand_in_for_a_master_is_read(
    start: Start, answers: tuple[Exception | Frame, ...], asked: list[int]
) -> None:
    async with consumer(await start(Script())) as reader:
        session = session_of(reader)
        ask = Asked(*answers)
        assert await session.replicas.read("T", GROUP, ask, is_usable) is OK
        assert ask.asked == asked
        # From then on the master is not waited for each time.
        assert session.replicas.is_away("broker-x") == (len(asked) > 1)
        assert await session.replicas.read("T", GROUP, ask, is_usable) is OK
        assert ask.asked[len(asked) :] == (asked[1:] or [0])


async def test_a_master_that_is_back_is_read_at_once_if_no_replica_can_be(start: Start) -> None:
    async with consumer(await start(Script())) as reader:
        session = session_of(reader)
        ask = Asked(AWAY, BUSY, BEHIND, AWAY)
        with pytest.raises(UnreachableError, match=r"away; and no replica can be read: busy;") as raised:
            await session.replicas.read("T", GROUP, ask, is_usable)
        assert raised.value.tried == ("busy", "the replica at broker:2 has not got so far", "away")
        ask.answers[ADDRESSES[0]] = OK
        assert await session.replicas.read("T", GROUP, ask, is_usable) is OK
        assert ask.asked == [0, 1, 2, 3, 1, 2, 3, 0]


async def test_a_master_without_replica_is_asked_each_time(start: Start) -> None:
    async with consumer(await start(Script())) as reader:
        session = session_of(reader)
        alone, ask = BrokerAddresses("broker-x", "c", {0: ADDRESSES[0]}), Asked(AWAY)
        for _ in range(2):
            with pytest.raises(UnreachableError, match=r"^away$"):
                await session.replicas.read("T", alone, ask)
        assert (ask.asked, session.replicas.is_away("broker-x")) == ([0, 0], False)
