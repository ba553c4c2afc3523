"""Scripted faults, each seen by a client over a real port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import Disturbance, FakeBroker, FaultRule
from aiorocketmq_fake.core.values.events import Stored

Happened = Callable[[type], Awaitable[Any]]
Until = Callable[[Callable[[], object]], Awaitable[None]]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def status_of(call: Awaitable[Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code()


async def test_a_refused_call_does_nothing_and_the_rule_is_spent(broker: FakeBroker, client: Any) -> None:
    fault = broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", "slow down", times=2)
    for _ in range(2):
        response = await client.send("t", b"1")
        assert (response.status.code, response.status.message) == (pb.Code.TOO_MANY_REQUESTS, "slow down")
    assert broker.messages("t") == ()
    assert fault.hits == 2
    assert not broker.faults
    assert (await client.send("t", b"1")).status.code == pb.Code.OK


async def test_a_failed_call_does_nothing(broker: FakeBroker, client: Any) -> None:
    with broker.faults.fail("SendMessage", "RESOURCE_EXHAUSTED"):
        assert await status_of(client.send("t", b"1")) == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert broker.messages("t") == ()
    assert (await client.send("t", b"1")).status.code == pb.Code.OK


async def test_a_dropped_reply_comes_after_the_deed(broker: FakeBroker, client: Any) -> None:
    with broker.faults.drop_reply("SendMessage", times=1):
        assert await status_of(client.send("t", b"1")) == UNAVAILABLE
    with broker.faults.drop_reply("SendMessage", status="ABORTED"):
        assert await status_of(client.send("t", b"2")) == grpc.StatusCode.ABORTED
    broker.faults.add(FaultRule("SendMessage", Disturbance.DROP_REPLY))
    assert await status_of(client.send("t", b"3")) == UNAVAILABLE
    assert [message.body for message in broker.messages("t")] == [b"1", b"2", b"3"]


async def test_a_hanging_reply_leaves_the_caller_to_its_deadline(
    broker: FakeBroker, client: Any, requests: Any
) -> None:
    with broker.faults.drop_reply("SendMessage", hang=True):
        call = client.call("SendMessage", requests.send("t", b"1"), timeout=0.2)
        assert await status_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(broker.messages("t")) == 1


async def test_a_hanging_call_does_not_stop_the_clock(
    broker: FakeBroker, client: Any, happened: Happened, requests: Any
) -> None:
    with broker.faults.drop_reply("SendMessage", hang=True):
        async with asyncio.TaskGroup() as tasks:
            hanging = tasks.create_task(client.call("SendMessage", requests.send("t", b"1"), timeout=None))
            await happened(Stored)
            start = broker.clock.now()
            await asyncio.wait_for(broker.clock.advance(hours=1), 2)
            assert broker.clock.now() == start + 3600
            hanging.cancel()


async def test_a_duplicated_call_is_done_twice_and_answered_once(broker: FakeBroker, client: Any) -> None:
    with broker.faults.duplicate("SendMessage", times=1) as fault:
        response = await client.send("t", b"1")
    assert [entry.offset for entry in response.entries] == [0]
    assert [message.body for message in broker.messages("t")] == [b"1", b"1"]
    assert fault.hits == 1


async def test_a_duplicated_call_that_is_refused_is_answered_so(broker: FakeBroker, client: Any) -> None:
    with broker.faults.duplicate("SendMessage"):
        assert (await client.send("nowhere", b"1")).status.code == pb.Code.TOPIC_NOT_FOUND


async def test_a_delayed_call_waits_on_the_brokers_clock(
    broker: FakeBroker, client: Any, until: Until
) -> None:
    begun = broker.clock.now()
    with broker.faults.delay("SendMessage", 30):
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(client.send("t", b"1"))
            await until(broker.clock.next_deadline)
            await broker.clock.advance(seconds=29)
            assert broker.messages("t") == ()
            await broker.clock.advance(seconds=1)
    assert sending.result().status.code == pb.Code.OK
    assert broker.messages("t")[0].stored_at == pytest.approx(begun + 30, abs=0.001)


async def test_a_cancelled_caller_of_a_delayed_call_changes_nothing(
    broker: FakeBroker, client: Any, requests: Any, until: Until
) -> None:
    with broker.faults.delay("SendMessage", 30):
        call = client.call("SendMessage", requests.send("t", b"1"), timeout=0.2)
        assert await status_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
    # The caller's deadline ended the call; the broker notices a moment later.
    await until(lambda: broker.clock.next_deadline() is None)
    await broker.clock.advance(minutes=1)
    assert broker.messages("t") == ()


async def test_a_real_clock_ends_delays_by_itself(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    broker = await running(clock="real")
    broker.faults.delay("SendMessage", 0.02)
    assert (await connect(broker).send("t", b"1")).status.code == pb.Code.OK


async def test_a_refused_receive_carries_the_code(broker: FakeBroker, consumer: Any) -> None:
    with broker.faults.refuse("ReceiveMessage", 42900):
        assert (await consumer.receive("g", "t")).code == pb.Code.TOO_MANY_REQUESTS


async def test_a_failed_receive_leases_nothing(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    with broker.faults.fail("ReceiveMessage"):
        assert await status_of(consumer.receive("g", "t")) == UNAVAILABLE
    assert broker.leases() == ()


async def test_a_dropped_receive_leaves_its_messages_leased(
    broker: FakeBroker, client: Any, consumer: Any
) -> None:
    await client.send("t", b"1")
    with broker.faults.drop_reply("ReceiveMessage"):
        assert await status_of(consumer.receive("g", "t")) == UNAVAILABLE
    assert [lease.attempt for lease in broker.leases("g")] == [1]


async def test_a_receive_cut_in_the_middle_gives_the_rest_back(
    broker: FakeBroker, client: Any, consumer: Any, requests: Any
) -> None:
    """R5.7."""
    for number in range(3):
        await client.send("t", b"%d" % number, message_id=str(number))
    with broker.faults.cut_stream("ReceiveMessage", frames=2, times=1):
        stream = consumer.stream("ReceiveMessage", requests.receive("g", "t"))
        kinds = [(await stream.read()).WhichOneof("content") for _ in range(2)]
        assert kinds == ["status", "message"]
        assert await stream.code() == UNAVAILABLE
    assert (await consumer.receive("g", "t")).bodies == [b"1", b"2"]


async def test_a_delayed_receive_waits_on_the_brokers_clock(
    broker: FakeBroker, client: Any, consumer: Any, until: Until
) -> None:
    await client.send("t", b"1")
    with broker.faults.delay("ReceiveMessage", 30):
        async with asyncio.TaskGroup() as tasks:
            receiving = tasks.create_task(consumer.receive("g", "t"))
            await until(lambda: any(fault.hits for fault in broker.faults))
            await broker.clock.advance(seconds=30)
    assert receiving.result().bodies == [b"1"]


async def test_a_pull_can_be_cut(broker: FakeBroker, client: Any) -> None:
    request = pb.PullMessageRequest(
        group=pb.Resource(name="g"), message_queue=pb.MessageQueue(topic=pb.Resource(name="t"), id=0)
    )
    with broker.faults.cut_stream("PullMessage", status="INTERNAL"):
        stream = client.stream("PullMessage", request)
        assert await stream.code() == grpc.StatusCode.INTERNAL


async def test_refused_settings_get_a_status_and_a_normal_end(broker: FakeBroker, client: Any) -> None:
    with broker.faults.refuse("Telemetry", "UNAUTHORIZED"):
        stream, reply = await client.publish("t")
    assert reply.status.code == pb.Code.UNAUTHORIZED
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() == grpc.StatusCode.OK


async def test_a_failed_stream_ends_with_the_status(broker: FakeBroker, client: Any) -> None:
    with broker.faults.fail("Telemetry", "PERMISSION_DENIED"):
        assert await status_of(client.publish("t")) == grpc.StatusCode.PERMISSION_DENIED
    assert broker.clients() == ()


async def test_settings_without_a_reply_are_stored(broker: FakeBroker, client: Any) -> None:
    with broker.faults.drop_reply("Telemetry"):
        assert await status_of(client.publish("t")) == UNAVAILABLE
    assert [each.client_id for each in broker.clients()] == ["raw-1"]


async def test_a_stream_whose_reply_was_lost_gets_commands(
    broker: FakeBroker, client: Any, until: Until
) -> None:
    with broker.faults.drop_reply("Telemetry", hang=True):
        opening = asyncio.ensure_future(client.publish("t"))
        await until(broker.clients)
    await broker.reconnect_endpoints("raw-1")
    _, command = await opening
    assert command.WhichOneof("command") == "reconnect_endpoints_command"


async def test_a_telemetry_stream_breaks_after_some_frames(broker: FakeBroker, client: Any) -> None:
    with broker.faults.cut_stream("Telemetry", frames=1):
        stream, reply = await client.publish("t")
        assert reply.status.code == pb.Code.OK
        assert await status_of(stream.read()) == UNAVAILABLE


async def test_settings_can_be_late(broker: FakeBroker, client: Any, until: Until) -> None:
    with broker.faults.delay("Telemetry", 5):
        async with asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(client.publish("t"))
            await until(broker.clock.next_deadline)
            assert broker.clients() == ()
            await broker.clock.advance(seconds=5)
    _, reply = opening.result()
    assert reply.status.code == pb.Code.OK


async def test_a_rule_means_the_calls_that_it_names_and_no_others(
    broker: FakeBroker, client: Any, connect: Callable[..., Any]
) -> None:
    await broker.create_topic("u")
    broker.faults.refuse("SendMessage", "FORBIDDEN", client_id="raw-1", topic="u", skip=1)
    codes = [
        (await client.send("t", b"1")).status.code,
        (await connect(broker, "other").send("u", b"1")).status.code,
        (await client.send("u", b"1")).status.code,
        (await client.send("u", b"1")).status.code,
    ]
    assert codes == [pb.Code.OK, pb.Code.OK, pb.Code.OK, pb.Code.FORBIDDEN]


async def test_a_rule_for_a_group_means_its_calls(broker: FakeBroker, consumer: Any) -> None:
    await broker.create_group("h")
    broker.faults.refuse("*", "FORBIDDEN", group="h")
    codes = []
    for group in ("g", "h"):
        request = pb.QueryAssignmentRequest(topic=pb.Resource(name="t"), group=pb.Resource(name=group))
        codes.append((await consumer.call("QueryAssignment", request)).status.code)
    assert codes == [pb.Code.OK, pb.Code.FORBIDDEN]


async def test_the_oldest_rule_that_fits_acts_alone(broker: FakeBroker, client: Any) -> None:
    first = broker.faults.refuse("SendMessage", "FORBIDDEN", times=1)
    second = broker.faults.refuse("SendMessage", "UNAUTHORIZED")
    codes = [(await client.send("t", b"1")).status.code for _ in range(2)]
    assert codes == [pb.Code.FORBIDDEN, pb.Code.UNAUTHORIZED]
    assert (first.hits, second.hits) == (1, 1)


async def test_all_rules_end_at_once(broker: FakeBroker, client: Any) -> None:
    broker.faults.refuse("SendMessage", "FORBIDDEN")
    broker.faults.clear()
    assert (await client.send("t", b"1")).status.code == pb.Code.OK


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: FaultRule("Send", Disturbance.FAIL), "got 'Send'"),
        (lambda: FaultRule("SendMessage", Disturbance.CUT_STREAM), "cut_stream needs one of"),
        (lambda: FaultRule("Telemetry", Disturbance.DUPLICATE), "duplicate is impossible"),
        (lambda: FaultRule("SendMessage", Disturbance.FAIL, times=0), "times must be 1 or more"),
        (lambda: FaultRule("SendMessage", Disturbance.DELAY, seconds=-1), "must be 0 or more"),
        (lambda: FaultRule("SendMessage", Disturbance.FAIL, status="OK"), "status must be one of"),
        (lambda: FaultRule("SendMessage", Disturbance.REFUSE), "such as [A-Z_]+; got 0"),
        (lambda: FaultRule("SendMessage", Disturbance.REFUSE, code=4242), "such as [A-Z_]+; got 4242"),
        (lambda: FaultRule("*", Disturbance.REFUSE, code=16), "such as [A-Z_]+; got 16"),
        (lambda: FaultRule("Remoting.PULL", Disturbance.FAIL), "one of .*PULL_MESSAGE.* got 'Remoting.PULL'"),
        (
            lambda: FaultRule("Remoting.PULL_MESSAGE", Disturbance.REFUSE, code=4242),
            "such as [A-Z_]+; got 4242",
        ),
        (lambda: FaultRule("Remoting.PULL_MESSAGE", Disturbance.REFUSE, code=0), "such as [A-Z_]+; got 0"),
        (
            lambda: FaultRule("Remoting.PULL_MESSAGE", Disturbance.REFUSE, code=40300),
            "such as [A-Z_]+; got 40300",
        ),
        (lambda: FaultRule("Remoting.PULL_MESSAGE", Disturbance.CUT_STREAM), "cut_stream needs one of"),
        (lambda: FaultRule("Remoting.PULL_MESSAGE", Disturbance.DUPLICATE), "duplicate is impossible"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_where_it_is_made(
    make: Callable[[], FaultRule], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


def test_every_call_may_fail_with_every_status() -> None:
    for method in METHODS:
        for status in grpc.StatusCode:
            if status is not grpc.StatusCode.OK:
                FaultRule(method, Disturbance.FAIL, status=status.name)


async def test_a_code_that_does_not_exist_is_refused(broker: FakeBroker) -> None:
    with pytest.raises(ValueError, match="got 'NOPE'"):
        broker.faults.refuse("SendMessage", "NOPE")
    with pytest.raises(ValueError, match=r"such as [A-Z_]+; got 1"):
        broker.faults.refuse("SendMessage", 1)


async def test_a_lost_call_has_no_effect_and_no_answer(
    broker: FakeBroker, client: Any, consumer: Any, requests: Any
) -> None:
    with broker.faults.lose("*"):
        call = client.call("SendMessage", requests.send("t", b"1"), timeout=0.2)
        assert await status_of(call) == grpc.StatusCode.DEADLINE_EXCEEDED
        receive = consumer.stream("ReceiveMessage", requests.receive("g", "t", wait=5), timeout=0.2)
        assert await status_of(requests.collect(receive)) == grpc.StatusCode.DEADLINE_EXCEEDED
        await broker.clock.advance(seconds=1)
    assert broker.messages("t") == ()
    assert (await client.send("t", b"1")).status.code == pb.Code.OK


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_fault_by_chance_is_the_same_for_the_same_seed(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], seed: int
) -> None:
    codes = []
    for _ in range(2):
        broker = await running(clock="manual", seed=seed)
        broker.faults.refuse("SendMessage", "TOO_MANY_REQUESTS", chance=0.5)
        client = connect(broker)
        codes.append([(await client.send("t", b"1")).status.code for _ in range(40)])
    assert codes[0] == codes[1]
    assert 5 < codes[0].count(pb.Code.OK) < 35


@pytest.mark.parametrize("chance", [-0.1, 1.1])
def test_a_chance_is_a_share(chance: float) -> None:
    with pytest.raises(ValueError, match="chance must be 0 to 1"):
        FaultRule("*", Disturbance.FAIL, chance=chance)


async def test_a_real_clock_jumps_as_a_machines_clock_is_set(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    broker = await running()
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    await consumer.send("t", b"1")
    assert len((await consumer.receive("g", "t", invisible=600, wait=5)).messages) == 1
    before = broker.clock.now()
    broker.clock.jump(3600)
    assert broker.clock.now() >= before + 3600
    await consumer.subscribe("g", "t")
    again = await consumer.receive("g", "t", wait=5)
    assert again.messages[0].system_properties.delivery_attempt == 2
    broker.clock.jump(-7200)
    still = broker.clock.now()
    assert broker.clock.now() == still >= before + 3600, "time never falls"


@pytest.mark.parametrize("left", [-1.0, 0.2], ids=["beyond the end of a lease", "shortly before it"])
async def test_a_jump_of_a_real_clock_fires_timers_at_once(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], left: float
) -> None:
    broker = await running()
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    await consumer.send("t", b"1")
    await consumer.receive("g", "t", invisible=20, wait=5)
    waiting = asyncio.create_task(consumer.receive("g", "t", wait=30, deadline=40))
    async with asyncio.timeout(5):
        while not broker.clock.parked:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        broker.clock.jump(20 - left)
        messages = (await waiting).messages
    assert messages[0].system_properties.delivery_attempt == 2


async def leasing(broker: FakeBroker, connect: Callable[..., Any]) -> Any:
    """A consumer that has leased a message for ten seconds."""
    consumer = connect(broker)
    await consumer.subscribe("g", "t")
    await consumer.send("t", b"1")
    assert len((await consumer.receive("g", "t", invisible=10, wait=5)).messages) == 1
    return consumer


async def test_a_manual_clock_jumps_forward_at_once_and_never_back(
    broker: FakeBroker, connect: Callable[..., Any]
) -> None:
    await leasing(broker, connect)
    before = broker.clock.now()
    broker.clock.jump(-3600)
    assert broker.clock.now() == before
    assert broker.leases("g"), "told of an earlier time, it lets nothing end"
    broker.clock.jump(60)
    assert broker.clock.now() == before + 60
    assert not broker.leases("g")


async def test_a_paused_broker_does_nothing_and_makes_up_for_it_once(
    broker: FakeBroker, connect: Callable[..., Any]
) -> None:
    consumer = await leasing(broker, connect)
    with broker.pause():
        assert broker.clock.next_deadline() is None
        await broker.clock.advance(seconds=60)
        assert broker.leases("g"), "the lease is over, and nobody has noticed"
        waiting = asyncio.create_task(consumer.receive("g", "t", invisible=10, wait=5))
        await asyncio.sleep(0)
        assert not waiting.done()
    again = await waiting
    assert [one.system_properties.delivery_attempt for one in again.messages] == [2]
    (lease,) = broker.leases("g")
    assert lease.ends_at >= broker.clock.now() + 9


@pytest.mark.parametrize("seconds", [60.0, -60.0])
async def test_a_clock_that_is_set_during_a_pause_does_not_end_it(
    broker: FakeBroker, connect: Callable[..., Any], seconds: float
) -> None:
    consumer = await leasing(broker, connect)
    with broker.pause():
        broker.clock.jump(seconds)
        assert broker.leases("g"), "leases expired during the pause"
        waiting = asyncio.create_task(consumer.send("t", b"2"))
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    again = await consumer.receive("g", "t", invisible=10, wait=5)
    assert len(again.messages) == (2 if seconds > 0 else 1)


async def test_a_poll_that_is_cancelled_during_a_pause_gets_nothing(
    broker: FakeBroker, connect: Callable[..., Any], until: Until
) -> None:
    consumer = await leasing(broker, connect)
    polling = asyncio.create_task(consumer.receive("g", "t", invisible=10, wait=30))
    await until(lambda: broker.clock.parked)
    with broker.pause():
        await broker.clock.advance(seconds=60)
        polling.cancel()
        await until(lambda: not broker.clock.parked)
    again = await consumer.receive("g", "t", invisible=10, wait=5)
    assert [one.system_properties.delivery_attempt for one in again.messages] == [2]
