"""Sending and push consumption over the remoting protocol, beside a bare gRPC stub, on one real Apache server:
`python -m benchmarks.remoting [--rounds N]`.

The stub is the least that a client of its proxy can do. Where there is Go, Apache's client for it sends, too. With
`--record`, the medians are published in docs/reference/remoting-speed.md."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from aiorocketmq.admin import Admin

from benchmarks.plan import OURS, STUB, WORKS
from benchmarks.real import real_server
from benchmarks.remoting_page import OVER_REMOTING, Row, publish
from benchmarks.running import BACKLOG, BODY_BYTES, QUEUES, ROOT, Effort, Result, measured, slug
from benchmarks.server import load

GO = "Apache's Go client"
NAMES = (STUB, OURS, OVER_REMOTING, GO)
KINDS = ("send", "push")


def main() -> None:
    """Print each round's figures, and the ratios of the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remoting", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--version", default="5.5.0")
    parser.add_argument("--record", action="store_true", help="write the medians into the published page")
    options = parser.parse_args()
    rows: list[Row] = []
    effort = Effort(rounds=options.rounds, seconds=4.0, warm_up=1.0, profile="")
    pythons = dict.fromkeys((STUB, OURS), Path(sys.executable))
    works = [work for work in WORKS if work.kind in KINDS]
    # A consumer of the remoting protocol is ten times as fast: for all to have enough, there is more to read.
    works = [replace(work, load=work.load * 4) if work.load else work for work in works]
    with TemporaryDirectory() as folder, real_server(options.version) as server:
        go = built(Path(folder) / "client")
        wheres = {
            STUB: (STUB, server.grpc),
            OURS: (OURS, server.grpc),
            OVER_REMOTING: (OURS, f"namesrv://{server.namesrv}"),
            GO: (OURS, server.namesrv),
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
                    if name == GO and (go is None or work.kind != "send"):
                        continue
                    program = (go, server.namesrv, "load") if name == GO and go else ()
                    result = measured(
                        work,
                        client,
                        endpoint,
                        effort,
                        pythons,
                        prefix=prefix(name, number),
                        program=program,
                    )
                    if number:  # the first one warms the server up
                        found[name].append(result)
                        print(
                            f"{work.title}, {name}: {result['rate']:,.0f}/s, {result['cpu_us']:.0f} us CPU",
                            flush=True,
                        )
            for name, results in found.items():
                if results:
                    cpu, rate = (
                        statistics.median(row[figure] or 0.0 for row in results)
                        for figure in ("cpu_us", "rate")
                    )
                    rows.append({"work": work.title, "client": name, "rate": rate, "cpu_us": cpu})
    publish("send and push", options, rows)


def built(program: Path) -> Path | None:
    """Build Apache's client for Go, the one of the fake's tests; None where there is no Go."""
    go = shutil.which("go")
    if go is None:
        print(f"SKIPPED {GO}: Go was not found.", flush=True)
        return None
    subprocess.run([go, "build", "-o", program, "."], cwd=ROOT / "fake_broker/tests/peers/golang", check=True)
    return program


def prefix(name: str, number: int) -> str:
    """What the topic and the group of a measurement begin with."""
    return f"{NAMES.index(name)}-{number}-"


async def prepare(namesrv: str, rounds: range, slugs: list[str]) -> None:
    """Make all topics and groups."""
    async with Admin(f"namesrv://{namesrv}") as admin:
        await admin.create_topic(BACKLOG, queues=QUEUES)
        for number in rounds:
            for name in NAMES:
                for each in slugs:
                    await admin.create_topic(prefix(name, number) + each, queues=QUEUES)
                    await admin.create_group(prefix(name, number) + each)


if __name__ == "__main__":
    main()
