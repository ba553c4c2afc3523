"""Users and their rights on the wire, and namespaces (14)."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.core.values.profiles import PROFILES
from aiorocketmq_fake.edge.admission import NAMED

Running = Callable[..., Awaitable[FakeBroker]]
Connect = Callable[..., Any]
DATE = "20260819T101112Z"
STREAMS = ("ReceiveMessage", "PullMessage")


def signed(secret: str = "secret", key: str = "app") -> tuple[tuple[str, str], ...]:
    shown = hmac.digest(secret.encode(), DATE.encode(), "sha1").hex()
    return (
        ("x-mq-date-time", DATE),
        (
            "authorization",
            f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={shown}",
        ),
    )


@pytest.fixture
def login(connect: Connect) -> Connect:
    """Make bare clients that sign every call."""

    def make(broker: FakeBroker, client_id: str = "raw-1", **who: str) -> Any:
        client = connect(broker, client_id)
        client.metadata += signed(**who)
        return client

    return make


async def code_of(client: Any, name: str) -> int:
    request = METHODS[name].request()
    if name in STREAMS:
        async for frame in client.stream(name, request):
            return int(frame.status.code)
    return int((await client.call(name, request)).status.code)


def test_every_method_declares_its_rights() -> None:
    assert set(NAMED) == set(METHODS)


@pytest.mark.parametrize("profile", PROFILES)
async def test_no_call_without_a_signature_is_acted_on(
    profile: str, running: Running, connect: Connect
) -> None:
    broker = await running(profile=profile, users=[User("app", "secret")])
    anonymous = connect(broker, "")
    for name in broker.profile.served_rpcs - {"Telemetry"}:
        assert await code_of(anonymous, name) == pb.Code.UNAUTHORIZED, name


async def test_a_signed_call_without_a_client_id_is_refused_for_that(
    running: Running, login: Connect
) -> None:
    broker = await running(users=[User("app", "secret")])
    assert await code_of(login(broker, ""), "QueryRoute") == pb.Code.CLIENT_ID_REQUIRED


async def test_a_stream_without_a_signature_gets_one_status_and_a_normal_end(
    running: Running, connect: Connect
) -> None:
    broker = await running(users=[User("app", "secret")])
    stream, answer = await connect(broker).publish("t")
    assert answer.status.code == pb.Code.UNAUTHORIZED
    await stream.read()
    assert (await stream.code()).name == "OK"
    assert broker.clients() == ()


async def test_a_user_with_all_rights_sends_and_receives(running: Running, login: Connect) -> None:
    broker = await running(users=[User("app", "secret")])
    client = login(broker)
    await client.subscribe("g", "t")
    assert (await client.send("t", b"1")).status.code == pb.Code.OK
    frames = await client.receive("g", "t")
    assert frames.bodies == [b"1"]
    assert (await client.ack("g", "t", *frames.messages)).status.code == pb.Code.OK


async def test_each_right_is_checked(running: Running, login: Connect) -> None:
    broker = await running(
        users=[
            User("writer", "secret", publish=("t",), subscribe=(), groups=()),
            User("reader", "secret", publish=(), subscribe=("t",), groups=("g",)),
        ]
    )
    writer, reader = login(broker, "w", key="writer"), login(broker, "r", key="reader")
    assert (await writer.send("t", b"1")).status.code == pb.Code.OK
    assert (await reader.send("t", b"2")).status.code == pb.Code.UNAUTHORIZED
    assert len(broker.messages("t")) == 1
    _, settings = await reader.subscribe("g", "t")
    assert settings.status.code == pb.Code.OK
    _, settings = await writer.subscribe("g", "t")
    assert settings.status.code == pb.Code.UNAUTHORIZED
    assert (await writer.receive("g", "t")).code == pb.Code.UNAUTHORIZED
    assert (await reader.receive("other", "t")).code == pb.Code.UNAUTHORIZED
    assert (await reader.receive("g", "t")).bodies == [b"1"]
    assert (await writer.send("t")).status.code == pb.Code.UNAUTHORIZED


async def test_a_user_that_is_removed_is_refused_at_once(running: Running, login: Connect) -> None:
    broker = await running(users=[User("app", "secret")])
    client = login(broker)
    assert (await client.send("t", b"1")).status.code == pb.Code.OK
    await broker.remove_user("app")
    assert (await client.send("t", b"2")).status.code == pb.Code.UNAUTHORIZED
    await broker.put_user(User("app", "secret"))
    assert (await client.send("t", b"3")).status.code == pb.Code.OK
    assert [user.access_key for user in broker.users()] == ["app"]


# Namespaces


def resource(name: str, namespace: str = "") -> Any:
    return pb.Resource(name=name, resource_namespace=namespace)


def send_to(topic: Any, body: bytes) -> Any:
    system = pb.SystemProperties(message_id=body.decode())
    return pb.SendMessageRequest(messages=[pb.Message(topic=topic, body=body, system_properties=system)])


async def receive_from(client: Any, requests: Any, group: Any, topic: Any) -> Any:
    request = requests.receive("", "")
    request.group.CopyFrom(group)
    request.message_queue.topic.CopyFrom(topic)
    return await requests.collect(client.stream("ReceiveMessage", request))


async def in_namespace(client: Any, namespace: str, topic: str = "t", group: str = "g") -> Any:
    subscription = pb.Subscription(
        group=resource(group, namespace),
        subscriptions=[pb.SubscriptionEntry(topic=resource(topic, namespace))],
    )
    settings = pb.Settings(client_type=pb.ClientType.SIMPLE_CONSUMER, subscription=subscription)
    _, answer = await client.settings(settings)
    return answer


async def test_one_name_in_two_namespaces_is_two_topics(
    running: Running, connect: Connect, requests: Any
) -> None:
    broker = await running()
    for namespace in ("x", "y"):
        await broker.create_topic(f"{namespace}%t", queues=1)
        await broker.create_group(f"{namespace}%g")
    clients = {namespace: connect(broker, f"c-{namespace}") for namespace in ("", "x", "y")}
    for namespace, client in clients.items():
        answer = await in_namespace(client, namespace)
        assert answer.settings.subscription.group == resource("g", namespace)
        assert answer.settings.subscription.subscriptions[0].topic == resource("t", namespace)
        sent = await client.call(
            "SendMessage", send_to(resource("t", namespace), namespace.encode() or b"none")
        )
        assert sent.status.code == pb.Code.OK
    for namespace, client in clients.items():
        frames = await receive_from(client, requests, resource("g", namespace), resource("t", namespace))
        assert frames.bodies == [namespace.encode() or b"none"]
        assert frames.messages[0].topic == resource("t", namespace)


async def test_a_route_in_a_namespace_shows_the_names_of_the_request(
    running: Running, connect: Connect
) -> None:
    broker = await running()
    await broker.create_topic("x%t", queues=1)
    client = connect(broker)
    answer = await client.call("QueryRoute", pb.QueryRouteRequest(topic=resource("t", "x")))
    assert answer.message_queues[0].topic == resource("t", "x")
    missing = await client.call("QueryRoute", pb.QueryRouteRequest(topic=resource("t", "y")))
    assert missing.status.code == pb.Code.TOPIC_NOT_FOUND


async def test_dead_letters_stay_in_their_namespace(
    running: Running, connect: Connect, requests: Any
) -> None:
    broker = await running(clock="manual")
    await broker.create_topic("x%t", queues=1)
    await broker.create_group("x%g", max_attempts=1)
    await broker.create_group("x%reader")
    client = connect(broker)
    await in_namespace(client, "x")
    await client.call("SendMessage", send_to(resource("t", "x"), b"1"))
    await receive_from(client, requests, resource("g", "x"), resource("t", "x"))
    await broker.clock.advance(seconds=31)
    reader = connect(broker, "reader")
    dead = "%DLQ%g"
    await in_namespace(reader, "x", dead, "reader")
    await broker.reset_offset("x%reader", "%DLQ%x%g", to="beginning")
    frames = await receive_from(reader, requests, resource("reader", "x"), resource(dead, "x"))
    assert frames.messages[0].topic == resource(dead, "x")


async def test_a_namespace_with_a_percent_sign_is_refused(running: Running, connect: Connect) -> None:
    client = connect(await running())
    answer = await client.call("SendMessage", send_to(resource("t", "a%b"), b"1"))
    assert answer.status.code == pb.Code.ILLEGAL_TOPIC
    blank = await client.call("SendMessage", send_to(resource(" ", "x"), b"1"))
    assert blank.status.code == pb.Code.ILLEGAL_TOPIC


async def test_namespaces_are_lost_on_a_server_as_found(
    running: Running, connect: Connect, requests: Any
) -> None:
    broker = await running(profile="apache-5.5")
    client = connect(broker)
    await in_namespace(client, "x")
    await client.call("SendMessage", send_to(resource("t", "x"), b"1"))
    frames = await receive_from(client, requests, resource("g", "y"), resource("t", "y"))
    assert frames.messages[0].topic == resource("t")
