"""Starts the server and one process per measurement, in rounds, so that slow times of the machine hit all alike."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from benchmarks.plan import APACHE, CLIENTS, WORKS, Work

ROOT = Path(__file__).resolve().parent.parent
BODY_BYTES = 1024
BATCH = 32
RATE = 200.0
QUEUES = 4
BACKLOG = "backlog"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    rounds: int
    seconds: float
    warm_up: float
    profile: str


Result = dict[str, float | None]


def computer() -> str:
    """Return what this machine is, in a few words."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def slug(work: Work, client: str) -> str:
    """Name the topic and the group of one measurement."""
    return f"{work.kind}-{work.in_flight}-{CLIENTS[client].rpartition('.')[2]}"


def serving(profile: str) -> AbstractContextManager[str]:
    """Run the fake for all measurements; gives its endpoint."""
    names = [slug(work, client) for work in WORKS for client in CLIENTS]
    load = {BACKLOG: max(work.load for work in WORKS)}
    return fake(topics=[*names, BACKLOG], groups=names, load=load, profile=profile)


@contextmanager
def fake(
    *,
    topics: Sequence[str],
    groups: Sequence[str],
    load: Mapping[str, int] = MappingProxyType({}),
    profile: str = "documented",
    queues: int = QUEUES,
    is_remoting: bool = False,
) -> Iterator[str]:
    """Run the fake in a process of its own, with `load` messages in its topics; yield its endpoint, by gRPC or as a
    name server."""
    orders = {
        "profile": profile,
        "queues": queues,
        "is_remoting": is_remoting,
        "topics": topics,
        "groups": groups,
        "load": dict(load),
        "body_bytes": BODY_BYTES,
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server", json.dumps(orders)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        endpoint = server.stdout.readline().strip()
        if not endpoint:
            raise RuntimeError("the fake did not start; its own words stand above")
        yield endpoint
    finally:
        server.stdin.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def measured(
    work: Work,
    client: str,
    endpoint: str,
    effort: Effort,
    pythons: Mapping[str, Path],
    prefix: str = "",
    program: Sequence[str | Path] = (),
) -> Result:
    """Let one client do one kind of work; raises RuntimeError with its last words if it fails.

    Its topic and its group are called `prefix` and its `slug`. `program` is run in place of the client's own."""
    name = prefix + slug(work, client)
    orders = {
        "work": work.kind,
        "endpoint": endpoint,
        "topic": BACKLOG if work.load else name,
        "group": name,
        "warm_up": effort.warm_up,
        "seconds": effort.seconds,
        "in_flight": work.in_flight,
        "body_bytes": BODY_BYTES,
        "batch": BATCH,
        "rate": RATE,
        "load": work.load,
    }
    with TemporaryDirectory() as home:  # Apache's package writes log files below the home directory
        done = subprocess.run(
            [*(program or (pythons[client], "-m", CLIENTS[client])), json.dumps(orders)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "HOME": home} if client == APACHE else None,
            timeout=effort.warm_up + effort.seconds + 60,
            check=False,
        )
    if done.returncode or not done.stdout.strip():
        words = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise RuntimeError(f"{client}, {work.title}: {words[0]}")
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result
