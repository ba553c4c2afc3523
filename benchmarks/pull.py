"""Pulling from a real Apache server: our client beside Apache's for Java, `python -m benchmarks.pull [--messages N]`.

Both read the same messages of 300 bytes from eight queues, each in a process of its own, once to warm up and once to be
measured, in turns. With `--record`, the medians are published in docs/reference/remoting-speed.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from pathlib import Path

from aiorocketmq import Admin, Message, Producer
from aiorocketmq_conformance.targets.apache.jars import fetch_jars, find_java
from aiorocketmq_conformance.targets.apache.server import ApacheServer

from benchmarks.remoting_page import OVER_REMOTING, Row, publish

JAVA = "Apache's Java client"
CLIENTS = Path(__file__).parent / "clients"
QUEUES, SIZE, BATCH = 8, 300, 32


async def main() -> None:
    """Print what each round of each client took, and the ratios of the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pull", description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", default="5.5.0")
    parser.add_argument("--record", action="store_true", help="write the medians into the published page")
    options = parser.parse_args()
    java = (
        find_java(),
        "-Xmx512m",
        "-cp",
        f"{await fetch_jars(options.version)}/*",
        str(CLIENTS / "LitePull.java"),
    )
    commands = {OVER_REMOTING: (sys.executable, str(CLIENTS / "lite_pull.py")), JAVA: java}
    async with ApacheServer(options.version) as server:
        await fill(server, options.messages)
        spent: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                row = await measured(command, server.namesrv, options.messages)
                spent[name].append(row)
                print(name, json.dumps(row), flush=True)
    rows: list[Row] = []
    for name, results in spent.items():
        seconds, cpu = (
            statistics.median(row[what] for row in results) for what in ("seconds", "cpu_seconds")
        )
        rows.append(
            {
                "work": f"pull {BATCH} at a time, id and properties read",
                "client": name,
                "rate": options.messages / seconds,
                "cpu_us": 1e6 * cpu / options.messages,
            }
        )
    publish("pull", options, rows)


async def fill(server: ApacheServer, count: int) -> None:
    """Store the messages."""
    async with Admin(f"namesrv://{server.namesrv}") as admin:
        await admin.create_topic("bulk", queues=QUEUES)
    async with Producer(server.grpc, topics=["bulk"], linger=0.005) as producer:
        for first in range(0, count, 2000):
            await producer.send_many(
                [
                    Message(
                        "bulk", b"x" * SIZE, tag="t", keys=[f"key{number}"], properties={"n": str(number)}
                    )
                    for number in range(first, min(count, first + 2000))
                ]
            )


async def measured(command: tuple[str, ...], namesrv: str, count: int) -> dict[str, float]:
    """What the second round of one process took."""
    process = await asyncio.create_subprocess_exec(
        *command, namesrv, "bulk-readers", "bulk", str(count), str(BATCH), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with {process.returncode}")
    row: dict[str, float] = json.loads(out.decode().splitlines()[-1])
    return row


if __name__ == "__main__":
    asyncio.run(main())
