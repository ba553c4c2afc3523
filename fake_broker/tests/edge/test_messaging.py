"""The unary calls, over a real port: what goes well, and where a refusal shows."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker

OK = pb.Code.OK
UNARY = sorted(name for name, method in METHODS.items() if not method.server_streaming)


def resource(name: str) -> pb.Resource:
    return pb.Resource(name=name)


async def test_a_route_lists_every_queue_at_the_endpoint_that_was_called(
    broker: FakeBroker, client: Any
) -> None:
    await broker.create_topic("four", type="FIFO", queues=4)
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=resource("four")))
    assert response.status.code == OK
    assert [queue.id for queue in response.message_queues] == [0, 1, 2, 3]
    queue = response.message_queues[0]
    address = queue.broker.endpoints.addresses[0]
    assert f"{address.host}:{address.port}" == broker.endpoint
    assert queue.broker.endpoints.scheme == pb.AddressScheme.IPv4
    assert queue.permission == pb.Permission.READ_WRITE
    assert list(queue.accept_message_types) == [pb.MessageType.FIFO]
    assert queue.topic.name == "four"


async def test_a_route_of_an_unknown_topic_is_not_found(client: Any) -> None:
    response = await client.call("QueryRoute", pb.QueryRouteRequest(topic=resource("nowhere")))
    assert response.status.code == pb.Code.TOPIC_NOT_FOUND
    assert not response.message_queues


async def test_addresses_without_a_scheme_are_refused(client: Any) -> None:
    """R3.5."""
    endpoints = pb.Endpoints(addresses=[pb.Address(host="127.0.0.1", port=1)])
    request = pb.QueryRouteRequest(topic=resource("t"), endpoints=endpoints)
    assert (await client.call("QueryRoute", request)).status.code == pb.Code.ILLEGAL_ACCESS_POINT


async def test_a_broker_that_listens_everywhere_is_where_the_client_reached_it(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    """Behind a container's port mapping no other address works."""
    broker = await running(listen="0.0.0.0:0")
    endpoints = pb.Endpoints(
        scheme=pb.AddressScheme.DOMAIN_NAME, addresses=[pb.Address(host="mapped.example", port=18081)]
    )
    request = pb.QueryRouteRequest(topic=resource("t"), endpoints=endpoints)
    response = await connect(broker).call("QueryRoute", request)
    assert response.message_queues[0].broker.endpoints == endpoints


async def test_an_advertised_host_is_in_routes(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    """Whatever host a client used: a server's brokerIP1."""
    broker = await running(listen="0.0.0.0:0", advertise="localhost")
    endpoints = pb.Endpoints(
        scheme=pb.AddressScheme.DOMAIN_NAME, addresses=[pb.Address(host="mapped.example", port=18081)]
    )
    request = pb.QueryRouteRequest(topic=resource("t"), endpoints=endpoints)
    response = await connect(broker).call("QueryRoute", request)
    (address,) = response.message_queues[0].broker.endpoints.addresses
    assert broker.endpoint == f"localhost:{address.port}"
    assert address.host == "localhost"


async def test_an_ordinary_group_is_assigned_all_queues_at_once(client: Any) -> None:
    """R3.7."""
    request = pb.QueryAssignmentRequest(topic=resource("t"), group=resource("g"))
    response = await client.call("QueryAssignment", request)
    assert response.status.code == OK
    assert [entry.message_queue.id for entry in response.assignments] == [-1]


async def test_an_ordered_group_is_assigned_queue_by_queue(broker: FakeBroker, client: Any) -> None:
    """R3.7."""
    await broker.create_topic("four", type="FIFO", queues=4)
    await broker.create_group("og", ordered=True)
    request = pb.QueryAssignmentRequest(topic=resource("four"), group=resource("og"))
    response = await client.call("QueryAssignment", request)
    assert [entry.message_queue.id for entry in response.assignments] == [0, 1, 2, 3]


async def test_a_sent_message_arrives_with_everything_it_was_sent_with(client: Any, consumer: Any) -> None:
    """5.5."""
    message = pb.Message(topic=resource("t"), body=b"paid", user_properties={"source": "web"})
    system = message.system_properties
    system.message_id = "id-1"
    system.tag = "tag"
    system.keys.extend(["k1", "k2"])
    system.trace_context = "trace"
    system.born_host = "born.example"
    system.born_timestamp.seconds, system.born_timestamp.nanos = 1_700_000_000, 123_000_000
    system.body_encoding = pb.Encoding.IDENTITY
    sent = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
    assert sent.status.code == OK
    assert [(entry.status.code, entry.message_id, entry.offset) for entry in sent.entries] == [
        (OK, "id-1", 0)
    ]

    frames = await consumer.receive("g", "t")
    assert frames.kinds == ["status", "message", "delivery_timestamp"]
    assert frames.code == OK
    (got,) = frames.messages
    assert got.body == b"paid"
    assert got.topic.name == "t"
    assert got.user_properties["source"] == "web"
    properties = got.system_properties
    assert (properties.message_id, properties.tag, list(properties.keys)) == ("id-1", "tag", ["k1", "k2"])
    assert properties.trace_context == "trace"
    assert properties.born_host == "born.example"
    assert (properties.born_timestamp.seconds, properties.born_timestamp.nanos) == (
        1_700_000_000,
        123_000_000,
    )
    assert properties.body_digest.type == pb.DigestType.MD5
    assert properties.body_digest.checksum == hashlib.md5(b"paid").hexdigest().upper()
    assert properties.message_type == pb.MessageType.NORMAL
    assert properties.delivery_attempt == 1
    assert (properties.queue_id, properties.queue_offset) == (0, 0)
    assert properties.receipt_handle
    assert not properties.HasField("invisible_duration")
    assert not properties.HasField("delivery_timestamp")


async def test_a_blank_born_host_becomes_the_address_of_the_caller(client: Any, consumer: Any) -> None:
    """R4.3."""
    await client.send("t", b"1")
    (message,) = (await consumer.receive("g", "t")).messages
    assert message.system_properties.born_host.startswith("127.0.0.1:")


async def test_a_message_that_may_not_be_is_refused_with_its_code(client: Any) -> None:
    response = await client.send("t", b"")
    assert response.status.code == pb.Code.MESSAGE_BODY_EMPTY
    assert response.status.message
    assert not response.entries


async def test_an_acknowledged_message_is_settled(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    frames = await consumer.receive("g", "t")
    response = await consumer.ack("g", "t", *frames.messages)
    assert response.status.code == OK
    assert [entry.status.code for entry in response.entries] == [OK]
    assert response.entries[0].receipt_handle == frames.messages[0].system_properties.receipt_handle
    assert broker.leases("g") == ()


async def test_a_handle_that_is_none_is_refused_entry_by_entry(client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    (good,) = (await consumer.receive("g", "t")).messages
    bad = pb.Message(system_properties=pb.SystemProperties(message_id="x", receipt_handle="garbage"))
    response = await consumer.ack("g", "t", good, bad)
    assert response.status.code == pb.Code.MULTIPLE_RESULTS
    assert [entry.status.code for entry in response.entries] == [OK, pb.Code.INVALID_RECEIPT_HANDLE]


async def test_a_changed_lease_has_a_new_handle(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    (message,) = (await consumer.receive("g", "t", invisible=30)).messages
    request = pb.ChangeInvisibleDurationRequest(
        group=resource("g"), topic=resource("t"), receipt_handle=message.system_properties.receipt_handle
    )
    request.invisible_duration.seconds = 90
    response = await consumer.call("ChangeInvisibleDuration", request)
    assert response.status.code == OK
    assert response.receipt_handle != message.system_properties.receipt_handle
    (lease,) = broker.leases("g")
    assert lease.ends_at == pytest.approx(broker.clock.now() + 90)


async def test_a_forwarded_message_is_a_dead_letter(broker: FakeBroker, client: Any, consumer: Any) -> None:
    await client.send("t", b"1")
    (message,) = (await consumer.receive("g", "t")).messages
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=resource("g"),
        topic=resource("t"),
        receipt_handle=message.system_properties.receipt_handle,
        message_id=message.system_properties.message_id,
    )
    response = await consumer.call("ForwardMessageToDeadLetterQueue", request)
    assert response.status.code == OK
    assert [letter.body for letter in broker.dead_letters("g")] == [b"1"]


async def test_a_heartbeat_of_a_known_client_is_welcome(consumer: Any) -> None:
    request = pb.HeartbeatRequest(group=resource("g"), client_type=pb.ClientType.SIMPLE_CONSUMER)
    assert (await consumer.call("Heartbeat", request)).status.code == OK


async def test_a_heartbeat_without_settings_is_not(client: Any) -> None:
    """R2.14."""
    response = await client.call("Heartbeat", pb.HeartbeatRequest(group=resource("g")))
    assert response.status.code == pb.Code.UNRECOGNIZED_CLIENT_TYPE


async def test_a_second_termination_is_refused(broker: FakeBroker, consumer: Any) -> None:
    """R2.16."""
    request = pb.NotifyClientTerminationRequest(group=resource("g"))
    assert (await consumer.call("NotifyClientTermination", request)).status.code == OK
    assert broker.clients() == ()
    response = await consumer.call("NotifyClientTermination", request)
    assert response.status.code == pb.Code.UNRECOGNIZED_CLIENT_TYPE


@pytest.mark.parametrize("language", ["", "python", "GOLANG", "DOT_NET"])
async def test_a_good_bye_in_an_unknown_language_fails(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], language: str
) -> None:
    """R1.1: the contract's own names are not all usable."""
    client = connect(await running(profile="apache-5.5"), language=language)
    response = await client.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
    assert response.status.code == pb.Code.INTERNAL_SERVER_ERROR


async def test_a_delayed_message_can_be_recalled(broker: FakeBroker, client: Any) -> None:
    await broker.create_topic("later", type="DELAY")
    due = pb.Timestamp(seconds=int(broker.clock.now()) + 3600)
    sent = await client.send("later", b"1", delivery_timestamp=due)
    assert sent.entries[0].recall_handle
    request = pb.RecallMessageRequest(topic=resource("later"), recall_handle=sent.entries[0].recall_handle)
    response = await client.call("RecallMessage", request)
    assert response.status.code == OK
    assert response.message_id == sent.entries[0].message_id
    await broker.clock.advance(hours=2)
    assert broker.messages("later") == ()


async def test_a_decision_about_an_unknown_transaction_is_refused(client: Any) -> None:
    request = pb.EndTransactionRequest(
        topic=resource("t"),
        transaction_id="nothing",
        message_id="m",
        resolution=pb.TransactionResolution.COMMIT,
    )
    assert (await client.call("EndTransaction", request)).status.code == pb.Code.INVALID_TRANSACTION_ID


async def test_a_committed_message_appears(broker: FakeBroker, client: Any) -> None:
    await broker.create_topic("tx", type="TRANSACTION")
    sent = await client.send("tx", b"1", message_type=pb.MessageType.TRANSACTION)
    assert broker.messages("tx") == ()
    request = pb.EndTransactionRequest(
        topic=resource("tx"),
        transaction_id=sent.entries[0].transaction_id,
        message_id=sent.entries[0].message_id,
        resolution=pb.TransactionResolution.COMMIT,
    )
    assert (await client.call("EndTransaction", request)).status.code == OK
    assert [message.body for message in broker.messages("tx")] == [b"1"]


async def test_offsets_are_stored_and_found_again(client: Any) -> None:
    """10.1."""
    await client.send("t", b"1", message_id="1")
    await client.send("t", b"2", message_id="2")
    queue = pb.MessageQueue(topic=resource("t"), id=0)
    get = pb.GetOffsetRequest(group=resource("g"), message_queue=queue)
    assert (await client.call("GetOffset", get)).status.code == pb.Code.OFFSET_NOT_FOUND
    update = pb.UpdateOffsetRequest(group=resource("g"), message_queue=queue, offset=1)
    assert (await client.call("UpdateOffset", update)).status.code == OK
    assert (await client.call("GetOffset", get)).offset == 1
    end = pb.QueryOffsetRequest(message_queue=queue, query_offset_policy=pb.QueryOffsetPolicy.END)
    assert (await client.call("QueryOffset", end)).offset == 2


@pytest.mark.parametrize("name", UNARY)
async def test_every_unary_call_wants_a_client_id(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], name: str
) -> None:
    """R1.1."""
    broker = await running(profile="apache-5.5" if name == "SyncLiteSubscription" else "documented")
    response = await connect(broker, "").call(name, METHODS[name].request())
    assert response.status.code == pb.Code.CLIENT_ID_REQUIRED


@pytest.mark.parametrize("name", ["UpdateOffset", "GetOffset", "QueryOffset"])
async def test_calls_that_the_profile_does_not_serve_are_unimplemented(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], name: str
) -> None:
    """R10.1."""
    broker = await running(profile="apache-5.5")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await connect(broker).call(name, METHODS[name].request())
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_lite_topics_of_a_server_in_local_mode_do_not_work(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    """Session §0."""
    client = connect(await running(profile="apache-5.5"))
    blank = await client.call("SyncLiteSubscription", pb.SyncLiteSubscriptionRequest())
    assert blank.status.code == pb.Code.ILLEGAL_TOPIC
    named = pb.SyncLiteSubscriptionRequest(topic=resource("t"), group=resource("g"))
    response = await client.call("SyncLiteSubscription", named)
    assert response.status.code == pb.Code.INTERNAL_SERVER_ERROR


async def test_a_throttled_change_returns_its_own_handle(broker: FakeBroker, client: Any) -> None:
    """R1.3."""
    await broker.limit_rate("ChangeInvisibleDuration", 0)
    request = pb.ChangeInvisibleDurationRequest(
        group=resource("g"), topic=resource("t"), receipt_handle="a handle"
    )
    response = await client.call("ChangeInvisibleDuration", request)
    assert response.status.code == pb.Code.TOO_MANY_REQUESTS
    assert response.receipt_handle == "a handle"


async def test_calls_above_the_rate_are_refused_until_time_has_passed(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any]
) -> None:
    broker = await running(clock="manual", rates={"SendMessage": 2, "ReceiveMessage": 0})
    client = connect(broker)
    await client.subscribe("g", "t")
    codes = [(await client.send("t", b"%d" % number)).status.code for number in range(3)]
    assert codes == [OK, OK, pb.Code.TOO_MANY_REQUESTS]
    assert len(broker.messages("t")) == 2
    await broker.clock.advance(seconds=1)
    assert (await client.send("t", b"4")).status.code == OK
    assert (await client.receive("g", "t")).code == pb.Code.TOO_MANY_REQUESTS
    assert broker.rates() == {"SendMessage": 2, "ReceiveMessage": 0}


@pytest.mark.parametrize(
    ("version", "code"), [("5.0.2", pb.Code.BAD_REQUEST), ("5.0.3", pb.Code.ILLEGAL_POLLING_TIME)]
)
async def test_old_clients_know_no_illegal_polling_time(
    running: Callable[..., Awaitable[FakeBroker]], connect: Callable[..., Any], version: str, code: int
) -> None:
    client = connect(await running(profile="apache-5.5"), client_version=version)
    await client.subscribe("g", "t")
    assert (await client.receive("g", "t", wait=20, deadline=4.5)).code == code
