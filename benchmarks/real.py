"""The same works against a real Apache server of this machine: topics and groups of their own for each round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiorocketmq.admin import Admin
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.readiness import STARTING, wait_until_ready
from anyio.from_thread import start_blocking_portal

from benchmarks.plan import CLIENTS, STUB, WORKS
from benchmarks.running import BACKLOG, BODY_BYTES, QUEUES, Effort, Result, measured, slug
from benchmarks.server import load


@contextmanager
def real_server(version: str) -> Iterator[ApacheServer]:
    """Run a server with a fresh store; it is ready when this yields it."""
    server = ApacheServer(version)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        portal.call(lambda: wait_until_ready(server.grpc, patience=STARTING))
        yield server


async def _prepare(server: ApacheServer, rounds: int) -> None:
    """Make what all rounds need; the backlog is the same for all, and read by each group from its beginning."""
    async with Admin(f"namesrv://{server.namesrv}") as admin:
        await admin.create_topic(BACKLOG, queues=QUEUES)
        for number in range(rounds + 1):
            for work in WORKS:
                for client in CLIENTS:
                    name = prefix(number) + slug(work, client)
                    await admin.create_topic(name, queues=QUEUES)
                    await admin.create_group(name)
    await load(server.grpc, BACKLOG, max(work.load for work in WORKS), bytes(BODY_BYTES))


def prefix(number: int) -> str:
    """What the names of a round begin with; round 0 is for warming the server up."""
    return f"round-{number}-"


def measured_real(
    version: str, effort: Effort, only: str, interpreters: Mapping[str, Path]
) -> dict[str, dict[str, list[Result]]]:
    """Run all rounds against one server; a client that fails at a work has no figures for it, and it says so."""
    results: dict[str, dict[str, list[Result]]] = {work.title: {} for work in WORKS}
    with real_server(version) as server:
        asyncio.run(_prepare(server, effort.rounds))
        for (
            work
        ) in WORKS:  # Java gets fast with use: nobody's figures shall suffer from having been the first
            measured(work, STUB, server.grpc, effort, interpreters, prefix=prefix(0))
        for number in range(1, effort.rounds + 1):
            for work in WORKS:
                if only not in work.title:
                    continue
                for client in CLIENTS:
                    if client not in interpreters:
                        continue
                    result = measured(work, client, server.grpc, effort, interpreters, prefix=prefix(number))
                    results[work.title].setdefault(client, []).append(result)
                    print(
                        f"{version}, round {number}, {work.title}, {client}: {result['rate']:,.0f}/s, "
                        f"{result['cpu_us']:.0f} µs CPU",
                        flush=True,
                    )
    return results


def real_run(
    version: str,
    effort: Effort,
    only: str,
    interpreters: Mapping[str, Path],
    facts: Mapping[str, str],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """What the page shows of a real server; works that are not measured now stay as they were `before`."""
    results = measured_real(version, effort, only, interpreters)
    kept = before.get("results", {}) if before.get("version") == version else {}
    return {
        "version": version,
        "effort": {
            "rounds": effort.rounds,
            "seconds": effort.seconds,
            "warm_up": effort.warm_up,
            "queues": QUEUES,
        },
        "machine": dict(facts),
        "results": {title: each or kept.get(title, {}) for title, each in results.items()},
    }
