"""Sending and push consumption over the remoting protocol, beside a bare gRPC stub, on one real Apache server:
`python -m benchmarks.remoting [--rounds N]`.

The stub is the least that a client of its proxy can do. What is published are ratios."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from aiorocketmq.admin import Admin

from benchmarks.plan import OURS, STUB, WORKS
from benchmarks.real import real_server
from benchmarks.running import BACKLOG, BODY_BYTES, QUEUES, Effort, Result, measured, slug
from benchmarks.server import load

OVER_REMOTING = "aiorocketmq over remoting"
KINDS = ("send", "push")


def main() -> None:
    """Print each round's figures, and the ratios of the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remoting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", default="5.5.0")
    options = parser.parse_args()
    effort = Effort(rounds=options.rounds, seconds=4.0, warm_up=1.0, profile="")
    pythons = dict.fromkeys((STUB, OURS), Path(sys.executable))
    works = [work for work in WORKS if work.kind in KINDS]
    # A consumer of the remoting protocol is ten times as fast: for all to have enough, there is more to read.
    works = [replace(work, load=work.load * 4) if work.load else work for work in works]
    with real_server(options.version) as server:
        wheres = {
            STUB: (STUB, server.grpc),
            OURS: (OURS, server.grpc),
            OVER_REMOTING: (OURS, f"namesrv://{server.namesrv}"),
        }
        rounds = range(options.rounds + 1)
        asyncio.run(
            prepare(server.namesrv, rounds, [slug(work, client) for work in works for client in (STUB, OURS)])
        )
        asyncio.run(load(server.grpc, BACKLOG, max(work.load for work in works), bytes(BODY_BYTES)))
        for work in works:
            found: dict[str, list[Result]] = {name: [] for name in wheres}
            for number in rounds:
                for name, (client, endpoint) in wheres.items():
                    result = measured(work, client, endpoint, effort, pythons, prefix=prefix(name, number))
                    if number:  # the first one warms the server up
                        found[name].append(result)
                        print(
                            f"{work.title}, {name}: {result['rate']:,.0f}/s, {result['cpu_us']:.0f} us CPU",
                            flush=True,
                        )
            for figure in ("cpu_us", "rate"):
                medians = {
                    name: statistics.median(row[figure] or 0.0 for row in rows)
                    for name, rows in found.items()
                }
                print(
                    f"{work.title}: {figure} {medians[OVER_REMOTING] / medians[STUB]:.2f} times the stub's",
                    flush=True,
                )


def prefix(name: str, number: int) -> str:
    """What the topic and the group of a measurement begin with."""
    return f"{[STUB, OURS, OVER_REMOTING].index(name)}-{number}-"


async def prepare(namesrv: str, rounds: range, slugs: list[str]) -> None:
    """Make all topics and groups."""
    async with Admin(f"namesrv://{namesrv}") as admin:
        await admin.create_topic(BACKLOG, queues=QUEUES)
        for number in rounds:
            for name in (STUB, OURS, OVER_REMOTING):
                for each in slugs:
                    await admin.create_topic(prefix(name, number) + each, queues=QUEUES)
                    await admin.create_group(prefix(name, number) + each)


if __name__ == "__main__":
    main()
