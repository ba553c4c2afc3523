"""The control service and its client: the words of `FakeBroker`, from elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import Code, Disturbance, FakeBroker, FakeBrokerClient, FaultRule, Refusal, User
from aiorocketmq_fake.client import signed
from aiorocketmq_fake.edge.control_wire.methods import METHODS


@pytest.fixture
async def broker(running: Callable[..., Awaitable[FakeBroker]]) -> FakeBroker:
    return await running(clock="manual", control="127.0.0.1:0")


@pytest.fixture
async def remote(broker: FakeBroker) -> AsyncIterator[FakeBrokerClient]:
    assert broker.control_endpoint is not None
    async with FakeBrokerClient(broker.control_endpoint) as client:
        yield client


async def test_describe_returns_version_and_endpoint(broker: FakeBroker, remote: FakeBrokerClient) -> None:
    description = await remote.describe()
    assert description.endpoint == broker.endpoint
    assert description.profile == "documented"
    assert description.manual_clock
    assert description.running
    assert not description.tls


@pytest.mark.parametrize("is_remote", [False, True])
async def test_with_exist_ok_an_existing_topic_or_group_stays(
    broker: FakeBroker, remote: FakeBrokerClient, is_remote: bool
) -> None:
    here = remote if is_remote else broker
    await here.create_topic("new", exist_ok=True, queues=2)
    await here.create_group("new", exist_ok=True, max_attempts=3)
    before = broker.topics(), broker.groups()
    await here.create_topic("new", exist_ok=True, queues=5)
    await here.create_group("new", exist_ok=True, max_attempts=5)
    assert (broker.topics(), broker.groups()) == before
    with pytest.raises(Refusal, match="exists already"):
        await here.create_topic("new")
    with pytest.raises(Refusal, match="exists already"):
        await here.create_group("new")


async def test_remote_inspection_equals_local_inspection(
    broker: FakeBroker, remote: FakeBrokerClient, client: Any, consumer: Any
) -> None:
    await client.send("t", b"\xff\x00", tag="a", keys=["k1", "k2"], message_group="", message_id="m")
    await client.send("t", b"2", message_id="m2")
    first = await consumer.receive("g", "t", batch=1)
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name="g"),
        topic=pb.Resource(name="t"),
        receipt_handle=first.messages[0].system_properties.receipt_handle,
    )
    await consumer.call("ForwardMessageToDeadLetterQueue", request)
    await consumer.receive("g", "t", batch=1)
    assert await remote.topics() == broker.topics() != ()
    assert await remote.groups() == broker.groups() != ()
    assert await remote.clients() == broker.clients() != ()
    assert await remote.messages("t") == broker.messages("t") != ()
    assert await remote.deliveries("t") == broker.deliveries("t") != ()
    assert await remote.deliveries(group="other") == ()
    assert await remote.dead_letters("g") == broker.dead_letters("g") != ()
    assert await remote.leases("g") == broker.leases("g") != ()
    assert await remote.progress() == broker.progress() != ()
    assert await remote.totals() == broker.totals()
    assert (await remote.totals()).by_topic["t"] == 2


async def test_what_an_ordered_group_waits_for_is_listed(
    broker: FakeBroker, remote: FakeBrokerClient, connect: Callable[..., Any]
) -> None:
    await remote.create_topic("f", type="FIFO", queues=1)
    await remote.create_group("o", ordered=True)
    consumer = connect(broker, "ordered-1")
    await consumer.subscribe("o", "f")
    await consumer.send("f", b"1", message_group="x")
    await consumer.receive("o", "f")
    (record,) = await remote.order_records("o")
    assert (record,) == broker.order_records("o")
    assert (record.message_group, record.offsets) == ("x", (0,))


async def test_commands_to_clients_are_sent_remotely(
    broker: FakeBroker, remote: FakeBrokerClient, client: Any
) -> None:
    stream, _ = await client.publish("t")
    asking = asyncio.create_task(remote.print_stack_trace("raw-1"))
    order = await asyncio.wait_for(stream.read(), 10)
    trace = pb.ThreadStackTrace(
        nonce=order.print_thread_stack_trace_command.nonce, thread_stack_trace="main: idle"
    )
    await stream.write(pb.TelemetryCommand(status=pb.Status(code=pb.Code.OK), thread_stack_trace=trace))
    reply = await asking
    assert reply is not None
    assert (reply.client_id, reply.text) == ("raw-1", "main: idle")
    await remote.reconnect_endpoints("raw-1")
    order = await asyncio.wait_for(stream.read(), 10)
    assert order.WhichOneof("command") == "reconnect_endpoints_command"
    with pytest.raises(ValueError, match="is not in topic"):
        await remote.verify_message("raw-1", "t", "nothing")
    with pytest.raises(Refusal):
        await remote.print_stack_trace("nobody")


async def test_topics_and_groups_are_made_changed_and_deleted(
    broker: FakeBroker, remote: FakeBrokerClient
) -> None:
    await remote.create_topic("orders", type="FIFO", queues=3)
    await remote.update_topic("orders", type="FIFO", read_queues=2, write_queues=3, permission="READ")
    (topic,) = [topic for topic in broker.topics() if topic.name == "orders"]
    assert (topic.type, topic.read_queues, topic.write_queues, topic.permission) == ("FIFO", 2, 3, "READ")
    await remote.create_group("billing", ordered=True)
    await remote.update_group("billing", max_attempts=3, backoff=(1, 2.5))
    (group,) = [group for group in broker.groups() if group.name == "billing"]
    assert (group.ordered, group.max_attempts, group.backoff) == (False, 3, (1, 2.5))
    await remote.delete_topic("orders")
    await remote.delete_group("billing")
    assert {topic.name for topic in broker.topics()} == {"t"}
    assert {group.name for group in broker.groups()} == {"g"}


async def test_a_remote_refusal_equals_a_local_one(remote: FakeBrokerClient) -> None:
    with pytest.raises(Refusal) as refused:
        await remote.delete_topic("nowhere")
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    with pytest.raises(ValueError, match=r"type must be one of .*, got 'ODD'"):
        await remote.create_topic("orders", type="ODD")


async def test_the_clock_has_patience_remotely(
    broker: FakeBroker, remote: FakeBrokerClient, client: Any, consumer: Any
) -> None:
    """The clock of a remote test waits as well, until consumers have settled what they received."""
    await client.send("t", b"1")
    (message,) = (await consumer.receive("g", "t", invisible=30)).messages
    async with asyncio.TaskGroup() as tasks:
        advancing = tasks.create_task(remote.clock.advance(seconds=31, patience=5))
        await remote.describe()  # answered behind the begin of the advance
        answer = await consumer.ack("g", "t", message)
        await advancing
    assert answer.status.code == pb.Code.OK


async def test_the_clock_is_moved_remotely(broker: FakeBroker, remote: FakeBrokerClient) -> None:
    begun = broker.clock.now()
    await remote.clock.advance(hours=1, minutes=1, seconds=1)
    assert broker.clock.now() == begun + 3661
    assert await remote.clock.now() == broker.clock.now()
    assert await remote.clock.utc() == broker.clock.utc()
    assert await remote.clock.next_deadline() == broker.clock.next_deadline()
    assert await remote.clock.parked() == 0


async def test_a_real_clock_cannot_be_moved_remotely(
    running: Callable[..., Awaitable[FakeBroker]],
) -> None:
    broker = await running(control="127.0.0.1:0")
    assert broker.control_endpoint is not None
    async with FakeBrokerClient(broker.control_endpoint) as remote:
        with pytest.raises(ValueError, match="only a manual clock"):
            await remote.clock.advance(seconds=1)


async def test_faults_are_scripted_remotely(
    broker: FakeBroker, remote: FakeBrokerClient, client: Any
) -> None:
    async with remote.faults.refuse("SendMessage", "FORBIDDEN", topic="t", client_id="raw-1") as fault:
        assert (await client.send("t", b"1")).status.code == pb.Code.FORBIDDEN
        assert await remote.faults.at_work() == ((fault.number, fault.rule, 1),)
    assert (await client.send("t", b"1")).status.code == pb.Code.OK
    every = FaultRule(
        "Telemetry",
        Disturbance.CUT_STREAM,
        client_id="c",
        topic="t",
        group="g",
        times=3,
        skip=2,
        status="INTERNAL",
        frames=4,
    )
    added = await remote.faults.add(every)
    assert [fault.rule for fault in broker.faults] == [every]
    await added.remove()
    await added.remove()
    await remote.faults.add(replace(every, hang=True, seconds=1.5))
    await remote.faults.clear()
    assert not broker.faults


async def test_streams_are_cut_remotely(remote: FakeBrokerClient, client: Any) -> None:
    stream, _ = await client.publish("t")
    assert await remote.cut_streams("nobody") == 0
    assert await remote.cut_streams() == 1
    assert await stream.code() == grpc.StatusCode.UNAVAILABLE


async def test_offsets_are_reset_remotely(broker: FakeBroker, remote: FakeBrokerClient, client: Any) -> None:
    await client.send("t", b"1")
    assert await remote.reset_offset("g", "t", to="end") == (1,)
    assert await remote.reset_offset("g", "t", to=datetime.fromtimestamp(0, UTC)) == (0,)
    with pytest.raises(ValueError, match="to must be beginning, end or time; got 'middle'"):
        await remote.reset_offset("g", "t", to="middle")  # type: ignore[arg-type]  # that is the point


async def test_a_broker_is_restarted_remotely(
    broker: FakeBroker, remote: FakeBrokerClient, client: Any
) -> None:
    await client.publish("t")
    await remote.restart()
    assert broker.is_running
    assert broker.clients() == ()


async def test_without_a_broker_the_error_is_one_sentence(broker: FakeBroker) -> None:
    with pytest.raises(ConnectionError, match=r"no fake broker answers at 127\.0\.0\.1:1 "):
        async with FakeBrokerClient("127.0.0.1:1", timeout=5):
            pass
    with pytest.raises(ConnectionError, match="UNIMPLEMENTED"):
        async with FakeBrokerClient(broker.endpoint):
            pass


async def test_an_unconnected_client_raises_one_sentence() -> None:
    with pytest.raises(RuntimeError, match="inside `async with`"):
        await FakeBrokerClient("127.0.0.1:1").topics()


async def test_garbage_is_an_error_of_its_caller(broker: FakeBroker, remote: FakeBrokerClient) -> None:
    assert broker.control_endpoint is not None
    async with grpc.aio.insecure_channel(broker.control_endpoint) as channel:
        for name in METHODS:
            call: Any = channel.unary_unary(METHODS[name].path)
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await asyncio.wait_for(call(b"\xff\xff\xff"), 10)
            assert failed.value.code() == grpc.StatusCode.INTERNAL
    assert (await remote.describe()).running


ADMIN = User("admin", "root-s3cret")
APP = User("app", "s3cret", publish=("t",), subscribe=(), groups=("g*",), session_token="token")


async def test_users_are_changed_remotely_and_listed_without_secrets(
    broker: FakeBroker, remote: FakeBrokerClient
) -> None:
    await remote.put_user(ADMIN)
    async with FakeBrokerClient(str(broker.control_endpoint), user=ADMIN) as administrator:
        await administrator.put_user(APP)
        assert broker.users() == (ADMIN, APP)
        assert await administrator.users() == (ADMIN.without_secrets(), APP.without_secrets())
        await administrator.remove_user("app")
        assert broker.users() == (ADMIN,)
        with pytest.raises(Refusal, match="app"):
            await administrator.remove_user("app")
        with pytest.raises(ValueError, match="access key"):
            await administrator.put_user(_impossible())


@pytest.mark.parametrize(
    "user",
    [None, APP, replace(ADMIN, secret="guessed"), User("stranger", "s"), User("former", "s")],
    ids=["nobody", "without rights", "wrong secret", "stranger", "disabled"],
)
async def test_where_there_are_users_every_call_is_for_an_administrator(
    user: User | None, running: Callable[..., Awaitable[FakeBroker]]
) -> None:
    users = (ADMIN, APP, User("former", "s", enabled=False))
    broker = await running(control="127.0.0.1:0", users=users)
    endpoint = str(broker.control_endpoint)
    with pytest.raises(Refusal, match="denied") as refused:
        async with FakeBrokerClient(endpoint, user=user):
            pass
    assert refused.value.code is Code.UNAUTHORIZED
    metadata = signed(user) if user is not None else ()
    async with grpc.aio.insecure_channel(endpoint) as channel:
        for method in METHODS.values():
            call: Any = channel.unary_unary(method.path, request_serializer=method.request.SerializeToString)
            with pytest.raises(grpc.aio.AioRpcError, match="denied"):
                await asyncio.wait_for(call(method.request(), metadata=metadata), 10)
    assert broker.is_running
    assert broker.users() == tuple(sorted(users, key=lambda each: each.access_key))


async def test_the_last_administrator_stays(
    broker: FakeBroker, remote: FakeBrokerClient, running: Callable[..., Awaitable[FakeBroker]]
) -> None:
    for impossible in (APP, replace(ADMIN, enabled=False)):
        with pytest.raises(ValueError, match="no administrator would be left"):
            await remote.put_user(impossible)
    await remote.put_user(ADMIN)
    async with FakeBrokerClient(str(broker.control_endpoint), user=ADMIN) as administrator:
        await administrator.put_user(APP)
        with pytest.raises(ValueError, match="no administrator would be left"):
            await administrator.remove_user("admin")
        with pytest.raises(ValueError, match="no administrator would be left"):
            await administrator.put_user(replace(APP, access_key="admin"))
        await administrator.put_user(User("second", "s"))
        await administrator.remove_user("admin")
        with pytest.raises(Refusal, match="User:admin is not found"):
            await administrator.users()
    with pytest.raises(ValueError, match="control needs an administrator among users"):
        await running(control="127.0.0.1:0", users=[APP])


def _impossible() -> User:
    """A user that only a foreign client of the control service would send."""
    user = User("app", "s3cret")
    object.__setattr__(user, "access_key", "")
    return user


async def test_retention_is_set_remotely(broker: FakeBroker, remote: FakeBrokerClient, client: Any) -> None:
    assert (await remote.set_retention()).retention == 3 * 86_400
    kept = await remote.set_retention(retention=60, disk_used=0.8)
    assert kept == await broker.set_retention()
    assert (kept.retention, kept.disk_used, kept.stage.name) == (60, 0.8, "HIGH")
    await client.send("t", b"1")
    await broker.clock.advance(seconds=59)
    assert await remote.delete_expired() == 0
    await client.send("t", b"2")
    await broker.clock.advance(seconds=1)
    await remote.delete_expired()
    assert [message.body for message in broker.messages("t")] == [b"2"]
    with pytest.raises(Refusal, match="not 0 to 1"):
        await remote.set_retention(disk_used=2)


async def test_rates_are_set_and_lifted_remotely(broker: FakeBroker, remote: FakeBrokerClient) -> None:
    await remote.limit_rate("SendMessage", 0)
    assert await remote.rates() == broker.rates() == {"SendMessage": 0}
    await remote.limit_rate("SendMessage", None)
    assert await remote.rates() == {}
    with pytest.raises(ValueError, match="Nothing"):
        await remote.limit_rate("Nothing", 1)


async def test_lite_topics_are_set_up_and_counted_remotely(
    broker: FakeBroker, remote: FakeBrokerClient
) -> None:
    await remote.create_topic("chats", type="LITE", queues=1, lite_expiration=900.0, lite_limit=5)
    await remote.create_group("phones", lite_topic="chats", lite_quota=3, lite_exclusive=True)
    await remote.create_group("idle", consume_enabled=False)
    (chats,) = (topic for topic in await remote.topics() if topic.name == "chats")
    assert (chats.lite_expiration, chats.lite_limit) == (900.0, 5)
    groups = {group.name: group for group in await remote.groups()}
    phones = groups["phones"]
    assert (phones.lite_topic, phones.lite_quota, phones.lite_exclusive) == ("chats", 3, True)
    assert (groups["idle"].consume_enabled, phones.consume_enabled) == (False, True)
    assert await remote.lite_topics("chats") == broker.lite_topics("chats") == {}
    await remote.update_topic("chats", type="LITE", queues=1)
    (chats,) = (topic for topic in await remote.topics() if topic.name == "chats")
    assert (chats.lite_expiration, chats.lite_limit) == (None, 0)


async def test_a_broker_is_paused_and_resumed_remotely(broker: FakeBroker, remote: FakeBrokerClient) -> None:
    await remote.pause()
    assert [(one.is_paused, one.is_partitioned) for one in await remote.brokers()] == [(True, True)]
    await remote.resume()
    assert not broker.is_paused
    assert not broker.is_partitioned
