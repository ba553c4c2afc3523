"""A fake broker in its own process: `aiorocketmq fake serve`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aiorocketmq.cli.progress import progress
from aiorocketmq.wire.plain_text import plain_lines

from aiorocketmq_fake.broker import FakeBroker
from aiorocketmq_fake.collector import spare_the_log
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.edge.endpoint import split
from aiorocketmq_fake.edge.tls import ServerTls
from aiorocketmq_fake.user_files import read_users

__all__ = ["Options", "run"]

REMOTING_PORT = 9876
"""The usual port of name servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `fake serve`."""

    listen: str
    advertise: str | None = None
    control: str
    profile: str
    clock: Literal["real", "manual"]
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    tls_certificate: Path | None
    tls_key: Path | None
    tls_self_made: Path | None
    tls_also_plain: bool
    tls_client_trust: Path | None
    tls_client_certificate: Path | None
    users: Path | None
    rates: tuple[str, ...]
    record: Path | None
    data: Path | None = None
    data_memory: int = 64
    repair: bool = False
    event_log: Path | None
    metrics: str | None
    brokers: int = 1
    remoting_port: int | None = None
    settings: tuple[str, ...] = ()
    seed: int
    ready_file: Path | None
    as_json: bool = False


async def run(options: Options) -> None:
    """Serve until SIGINT or SIGTERM. ValueError for invalid options, OSError for unavailable ports."""
    topics = [_topic(text) for text in options.topics]
    groups = [_group(text) for text in options.groups]
    stop = asyncio.Event()
    _on_signals(stop)
    with progress("opening the broker"):  # A large data folder takes a while.
        broker = FakeBroker(
            profile=options.profile,
            settings=dict(map(_setting, options.settings)),
            clock=options.clock,
            listen=options.listen,
            advertise=options.advertise,
            control=options.control,
            tls=_tls(options),
            users=read_users(options.users) if options.users else (),
            rates=dict(map(_rate, options.rates)),
            record=options.record,
            data=options.data,
            data_memory=options.data_memory * 1024 * 1024,
            repair=options.repair,
            event_log=options.event_log,
            metrics=options.metrics,
            brokers=options.brokers,
            remoting_port=default_remoting_port(options.listen)
            if options.remoting_port is None
            else options.remoting_port,
            seed=options.seed,
        )
    async with broker:
        if broker.repaired is not None:
            print(plain_lines(broker.repaired), file=sys.stderr, flush=True)
        try:
            # Existing topics and groups of a data folder stay as they are.
            exist_ok = options.data is not None
            for topic in topics:
                await broker.create_topic(topic.name, exist_ok=exist_ok, type=topic.type, queues=topic.queues)
            for group in groups:
                await broker.create_group(
                    group.name, exist_ok=exist_ok, ordered=group.ordered, max_attempts=group.max_attempts
                )
        except Refusal as refused:
            raise ValueError(refused.message) from refused
        spare_the_log()
        _announce(broker, options)
        await stop.wait()
        await broker.stop()


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop.set)
        except NotImplementedError:
            # Windows: the loop has no signal handlers, but a plain handler can wake it.
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))


def _announce(broker: FakeBroker, options: Options) -> None:
    """Announce readiness: a line for people and scripts, a file for the parent process."""
    facts = {
        "grpc": broker.endpoint,
        "remoting": broker.remoting_endpoint,
        "control": broker.control_endpoint,
        "profile": broker.profile.name,
        "clock": options.clock,
        "tls": "yes" if broker.tls else "no",
        "pid": os.getpid(),
    }
    if broker.metrics_endpoint is not None:
        facts["metrics"] = broker.metrics_endpoint
    if options.brokers > 1:
        facts["brokers"] = ",".join(f"{node.name}={node.endpoint}" for node in broker.brokers)
    if options.ready_file is not None:
        # Renamed into place: a reader must never see half of it.
        unfinished = options.ready_file.with_name(f"{options.ready_file.name}.{os.getpid()}")
        unfinished.write_text(json.dumps(facts) + "\n")
        unfinished.replace(options.ready_file)
    # The parent may have closed its end.
    with suppress(BrokenPipeError):
        line = " ".join(("ready", *(f"{name}={value}" for name, value in facts.items())))
        print(json.dumps(facts) if options.as_json else line, flush=True)


def default_remoting_port(listen: str) -> int:
    """Return the usual port of name servers; 0, which picks a free one, if `listen` does so, too."""
    _, port = split(listen)
    return REMOTING_PORT if port else 0


def _tls(options: Options) -> ServerTls | None:
    if options.tls_self_made is not None:
        if options.tls_certificate or options.tls_key or options.tls_client_trust:
            raise ValueError(
                "--tls-self-made makes its certificates: leave --tls-certificate, --tls-key and --tls-client-trust out."
            )
        tls = ServerTls.self_made(
            ask_clients=options.tls_client_certificate is not None, also_plain=options.tls_also_plain
        )
        options.tls_self_made.write_bytes(tls.trust)
        if options.tls_client_certificate is not None:
            options.tls_client_certificate.touch(mode=0o600)
            options.tls_client_certificate.write_bytes(tls.client_certificate)
        return tls
    if options.tls_client_certificate is not None:
        raise ValueError(
            "--tls-client-certificate belongs to --tls-self-made: give both, or --tls-client-trust."
        )
    if options.tls_certificate is None and options.tls_key is None:
        if options.tls_also_plain or options.tls_client_trust:
            raise ValueError(
                "--tls-also-plain and --tls-client-trust need a certificate: give one, or --tls-self-made."
            )
        return None
    if options.tls_certificate is None or options.tls_key is None:
        raise ValueError("--tls-certificate and --tls-key belong together: give both.")
    return ServerTls.from_files(
        options.tls_certificate,
        options.tls_key,
        client_trust=options.tls_client_trust,
        also_plain=options.tls_also_plain,
    )


@dataclass(frozen=True, slots=True)
class _Topic:
    name: str
    type: str
    queues: int


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    ordered: bool
    max_attempts: int


def _rate(text: str) -> tuple[str, float]:
    """Read RPC=PER_SECOND."""
    rpc, _, number = text.partition("=")
    try:
        return rpc, float(number)
    except ValueError:
        raise ValueError(f"{text!r} is not RPC=PER_SECOND: write for example SendMessage=50.") from None


def _setting(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ValueError(f"{text!r} is not NAME=VALUE: write for example transactionCheckInterval=5000.")
    return name.strip(), value


def _topic(text: str) -> _Topic:
    """Read NAME[:TYPE[:QUEUES]]."""
    name, _, rest = text.partition(":")
    kind, _, queues = rest.partition(":")
    if not name or (queues and not queues.isdigit()):
        raise ValueError(f"{text!r} is not NAME[:TYPE[:QUEUES]]: write for example orders:FIFO:8.")
    return _Topic(name, kind.upper() or "NORMAL", int(queues or 4))


def _group(text: str) -> _Group:
    """Read NAME[:ordered][:ATTEMPTS]."""
    name, *rest = text.split(":")
    ordered = rest[:1] == ["ordered"]
    attempts = rest[1:] if ordered else rest
    if not name or len(attempts) > 1 or not all(attempt.isdigit() for attempt in attempts):
        raise ValueError(f"{text!r} is not NAME[:ordered][:ATTEMPTS]: write for example billing:ordered:5.")
    return _Group(name, ordered, int(attempts[0]) if attempts else 17)
