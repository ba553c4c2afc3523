"""Members of a group that share queues: heartbeats, notifications, locks, and what is asked of a member."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiorocketmq import AveragelyByCircle, MessageQueue, PullConsumer, Timeouts
from aiorocketmq._core.remoting.frame import ONE_WAY, Frame, encode
from aiorocketmq._pull import rebalancing
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._transport.network import Environment
from aiorocketmq._version import version
from aiorocketmq.errors import QueueRevokedError

from sdk.tests.core.remoting.test_records import JAVA_116
from sdk.tests.core.test_boundaries import LEAST
from sdk.tests.remoting.script import (
    NOTICE,
    QUEUE,
    Reply,
    Script,
    Start,
    answer,
    consumer,
    requests,
    resetting,
    seen,
    session_of,
    start_two,
)
from sdk.tests.waiting import until


class Moves:
    """A listener that notes which queues, by number, a member gets and gives up."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[int]]] = []

    async def assigned(self, queues: Any) -> None:
        self.told.append(("assigned", [queue.id for queue in queues]))

    async def revoked(self, queues: Any) -> None:
        self.told.append(("revoked", [queue.id for queue in queues]))


async def test_a_member_is_known_again_as_soon_as_its_connection_is(start: Start) -> None:
    script = Script(queues=2)
    server = await start(script)
    hang_up = [True]

    def pull(frame: Frame) -> bytes | None:
        if hang_up:
            hang_up.clear()
            return b""
        return None

    script.answers[RequestCode.PULL_MESSAGE] = pull
    async with consumer(server, topics=["T"]) as reader:
        first, again, *_ = await seen(server, RequestCode.HEART_BEAT, 2)
        assert first.body == again.body
        heartbeat = json.loads(first.body)
        (group,) = heartbeat["consumerDataSet"]
        assert (group["groupName"], group["messageModel"], group["consumeType"]) == (
            "g",
            "CLUSTERING",
            "CONSUME_ACTIVELY",
        )
        assert group["subscriptionDataSet"][0]["topic"] == "T"
        # It looks at its group before it joins, as a member, and once more when it is known again.
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 3)
        assert reader.health().connected
    (goodbye,) = requests(server, RequestCode.UNREGISTER_CLIENT)
    assert goodbye.fields == {"clientID": heartbeat["clientID"], "consumerGroup": "g"}


async def test_a_broker_that_does_not_unlock_keeps_the_others_locked_no_longer(start: Start) -> None:
    scripts = Script(), Script()
    for script in scripts:
        script.answers[RequestCode.UNLOCK_BATCH_MQ] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
    servers = await start_two(start, *scripts)
    async with consumer(servers[0], topics=["T"], ordered=True) as reader:
        await until(lambda: len(reader.assigned) == 2)
    assert [len(requests(server, RequestCode.UNLOCK_BATCH_MQ)) for server in servers] == [1, 1]


async def test_a_broker_that_refuses_locks_keeps_no_other_from_being_read_in_order(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "RENEW_EVERY", 0.01)
    monkeypatch.setattr(rebalancing, "LOCK_LASTS", 0.2)
    second = Script()
    servers = await start_two(start, Script(), second)
    async with consumer(servers[0], topics=["T"], ordered=True) as reader:
        await until(lambda: len(reader.assigned) == 2)
        second.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
        await until(lambda: [queue.broker for queue in reader.assigned] == ["broker-a"])
        asked = len(requests(servers[0], RequestCode.LOCK_BATCH_MQ))
        await seen(servers[0], RequestCode.LOCK_BATCH_MQ, asked + 50)
        assert [queue.broker for queue in reader.assigned] == ["broker-a"]
        del second.answers[RequestCode.LOCK_BATCH_MQ]
        await until(lambda: len(reader.assigned) == 2)


async def test_a_broker_that_refuses_the_first_locks_keeps_no_other_from_being_read(start: Start) -> None:
    second = Script()
    servers = await start_two(start, Script(), second)
    second.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
    async with consumer(servers[0], topics=["T"], ordered=True) as reader:
        await until(lambda: [queue.broker for queue in reader.assigned] == ["broker-a"])


async def test_a_topic_whose_members_are_not_told_keeps_no_other_from_being_shared(start: Start) -> None:
    script, second = Script(), Script()
    server, _ = await start(script), await start(second)

    def route(frame: Frame) -> Frame:
        text = script.route().decode()
        if frame.fields["topic"] == "U":
            text = text.replace(script.address, second.address).replace("broker-a", "broker-b")
        return answer(frame, body=text.encode())

    script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = route
    second.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: answer(
        frame, ResponseCode.SYSTEM_ERROR
    )
    async with consumer(server, topics=["U", "T"]) as reader:
        await until(lambda: reader.assigned == (QUEUE,))
        del second.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
        await until(lambda: len(reader.assigned) == 2)


async def test_a_topic_whose_members_are_not_told_for_a_moment_keeps_its_queues(start: Start) -> None:
    script = Script(queues=3)
    server = await start(script)
    times = 0

    def members(frame: Frame) -> bytes:
        """The second time that this one is a member, the answer is an error."""
        nonlocal times
        times += len(script.consumers)
        response = encode(answer(frame, body=json.dumps({"consumerIdList": script.consumers}).encode()))
        return {1: response + encode(NOTICE), 2: encode(answer(frame, ResponseCode.SYSTEM_ERROR))}.get(
            times, response
        )

    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = members
    moves = Moves()
    async with consumer(server, topics=["T"], on_rebalance=moves):
        await until(lambda: times >= 3)
        assert moves.told == [("assigned", [0, 1, 2])]


async def test_a_commit_that_fails_keeps_no_other_queue_from_its_reset(start: Start) -> None:
    script = Script(queues=2, offsets={0: 5, 1: 5})
    server = await start(script)

    def refuse_first(frame: Frame) -> Frame | bytes | None:
        if frame.fields["queueId"] == "0":
            return answer(frame, ResponseCode.SYSTEM_ERROR)
        script.offsets[1] = int(frame.fields["commitOffset"])
        return answer(frame)

    def beat(frame: Frame) -> bytes:
        del script.answers[RequestCode.HEART_BEAT]
        return encode(answer(frame)) + resetting({QUEUE: 3, SECOND: 3})

    script.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = refuse_first
    async with consumer(server, topics=["T"]) as reader:
        await until(lambda: len(reader.assigned) == 2)
        script.answers[RequestCode.HEART_BEAT] = beat
        session = session_of(reader)
        session.send_heartbeats()
        await until(lambda: script.offsets[1] == 3)
        assert [await reader.position(queue) for queue in reader.assigned] == [3, 3]


async def test_a_member_is_connected_when_all_brokers_of_its_topics_know_it(start: Start) -> None:
    script, second = Script(), Script()
    server, other = await start_two(start, script, second)
    async with consumer(server, topics=["T"]) as reader:
        await seen(other, RequestCode.HEART_BEAT)
        await until(lambda: reader.health().connected)
        session = session_of(reader)
        second.answers[RequestCode.HEART_BEAT] = lambda frame: answer(frame, 1, remark="not now")
        session._due.set()
        await until(lambda: not reader.health().connected)
        del second.answers[RequestCode.HEART_BEAT]
        session._due.set()
        await until(lambda: reader.health().connected)


async def test_a_broker_of_a_topic_that_is_only_looked_up_need_not_know_a_member(start: Start) -> None:
    script = Script()
    server, _ = await start_two(start, script, Script())
    both = script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC]
    script.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda frame: (
        both(frame) if frame.fields["topic"] == "U" else answer(frame, body=script.route())
    )
    async with consumer(server, topics=["T"]) as reader:
        assert {queue.broker for queue in await reader.queues("U")} == {"broker-a", "broker-b"}
        assert reader.health().connected


async def test_a_member_that_is_named_once_for_each_of_its_connections_counts_once(start: Start) -> None:
    script = Script(queues=5)

    def members(frame: Frame) -> Frame:
        listed = [*script.consumers, "~last", *script.consumers]
        return answer(frame, body=json.dumps({"consumerIdList": listed}).encode())

    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = members
    server = await start(script)
    async with consumer(server, topics=["T"]) as reader:
        await seen(server, RequestCode.PULL_MESSAGE)
        assert [queue.id for queue in reader.assigned] == [0, 1, 2]


async def test_a_notification_moves_queues(start: Start) -> None:
    script = Script(queues=3)
    server = await start(script)

    def list_then_notify(frame: Frame) -> bytes:
        """The other member joins after the first answer."""
        body = json.dumps({"consumerIdList": script.consumers}).encode()
        response = encode(answer(frame, body=body))
        if len(script.consumers) == 1:
            script.consumers.append("~last")
            return response + encode(NOTICE)
        return response

    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = list_then_notify
    moves = Moves()
    async with consumer(server, topics=["T"], on_rebalance=moves) as reader:
        await until(lambda: len(moves.told) == 2)
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert moves.told == [("assigned", [0, 1, 2]), ("revoked", [2])]
        assert [queue.id for queue in reader.assigned] in ([0, 1, 2], [0, 1])


async def test_rebalances_that_brokers_cause_keep_apart(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "APART", 60.0)
    server = await start(Script())
    async with consumer(server, topics=["T"]) as reader:
        await until(lambda: reader.assigned)
        reader._rebalancing.look_soon()
        assert reader._rebalancing._soon.when() > asyncio.get_running_loop().time() + 50


async def test_what_an_administrator_asks_of_a_member_is_answered(start: Start) -> None:
    script = Script(offsets={0: 5})
    server = await start(script)
    table = '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}}'
    asking = [
        Frame(code=RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=1, fields={"consumerGroup": "g"}),
        Frame(code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, opaque=2, fields={"group": "g"}),
        Frame(code=309, opaque=3),
        Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=4, flag=ONE_WAY, body=b"none"),
        Frame(code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, opaque=5, flag=ONE_WAY, body=table.encode()),
    ]

    def ask(frame: Frame) -> bytes | None:
        """The first pull is held, and the broker asks on the same connection."""
        questions = b"".join(map(encode, asking))
        asking.clear()
        return questions or None

    script.answers[RequestCode.PULL_MESSAGE] = ask
    environment = Environment(wall=lambda: 1_893_553_445.25)
    async with consumer(server, topics=["T"], environment=environment) as reader:
        _, again = await seen(server, RequestCode.PULL_MESSAGE, 2)
        assert again.fields["queueOffset"] == "3"
        await seen(server, RequestCode.UPDATE_CONSUMER_OFFSET)
        assert await reader.position(QUEUE) == 3
    assert script.offsets == {0: 3}
    running, status, unknown = (frame for frame in server.seen if frame.is_response)
    key = '{"brokerName":"broker-a","queueId":0,"topic":"T"}'
    assert json.loads(running.body) == {
        "properties": {
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
            "PROP_CLIENT_VERSION": version(),
            "PROP_CONSUMER_START_TIMESTAMP": "1893553445250",
        },
        "subscriptionSet": [],
        "mqTable": {key: {"commitOffset": 5}},
    }
    assert json.loads(status.body) == {"messageQueueTable": {key: 5}, "consumerTable": {}}
    assert (running.opaque, status.opaque, unknown.opaque, unknown.code) == (1, 2, 3, 3)


async def test_who_is_not_listed_has_no_queue_and_looks_again_soon(start: Start) -> None:
    script = Script()
    server = await start(script)
    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: answer(
        frame, body=b'{"consumerIdList":["other"]}'
    )
    async with consumer(server, topics=["T"]) as reader:
        await seen(server, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert list(reader.assigned) == []
        del script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
        await seen(server, RequestCode.PULL_MESSAGE)
        assert reader.assigned == (QUEUE,)


async def test_who_is_not_listed_for_each_topic_looks_again_soon(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (rebalancing.UNBALANCED, rebalancing.LOOK_EVERY) == (0.5, 20.0)
    monkeypatch.setattr(rebalancing, "UNBALANCED", 0.01)
    script = Script()
    server = await start(script)
    asked = 0

    def listed(frame: Frame) -> Frame:
        nonlocal asked
        asked += 1
        # The broker of the first topic does not know this member yet.
        members = ["other"] if asked % 2 and asked < 20 else script.consumers
        return answer(frame, body=json.dumps({"consumerIdList": members}).encode())

    script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = listed
    async with consumer(server, topics=["T", "U"]) as reader, asyncio.timeout(10):
        while {queue.topic for queue in reader.assigned} != {"T", "U"}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert asked >= 20


async def test_a_group_that_is_missing_again_later_is_waited_for_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grace counts from the last success, not from the first failure."""
    monkeypatch.setattr(rebalancing, "UNBALANCED", 0.01)
    monkeypatch.setattr(rebalancing, "LOOK_EVERY", 0.01)
    script = Script()
    server = await start(script)
    loop = asyncio.get_running_loop()

    timeouts = Timeouts(not_found_grace=0.5)
    async with consumer(server, topics=["T"], timeouts=timeouts) as reader:
        await until(lambda: reader.assigned)
        reader._session.note_success()
        for _ in range(2):
            begun = loop.time()
            script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = lambda frame: answer(
                frame, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            )
            await until(lambda: "sharing queues" in reader.health().degraded)
            del script.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP]
            await until(lambda: not reader.health().degraded)
            await until(lambda begun=begun: loop.time() > begun + 0.6)  # type: ignore[misc]
        assert (reader.health().failure, reader.assigned) == (None, (QUEUE,))


async def test_only_what_is_locked_is_read_in_order(start: Start) -> None:
    script = Script(queues=2)
    server = await start(script)
    mine = {"brokerName": "broker-a", "queueId": 1, "topic": "T"}
    script.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(
        frame, body=json.dumps({"lockOKMQSet": [mine]}).encode()
    )
    moves = Moves()
    async with consumer(server, topics=["T"], ordered=True, on_rebalance=moves) as reader:
        (pull,) = await seen(server, RequestCode.PULL_MESSAGE)
        assert pull.fields["queueId"] == "1"
        _, again, *_ = await seen(server, RequestCode.LOCK_BATCH_MQ, 2)
        lock = json.loads(again.body)
        assert (lock["consumerGroup"], lock["onlyThisBroker"]) == ("g", False)
        assert lock["mqSet"] == [{"brokerName": "broker-a", "queueId": 0, "topic": "T"}]
        assert reader.assigned == (MessageQueue("T", "broker-a", 1),)
        assert moves.told == [("assigned", [1])]
    (unlock,) = requests(server, RequestCode.UNLOCK_BATCH_MQ)
    assert json.loads(unlock.body)["mqSet"] == [mine]


async def test_what_was_given_up_is_read_again_although_a_lock_failed_in_between(start: Start) -> None:
    script = Script(queues=3)
    server = await start(script)
    notify = Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, opaque=1, flag=ONE_WAY)
    groups: list[Callable[[str], list[str]]] = [
        lambda me: [me, "~last"],
        lambda me: ["!first", me],
        lambda me: [me],
    ]
    refused: list[bytes] = []

    def members(frame: Frame) -> bytes | Frame:
        if not script.consumers:  # it looks before it joins
            return answer(frame, ResponseCode.SYSTEM_ERROR)
        (me,) = script.consumers
        body = json.dumps({"consumerIdList": groups[0](me)}).encode()
        response = encode(answer(frame, body=body))
        if len(groups) == 1:
            return response
        return response + (encode(notify) if groups.pop(0)(me)[0] == me else b"")

    def lock(frame: Frame) -> Frame:
        queues = [each["queueId"] for each in json.loads(frame.body)["mqSet"]]
        if queues == [1] and not refused:
            refused.append(frame.body)
            return answer(frame, ResponseCode.SYSTEM_ERROR)
        return answer(frame, body=json.dumps({"lockOKMQSet": json.loads(frame.body)["mqSet"]}).encode())

    script.answers |= {RequestCode.GET_CONSUMER_LIST_BY_GROUP: members, RequestCode.LOCK_BATCH_MQ: lock}
    async with consumer(server, topics=["T"], ordered=True, allocation=AveragelyByCircle()) as reader:
        *_, last = await seen(server, RequestCode.LOCK_BATCH_MQ, 3)
        assert [each["queueId"] for each in json.loads(last.body)["mqSet"]] == [0, 1, 2]
        begin = server.seen.index(last)
        async with asyncio.timeout(10):
            while {
                frame.fields["queueId"]
                for frame in server.seen[begin:]
                if frame.code == RequestCode.PULL_MESSAGE
            } != {"0", "1", "2"}:
                server.arrived.clear()
                await server.arrived.wait()
        assert sorted(queue.id for queue in reader.assigned) == [0, 1, 2]


async def test_a_failing_listener_is_logged_and_queues_move_all_the_same(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start(Script())

    class Failing:
        async def assigned(self, queues: Any) -> None:
            raise RuntimeError("of the application")

        async def revoked(self, queues: Any) -> None:
            raise RuntimeError("of the application")

    with caplog.at_level(logging.ERROR):
        async with consumer(server, topics=["T"], on_rebalance=Failing()):
            await seen(server, RequestCode.PULL_MESSAGE)
    assert caplog.text.count("the rebalance listener failed") == 2


async def test_a_lock_that_cannot_be_renewed_is_lost_and_taken_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once if another member has it, and after half of its time if brokers do not answer."""
    assert (rebalancing.RENEW_EVERY, rebalancing.LOCK_LASTS) == (20.0, 30.0)
    monkeypatch.setattr(rebalancing, "RENEW_EVERY", 0.01)
    monkeypatch.setattr(rebalancing, "UNBALANCED", 0.01)
    script = Script(queues=2)
    server = await start(script)
    first, second = QUEUE, QUEUE._replace(id=1)

    def granting(*numbers: int) -> Reply:
        queues = [{"brokerName": "broker-a", "queueId": number, "topic": "T"} for number in numbers]
        return lambda frame: answer(frame, body=json.dumps({"lockOKMQSet": queues}).encode())

    async with consumer(server, topics=["T"], ordered=True) as reader:
        await until(lambda: set(reader.assigned) == {first, second})
        # Renewed again and again, nothing is given up.
        await seen(server, RequestCode.LOCK_BATCH_MQ, 5)
        assert not requests(server, RequestCode.UNLOCK_BATCH_MQ)
        script.answers[RequestCode.LOCK_BATCH_MQ] = granting(0)
        await until(lambda: reader.assigned == (first,))
        await until(lambda: requests(server, RequestCode.UNLOCK_BATCH_MQ))
        (unlock,) = requests(server, RequestCode.UNLOCK_BATCH_MQ)
        assert [each["queueId"] for each in json.loads(unlock.body)["mqSet"]] == [1]
        script.answers[RequestCode.LOCK_BATCH_MQ] = granting(0, 1)
        await until(lambda: set(reader.assigned) == {first, second})
        script.answers[RequestCode.LOCK_BATCH_MQ] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
        await until(lambda: "renewing locks" in reader.health().degraded)
        assert set(reader.assigned) == {first, second}
        monkeypatch.setattr(rebalancing, "LOCK_LASTS", 0.05)
        await until(lambda: reader.assigned == ())
        del script.answers[RequestCode.LOCK_BATCH_MQ]
        await until(lambda: set(reader.assigned) == {first, second})
        await until(lambda: "renewing locks" not in reader.health().degraded)


def joined(script: Script, reader: PullConsumer, member: str = "~last") -> None:
    """Let another member join, of which the first one is notified."""
    script.consumers.append(member)
    assert reader._rebalancing is not None
    reader._rebalancing.look()


SECOND = QUEUE._replace(id=1)


async def test_a_listener_that_takes_too_long_is_cancelled_and_its_queues_move(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(queues=2)
    server = await start(script)
    ends: list[str] = []
    gate = asyncio.Event()

    class Slow:
        async def assigned(self, queues: Any) -> None:
            pass

        async def revoked(self, queues: Any) -> None:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

    timeouts = Timeouts(stop=0.05)
    async with consumer(server, topics=["T"], on_rebalance=Slow(), timeouts=timeouts) as reader:
        await until(lambda: len(reader.assigned) == 2)
        joined(script, reader)
        try:
            await until(lambda: reader.assigned == (QUEUE,))
        finally:
            gate.set()
        assert ends == ["cancelled"]
    assert "the rebalance listener took more than 0.05 s" in caplog.text


def pulled(frame: Frame) -> Frame | None:
    """One message in each queue."""
    if frame.fields["queueOffset"] != "0":
        return None
    return answer(frame, fields={"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}, body=JAVA_116)


async def test_an_ordered_queue_moves_when_its_current_batch_is_completed(start: Start) -> None:
    script = Script({RequestCode.PULL_MESSAGE: pulled}, queues=2)
    server = await start(script)
    async with consumer(server, topics=["T"], ordered=True, timeouts=Timeouts(stop=60)) as reader:
        await until(lambda: len(reader.assigned) == 2)
        reader.pause(QUEUE)
        batch = await reader.poll(10)
        assert batch is not None
        assert batch.queue == SECOND
        joined(script, reader)
        await until(lambda: SECOND in reader.paused)
        # The pull behind the batch; whether there is one of the paused queue depends on when it was paused.
        await until(
            lambda: any(
                each.fields["queueOffset"] == "1" for each in requests(server, RequestCode.PULL_MESSAGE)
            )
        )
        assert not requests(server, RequestCode.UNLOCK_BATCH_MQ)
        await reader.commit(batch)
        await reader.poll(0)
        await until(lambda: reader.assigned == (QUEUE,))
        await until(lambda: requests(server, RequestCode.UNLOCK_BATCH_MQ))
        with pytest.raises(QueueRevokedError, match="is not assigned to this member any more"):
            await reader.commit(batch)
    assert script.offsets == {1: 1}


async def test_an_ordered_queue_waits_for_no_batch_of_another(start: Start) -> None:
    script = Script({RequestCode.PULL_MESSAGE: pulled}, queues=2)
    server = await start(script)
    timeouts = Timeouts(stop=8)
    # Nor does a consumer that ends wait for the batch that it returned last.
    async with asyncio.timeout(6), consumer(server, topics=["T"], ordered=True, timeouts=timeouts) as reader:
        await until(lambda: len(reader.assigned) == 2)
        reader.pause(SECOND)
        assert await reader.poll(10) is not None
        joined(script, reader)
        await until(lambda: reader.assigned == (QUEUE,))


async def test_the_lock_of_a_queue_that_was_given_up_is_renewed_no_more(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancing, "RENEW_EVERY", 0.01)
    script = Script(queues=2)
    server = await start(script)
    async with consumer(server, topics=["T"], ordered=True) as reader:
        await until(lambda: len(reader.assigned) == 2)
        joined(script, reader)
        await until(lambda: requests(server, RequestCode.UNLOCK_BATCH_MQ))
        before = len(requests(server, RequestCode.LOCK_BATCH_MQ))
        # A renewal may have been on its way.
        renewals = (await seen(server, RequestCode.LOCK_BATCH_MQ, before + 3))[before + 1 :]
    assert {each["queueId"] for frame in renewals for each in json.loads(frame.body)["mqSet"]} == {0}


async def test_an_offset_that_cannot_be_committed_for_one_queue_is_due_again_and_holds_up_no_other(
    start: Start,
) -> None:
    script = Script({RequestCode.PULL_MESSAGE: pulled}, queues=2)
    server = await start(script)

    def refuse_first(frame: Frame) -> Frame | None:
        if frame.fields["queueId"] == "0":
            return answer(frame, ResponseCode.SYSTEM_ERROR, remark="not this one")
        return script._usual(frame)

    script.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = refuse_first
    async with consumer(server, auto_commit=0.01) as reader:
        reader.assign([QUEUE, SECOND])
        for _ in range(2):
            assert await reader.poll(10) is not None
        assert await reader.poll(0) is None
        await until(lambda: script.offsets == {1: 1})
        await until(lambda: "not this one" in reader.health().degraded.get("committing offsets", ""))
        del script.answers[RequestCode.UPDATE_CONSUMER_OFFSET]
        await until(lambda: script.offsets == {0: 1, 1: 1})
        await until(lambda: not reader.health().is_degraded)


@pytest.mark.parametrize(
    ("interval", "pauses"), [(3600.0, [3600.0, 0.2, 0.4, 0.8, 3600.0]), (0.5, [0.5, 0.2, 0.4, 0.5])]
)
async def test_offsets_that_were_refused_are_due_earlier_than_after_the_interval(
    start: Start, monkeypatch: pytest.MonkeyPatch, interval: float, pauses: list[float]
) -> None:
    refusals: list[Frame] = []
    script = Script({RequestCode.PULL_MESSAGE: pulled})

    def refuse_three(frame: Frame) -> Frame | None:
        if len(refusals) == 3:
            return script._usual(frame)
        refusals.append(frame)
        return answer(frame, ResponseCode.SYSTEM_ERROR)

    script.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = refuse_three
    server = await start(script)
    paused: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        task = asyncio.current_task()
        if task is not None and task.get_name().endswith("committing offsets"):
            if paused[-1:] != [seconds]:
                paused.append(seconds)
            seconds = 0.001
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    environment = Environment(random=LEAST)
    async with consumer(server, auto_commit=interval, environment=environment) as reader:
        reader.assign([QUEUE])
        assert await reader.poll(10) is not None
        assert await reader.poll(0) is None
        await until(lambda: script.offsets == {0: 1} and len(paused) == len(pauses))
    assert paused == pytest.approx(pauses)


async def test_a_last_commit_that_is_refused_for_one_queue_ends_no_block_with_an_error(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script({RequestCode.PULL_MESSAGE: pulled}, queues=2)
    server = await start(script)
    script.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda frame: (
        answer(frame, ResponseCode.SYSTEM_ERROR) if frame.fields["queueId"] == "0" else script._usual(frame)
    )
    async with consumer(server, auto_commit=3600) as reader:
        reader.assign([QUEUE, SECOND])
        for _ in range(2):
            assert await reader.poll(10) is not None
        await reader.poll(0)
    assert script.offsets == {1: 1}
    assert "the last offsets were not committed" in caplog.text


async def test_a_reset_moves_the_queues_of_this_member_and_none_if_it_is_malformed(start: Start) -> None:
    script = Script(queues=2, offsets={0: 5, 1: 5})
    server = await start(script)
    resets = [resetting({QUEUE: 4, SECOND: -1}), resetting({QUEUE._replace(id=7): 1, SECOND: 3})]
    async with consumer(server, topics=["T"]) as reader:
        await until(lambda: len(reader.assigned) == 2)
        await asyncio.gather(*map(reader.position, reader.assigned))
        script.answers[RequestCode.HEART_BEAT] = lambda frame: b"".join(resets) + encode(answer(frame))
        session_of(reader).send_heartbeats()
        await until(lambda: script.offsets[1] == 3)
        del script.answers[RequestCode.HEART_BEAT]
        assert [await reader.position(queue) for queue in reader.assigned] == [5, 3]
    assert script.offsets == {0: 5, 1: 3}
