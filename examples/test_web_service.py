"""The web service, its clients and the fake broker in one event loop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from aiorocketmq import Message, Producer
from aiorocketmq_fake import FakeBroker
from fastapi import FastAPI
from httpx2 import ASGITransport, AsyncClient
from web_service import GROUP, TOPIC, Order, Shop, create_app

ORDER = {"customer": "ann", "article": "shoes", "pieces": 2}


@pytest.fixture
async def app(rocketmq: FakeBroker) -> AsyncIterator[FastAPI]:
    await rocketmq.create_topic(TOPIC)
    await rocketmq.create_group(GROUP, max_attempts=3)
    app = create_app(rocketmq.endpoint)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(transport=ASGITransport(app), base_url="http://shop") as client:
        yield client


async def test_an_order_is_sent_and_booked(app: FastAPI, client: AsyncClient, rocketmq: FakeBroker) -> None:
    answer = await client.post("/orders", json=ORDER)
    assert answer.status_code == 202
    (message,) = rocketmq.messages(TOPIC)
    assert answer.json() == {"message_id": message.message_id}
    await rocketmq.clock.advance(seconds=1, patience=5)
    shop: Shop = app.state.shop
    assert shop.booked == [Order(customer="ann", article="shoes", pieces=2)]


async def test_a_message_that_is_no_order_becomes_a_dead_letter(
    client: AsyncClient, rocketmq: FakeBroker
) -> None:
    async with Producer(rocketmq.endpoint) as producer:
        await producer.send(Message(TOPIC, b"no JSON"))
    await rocketmq.clock.advance(seconds=1, patience=5)
    assert [letter.body for letter in rocketmq.dead_letters(GROUP)] == [b"no JSON"]


async def test_readiness_follows_the_broker(client: AsyncClient, rocketmq: FakeBroker) -> None:
    assert (await client.get("/ready")).status_code == 200
    await rocketmq.crash()
    with anyio.fail_after(20):
        while (await client.get("/ready")).status_code != 503:
            await anyio.lowlevel.checkpoint()
    assert (await client.get("/alive")).status_code == 200  # it waits, and needs no restart
    await rocketmq.start()


async def test_an_order_of_a_wrong_form_is_refused(client: AsyncClient, rocketmq: FakeBroker) -> None:
    answer = await client.post("/orders", json={**ORDER, "pieces": 0})
    assert answer.status_code == 422
    assert rocketmq.messages(TOPIC) == ()


async def test_sigterm_ends_the_server_in_good_order(rocketmq: FakeBroker) -> None:
    """As a container is stopped: the lifespan ends, and with it the clients."""
    await rocketmq.create_topic(TOPIC)
    await rocketmq.create_group(GROUP)
    command = [sys.executable, "-m", "uvicorn", "web_service:app", "--port", "0"]
    environment = {**os.environ, "ROCKETMQ_ENDPOINT": rocketmq.endpoint}
    async with await anyio.open_process(
        command, cwd=Path(__file__).parent, env=environment, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        output = ""
        while not re.search(r"running on http://127.0.0.1:\d+", output):
            output += (await server.stdout.receive()).decode()
        assert len(rocketmq.clients()) == 2
        server.send_signal(signal.SIGTERM)
        await server.wait()  # uvicorn ends by the same signal when it has cleaned up
    assert rocketmq.clients() == ()
