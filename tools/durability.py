"""Kills a fake broker with a data folder in the middle of load, again and again, and looks for what was lost.

`nox -s durability -- --times 200 --seed 7`. Two promises are judged after every kill: each acknowledged send is
stored, each acknowledged message stays consumed. The last line is `N kills, N acknowledged sends, N acknowledged
messages, N broken promises`; the exit code is 1 where a promise was broken. `--sabotage` kills a broker that answers
before anything is on disk: the run must find that out.

`--damage 500` kills nobody, but damages so many data folders, a file of each: flipped bits, cut ends, zeroed pages,
garbage at the end, files that are gone, that are older copies, that are another folder's. Each must be served whole or
refused by name, and start after a repair (`tools.damage`). Its last line is `N damaged folders, N served whole, N
refused by name, N broken promises`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_fake import FakeBroker
from grpc import aio

from tools import damage

OK = 20000
TOPICS = {"plain": "NORMAL", "fifo": "FIFO", "later": "DELAY", "tx": "TRANSACTION"}
GROUPS = {"shared": False, "ordered": True}
INVISIBLE = 10
"""Seconds of a lease: the least that a receive may ask for."""
SENDERS, TAKERS = 12, 4
PROGRAM = "from aiorocketmq.cli import main; main()"
SABOTAGE = """
from aiorocketmq_fake.edge.driver import Driver
async def at_once(driver): pass
Driver.durable = at_once
"""


@dataclass
class Record:
    """What the broker has promised so far."""

    sent: dict[str, str] = field(default_factory=dict)
    """Message ids whose send (or commit) was acknowledged, with their topic."""
    acked: set[tuple[str, str]] = field(default_factory=set)
    """Group and message id of acknowledged messages."""
    broken: list[str] = field(default_factory=list)
    count: int = 0

    def new_id(self) -> str:
        """Return an id that no message has yet."""
        self.count += 1
        return f"M{self.count:08d}"


class Client:
    """Bare calls on one channel."""

    def __init__(self, endpoint: str, client_id: str) -> None:
        self.channel = aio.insecure_channel(endpoint)
        self.headers = (
            ("x-mq-client-id", client_id),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", "5.0.8"),
        )

    async def call(self, name: str, request: Any) -> Any:
        """Make a unary call. Any: each has its own classes."""
        method = METHODS[name]
        stub: Any = self.channel.unary_unary(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        return await stub(request, metadata=self.headers, timeout=30)

    async def register(self, group: str) -> Any:
        """Open a telemetry stream with a consumer's settings; the stream must be kept."""
        method = METHODS["Telemetry"]
        stub: Any = self.channel.stream_stream(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        stream = stub(metadata=self.headers)
        subscription = pb.Subscription(group=pb.Resource(name=group))
        settings = pb.Settings(client_type=pb.ClientType.SIMPLE_CONSUMER, subscription=subscription)
        await stream.write(pb.TelemetryCommand(settings=settings))
        await stream.read()
        return stream

    async def receive(self, group: str, topic: str) -> list[Any]:
        """Take what is there within a second."""
        method = METHODS["ReceiveMessage"]
        stub: Any = self.channel.unary_stream(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=pb.Resource(name=topic), id=-1),
            filter_expression=pb.FilterExpression(type=pb.FilterType.TAG, expression="*"),
            batch_size=8,
        )
        request.invisible_duration.seconds = INVISIBLE
        request.long_polling_timeout.FromMilliseconds(1000)
        stream = stub(request, metadata=self.headers, timeout=30)
        return [frame.message async for frame in stream if frame.WhichOneof("content") == "message"]


def message_of(topic: str, message_id: str, chance: random.Random) -> pb.Message:
    """Make a message that the topic takes."""
    system = pb.SystemProperties(message_id=message_id)
    if topic == "fifo":
        system.message_group = chance.choice("ABCDEF")
    if topic == "later":
        system.delivery_timestamp.FromMilliseconds(int((time.time() + chance.random() * 3) * 1000))
    if topic == "tx":
        system.message_type = pb.MessageType.TRANSACTION
    return pb.Message(
        topic=pb.Resource(name=topic), body=bytes(chance.randrange(10, 2000)), system_properties=system
    )


async def send(client: Client, record: Record, chance: random.Random) -> None:
    """Send for ever; a transaction counts once its commit is acknowledged."""
    while True:
        topic = chance.choice(list(TOPICS))
        message_id = record.new_id()
        answer = await client.call(
            "SendMessage", pb.SendMessageRequest(messages=[message_of(topic, message_id, chance)])
        )
        if answer.status.code != OK:
            record.broken.append(f"a send was refused: {answer.status.code} {answer.status.message}")
            return
        if topic == "tx":
            commit = pb.EndTransactionRequest(
                topic=pb.Resource(name=topic),
                message_id=message_id,
                transaction_id=answer.entries[0].transaction_id,
                resolution=pb.TransactionResolution.COMMIT,
            )
            if (await client.call("EndTransaction", commit)).status.code != OK:
                continue
        record.sent[message_id] = topic


async def take(client: Client, group: str, record: Record, chance: random.Random) -> None:
    """Receive for ever, acknowledge most of it; what was acknowledged before may not come."""
    stream = await client.register(group)
    try:
        while True:
            topic = chance.choice(list(TOPICS))
            for message in await client.receive(group, topic):
                message_id = message.system_properties.message_id
                if (group, message_id) in record.acked:
                    record.broken.append(f"{message_id} came back to {group} after it was acknowledged")
                if chance.random() < 0.1:
                    continue
                entry = pb.AckMessageEntry(
                    message_id=message_id, receipt_handle=message.system_properties.receipt_handle
                )
                answer = await client.call(
                    "AckMessage",
                    pb.AckMessageRequest(
                        group=pb.Resource(name=group), topic=pb.Resource(name=topic), entries=[entry]
                    ),
                )
                if [one.status.code for one in answer.entries] == [OK]:
                    record.acked.add((group, message_id))
    finally:
        stream.cancel()


async def until_it_ends(work: Callable[[], Awaitable[None]]) -> None:
    """Do work until the broker is gone."""
    with suppress(aio.AioRpcError, grpc.RpcError):
        await work()


async def start(folder: Path, *, sabotage: bool) -> tuple[asyncio.subprocess.Process, str]:
    """Start the broker; answers its process and endpoint."""
    options = [
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--data",
        str(folder),
        "--data-memory",
        "1",
    ]
    options += [word for name, kind in TOPICS.items() for word in ("--topic", f"{name}:{kind}:2")]
    options += [word for name, ordered in GROUPS.items() for word in ("--group", name + ":ordered" * ordered)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SABOTAGE * sabotage + PROGRAM, "fake", "serve", *options),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    if not line.startswith("ready"):
        raise SystemExit(f"the broker did not start again after a kill: {line or 'its errors stand above'}")
    facts = dict(word.split("=", 1) for word in line.split()[1:])
    return process, facts["grpc"]


async def one_kill(folder: Path, record: Record, chance: random.Random, *, sabotage: bool) -> None:
    """Start, load, kill."""
    process, endpoint = await start(folder, sabotage=sabotage)
    clients: list[Client] = []

    def client(name: str) -> Client:
        clients.append(Client(endpoint, name))
        return clients[-1]

    producer = client("producer")
    work = [until_it_ends(lambda: send(producer, record, chance)) for _ in range(SENDERS)]
    for number in range(TAKERS):
        group = list(GROUPS)[number % len(GROUPS)]
        consumer = client(f"{group}-{number}")
        work.append(until_it_ends(lambda c=consumer, g=group: take(c, g, record, chance)))  # type: ignore[misc]
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(chance.uniform(0.02, 1.5))
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await asyncio.wait(tasks, timeout=30)
    for task in tasks:
        task.cancel()
    for one in clients:
        await one.channel.close()


async def judge(folder: Path, record: Record, *, last: bool) -> None:
    """Look into the folder for what was promised; what is not due yet is looked for the last time only."""
    if last:
        await asyncio.sleep(4)
    async with FakeBroker(data=folder) as broker:
        stored = {message.message_id for topic in TOPICS for message in broker.messages(topic)}
    for message_id, topic in record.sent.items():
        if message_id not in stored and (last or topic != "later"):
            record.broken.append(f"{message_id}, acknowledged, is not in {topic}")


async def run(times: int, seed: int, each: int, *, sabotage: bool = False) -> Record:
    """Kill so many times; look into the folder after every `each` of them."""
    record = Record()
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="durability-"))
    try:
        for number in range(1, times + 1):
            await one_kill(folder, record, chance, sabotage=sabotage)
            if number % each == 0 or number == times:
                await judge(folder, record, last=number == times)
                print(f"{number} kills, {len(record.sent)} sends, {len(record.acked)} acks", flush=True)
            if record.broken:
                break
    finally:
        if not record.broken:
            shutil.rmtree(folder)
    return record


def damaged(count: int, seed: int) -> int:
    """Judge so many damaged folders, and tell; answers how many promises were broken."""
    with damage.folders(seed) as known:
        judgement = damage.judge(known, count, seed)
    for sentence, times in judgement.said.most_common():
        print(f"{times:5} {sentence}")
    for sentence in judgement.broken[:20]:
        print(sentence)
    print(
        f"{count} damaged folders, {judgement.served} served whole, {judgement.refused} refused by name, "
        f"{len(judgement.broken)} broken promises"
    )
    return len(judgement.broken)


def main() -> None:
    """Read the options, run, and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--each", type=int, default=10, help="look into the folder after so many kills")
    parser.add_argument("--sabotage", action="store_true", help="kill a broker that breaks the promises")
    parser.add_argument("--damage", type=int, metavar="N", help="kill nobody; damage so many data folders")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    if options.damage is not None:
        sys.exit(1 if damaged(options.damage, seed) else 0)
    record = asyncio.run(run(options.times, seed, options.each, sabotage=options.sabotage))
    for sentence in record.broken[:20]:
        print(sentence)
    print(
        f"{options.times} kills, {len(record.sent)} acknowledged sends, {len(record.acked)} acknowledged messages, "
        f"{len(record.broken)} broken promises"
    )
    sys.exit(1 if record.broken else 0)


if __name__ == "__main__":
    main()
