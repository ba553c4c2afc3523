"""The scenarios of servers/test_what_apaches_client_fails.py, met by Apache's Python client: what it does instead.

They were seen with the version named below. A newer one may have mended them: then these tests say so and are skipped,
and the pages that name the scenarios have to be looked at again.
"""

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import LiteSubscribed

pytestmark = pytest.mark.peer

SEEN_WITH = "5.1.2"
PATIENCE = 60.0

PRELUDE = """
import json, os, sys, threading, time
from rocketmq import (
    ClientConfiguration, ConsumeResult, Credentials, FilterExpression, LitePushConsumer, Message, MessageListener,
    Producer, PushConsumer, SimpleConsumer,
)

configuration = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=3)

def say(**facts):
    print(json.dumps(facts), flush=True)

def started(client):
    client.startup()
    assert client._init_settings_event.wait(10)
    return client

def message(body):
    one = Message()
    one.topic, one.body = "orders", body
    return one

class Listener(MessageListener):
    def __init__(self, consume):
        self.consume_one = consume

    def consume(self, message):
        return self.consume_one(message)

def push(consume):
    return started(PushConsumer(configuration, "billing", Listener(consume), {"orders": FilterExpression()}))
"""


class Program:
    """Apache's client in a process of its own, which says what it sees, a line of JSON each time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        assert line, "the program ended"
        return dict(json.loads(line))

    def tell(self) -> None:
        """Write the empty line that it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")


@pytest.fixture
async def run(apache_python: Path, tmp_path: Path) -> Any:
    """Start a program; it is killed when the test ends."""
    if f"-{SEEN_WITH}-" not in str(apache_python):
        pytest.skip(f"seen with {SEEN_WITH}, and the newest is another: look whether it still fails")
    running: list[asyncio.subprocess.Process] = []

    async def start(program: str, endpoint: str) -> Program:
        process = await asyncio.create_subprocess_exec(
            *(apache_python, "-c", PRELUDE + program, endpoint),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # The package writes log files below the home directory as soon as it is imported.
            env={**os.environ, "HOME": str(tmp_path)},
        )
        running.append(process)
        return Program(process)

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def broker() -> Any:
    async with FakeBroker() as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        yield broker


async def _end(events: Any) -> None:
    """Wait for the end of what does not end."""
    async for _ in events:
        pass


async def sent(broker: FakeBroker, *bodies: bytes) -> str:
    """The id of the last one."""
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        receipts = [await producer.send(Message("orders", body)) for body in bodies]
    return receipts[-1].message_id


PUSH = """
consumer = push(lambda message: ConsumeResult.SUCCESS)
say(id=consumer.client_id)
sys.stdin.read()
"""


async def test_metrics_off_its_push_consumer_is_deaf_to_its_server(run: Any, broker: FakeBroker) -> None:
    program = await run(PUSH, broker.endpoint)
    client_id = (await program.says())["id"]
    message_id = await sent(broker, b"x")
    assert await broker.verify_message(client_id, "orders", message_id) is None


SIMPLE = """
consumer = started(SimpleConsumer(configuration, "billing", {"orders": FilterExpression()}, await_duration=5))
say(id=consumer.client_id)
sys.stdin.read()
"""


async def test_broken_stream_it_is_not_opened_again(run: Any, broker: FakeBroker) -> None:
    program = await run(SIMPLE, broker.endpoint)
    await program.says()
    with broker.faults.fail("Telemetry", skip=1_000_000) as opened:  # only counts them
        assert broker.cut_streams() == 1
        # Ours is back within four seconds at most; this one waits for its next settings, five minutes later.
        async with broker.events.subscribe() as events:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(8):
                    await _end(events)
        assert opened.seen == 0


FORK = """
producer = started(Producer(configuration, ["orders"]))
producer.send(message(b"parent"))
child = os.fork()
if not child:
    producer.send(message(b"child"))
    os._exit(0)
ends = time.monotonic() + 10
while time.monotonic() < ends and not os.waitpid(child, os.WNOHANG)[0]:
    time.sleep(0.1)
try:
    os.kill(child, 9)
    say(hung=True)
except ProcessLookupError:
    say(hung=False)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
async def test_fork_the_child_waits_for_ever(run: Any, broker: FakeBroker) -> None:
    program = await run(FORK, broker.endpoint)
    assert (await program.says()) == {"hung": True}


DEAD = """
producer = Producer(configuration, ["orders"])
producer.startup()
say(running=producer.is_running)
os._exit(0)
"""


async def test_dead_endpoint_it_says_that_it_runs(run: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        program = await run(DEAD, f"127.0.0.1:{free.getsockname()[1]}")
        assert (await program.says()) == {"running": True}


LITE = """
consumer = started(LitePushConsumer(configuration, "chat", "sessions", Listener(lambda _: ConsumeResult.SUCCESS)))
consumer.subscribe_lite("order")
say(subscribed=True)
sys.stdin.read()
"""


async def test_lite_subscribe_a_name_is_taken_for_its_letters(run: Any, broker: FakeBroker) -> None:
    await broker.create_topic("sessions", type="LITE", queues=1)
    await broker.create_group("chat", lite_topic="sessions", lite_quota=5)
    requested: list[object] = []
    program = await run(LITE, broker.endpoint)
    with broker.events.listen(requested.extend):
        await program.says()
    assert {name for event in requested if isinstance(event, LiteSubscribed) for name in event.names} == set(
        "order"
    )


STOP = """
stopping = threading.Event()

def consume(message):
    stopping.wait()
    time.sleep(3)
    return ConsumeResult.SUCCESS

consumer = push(consume)
say(ready=True)
sys.stdin.readline()
stopping.set()
consumer.shutdown()
say(stopped=True)
os._exit(0)
"""


async def test_stop_with_messages_in_flight_others_wait_for_its_leases(run: Any, broker: FakeBroker) -> None:
    program = await run(STOP, broker.endpoint)
    await program.says()
    async with asyncio.timeout(PATIENCE), broker.events.subscribe() as events:
        await sent(broker, *(b"%d" % number for number in range(60)))
        async for _ in events:
            if len(broker.leases("billing")) == 60:
                break
    program.tell()
    assert (await program.says()) == {"stopped": True}
    assert len(broker.leases("billing")) > 20


SHORT = """
consumer = started(SimpleConsumer(configuration, "billing", {"orders": FilterExpression()}, await_duration=1))
try:
    consumer.receive(8, 30)
    say(refused=None)
except Exception as error:
    say(refused=str(error))
os._exit(0)
"""


async def test_short_await_every_receive_is_refused(run: Any) -> None:
    async with FakeBroker(profile="apache-5.5") as broker:
        await broker.create_topic("orders", queues=1)
        await broker.create_group("billing")
        program = await run(SHORT, broker.endpoint)
        assert "polling time" in (await program.says())["refused"]
