"""A broker whose master goes away and comes back: what is read at its replica meanwhile, and what is not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from aiorocketmq import Producer, PullConsumer, PushConsumer, Retry, Timeouts
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq._remoting.replicas import goes_on
from aiorocketmq.errors import PermissionDeniedError, UnreachableError
from aiorocketmq.hooks import Event, Hook, SeekEvent
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.pull_consumer import PullBatch

from sdk.tests.core.remoting.test_records import JAVA_116 as MESSAGE
from sdk.tests.remoting.script import QUEUE, Script, Serve, Server, answer, consumer, requests, seen
from sdk.tests.waiting import until

PULL, COMMIT = RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET
SEND = RequestCode.SEND_MESSAGE_V2


def stores(frame: Frame) -> Frame:
    """The answer to a send."""
    return answer(frame, fields={"queueOffset": "3", "msgId": "7F0000010000", "queueId": "0"})


def pulled(frame: Frame, code: int, following: int, *, end: int = 9, body: bytes = b"") -> Frame:
    """The answer to a pull."""
    fields = {"nextBeginOffset": str(following), "minOffset": "0", "maxOffset": str(end)}
    return answer(frame, code, fields, body)


class Pair:
    """A name server, and a master and a replica of one broker, whose logs hold so many messages."""

    def __init__(self, *, at_master: int, at_replica: int) -> None:
        self.is_gone = False
        self.dies_at: int | None = None
        """The master goes away when it is asked for this offset."""
        self.knows_master = True
        self.is_turned = False
        """The name server lists the other broker first."""
        self.writable: dict[str, int] = {}
        """Queues that may be written, of brokers that differ from the others."""
        self.queues = 1
        self.other: Server | None = None
        """The master of another broker, which has no replica."""
        self.at_master = Script({PULL: self._log(at_master)})
        self.at_replica = Script({PULL: self._log(at_replica)})
        self.names: Server
        self.master: Server
        self.replica: Server

    async def start(self, serve: Serve) -> Pair:
        self.names = await serve(self._name)
        self.master = await serve(self._as_master)
        self.replica = await serve(self.at_replica)
        return self

    async def is_asked(self, server: Server, code: RequestCode, **fields: str) -> None:
        """Wait for a request from now on that says this."""
        before = len(server.seen)
        async with asyncio.timeout(10):
            while not any(
                frame.code == code and fields.items() <= frame.fields.items()
                for frame in server.seen[before:]
            ):
                server.arrived.clear()
                await server.arrived.wait()

    def _name(self, frame: Frame) -> Frame:
        if frame.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return answer(frame, body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}')
        addresses = {"1": str(self.replica.address)} | (
            {"0": str(self.master.address)} if self.knows_master else {}
        )
        counts = {"perm": 6, "readQueueNums": self.queues}
        brokers = [{"brokerAddrs": addresses, "brokerName": "broker-a", "cluster": "c"}]
        if self.other is not None:
            brokers += [
                {"brokerAddrs": {"0": str(self.other.address)}, "brokerName": "broker-b", "cluster": "c"}
            ]
        names = [str(broker["brokerName"]) for broker in brokers][:: -1 if self.is_turned else 1]
        route = {
            "brokerDatas": brokers,
            "queueDatas": [
                {**counts, "brokerName": name, "writeQueueNums": self.writable.get(name, self.queues)}
                for name in names
            ],
        }
        return answer(frame, body=json.dumps(route).encode())

    def _as_master(self, frame: Frame) -> Frame | bytes | None:
        if frame.code == PULL and frame.fields["queueOffset"] == str(self.dies_at):
            self.is_gone, self.dies_at = True, None
        return b"" if self.is_gone else self.at_master(frame)

    @staticmethod
    def _log(end: int) -> Callable[[Frame], Frame | None]:
        def pull(frame: Frame) -> Frame | None:
            offset = int(frame.fields["queueOffset"])
            if offset >= end or frame.fields["topic"] != "T":
                return None  # held
            return pulled(frame, 0, offset + 1, end=end, body=MESSAGE)

        return pull


@pytest.fixture
async def pair(serve: Serve) -> Pair:
    """Three messages, of which the replica has two."""
    return await Pair(at_master=3, at_replica=2).start(serve)


async def test_the_replica_is_read_until_the_master_is_back_which_gets_the_commits(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.dies_at = 1
    async with consumer(pair.names, wait=20.0) as reader:
        reader.assign([QUEUE])
        first, second = await reader.poll(10), await reader.poll(10)
        assert first is not None
        assert second is not None
        assert [batch.next_offset for batch in (first, second)] == [1, 2]
        assert requests(pair.replica, PULL)[0].fields["queueOffset"] == "1"
        await reader.commit(first)
        await reader.commit(second)
        assert pair.at_master.offsets == {}
        assert "the master of broker broker-a is unavailable" in caplog.text
        assert "offset 1 is committed when the master is available again" in caplog.text
        assert reader.health().is_degraded
        # A replica is not let hold a pull for long, so that reading returns to the master soon.
        held = (await seen(pair.replica, PULL, 2))[-1]
        assert (held.fields["queueOffset"], held.fields["suspendTimeoutMillis"]) == ("2", "5000")
        pair.is_gone = False
        pair.at_replica.answers[PULL] = lambda frame: pulled(frame, ResponseCode.PULL_NOT_FOUND, 2)

        def refuse_once(frame: Frame) -> Frame:
            del pair.at_master.answers[COMMIT]
            return answer(frame, ResponseCode.SYSTEM_ERROR, remark="not yet")

        pair.at_master.answers[COMMIT] = refuse_once
        await pair.is_asked(pair.master, COMMIT, commitOffset="2")
        async with asyncio.timeout(10):
            while "not yet" not in reader.health().degraded.get("storing deferred commits", ""):  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0.001)
            while pair.at_master.offsets != {0: 2}:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert await reader.committed(QUEUE) == 2
        await reader.seek(QUEUE, 2)
        third = await reader.poll(10)
        assert third is not None
        assert third.next_offset == 3
        assert not reader.health().is_degraded
    assert not requests(pair.replica, COMMIT)


async def test_commits_of_a_second_outage_are_stored_as_well(pair: Pair) -> None:
    pair.at_replica.answers[PULL] = pair._log(9)
    pair.dies_at = 1
    async with consumer(pair.names, wait=20.0) as reader:
        reader.assign([QUEUE])
        await reader.poll(10)
        for offset in (2, 3):
            batch = await reader.poll(10)
            assert batch is not None
            pair.is_gone = True
            await reader.commit(batch)
            assert pair.at_master.offsets.get(0) != offset
            pair.is_gone = False
            await until(lambda offset=offset: pair.at_master.offsets.get(0) == offset)  # type: ignore[misc]


async def taken(reader: PullConsumer) -> PullBatch:
    batch = await reader.poll(10)
    assert batch is not None
    return batch


async def test_a_deferred_commit_is_not_overtaken_by_a_newer_one(pair: Pair) -> None:
    async with consumer(pair.names) as reader:
        reader.assign([QUEUE])
        first, second = await taken(reader), await taken(reader)
        pair.is_gone = True
        await reader.commit(first)
        await until(lambda: "storing deferred commits" in reader.health().degraded)
        pair.is_gone = False
        before = len(pair.master.seen)
        await reader.commit(second)
        await until(lambda: "storing deferred commits" not in reader.health().degraded)
        commits = [
            frame.fields["commitOffset"] for frame in pair.master.seen[before:] if frame.code == COMMIT
        ]
    assert (commits, pair.at_master.offsets) == (["2"], {0: 2})


async def test_a_reset_replaces_a_deferred_commit(pair: Pair) -> None:
    async with consumer(pair.names, topics=["T"]) as reader:
        await taken(reader)
        pair.is_gone = True
        await reader.commit(await taken(reader))
        pair.is_gone = False
        await reader._reset({QUEUE: 1})
        await until(lambda: pair.at_master.offsets == {0: 1})
        await until(lambda: "storing deferred commits" not in reader.health().degraded)
    assert pair.at_master.offsets == {0: 1}


async def test_a_deferred_commit_that_is_refused_for_good_is_dropped_and_the_next_one_raises_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    async with consumer(pair.names) as reader:
        reader.assign([QUEUE])
        first, second = await taken(reader), await taken(reader)
        pair.is_gone = True
        await reader.commit(first)
        pair.at_master.answers[COMMIT] = lambda frame: answer(
            frame, ResponseCode.NO_PERMISSION, remark="not for you"
        )
        pair.is_gone = False
        await until(lambda: "offset 1 was never committed, messages may be redelivered: " in caplog.text)
        assert "storing deferred commits" not in reader.health().degraded
        with pytest.raises(PermissionDeniedError, match="not for you"):
            await reader.commit(second)
        del pair.at_master.answers[COMMIT]
        await reader.commit(second)
    assert pair.at_master.offsets == {0: 2}


async def test_a_deferred_commit_waits_for_a_master_that_does_not_know_the_group_yet(pair: Pair) -> None:
    """As brokers from 5.3 on after a restart, until a member has pulled."""

    def refuse_once(frame: Frame) -> Frame:
        del pair.at_master.answers[COMMIT]
        return answer(frame, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)

    async with consumer(pair.names) as reader:
        reader.assign([QUEUE])
        batch = await taken(reader)
        pair.is_gone = True
        await reader.commit(batch)
        pair.at_master.answers[COMMIT] = refuse_once
        pair.is_gone = False
        await until(lambda: pair.at_master.offsets == {0: 1})
    assert COMMIT not in pair.at_master.answers


async def test_what_is_committed_while_an_older_offset_is_stored_is_stored_next(pair: Pair) -> None:
    async with consumer(pair.names) as reader:
        reader.assign([QUEUE])
        first, second = await taken(reader), await taken(reader)
        commits: list[asyncio.Future[None]] = []

        def store(frame: Frame) -> Frame:
            pair.at_master.offsets[0] = int(frame.fields["commitOffset"])
            if not commits:  # the answer is not there yet
                commits.append(asyncio.ensure_future(reader.commit(second)))
            return answer(frame)

        pair.is_gone = True
        await reader.commit(first)
        pair.at_master.answers[COMMIT] = store
        pair.is_gone = False
        await until(lambda: pair.at_master.offsets == {0: 2})
        await commits[0]


async def test_a_queue_that_is_revoked_while_its_master_is_away_takes_no_other_commit_with_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.queues = 2
    async with consumer(pair.names, topics=["T"], wait=0.05) as reader:
        batches = [await taken(reader)]
        while batches[-1].queue == batches[0].queue:
            batches.append(await taken(reader))
        pair.is_gone = True
        for batch in batches:
            await reader.commit(batch)
        pair.at_replica.consumers.append("~last")
        assert reader._rebalancing is not None
        reader._rebalancing.look()
        await until(lambda: reader.assigned == (QUEUE,))
        pair.is_gone = False
        await until(lambda: 0 in pair.at_master.offsets)
    assert [
        each.args[0].id  # type: ignore[index]
        for each in caplog.records
        if "was never committed" in each.getMessage()
    ] == [1]


@pytest.mark.parametrize(
    ("code", "is_tried_again"), [(ResponseCode.SYSTEM_ERROR, True), (ResponseCode.NO_PERMISSION, False)]
)
async def test_a_deferred_commit_that_its_master_refuses_holds_up_no_other(
    pair: Pair, code: ResponseCode, is_tried_again: bool
) -> None:
    pair.queues = 2

    def refuse_first(frame: Frame) -> Frame | bytes | None:
        if frame.fields["queueId"] == "0":
            return answer(frame, code)
        return pair.at_master._usual(frame)

    async with consumer(pair.names, topics=["T"]) as reader:
        batches = {batch.queue.id: batch for batch in [await taken(reader) for _ in range(6)]}
        pair.is_gone = True
        for number in (0, 1):
            await reader.commit(batches[number])
        pair.at_master.answers[COMMIT] = refuse_first
        pair.is_gone = False
        await until(lambda: pair.at_master.offsets == {1: batches[1].next_offset})
        await until(lambda: ("storing deferred commits" in reader.health().degraded) is is_tried_again)


async def test_a_deferred_commit_is_tried_once_more_when_the_consumer_ends(pair: Pair) -> None:
    async with consumer(pair.names) as reader:
        reader.assign([QUEUE])
        batch = await taken(reader)
        pair.is_gone = True
        await reader.commit(batch)
        await until(lambda: "storing deferred commits" in reader.health().degraded)
        pair.is_gone = False  # long before the next attempt
    assert pair.at_master.offsets == {0: 1}


async def test_without_a_replica_a_commit_to_an_unavailable_master_is_refused(
    pair: Pair, serve: Serve
) -> None:
    script = Script({PULL: pair.at_master.answers[PULL]})
    pair.other = await serve(script)
    async with consumer(pair.names) as reader:
        queues = await reader.queues("T")
        reader.assign(queues[1:])
        batch = await taken(reader)
        script.answers[COMMIT] = lambda frame: b""
        with pytest.raises(UnreachableError, match="closed the connection"):
            await reader.commit(batch)
    assert script.offsets == {}


@pytest.mark.parametrize("auto_commit", [None, 0.01])
async def test_a_commit_that_no_master_has_taken_by_the_end_is_said_to_be_lost(
    pair: Pair, auto_commit: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    pair.dies_at = 0
    pair.at_master.offsets[0] = 0
    async with consumer(pair.names, auto_commit=auto_commit) as reader:
        reader.assign([QUEUE])
        batch = await reader.poll(10)
        assert batch is not None
        if auto_commit is None:
            await reader.commit(batch)
        else:
            await reader.poll(0)
    assert "offset 1 was never committed, messages may be redelivered" in caplog.text
    assert pair.at_replica.offsets == {}


@pytest.mark.parametrize(
    ("code", "following"),
    [
        pytest.param(ResponseCode.PULL_OFFSET_MOVED, 2, id="names its own end"),
        pytest.param(ResponseCode.PULL_RETRY_IMMEDIATELY, 4, id="has not got so far"),
        pytest.param(ResponseCode.TOPIC_NOT_EXIST, 0, id="does not know the topic yet"),
        pytest.param(ResponseCode.SYSTEM_BUSY, 0, id="is not to be read"),
        pytest.param(ResponseCode.NO_PERMISSION, 0, id="does not know the user yet"),
    ],
)
async def test_a_replica_that_cannot_stand_in_moves_no_position_and_ends_no_reading(
    pair: Pair, code: ResponseCode, following: int
) -> None:
    pair.dies_at, pair.at_master.offsets[0] = 4, 4
    pair.at_replica.answers[PULL] = lambda frame: pulled(frame, code, following, end=2)
    pair.at_master.answers[PULL] = lambda frame: pulled(frame, 0, 5, body=MESSAGE)
    events: list[Event] = []

    class Seen(Hook):
        def observe(self, event: Event) -> None:
            events.append(event)

    async with consumer(pair.names, hooks=[Seen()], timeouts=Timeouts(not_found_grace=0.01)) as reader:
        reader.assign([QUEUE])
        assert {frame.fields["queueOffset"] for frame in await seen(pair.replica, PULL, 3)} == {"4"}
        assert await reader.position(QUEUE) == 4
        pair.is_gone = False
        batch = await reader.poll(10)
        assert batch is not None
        assert batch.next_offset == 5
    assert not [event for event in events if isinstance(event, SeekEvent)]


@pytest.mark.parametrize(
    ("code", "following", "goes"),
    [
        (0, 6, True),
        (0, 5, False),
        (0, 4, False),
        (ResponseCode.PULL_NOT_FOUND, 5, True),
        (ResponseCode.PULL_NOT_FOUND, 7, False),
        (ResponseCode.PULL_NOT_FOUND, 4, False),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 8, True),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 9, True),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 5, False),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, 10, False),
        (ResponseCode.PULL_OFFSET_MOVED, 7, False),
    ],
)
def test_only_what_a_replica_has_looked_through_is_followed(code: int, following: int, goes: bool) -> None:
    request = Frame(code=PULL, opaque=1)
    assert goes_on(pulled(request, code, following), 5) is goes
    # Whatever begins later than the offset asked for may skip what the master has.
    late = answer(request, 20, {"nextBeginOffset": "8", "minOffset": "6", "maxOffset": "9"})
    assert not goes_on(late, 5)
    assert not goes_on(answer(request, 0, {}), 5)


@pytest.mark.parametrize(("at_replica", "known"), [(7, 7), (None, None), (0, None)])
async def test_a_replica_that_knows_no_offset_does_not_say_that_there_is_none(
    pair: Pair, at_replica: int | None, known: int | None
) -> None:
    """Old brokers say 0 for a group that they do not know."""
    pair.knows_master = False
    if at_replica is not None:
        pair.at_replica.offsets[0] = at_replica
    async with consumer(pair.names) as reader:
        if known is not None:
            assert await reader.committed(QUEUE) == known
        else:
            with pytest.raises(UnreachableError, match="no replica can be read"):
                await reader.committed(QUEUE)


async def test_queues_of_other_brokers_are_read_on(pair: Pair, serve: Serve) -> None:
    script = Script({PULL: pair.at_master.answers[PULL]})
    pair.other = await serve(script)
    pair.is_gone = True
    pair.at_replica.answers[PULL] = lambda frame: pulled(frame, ResponseCode.SYSTEM_BUSY, 0)
    async with consumer(pair.names) as reader:
        queues = await reader.queues("T")
        reader.assign(queues)
        for offset in (1, 2, 3):
            batch = await reader.poll(10)
            assert batch is not None
            assert (batch.queue, batch.next_offset) == (queues[1], offset)
            await reader.commit(batch)
            assert script.offsets == {0: offset}
        pair.is_gone = False
        batch = await reader.poll(10)
        assert batch is not None
        assert batch.queue == QUEUE == queues[0]


async def test_a_replica_that_does_not_take_heartbeats_keeps_no_member_out(pair: Pair) -> None:
    pair.at_replica.answers[RequestCode.HEART_BEAT] = lambda frame: answer(frame, ResponseCode.SYSTEM_ERROR)
    async with consumer(pair.names, topics=["T"]) as reader:
        await until(lambda: reader.assigned == (QUEUE,))
        await seen(pair.replica, RequestCode.HEART_BEAT)
        assert reader.health().connected
        assert not reader.health().is_degraded


async def test_locks_are_taken_at_masters_alone(pair: Pair) -> None:
    pair.knows_master = False
    async with consumer(pair.names, topics=["T"], ordered=True) as reader:
        await seen(pair.replica, RequestCode.GET_CONSUMER_LIST_BY_GROUP, 2)
        assert reader.assigned == ()
        pair.knows_master = True
        await seen(pair.master, RequestCode.LOCK_BATCH_MQ)
    assert not requests(pair.replica, RequestCode.LOCK_BATCH_MQ)


async def test_a_push_consumer_handles_what_the_replica_has_and_commits_it_later(pair: Pair) -> None:
    pair.dies_at, pair.at_master.offsets[0] = 1, 0
    handled: asyncio.Queue[int | None] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        handled.put_nowait(message.offset)

    async with (
        PushConsumer(f"namesrv://{pair.names.address}", group="g", subscriptions=["T"], handler=handle),
        asyncio.timeout(20),
    ):
        await handled.get()
        await handled.get()
        assert requests(pair.replica, PULL)
        pair.is_gone = False
        pair.at_replica.answers[PULL] = lambda frame: pulled(
            frame, ResponseCode.PULL_NOT_FOUND, int(frame.fields["queueOffset"])
        )
        await handled.get()
    assert pair.at_master.offsets[0] == 3
    assert not requests(pair.replica, COMMIT)


async def test_a_producer_says_that_masters_are_away_and_sends_when_one_is_back(pair: Pair) -> None:
    pair.knows_master = False
    pair.at_master.answers[SEND] = stores
    async with Producer(f"namesrv://{pair.names.address}", retry=Retry(budget=0.3)) as producer:
        with pytest.raises(
            UnreachableError, match="masters of topic 'T' are unavailable, and replicas accept no messages"
        ):
            await producer.send(Message("T", b"x"))
        pair.knows_master = True
        assert (await producer.send(Message("T", b"x"))).offset == 3
    assert not requests(pair.replica, SEND)


async def test_a_producer_goes_on_at_a_master_that_its_name_server_has_lost(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiorocketmq._remoting.session.ROUTES", 0.01)
    pair.at_master.answers[SEND] = stores
    async with Producer(f"namesrv://{pair.names.address}") as producer:
        await producer.send(Message("T", b"x"))
        pair.knows_master = False
        await pair.is_asked(pair.names, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        await pair.is_asked(pair.names, RequestCode.GET_ROUTEINFO_BY_TOPIC)
        assert (await producer.send(Message("T", b"y"))).endpoint == str(pair.master.address)


async def test_each_queue_is_sent_to_at_its_own_broker_in_whatever_order_brokers_are_listed(
    pair: Pair, serve: Serve
) -> None:
    """The queue of a message group depends on the order."""
    pair.at_master.answers[SEND] = stores
    pair.other = await serve(Script({SEND: stores}))
    pair.writable = {"broker-a": 1, "broker-b": 3}
    messages = [Message("T", b"x", message_group=f"{number}") for number in range(20)]
    queues = []
    for pair.is_turned in (False, True):
        async with Producer(f"namesrv://{pair.names.address}") as producer:
            queues.append([receipt.queue for receipt in await producer.send_many(messages)])
    assert queues[0] == queues[1]
    for server, name, numbers in (
        (pair.master, "broker-a", {"0"}),
        (pair.other, "broker-b", {"0", "1", "2"}),
    ):
        sent = {(frame.fields["n"], frame.fields["e"]) for frame in requests(server, SEND)}
        assert sent == {(name, number) for number in numbers}
