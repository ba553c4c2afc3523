"""`Admin` with several masters that differ: each keeps what is its own, and what one lacks hides nothing of another."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from aiorocketmq import Admin, MessageQueue, ProducerClient, QueueRange, TopicType
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq.errors import UnreachableError

from sdk.tests.remoting.brokers import FIRST, SECOND, Broker, reply, table
from sdk.tests.remoting.script import Serve, Server
from sdk.tests.remoting.test_admin_messages import Store, at, stored

OTHER = MessageQueue("orders", "broker-b", 0)


def second_broker(**options: object) -> Broker:
    """A broker `broker-b` with one queue of the topic, whose messages are 2 to 6."""
    broker = Broker(committed={OTHER: 3})
    broker.answers[202] = lambda frame: reply(frame, body=table({OTHER: {"minOffset": 2, "maxOffset": 6}}))
    broker.answers[222] = lambda frame: _moved(broker, frame)
    for name, value in options.items():
        setattr(broker, name, value)
    return broker


def _moved(broker: Broker, frame: Frame) -> Frame:
    broker.changes.append(frame)
    return reply(frame, body=table({OTHER: int(frame.fields.get("offset", 6))}))


async def both(serve: Serve, *brokers: Broker) -> str:
    """Serve all of them; return their endpoint."""
    return f"broker://{';'.join([str((await serve(broker)).address) for broker in brokers])}"


async def test_each_master_keeps_its_own_settings_of_a_group_that_is_altered(serve: Serve) -> None:
    settings = (
        {"groupName": "billing", "retryMaxTimes": 16},
        {"groupName": "billing", "retryMaxTimes": 3, "consumeEnable": False},
    )
    brokers = [Broker(group=dict(each)) for each in settings]
    async with Admin(await both(serve, *brokers)) as admin:
        await admin.alter_group("billing", ordered=True)
    assert [[json.loads(frame.body) for frame in broker.changes] for broker in brokers] == [
        [{**each, "consumeMessageOrderly": True}] for each in settings
    ]


async def test_each_master_keeps_its_own_settings_of_a_topic_that_is_altered(serve: Serve) -> None:
    brokers = Broker(), Broker()
    brokers[1].settings |= {"perm": 2, "readQueueNums": 5, "writeQueueNums": 3}
    async with Admin(await both(serve, *brokers)) as admin:
        await admin.alter_topic("orders", readable=True)
    changes = [frame.fields for broker in brokers for frame in broker.changes]
    assert [(each["perm"], each["readQueueNums"], each["writeQueueNums"]) for each in changes] == [
        ("7", "2", "2"), ("6", "5", "3")
    ]  # fmt: skip


async def test_consumers_of_all_masters_are_listed_although_one_has_none(serve: Serve) -> None:
    endpoint = await both(serve, Broker(members={"one": b""}), Broker(), Broker(members={"three": b""}))
    async with Admin(endpoint) as admin:
        members = await admin.clients("billing")
    first, _, third = endpoint.removeprefix("broker://").split(";")
    assert [(each.client_id, each.broker) for each in members] == [("one", first), ("three", third)]


async def test_producers_of_all_masters_are_listed_although_one_has_none(serve: Serve) -> None:
    def connected(name: str) -> Broker:
        connection = {"clientId": name, "clientAddr": "10.0.0.7:1", "language": "JAVA", "version": 513}
        return Broker(answers={204: lambda frame: reply(frame, body={"connectionSet": [connection]})})

    without = Broker(answers={204: lambda frame: reply(frame, 1, remark="the group[shop] not exist")})
    endpoint = await both(serve, connected("one"), without, connected("three"))
    async with Admin(endpoint) as admin:
        producers = await admin.producers("shop")
    first, _, third = endpoint.removeprefix("broker://").split(";")
    assert producers == (
        ProducerClient("one", "10.0.0.7:1", "JAVA", first, 513),
        ProducerClient("three", "10.0.0.7:1", "JAVA", third, 513),
    )


@pytest.mark.parametrize("topic", ["orders", None])
async def test_progress_of_all_masters_is_sorted_each_queue_with_the_owner_that_its_master_knows(
    serve: Serve, topic: str | None
) -> None:
    first = Broker(members={"one": table({FIRST: {}}, "mqTable"), "two": table({SECOND: {}}, "mqTable")})
    second = second_broker(members={"three": table({OTHER: {}}, "mqTable")})
    async with Admin(await both(serve, second, first)) as admin:
        rows = await admin.progress("billing", topic)
    assert [(each.queue, each.client_id) for each in rows] == [
        (FIRST, "one"), (SECOND, "two"), (OTHER, "three")
    ]  # fmt: skip


@pytest.mark.parametrize("topic", ["orders", None])
async def test_lag_leaves_out_what_was_deleted_before_it_was_consumed(
    serve: Serve, topic: str | None
) -> None:
    server = await serve(Broker(committed={FIRST: 0}))
    async with Admin(f"broker://{server.address}") as admin:
        (row,) = await admin.progress("billing", topic)
    assert (row.offset, row.max_offset, row.lag) == (0, 9, 8)


async def test_members_of_a_broadcasting_group_own_no_queues(serve: Serve) -> None:
    """Each reads all of them, so none is asked."""
    broker = Broker(members={"one": table({FIRST: {}}, "mqTable")})
    broker.answers[203] = lambda frame: reply(
        frame, body={**broker._members(), "messageModel": "BROADCASTING"}
    )
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.client_id for each in await admin.progress("billing")] == [None, None]
    assert 307 not in [frame.code for frame in server.seen]


async def test_a_reset_returns_the_queues_of_all_masters(serve: Serve) -> None:
    async with Admin(await both(serve, Broker(), second_broker())) as admin:
        assert await admin.reset_offset("billing", "orders", to="end") == {FIRST: 1, SECOND: 2, OTHER: 6}


async def test_a_reset_by_queue_moves_each_of_them_and_leaves_other_brokers_alone(serve: Serve) -> None:
    first, second = Broker(), second_broker()
    async with Admin(await both(serve, first, second)) as admin:
        assert await admin.reset_offset("billing", "orders", to={OTHER: 4}) == {OTHER: 4}
        assert (len(first.changes), len(second.changes)) == (0, 1)
        to = {OTHER: 5, SECOND: 0, FIRST: 7}
        assert await admin.reset_offset("billing", "orders", to=to) == to
    assert [(frame.fields["queueId"], frame.fields["offset"]) for frame in first.changes] == [
        ("0", "7"), ("1", "0")
    ]  # fmt: skip
    assert [frame.fields["offset"] for frame in second.changes] == ["4", "5"]


async def test_an_old_broker_that_cannot_move_single_queues_forbids_none_of_another(serve: Serve) -> None:
    old, second = Broker(407, members={"one": b""}), second_broker()
    async with Admin(await both(serve, old, second)) as admin:
        assert await admin.reset_offset("billing", "orders", to={OTHER: 4}) == {OTHER: 4}
    assert old.changes == []


@pytest.mark.parametrize(("version", "code"), [(452, 15), (453, 222)])
async def test_servers_reset_offsets_themselves_from_5_2_on(serve: Serve, version: int, code: int) -> None:
    broker = Broker(version)
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        await admin.reset_offset("billing", "orders", to={FIRST: 7})
    assert [frame.code for frame in broker.changes] == [code]


async def test_a_server_that_finds_no_member_online_lets_us_commit(serve: Serve) -> None:
    broker = Broker(answers={222: lambda frame: reply(frame, 206, remark="")})
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to="end") == {FIRST: 9, SECOND: 0}
    assert [frame.code for frame in broker.changes] == [15, 15]


async def test_without_force_a_queue_without_progress_stays_so(serve: Serve) -> None:
    server = await serve(Broker(committed={FIRST: 4}))
    async with Admin(f"broker://{server.address}") as admin:
        assert await admin.reset_offset("billing", "orders", to="beginning", force=False) == {FIRST: 1}


class Names:
    """A name server of `broker-a`, `broker-b` and `broker-c`, which has lost its master; counts the routes it gave."""

    def __init__(self, first: Server, second: Server, *routes: Mapping[str, int]) -> None:
        self.addresses = {
            "broker-a": {"0": str(first.address)},
            "broker-b": {"0": str(second.address)},
            "broker-c": {"1": "10.0.0.1:10911"},
        }
        self.routes = routes
        """Queues by broker, of each route in turn, the last of which stays."""
        self.asked = 0

    def __call__(self, frame: Frame) -> Frame:
        brokers = {
            name: {"brokerName": name, "cluster": "c", "brokerAddrs": addresses}
            for name, addresses in self.addresses.items()
        }
        if frame.code == 106:
            return reply(frame, body={"brokerAddrTable": brokers})
        counts = self.routes[min(self.asked, len(self.routes) - 1)]
        self.asked += 1
        queues = [
            {"brokerName": name, "perm": 6, "readQueueNums": count, "writeQueueNums": count}
            for name, count in counts.items()
        ]
        return reply(frame, body={"queueDatas": queues, "brokerDatas": [brokers[each] for each in counts]})


async def test_an_altered_topic_is_awaited_at_every_master_and_at_no_broker_without_one(serve: Serve) -> None:
    servers = await serve(Broker()), await serve(Broker())
    names = Names(
        *servers,
        {"broker-a": 4, "broker-b": 2, "broker-c": 2},
        {"broker-a": 4, "broker-b": 4, "broker-c": 2},
    )
    async with Admin(f"namesrv://{(await serve(names)).address}", timeout=2.0) as admin:
        await admin.alter_topic("orders", queues=4)
    assert names.asked == 2


async def test_a_broker_that_has_lost_its_master_is_in_a_route_without_address(serve: Serve) -> None:
    servers = await serve(Broker()), await serve(Broker())
    names = Names(*servers, {"broker-b": 1, "broker-c": 2})
    async with Admin(f"namesrv://{(await serve(names)).address}") as admin:
        assert (await admin.route("orders")).queues == (
            QueueRange("broker-b", str(servers[1].address), 1, 1), QueueRange("broker-c", "", 2, 2)
        )  # fmt: skip


async def test_no_route_is_awaited_for_a_topic_that_nobody_may_use(serve: Serve) -> None:
    broker = Broker(answers={105: lambda frame: reply(frame, 17)})
    server = await serve(broker)
    broker.address = str(server.address)
    async with Admin(f"namesrv://{server.address}", timeout=1.0) as admin:
        await admin.create_topic("orders", readable=False, writable=False)
        await admin.alter_topic("orders", readable=False, writable=False)
    assert [frame.fields["perm"] for frame in broker.changes] == ["0", "0"]


async def test_all_masters_that_are_given_must_be_reached(serve: Serve) -> None:
    server = await serve(Broker())
    with pytest.raises(UnreachableError, match=r"no connection to 127\.0\.0\.1:1"):
        async with Admin(f"broker://{server.address};127.0.0.1:1"):
            raise AssertionError("entered")


@pytest.mark.parametrize(
    ("attributes", "kind", "expiration"),
    [
        ({"message.type": "LITE", "lite.topic.expiration": "5"}, TopicType.LITE, 300.0),
        ({"message.type": "LITE", "lite.topic.expiration": "-1"}, TopicType.LITE, None),
        ({"message.type": "OF_LATER"}, None, None),
        ({}, TopicType.NORMAL, None),
    ],
)
async def test_a_topic_is_described_by_its_attributes(
    serve: Serve, attributes: dict[str, str], kind: TopicType | None, expiration: float | None
) -> None:
    broker = Broker()
    broker.settings["attributes"] = attributes
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        (settings,) = (await admin.describe_topic("orders")).settings
    assert (settings.type, settings.lite_expiration) == (kind, expiration)


async def test_the_expiration_of_lite_topics_is_sent_in_minutes(serve: Serve) -> None:
    broker = Broker()
    server = await serve(broker)
    async with Admin(f"broker://{server.address}") as admin:
        await admin.create_topic("orders", type="LITE", lite_expiration=300)
    assert [frame.fields["attributes"] for frame in server.seen] == [
        "+message.type=LITE,+lite.topic.expiration=5"
    ]


async def test_of_several_copies_of_a_message_the_oldest_is_returned(serve: Serve) -> None:
    server = await serve(Store(stored(5), stored(3), stored(4)).broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert (await admin.message("orders", "M1")).offset == 3


async def test_messages_of_several_brokers_come_in_the_order_they_were_stored(serve: Serve) -> None:
    first, second = Store(stored(3), stored(5)), Store(stored(2), stored(3, stored_ms=stored(4).stored_ms))
    second.broker.answers[202] = second_broker().answers[202]
    async with Admin(await both(serve, first.broker, second.broker)) as admin:
        for options in ({}, {"key": "a"}):
            messages = await admin.messages("orders", limit=3, **options)  # type: ignore[arg-type]
            assert [(each.queue, each.offset) for each in messages] == [(OTHER, 2), (FIRST, 3), (OTHER, 3)]


async def test_all_messages_of_the_last_moment_are_read(serve: Serve) -> None:
    moment = stored(2).stored_ms
    store = Store(stored(1), stored(2), stored(3, stored_ms=moment), stored(4, stored_ms=moment + 1))
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.offset for each in await admin.messages("orders", until=at(2))] == [1, 2, 3]


async def test_reading_goes_on_behind_messages_that_were_deleted_meanwhile(serve: Serve) -> None:
    store = Store(stored(6), stored(7))
    pull = store.pull

    def moved(frame: Frame) -> Frame:
        if frame.fields["queueOffset"] == "1":
            return reply(frame, 21, nextBeginOffset="6")
        return pull(frame)

    store.broker.answers[11] = moved
    server = await serve(store.broker)
    async with Admin(f"broker://{server.address}") as admin:
        assert [each.offset for each in await admin.messages("orders")] == [6, 7]
