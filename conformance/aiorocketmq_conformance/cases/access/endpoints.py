"""TLS, namespaces, and messages verified on trial; inventory 4.1."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from aiorocketmq_conformance.case import EXTENSION, SHOULD, case
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter_topic
from aiorocketmq_conformance.consumer import LEASE
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of

# Real seconds that a TLS handshake with its request may take.
TLS_WITHIN = 5.0


@case("life.verify-message", rules=("R2.11",), level=EXTENSION, needs=("@verify",))
async def verify_message(fixture: Fixture) -> None:
    """A push consumer that is asked to verify a message receives it; its result is returned to the administrator."""
    topic, consumer = await fixture.subscribed(1, kind=pb.ClientType.PUSH_CONSUMER)
    verified, _ = await fixture.send(topic, "on trial", "another")
    stream, client_id = consumer.client.stream, consumer.client.client_id
    assert stream is not None
    asking = asyncio.create_task(fixture.target.privileged.verify_message(client_id, topic, verified.id))
    while not (frame := await stream.next()).HasField("verify_message_command"):
        pass
    command = frame.verify_message_command
    assert command.message.body == b"on trial"
    assert command.message.system_properties.message_id == verified.id
    reply = pb.TelemetryCommand(verify_message_result=pb.VerifyMessageResult(nonce=command.nonce))
    reply.status.code = pb.Code.FAILED_TO_CONSUME_MESSAGE
    await stream.send(reply)
    answer = await asking
    assert answer is not None, "the result was not returned to the administrator"
    assert answer.code == pb.Code.FAILED_TO_CONSUME_MESSAGE
    # Verification does not change the message's state.
    once_each([verified, _], await consumer.take(2))


@case("life.namespace-isolated", rules=("R14.7",), level=EXTENSION, needs=("namespace",))
async def namespace_isolated(fixture: Fixture) -> None:
    """Topics of the same name in two namespaces are isolated, their messages, sent alone or in a batch, can be
    settled; their routes, and those of their dead letters, have the names that were asked for."""
    name, group = fixture.fresh("topic"), fixture.fresh("group")
    sides = {}
    for namespace in ("x", "y"):
        await fixture.target.create_topic(f"{namespace}%{name}", queues=1)
        await fixture.group(f"{namespace}%{group}")
        sides[namespace] = await fixture.client()
        settings = requests.consumer_settings(group, {name: "*"}, pb.ClientType.SIMPLE_CONSUMER)
        for resource in (settings.subscription.group, settings.subscription.subscriptions[0].topic):
            resource.resource_namespace = namespace
        await sides[namespace].send_settings(settings)
    for namespace, client in sides.items():
        messages = [requests.message(name, body) for body in (namespace, f"{namespace} again")]
        for message in messages:
            message.topic.resource_namespace = namespace
        # One by one, and in a batch.
        for batch in (messages,) if namespace == "x" else ([message] for message in messages):
            assert code_of(await client.send(*batch)) == "OK"
    for namespace, client in sides.items():
        request = pb.ReceiveMessageRequest(batch_size=32)
        request.group.CopyFrom(requests.resource(group, namespace))
        request.message_queue.topic.CopyFrom(requests.resource(name, namespace))
        requests.duration(request.invisible_duration, LEASE)
        answer = await client.receive_raw(request, deadline=LEASE)
        bodies = [delivery.message.body for delivery in answer.deliveries]
        expected = [namespace.encode(), f"{namespace} again".encode()]
        assert bodies == expected, f"namespace {namespace} receives {bodies}"
        delivery, other = answer.deliveries
        named: dict[str, Any] = {"group": request.group, "topic": request.message_queue.topic}
        change = pb.ChangeInvisibleDurationRequest(
            **named, receipt_handle=delivery.handle, message_id=delivery.id
        )
        requests.duration(change.invisible_duration, LEASE)
        changed: pb.ChangeInvisibleDurationResponse = await client.unary("ChangeInvisibleDuration", change)
        assert code_of(changed) == "OK"
        entry = pb.AckMessageEntry(message_id=other.id, receipt_handle=other.handle)
        assert (
            code_of(await client.unary("AckMessage", pb.AckMessageRequest(**named, entries=[entry]))) == "OK"
        )
        forward = pb.ForwardMessageToDeadLetterQueueRequest(
            **named, receipt_handle=changed.receipt_handle, message_id=delivery.id
        )
        assert code_of(await client.unary("ForwardMessageToDeadLetterQueue", forward)) == "OK"
        for asked in (name, dead_letter_topic(group)):
            route = await client.query_route(asked, namespace=namespace)
            found = {(each.topic.name, each.topic.resource_namespace) for each in route.message_queues}
            assert found == {(asked, namespace)}, f"the route of {asked} in {namespace} is that of {found}"


@case(
    "life.tls",
    rules=("R14.6",),
    level=SHOULD,
    needs=("tls",),
    prepared=("@topic",),
    params={"on": True, "plain": False},
)
async def tls(fixture: Fixture, secure: bool) -> None:
    """The same port serves connections with TLS [{}] and without, both within five seconds."""
    topic = await fixture.topic()
    endpoint = fixture.target.endpoint
    if secure:
        host, _, port = endpoint.rpartition(":")
        trust = (
            fixture.target.trust
            or (
                await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)), timeout=TLS_WITHIN)
            ).encode()
        )
        credentials = grpc.ssl_channel_credentials(trust)
        # A server's built-in certificate is for localhost (session §10).
        channel = grpc.aio.secure_channel(
            endpoint, credentials, options=(("grpc.ssl_target_name_override", "localhost"),)
        )
    else:
        channel = grpc.aio.insecure_channel(endpoint)
    method = METHODS["QueryRoute"]
    async with channel:
        call: Any = channel.unary_unary(
            method.path, lambda message: message.SerializeToString(), method.response.FromString
        )
        request = pb.QueryRouteRequest(topic=requests.resource(topic))
        response = await call(request, metadata=(("x-mq-client-id", "tls"),), timeout=TLS_WITHIN)
    assert code_of(response) == "OK"
