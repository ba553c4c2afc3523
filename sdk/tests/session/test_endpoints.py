"""Routes that name other servers than before, addresses that must be rewritten, and servers that ask who is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiorocketmq.config import Timeouts, Tls
from aiorocketmq.connection import Connection
from aiorocketmq.errors import RocketMQError, UnreachableError
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.edge.tls import ServerTls

from sdk.tests.clients import simple_consumer
from sdk.tests.waiting import until


async def test_a_route_that_moves_to_another_server_takes_the_client_along(broker: FakeBroker) -> None:
    """The new server knows our settings before any call, and the old one is left."""
    async with FakeBroker() as other:
        await other.create_topic("orders")
        used = broker.endpoint
        async with (
            Connection(broker.endpoint, address_map=lambda _: used) as rocketmq,
            Producer(rocketmq, topics=["orders"]) as producer,
        ):
            first = await producer.send(Message("orders", b"1"))
            used = other.endpoint
            await producer._session.routes.refresh()
            second = await producer.send(Message("orders", b"2"))
            assert [client.client_id for client in other.clients()] == [producer.client_id]
            assert [str(endpoint) for endpoint in producer._session.streams] == [other.endpoint]
    assert (first.endpoint, second.endpoint) == (broker.endpoint, other.endpoint)


async def test_the_server_of_a_topic_that_is_gone_is_left(broker: FakeBroker) -> None:
    async with FakeBroker() as other:
        await broker.create_topic("refunds", queues=1)
        used = broker.endpoint
        async with (
            Connection(broker.endpoint, address_map=lambda _: used) as rocketmq,
            Producer(rocketmq, topics=["orders"]) as producer,
        ):
            session = producer._session
            used = other.endpoint
            await session.routes.fetch("refunds")
            used = broker.endpoint
            assert len(session.streams) == 2
            await broker.delete_topic("refunds")
            await session.routes.refresh()
            assert [str(endpoint) for endpoint in session.streams] == [broker.endpoint]
            streams = [task for task in asyncio.all_tasks() if "the settings stream to" in task.get_name()]
            await until(lambda: sum(not task.done() for task in streams) == 1)


async def test_a_message_is_settled_where_it_came_from_though_the_route_has_moved(broker: FakeBroker) -> None:
    async with FakeBroker() as other:
        await other.create_topic("orders")
        await other.create_group("billing")
        used = broker.endpoint
        async with (
            Producer(broker.endpoint) as producer,
            Connection(broker.endpoint, address_map=lambda _: used) as rocketmq,
            simple_consumer(rocketmq) as consumer,
        ):
            await producer.send(Message("orders", b"1"))
            (message,) = await consumer.receive(wait=5)
            used = other.endpoint
            await consumer._session.routes.refresh()
            await message.ack()
        assert broker.leases("billing") == ()


async def test_a_new_server_that_cannot_be_reached_leaves_the_old_route_in_force(broker: FakeBroker) -> None:
    used = broker.endpoint
    async with (
        Connection(broker.endpoint, address_map=lambda _: used, timeouts=Timeouts(request=0.5)) as rocketmq,
        Producer(rocketmq, topics=["orders"]) as producer,
    ):
        used = "127.0.0.1:1"
        with pytest.raises(UnreachableError):
            await producer._session.routes.refresh()
        receipt = await producer.send(Message("orders", b"1"))
    assert receipt.endpoint == broker.endpoint


async def test_sends_continue_through_the_brokers_that_are_left() -> None:
    async with FakeBroker(brokers=2) as cluster:
        await cluster.create_topic("orders")
        async with Producer(cluster.endpoint, topics=["orders"], timeouts=Timeouts(request=1.0)) as producer:
            both = {(await producer.send(Message("orders", b"x"))).endpoint for _ in range(20)}
            await cluster.brokers[1].crash()
            left = {(await producer.send(Message("orders", b"x"))).endpoint for _ in range(20)}
    assert len(both) == 2
    assert left == {cluster.endpoint}


async def test_a_server_that_asks_for_a_client_certificate_gets_it() -> None:
    server = ServerTls.self_made(ask_clients=True)
    own = Tls(ca=server.trust, certificate=server.client_certificate, key=server.client_certificate)
    async with FakeBroker(tls=server) as broker:
        await broker.create_topic("orders")
        async with Producer(broker.endpoint, topics=["orders"], tls=own) as producer:
            await producer.send(Message("orders", b"x"))
        with pytest.raises(RocketMQError):
            async with Producer(
                broker.endpoint,
                topics=["orders"],
                tls=Tls(ca=server.trust),
                timeouts=Timeouts(start=1.5, request=0.5),
            ):
                pass
        assert len(broker.messages("orders")) == 1


async def test_certificates_may_be_files(tmp_path: Path) -> None:

    folder = tmp_path
    server = ServerTls.self_made(ask_clients=True)
    pem = server.client_certificate
    begin = pem.index(b"-----BEGIN CERTIFICATE")
    for name, content in (("ca.pem", server.trust), ("client.pem", pem[begin:]), ("key.pem", pem[:begin])):
        (folder / name).write_bytes(content)
    tls = Tls(ca=folder / "ca.pem", certificate=str(folder / "client.pem"), key=folder / "key.pem")
    async with FakeBroker(tls=server) as broker:
        await broker.create_topic("orders")
        async with Producer(broker.endpoint, tls=tls) as producer:
            await producer.send(Message("orders", b"x"))
        assert [message.body for message in broker.messages("orders")] == [b"x"]
